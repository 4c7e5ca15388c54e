/* Prompts and answers are run by a scheduler of the bench's own over the worker's forward pass and KV pool: the passes
 * are those of calls, with their sampling, and without the channel to the front. Token ids are a fixed sequence.
 *
 * Limits. A decode step cannot be faster than its weights can be read, so the read bandwidth is measured over the same
 * pages; keys and values, which a step reads too, are not counted. A prompt's products cannot be faster than the
 * micro-kernels over weights that lie expanded in cache already. Each limit is the best of some rounds: it is a limit.
 */
#include "src/worker/worker_bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/clock.h"

enum { WARM_TOKENS = 8, LIMIT_ROUNDS = 5, MULTIPLY_ROWS = 256, MULTIPLY_TIMES = 64 };

struct bench {
	const struct scheduler_setup *setup;
	const struct gemm *gemm;
	struct matrix *matrices; /* [n_threads][n_matrices] owned: of the copy that each thread reads */
	uint32_t n_matrices;
	struct scheduler *scheduler;
	uint32_t n_failed;
	struct err *err;

	/* The limits' operands. */
	uint32_t widest; /* of the layers' matrices, the one of most bytes */
	uint64_t *sums;	 /* [n_threads]: what reading came to, so that it is not optimised away */
	void *a;	 /* [MULTIPLY_ROWS][cols] zeros */
	char *scratch;	 /* [n_threads][scratch_bytes], then the threads' results */
	size_t scratch_bytes, c_bytes;
	uint64_t *operations; /* [n_threads] */
};

static void ignore_token(void *arg, struct generation *generation, const struct scheduler_token *token)
{
	(void)arg, (void)generation, (void)token;
}

static void ignore_done(void *arg, struct generation *generation, const char *text, uint32_t n_text)
{
	(void)arg, (void)generation, (void)text, (void)n_text;
}

static void count_failed(void *arg, struct generation *generation, const char *reason)
{
	struct bench *b = arg;
	(void)generation;
	b->n_failed++;
	err_set(b->err, -EIO, "%s", reason);
}

/* --- calls ------------------------------------------------------------------------------------ */

static int add_call(struct bench *b, uint64_t id, uint32_t n_prompt, uint32_t n_answer)
{
	const struct generation_params params = {
		.sampler = {.top_p = 1, .repeat_penalty = 1}, .max_tokens = n_answer, .ignore_end = true};
	uint32_t *prompt = malloc((size_t)n_prompt * sizeof *prompt);
	if (!prompt)
		return -ENOMEM;
	for (uint32_t i = 0; i < n_prompt; i++)
		prompt[i] = (uint32_t)(((uint64_t)i * 7919 + id * 31) % b->setup->model->config.vocab);
	struct generation *call = generation_new(id, &params, prompt, n_prompt, NULL, 0, "", 0);
	if (!call)
		return -ENOMEM;
	scheduler_add(b->scheduler, call);
	return 0;
}

/* Computes `n` prompt tokens of the calls, in chunks as wide as they come. */
static void prefill(struct bench *b, uint64_t n)
{
	uint32_t chunk = b->setup->prefill_chunk, done = 1;
	for (; n && done; n -= done)
		done = scheduler_prefill_step(b->scheduler, n < chunk ? (uint32_t)n : chunk);
}

static uint64_t decode(struct bench *b)
{
	uint64_t n = 0;
	while (scheduler_decode_step(b->scheduler))
		n++;
	return n;
}

static int measure_prefill(struct bench *b, const struct message_bench *order, struct message_benched *out)
{
	int rc = add_call(b, 1, order->depth + order->prompt_tokens, 1);
	if (rc)
		return rc;
	scheduler_admit(b->scheduler);
	prefill(b, order->depth);
	const struct scheduler_totals *totals = scheduler_totals(b->scheduler);
	const struct forward_operations *operations = forward_operations(b->setup->forward), before = *operations;
	uint64_t start = clock_now_ns(), forward = totals->forward_ns;
	prefill(b, order->prompt_tokens);
	out->prefill_ns = clock_now_ns() - start;
	out->prefill_forward_ns = totals->forward_ns - forward;
	out->matrix_operations = (double)(operations->products - before.products);
	out->prefill_operations = operations->products - before.products + operations->attention - before.attention;
	out->prefill_library_operations = operations->library - before.library;
	decode(b); /* nothing is left, unless it did not fit */
	return 0;
}

