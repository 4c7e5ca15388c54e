/* Calls that take each other's memory: evicted and resumed, sharing pages of prompts, in any company. What a call says
 * must be what it says alone, every call ends, and what was taken comes back. Runs once per CPU level, as scheduler.c
 * does. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/scheduler_rig.h"
#include "tests/unit/suite.h"

static struct tiny_model *tiny;
static struct room alone; /* call i of the repertoire by itself */
static struct room room;
static struct tiny_engine e;

enum { SMALLEST_POOL = 10 /* pages: what the longest call of the repertoire needs by itself */, STEPS_MAX = 20000 };

static void compute_alone(void)
{
	tiny = tiny_model_new(PACK_Q4_1, 42);
	rig_adapters_new(tiny);
	struct tiny_setup setup = rig_setup(&alone);
	rig_run_alone(tiny, RIG_REPERTOIRE, &setup);
}

static void free_alone(void)
{
	rig_adapters_free();
	tiny_model_free(tiny);
}

/* An engine with a pool of `kv_pages`, of which the prefix cache may keep some. */
static void start(uint32_t kv_pages, uint32_t cached_pages, uint32_t chunk, unsigned n_threads)
{
	struct tiny_setup setup = rig_setup(&room);
	memset(&room, 0, sizeof room);
	setup.kv_pages = kv_pages;
	setup.prefix_cache_bytes = cached_pages * kv_page_bytes(&tiny->model.config, setup.kv_type);
	setup.prefill_chunk = chunk;
	setup.n_threads = n_threads;
	tiny_engine_init(&e, tiny, &setup);
}

static void stop(void)
{
	rig_expect_rest(&e);
	tiny_engine_fini(&e);
}

static const struct scheduler_totals *totals(void)
{
	return scheduler_totals(e.scheduler);
}

static void run_all(void)
{
	for (unsigned steps = 0; scheduler_step(e.scheduler); steps++)
		ck_assert_uint_lt(steps, STEPS_MAX);
}

static unsigned *shuffled(unsigned n)
{
	static unsigned order[RIG_REPERTOIRE];
	for (unsigned i = 0; i < n; i++) {
		unsigned j = (unsigned)rand() % (i + 1);
		order[i] = order[j];
		order[j] = i;
	}
	return order;
}

/* A plain greedy call: `n_prompt` tokens of its own, `n_answer` of answer. */
static struct generation *plain(uint64_t id, uint32_t n_prompt, uint32_t n_answer)
{
	struct generation_params params = {
		.sampler = {.top_p = 1, .repeat_penalty = 1},
		.max_tokens = n_answer,
		.logprobs = true,
		.ignore_end = true,
	};
	uint32_t *prompt = malloc(n_prompt * sizeof *prompt);
	for (uint32_t j = 0; j < n_prompt; j++)
		prompt[j] = ((uint32_t)id * 50 + j * j * 3 + j) % TINY_BYTES;
	return generation_new(id, &params, prompt, n_prompt, NULL, 0, "", 0);
}

/* --- what a call says --- */

/* 100 seeds: which 17 of the repertoire, order and moment of arrival, chunk and threads are random; every pool meets
 * every cache. */
