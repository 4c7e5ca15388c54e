/* The front as a process, when clients, workers or the parent do not do what they should, over both io backends. */
#include <check.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/clock.h"
#include "tests/unit/front_rig.h"
#include "tests/unit/suite.h"

static const enum io_backend backends[] = {IO_URING, IO_EPOLL};
enum { N_BACKENDS = sizeof backends / sizeof *backends };

static struct rig rig;

START_TEST(a_client_that_leaves_cancels_its_calls)
{
	rig_serve(&rig, backends[_i], 2);
	static const char *const bodies[] = {"{\"prompt\":\"x\"}", "{\"prompt\":\"x\",\"stream\":true}"};
	for (int i = 0; i < 2; i++) {
		struct rig_client client = rig_connect(&rig);
		uint64_t call = rig_begin(&rig, &client, bodies[i], 0);
		rig_accept(&rig, 0, call);
		rig_token(&rig, 0, call, 1, "a");
		if (i == 1)
			rig_see(&client, "\"a\"");
		rig_close(&client);
		rig_wait_cancel(&rig, 0, call);
		rig_token(&rig, 0, call, 2, "b");		 /* was under way */
		rig_metric(&rig, "weightd_calls_in_flight 1\n"); /* its place is taken until the worker has confirmed */
		rig_done(&rig, 0, call, FINISH_CANCELLED);
		for (int wait = 0; wait < 100; wait++) {
			struct rig_answer answer = rig_ask(&rig, "GET", "/metrics", NULL);
			bool free_again = strstr(answer.body, "weightd_calls_in_flight 0\n");
			free(answer.body);
			if (free_again)
				break;
			usleep(10000);
		}
		rig_metric(&rig, "weightd_calls_in_flight 0\n");
	}
	rig_metric(&rig, "weightd_clients_gone_total 2\n");
	rig_stop(&rig);
}
END_TEST

START_TEST(all_calls_of_a_request_are_cancelled)
{
	struct call_begin head;
	char *bytes;
	uint64_t call[2];
	rig_serve(&rig, backends[_i], 8);
	struct rig_client client = rig_connect(&rig);
	rig_request(&client, "POST", "/v1/completions", "{\"prompt\":[\"a\",\"b\"]}");
	for (int i = 0; i < 2; i++) {
		call[i] = rig_call(&rig, 0, &head, &bytes);
		free(bytes);
	}
	rig_done(&rig, 0, call[0], FINISH_STOP);
	rig_metric(&rig, "weightd_generated_tokens_total{model=\"small\"} 2\n");
	rig_close(&client);
	rig_wait_cancel(&rig, 0, call[1]);
	rig_no_record(&rig, 0); /* nothing about the one that had ended */
	rig_stop(&rig);
}
END_TEST

START_TEST(one_failed_call_ends_the_request_and_cancels_the_others)
{
	struct call_begin head;
	char *bytes;
	uint64_t call[2];
	rig_serve(&rig, backends[_i], 8);
	struct rig_client client = rig_connect(&rig);
	rig_request(&client, "POST", "/v1/completions", "{\"prompt\":[\"a\",\"b\"],\"stream\":true}");
	for (int i = 0; i < 2; i++) {
		call[i] = rig_call(&rig, 0, &head, &bytes);
		free(bytes);
	}
	rig_accept(&rig, 0, call[0]);
	struct call_failed failed = {.status = 503, .text_bytes = 2};
	rig_write(&rig, 0, CALL_FAILED, call[1], &failed, sizeof failed, "no", 2);
	struct rig_answer answer = rig_answer(&client);
	ck_assert_ptr_null(strstr(answer.body, "[DONE]"));
	rig_expect(answer, 200, "data: {\"error\":{\"message\":\"no\",\"type\":\"server_error\"");
	ck_assert(rig_at_end(&client));
	rig_wait_cancel(&rig, 0, call[0]);
	rig_close(&client);
	rig_metric(&rig, "weightd_stream_errors_total 1\n");
	rig_stop(&rig);
}
END_TEST

