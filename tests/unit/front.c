/* The front as a process: what clients get and what workers are told, over both io backends. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "src/clock.h"
#include "tests/unit/front_rig.h"

static const enum io_backend backends[] = {IO_URING, IO_EPOLL};
enum { N_BACKENDS = sizeof backends / sizeof *backends };

static struct rig rig;

static void start(int backend, uint32_t max_queue)
{
	rig_start(&rig, backends[backend], max_queue);
	rig_state(&rig, 0, 0);
	rig_worker_up(&rig, 0, "small");
}

static void expect(struct rig_answer answer, int status, const char *in_body)
{
	ck_assert_int_eq(answer.status, status);
	ck_assert_msg(strstr(answer.body, in_body), "'%s' is not in: %s", in_body, answer.body);
	ck_assert(!answer.cut);
	free(answer.body);
}

static void ask(const char *method, const char *path, const char *body, int status, const char *in_body)
{
	expect(rig_ask(&rig, method, path, body), status, in_body);
}

/* Sends a completion request and takes the call it makes. */
static uint64_t begin(struct rig_client *client, const char *body, unsigned worker)
{
	struct call_begin head;
	char *bytes;
	rig_request(client, "POST", "/v1/completions", body);
	uint64_t call = rig_call(&rig, worker, &head, &bytes);
	free(bytes);
	return call;
}

static void metric(const char *line)
{
	ask("GET", "/metrics", NULL, 200, line);
}

START_TEST(a_completion_goes_to_the_worker_and_comes_back)
{
	struct call_begin head;
	char *bytes;
	start(_i, 8);
	struct rig_client client = rig_connect(&rig);
	rig_request(&client, "POST", "/v1/completions",
		    "{\"model\":\"small\",\"prompt\":\"hello\",\"stop\":\"#\",\"seed\":7,\"forced_token_ids\":[5]}");
	uint64_t call = rig_call(&rig, 0, &head, &bytes);
	ck_assert_uint_eq(head.kind, CALL_KIND_COMPLETE);
	ck_assert_uint_eq(head.seed, 7);
	ck_assert_mem_eq(bytes, "hello#\0\5\0\0\0", 11);
	free(bytes);
	rig_accept(&rig, 0, call);
	rig_token(&rig, 0, call, 5, "one ");
	rig_token(&rig, 0, call, 6, "two");
	rig_done(&rig, 0, call, FINISH_STOP);
	expect(rig_answer(&client), 200, "\"text\":\"one two\",\"logprobs\":null,\"finish_reason\":\"stop\"");
	/* the connection lives on */
	call = begin(&client, "{\"prompt\":\"x\"}", 0);
	struct call_failed failed = {
		.status = 400, .text_bytes = 8, .param = "prompt", .code = "context_length_exceeded"};
	rig_write(&rig, 0, CALL_FAILED, call, &failed, sizeof failed, "too long", 8);
	expect(rig_answer(&client), 400,
	       "{\"error\":{\"message\":\"too long\",\"type\":\"invalid_request_error\",\"param\":\"prompt\","
	       "\"code\":\"context_length_exceeded\"}}");
	rig_close(&client);
	metric("weightd_requests_total{path=\"/v1/completions\",code=\"200\"} 1\n");
	metric("weightd_requests_total{path=\"/v1/completions\",code=\"400\"} 1\n");
	metric("weightd_prompt_tokens_total{model=\"small\"} 3\n");
	metric("weightd_generated_tokens_total{model=\"small\"} 2\n");
	metric("weightd_time_to_first_token_seconds_count 1\n");
	metric("weightd_calls_in_flight 0\n");
	metric("weightd_weight_bytes{node=\"0\"} 4096\n");
	rig_stop(&rig);
}
END_TEST

START_TEST(a_chat_streams)
{
	struct call_begin head;
	char *bytes;
	start(_i, 8);
	struct rig_client client = rig_connect(&rig);
	rig_request(&client, "POST", "/v1/chat/completions",
		    "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"stream\":true}");
	uint64_t call = rig_call(&rig, 0, &head, &bytes);
	ck_assert_uint_eq(head.kind, CALL_KIND_CHAT);
	ck_assert_str_eq(bytes, "[{\"role\":\"user\",\"content\":\"hi\"}]");
	free(bytes);
	rig_accept(&rig, 0, call);
	rig_see(&client, "\"role\":\"assistant\""); /* each event leaves when it is made, not when the answer ends */
	rig_token(&rig, 0, call, 5, "one");
	rig_see(&client, "\"delta\":{\"content\":\"one\"}");
	rig_done(&rig, 0, call, FINISH_LENGTH);
	struct rig_answer answer = rig_answer(&client);
	ck_assert_ptr_nonnull(strcasestr(answer.head, "Content-Type: text/event-stream\r\n"));
	ck_assert_str_eq(answer.body + answer.n_body - strlen("data: [DONE]\n\n"), "data: [DONE]\n\n");
	expect(answer, 200, "\"delta\":{},\"logprobs\":null,\"finish_reason\":\"length\"");
	rig_close(&client);
	rig_stop(&rig);
}
END_TEST

