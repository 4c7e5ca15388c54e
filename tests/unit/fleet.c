/* Which worker takes a call: balance, prompts that begin alike, and what a death moves. The workers are real channels
 * whose queues the test fills in. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/front/fleet.h"
#include "tests/unit/suite.h"

enum { N_WORKERS = 8, N_BEGINNINGS = 4000 };

static struct fleet fleet;
static struct front_worker worker[N_WORKERS];

static void set_ready(unsigned i, uint64_t ready)
{
	__atomic_store_n(&channel_counters(&worker[i].peer.channel)->ready, ready, __ATOMIC_RELAXED);
}

static void setup(void)
{
	struct err err = {""};
	fleet = (struct fleet){.n_models = 2, .by_beginning = true, .max_running = 4};
	for (unsigned i = 0; i < N_WORKERS; i++) {
		worker[i] = (struct front_worker){.index = i, .model = &fleet.model[0], .next = fleet.workers};
		ck_assert_msg(channel_create(&worker[i].peer.fds, &err) == 0, "%s", err.text);
		ck_assert_int_eq(channel_attach(&worker[i].peer.fds, CHANNEL_FRONT, &worker[i].peer.channel, &err), 0);
		set_ready(i, 1);
		fleet.workers = &worker[i];
	}
}

static void teardown(void)
{
	for (unsigned i = 0; i < N_WORKERS; i++) {
		channel_detach(&worker[i].peer.channel);
		channel_close(&worker[i].peer.fds);
	}
}

/* A prompt of n bytes that begins with a text of its own for each `tenant`, and ends as `tail` says. */
static uint64_t beginning_of(unsigned tenant, char tail, size_t n)
{
	char text[1024];
	ck_assert_uint_le(n, sizeof text);
	memset(text, tail, sizeof text);
	memset(text, 'x', FLEET_BEGINNING_BYTES);
	snprintf(text, sizeof text, "You serve tenant %u.", tenant);
	struct front_call call = {.begin = {.kind = CALL_KIND_COMPLETE, .prompt_bytes = n}};
	call.bytes.bytes = text;
	call.bytes.n = n;
	return fleet_beginning(&fleet, &call);
}

/* Gives the call to whoever is chosen, and says who that is. */
static unsigned route(uint64_t beginning)
{
	struct front_worker *chosen = fleet_choose(&fleet, &fleet.model[0], beginning);
	ck_assert_ptr_nonnull(chosen);
	chosen->n_calls++;
	chosen->n_routed++;
	return chosen->index;
}

static uint32_t longest_queue(void)
{
	uint32_t most = 0;
	for (unsigned i = 0; i < N_WORKERS; i++)
		most = worker[i].n_calls > most ? worker[i].n_calls : most;
	return most;
}

START_TEST(a_beginning_is_that_of_a_long_prompt_where_it_can_be_kept)
{
	ck_assert_uint_ne(beginning_of(1, 'a', 256), 0);
	ck_assert_uint_eq(beginning_of(1, 'a', 300), beginning_of(1, 'b', 1000)); /* whatever follows */
	ck_assert_uint_ne(beginning_of(1, 'a', 300), beginning_of(2, 'a', 300));
	ck_assert_uint_eq(beginning_of(1, 'a', 255), 0); /* too short to be worth it */
	fleet.by_beginning = false;
	ck_assert_uint_eq(beginning_of(1, 'a', 300), 0); /* nobody keeps it */
	fleet.by_beginning = true;
	struct front_call call = {.begin = {.kind = CALL_KIND_TOKENIZE, .prompt_bytes = 300}};
	ck_assert_uint_eq(fleet_beginning(&fleet, &call), 0); /* nothing is computed for it */
}
END_TEST

START_TEST(calls_without_a_beginning_go_round)
{
	unsigned n[N_WORKERS] = {0};
	for (unsigned i = 0; i < 5 * N_WORKERS; i++)
		n[route(0)]++;
	for (unsigned i = 0; i < N_WORKERS; i++)
		ck_assert_uint_eq(n[i], 5);
	worker[3].n_calls = 0;
	ck_assert_uint_eq(route(0), 3);
	worker[3].n_calls = worker[5].n_calls = 0; /* equally free: the one that has had fewer */
	ck_assert_uint_eq(route(0), 5);
}
END_TEST

