/* The scheduler over a real (small) engine: what a call says must depend on the call alone, and everything it took must
 * come back. Runs once per CPU level: `scheduler ref|avx2|avx512`, exit status 77 where the CPU lacks the level. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/unit/scheduler_rig.h"
#include "tests/unit/suite.h"

static struct tiny_model *tiny;
static struct room alone; /* call i of the repertoire by itself */

static void set_up(void)
{
	tiny = tiny_model_new(PACK_Q4_1, 42);
	rig_adapters_new(tiny);
	memset(&alone, 0, sizeof alone);
	struct tiny_setup setup = rig_setup(&alone);
	rig_run_alone(tiny, 20, &setup);
	for (unsigned i = 0; i < 20; i++)
		ck_assert_int_eq(alone.call[i].done, GENERATION_LENGTH);
}

static void tear_down(void)
{
	rig_adapters_free();
	tiny_model_free(tiny);
}

START_TEST(threads_and_chunks_cannot_be_seen)
{
	static const struct {
		unsigned threads, chunk;
	} cases[] = {{1, 64}, {3, 64}, {2, 1}, {2, 7}, {1, 32}, {2, 200}};
	static struct room room;
	memset(&room, 0, sizeof room);
	struct tiny_setup setup = rig_setup(&room);
	setup.n_threads = cases[_i].threads;
	setup.prefill_chunk = cases[_i].chunk;
	rig_run_alone(tiny, 20, &setup);
	for (unsigned i = 0; i < 20; i++)
		rig_same(&alone.call[i], &room.call[i], i);
}
END_TEST

/* What a pacing caller does: another number of prompt rows in every step, and prompts that pause altogether. */
START_TEST(the_pace_cannot_be_seen)
{
	static struct room room;
	memset(&room, 0, sizeof room);
	struct tiny_setup setup = rig_setup(&room);
	struct tiny_engine e;
	srand(200 + (unsigned)_i);
	tiny_engine_init(&e, tiny, &setup);
	for (unsigned i = 0; i < 20; i++)
		scheduler_add(e.scheduler, rig_call(i, i));
	while (scheduler_n_running(e.scheduler) || scheduler_n_waiting(e.scheduler)) {
		uint64_t prompts = scheduler_totals(e.scheduler)->prompt_tokens;
		scheduler_admit(e.scheduler);
		ck_assert_uint_le(scheduler_decode_step(e.scheduler), setup.max_running);
		if (rand() % 3 == 0)
			continue;
		uint32_t max = 1 + (uint32_t)rand() % setup.prefill_chunk, n = scheduler_prefill_step(e.scheduler, max);
		ck_assert_uint_le(n, max);
		ck_assert_uint_eq(scheduler_totals(e.scheduler)->prompt_tokens - prompts, n);
	}
	for (unsigned i = 0; i < 20; i++)
		rig_same(&alone.call[i], &room.call[i], i);
	tiny_engine_fini(&e);
}
END_TEST

/* One step with prefill passes that stop after any layer; returns whether one was left standing. */
static bool step_in_parts(struct tiny_engine *e, uint32_t max_rows)
{
	scheduler_admit(e->scheduler);
	scheduler_decode_step(e->scheduler);
	uint32_t rows = scheduler_prefill_begin(e->scheduler, 1 + (uint32_t)rand() % max_rows);
	bool more = rows > 0;
	for (int n = rand() % 3; n > 0 && more; n--)
		more = scheduler_prefill_advance(e->scheduler);
	if (more)
		ck_assert_uint_eq(scheduler_prefill_begin(e->scheduler, 1), rows);
	if (rand() % 4 == 0)
		forward_trim(e->forward);
	return more;
}

static void check_nothing_is_left(struct tiny_engine *e)
{
	ck_assert_uint_eq(e->kv.n_used, 0);
	forward_rest(e->forward);
	ck_assert_uint_eq(e->arena.bytes, 0);
	tiny_engine_fini(e);
}