START_TEST(company_memory_and_cache_cannot_be_seen)
{
	static const uint32_t chunks[] = {64, 7, 200, 32}, cached[] = {0, 5, 600};
	uint32_t pools[] = {600, 24, SMALLEST_POOL + 2, SMALLEST_POOL};
	srand(1000 + (unsigned)_i);
	start(pools[_i % 4], cached[_i % 3], chunks[rand() % 4], 1 + (unsigned)rand() % 2);
	unsigned *order = shuffled(RIG_REPERTOIRE), next = 0, n = 17; /* a call and 16 others */
	for (unsigned steps = 0; next < n || rig_busy(&e); steps++) {
		for (int arrivals = rand() % 4; arrivals > 0 && next < n; arrivals--, next++)
			scheduler_add(e.scheduler, rig_call(order[next], order[next]));
		scheduler_step(e.scheduler);
		ck_assert_uint_le(e.kv.n_used, e.kv.n_pages);
		ck_assert_uint_lt(steps, STEPS_MAX);
	}
	for (unsigned i = 0; i < n; i++)
		rig_same(&alone.call[order[i]], &room.call[order[i]], order[i]);
	if (_i % 4 == 3) {
		ck_assert_uint_gt(totals()->evicted, 0);
		ck_assert_uint_gt(totals()->replayed_tokens, 0);
	} else if (_i % 4 == 0) {
		ck_assert_uint_eq(totals()->evicted, 0);
		ck_assert_uint_eq(totals()->replayed_tokens, 0);
	}
	stop();
}
END_TEST

/* --- order --- */

/* All calls at once in the smallest pool. Calls come in by their arrival: who waits without having just been evicted is
 * younger than all who have been let in. The oldest is never touched. */
START_TEST(memory_goes_to_the_older_call)
{
	uint32_t n_evicted[RIG_REPERTOIRE] = {0};
	bool waited[RIG_REPERTOIRE];
	start(SMALLEST_POOL, 0, 64, 2);
	for (unsigned i = 0; i < RIG_REPERTOIRE; i++) {
		scheduler_add(e.scheduler, rig_call(i, i));
		waited[i] = true;
	}
	for (unsigned steps = 0; rig_busy(&e); steps++) {
		bool older_waits = false;
		unsigned oldest = 0;
		while (!scheduler_find(e.scheduler, oldest))
			oldest++;
		scheduler_step(e.scheduler);
		ck_assert_uint_lt(steps, STEPS_MAX);
		for (unsigned i = 0; i < RIG_REPERTOIRE; i++) {
			struct generation *g = scheduler_find(e.scheduler, i);
			if (!g)
				continue;
			ck_assert(i != oldest || g->n_evicted == n_evicted[i]);
			bool waits = g->state == GENERATION_WAITING, evicted_now = g->n_evicted > n_evicted[i];
			ck_assert(!(older_waits && waited[i] && !waits));
			older_waits |= waits && !evicted_now;
			waited[i] = waits;
			n_evicted[i] = g->n_evicted;
		}
	}
	ck_assert_uint_eq(n_evicted[0], 0);
	ck_assert_uint_gt(totals()->evicted, 2);
	for (unsigned i = 0; i < RIG_REPERTOIRE; i++)
		rig_same(&alone.call[i], &room.call[i], i);
	stop();
}
END_TEST

START_TEST(a_call_whose_client_does_not_read_makes_room_first)
{
	start(8, 0, 64, 1);
	scheduler_add(e.scheduler, plain(0, 40, 100)); /* 2 pages, 5 in the end */
	scheduler_add(e.scheduler, plain(2, 40, 100)); /* so does this one */
	scheduler_add(e.scheduler, plain(3, 10, 100)); /* 4 in the end */
	scheduler_step(e.scheduler);
	scheduler_step(e.scheduler);
	struct generation *blocked = scheduler_find(e.scheduler, 2), *younger = scheduler_find(e.scheduler, 3);
	ck_assert_int_eq(blocked->state, GENERATION_DECODE);
	ck_assert_int_eq(younger->state, GENERATION_DECODE);
	blocked->blocked = true;
	while (room.call[0].done == 0 && !blocked->n_evicted)
		scheduler_step(e.scheduler);
	ck_assert_uint_eq(blocked->n_evicted, 1);
	run_all();
	ck_assert_int_eq(room.call[3].done, GENERATION_LENGTH);
	ck_assert_uint_eq(scheduler_n_running(e.scheduler), 0);
	ck_assert_int_eq(room.call[2].done, 0); /* it does not come back before its client reads */
	ck_assert_uint_eq(e.kv.n_used, 0);
	ck_assert(!scheduler_can_run(e.scheduler));
	scheduler_find(e.scheduler, 2)->blocked = false;
	ck_assert(scheduler_can_run(e.scheduler));
	run_all();
	ck_assert_uint_eq(room.call[2].n, 100);
	stop();
}
END_TEST

