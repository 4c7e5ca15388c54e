/* Vectors of texts: what is summed and how it ends, and that neither chunks, threads, company, evictions nor a prefix
 * cache can be seen in a vector. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/scheduler_rig.h"
#include "tests/unit/suite.h"

/* --- sums --- */

static void add_states(struct pooling *p, uint32_t from, uint32_t n)
{
	for (uint32_t position = from; position < n; position++) {
		float state[] = {(float)(position + 1), -2, position == 0 ? 8 : 0};
		if (pooling_wants(p, position))
			pooling_add(p, position, state);
	}
}

static void expect_vector(enum pooling_kind kind, uint32_t n_vector, const double *expected)
{
	struct pooling *p = pooling_new(kind, 3, n_vector, 4);
	double square = 0;
	ck_assert_ptr_nonnull(p);
	add_states(p, 0, 2);
	add_states(p, 0, 4); /* again from the beginning, as after an eviction */
	const float *vector = pooling_finish(p);
	ck_assert_ptr_nonnull(vector);
	for (uint32_t i = 0; i < n_vector; i++)
		square += expected[i] * expected[i];
	for (uint32_t i = 0; i < n_vector; i++)
		ck_assert_double_eq_tol((double)vector[i], expected[i] / sqrt(square), 1e-7);
	free(p);
}

START_TEST(each_kind_takes_its_positions_once)
{
	expect_vector(POOLING_MEAN, 3, (double[]){1 + 2 + 3 + 4, -8, 8});
	expect_vector(POOLING_LAST, 3, (double[]){4, -2, 0});
	expect_vector(POOLING_CLS, 3, (double[]){1, -2, 8});
	expect_vector(POOLING_MEAN, 2, (double[]){10, -8});
	expect_vector(POOLING_CLS, 1, (double[]){1});
}
END_TEST

START_TEST(zeros_stay_and_infinities_are_told)
{
	const float zeros[2] = {0}, infinite[] = {INFINITY, 1}, none[] = {NAN, 1};
	struct pooling *p = pooling_new(POOLING_MEAN, 2, 2, 3);
	ck_assert_ptr_nonnull(p);
	pooling_add(p, 0, zeros);
	const float *vector = pooling_finish(p);
	ck_assert_ptr_nonnull(vector);
	ck_assert(vector[0] == 0 && vector[1] == 0);
	pooling_add(p, 1, infinite);
	ck_assert_ptr_null(pooling_finish(p));
	free(p);
	p = pooling_new(POOLING_LAST, 2, 1, 1);
	ck_assert_ptr_nonnull(p);
	pooling_add(p, 0, none);
	ck_assert_ptr_null(pooling_finish(p));
	free(p);
}
END_TEST

/* --- calls --- */

enum { N_TEXTS = 12, N_OTHERS = 12, DIM_MAX = 256, SMALL_POOL = 12 };

static struct tiny_model *tiny;
static struct room room;
static float alone[N_TEXTS][DIM_MAX], vectors[N_TEXTS][DIM_MAX];
static unsigned n_vectors;

static void on_pooled(void *arg, struct generation *g, const float *vector, uint32_t n)
{
	(void)arg;
	if (g->id >= N_TEXTS || n != tiny->model.config.dim || n > DIM_MAX)
		ck_abort_msg("a vector of %u components for call %u", n, (unsigned)g->id);
	memcpy(vectors[g->id], vector, n * sizeof *vector);
	n_vectors++;
}

static struct generation *text_call(uint64_t id)
{
	static const uint32_t lengths[N_TEXTS] = {1, 2, 31, 32, 33, 63, 65, 100, 150, 200, 250, 64};
	struct generation_params params = {.sampler = {.top_p = 1, .repeat_penalty = 1}, .max_tokens = UINT32_MAX};
	uint32_t n = lengths[id], *prompt = malloc(n * sizeof *prompt);
	ck_assert_ptr_nonnull(prompt);
	for (uint32_t i = 0; i < n; i++) /* beginnings that others have, too */
		prompt[i] = ((uint32_t)id % 3 * 31 + i * i * 7 + i) % TINY_BYTES;
	struct generation *g = generation_new(id, &params, prompt, n, NULL, 0, "", 0);
	ck_assert_ptr_nonnull(g);
	uint32_t dim = tiny->model.config.dim;
	g->pooling = pooling_new((enum pooling_kind)(id % N_POOLINGS), dim, dim, n);
	ck_assert_ptr_nonnull(g->pooling);
	return g;
}

static void start(struct tiny_engine *e, struct tiny_setup setup)
{
	setup.sink.pooled = on_pooled;
	memset(&room, 0, sizeof room);
	memset(vectors, 0, sizeof vectors);
	n_vectors = 0;
	tiny_engine_init(e, tiny, &setup);
}