START_TEST(calls_come_and_go_during_a_pass)
{
	static struct room room;
	memset(&room, 0, sizeof room);
	struct tiny_setup setup = rig_setup(&room);
	struct tiny_engine e;
	unsigned next = 0, n_left_a_pass = 0;
	srand(300 + (unsigned)_i);
	tiny_engine_init(&e, tiny, &setup);
	while (next < 40 || scheduler_n_running(e.scheduler) || scheduler_n_waiting(e.scheduler)) {
		for (int n = rand() % 3; n > 0 && next < 40; n--, next++)
			scheduler_add(e.scheduler, rig_call(next, next % 20));
		bool standing = step_in_parts(&e, setup.prefill_chunk);
		struct generation *g = scheduler_find(e.scheduler, 20 + (unsigned)rand() % 20);
		n_left_a_pass += standing && g && g->state == GENERATION_PREFILL;
		if (g)
			scheduler_cancel(e.scheduler, g->id);
	}
	for (unsigned i = 0; i < 20; i++)
		rig_same(&alone.call[i], &room.call[i], i);
	ck_assert_uint_gt(n_left_a_pass, 1);
	check_nothing_is_left(&e);
}
END_TEST

enum { LONG_CALLS = 8, LONG_PROMPT = 120 };

/* Calls with long answers, in parts. Returns how often a call was evicted while a pass stood still. */
static unsigned run_long_answers(struct room *room, uint32_t kv_pages)
{
	struct generation_params params = {
		.sampler = {.top_p = 1, .repeat_penalty = 1}, .max_tokens = 200, .logprobs = true, .ignore_end = true};
	memset(room, 0, sizeof *room);
	struct tiny_setup setup = rig_setup(room);
	struct tiny_engine e;
	unsigned n_left_a_pass = 0;
	setup.kv_pages = kv_pages;
	tiny_engine_init(&e, tiny, &setup);
	for (unsigned i = 0; i < LONG_CALLS; i++) {
		uint32_t *prompt = malloc(LONG_PROMPT * sizeof *prompt);
		for (unsigned j = 0; j < LONG_PROMPT; j++)
			prompt[j] = (i * 37 + j * j * 5) % TINY_BYTES;
		scheduler_add(e.scheduler, generation_new(i, &params, prompt, LONG_PROMPT, NULL, 0, "", 0));
	}
	while (scheduler_n_running(e.scheduler) || scheduler_n_waiting(e.scheduler)) {
		bool standing = step_in_parts(&e, 16);
		uint64_t evicted = scheduler_totals(e.scheduler)->evicted;
		scheduler_decode_step(e.scheduler);
		n_left_a_pass += standing && scheduler_totals(e.scheduler)->evicted > evicted;
	}
	check_nothing_is_left(&e);
	return n_left_a_pass;
}

START_TEST(evicted_calls_leave_the_pass)
{
	static struct room wide, narrow;
	unsigned n_left_a_pass = 0;
	srand(400);
	run_long_answers(&wide, 600);
	for (int round = 0; round < 4; round++) {
		n_left_a_pass += run_long_answers(&narrow, 20); /* two calls at their full length */
		for (unsigned i = 0; i < LONG_CALLS; i++)
			rig_same(&wide.call[i], &narrow.call[i], i);
	}
	ck_assert_uint_gt(n_left_a_pass, 0);
}
END_TEST

/* The memory of a wide pass is given back while a narrow one goes on, and no bit of it changes. */
START_TEST(scratch_shrinks_to_what_runs)
{
	static struct room room;
	memset(&room, 0, sizeof room);
	struct tiny_setup setup = rig_setup(&room);
	struct tiny_engine e;
	tiny_engine_init(&e, tiny, &setup);
	scheduler_add(e.scheduler, rig_call(15, 15)); /* its answer is among the longest */
	scheduler_step(e.scheduler);
	for (int i = 0; i < 2; i++) {
		scheduler_step(e.scheduler);
		forward_trim(e.forward);
	}
	size_t narrow = e.arena.bytes;
	scheduler_add(e.scheduler, rig_call(9, 9));
	scheduler_step(e.scheduler);
	ck_assert_uint_gt(e.arena.bytes, narrow + (64 << 10)); /* the prefill lane */
	scheduler_cancel(e.scheduler, 9);
	for (int i = 0; i < 2; i++) {
		scheduler_step(e.scheduler);
		forward_trim(e.forward);
	}
	ck_assert_uint_le(e.arena.bytes, narrow + 2 * e.kv.page_bytes);
	while (scheduler_step(e.scheduler))
		forward_trim(e.forward);
	rig_same(&alone.call[15], &room.call[15], 15);
	forward_trim(e.forward);
	forward_trim(e.forward);
	ck_assert_uint_eq(e.arena.bytes, 0);
	tiny_engine_fini(&e);
}
END_TEST

struct mapping {
	void *image;
	size_t n_bytes;
	bool gone;
};

static void unmap(void *arg)
{
	struct mapping *m = arg;
	munmap(m->image, m->n_bytes);
	m->gone = true;
}

