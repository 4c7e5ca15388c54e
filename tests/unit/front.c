/* The front as a process: what clients get and what workers are told, over both io backends. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/clock.h"
#include "tests/unit/front_rig.h"
#include "tests/unit/suite.h"

static const enum io_backend backends[] = {IO_URING, IO_EPOLL};
enum { N_BACKENDS = sizeof backends / sizeof *backends };

static struct rig rig;

START_TEST(a_completion_goes_to_the_worker_and_comes_back)
{
	struct call_begin head;
	char *bytes;
	rig_serve(&rig, backends[_i], 8);
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
	rig_expect(rig_answer(&client), 200, "\"text\":\"one two\",\"logprobs\":null,\"finish_reason\":\"stop\"");
	/* the connection lives on */
	call = rig_begin(&rig, &client, "{\"prompt\":\"x\"}", 0);
	struct call_failed failed = {
		.status = 400, .text_bytes = 8, .param = "prompt", .code = "context_length_exceeded"};
	rig_write(&rig, 0, CALL_FAILED, call, &failed, sizeof failed, "too long", 8);
	rig_expect(rig_answer(&client), 400,
		   "{\"error\":{\"message\":\"too long\",\"type\":\"invalid_request_error\",\"param\":\"prompt\","
		   "\"code\":\"context_length_exceeded\"}}");
	rig_close(&client);
	rig_metric(&rig, "weightd_requests_total{path=\"/v1/completions\",code=\"200\"} 1\n");
	rig_metric(&rig, "weightd_requests_total{path=\"/v1/completions\",code=\"400\"} 1\n");
	rig_metric(&rig, "weightd_prompt_tokens_total{model=\"small\"} 3\n");
	rig_metric(&rig, "weightd_generated_tokens_total{model=\"small\"} 2\n");
	rig_metric(&rig, "weightd_time_to_first_token_seconds_count{model=\"small\"} 1\n");
	rig_metric(&rig, "weightd_calls_in_flight 0\n");
	rig_metric(&rig, "weightd_weight_bytes{node=\"0\"} 4096\n");
	rig_stop(&rig);
}
END_TEST

START_TEST(a_chat_streams)
{
	struct call_begin head;
	char *bytes;
	rig_serve(&rig, backends[_i], 8);
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
	rig_expect(answer, 200, "\"delta\":{},\"logprobs\":null,\"finish_reason\":\"length\"");
	rig_close(&client);
	rig_stop(&rig);
}
END_TEST

START_TEST(a_failure_before_the_first_event_is_an_http_error)
{
	rig_serve(&rig, backends[_i], 8);
	struct rig_client client = rig_connect(&rig);
	uint64_t call = rig_begin(&rig, &client, "{\"prompt\":\"x\",\"stream\":true}", 0);
	struct call_failed failed = {.status = 400, .param = "prompt"};
	rig_write(&rig, 0, CALL_FAILED, call, &failed, sizeof failed, NULL, 0);
	rig_expect(rig_answer(&client), 400, "\"param\":\"prompt\"");
	rig_close(&client);
	rig_stop(&rig);
}
END_TEST

START_TEST(several_prompts_are_several_calls_and_one_answer)
{
	struct call_begin head;
	char *bytes;
	uint64_t call[3];
	rig_serve(&rig, backends[_i], 8);
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
	rig_expect(answer, 200, "\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":6,\"total_tokens\":15}");
	rig_close(&client);
	rig_stop(&rig);
}
END_TEST

/* The worker that has got a call; it ends there. */
static unsigned served_by(struct rig_client *client, const char *body)
{
	static struct rig_record record;
	rig_request(client, "POST", "/v1/chat/completions", body);
	unsigned worker = rig_any_record(&rig, &record);
	ck_assert_uint_eq(record.type, CALL_BEGIN);
	uint64_t call = record.call;
	rig_record(&rig, worker, &record);
	ck_assert_uint_eq(record.type, CALL_BYTES);
	rig_done(&rig, worker, call, FINISH_STOP);
	rig_expect(rig_answer(client), 200, "stop");
	return worker;
}