START_TEST(a_failure_before_the_first_event_is_an_http_error)
{
	start(_i, 8);
	struct rig_client client = rig_connect(&rig);
	uint64_t call = begin(&client, "{\"prompt\":\"x\",\"stream\":true}", 0);
	struct call_failed failed = {.status = 400, .param = "prompt"};
	rig_write(&rig, 0, CALL_FAILED, call, &failed, sizeof failed, NULL, 0);
	expect(rig_answer(&client), 400, "\"param\":\"prompt\"");
	rig_close(&client);
	rig_stop(&rig);
}
END_TEST

START_TEST(several_prompts_are_several_calls_and_one_answer)
{
	struct call_begin head;
	char *bytes;
	uint64_t call[3];
	start(_i, 8);
	rig_worker_up(&rig, 1, "small");
	struct rig_client client = rig_connect(&rig);
	rig_request(&client, "POST", "/v1/completions", "{\"prompt\":[\"a\",\"b\",\"c\"]}");
	for (unsigned i = 0; i < 3; i++) {	  /* workers that are equally busy take turns */
		unsigned worker = i == 1 ? 0 : 1; /* the one that came last is asked first */
		call[i] = rig_call(&rig, worker, &head, &bytes);
		ck_assert_int_eq(bytes[0], "abc"[i]);
		free(bytes);
	}
	static const unsigned order[] = {2, 0, 1};
	for (unsigned i = 0; i < 3; i++) {
		unsigned which = order[i], worker = which == 1 ? 0 : 1;
		rig_token(&rig, worker, call[which], 1, which == 0 ? "A" : which == 1 ? "B" : "C");
		rig_done(&rig, worker, call[which], FINISH_STOP);
	}
	struct rig_answer answer = rig_answer(&client);
	const char *a = strstr(answer.body, "{\"index\":0,\"text\":\"A\""),
		   *b = strstr(answer.body, "{\"index\":1,\"text\":\"B\"");
	const char *c = strstr(answer.body, "{\"index\":2,\"text\":\"C\"");
	ck_assert_msg(a && b && c && a < b && b < c, "%s", answer.body);
	expect(answer, 200, "\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":6,\"total_tokens\":15}");
	rig_close(&client);
	rig_stop(&rig);
}
END_TEST

START_TEST(small_calls_are_answered)
{
	struct call_begin head;
	char *bytes;
	uint32_t ids[] = {1, 2};
	start(_i, 8);
	struct rig_client client = rig_connect(&rig);
	rig_request(&client, "POST", "/tokenize", "{\"content\":\"hi\",\"add_special\":true,\"parse_special\":false}");
	uint64_t call = rig_call(&rig, 0, &head, &bytes);
	ck_assert_uint_eq(head.kind, CALL_KIND_TOKENIZE);
	ck_assert_uint_eq(head.flags, CALL_FLAG_ADD_SPECIAL);
	free(bytes);
	rig_write(&rig, 0, CALL_RESULT, call, ids, 4, NULL, 0);
	rig_write(&rig, 0, CALL_RESULT, call, ids + 1, 4, NULL, 0);
	rig_done(&rig, 0, call, FINISH_STOP);
	expect(rig_answer(&client), 200, "{\"tokens\":[1,2]}");
	rig_request(&client, "POST", "/detokenize", "{\"tokens\":[1,2]}");
	call = rig_call(&rig, 0, &head, &bytes);
	ck_assert_uint_eq(head.kind, CALL_KIND_DETOKENIZE);
	ck_assert_mem_eq(bytes, ids, 8);
	free(bytes);
	rig_write(&rig, 0, CALL_RESULT, call, "hi", 2, NULL, 0);
	rig_done(&rig, 0, call, FINISH_STOP);
	expect(rig_answer(&client), 200, "{\"content\":\"hi\"}");
	rig_request(&client, "POST", "/apply-template", "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}");
	call = rig_call(&rig, 0, &head, &bytes);
	ck_assert_uint_eq(head.kind, CALL_KIND_TEMPLATE);
	free(bytes);
	rig_write(&rig, 0, CALL_RESULT, call, "<user>", 6, NULL, 0);
	rig_done(&rig, 0, call, FINISH_STOP);
	expect(rig_answer(&client), 200, "{\"prompt\":\"<user>\"}");
	rig_close(&client);
	rig_stop(&rig);
}
END_TEST