/* A call that ends in the middle of a pass may have been the last to hold its adapter: its image is gone at once, and
 * the pass goes on with the others' rows without a look at it. */
START_TEST(an_adapter_goes_with_its_last_call)
{
	static const struct tiny_adapter_spec spec = {80, TINY_ALL_PRODUCTS, 6, PACK_F32, 0.5f};
	static struct room room;
	struct tiny_setup setup = rig_setup(&room);
	struct mapping mapping;
	struct err err = {""};
	struct tiny_engine e;
	uint64_t n_bytes;
	memset(&room, 0, sizeof room);
	tiny_engine_init(&e, tiny, &setup);
	void *image = tiny_adapter_image(tiny, &spec, &n_bytes);
	mapping = (struct mapping){.n_bytes = n_bytes};
	mapping.image = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(mapping.image, MAP_FAILED);
	memcpy(mapping.image, image, n_bytes);
	free(image);
	struct generation *last = rig_call(9, 9); /* 200 tokens of prompt */
	adapter_put(last->adapter);
	ck_assert_int_eq(adapter_attach(&tiny->model, mapping.image, n_bytes, unmap, &mapping, &last->adapter, &err),
			 0);
	scheduler_add(e.scheduler, last);
	scheduler_add(e.scheduler, rig_call(8, 8));
	scheduler_admit(e.scheduler);
	ck_assert_uint_eq(scheduler_prefill_begin(e.scheduler, 64), 64);
	ck_assert(scheduler_prefill_advance(e.scheduler));
	ck_assert(!mapping.gone);
	scheduler_cancel(e.scheduler, 9);
	ck_assert(mapping.gone);
	ck_assert(scheduler_prefill_under_way(e.scheduler));
	while (scheduler_step(e.scheduler))
		;
	rig_same(&alone.call[8], &room.call[8], 8);
	check_nothing_is_left(&e);
}
END_TEST

START_TEST(company_cannot_be_seen)
{
	static struct room room;
	memset(&room, 0, sizeof room);
	struct tiny_setup setup = rig_setup(&room);
	struct tiny_engine e;
	unsigned order[20], next = 0;
	srand(100 + (unsigned)_i);
	for (unsigned i = 0; i < 20; i++) {
		unsigned j = (unsigned)rand() % (i + 1);
		order[i] = order[j];
		order[j] = i;
	}
	if (_i % 3 == 2)
		setup.kv_pages = 20; /* most have to wait for pages */
	tiny_engine_init(&e, tiny, &setup);
	while (next < 20 || scheduler_n_running(e.scheduler) || scheduler_n_waiting(e.scheduler)) {
		for (int n = rand() % 4; n > 0 && next < 20; n--, next++)
			scheduler_add(e.scheduler, rig_call(order[next], order[next]));
		scheduler_step(e.scheduler);
	}
	for (unsigned i = 0; i < 20; i++)
		rig_same(&alone.call[i], &room.call[i], i);
	ck_assert_uint_eq(e.kv.n_used, 0);
	tiny_engine_fini(&e);
}
END_TEST

START_TEST(cancelled_calls_leave_nothing_and_change_nobody)
{
	static struct room room;
	memset(&room, 0, sizeof room);
	struct tiny_setup setup = rig_setup(&room);
	struct tiny_engine e;
	srand(7);
	tiny_engine_init(&e, tiny, &setup);
	for (unsigned i = 0; i < 20; i++)
		scheduler_add(e.scheduler, rig_call(i, i));
	for (unsigned i = 20; i < 40; i++)
		scheduler_add(e.scheduler, rig_call(i, i - 20));
	for (unsigned steps = 0; scheduler_n_running(e.scheduler) || scheduler_n_waiting(e.scheduler); steps++) {
		scheduler_step(e.scheduler);
		scheduler_cancel(e.scheduler, 20 + (unsigned)rand() % 20);
		ck_assert_uint_lt(steps, 1000);
	}
	ck_assert(!scheduler_cancel(e.scheduler, 3));
	for (unsigned i = 0; i < 20; i++)
		rig_same(&alone.call[i], &room.call[i], i);
	unsigned cancelled = 0;
	for (unsigned i = 20; i < 40; i++)
		cancelled += room.call[i].done == GENERATION_CANCELLED;
	ck_assert_uint_gt(cancelled, 5);
	ck_assert_uint_eq(scheduler_totals(e.scheduler)->cancelled, cancelled);
	ck_assert_uint_eq(e.kv.n_used, 0);
	forward_rest(e.forward);
	ck_assert_uint_eq(e.arena.bytes, 0);
	tiny_engine_fini(&e);
}
END_TEST

