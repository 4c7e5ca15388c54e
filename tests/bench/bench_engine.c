/* The engine alone, without processes: loads a GGUF file into private memory and measures prefill and decode, or writes
 * the logits after given tokens, float32 [tokens][vocabulary].
 *
 *   bench_engine MODEL [--threads N] [--level ref|avx2|avx512] [--prefill N] [--decode N] [--streams N]
 *                      [--kv bf16|int8] [--int8]
 *   bench_engine MODEL --tokens "1,2,3" --logits FILE [--from N]     those before N through prefill, the rest through
 *                                                                    decode
 */
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "numa/bind.h"
#include "src/clock.h"
#include "src/engine/scheduler.h"
#include "src/load/model_gguf.h"

struct bench {
	struct model model;
	struct tokenizer *tokenizer;
	struct gemm *gemm;
	struct team *team;
	struct arena arena;
	struct kv kv;
	struct forward *forward;
	struct scheduler *scheduler;
	enum cpu_level level;
	unsigned n_threads, chunk, n_prefill, n_decode, n_streams, from;
	bool int8;
	enum kv_type kv_type;
	const char *tokens, *logits;
	unsigned n_tokens, n_done;
};

static void die(const char *what, const struct err *err)
{
	fprintf(stderr, "bench_engine: %s: %s\n", what, err->text);
	exit(1);
}