START_TEST(chats_that_begin_alike_go_to_one_worker_with_a_prefix_cache)
{
	char body[1024];
	struct message_serve order = rig_order(backends[_i / 2], 8);
	order.prefix_cache = _i % 2;
	rig_start(&rig, &order);
	rig_state(&rig, 0, 0);
	for (unsigned i = 0; i < RIG_WORKERS; i++)
		rig_worker_up(&rig, i, "small");
	struct rig_client client = rig_connect(&rig);
	bool meet = true;
	unsigned home[4];
	for (unsigned turn = 0; turn < 3; turn++) {
		for (unsigned tenant = 0; tenant < 4; tenant++) {
			snprintf(body, sizeof body,
				 "{\"messages\":[{\"role\":\"system\",\"content\":\"You serve tenant %u. %0300d\"},"
				 "{\"role\":\"user\",\"content\":\"question %u\"}],\"seed\":%u}",
				 tenant, 0, turn, turn);
			unsigned worker = served_by(&client, body);
			meet &= turn == 0 || worker == home[tenant];
			home[tenant] = worker;
		}
		served_by(&client, "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}"); /* shifts the turns */
	}
	ck_assert(meet == (order.prefix_cache != 0));
	rig_close(&client);
	rig_stop(&rig);
}
END_TEST

/* Texts to be embedded take the queue's places in turns, and the vectors come in the order of the texts. */
START_TEST(many_texts_are_embedded_a_few_at_a_time)
{
	enum { PLACES = 2, TEXTS = 5 };
	struct call_begin head;
	char *bytes;
	uint64_t call[TEXTS];
	rig_serve(&rig, backends[_i], PLACES);
	struct rig_client client = rig_connect(&rig);
	rig_request(&client, "POST", "/v1/embeddings", "{\"input\":[\"a\",\"b\",\"c\",\"d\",\"e\"],\"dimensions\":2}");
	for (unsigned i = 0; i < TEXTS; i++) {
		if (i >= PLACES) { /* the one before the last goes first: they end out of order */
			unsigned ended = i == PLACES ? 1 : i == PLACES + 1 ? 0 : 2;
			float vector[] = {(float)ended, 0.5f};
			rig_no_record(&rig, 0);
			rig_check(&rig, "POST", "/v1/completions", "{\"prompt\":\"x\"}", 429, "places");
			rig_accept(&rig, 0, call[ended]);
			rig_write(&rig, 0, CALL_RESULT, call[ended], vector, 4, NULL, 0);
			rig_write(&rig, 0, CALL_RESULT, call[ended], vector + 1, 4, NULL, 0);
			rig_done(&rig, 0, call[ended], FINISH_STOP);
		}
		call[i] = rig_call(&rig, 0, &head, &bytes);
		ck_assert_uint_eq(head.kind, CALL_KIND_EMBED);
		ck_assert_uint_eq(head.dimensions, 2);
		ck_assert_int_eq(bytes[0], "abcde"[i]);
		free(bytes);
	}
	for (unsigned i = 3; i < TEXTS; i++) {
		float vector[] = {(float)i, 0.5f};
		rig_write(&rig, 0, CALL_RESULT, call[i], vector, 8, NULL, 0);
		rig_done(&rig, 0, call[i], FINISH_STOP);
	}
	struct rig_answer answer = rig_answer(&client);
	for (unsigned i = 0; i < TEXTS; i++) {
		char entry[80];
		snprintf(entry, sizeof entry, "\"index\":%u,\"embedding\":[%u,0.5]}", i, i);
		ck_assert_msg(strstr(answer.body, entry) != NULL, "%s", answer.body);
	}
	rig_expect(answer, 200, "\"usage\":{\"prompt_tokens\":15,\"total_tokens\":15}");
	rig_close(&client);
	rig_stop(&rig);
}
END_TEST

/* A client that leaves, or a text that fails, ends what is under way, and the rest is never begun. */
START_TEST(texts_of_a_client_that_left_are_not_begun)
{
	struct call_begin head;
	char *bytes;
	uint64_t call[2];
	rig_serve(&rig, backends[_i], 2);
	struct rig_client client = rig_connect(&rig);
	for (int round = 0; round < 2; round++) {
		rig_request(&client, "POST", "/v1/embeddings", "{\"input\":[\"a\",\"b\",\"c\"]}");
		for (unsigned i = 0; i < 2; i++, free(bytes))
			call[i] = rig_call(&rig, 0, &head, &bytes);
		if (round == 0) {
			struct call_failed failed = {.status = 400, .text_bytes = 4, .param = "input"};
			rig_write(&rig, 0, CALL_FAILED, call[1], &failed, sizeof failed, "long", 4);
			rig_expect(rig_answer(&client), 400, "\"param\":\"input[1]\"");
		} else {
			rig_close(&client);
		}
		for (unsigned i = 0; i < 1u + (round == 1); i++)
			rig_wait_cancel(&rig, 0, call[i]);
		for (unsigned i = 0; i < 1u + (round == 1); i++)
			rig_done(&rig, 0, call[i], FINISH_CANCELLED);
		rig_no_record(&rig, 0);
	}
	rig_stop(&rig);
}
END_TEST

