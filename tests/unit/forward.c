/* The forward pass: what a row gives depends on its sequence, its phase and its adapter, never on its place in a batch
 * or on its company. Runs once per CPU level: `forward ref|avx2|avx512`, exit status 77 where the CPU lacks the level.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/suite.h"
#include "tests/unit/tiny_adapter.h"

static enum cpu_level level;
static enum numerics numerics;
static enum kv_type kv_type;

enum { SEQUENCES = 12, TOKENS_MAX = 70, ROUNDS = 20 };

/* A sequence of fixed tokens: the first n_prompt are prefilled, the rest is decoded. */
struct sequence {
	uint32_t tokens[TOKENS_MAX], n_prompt, n;
	struct adapter *adapter; /* borrowed; NULL: none */
	struct kv_sequence kv;
	float logits[TOKENS_MAX][TINY_VOCAB]; /* of each position, when the sequence has the engine for itself */
};

static struct sequence sequences[SEQUENCES];
static struct tiny_model *tiny;

/* For every product and for some, of all kinds of values; the last one adds nothing. */
static const struct tiny_adapter_spec specs[] = {
	{50, TINY_ALL_PRODUCTS, 4, PACK_F32, 0.5f},
	{51, 1 << ADAPTER_Q | 1 << ADAPTER_V | 1 << ADAPTER_DOWN, 9, PACK_F16, -0.25f},
	{52, 1 << ADAPTER_OUTPUT | 1 << ADAPTER_UP, 17, PACK_BF16, 1},
	{53, TINY_ALL_PRODUCTS, 8, PACK_BF16, 0},
};
enum { ADAPTERS = sizeof specs / sizeof *specs, NO_EFFECT = ADAPTERS - 1 };
static struct adapter *adapters[ADAPTERS];

/* `copies` as in forward_setup. */
static void engine_init_over(struct tiny_engine *e, unsigned n_threads, const struct model *const *copies)
{
	struct tiny_setup setup = {
		.level = level,
		.numerics = numerics,
		.kv_type = kv_type,
		.n_threads = n_threads,
		.copies = copies,
		.prefill_chunk = 256,
		.max_running = 32,
		.kv_pages = 100,
		.context_tokens = 512,
	};
	tiny_engine_init(e, tiny, &setup);
}

static void engine_init(struct tiny_engine *e, unsigned n_threads)
{
	engine_init_over(e, n_threads, NULL);
}

/* Appends the sequence's next `n` tokens to a batch. */
static void add_rows(struct tiny_engine *e, struct batch *batch, struct sequence *s, uint32_t n)
{
	ck_assert_int_eq(kv_extend(&e->kv, &s->kv, s->kv.n_tokens + n), 0);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t position = s->kv.n_tokens + i;
		batch->rows[batch->n_rows++] = (struct batch_row){
			.token = s->tokens[position], .position = position, .sequence = &s->kv, .adapter = s->adapter};
	}
}

/* Hands out what each row of the batch that has just been run predicts, unless it is silent. */
static void look(struct tiny_engine *e, const struct batch *batch,
		 void (*each)(struct sequence *, uint32_t, const float *))
{
	for (uint32_t next = 0; next < batch->n_rows;) {
		uint32_t rows[LOGIT_ROWS_MAX], n = 0;
		for (; n < LOGIT_ROWS_MAX && next < batch->n_rows; next++)
			if (!batch->rows[next].silent)
				rows[n++] = next;
		const float *logits = n ? forward_logits(e->forward, rows, n) : NULL;
		for (uint32_t i = 0; i < n; i++) {
			const struct batch_row *row = &batch->rows[rows[i]];
			struct sequence *s = (struct sequence *)((char *)row->sequence - offsetof(struct sequence, kv));
			each(s, row->position, logits + (size_t)i * TINY_VOCAB);
		}
	}
}

static void note(struct sequence *s, uint32_t position, const float *logits)
{
	memcpy(s->logits[position], logits, sizeof s->logits[position]);
}

static void compare(struct sequence *s, uint32_t position, const float *logits)
{
	if (memcmp(s->logits[position], logits, sizeof s->logits[position]))
		ck_abort_msg("position %u of %u (%u of prompt): other logits than alone", position, s->n, s->n_prompt);
}