/* The oldest one's client stalls and the rest of the pool is too small for the other: it waits without turning in
 * circles, and goes on when the oldest is gone. */
START_TEST(who_finds_no_memory_waits_and_does_not_spin)
{
	start(7, 0, 64, 1);
	scheduler_add(e.scheduler, plain(0, 100, 40));
	scheduler_step(e.scheduler);
	scheduler_add(e.scheduler, plain(1, 30, 100));
	scheduler_step(e.scheduler);
	scheduler_step(e.scheduler);
	scheduler_find(e.scheduler, 0)->blocked = true;
	run_all();
	struct generation *waiter = scheduler_find(e.scheduler, 1);
	ck_assert_ptr_nonnull(waiter);
	ck_assert_uint_gt(waiter->n_answer, 10);
	ck_assert_uint_eq(kv_available(&e.kv), 0);
	uint64_t steps = totals()->steps;
	ck_assert(!scheduler_step(e.scheduler));
	ck_assert_uint_eq(totals()->steps, steps);
	scheduler_cancel(e.scheduler, 0);
	ck_assert(scheduler_can_run(e.scheduler));
	run_all();
	ck_assert_uint_eq(room.call[1].n, 100);
	ck_assert_uint_eq(totals()->evicted, 0);
	stop();
}
END_TEST

/* --- replay --- */

START_TEST(a_resumed_answer_is_replayed_many_tokens_a_pass)
{
	start(8, 0, 64, 2);
	scheduler_add(e.scheduler, plain(0, 60, 110)); /* 6 pages in the end */
	scheduler_add(e.scheduler, plain(1, 20, 150)); /* so is this one */
	struct generation *g = scheduler_find(e.scheduler, 1);
	while (room.call[1].n < 149 && !g->n_evicted)
		scheduler_step(e.scheduler);
	ck_assert_uint_eq(g->n_evicted, 1);
	uint32_t said = room.call[1].n, widest = 0;
	ck_assert_uint_gt(said, 40);
	ck_assert_uint_eq(g->n_answer, said);
	while (g->n_prompt + g->n_answer - g->kv.n_tokens != 1 || g->state == GENERATION_WAITING) {
		ck_assert_uint_eq(room.call[1].n, said);
		scheduler_admit(e.scheduler);
		uint32_t n = scheduler_decode_step(e.scheduler);
		widest = n > widest ? n : widest;
		if (room.call[1].n == said)
			scheduler_prefill_step(e.scheduler, 64);
		else
			break;
	}
	ck_assert_uint_eq(widest, DECODE_ROWS_MAX);
	uint32_t n_prefill = 0, n_decode = 0;
	for (uint32_t p = 0; p < g->kv.n_pages; p++) {
		n_prefill += g->kv.pages[p]->n_prefill;
		n_decode += g->kv.pages[p]->n_decode;
	}
	ck_assert_uint_eq(n_prefill, 20);
	ck_assert_uint_eq(n_decode, g->n_answer - 1);
	run_all();
	ck_assert_uint_eq(room.call[1].n, 150);
	ck_assert_uint_eq(totals()->answer_tokens, 110 + 150);
	ck_assert_uint_eq(totals()->prompt_tokens, 60 + 20);
	ck_assert_uint_ge(totals()->replayed_tokens, 20 + said - 1);
	stop();
}
END_TEST