START_TEST(a_prompt_larger_than_the_ring_arrives_whole)
{
	enum { N = 3 << 20 };
	struct call_begin head;
	char *bytes, *body = malloc(N + 64);
	start(_i, 8);
	struct rig_client client = rig_connect(&rig), other = rig_connect(&rig);
	int n = sprintf(body, "{\"prompt\":\"");
	for (int i = 0; i < N; i++)
		body[n + i] = (char)('a' + i % 23 + i / 4096 % 3);
	strcpy(body + n + N, "\"}");
	rig_request(&client, "POST", "/v1/completions", body);
	usleep(100000); /* so that the ring is full before anything is taken out of it */
	rig_request(&other, "POST", "/v1/completions", "{\"prompt\":\"second\"}");
	uint64_t call = rig_call(&rig, 0, &head, &bytes);
	ck_assert_uint_eq(head.prompt_bytes, N);
	ck_assert_mem_eq(bytes, body + n, N);
	free(bytes);
	free(body);
	rig_done(&rig, 0, call, FINISH_STOP);
	expect(rig_answer(&client), 200, "\"finish_reason\":\"stop\"");
	call = rig_call(&rig, 0, &head, &bytes);
	ck_assert_str_eq(bytes, "second");
	free(bytes);
	rig_done(&rig, 0, call, FINISH_STOP);
	expect(rig_answer(&other), 200, "\"finish_reason\":\"stop\"");
	rig_close(&client);
	rig_close(&other);
	rig_stop(&rig);
}
END_TEST

START_TEST(a_client_that_leaves_cancels_its_calls)
{
	start(_i, 2);
	static const char *const bodies[] = {"{\"prompt\":\"x\"}", "{\"prompt\":\"x\",\"stream\":true}"};
	for (int i = 0; i < 2; i++) {
		struct rig_client client = rig_connect(&rig);
		uint64_t call = begin(&client, bodies[i], 0);
		rig_accept(&rig, 0, call);
		rig_token(&rig, 0, call, 1, "a");
		if (i == 1)
			rig_see(&client, "\"a\"");
		rig_close(&client);
		rig_wait_cancel(&rig, 0, call);
		rig_token(&rig, 0, call, 2, "b");      /* was under way */
		metric("weightd_calls_in_flight 1\n"); /* its place is taken until the worker has confirmed */
		rig_done(&rig, 0, call, FINISH_CANCELLED);
		for (int wait = 0; wait < 100; wait++) {
			struct rig_answer answer = rig_ask(&rig, "GET", "/metrics", NULL);
			bool free_again = strstr(answer.body, "weightd_calls_in_flight 0\n");
			free(answer.body);
			if (free_again)
				break;
			usleep(10000);
		}
		metric("weightd_calls_in_flight 0\n");
	}
	metric("weightd_clients_gone_total 2\n");
	rig_stop(&rig);
}
END_TEST

START_TEST(all_calls_of_a_request_are_cancelled)
{
	struct call_begin head;
	char *bytes;
	uint64_t call[2];
	start(_i, 8);
	struct rig_client client = rig_connect(&rig);
	rig_request(&client, "POST", "/v1/completions", "{\"prompt\":[\"a\",\"b\"]}");
	for (int i = 0; i < 2; i++) {
		call[i] = rig_call(&rig, 0, &head, &bytes);
		free(bytes);
	}
	rig_done(&rig, 0, call[0], FINISH_STOP);
	metric("weightd_generated_tokens_total{model=\"small\"} 2\n");
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
	start(_i, 8);
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
	expect(answer, 200, "data: {\"error\":{\"message\":\"no\",\"type\":\"server_error\"");
	ck_assert(rig_at_end(&client));
	rig_wait_cancel(&rig, 0, call[0]);
	rig_close(&client);
	metric("weightd_stream_errors_total 1\n");
	rig_stop(&rig);
}
END_TEST