START_TEST(small_calls_are_answered)
{
	struct call_begin head;
	char *bytes;
	uint32_t ids[] = {1, 2};
	rig_serve(&rig, backends[_i], 8);
	struct rig_client client = rig_connect(&rig);
	rig_request(&client, "POST", "/tokenize", "{\"content\":\"hi\",\"add_special\":true,\"parse_special\":false}");
	uint64_t call = rig_call(&rig, 0, &head, &bytes);
	ck_assert_uint_eq(head.kind, CALL_KIND_TOKENIZE);
	ck_assert_uint_eq(head.flags, CALL_FLAG_ADD_SPECIAL);
	free(bytes);
	rig_write(&rig, 0, CALL_RESULT, call, ids, 4, NULL, 0);
	rig_write(&rig, 0, CALL_RESULT, call, ids + 1, 4, NULL, 0);
	rig_done(&rig, 0, call, FINISH_STOP);
	rig_expect(rig_answer(&client), 200, "{\"tokens\":[1,2]}");
	rig_request(&client, "POST", "/detokenize", "{\"tokens\":[1,2]}");
	call = rig_call(&rig, 0, &head, &bytes);
	ck_assert_uint_eq(head.kind, CALL_KIND_DETOKENIZE);
	ck_assert_mem_eq(bytes, ids, 8);
	free(bytes);
	rig_write(&rig, 0, CALL_RESULT, call, "hi", 2, NULL, 0);
	rig_done(&rig, 0, call, FINISH_STOP);
	rig_expect(rig_answer(&client), 200, "{\"content\":\"hi\"}");
	rig_request(&client, "POST", "/apply-template", "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}");
	call = rig_call(&rig, 0, &head, &bytes);
	ck_assert_uint_eq(head.kind, CALL_KIND_TEMPLATE);
	free(bytes);
	rig_write(&rig, 0, CALL_RESULT, call, "<user>", 6, NULL, 0);
	rig_done(&rig, 0, call, FINISH_STOP);
	rig_expect(rig_answer(&client), 200, "{\"prompt\":\"<user>\"}");
	rig_close(&client);
	rig_stop(&rig);
}
END_TEST

START_TEST(a_prompt_larger_than_the_ring_arrives_whole)
{
	enum { N = 3 << 20 };
	struct call_begin head;
	char *bytes, *body = malloc(N + 64);
	rig_serve(&rig, backends[_i], 8);
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
	rig_expect(rig_answer(&client), 200, "\"finish_reason\":\"stop\"");
	call = rig_call(&rig, 0, &head, &bytes);
	ck_assert_str_eq(bytes, "second");
	free(bytes);
	rig_done(&rig, 0, call, FINISH_STOP);
	rig_expect(rig_answer(&other), 200, "\"finish_reason\":\"stop\"");
	rig_close(&client);
	rig_close(&other);
	rig_stop(&rig);
}
END_TEST