static void *load_image(const char *path, uint64_t *bytes)
{
	struct err err = {""};
	struct stat st;
	int fd = open(path, O_RDONLY);
	if (fd < 0 || fstat(fd, &st))
		err_set(&err, 0, "cannot open"), die(path, &err);
	const char *file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	struct gguf gguf;
	struct model_plan plan;
	struct image_header header;
	struct image_tables tables;
	uint64_t need;
	if (gguf_parse(file, (uint64_t)st.st_size, (uint64_t)st.st_size, &gguf, &need, &err) ||
	    model_gguf_plan(&gguf, &plan, &err) || model_plan_tables(&plan, &tables, &err) ||
	    image_plan(&plan.config, plan.tensors, plan.n_tensors, &tables, &header, &err))
		die(path, &err);
	char *image =
		mmap(NULL, header.image_bytes + (2 << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	image = (char *)(((uintptr_t)image + (2 << 20) - 1) & ~(uintptr_t)((2 << 20) - 1));
	madvise(image, header.image_bytes, MADV_HUGEPAGE);
	memcpy(image, &header, sizeof header);
	memcpy(image + header.tensors_offset, plan.tensors, plan.n_tensors * sizeof *plan.tensors);
	for (uint32_t i = 0; i < plan.n_tensors; i++) {
		const struct image_tensor *t = &plan.tensors[i];
		const char *source = file + gguf.tensors[i].offset;
		if (t->vector) {
			memcpy(image + t->offset, source, (size_t)t->cols * 4);
			continue;
		}
		size_t row = pack_source_row_bytes(t->kind, t->cols), block = pack_block_row_bytes(t->kind, t->cols);
		for (uint32_t r = 0; r < t->rows; r += PACK_ROWS)
			pack_block_row(t->kind, image + t->offset + r / PACK_ROWS * block, source + r * row,
				       t->rows - r < PACK_ROWS ? t->rows - r : PACK_ROWS, t->cols);
	}
	if (tokenizer_table_build(&plan.tokenizer, image + header.tokenizer_offset, tables.tokenizer_bytes, &err))
		die(path, &err);
	*bytes = header.image_bytes;
	return image;
}

static int bind_cpu(void *arg, unsigned thread)
{
	(void)arg;
	struct idset cpu = {{0}};
	idset_add(&cpu, thread);
	return bind_thread(&cpu, NULL);
}

static void on_token(void *arg, struct generation *g, const struct scheduler_token *t)
{
	struct bench *b = arg;
	b->n_tokens += !t->is_prompt;
	(void)g;
}

static void on_done(void *arg, struct generation *g, const char *text, uint32_t n)
{
	((struct bench *)arg)->n_done++;
	(void)g, (void)text, (void)n;
}

static void on_failed(void *arg, struct generation *g, const char *reason)
{
	(void)arg, (void)g;
	fprintf(stderr, "bench_engine: %s\n", reason);
	exit(1);
}

static void make_engine(struct bench *b)
{
	struct err err = {""};
	enum numerics numerics = b->int8 ? NUMERICS_INT8 : kernels_numerics(b->level);
	const struct kernels *kernels = kernels_get(b->level, numerics);
	uint32_t context = 8192;
	if (!kernels)
		err_set(&err, 0, "not on this CPU"), die(numerics_name(numerics), &err);
	if (model_gemm(&b->model, b->level, numerics, &b->gemm, &err) ||
	    team_new(b->n_threads, 1, bind_cpu, NULL, &b->team, &err) || arena_init(&b->arena, (size_t)64 << 30, &err))
		die("engine", &err);
	kv_init(&b->kv, &b->model.config, b->kv_type, &b->arena, 8 * kv_pages_for(context));
	struct forward_setup forward = {
		.model = &b->model,
		.kernels = kernels,
		.gemm = b->gemm,
		.team = b->team,
		.arena = &b->arena,
		.kv = &b->kv,
		.numerics = numerics,
		.max_rows = b->chunk,
		.max_context = context,
	};
	if (forward_new(&forward, &b->forward, &err))
		die("forward", &err);
	struct scheduler_setup scheduler = {
		.model = &b->model,
		.tokenizer = b->tokenizer,
		.forward = b->forward,
		.kv = &b->kv,
		.team = b->team,
		.sink = {.arg = b, .token = on_token, .done = on_done, .failed = on_failed},
		.prefill_chunk = b->chunk,
		.max_running = DECODE_ROWS_MAX,
		.context_tokens = context,
	};
	if (scheduler_new(&scheduler, &b->scheduler, &err))
		die("scheduler", &err);
}

static void add(struct bench *b, uint64_t id, unsigned n_prompt, unsigned n_answer)
{
	struct generation_params params = {
		.sampler = {.top_p = 1, .repeat_penalty = 1}, .max_tokens = n_answer, .ignore_end = true};
	uint32_t *prompt = malloc(n_prompt * sizeof *prompt);
	for (unsigned i = 0; i < n_prompt; i++)
		prompt[i] = (uint32_t)((i * 7919 + id * 31) % b->model.config.vocab);
	scheduler_add(b->scheduler, generation_new(id, &params, prompt, n_prompt, NULL, 0, "", 0));
}

static double run(struct bench *b)
{
	uint64_t start = clock_now_ns();
	while (scheduler_step(b->scheduler))
		;
	return (double)(clock_now_ns() - start) * 1e-9;
}

/* Runs tokens [at, at + n) of one sequence, and writes their logits. */
static void run_rows(struct bench *b, struct kv_sequence *sequence, const uint32_t *tokens, uint32_t at, uint32_t n,
		     enum phase phase, FILE *out)
{
	struct batch_row rows[LOGIT_ROWS_MAX];
	uint32_t numbers[LOGIT_ROWS_MAX];
	struct batch batch = {phase, n, rows};
	struct err err = {"no memory"};
	for (uint32_t i = 0; i < n; i++) {
		rows[i] = (struct batch_row){.token = tokens[at + i], .position = at + i, .sequence = sequence};
		numbers[i] = i;
	}
	if (kv_extend(&b->kv, sequence, at + n) || forward_run(b->forward, &batch))
		die("pass", &err);
	kv_advance(sequence, n, phase);
	const float *logits = forward_logits(b->forward, numbers, n);
	if (fwrite(logits, sizeof *logits * b->model.config.vocab, n, out) != n)
		err_set(&err, 0, "cannot be written"), die(b->logits, &err);
}

static void write_logits(struct bench *b)
{
	enum { TOKENS_MAX = 8192 };
	static uint32_t tokens[TOKENS_MAX];
	struct kv_sequence sequence = {0};
	struct err err = {""};
	uint32_t n = 0, from, rows;
	for (const char *at = b->tokens; *at && n < TOKENS_MAX; at += strcspn(at, ","), at += *at == ',')
		tokens[n++] = (uint32_t)strtoul(at, NULL, 10);
	from = b->from < n ? b->from : n;
	FILE *out = fopen(b->logits, "w");
	if (!out)
		err_set(&err, 0, "cannot be opened"), die(b->logits, &err);
	for (uint32_t at = 0; at < n; at += rows) {
		uint32_t end = at < from ? from : n;
		rows = end - at < LOGIT_ROWS_MAX ? end - at : LOGIT_ROWS_MAX;
		run_rows(b, &sequence, tokens, at, rows, at < from ? PHASE_PREFILL : PHASE_DECODE, out);
	}
	if (fclose(out))
		err_set(&err, 0, "cannot be written"), die(b->logits, &err);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"threads", 1, NULL, 't'}, {"level", 1, NULL, 'l'},   {"prefill", 1, NULL, 'p'},
		{"decode", 1, NULL, 'd'},  {"streams", 1, NULL, 's'}, {"tokens", 1, NULL, 'S'},
		{"from", 1, NULL, 'f'},	   {"logits", 1, NULL, 'L'},  {"chunk", 1, NULL, 'c'},
		{"int8", 0, NULL, 'i'},	   {"kv", 1, NULL, 'k'},      {NULL, 0, NULL, 0}};
	static struct bench b = {.n_threads = 2, .chunk = 256, .n_prefill = 512, .n_decode = 128, .n_streams = 1};
	int c;
	b.level = kernels_detect();
	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0)
		switch (c) {
		case 't':
			b.n_threads = (unsigned)atoi(optarg);
			break;
		case 'l':
			b.level = !strcmp(optarg, "ref")    ? CPU_LEVEL_REF
				  : !strcmp(optarg, "avx2") ? CPU_LEVEL_AVX2
							    : CPU_LEVEL_AVX512;
			break;
		case 'p':
			b.n_prefill = (unsigned)atoi(optarg);
			break;
		case 'd':
			b.n_decode = (unsigned)atoi(optarg);
			break;
		case 's':
			b.n_streams = (unsigned)atoi(optarg);
			break;
		case 'S':
			b.tokens = optarg;
			break;
		case 'L':
			b.logits = optarg;
			break;
		case 'f':
			b.from = (unsigned)atoi(optarg);
			break;
		case 'i':
			b.int8 = true;
			break;
		case 'k':
			b.kv_type = !strcmp(optarg, "int8") ? KV_INT8 : KV_BF16;
			break;
		case 'c':
			b.chunk = (unsigned)atoi(optarg);
			break;
		default:
			return 2;
		}
	if (optind + 1 != argc || b.n_streams < 1 || b.n_streams > DECODE_ROWS_MAX)
		return fputs("usage: see the head of bench_engine.c\n", stderr), 2;
	struct err err = {""};
	uint64_t bytes;
	void *image = load_image(argv[optind], &bytes);
	if (model_open(image, bytes, &b.model, &err) ||
	    tokenizer_attach(b.model.tokenizer, b.model.tokenizer_bytes, &b.tokenizer, &err))
		die(argv[optind], &err);
	make_engine(&b);
	if (b.tokens && b.logits) {
		write_logits(&b);
		return 0;
	}
	for (int round = 0; round < 3; round++) {
		add(&b, 1, b.n_prefill, 0 + 1);
		double prefill = run(&b);
		for (unsigned i = 0; i < b.n_streams; i++)
			add(&b, i, 4, b.n_decode);
		b.n_tokens = 0;
		double decode = run(&b);
		printf("prefill %u: %.1f tok/s   decode %u x %u: %.1f tok/s\n", b.n_prefill, b.n_prefill / prefill,
		       b.n_streams, b.n_decode, b.n_tokens / decode);
	}
	return 0;
}