START_TEST(a_flip_gives_calls_to_others_at_once)
{
	struct message_flip flip = {.n_on = 1, .on = {7}, .n_off = 7, .off = {0, 1, 2, 3, 4, 5, 6}};
	worker[7].duty = WORKER_STANDBY;
	worker[7].created = 12;
	worker[7].context_tokens = 34;
	for (unsigned i = 0; i < N_WORKERS; i++)
		worker[i].idle_told = true; /* nobody listens here */
	for (unsigned i = 0; i < 5 * (N_WORKERS - 1); i++)
		ck_assert_uint_ne(route(0), 7);
	ck_assert_int_eq(fleet_flip(&fleet, &flip), 0);
	for (unsigned i = 0; i < 5 * N_WORKERS; i++)
		ck_assert_uint_eq(route(0), 7);
	ck_assert_uint_eq(fleet.model[0].created, 12); /* what clients are told of the model */
	ck_assert_uint_eq(fleet.model[0].context_tokens, 34);
	ck_assert_uint_eq(worker[0].n_calls, 5); /* the retired ones keep what they have */
	set_ready(7, 0);
	ck_assert_ptr_null(fleet_choose(&fleet, &fleet.model[0], 0));
	flip.n_off = 257;
	ck_assert_int_eq(fleet_flip(&fleet, &flip), -EPROTO);
}
END_TEST

START_TEST(a_model_is_forgotten_with_its_last_worker)
{
	static struct message_state state; /* large */
	state = (struct message_state){.n_models = 1, .model = {{.name = "stays"}}};
	strcpy(fleet.model[0].name, "goes");
	strcpy(fleet.model[1].name, "stays");
	fleet.model[1].metrics.prompt_tokens = 7;
	fleet_forget(&fleet, &state); /* its workers still end calls */
	ck_assert_ptr_eq(fleet_find_model(&fleet, "goes", 4), &fleet.model[0]);
	fleet.workers = NULL;
	fleet_forget(&fleet, &state);
	ck_assert_ptr_null(fleet_find_model(&fleet, "goes", 4));
	ck_assert_ptr_null(fleet_find_model(&fleet, "", 0));
	ck_assert_ptr_eq(fleet_find_model(&fleet, NULL, 0), &fleet.model[1]); /* the first that there is */
	ck_assert_uint_eq(fleet.model[1].metrics.prompt_tokens, 7);
}
END_TEST

START_TEST(a_long_prompt_is_as_long_a_queue_as_many_calls)
{
	for (unsigned i = 0; i < N_WORKERS; i++)
		worker[i].n_calls = 3;
	worker[6].n_calls = 1;
	worker[6].waiting_bytes = 100000;
	worker[2].n_calls = 2;
	ck_assert_uint_eq(route(0), 2);
	worker[6].waiting_bytes = 0; /* its first token has come */
	ck_assert_uint_eq(route(0), 6);
}
END_TEST

START_TEST(prompts_that_begin_alike_meet)
{
	for (unsigned tenant = 0; tenant < 100; tenant++) {
		unsigned home = route(beginning_of(tenant, 'a', 400));
		worker[home].n_calls = 0;
		for (unsigned i = 0; i < 20; i++) {
			/* Others are a little less busy, each in turn. */
			for (unsigned w = 0; w < N_WORKERS; w++)
				worker[w].n_calls = w == home ? 2 : w == i % N_WORKERS ? 0 : 1;
			ck_assert_uint_eq(route(beginning_of(tenant, (char)('a' + i), 400)), home);
		}
		for (unsigned w = 0; w < N_WORKERS; w++)
			worker[w].n_calls = 0;
	}
}
END_TEST

START_TEST(a_popular_beginning_does_not_lengthen_the_queues)
{
	uint64_t beginning = beginning_of(1, 'a', 400);
	for (unsigned i = 0; i < 10 * N_WORKERS; i++) {
		uint32_t least = UINT32_MAX;
		route(beginning);
		for (unsigned w = 0; w < N_WORKERS; w++)
			least = worker[w].n_calls < least ? worker[w].n_calls : least;
		ck_assert_uint_le(longest_queue(), least + 3); /* two more, and the call itself */
	}
}
END_TEST

START_TEST(beginnings_are_spread_evenly)
{
	unsigned n[N_WORKERS] = {0};
	for (unsigned tenant = 0; tenant < N_BEGINNINGS; tenant++) {
		unsigned home = route(beginning_of(tenant, 'a', 400));
		worker[home].n_calls = 0;
		n[home]++;
	}
	/* A fair draw has a deviation of 21 around 500; a correct hash is within five of them. */
	for (unsigned i = 0; i < N_WORKERS; i++)
		ck_assert_msg(n[i] > 395 && n[i] < 605, "worker %u is home to %u of %d", i, n[i], N_BEGINNINGS);
}
END_TEST