START_TEST(past_the_bound_there_is_429)
{
	rig_serve(&rig, backends[_i], 2);
	struct rig_client client[2] = {rig_connect(&rig), rig_connect(&rig)};
	uint64_t call[2];
	for (int i = 0; i < 2; i++)
		call[i] = rig_begin(&rig, &client[i], "{\"prompt\":\"x\"}", 0);
	struct rig_answer answer = rig_ask(&rig, "POST", "/v1/completions", "{\"prompt\":\"x\"}");
	ck_assert_ptr_nonnull(strcasestr(answer.head, "\r\nRetry-After: 1\r\n"));
	rig_expect(answer, 429, "\"type\":\"rate_limit_error\",\"param\":null,\"code\":\"queue_full\"");
	rig_check(&rig, "POST", "/tokenize", "{\"content\":\"x\"}", 429, "queue_full");
	rig_check(&rig, "POST", "/v1/completions", "{\"prompt\":[\"a\",\"b\",\"c\"]}", 400,
		  "\"param\":\"prompt\""); /* could never be */
	rig_check(&rig, "GET", "/health", NULL, 200, "{\"status\":\"ok\"");
	rig_done(&rig, 0, call[0], FINISH_STOP);
	rig_expect(rig_answer(&client[0]), 200, "stop");
	call[0] = rig_begin(&rig, &client[0], "{\"prompt\":\"x\"}", 0);
	for (int i = 0; i < 2; i++) {
		rig_done(&rig, 0, call[i], FINISH_STOP);
		rig_expect(rig_answer(&client[i]), 200, "stop");
		rig_close(&client[i]);
	}
	rig_stop(&rig);
}
END_TEST

START_TEST(a_dead_workers_calls_end_with_errors)
{
	rig_serve(&rig, backends[_i], 8);
	struct rig_client whole = rig_connect(&rig), stream = rig_connect(&rig);
	rig_begin(&rig, &whole, "{\"prompt\":\"x\"}", 0);
	uint64_t call = rig_begin(&rig, &stream, "{\"prompt\":\"x\",\"stream\":true}", 0);
	rig_token(&rig, 0, call, 1, "a");
	rig_see(&stream, "\"a\"");
	rig_worker_down(&rig, 0);
	rig_expect(rig_answer(&whole), 502, "\"type\":\"server_error\",\"param\":null,\"code\":\"worker_died\"");
	struct rig_answer answer = rig_answer(&stream);
	ck_assert_ptr_null(strstr(answer.body, "[DONE]"));
	rig_expect(answer, 200, "data: {\"error\":{\"message\":\"the worker that was making this answer has died\"");
	ck_assert(rig_at_end(&stream));
	rig_close(&stream);
	rig_check(&rig, "POST", "/v1/completions", "{\"prompt\":\"x\"}", 503, "model_not_ready");
	rig_check(&rig, "GET", "/health", NULL, 503, "\"status\":\"loading\"");
	rig_worker_up(&rig, 0, "small"); /* replaced */
	call = rig_begin(&rig, &whole, "{\"prompt\":\"x\"}", 0);
	rig_done(&rig, 0, call, FINISH_STOP);
	rig_expect(rig_answer(&whole), 200, "stop");
	rig_close(&whole);
	rig_stop(&rig);
}
END_TEST

/* What a worker may not write; each one ends its channel. */
static void write_unknown_call(uint64_t call)
{
	rig_token(&rig, 0, call + 1000, 1, "x");
}
static void write_unknown_type(uint64_t call)
{
	rig_write(&rig, 0, 99, call, NULL, 0, NULL, 0);
}
static void write_short_token(uint64_t call)
{
	rig_write(&rig, 0, CALL_TOKEN, call, "abc", 3, NULL, 0);
}
static void write_long_token(uint64_t call)
{
	struct call_token token = {.text_bytes = 1000000};
	rig_write(&rig, 0, CALL_TOKEN, call, &token, sizeof token, "x", 1);
}
static void write_result_for_a_completion(uint64_t call)
{
	rig_write(&rig, 0, CALL_RESULT, call, "abcd", 4, NULL, 0);
}
static void write_own_request(uint64_t call)
{
	struct call_begin head = {.kind = CALL_KIND_COMPLETE};
	rig_write(&rig, 0, CALL_BEGIN, call, &head, sizeof head, NULL, 0);
}
static void write_after_done(uint64_t call)
{
	struct rig_client other = rig_connect(&rig);
	uint64_t second = rig_begin(&rig, &other, "{\"prompt\":\"x\"}", 0);
	rig_done(&rig, 0, second, FINISH_STOP);
	rig_done(&rig, 0, second, FINISH_STOP);
	rig_close(&other);
	(void)call;
}
static void write_over_the_ring(uint64_t call)
{
	memset(rig.worker[0].memory, 0xFF, 4096); /* the indices of both rings */
	ck_assert_int_eq(eventfd_write(rig.fds[0].to_front, 1), 0);
	(void)call;
}