static void compute_alone(void)
{
	struct tiny_engine e;
	tiny = tiny_model_new(PACK_Q4_1, 42);
	start(&e, rig_setup(&room));
	for (uint64_t id = 0; id < N_TEXTS; id++) {
		scheduler_add(e.scheduler, text_call(id));
		while (scheduler_step(e.scheduler))
			;
		ck_assert_int_eq(room.call[id].done, GENERATION_STOP);
		ck_assert_uint_eq(room.call[id].n, 0);
		ck_assert_uint_eq(e.kv.n_used, 0);
	}
	ck_assert_uint_eq(n_vectors, N_TEXTS);
	memcpy(alone, vectors, sizeof alone);
	rig_expect_rest(&e);
	tiny_engine_fini(&e);
}

static void free_alone(void)
{
	tiny_model_free(tiny);
}

/* Among answers, in random order, with pools that are too small and a cache of what the others' prompts left. */
START_TEST(nothing_around_a_text_can_be_seen_in_its_vector)
{
	static const uint32_t chunks[] = {64, 7, 200, 32}, pools[] = {600, 24, SMALL_POOL}, cached[] = {0, 600};
	struct tiny_setup setup = rig_setup(&room);
	struct tiny_engine e;
	unsigned order[N_TEXTS + N_OTHERS], next = 0, n = N_TEXTS + N_OTHERS;
	srand(7 + (unsigned)_i);
	setup.prefill_chunk = chunks[_i % 4];
	setup.n_threads = 1 + (unsigned)rand() % 2;
	setup.kv_pages = pools[_i % 3];
	setup.prefix_cache_bytes = cached[_i / 4 % 2] * kv_page_bytes(&tiny->model.config, setup.kv_type);
	start(&e, setup);
	for (unsigned i = 0; i < n; i++) {
		unsigned j = (unsigned)rand() % (i + 1);
		order[i] = order[j];
		order[j] = i;
	}
	while (next < n || rig_busy(&e)) {
		for (int arrivals = rand() % 4; arrivals > 0 && next < n; arrivals--, next++)
			scheduler_add(e.scheduler, order[next] < N_TEXTS
							   ? text_call(order[next])
							   : rig_call(order[next], order[next] - N_TEXTS));
		scheduler_step(e.scheduler);
	}
	ck_assert_uint_eq(n_vectors, N_TEXTS);
	ck_assert(pools[_i % 3] > SMALL_POOL || scheduler_totals(e.scheduler)->evicted > 0);
	for (unsigned id = 0; id < N_TEXTS; id++)
		ck_assert_msg(!memcmp(alone[id], vectors[id], sizeof alone[id]), "text %u has another vector", id);
	rig_expect_rest(&e);
	tiny_engine_fini(&e);
}
END_TEST

START_TEST(a_text_evicted_half_way_is_counted_once)
{
	struct tiny_setup setup = rig_setup(&room);
	struct tiny_engine e;
	setup.kv_pages = SMALL_POOL;
	setup.prefill_chunk = 1;
	start(&e, setup);
	struct generation *text = text_call(9), *older = rig_call(N_TEXTS, 2); /* 200 tokens, and 31 */
	older->params.max_tokens = 250; /* which by and by take all pages but a few */
	scheduler_add(e.scheduler, older);
	while (!older->n_answer)
		scheduler_step(e.scheduler);
	scheduler_add(e.scheduler, text);
	uint32_t most = 0;
	while (rig_busy(&e) && !scheduler_totals(e.scheduler)->evicted) {
		most = scheduler_find(e.scheduler, 9) ? text->pooling->n_passed : 0;
		scheduler_step(e.scheduler);
	}
	ck_assert_uint_gt(most, 40);
	while (scheduler_step(e.scheduler))
		;
	ck_assert_uint_gt(scheduler_totals(e.scheduler)->replayed_tokens, 40);
	ck_assert_int_eq(memcmp(alone[9], vectors[9], sizeof alone[9]), 0);
	rig_expect_rest(&e);
	tiny_engine_fini(&e);
}
END_TEST

int main(int argc, char **argv)
{
	Suite *suite = suite_create("pooling");
	TCase *sums = tcase_create("sums"), *calls = tcase_create("calls");
	if (!rig_level(argc, argv))
		return 77;
	tcase_add_test(sums, each_kind_takes_its_positions_once);
	tcase_add_test(sums, zeros_stay_and_infinities_are_told);
	suite_add_tcase(suite, sums);
	tcase_set_timeout(calls, 300);
	tcase_add_unchecked_fixture(calls, compute_alone, free_alone);
	tcase_add_loop_test(calls, nothing_around_a_text_can_be_seen_in_its_vector, 0, 24);
	tcase_add_test(calls, a_text_evicted_half_way_is_counted_once);
	suite_add_tcase(suite, calls);
	return suite_run(suite);
}