/* One pass of one row: the narrowest there is. */
static void run_one_by_one(struct tiny_engine *e, struct sequence *s,
			   void (*each)(struct sequence *, uint32_t, const float *))
{
	struct batch_row row;
	while (s->kv.n_tokens < s->n) {
		struct batch batch = {s->kv.n_tokens < s->n_prompt ? PHASE_PREFILL : PHASE_DECODE, 0, &row};
		add_rows(e, &batch, s, 1);
		ck_assert_int_eq(forward_run(e->forward, &batch), 0);
		look(e, &batch, each);
		kv_advance(&s->kv, 1, batch.phase);
	}
	kv_release(&e->kv, &s->kv);
}

static void compute_alone(void)
{
	struct tiny_engine e;
	srand(3);
	engine_init(&e, 1);
	for (unsigned i = 0; i < SEQUENCES; i++) {
		struct sequence *s = &sequences[i];
		s->n_prompt = 1 + (unsigned)rand() % 40;
		s->n = s->n_prompt + (unsigned)rand() % (TOKENS_MAX - 40);
		for (uint32_t t = 0; t < s->n; t++)
			s->tokens[t] = (unsigned)rand() % TINY_VOCAB;
		run_one_by_one(&e, s, note);
	}
	tiny_engine_fini(&e);
}

static void set_up(void)
{
	tiny = tiny_model_new(PACK_Q4_1, 42);
	compute_alone();
}

static void set_up_dressed(void)
{
	tiny = tiny_model_new(PACK_Q4_1, 42);
	tiny_model_dress(tiny, 43);
	compute_alone();
}

/* As dressed, with an adapter for four sequences of five. */
static void set_up_adapted(void)
{
	tiny = tiny_model_new(PACK_Q4_1, 42);
	tiny_model_dress(tiny, 43);
	for (unsigned i = 0; i < ADAPTERS; i++)
		adapters[i] = tiny_adapter_new(tiny, &specs[i]);
	for (unsigned i = 0; i < SEQUENCES; i++)
		sequences[i].adapter = i % 5 ? adapters[i % 5 - 1] : NULL;
	compute_alone();
}

static void tear_down(void)
{
	for (unsigned i = 0; i < ADAPTERS; i++) {
		adapter_put(adapters[i]);
		adapters[i] = NULL;
	}
	tiny_model_free(tiny);
}

/* A batch of some of the sequences that have rows left in this phase, in random order, each with a few of them. */
static void draw_batch(struct tiny_engine *e, struct batch *batch)
{
	unsigned order[SEQUENCES];
	for (unsigned i = 0; i < SEQUENCES; i++) {
		unsigned j = (unsigned)rand() % (i + 1);
		order[i] = order[j];
		order[j] = i;
	}
	for (unsigned i = 0; i < SEQUENCES; i++) {
		struct sequence *s = &sequences[order[i]];
		uint32_t end = batch->phase == PHASE_PREFILL ? s->n_prompt : s->n, at = s->kv.n_tokens;
		if (at >= end || (batch->phase == PHASE_DECODE && at < s->n_prompt) || rand() % 4 == 0)
			continue;
		uint32_t most =
			batch->phase == PHASE_PREFILL ? end - at : 2; /* two at a time is how answers are replayed */
		uint32_t n = 1 + (unsigned)rand() % most;
		add_rows(e, batch, s, n < end - at ? n : end - at);
	}
}

START_TEST(a_row_is_the_same_anywhere_in_a_batch)
{
	static struct batch_row rows[SEQUENCES * TOKENS_MAX];
	struct tiny_engine e;
	unsigned n_left = SEQUENCES, widest = 0;
	srand(500 + (unsigned)_i);
	engine_init(&e, 1 + (unsigned)_i % 7);
	while (n_left) {
		struct batch batch = {rand() % 2 ? PHASE_PREFILL : PHASE_DECODE, 0, rows};
		draw_batch(&e, &batch);
		/* Some batches have silent rows only, as those have that are not the last ones of a long prompt. */
		int silent_percent = rand() % 3 * 50;
		for (uint32_t r = 0; r < batch.n_rows; r++)
			rows[r].silent = rand() % 100 < silent_percent;
		if (batch.n_rows) {
			ck_assert_int_eq(forward_run(e.forward, &batch), 0);
			look(&e, &batch, compare);
		}
		for (uint32_t r = 0; r < batch.n_rows; r++)
			kv_advance(batch.rows[r].sequence, 1, batch.phase);
		widest = batch.n_rows > widest ? batch.n_rows : widest;
		n_left = 0;
		for (unsigned i = 0; i < SEQUENCES; i++)
			n_left += sequences[i].kv.n_tokens < sequences[i].n;
	}
	ck_assert_uint_gt(widest, 32); /* there was company */
	for (unsigned i = 0; i < SEQUENCES; i++)
		kv_release(&e.kv, &sequences[i].kv);
	ck_assert_uint_eq(e.kv.n_used, 0);
	tiny_engine_fini(&e);
}
END_TEST