static void write_accepted_twice(uint64_t call)
{
	rig_accept(&rig, 0, call);
	rig_accept(&rig, 0, call);
}
static void write_started_twice(uint64_t call)
{
	rig_accept(&rig, 0, call);
	rig_write(&rig, 0, CALL_STARTED, call, NULL, 0, NULL, 0);
	rig_write(&rig, 0, CALL_STARTED, call, NULL, 0, NULL, 0);
}
static void write_started_before_accepted(uint64_t call)
{
	rig_write(&rig, 0, CALL_STARTED, call, NULL, 0, NULL, 0);
}
static void write_more_tokens_than_the_context(uint64_t call)
{
	for (int i = 0; i < RIG_CONTEXT + 2; i++)
		rig_token(&rig, 0, call, 1, "x");
}

static void (*const misdeeds[])(uint64_t call) = {
	write_unknown_call,
	write_unknown_type,
	write_short_token,
	write_long_token,
	write_result_for_a_completion,
	write_own_request,
	write_after_done,
	write_over_the_ring,
	write_accepted_twice,
	write_started_twice,
	write_started_before_accepted,
	write_more_tokens_than_the_context,
};
enum { N_MISDEEDS = sizeof misdeeds / sizeof *misdeeds };

START_TEST(a_worker_that_breaks_the_protocol_is_given_up)
{
	struct message message;
	rig_serve(&rig, backends[_i / N_MISDEEDS], 8);
	struct rig_client client = rig_connect(&rig);
	uint64_t call = rig_begin(&rig, &client, "{\"prompt\":\"x\"}", 0);
	misdeeds[_i % N_MISDEEDS](call);
	rig_expect(rig_answer(&client), 502, "worker_died");
	rig_message(&rig, &message);
	ck_assert_uint_eq(message.type, MESSAGE_WORKER_DOWN);
	const struct message_worker_down *down = message_payload(&message, sizeof *down, 0);
	ck_assert_ptr_nonnull(down);
	ck_assert_uint_eq(down->worker, 0);
	rig_worker_down(&rig, 0); /* the parent's echo, when it has killed it */
	rig_check(&rig, "POST", "/v1/completions", "{\"prompt\":\"x\"}", 503, "model_not_ready");
	rig_close(&client);
	rig_stop(&rig);
}
END_TEST

START_TEST(a_result_without_end_is_given_up)
{
	static const char part[CHANNEL_RECORD_MAX];
	struct message message;
	struct call_begin head;
	char *bytes;
	rig_serve(&rig, backends[_i], 8);
	struct rig_client client = rig_connect(&rig);
	rig_request(&client, "POST", "/detokenize", "{\"tokens\":[1,2]}");
	uint64_t call = rig_call(&rig, 0, &head, &bytes);
	free(bytes);
	for (uint64_t n = 0; n < 66u << 20; n += sizeof part) /* past that nobody reads the ring any more */
		if (!rig_try_write(&rig, 0, CALL_RESULT, call, part, sizeof part))
			break;
	rig_message(&rig, &message);
	ck_assert_uint_eq(message.type, MESSAGE_WORKER_DOWN);
	rig_expect(rig_answer(&client), 502, "worker_died");
	rig_close(&client);
	rig_stop(&rig);
}
END_TEST

enum { N_SEEDS = 12 };

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

/* Random bytes and likely words anywhere: counters, indices, flags, headers, records. */
static void scribble(unsigned char *memory, size_t n_bytes, uint32_t *seed)
{
	static const uint32_t likely[] = {0, 1, 16, 32, 64, 65, 67, 80, 4096, CHANNEL_RECORD_MAX, UINT32_MAX};
	for (int i = 0; i < 100; i++) {
		uint32_t value = next_random(seed) % 2 ? likely[next_random(seed) % (sizeof likely / sizeof *likely)]
						       : next_random(seed);
		size_t range = next_random(seed) % 2 ? 4096 : n_bytes;
		memcpy(memory + next_random(seed) % (range / 4) * 4, &value, sizeof value);
	}
}