/* The first answer token comes out of prefill, the others out of decode steps. */
static int measure_decode(struct bench *b, const struct message_bench *order, uint32_t n_tokens,
			  struct message_benched *out)
{
	uint32_t n_prompt = order->depth ? order->depth : 1;
	int rc = 0;
	for (uint32_t i = 0; i < order->streams && !rc; i++)
		rc = add_call(b, i + 1, n_prompt, n_tokens + 1);
	if (rc)
		return rc;
	scheduler_admit(b->scheduler);
	prefill(b, (uint64_t)order->streams * n_prompt);
	uint64_t start = clock_now_ns(), forward = scheduler_totals(b->scheduler)->forward_ns;
	out->decode_steps = decode(b);
	out->decode_ns = clock_now_ns() - start;
	out->decode_forward_ns = scheduler_totals(b->scheduler)->forward_ns - forward;
	return 0;
}

static int measure(struct bench *b, const struct message_bench *order, struct message_benched *out)
{
	int rc = measure_decode(b, order, WARM_TOKENS, out);
	if (!rc)
		rc = measure_prefill(b, order, out);
	if (!rc)
		rc = measure_decode(b, order, order->generated_tokens, out);
	if (!rc && !b->n_failed && out->decode_steps != order->generated_tokens)
		rc = err_set(b->err, -ENOMEM, "the streams did not run together: kv_bytes is too small for them");
	if (rc == -ENOMEM && !b->err->text[0])
		err_set(b->err, rc, "no memory for the calls");
	return rc ? rc : b->n_failed ? -EIO : 0;
}

/* --- limits ----------------------------------------------------------------------------------- */

static uint64_t sum_of(const uint64_t *words, size_t n)
{
	uint64_t sum[8] = {0};
	for (size_t i = 0; i + 8 <= n; i += 8)
		for (unsigned lane = 0; lane < 8; lane++)
			sum[lane] ^= words[i + lane];
	return sum[0] ^ sum[1] ^ sum[2] ^ sum[3] ^ sum[4] ^ sum[5] ^ sum[6] ^ sum[7];
}

static struct matrix *matrices_of(const struct bench *b, unsigned thread)
{
	return b->matrices + (size_t)thread * b->n_matrices;
}

/* Each thread reads the part of every matrix that it reads in a product. */
static void read_job(void *arg, unsigned thread)
{
	struct bench *b = arg;
	uint64_t sum = 0;
	for (uint32_t i = 0; i < b->n_matrices; i++) {
		const struct matrix *w = &matrices_of(b, thread)[i];
		size_t bytes = pack_block_row_bytes(w->kind, w->cols);
		uint32_t begin, end;
		team_share((w->rows + PACK_ROWS - 1) / PACK_ROWS, thread, team_n_threads(b->setup->team), &begin, &end);
		const void *from = (const char *)w->data + begin * bytes;
		sum ^= sum_of(from, (end - begin) * bytes / sizeof(uint64_t));
	}
	b->sums[thread] = sum;
}

static void multiply_job(void *arg, unsigned thread)
{
	struct bench *b = arg;
	char *own = b->scratch + thread * (b->scratch_bytes + b->c_bytes);
	b->operations[thread] =
		MULTIPLY_TIMES * gemm_run_expanded(b->gemm, &matrices_of(b, thread)[b->widest], MULTIPLY_TIMES, b->a,
						   MULTIPLY_ROWS, (float *)(own + b->scratch_bytes), own);
}

/* Seconds of the fastest of some rounds. */
static double fastest(struct bench *b, team_job *job)
{
	uint64_t best = UINT64_MAX;
	for (int i = 0; i < LIMIT_ROUNDS; i++) {
		uint64_t start = clock_now_ns();
		team_run(b->setup->team, job, b);
		uint64_t ns = clock_now_ns() - start;
		best = ns < best ? ns : best;
	}
	return (double)best * 1e-9;
}