/* --- threads with copies of their own --------------------------------------------------------- */

enum { COPIES_MAX = 3, THREADS_MAX = 7, TOGETHER = 5, SPOILT = 0xff /* scales become NaN */ };

/* Threads over simulated nodes: the first copy is for the first `n_threads[0]`, and so on. */
static const struct {
	enum phase phase;
	unsigned n_threads[COPIES_MAX];
} spreads[] = {
	{PHASE_DECODE, {1, 1, 0}},  {PHASE_DECODE, {2, 1, 0}},	{PHASE_DECODE, {3, 1, 3}},
	{PHASE_PREFILL, {1, 1, 0}}, {PHASE_PREFILL, {1, 2, 0}}, {PHASE_PREFILL, {1, 1, 1}},
};

/* What threads [first, end) of n multiply of a matrix when a pass has one row, as block rows. */
static void blocks_of(enum phase phase, const struct matrix *w, unsigned first, unsigned end, unsigned n,
		      uint32_t *begin_block, uint32_t *end_block)
{
	uint32_t n_blocks = (w->rows + PACK_ROWS - 1) / PACK_ROWS, unit = GEMM_PANEL_ROWS / PACK_ROWS, ignored;
	uint32_t n_units = phase == PHASE_DECODE ? n_blocks : gemm_n_panels(w);
	team_share(n_units, first, n, begin_block, &ignored);
	team_share(n_units, end - 1, n, &ignored, end_block);
	if (phase == PHASE_DECODE)
		return;
	*begin_block *= unit;
	*end_block = *end_block * unit < n_blocks ? *end_block * unit : n_blocks;
}

/* Gives a matrix memory of its own, in which all but block rows [begin, end) are spoilt. */
static void copy_matrix(struct matrix *w, uint32_t begin, uint32_t end)
{
	size_t n = pack_matrix_bytes(w->kind, w->rows, w->cols), block = pack_block_row_bytes(w->kind, w->cols);
	unsigned char *data = aligned_alloc(64, (n + 63) / 64 * 64);
	ck_assert_ptr_nonnull(data);
	memset(data, SPOILT, n);
	memcpy(data + begin * block, (const unsigned char *)w->data + begin * block, (end - begin) * block);
	w->data = data;
}

/* The layers' matrices and the head; embeddings stay those of the model. */
static unsigned matrices_of(struct model *model, struct matrix *out[])
{
	unsigned n = 0;
	for (uint32_t i = 0; i < model->config.n_layers; i++) {
		struct model_layer *l = &model->layers[i];
		struct matrix *all[] = {&l->attn_q,   &l->attn_k, &l->attn_v,  &l->attn_output,
					&l->ffn_gate, &l->ffn_up, &l->ffn_down};
		memcpy(out + n, all, sizeof all);
		n += sizeof all / sizeof *all;
	}
	out[n++] = &model->head;
	return n;
}

/* A copy that is whole only where threads [first, end) of n multiply it. */
static struct model copy_for(enum phase phase, unsigned first, unsigned end, unsigned n)
{
	struct matrix *all[64];
	struct model copy = tiny->model;
	size_t bytes = copy.config.n_layers * sizeof *copy.layers;
	copy.layers = malloc(bytes);
	ck_assert_ptr_nonnull(copy.layers);
	memcpy(copy.layers, tiny->model.layers, bytes);
	for (unsigned i = matrices_of(&copy, all); i-- > 0;) {
		uint32_t begin_block, end_block;
		blocks_of(phase, all[i], first, end, n, &begin_block, &end_block);
		copy_matrix(all[i], begin_block, end_block);
	}
	return copy;
}

static void free_copy(struct model *copy)
{
	struct matrix *all[64];
	for (unsigned i = matrices_of(copy, all); i-- > 0;)
		free((void *)(uintptr_t)all[i]->data);
	free(copy->layers);
}