START_TEST(pipelined_requests_are_answered_in_order)
{
	rig_serve(&rig, backends[_i], 8);
	struct rig_client client = rig_connect(&rig);
	rig_send(&client, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 14\r\n\r\n{\"prompt\":\"x\"}"
			  "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
			  "GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n");
	struct call_begin head;
	char *bytes;
	uint64_t call = rig_call(&rig, 0, &head, &bytes);
	free(bytes);
	rig_done(&rig, 0, call, FINISH_STOP);
	rig_expect(rig_answer(&client), 200, "text_completion");
	rig_expect(rig_answer(&client), 200, "{\"object\":\"list\",\"data\":[{\"id\":\"small\",\"object\":\"model\",");
	rig_expect(rig_answer(&client), 404, "/nowhere");
	rig_close(&client);
	rig_stop(&rig);
}
END_TEST

START_TEST(errors_name_what_is_wrong)
{
	rig_serve(&rig, backends[_i], 8);
	rig_check(&rig, "POST", "/v1/completions", "{\"prompt\":", 400, "\"code\":\"invalid_json\"");
	rig_check(&rig, "POST", "/v1/completions", "{\"prompt\":\"x\",\"n\":17}", 400, "\"param\":\"n\"");
	rig_check(&rig, "POST", "/v1/completions", "{\"prompt\":\"x\",\"model\":\"large\"}", 404,
		  "\"type\":\"invalid_request_error\",\"param\":\"model\",\"code\":\"model_not_found\"");
	rig_check(&rig, "POST", "/nowhere", "{}", 404, "\"code\":\"not_found\"");
	rig_check(&rig, "GET", "/v1/models/large", NULL, 404, "model_not_found");
	rig_check(&rig, "GET", "/v1/models/sm%61ll", NULL, 200,
		  "{\"id\":\"small\",\"object\":\"model\",\"created\":1700000000,");
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
		rig_expect(answer, 405, "method_not_allowed");
	}
	struct rig_client client = rig_connect(&rig);
	rig_send(&client, "NOT HTTP\r\n\r\n");
	rig_expect(rig_answer(&client), 400, "\"type\":\"invalid_request_error\"");
	ck_assert(rig_at_end(&client));
	rig_close(&client);
	rig_no_record(&rig, 0);
	rig_stop(&rig);
}
END_TEST

START_TEST(health_tells_loading_ok_stalled_and_failed)
{
	struct message_serve order = rig_order(backends[_i], 8);
	rig_start(&rig, &order);
	rig_check(&rig, "GET", "/health", NULL, 503, "{\"status\":\"loading\"");
	struct rig_answer answer = rig_ask(&rig, "POST", "/v1/completions", "{\"prompt\":\"x\",\"model\":\"small\"}");
	ck_assert_ptr_nonnull(strcasestr(answer.head, "\r\nRetry-After: "));
	rig_expect(answer, 503, "model_loading");
	rig_state(&rig, 0, 0);
	rig_worker_up(&rig, 0, "small");
	rig_check(&rig, "GET", "/health", NULL, 200,
		  "{\"status\":\"ok\",\"models\":[{\"id\":\"small\",\"status\":\"ok\"}]");
	struct worker_counters *counters = channel_counters(&rig.worker[0]);
	__atomic_store_n(&counters->progress_ns, clock_now_ns() - 11000000000u, __ATOMIC_RELAXED);
	rig_check(&rig, "GET", "/health", NULL, 200, "{\"status\":\"ok\""); /* idle */
	__atomic_store_n(&counters->running, 1, __ATOMIC_RELAXED);
	rig_check(&rig, "GET", "/health", NULL, 503, "{\"status\":\"stalled\"");
	rig_metric(&rig, "weightd_calls_running{worker=\"0\",node=\"0\",model=\"small\"} 1\n");
	__atomic_store_n(&counters->progress_ns, clock_now_ns() - 5000000000u, __ATOMIC_RELAXED);
	rig_check(&rig, "GET", "/health", NULL, 200, "{\"status\":\"ok\"");
	__atomic_store_n(&counters->ready, 0, __ATOMIC_RELAXED);
	rig_check(&rig, "GET", "/health", NULL, 503, "{\"status\":\"loading\"");
	__atomic_store_n(&counters->ready, 1, __ATOMIC_RELAXED);
	rig_state(&rig, 0, STANDING_FAILED);
	rig_worker_up(&rig, 1, "other"); /* and the state before it has been read */
	rig_check(&rig, "GET", "/health", NULL, 503, "{\"status\":\"failed\"");
	rig_stop(&rig);
}
END_TEST