/* A prompt that is scored loses its pages in the middle: each of its tokens is reported once. */
START_TEST(a_prompt_evicted_half_way_is_reported_once)
{
	static const struct {
		uint32_t cached;
	} cases[] = {{0}, {600}};
	start(14, cases[_i].cached, 1, 1);
	struct generation *scored = rig_call(9, 9); /* 200 tokens, echo with log-probabilities */
	scheduler_add(e.scheduler, plain(0, 130, 250));
	while (!scheduler_find(e.scheduler, 0)->n_answer)
		scheduler_step(e.scheduler);
	scheduler_add(e.scheduler, scored);
	while (room.call[9].n < 200 && !scored->n_evicted)
		scheduler_step(e.scheduler);
	ck_assert_uint_gt(scored->n_reported, 40);
	ck_assert_uint_lt(scored->n_reported, 200);
	run_all();
	rig_same(&alone.call[9], &room.call[9], 9);
	stop();
}
END_TEST

/* --- fairness --- */

START_TEST(a_chunk_goes_to_the_oldest_prompt_and_to_those_that_end_soon)
{
	start(600, 0, 60, 1);
	static const uint32_t lengths[] = {400, 10, 300, 25};
	for (uint64_t id = 0; id < 4; id++)
		scheduler_add(e.scheduler, plain(id, lengths[id], 5));
	scheduler_step(e.scheduler);
	/* 30 are the oldest's, 10 complete the second, and the last has the 20 that are left. */
	ck_assert_uint_eq(scheduler_find(e.scheduler, 0)->kv.n_tokens, 30);
	ck_assert_uint_eq(room.call[1].n, 1);
	ck_assert_uint_eq(scheduler_find(e.scheduler, 2)->kv.n_tokens, 0);
	ck_assert_uint_eq(scheduler_find(e.scheduler, 3)->kv.n_tokens, 20);
	ck_assert_uint_eq(scheduler_n_prompts(e.scheduler), 3);
	scheduler_step(e.scheduler);
	/* 30 again, 5 complete the last, and of the others the third has fewer to come. */
	ck_assert_uint_eq(scheduler_find(e.scheduler, 0)->kv.n_tokens, 60);
	ck_assert_uint_eq(scheduler_find(e.scheduler, 2)->kv.n_tokens, 25);
	ck_assert_uint_eq(room.call[3].n, 1);
	ck_assert_uint_eq(scheduler_n_prompts(e.scheduler), 2);
	ck_assert_uint_eq(scheduler_prefill_step(e.scheduler, 1), 1); /* a single row is the oldest's */
	ck_assert_uint_eq(scheduler_find(e.scheduler, 0)->kv.n_tokens, 61);
	run_all();
	ck_assert_uint_eq(scheduler_n_prompts(e.scheduler), 0);
	stop();
}
END_TEST

/* With equal parts, all six would have their first token after six steps. */
START_TEST(prompts_that_come_together_begin_one_after_the_other)
{
	start(600, 0, 60, 1);
	for (uint64_t id = 0; id < 6; id++)
		scheduler_add(e.scheduler, plain(id, 60, 10));
	for (uint64_t n_begun = 1; n_begun <= 6; n_begun++) {
		scheduler_step(e.scheduler);
		for (uint64_t id = 0; id < 6; id++)
			ck_assert_uint_eq(room.call[id].n, id < n_begun ? n_begun - id : 0);
	}
	run_all();
	stop();
}
END_TEST

/* A short prompt a step, for which half of the rows are enough: the long ones have the other half, in their order, and
 * the last rows of a long one are as near to its end as a short one's. */
START_TEST(short_prompts_do_not_starve_long_ones)
{
	start(600, 0, 60, 1);
	uint32_t begun[2] = {0};
	scheduler_add(e.scheduler, plain(0, 400, 2));
	scheduler_add(e.scheduler, plain(1, 300, 2));
	for (uint32_t steps = 1; steps <= 24; steps++) {
		scheduler_add(e.scheduler, plain(1 + steps, 30, 2));
		scheduler_step(e.scheduler);
		if (steps > 1)
			ck_assert_uint_ge(room.call[steps].n, 1); /* the one of the step before */
		for (unsigned id = 0; id < 2; id++)
			if (!begun[id] && room.call[id].n)
				begun[id] = steps;
	}
	ck_assert_uint_eq(begun[0], 13); /* 13 * 30, and then 10 are fewer than a short one's 30 */
	ck_assert_uint_eq(begun[1], 23); /* 10 * 30 more */
	run_all();
	stop();
}
END_TEST