/* Prompt scored in prefill, the same tokens scored in decode: two numerics, one mathematics. */
START_TEST(decode_agrees_with_prefill)
{
	static struct room room;
	memset(&room, 0, sizeof room);
	struct tiny_setup setup = rig_setup(&room);
	struct tiny_engine e;
	enum { N = 120 };
	struct generation_params params = {
		.sampler = {.top_p = 1, .repeat_penalty = 1}, .logprobs = true, .echo = true};
	uint32_t *prompt = malloc(N * 4), *first = malloc(4), *forced = malloc((N - 1) * 4);
	for (unsigned i = 0; i < N; i++)
		prompt[i] = (i * i * 11 + 3) % TINY_VOCAB;
	first[0] = prompt[0];
	memcpy(forced, prompt + 1, (N - 1) * 4);
	tiny_engine_init(&e, tiny, &setup);
	scheduler_add(e.scheduler, generation_new(0, &params, prompt, N, NULL, 0, "", 0));
	params.max_tokens = N - 1;
	scheduler_add(e.scheduler, generation_new(1, &params, first, 1, forced, N - 1, "", 0));
	while (scheduler_step(e.scheduler))
		;
	ck_assert_uint_eq(room.call[0].n, N);
	ck_assert_uint_eq(room.call[1].n, N);
	ck_assert_int_eq(room.call[1].done, GENERATION_LENGTH);
	double tolerance = rig_setup(&room).numerics == NUMERICS_BF16 ? 0.06 : 2e-3;
	for (unsigned i = 0; i < N; i++) {
		ck_assert_uint_eq(room.call[0].ids[i], room.call[1].ids[i]);
		ck_assert_double_lt(abs((int)(1e6 * (room.call[0].logprobs[i] - room.call[1].logprobs[i]))) / 1e6,
				    tolerance);
	}
	tiny_engine_fini(&e);
}
END_TEST

START_TEST(stops_and_limits_end_an_answer)
{
	static struct room room;
	memset(&room, 0, sizeof room);
	struct tiny_setup setup = rig_setup(&room);
	struct tiny_engine e;
	struct generation_params params = {.sampler = {.top_p = 1, .repeat_penalty = 1}, .max_tokens = 20};
	uint32_t answer[] = {'a', 'b', 'c', 'S', 'T', 'x', 'S', 'T', 'O', 'P', 'y'};
	uint32_t *forced = malloc(sizeof answer), *prompt = malloc(4), *prompt2 = malloc(4), *prompt3 = malloc(500 * 4);
	memcpy(forced, answer, sizeof answer);
	prompt[0] = prompt2[0] = 1;
	memset(prompt3, 0, 500 * 4);
	tiny_engine_init(&e, tiny, &setup);
	scheduler_add(e.scheduler, generation_new(0, &params, prompt, 1, forced, 11, "zz\0STOP\0", 8));
	params.max_tokens = 0;
	scheduler_add(e.scheduler, generation_new(1, &params, prompt2, 1, NULL, 0, "", 0));
	params.max_tokens = UINT32_MAX;
	params.ignore_end = true;
	scheduler_add(e.scheduler, generation_new(2, &params, prompt3, 500, NULL, 0, "", 0));
	while (scheduler_step(e.scheduler))
		;
	ck_assert_int_eq(room.call[0].done, GENERATION_STOP);
	ck_assert_uint_eq(room.call[0].n, 10);
	ck_assert_uint_eq(room.call[0].n_text, 6);
	ck_assert_int_eq(memcmp(room.call[0].text, "abcSTx", 6), 0);
	ck_assert_int_eq(room.call[1].done, GENERATION_LENGTH);
	ck_assert_uint_eq(room.call[1].n, 0);
	ck_assert_int_eq(room.call[2].done, GENERATION_LENGTH);
	ck_assert_uint_eq(room.call[2].n, 12); /* 500 + 12 fill the context */
	tiny_engine_fini(&e);
}
END_TEST

START_TEST(a_blocked_call_waits_and_holds_nobody_up)
{
	static struct room room;
	memset(&room, 0, sizeof room);
	struct tiny_setup setup = rig_setup(&room);
	struct tiny_engine e;
	tiny_engine_init(&e, tiny, &setup);
	scheduler_add(e.scheduler, rig_call(2, 2));
	scheduler_add(e.scheduler, rig_call(3, 3));
	scheduler_step(e.scheduler);
	scheduler_find(e.scheduler, 2)->blocked = true;
	while (scheduler_step(e.scheduler))
		;
	ck_assert_int_eq(room.call[2].done, 0);
	rig_same(&alone.call[3], &room.call[3], 3);
	scheduler_find(e.scheduler, 2)->blocked = false;
	while (scheduler_step(e.scheduler))
		;
	rig_same(&alone.call[2], &room.call[2], 2);
	tiny_engine_fini(&e);
}
END_TEST