static bool is_given_up(void)
{
	struct pollfd fd = {.fd = rig.control, .events = POLLIN};
	return poll(&fd, 1, 0) == 1;
}

START_TEST(garbage_in_shared_memory_costs_its_worker_and_nobody_else)
{
	static const char body[] = "{\"prompt\":\"x\",\"stream\":true}";
	uint32_t seed = 7 + (uint32_t)_i;
	struct message message;
	struct call_begin head;
	char *bytes;
	rig_serve(&rig, backends[_i / N_SEEDS], 8);
	rig_state(&rig, 0, STANDING_SERVED); /* a second model, "broken" by name only */
	rig_worker_up(&rig, 1, "broken");
	struct rig_client victim = rig_connect(&rig), other = rig_connect(&rig);
	uint64_t call = rig_begin(&rig, &victim, body, 0);
	rig_accept(&rig, 0, call);
	rig_token(&rig, 0, call, 1, "a");
	rig_see(&victim, "\"a\"");
	size_t n_bytes = (size_t)lseek(rig.fds[0].memory, 0, SEEK_END);
	for (int round = 0; round < 1000 && !is_given_up(); round++) {
		scribble((unsigned char *)rig.worker[0].memory, n_bytes, &seed);
		ck_assert_int_eq(eventfd_write(rig.fds[0].to_front, 1), 0);
		if (round % 10)
			continue;
		rig_request(&other, "POST", "/v1/completions", "{\"prompt\":\"x\",\"model\":\"broken\"}");
		uint64_t second = rig_call(&rig, 1, &head, &bytes);
		free(bytes);
		rig_done(&rig, 1, second, FINISH_STOP);
		rig_expect(rig_answer(&other), 200, "stop");
	}
	rig_message(&rig, &message); /* such a worker is not believed for long */
	ck_assert_uint_eq(message.type, MESSAGE_WORKER_DOWN);
	struct rig_answer answer = rig_answer(&victim);
	ck_assert_ptr_null(strstr(answer.body, "[DONE]"));
	rig_expect(answer, 200, "data: {\"error\":");
	rig_close(&victim);
	rig_worker_up(&rig, 0, "small"); /* its successor */
	call = rig_begin(&rig, &other, "{\"prompt\":\"x\"}", 0);
	rig_done(&rig, 0, call, FINISH_STOP);
	rig_expect(rig_answer(&other), 200, "stop");
	rig_close(&other);
	rig_stop(&rig);
}
END_TEST

START_TEST(a_client_that_does_not_read_is_dropped)
{
	static char text[8192];
	rig_serve(&rig, backends[_i], 8);
	memset(text, 'a', sizeof text - 1);
	struct rig_client slow = rig_connect(&rig), other = rig_connect(&rig);
	uint64_t call = rig_begin(&rig, &slow, "{\"prompt\":\"x\",\"stream\":true}", 0);
	for (int i = 0; i < 200; i++) /* 1.6 MB: what the socket holds, and then some */
		rig_token(&rig, 0, call, 1, text);
	rig_wait_cancel(&rig, 0, call);
	uint64_t second = rig_begin(&rig, &other, "{\"prompt\":\"x\"}", 0); /* nobody else minds */
	rig_done(&rig, 0, second, FINISH_STOP);
	rig_expect(rig_answer(&other), 200, "stop");
	rig_close(&slow);
	rig_close(&other);
	rig_stop(&rig);
}
END_TEST