/* A row of each of some sequences in every pass, all of one phase. */
static void run_together(struct tiny_engine *e, struct sequence *some, enum phase phase)
{
	struct batch_row rows[TOGETHER];
	struct batch batch = {phase, 1, rows};
	while (batch.n_rows) {
		batch.n_rows = 0;
		for (unsigned i = 0; i < TOGETHER; i++)
			if (some[i].kv.n_tokens < some[i].n)
				add_rows(e, &batch, &some[i], 1);
		if (batch.n_rows) {
			ck_assert_int_eq(forward_run(e->forward, &batch), 0);
			look(e, &batch, compare);
		}
		for (uint32_t r = 0; r < batch.n_rows; r++)
			kv_advance(rows[r].sequence, 1, phase);
	}
	for (unsigned i = 0; i < TOGETHER; i++)
		kv_release(&e->kv, &some[i].kv);
}

/* Of what other threads multiply a thread's copy has nothing, so to get the right logits each thread has to read its
 * own copy, and of that no more than its part. Alone, an answer's rows are each thread's own, so this holds for both
 * kinds of passes. */
START_TEST(a_thread_reads_its_part_of_its_own_copy)
{
	static struct sequence some[TOGETHER];
	enum phase phase = spreads[_i].phase;
	struct model copies[COPIES_MAX];
	const struct model *of_thread[THREADS_MAX];
	struct tiny_engine e;
	unsigned n = 0, first = 0;
	engine_init(&e, 1);
	for (unsigned i = 0; i < TOGETHER; i++) {
		some[i] = sequences[i];
		some[i].n_prompt = phase == PHASE_PREFILL ? some[i].n : 0;
		run_one_by_one(&e, &some[i], note);
	}
	tiny_engine_fini(&e);

	for (unsigned i = 0; i < COPIES_MAX; i++)
		n += spreads[_i].n_threads[i];
	for (unsigned i = 0; i < COPIES_MAX && first < n; i++) {
		unsigned end = first + spreads[_i].n_threads[i];
		copies[i] = copy_for(phase, first, end, n);
		while (first < end)
			of_thread[first++] = &copies[i];
	}
	engine_init_over(&e, n, of_thread);
	for (unsigned i = 0; i < TOGETHER; i++)
		run_one_by_one(&e, &some[i], compare);
	run_together(&e, some, phase);
	tiny_engine_fini(&e);
	for (unsigned i = 0; i < COPIES_MAX; i++)
		if (spreads[_i].n_threads[i])
			free_copy(&copies[i]);
}
END_TEST

/* --- operations ------------------------------------------------------------------------------- */

/* Of a pass over positions [first, first + n) of one sequence, and the head for one of them. */
static struct forward_operations operations_of(uint32_t first, uint32_t n)
{
	const struct image_config *c = &tiny->model.config;
	struct forward_operations sum = {.products = 2 * (uint64_t)c->vocab * c->dim};
	for (uint32_t layer = 0; layer < c->n_layers; layer++) {
		const struct model_layer *l = &tiny->model.layers[layer];
		uint64_t heads = c->n_heads + 2 * c->n_kv_heads, pairs = 0;
		sum.products += 2 * (uint64_t)n * c->dim * (heads * c->head_dim + 3 * (uint64_t)c->ffn_dim);
		sum.products += 2 * (uint64_t)n * c->dim * c->n_heads * c->head_dim; /* attention's output */
		for (uint32_t at = first; at < first + n; at++)
			for (uint32_t key = 0; key <= at; key++)
				pairs += !l->window || at - key < l->window;
		sum.attention += pairs * c->n_heads * 2 * 2 * c->head_dim;
	}
	return sum;
}

START_TEST(operations_are_counted)
{
	static struct batch_row rows[TOKENS_MAX];
	static struct sequence s = {.n_prompt = 60, .n = 62};
	struct tiny_engine e;
	uint32_t last = 59;
	struct batch batch = {PHASE_PREFILL, 0, rows};
	engine_init(&e, 2);
	const struct forward_operations *said = forward_operations(e.forward);
	bool ours = level == CPU_LEVEL_REF || numerics == NUMERICS_INT8; /* all matrices are of a kind that it takes */
	add_rows(&e, &batch, &s, 60);
	ck_assert_int_eq(forward_run(e.forward, &batch), 0);
	forward_logits(e.forward, &last, 1);
	kv_advance(&s.kv, 60, PHASE_PREFILL);
	struct forward_operations prompt = operations_of(0, 60), answer = operations_of(60, 2);
	ck_assert_uint_eq(said->products, prompt.products);
	ck_assert_uint_eq(said->attention, prompt.attention);
	ck_assert_uint_eq(said->library, ours ? 0 : prompt.products);
	batch = (struct batch){PHASE_DECODE, 0, rows};
	add_rows(&e, &batch, &s, 2);
	ck_assert_int_eq(forward_run(e.forward, &batch), 0);
	last = 1;
	forward_logits(e.forward, &last, 1);
	kv_advance(&s.kv, 2, PHASE_DECODE);
	ck_assert_uint_eq(said->products, prompt.products + answer.products);
	ck_assert_uint_eq(said->attention, prompt.attention + answer.attention);
	ck_assert_uint_eq(said->library, ours ? 0 : prompt.products);
	kv_release(&e.kv, &s.kv);
	tiny_engine_fini(&e);
}
END_TEST