START_TEST(a_degraded_copy_is_told_and_avoided)
{
	struct message_serve order = rig_order(backends[_i], 8);
	struct message_state state = {
		.n_models = 1,
		.model = {{.name = "small", .standing = STANDING_SERVED, .degraded = 1, .why = "node 1: as told"}}};
	const struct message_worker_copy degraded = {.worker = 1, .degraded = 1};
	bool served[RIG_WORKERS] = {false};
	rig_start(&rig, &order);
	for (unsigned i = 0; i < RIG_WORKERS; i++)
		rig_worker_up(&rig, i, "small");
	ck_assert_int_eq(message_send(rig.control, MESSAGE_WORKER_COPY, &degraded, sizeof degraded, NULL, 0), 0);
	ck_assert_int_eq(message_send(rig.control, MESSAGE_STATE, &state, sizeof state, NULL, 0), 0);
	rig_worker_up(&rig, 0, "small"); /* and what was sent before has been read */
	rig_check(&rig, "GET", "/health", NULL, 200,
		  "{\"status\":\"degraded\",\"models\":[{\"id\":\"small\",\"status\":\"degraded\","
		  "\"message\":\"node 1: as told\"}]");
	rig_metric(&rig, "weightd_model_health{model=\"small\",health=\"degraded\"} 1\n");
	struct rig_client client = rig_connect(&rig);
	for (unsigned i = 0; i < 2 * RIG_WORKERS; i++)
		served[served_by(&client, "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}")] = true;
	for (unsigned i = 0; i < RIG_WORKERS; i++)
		ck_assert(served[i] == (i != degraded.worker));
	rig_close(&client);
	rig_stop(&rig);
}
END_TEST

START_TEST(a_model_that_is_not_served_has_its_reason_and_the_others_go_on)
{
	static const struct {
		enum model_standing standing;
		const char *word, *code;
	} cases[] = {{STANDING_FAILING, "failing", "model_failing"}, {STANDING_FAILED, "failed", "model_failed"}};
	char expected[256];
	rig_serve(&rig, backends[_i], 8);
	for (int i = 0; i < 2; i++) {
		rig_state(&rig, 0, cases[i].standing);
		rig_worker_up(&rig, 1, i ? "other" : "another"); /* and the state before it has been read */
		snprintf(expected, sizeof expected,
			 "{\"status\":\"%s\",\"models\":[{\"id\":\"small\",\"status\":\"ok\"},"
			 "{\"id\":\"broken\",\"status\":\"%s\",\"message\":\"as told\"}],",
			 cases[i].word, cases[i].word);
		rig_check(&rig, "GET", "/health", NULL, 503, expected);
		rig_check(&rig, "POST", "/v1/completions", "{\"prompt\":\"x\",\"model\":\"broken\"}", 503,
			  cases[i].code);
		rig_check(&rig, "POST", "/v1/completions", "{\"prompt\":\"x\",\"model\":\"none\"}", 404,
			  "model_not_found");
	}
	rig_stop(&rig);
}
END_TEST

/* Right after a new front has started: 404 would tell clients that the model is gone for good. */
START_TEST(a_model_whose_workers_are_away_is_not_unknown)
{
	struct message_serve order = rig_order(backends[_i], 8);
	rig_start(&rig, &order);
	rig_state(&rig, 0, 0);
	rig_worker_up(&rig, 1, "other"); /* and the state before it has been read */
	rig_check(&rig, "GET", "/health", NULL, 503, "{\"id\":\"small\",\"status\":\"loading\"}");
	rig_check(&rig, "POST", "/v1/completions", "{\"prompt\":\"x\",\"model\":\"small\"}", 503, "model_loading");
	rig_check(&rig, "POST", "/v1/completions", "{\"prompt\":\"x\"}", 503, "model_loading");
	rig_stop(&rig);
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
	tcase_add_loop_test(tests, chats_that_begin_alike_go_to_one_worker_with_a_prefix_cache, 0, 2 * N_BACKENDS);
	tcase_add_loop_test(tests, small_calls_are_answered, 0, N_BACKENDS);
	tcase_add_loop_test(tests, many_texts_are_embedded_a_few_at_a_time, 0, N_BACKENDS);
	tcase_add_loop_test(tests, texts_of_a_client_that_left_are_not_begun, 0, N_BACKENDS);
	tcase_add_loop_test(tests, a_prompt_larger_than_the_ring_arrives_whole, 0, N_BACKENDS);
	tcase_add_loop_test(tests, pipelined_requests_are_answered_in_order, 0, N_BACKENDS);
	tcase_add_loop_test(tests, errors_name_what_is_wrong, 0, N_BACKENDS);
	tcase_add_loop_test(tests, health_tells_loading_ok_stalled_and_failed, 0, N_BACKENDS);
	tcase_add_loop_test(tests, a_degraded_copy_is_told_and_avoided, 0, N_BACKENDS);
	tcase_add_loop_test(tests, a_model_that_is_not_served_has_its_reason_and_the_others_go_on, 0, N_BACKENDS);
	tcase_add_loop_test(tests, a_model_whose_workers_are_away_is_not_unknown, 0, N_BACKENDS);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