START_TEST(a_short_prompt_behind_a_long_one_starts_at_once)
{
	start(600, 0, 64, 2);
	scheduler_add(e.scheduler, plain(0, 500, 5));
	scheduler_step(e.scheduler);
	scheduler_add(e.scheduler, plain(1, 30, 5));
	scheduler_step(e.scheduler);
	ck_assert_uint_eq(room.call[1].n, 1);
	ck_assert_uint_eq(room.call[0].n, 0);
	run_all();
	stop();
}
END_TEST

/* --- prefix cache --- */

START_TEST(warm_or_cold_cannot_be_seen)
{
	static const uint32_t cached[] = {600, 5};
	start(600, cached[_i], 64, 2);
	for (unsigned round = 0; round < 3; round++) {
		memset(&room, 0, sizeof room);
		uint64_t before = totals()->prefix_tokens, computed = totals()->prompt_tokens;
		for (unsigned i = 0; i < RIG_REPERTOIRE; i++) {
			unsigned call = i % 5 * 4 + i / 5; /* those that begin alike follow each other */
			scheduler_add(e.scheduler, rig_call(call, call));
			run_all();
			ck_assert_uint_le(scheduler_prefix_bytes(e.scheduler), cached[_i] * e.kv.page_bytes);
		}
		for (unsigned i = 0; i < RIG_REPERTOIRE; i++)
			rig_same(&alone.call[i], &room.call[i], i);
		ck_assert_uint_gt(totals()->prefix_tokens, before);
		if (round) /* counted as the calls' all the same */
			ck_assert_uint_eq(totals()->prompt_tokens - computed,
					  2 * (1 + 5 + 31 + 32 + 33 + 64 + 65 + 450));
	}
	ck_assert_uint_gt(scheduler_prefix_bytes(e.scheduler), 0);
	stop();
}
END_TEST

START_TEST(a_cached_prompt_costs_its_last_page)
{
	start(600, 600, 64, 1);
	scheduler_add(e.scheduler, plain(1, 160, 4)); /* 5 pages to the last token */
	run_all();
	ck_assert_uint_eq(e.kv.n_used, 5);
	memset(&room, 0, sizeof room);
	scheduler_add(e.scheduler, plain(1, 160, 4));
	scheduler_step(e.scheduler);
	ck_assert_uint_eq(totals()->prefix_tokens, 128); /* the last token is always computed, so its page is */
	ck_assert_uint_eq(room.call[1].n, 1);
	ck_assert_uint_eq(e.kv.n_used, 5); /* and swapped for the one that is there */
	run_all();
	memset(&room, 0, sizeof room);
	/* Another one whose prompt goes on after it shares all of it. */
	scheduler_add(e.scheduler, plain(1, 161, 4));
	scheduler_step(e.scheduler);
	ck_assert_uint_eq(totals()->prefix_tokens, 128 + 160);
	run_all();
	stop();
}
END_TEST

START_TEST(calls_that_score_their_prompt_compute_it)
{
	start(600, 600, 64, 1);
	for (unsigned round = 0; round < 2; round++) {
		memset(&room, 0, sizeof room);
		scheduler_add(e.scheduler, rig_call(9, 9));
		run_all();
		rig_same(&alone.call[9], &room.call[9], 9);
	}
	ck_assert_uint_eq(totals()->prefix_tokens, 0);
	ck_assert_uint_gt(scheduler_prefix_bytes(e.scheduler), 0);
	stop();
}
END_TEST