START_TEST(past_the_bound_there_is_429)
{
	start(_i, 2);
	struct rig_client client[2] = {rig_connect(&rig), rig_connect(&rig)};
	uint64_t call[2];
	for (int i = 0; i < 2; i++)
		call[i] = begin(&client[i], "{\"prompt\":\"x\"}", 0);
	struct rig_answer answer = rig_ask(&rig, "POST", "/v1/completions", "{\"prompt\":\"x\"}");
	ck_assert_ptr_nonnull(strcasestr(answer.head, "\r\nRetry-After: 1\r\n"));
	expect(answer, 429, "\"type\":\"rate_limit_error\",\"param\":null,\"code\":\"queue_full\"");
	ask("POST", "/tokenize", "{\"content\":\"x\"}", 429, "queue_full");
	ask("POST", "/v1/completions", "{\"prompt\":[\"a\",\"b\",\"c\"]}", 400,
	    "\"param\":\"prompt\""); /* could never be */
	ask("GET", "/health", NULL, 200, "{\"status\":\"ok\"");
	rig_done(&rig, 0, call[0], FINISH_STOP);
	expect(rig_answer(&client[0]), 200, "stop");
	call[0] = begin(&client[0], "{\"prompt\":\"x\"}", 0);
	for (int i = 0; i < 2; i++) {
		rig_done(&rig, 0, call[i], FINISH_STOP);
		expect(rig_answer(&client[i]), 200, "stop");
		rig_close(&client[i]);
	}
	rig_stop(&rig);
}
END_TEST