START_TEST(past_max_connections_clients_wait)
{
	struct rig_client client[RIG_CONNECTIONS + 1];
	rig_serve(&rig, backends[_i], 8);
	for (int i = 0; i < RIG_CONNECTIONS; i++) {
		client[i] = rig_connect(&rig);
		rig_request(&client[i], "GET", "/v1/models", NULL);
		rig_expect(rig_answer(&client[i]), 200, "small"); /* it is accepted, then */
		rig_send(&client[i], "GET /v1");		  /* and has something to say: it keeps its place */
	}
	struct rig_client *late = &client[RIG_CONNECTIONS];
	*late = rig_connect(&rig);
	rig_request(late, "GET", "/v1/models", NULL);
	usleep(100000);
	char byte;
	ck_assert_int_eq(recv(late->fd, &byte, 1, MSG_DONTWAIT), -1);
	rig_close(&client[3]);
	rig_expect(rig_answer(late), 200, "small");
	for (int i = 0; i <= RIG_CONNECTIONS; i++)
		if (i != 3)
			rig_close(&client[i]);
	rig_stop(&rig);
}
END_TEST

START_TEST(draining_finishes_what_runs_and_takes_nothing_new)
{
	rig_serve(&rig, backends[_i], 8);
	struct rig_client client = rig_connect(&rig), idle = rig_connect(&rig);
	uint64_t call = rig_begin(&rig, &client, "{\"prompt\":\"x\",\"stream\":true}", 0);
	rig_accept(&rig, 0, call);
	ck_assert_int_eq(message_send(rig.control, MESSAGE_DRAIN, NULL, 0, NULL, 0), 0);
	ck_assert(rig_at_end(&idle));		    /* closed at once */
	struct rig_client late = rig_connect(&rig); /* waits in the listener, which belongs to the parent */
	rig_token(&rig, 0, call, 1, "last");
	rig_done(&rig, 0, call, FINISH_STOP);
	rig_expect(rig_answer(&client), 200, "data: [DONE]");
	ck_assert(rig_at_end(&client));
	ck_assert_int_eq(rig_wait(&rig), 0);
	rig_close(&client);
	rig_close(&idle);
	rig_close(&late);
	rig_fini(&rig);
}
END_TEST

START_TEST(without_its_parent_the_front_ends_at_once_whatever_it_does)
{
	rig_serve(&rig, backends[_i], 8);
	struct rig_client client = rig_connect(&rig), idle = rig_connect(&rig);
	uint64_t call = rig_begin(&rig, &client, "{\"prompt\":[\"x\"],\"stream\":true}", 0);
	rig_accept(&rig, 0, call);
	rig_see(&client, "200 OK");
	uint64_t start_ns = clock_now_ns();
	close(rig.control);
	rig.control = -1;
	ck_assert_int_eq(rig_wait(&rig), 1);
	ck_assert_uint_lt(clock_now_ns() - start_ns, 2000000000u);
	struct rig_answer answer = rig_answer(&client);
	ck_assert(answer.cut);
	free(answer.body);
	rig_close(&client);
	rig_close(&idle);
	rig_fini(&rig);
}
END_TEST

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	Suite *suite = suite_create("front_faults");
	TCase *tests = tcase_create("all");
	tcase_set_timeout(tests, 120);
	tcase_add_loop_test(tests, a_client_that_leaves_cancels_its_calls, 0, N_BACKENDS);
	tcase_add_loop_test(tests, all_calls_of_a_request_are_cancelled, 0, N_BACKENDS);
	tcase_add_loop_test(tests, one_failed_call_ends_the_request_and_cancels_the_others, 0, N_BACKENDS);
	tcase_add_loop_test(tests, past_the_bound_there_is_429, 0, N_BACKENDS);
	tcase_add_loop_test(tests, a_dead_workers_calls_end_with_errors, 0, N_BACKENDS);
	tcase_add_loop_test(tests, a_worker_that_breaks_the_protocol_is_given_up, 0, N_BACKENDS * N_MISDEEDS);
	tcase_add_loop_test(tests, a_result_without_end_is_given_up, 0, N_BACKENDS);
	tcase_add_loop_test(tests, garbage_in_shared_memory_costs_its_worker_and_nobody_else, 0, N_BACKENDS * N_SEEDS);
	tcase_add_loop_test(tests, a_client_that_does_not_read_is_dropped, 0, N_BACKENDS);
	tcase_add_loop_test(tests, past_max_connections_clients_wait, 0, N_BACKENDS);
	tcase_add_loop_test(tests, draining_finishes_what_runs_and_takes_nothing_new, 0, N_BACKENDS);
	tcase_add_loop_test(tests, without_its_parent_the_front_ends_at_once_whatever_it_does, 0, N_BACKENDS);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