/* Pages that nobody but the cache holds are as good as free: for being let in, and for growing. Nobody is evicted. */
START_TEST(the_cache_gives_way_to_calls)
{
	start(10, 600, 64, 1);
	scheduler_add(e.scheduler, plain(1, 250, 4));
	run_all();
	ck_assert_uint_eq(e.kv.n_idle, 7);
	scheduler_add(e.scheduler, plain(2, 140, 30));
	scheduler_add(e.scheduler, plain(3, 20, 40));
	scheduler_step(e.scheduler);
	ck_assert_uint_eq(scheduler_n_running(e.scheduler), 2);
	run_all();
	ck_assert_uint_eq(room.call[2].n, 30);
	ck_assert_uint_eq(room.call[3].n, 40);
	ck_assert_uint_eq(totals()->evicted, 0);
	ck_assert_uint_le(e.kv.n_used, 10);
	stop();
}
END_TEST

/* Idle pages that a call would share are not also room for it. */
START_TEST(what_a_call_shares_is_not_free_for_it)
{
	start(10, 600, 64, 1);
	scheduler_add(e.scheduler, plain(1, 161, 1));
	run_all();
	ck_assert_uint_eq(e.kv.n_idle, 5);
	scheduler_add(e.scheduler, plain(2, 150, 11)); /* five pages: all that are left */
	scheduler_step(e.scheduler);
	struct generation *g = plain(1, 230, 4); /* five of its eight pages are there */
	g->id = 3;
	scheduler_add(e.scheduler, g);
	scheduler_step(e.scheduler);
	ck_assert_uint_eq(scheduler_n_running(e.scheduler), 1);
	run_all();
	ck_assert_uint_eq(room.call[2].n, 11);
	ck_assert_uint_eq(room.call[3].n, 4);
	ck_assert_uint_eq(totals()->prefix_tokens, 160);
	stop();
}
END_TEST

/* Many calls over one long beginning: what they share is in memory once, so they run together where they could not. */
START_TEST(a_shared_beginning_is_in_memory_once)
{
	start(12, 600, 64, 1);
	scheduler_add(e.scheduler, plain(1, 200, 1));
	run_all();
	for (uint64_t id = 10; id < 14; id++) {
		struct generation *g = plain(1, 200, 8);
		g->id = id;
		scheduler_add(e.scheduler, g);
	}
	scheduler_step(e.scheduler);
	ck_assert_uint_eq(scheduler_n_running(e.scheduler), 4);
	ck_assert_uint_eq(e.kv.n_used, 6 + 4);
	run_all();
	for (unsigned id = 10; id < 14; id++)
		ck_assert_uint_eq(room.call[id].n, 8);
	ck_assert_uint_eq(totals()->evicted, 0);
	stop();
}
END_TEST

/* --- cancelling --- */

enum stage { RESUMING_WAITS, RESUMING_PREFILLS, RESUMING_REPLAYS, NOT_RESUMING };

static enum stage stage_of(const struct generation *g)
{
	if (g->state == GENERATION_WAITING)
		return g->n_evicted ? RESUMING_WAITS : NOT_RESUMING;
	if (g->state == GENERATION_PREFILL)
		return g->n_answer ? RESUMING_PREFILLS : NOT_RESUMING;
	return g->n_prompt + g->n_answer - g->kv.n_tokens > 1 ? RESUMING_REPLAYS : NOT_RESUMING;
}

/* Cancels a call; what it alone held is back when that returns. */
static void cancel(struct generation *g)
{
	uint32_t used = e.kv.n_used - e.kv.n_idle, own = 0;
	uint64_t id = g->id;
	for (uint32_t p = 0; p < g->kv.n_pages; p++)
		own += g->kv.pages[p]->n_owners == 1u + g->kv.pages[p]->cached;
	ck_assert(scheduler_cancel(e.scheduler, id));
	ck_assert_int_eq(room.call[id].done, GENERATION_CANCELLED);
	ck_assert_uint_eq(used - own, e.kv.n_used - e.kv.n_idle);
	ck_assert_ptr_null(scheduler_find(e.scheduler, id));
}