START_TEST(a_dead_workers_calls_end_with_errors)
{
	start(_i, 8);
	struct rig_client whole = rig_connect(&rig), stream = rig_connect(&rig);
	begin(&whole, "{\"prompt\":\"x\"}", 0);
	uint64_t call = begin(&stream, "{\"prompt\":\"x\",\"stream\":true}", 0);
	rig_token(&rig, 0, call, 1, "a");
	rig_see(&stream, "\"a\"");
	rig_worker_down(&rig, 0);
	expect(rig_answer(&whole), 502, "\"type\":\"server_error\",\"param\":null,\"code\":\"worker_died\"");
	struct rig_answer answer = rig_answer(&stream);
	ck_assert_ptr_null(strstr(answer.body, "[DONE]"));
	expect(answer, 200, "data: {\"error\":{\"message\":\"the worker that was making this answer has died\"");
	ck_assert(rig_at_end(&stream));
	rig_close(&stream);
	ask("POST", "/v1/completions", "{\"prompt\":\"x\"}", 503, "model_not_ready");
	ask("GET", "/health", NULL, 503, "\"status\":\"loading\"");
	rig_worker_up(&rig, 0, "small"); /* replaced */
	call = begin(&whole, "{\"prompt\":\"x\"}", 0);
	rig_done(&rig, 0, call, FINISH_STOP);
	expect(rig_answer(&whole), 200, "stop");
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
	uint64_t second = begin(&other, "{\"prompt\":\"x\"}", 0);
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

static void (*const misdeeds[])(uint64_t call) = {
	write_unknown_call, write_unknown_type, write_short_token,   write_long_token, write_result_for_a_completion,
	write_own_request,  write_after_done,	write_over_the_ring,
};
enum { N_MISDEEDS = sizeof misdeeds / sizeof *misdeeds };

START_TEST(a_worker_that_breaks_the_protocol_is_given_up)
{
	struct message message;
	start(_i / N_MISDEEDS, 8);
	struct rig_client client = rig_connect(&rig);
	uint64_t call = begin(&client, "{\"prompt\":\"x\"}", 0);
	misdeeds[_i % N_MISDEEDS](call);
	expect(rig_answer(&client), 502, "worker_died");
	rig_message(&rig, &message);
	ck_assert_uint_eq(message.type, MESSAGE_WORKER_DOWN);
	const struct message_worker_down *down = message_payload(&message, sizeof *down, 0);
	ck_assert_ptr_nonnull(down);
	ck_assert_uint_eq(down->worker, 0);
	rig_worker_down(&rig, 0); /* the parent's echo, when it has killed it */
	ask("POST", "/v1/completions", "{\"prompt\":\"x\"}", 503, "model_not_ready");
	rig_close(&client);
	rig_stop(&rig);
}
END_TEST

START_TEST(pipelined_requests_are_answered_in_order)
{
	start(_i, 8);
	struct rig_client client = rig_connect(&rig);
	rig_send(&client, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 14\r\n\r\n{\"prompt\":\"x\"}"
			  "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
			  "GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n");
	struct call_begin head;
	char *bytes;
	uint64_t call = rig_call(&rig, 0, &head, &bytes);
	free(bytes);
	rig_done(&rig, 0, call, FINISH_STOP);
	expect(rig_answer(&client), 200, "text_completion");
	expect(rig_answer(&client), 200, "{\"object\":\"list\",\"data\":[{\"id\":\"small\",\"object\":\"model\",");
	expect(rig_answer(&client), 404, "/nowhere");
	rig_close(&client);
	rig_stop(&rig);
}
END_TEST

START_TEST(a_client_that_does_not_read_is_dropped)
{
	static char text[8192];
	start(_i, 8);
	memset(text, 'a', sizeof text - 1);
	struct rig_client slow = rig_connect(&rig), other = rig_connect(&rig);
	uint64_t call = begin(&slow, "{\"prompt\":\"x\",\"stream\":true}", 0);
	for (int i = 0; i < 200; i++) /* 1.6 MB: what the socket holds, and then some */
		rig_token(&rig, 0, call, 1, text);
	rig_wait_cancel(&rig, 0, call);
	uint64_t second = begin(&other, "{\"prompt\":\"x\"}", 0); /* nobody else minds */
	rig_done(&rig, 0, second, FINISH_STOP);
	expect(rig_answer(&other), 200, "stop");
	rig_close(&slow);
	rig_close(&other);
	rig_stop(&rig);
}
END_TEST

START_TEST(errors_name_what_is_wrong)
{
	start(_i, 8);
	ask("POST", "/v1/completions", "{\"prompt\":", 400, "\"code\":\"invalid_json\"");
	ask("POST", "/v1/completions", "{\"prompt\":\"x\",\"n\":2}", 400, "\"param\":\"n\"");
	ask("POST", "/v1/completions", "{\"prompt\":\"x\",\"model\":\"large\"}", 404,
	    "\"type\":\"invalid_request_error\",\"param\":\"model\",\"code\":\"model_not_found\"");
	ask("POST", "/nowhere", "{}", 404, "\"code\":\"not_found\"");
	ask("GET", "/v1/models/large", NULL, 404, "model_not_found");
	ask("GET", "/v1/models/sm%61ll", NULL, 200, "{\"id\":\"small\",\"object\":\"model\",\"created\":1700000000,");
	static const struct {
		const char *method, *path, *allow;
	} wrong[] = {{"GET", "/v1/completions", "\r\nAllow: POST\r\n"},
		     {"DELETE", "/v1/models", "\r\nAllow: GET, HEAD\r\n"},
		     {"POST", "/health", "\r\nAllow: GET, HEAD\r\n"},
		     {"OPTIONS", "/v1/chat/completions", "\r\nAllow: POST\r\n"},
		     {"PUT", "/v1/models/small", "\r\nAllow: GET, HEAD\r\n"}};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct rig_answer answer = rig_ask(&rig, wrong[i].method, wrong[i].path, NULL);
		ck_assert_ptr_nonnull(strcasestr(answer.head, wrong[i].allow));
		expect(answer, 405, "method_not_allowed");
	}
	struct rig_client client = rig_connect(&rig);
	rig_send(&client, "NOT HTTP\r\n\r\n");
	expect(rig_answer(&client), 400, "\"type\":\"invalid_request_error\"");
	ck_assert(rig_at_end(&client));
	rig_close(&client);
	rig_no_record(&rig, 0);
	rig_stop(&rig);
}
END_TEST

START_TEST(health_tells_loading_ok_stalled_and_failed)
{
	rig_start(&rig, backends[_i], 8);
	ask("GET", "/health", NULL, 503, "{\"status\":\"loading\"");
	struct rig_answer answer = rig_ask(&rig, "POST", "/v1/completions", "{\"prompt\":\"x\",\"model\":\"small\"}");
	ck_assert_ptr_nonnull(strcasestr(answer.head, "\r\nRetry-After: "));
	expect(answer, 503, "model_loading");
	rig_state(&rig, 0, 0);
	rig_worker_up(&rig, 0, "small");
	ask("GET", "/health", NULL, 200, "{\"status\":\"ok\",\"models\":[{\"id\":\"small\",\"status\":\"ok\"}]");
	struct worker_counters *counters = channel_counters(&rig.worker[0]);
	__atomic_store_n(&counters->progress_ns, clock_now_ns() - 11000000000u, __ATOMIC_RELAXED);
	ask("GET", "/health", NULL, 200, "{\"status\":\"ok\""); /* idle */
	__atomic_store_n(&counters->running, 1, __ATOMIC_RELAXED);
	ask("GET", "/health", NULL, 503, "{\"status\":\"stalled\"");
	metric("weightd_calls_running{worker=\"0\",node=\"0\",model=\"small\"} 1\n");
	__atomic_store_n(&counters->progress_ns, clock_now_ns() - 5000000000u, __ATOMIC_RELAXED);
	ask("GET", "/health", NULL, 200, "{\"status\":\"ok\"");
	__atomic_store_n(&counters->ready, 0, __ATOMIC_RELAXED);
	ask("GET", "/health", NULL, 503, "{\"status\":\"loading\"");
	__atomic_store_n(&counters->ready, 1, __ATOMIC_RELAXED);
	rig_state(&rig, 0, 1);
	rig_worker_up(&rig, 1, "other"); /* and the state before it has been read */
	ask("GET", "/health", NULL, 503, "{\"status\":\"failed\"");
	rig_stop(&rig);
}
END_TEST

START_TEST(draining_finishes_what_runs_and_takes_nothing_new)
{
	start(_i, 8);
	struct rig_client client = rig_connect(&rig), idle = rig_connect(&rig);
	uint64_t call = begin(&client, "{\"prompt\":\"x\",\"stream\":true}", 0);
	rig_accept(&rig, 0, call);
	ck_assert_int_eq(message_send(rig.control, MESSAGE_DRAIN, NULL, 0, NULL, 0), 0);
	ck_assert(rig_at_end(&idle));		    /* closed at once */
	struct rig_client late = rig_connect(&rig); /* waits in the listener, which belongs to the parent */
	rig_token(&rig, 0, call, 1, "last");
	rig_done(&rig, 0, call, FINISH_STOP);
	expect(rig_answer(&client), 200, "data: [DONE]");
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
	start(_i, 8);
	struct rig_client client = rig_connect(&rig), idle = rig_connect(&rig);
	uint64_t call = begin(&client, "{\"prompt\":[\"x\"],\"stream\":true}", 0);
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
	Suite *suite = suite_create("front");
	TCase *tests = tcase_create("all");
	tcase_set_timeout(tests, 120);
	tcase_add_loop_test(tests, a_completion_goes_to_the_worker_and_comes_back, 0, N_BACKENDS);
	tcase_add_loop_test(tests, a_chat_streams, 0, N_BACKENDS);
	tcase_add_loop_test(tests, a_failure_before_the_first_event_is_an_http_error, 0, N_BACKENDS);
	tcase_add_loop_test(tests, several_prompts_are_several_calls_and_one_answer, 0, N_BACKENDS);
	tcase_add_loop_test(tests, small_calls_are_answered, 0, N_BACKENDS);
	tcase_add_loop_test(tests, a_prompt_larger_than_the_ring_arrives_whole, 0, N_BACKENDS);
	tcase_add_loop_test(tests, a_client_that_leaves_cancels_its_calls, 0, N_BACKENDS);
	tcase_add_loop_test(tests, all_calls_of_a_request_are_cancelled, 0, N_BACKENDS);
	tcase_add_loop_test(tests, one_failed_call_ends_the_request_and_cancels_the_others, 0, N_BACKENDS);
	tcase_add_loop_test(tests, past_the_bound_there_is_429, 0, N_BACKENDS);
	tcase_add_loop_test(tests, a_dead_workers_calls_end_with_errors, 0, N_BACKENDS);
	tcase_add_loop_test(tests, a_worker_that_breaks_the_protocol_is_given_up, 0, N_BACKENDS * N_MISDEEDS);
	tcase_add_loop_test(tests, pipelined_requests_are_answered_in_order, 0, N_BACKENDS);
	tcase_add_loop_test(tests, a_client_that_does_not_read_is_dropped, 0, N_BACKENDS);
	tcase_add_loop_test(tests, errors_name_what_is_wrong, 0, N_BACKENDS);
	tcase_add_loop_test(tests, health_tells_loading_ok_stalled_and_failed, 0, N_BACKENDS);
	tcase_add_loop_test(tests, draining_finishes_what_runs_and_takes_nothing_new, 0, N_BACKENDS);
	tcase_add_loop_test(tests, without_its_parent_the_front_ends_at_once_whatever_it_does, 0, N_BACKENDS);
	suite_add_tcase(suite, tests);
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