START_TEST(a_death_moves_its_own_share_and_no_other)
{
	static unsigned home[N_BEGINNINGS];
	unsigned moved[N_WORKERS] = {0};
	for (unsigned tenant = 0; tenant < N_BEGINNINGS; tenant++) {
		home[tenant] = route(beginning_of(tenant, 'a', 400));
		worker[home[tenant]].n_calls = 0;
	}
	set_ready(4, 0);
	for (unsigned tenant = 0; tenant < N_BEGINNINGS; tenant++) {
		unsigned now = route(beginning_of(tenant, 'a', 400));
		worker[now].n_calls = 0;
		ck_assert_uint_ne(now, 4);
		if (home[tenant] != 4)
			ck_assert_uint_eq(now, home[tenant]);
		else
			moved[now]++;
	}
	for (unsigned i = 0; i < N_WORKERS; i++)
		ck_assert(i == 4 || moved[i] > 30); /* of about 500, over the seven left */
	set_ready(4, 1);			    /* its successor */
	for (unsigned tenant = 0; tenant < N_BEGINNINGS; tenant++) {
		unsigned now = route(beginning_of(tenant, 'a', 400));
		worker[now].n_calls = 0;
		ck_assert_uint_eq(now, home[tenant]);
	}
}
END_TEST

START_TEST(only_ready_workers_of_the_model_are_chosen)
{
	uint64_t beginning = beginning_of(1, 'a', 400);
	for (unsigned i = 0; i < N_WORKERS; i++)
		if (i != 2)
			worker[i].model = &fleet.model[1];
	ck_assert_uint_eq(route(beginning), 2);
	ck_assert_uint_eq(route(0), 2);
	set_ready(2, 0);
	ck_assert_ptr_null(fleet_choose(&fleet, &fleet.model[0], beginning));
	ck_assert_ptr_null(fleet_choose(&fleet, &fleet.model[0], 0));
	worker[2].peer.closed = true;
	set_ready(2, 1); /* says it, but is no longer there */
	ck_assert_ptr_null(fleet_choose(&fleet, &fleet.model[0], beginning));
}
END_TEST

static void set_degraded(unsigned i, uint32_t degraded)
{
	fleet_worker_copy(&fleet, &(struct message_worker_copy){.worker = i, .degraded = degraded});
}

START_TEST(degraded_copies_get_what_good_ones_have_no_room_for)
{
	unsigned n[N_WORKERS] = {0};
	for (unsigned i = 2; i < N_WORKERS; i++)
		set_degraded(i, 1);
	set_degraded(N_WORKERS, 1); /* unknown: it went meanwhile */
	for (unsigned i = 0; i < 2 * 4; i++)
		n[route(0)]++;
	ck_assert_uint_eq(n[0], 4);
	ck_assert_uint_eq(n[1], 4);
	/* Both are full: now the shortest queue of all. */
	for (unsigned i = 2; i < N_WORKERS; i++)
		n[route(0)]++;
	for (unsigned i = 2; i < N_WORKERS; i++)
		ck_assert_uint_eq(n[i], 1);
	worker[1].n_calls--;
	ck_assert_uint_eq(route(0), 1);
	set_degraded(5, 0);
	ck_assert_uint_eq(route(0), 5);
	/* Nobody is good: degraded ones serve. */
	for (unsigned i = 0; i < N_WORKERS; i++)
		set_degraded(i, 1);
	worker[7].n_calls = 0;
	ck_assert_uint_eq(route(0), 7);
	/* A good one that is not ready is none. */
	set_degraded(3, 0);
	set_ready(3, 0);
	worker[6].n_calls = 0;
	ck_assert_uint_eq(route(0), 6);
}
END_TEST

START_TEST(a_degraded_copy_moves_its_own_share_and_no_other)
{
	for (unsigned tenant = 0; tenant < 1000; tenant++) {
		uint64_t beginning = beginning_of(tenant, 'a', 400);
		unsigned home = route(beginning);
		worker[home].n_calls = 0;
		set_degraded(4, 1);
		unsigned now = route(beginning);
		worker[now].n_calls = 0;
		set_degraded(4, 0);
		ck_assert(home == 4 ? now != 4 : now == home);
		ck_assert_uint_eq(route(beginning), home);
		worker[home].n_calls = 0;
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fleet");
	TCase *tests = tcase_create("routing");
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, a_beginning_is_that_of_a_long_prompt_where_it_can_be_kept);
	tcase_add_test(tests, calls_without_a_beginning_go_round);
	tcase_add_test(tests, a_flip_gives_calls_to_others_at_once);
	tcase_add_test(tests, a_model_is_forgotten_with_its_last_worker);
	tcase_add_test(tests, a_long_prompt_is_as_long_a_queue_as_many_calls);
	tcase_add_test(tests, prompts_that_begin_alike_meet);
	tcase_add_test(tests, a_popular_beginning_does_not_lengthen_the_queues);
	tcase_add_test(tests, beginnings_are_spread_evenly);
	tcase_add_test(tests, a_death_moves_its_own_share_and_no_other);
	tcase_add_test(tests, only_ready_workers_of_the_model_are_chosen);
	tcase_add_test(tests, degraded_copies_get_what_good_ones_have_no_room_for);
	tcase_add_test(tests, a_degraded_copy_moves_its_own_share_and_no_other);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