/* Twice the repertoire; of the second half, calls are cancelled at random and whenever they are at one stage of
 * resuming. Nobody of the first half notices. */
START_TEST(calls_can_be_cancelled_at_any_moment)
{
	static const uint32_t cached[] = {0, 4, 600};
	enum stage stage = (enum stage)(_i % 3);
	unsigned cancelled = 0, at_stage = 0;
	srand(50 + (unsigned)_i);
	start(_i % 2 ? SMALLEST_POOL : SMALLEST_POOL + 2, cached[_i / 3 % 3], 10, 2);
	for (unsigned i = 0; i < RIG_REPERTOIRE; i++) {
		scheduler_add(e.scheduler, rig_call(i, i));
		scheduler_add(e.scheduler, rig_call(RIG_REPERTOIRE + i, i));
	}
	for (unsigned steps = 0; rig_busy(&e); steps++) {
		scheduler_step(e.scheduler);
		ck_assert_uint_lt(steps, STEPS_MAX);
		for (uint64_t id = RIG_REPERTOIRE; id < 2 * RIG_REPERTOIRE; id++) {
			struct generation *g = scheduler_find(e.scheduler, id);
			if (!g || !(stage_of(g) == stage ? at_stage < 6 : rand() % 1000 == 0))
				continue;
			at_stage += stage_of(g) == stage;
			cancelled++;
			cancel(g);
		}
	}
	for (unsigned i = 0; i < RIG_REPERTOIRE; i++)
		rig_same(&alone.call[i], &room.call[i], i);
	for (unsigned i = 0; i < RIG_REPERTOIRE; i++)
		if (room.call[RIG_REPERTOIRE + i].done != GENERATION_CANCELLED)
			rig_same(&alone.call[i], &room.call[RIG_REPERTOIRE + i], i);
	ck_assert_uint_eq(totals()->cancelled, cancelled);
	ck_assert_uint_gt(at_stage, 0);
	stop();
}
END_TEST

int main(int argc, char **argv)
{
	const char *name = rig_level(argc, argv);
	if (!name)
		return 77;
	int n_seeds = strcmp(name, "ref") ? 100 : 24; /* plain C takes ten times as long; 24 see all pools and caches */
	Suite *suite = suite_create("scheduler_memory");
	TCase *tc = tcase_create(name);
	tcase_set_timeout(tc, 60);
	tcase_add_unchecked_fixture(tc, compute_alone, free_alone); /* once, inherited by every test */
	tcase_add_loop_test(tc, company_memory_and_cache_cannot_be_seen, 0, n_seeds);
	tcase_add_test(tc, memory_goes_to_the_older_call);
	tcase_add_test(tc, a_call_whose_client_does_not_read_makes_room_first);
	tcase_add_test(tc, who_finds_no_memory_waits_and_does_not_spin);
	tcase_add_test(tc, a_resumed_answer_is_replayed_many_tokens_a_pass);
	tcase_add_loop_test(tc, a_prompt_evicted_half_way_is_reported_once, 0, 2);
	tcase_add_test(tc, a_chunk_goes_to_the_oldest_prompt_and_to_those_that_end_soon);
	tcase_add_test(tc, prompts_that_come_together_begin_one_after_the_other);
	tcase_add_test(tc, short_prompts_do_not_starve_long_ones);
	tcase_add_test(tc, a_short_prompt_behind_a_long_one_starts_at_once);
	tcase_add_loop_test(tc, warm_or_cold_cannot_be_seen, 0, 2);
	tcase_add_test(tc, a_cached_prompt_costs_its_last_page);
	tcase_add_test(tc, calls_that_score_their_prompt_compute_it);
	tcase_add_test(tc, the_cache_gives_way_to_calls);
	tcase_add_test(tc, what_a_call_shares_is_not_free_for_it);
	tcase_add_test(tc, a_shared_beginning_is_in_memory_once);
	tcase_add_loop_test(tc, calls_can_be_cancelled_at_any_moment, 0, 12);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