static int measure_limits(struct bench *b, struct message_benched *out)
{
	unsigned n_threads = team_n_threads(b->setup->team);
	double operations = 0;
	b->scratch_bytes = gemm_scratch_bytes(b->gemm);
	b->c_bytes = sizeof(float) * MULTIPLY_ROWS * GEMM_PANEL_ROWS;
	size_t a_bytes = sizeof(float) * MULTIPLY_ROWS * b->matrices[b->widest].cols;
	b->sums = calloc(n_threads, sizeof *b->sums);
	b->operations = calloc(n_threads, sizeof *b->operations);
	b->a = aligned_alloc(64, a_bytes);
	b->scratch = aligned_alloc(64, n_threads * (b->scratch_bytes + b->c_bytes));
	if (b->sums && b->operations && b->a && b->scratch) {
		memset(b->a, 0, a_bytes);
		out->read_bytes_per_s = (double)out->weight_bytes / fastest(b, read_job);
		double seconds = fastest(b, multiply_job);
		for (unsigned i = 0; i < n_threads; i++)
			operations += (double)b->operations[i];
		out->multiply_operations_per_s = operations / seconds;
	}
	free(b->sums);
	free(b->operations);
	free(b->a);
	free(b->scratch);
	return out->multiply_operations_per_s > 0 ? 0 : err_set(b->err, -ENOMEM, "no memory for the limits");
}

/* --- all of it -------------------------------------------------------------------------------- */

static int list_matrices(struct bench *b, struct message_benched *out)
{
	const struct model *model = forward_model(b->setup->forward, 0);
	unsigned n_threads = team_n_threads(b->setup->team);
	uint64_t most = 0;
	b->n_matrices = model_matrices(model, NULL, 0);
	b->matrices = calloc((size_t)n_threads * b->n_matrices, sizeof *b->matrices);
	if (!b->matrices)
		return err_set(b->err, -ENOMEM, "no memory for the list of matrices");
	for (unsigned thread = 0; thread < n_threads; thread++)
		model_matrices(forward_model(b->setup->forward, thread), matrices_of(b, thread), b->n_matrices);
	for (uint32_t i = 0; i < b->n_matrices; i++) {
		const struct matrix *w = &matrices_of(b, 0)[i];
		uint64_t bytes = pack_matrix_bytes(w->kind, w->rows, w->cols);
		out->weight_bytes += bytes;
		if (w->data != model->head.data && bytes > most) { /* the head is for a prompt's last row alone */
			most = bytes;
			b->widest = i;
		}
	}
	return 0;
}

static int check_order(const struct bench *b, const struct message_bench *order)
{
	const struct scheduler_setup *s = b->setup;
	uint64_t prompt = (uint64_t)order->depth + order->prompt_tokens,
		 answer = (uint64_t)order->depth + order->generated_tokens + 2;
	uint64_t longest = prompt > answer ? prompt : answer;
	if (!order->prompt_tokens || !order->generated_tokens || !order->streams || order->streams > s->max_running)
		return err_set(b->err, -EINVAL, "tokens and streams are from 1 on, and streams at most max_running, %u",
			       s->max_running);
	if (longest > s->context_tokens)
		return err_set(b->err, -EINVAL, "depth and tokens are %llu together, the context is %u",
			       (unsigned long long)longest, s->context_tokens);
	return 0;
}

void worker_bench(const struct scheduler_setup *setup, const struct gemm *gemm, const struct message_bench *order,
		  struct message_benched *out)
{
	struct bench b = {.setup = setup, .gemm = gemm, .err = &out->err};
	struct scheduler_setup own = *setup;
	own.sink =
		(struct scheduler_sink){.arg = &b, .token = ignore_token, .done = ignore_done, .failed = count_failed};
	own.prefix_cache_bytes = 0;
	own.now_ns = clock_now_ns;
	*out = (struct message_benched){0};
	int rc = check_order(&b, order);
	if (!rc)
		rc = list_matrices(&b, out);
	if (!rc)
		rc = scheduler_new(&own, &b.scheduler, &out->err);
	if (!rc)
		rc = measure(&b, order, out);
	if (!rc)
		rc = measure_limits(&b, out);
	if (b.scheduler)
		scheduler_cancel_all(b.scheduler);
	scheduler_free(b.scheduler);
	free(b.matrices);
	if (rc && !out->err.text[0])
		err_set(&out->err, rc, "%s", strerror(-rc));
}