START_TEST(one_product_per_layer_and_matrix_for_all_rows)
{
	static struct room room;
	memset(&room, 0, sizeof room);
	struct tiny_setup setup = rig_setup(&room);
	struct tiny_engine e;
	const uint64_t of_layers = 3 * 7, of_head = 1;
	unsigned n_steps = 0;
	setup.prefill_chunk = 80;
	tiny_engine_init(&e, tiny, &setup);
	for (unsigned i = 0; i < 16; i++) /* five prompt tokens without echo: all prompts are one pass */
		scheduler_add(e.scheduler, rig_call(i, 11));
	scheduler_admit(e.scheduler);
	ck_assert_uint_eq(scheduler_prefill_step(e.scheduler, 80), 80);
	ck_assert_uint_eq(forward_products(e.forward), of_layers + of_head);
	while (rig_busy(&e)) {
		uint64_t before = forward_products(e.forward), steps = scheduler_totals(e.scheduler)->steps;
		uint32_t n_running = scheduler_n_running(e.scheduler);
		ck_assert_uint_eq(scheduler_decode_step(e.scheduler), n_running);
		ck_assert_uint_eq(scheduler_totals(e.scheduler)->steps - steps, 1);
		ck_assert_uint_eq(forward_products(e.forward) - before, of_layers + of_head);
		n_steps += n_running == 16;
	}
	ck_assert_uint_gt(n_steps, 1);
	tiny_engine_fini(&e);
}
END_TEST

static uint64_t ticks;

static uint64_t tick(void)
{
	return ++ticks;
}

/* Each part of the forward pass lasts one tick of a clock that ticks when it is asked; nobody else asks. */
START_TEST(only_the_forward_pass_is_timed)
{
	static struct room room;
	memset(&room, 0, sizeof room);
	struct tiny_setup setup = rig_setup(&room);
	struct tiny_engine e;
	const uint64_t layers = 3, logits = 1;
	setup.now_ns = tick;
	tiny_engine_init(&e, tiny, &setup);
	const struct scheduler_totals *totals = scheduler_totals(e.scheduler);
	scheduler_add(e.scheduler, rig_call(0, 11)); /* five prompt tokens */
	scheduler_admit(e.scheduler);
	ck_assert_uint_eq(totals->forward_ns, 0);
	scheduler_prefill_step(e.scheduler, 64);
	ck_assert_uint_eq(totals->forward_ns, layers + logits);
	scheduler_decode_step(e.scheduler);
	ck_assert_uint_eq(totals->forward_ns, layers + logits + 1 + logits);
	ck_assert_uint_eq(ticks, 2 * totals->forward_ns);
	tiny_engine_fini(&e);
}
END_TEST

int main(int argc, char **argv)
{
	const char *name = rig_level(argc, argv);
	if (!name)
		return 77;
	Suite *suite = suite_create("scheduler");
	TCase *tc = tcase_create(name);
	tcase_set_timeout(tc, 300);
	tcase_add_unchecked_fixture(tc, set_up,
				    tear_down); /* the calls alone: computed once, inherited by every test */
	tcase_add_loop_test(tc, threads_and_chunks_cannot_be_seen, 0, 6);
	tcase_add_loop_test(tc, the_pace_cannot_be_seen, 0, 3);
	tcase_add_loop_test(tc, calls_come_and_go_during_a_pass, 0, 8);
	tcase_add_test(tc, evicted_calls_leave_the_pass);
	tcase_add_test(tc, scratch_shrinks_to_what_runs);
	tcase_add_test(tc, an_adapter_goes_with_its_last_call);
	tcase_add_loop_test(tc, company_cannot_be_seen, 0, 9);
	tcase_add_test(tc, cancelled_calls_leave_nothing_and_change_nobody);
	tcase_add_test(tc, decode_agrees_with_prefill);
	tcase_add_test(tc, stops_and_limits_end_an_answer);
	tcase_add_test(tc, a_blocked_call_waits_and_holds_nobody_up);
	tcase_add_test(tc, one_product_per_layer_and_matrix_for_all_rows);
	tcase_add_test(tc, only_the_forward_pass_is_timed);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