static float largest_logit, largest_difference;

static void measure(struct sequence *s, uint32_t position, const float *logits)
{
	for (uint32_t i = 0; i < TINY_VOCAB; i++) {
		largest_logit = fmaxf(largest_logit, fabsf(logits[i]));
		largest_difference = fmaxf(largest_difference, fabsf(logits[i] - s->logits[position][i]));
	}
}

/* All of a sequence, with another adapter than the one it was noted with. */
static void run_again(const struct tiny_model *model, struct sequence *s, struct adapter *adapter,
		      void (*each)(struct sequence *, uint32_t, const float *))
{
	struct tiny_model *before = tiny;
	struct adapter *own = s->adapter;
	struct tiny_engine e;
	tiny = (struct tiny_model *)(uintptr_t)model;
	largest_logit = largest_difference = 0;
	engine_init(&e, 2);
	s->adapter = adapter;
	run_one_by_one(&e, s, each);
	s->adapter = own;
	tiny_engine_fini(&e);
	tiny = before;
}

START_TEST(an_adapter_of_scale_0_is_none)
{
	struct sequence *s = &sequences[1 + NO_EFFECT];
	ck_assert_ptr_eq(s->adapter, adapters[NO_EFFECT]);
	run_again(tiny, s, NULL, compare);
	/* The others are no such adapters. */
	run_again(tiny, &sequences[1], NULL, measure);
	ck_assert_float_gt(largest_difference, 0.01f * largest_logit);
}
END_TEST

/* Over weights of float32, the adapter's model is the one with W + scale B A for weights, up to rounding: of sums, or
 * of weights and operands to bfloat16, or of keys and values to int8. */
START_TEST(an_adapter_is_its_merged_weights)
{
	float bound = numerics == NUMERICS_F32 && kv_type == KV_BF16 ? 1e-4f : 0.02f;
	struct tiny_model *plain = tiny_model_new(PACK_F32, 7), *merged = tiny_model_new(PACK_F32, 7);
	struct adapter *adapter = tiny_adapter_new(plain, &specs[_i]);
	struct sequence *s = &sequences[0];
	tiny_adapter_merge(merged, adapter);
	run_again(plain, s, adapter, note);
	run_again(merged, s, NULL, measure);
	ck_assert_float_le(largest_difference, bound * largest_logit);
	run_again(plain, s, NULL, measure);
	ck_assert_float_gt(largest_difference, 5 * bound * largest_logit);
	adapter_put(adapter);
	tiny_model_free(plain);
	tiny_model_free(merged);
}
END_TEST

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "ref";
	if (!tiny_level(name, &level, &numerics))
		return 77;
	kv_type = tiny_kv_type(argc, argv);
	Suite *suite = suite_create("forward");
	const struct {
		const char *name;
		void (*set_up)(void);
	} models[] = {{"llama", set_up}, {"features of all families", set_up_dressed}, {"adapters", set_up_adapted}};
	TCase *tc = NULL;
	for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
		tc = tcase_create(models[i].name);
		tcase_set_timeout(tc, 300);
		/* The sequences alone: computed once, inherited by every test. */
		tcase_add_unchecked_fixture(tc, models[i].set_up, tear_down);
		tcase_add_loop_test(tc, a_row_is_the_same_anywhere_in_a_batch, 0, ROUNDS);
		tcase_add_loop_test(tc, a_thread_reads_its_part_of_its_own_copy, 0,
				    (int)(sizeof spreads / sizeof *spreads));
		tcase_add_test(tc, operations_are_counted);
		suite_add_tcase(suite, tc);
	}
	tcase_add_test(tc, an_adapter_of_scale_0_is_none);
	tcase_add_loop_test(tc, an_adapter_is_its_merged_weights, 0, NO_EFFECT);
	return suite_run(suite);
}
