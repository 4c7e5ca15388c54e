/* Answers: JSON writers, OpenAI's objects whole and as events, and the records they are made of. */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/api/stream.h"
#include "tests/unit/suite.h"

static struct api_request request;
static struct api_answer answer;
static struct api_json out;

static void begin(enum api_endpoint endpoint, const char *body)
{
	struct api_error error;
	ck_assert_msg(api_request_read(&request, endpoint, body, strlen(body), &error) == 0, "%s", error.message);
	ck_assert_int_eq(api_answer_init(&answer, &request, "small", 1700000000), 0);
}

static void end(void)
{
	api_answer_fini(&answer);
	api_request_fini(&request);
	api_json_fini(&out);
}

static const char chat_body[] =
	"{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"logprobs\":true,\"top_logprobs\":2}";

static struct record_token token(uint32_t id, const char *piece, const char *text, float logprob)
{
	return (struct record_token){.token = {id, logprob, piece, (uint32_t)strlen(piece)},
				     .has_logprob = true,
				     .text = text,
				     .text_bytes = (uint32_t)strlen(text)};
}

static void add_top(struct record_token *t, uint32_t id, const char *piece, float logprob)
{
	t->top[t->n_top++] = (struct record_piece){id, logprob, piece, (uint32_t)strlen(piece)};
}

static void done(uint32_t choice, enum finish_reason finish, const char *text)
{
	struct record_done record = {finish, 3, 2, text, (uint32_t)strlen(text)};
	api_answer_done(&answer, choice, &record);
}

/* What was written, without the id that differs each time. */
static char *written(void)
{
	ck_assert(!out.failed);
	char *text = malloc(out.n + 1);
	ck_assert_ptr_nonnull(text);
	memcpy(text, out.bytes, out.n);
	text[out.n] = 0;
	size_t n_id = strlen(answer.id);
	for (char *at = text; n_id && (at = strstr(at, answer.id));) {
		memcpy(at, "ID", 2);
		memmove(at + 2, at + n_id, strlen(at + n_id) + 1);
	}
	return text;
}

static void expect(const char *expected)
{
	char *text = written();
	ck_assert_str_eq(text, expected);
	free(text);
}

#define HEAD(object) "{\"id\":\"ID\",\"object\":\"" object "\",\"created\":1700000000,\"model\":\"small\""

START_TEST(strings_are_valid_json_whatever_the_bytes)
{
	static const struct {
		const char *bytes, *json;
		size_t code_points;
	} cases[] = {
		{"", "\"\"", 0},
		{"a\"\\\n\r\t\x01\x7f", "\"a\\\"\\\\\\n\\r\\t\\u0001\\u007f\"", 8},
		{"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"", 3},
		{"x\xff", "\"x\xef\xbf\xbd\"", 2},
		{"\xe2\x82", "\"\xef\xbf\xbd\"", 1}, /* cut */
		{"\xe2\x82y", "\"\xef\xbf\xbdy\"", 2},
		{"\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"", 3}, /* surrogate */
		{"\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\"", 2},		 /* overlong */
		{"\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"", 4},
		{"\xf0\x80\x80\xc2\xa0", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xc2\xa0\"", 4},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		api_json_reset(&out);
		api_json_string(&out, cases[i].bytes, strlen(cases[i].bytes));
		ck_assert_uint_eq(out.n, strlen(cases[i].json));
		ck_assert_mem_eq(out.bytes, cases[i].json, out.n);
		ck_assert_uint_eq(api_json_code_points(cases[i].bytes, strlen(cases[i].bytes)), cases[i].code_points);
	}
	api_json_fini(&out);
}
END_TEST

START_TEST(floats_read_back_as_written)
{
	uint32_t bits = 1;
	for (int i = 0; i < 200000; i++) {
		float value, back;
		bits = bits * 1664525u + 1013904223u;
		memcpy(&value, &bits, sizeof value);
		if (!isfinite(value))
			continue;
		api_json_reset(&out);
		api_json_f32(&out, value);
		api_json_raw(&out, "", 1);
		back = strtof(out.bytes, NULL);
		ck_assert_mem_eq(&back, &value, sizeof value);
	}
	api_json_reset(&out);
	api_json_f32(&out, -0.1f);
	api_json_raw(&out, " ", 1);
	api_json_f32(&out, -INFINITY);
	api_json_raw(&out, " ", 1);
	api_json_f32(&out, NAN);
	api_json_raw(&out, "", 1);
	ck_assert_str_eq(out.bytes, "-0.1 -9999 null");
	api_json_fini(&out);
}
END_TEST

START_TEST(a_whole_completion)
{
	begin(API_COMPLETION, "{\"prompt\":[\"a\",\"b\"]}");
	struct record_token t = token(7, "\xe2\x82", "", -1);
	api_choice_token(&answer.choices[1], &answer.shape, &t);
	t = token(8, "\xac!", "\xe2\x82\xac!", -1);
	api_choice_token(&answer.choices[1], &answer.shape, &t);
	done(0, FINISH_STOP, "tail");
	done(1, FINISH_LENGTH, "");
	api_answer_write(&answer, &out);
	expect(HEAD("text_completion") ",\"choices\":["
				       "{\"index\":0,\"text\":\"tail\",\"logprobs\":null,\"finish_reason\":\"stop\"},"
				       "{\"index\":1,\"text\":\"\xe2\x82\xac!\",\"logprobs\":null,\"finish_reason\":"
				       "\"length\"}],"
				       "\"usage\":{\"prompt_tokens\":6,\"completion_tokens\":4,\"total_tokens\":10}}");
	end();
}
END_TEST

START_TEST(echo_with_logprobs_has_a_row_for_every_token)
{
	begin(API_COMPLETION, "{\"prompt\":\"ab\",\"echo\":true,\"logprobs\":2,\"return_token_ids\":true}");
	struct record_token t = token(1, "\xc3\xa9", "\xc3\xa9", 0);
	t.is_prompt = true;
	t.has_logprob = false;
	api_choice_token(&answer.choices[0], &answer.shape, &t);
	t = token(2, "b", "b", -0.5f);
	t.is_prompt = true;
	add_top(&t, 2, "b", -0.5f);
	add_top(&t, 9, "\xff", -1.5f);
	api_choice_token(&answer.choices[0], &answer.shape, &t);
	t = token(3, "\xfe", "", -4.25f); /* prints as the alternative before it, which was more probable */
	add_top(&t, 9, "\xff", -0.25f);
	add_top(&t, 4, "c", -2);
	api_choice_token(&answer.choices[0], &answer.shape, &t);
	done(0, FINISH_LENGTH, "\xef\xbf\xbd");
	api_answer_write(&answer, &out);
	expect(HEAD("text_completion") ",\"choices\":[{\"index\":0,\"text\":\"\xc3\xa9"
				       "b\xef\xbf\xbd\",\"logprobs\":{\"tokens\":[\"\xc3\xa9\",\"b\",\"\xef\xbf\xbd\"],"
				       "\"token_logprobs\":[null,-0.5,-4.25],"
				       "\"top_logprobs\":[null,{\"b\":-0.5,\"\xef\xbf\xbd\":-1.5},{\"\xef\xbf\xbd\":-0."
				       "25,\"c\":-2}],"
				       "\"text_offset\":[0,1,2],\"token_ids\":[1,2,3],\"top_ids\":[null,[2,9],[9,4]],"
				       "\"top_values\":[null,[-0.5,-1.5],[-0.25,-2]]},\"finish_reason\":\"length\","
				       "\"prompt_token_ids\":[1,2],\"token_ids\":[3]}],"
				       "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5}}");
	end();
}
END_TEST

START_TEST(the_chosen_token_is_in_top_logprobs_even_with_none_asked)
{
	begin(API_COMPLETION, "{\"prompt\":\"a\",\"logprobs\":0}");
	struct record_token t = token(2, "b", "b", -0.5f);
	api_choice_token(&answer.choices[0], &answer.shape, &t);
	api_choice_write_logprobs(&answer.choices[0], &answer.shape, &out);
	expect("{\"tokens\":[\"b\"],\"token_logprobs\":[-0.5],\"top_logprobs\":[{\"b\":-0.5}],\"text_offset\":[0]}");
	end();
}
END_TEST

START_TEST(prompt_ids_alone_make_no_rows)
{
	begin(API_COMPLETION, "{\"prompt\":\"a\",\"logprobs\":0,\"return_token_ids\":true}");
	struct record_token t = token(5, "", "", 0);
	t.is_prompt = true;
	t.has_logprob = false;
	api_choice_token(&answer.choices[0], &answer.shape, &t);
	api_choice_write_logprobs(&answer.choices[0], &answer.shape, &out);
	expect("{\"tokens\":[],\"token_logprobs\":[],\"top_logprobs\":[],\"text_offset\":[],\"token_ids\":[],\"top_"
	       "ids\":[],"
	       "\"top_values\":[]}");
	api_json_reset(&out);
	done(0, FINISH_STOP, "");
	api_answer_write(&answer, &out);
	char *text = written();
	ck_assert_ptr_nonnull(strstr(text, "\"prompt_token_ids\":[5],\"token_ids\":[]"));
	free(text);
	end();
}
END_TEST

START_TEST(a_whole_chat)
{
	begin(API_CHAT, chat_body);
	struct record_token t = token(2, "\xe2\x82", "", -0.5f);
	add_top(&t, 2, "\xe2\x82", -0.5f);
	add_top(&t, 3, "c", -1);
	api_choice_token(&answer.choices[0], &answer.shape, &t);
	done(0, FINISH_STOP, "\xef\xbf\xbd");
	api_answer_write(&answer, &out);
	ck_assert_int_eq(strncmp(answer.id, "chatcmpl-", 9), 0);
	expect(HEAD(
		"chat.completion") ",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":"
				   "\"\xef\xbf\xbd\","
				   "\"refusal\":null},\"logprobs\":{\"content\":[{\"token\":\"\xef\xbf\xbd\","
				   "\"logprob\":-0.5,"
				   "\"bytes\":[226,130],\"top_logprobs\":[{\"token\":\"\xef\xbf\xbd\",\"logprob\":-0.5,"
				   "\"bytes\":[226,130]},{\"token\":\"c\",\"logprob\":-1,\"bytes\":[99]}]}],"
				   "\"refusal\":null},"
				   "\"finish_reason\":\"stop\"}],"
				   "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5}}");
	end();
}
END_TEST

/* An answer with all parts, in pieces of `width` bytes; as events if the request says so. */
static void answer_with_parts(size_t width)
{
	static const char text[] =
		"<think>\nHm.\n</think>\nI look.\n<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":"
		"\"\\n\xc3\xa9\"}}</tool_call><tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>";
	struct call_accepted accepted = {3, TOOLS_HERMES, REASONING_THINK};
	answer.salt = 1; /* else ids are random */
	api_answer_accepted(&answer, 0, &accepted);
	for (size_t at = 0; at < sizeof text - 1; at += width) {
		struct record_token t = token(1, "", "", 0);
		t.text = text + at;
		t.text_bytes = (uint32_t)(sizeof text - 1 - at < width ? sizeof text - 1 - at : width);
		api_choice_token(&answer.choices[0], &answer.shape, &t);
		if (answer.stream)
			api_stream_news(&answer, 0, &out);
	}
	done(0, FINISH_STOP, "");
}

static const char tools_body[] =
	"{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{\"type\":\"function\","
	"\"function\":{\"name\":\"f\"}}]%s}";

static void begin_tools(const char *more)
{
	char body[512];
	snprintf(body, sizeof body, tools_body, more);
	begin(API_CHAT, body);
}

START_TEST(a_whole_chat_with_tool_calls)
{
	begin_tools("");
	answer_with_parts(1000);
	api_answer_write(&answer, &out);
	char expected[1024];
	snprintf(
		expected, sizeof expected,
		HEAD("chat.completion") ",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":"
					"\"I look.\",\"refusal\":null,\"reasoning_content\":\"Hm.\",\"tool_calls\":["
					"{\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":\"f\","
					"\"arguments\":\"{\\\"a\\\":\\\"\\\\n\xc3\xa9\\\"}\"}},"
					"{\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":\"g\","
					"\"arguments\":\"{}\"}}]},\"logprobs\":null,\"finish_reason\":\"tool_calls\"}],"
					"\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5}}",
		answer.choices[0].split.calls[0].id, answer.choices[0].split.calls[1].id);
	expect(expected);
	end();
}
END_TEST

START_TEST(only_calls_leave_no_content)
{
	begin_tools(",\"parallel_tool_calls\":false");
	struct call_accepted accepted = {3, TOOLS_HERMES, REASONING_NONE};
	api_answer_accepted(&answer, 0, &accepted);
	done(0, FINISH_LENGTH, "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call><tool_call>{\"name\":\"g\"");
	api_answer_write(&answer, &out);
	char *text = written();
	ck_assert_ptr_nonnull(strstr(text, "\"content\":null,"));
	ck_assert_ptr_nonnull(strstr(text, "\"finish_reason\":\"length\""));
	ck_assert_ptr_null(strstr(text, "\"g\""));
	free(text);
	end();
}
END_TEST

START_TEST(tool_calls_as_events)
{
	begin_tools(",\"stream\":true");
	answer_with_parts(17);
	api_stream_finish(&answer, 0, &out);
	static const char *const deltas[] = {
		"\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null}",
		"\"delta\":{\"reasoning_content\":\"Hm.\"}",
		"\"delta\":{\"content\":\"I look.\"}",
		"\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":",
		"\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":",
		"{\"index\":1,\"id\":\"",
		"\"finish_reason\":\"tool_calls\"}",
	};
	char *text = written(), *at = text;
	for (size_t i = 0; i < sizeof deltas / sizeof *deltas; i++) {
		at = strstr(at, deltas[i]);
		ck_assert_msg(at, "no %s behind the others in %s", deltas[i], text);
	}
	free(text);
	end();
}
END_TEST

START_TEST(a_chat_as_events)
{
	begin(API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"stream\":true,"
			"\"stream_options\":{\"include_usage\":true}}");
	api_stream_begin(&answer, 0, &out);
	struct record_token t = token(2, "hi", "hi", 0);
	api_choice_token(&answer.choices[0], &answer.shape, &t);
	api_stream_news(&answer, 0, &out);
	t = token(3, "\xe2", "", 0);
	api_choice_token(&answer.choices[0], &answer.shape, &t);
	api_stream_news(&answer, 0, &out); /* nothing to say yet */
	done(0, FINISH_STOP, "!");
	api_stream_finish(&answer, 0, &out);
	api_stream_end(&answer, &out);
#define CHUNK "data: " HEAD("chat.completion.chunk") ",\"choices\":["
	expect(CHUNK
	       "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null},\"logprobs\":null,"
	       "\"finish_reason\":null}],\"usage\":null}\n\n" CHUNK
	       "{\"index\":0,\"delta\":{\"content\":\"hi\"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}"
	       "\n\n" CHUNK "{\"index\":0,\"delta\":{\"content\":\"!\"},\"logprobs\":null,\"finish_reason\":null}],"
	       "\"usage\":null}\n\n" CHUNK
	       "{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":null}\n\n" CHUNK
	       "],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5}}\n\n"
	       "data: [DONE]\n\n");
	end();
}
END_TEST

START_TEST(a_completion_as_events_sends_each_row_once)
{
	begin(API_COMPLETION, "{\"prompt\":\"a\",\"stream\":true,\"logprobs\":0,\"return_token_ids\":true}");
	struct record_token t = token(5, "", "", 0);
	t.is_prompt = true;
	api_choice_token(&answer.choices[0], &answer.shape, &t);
	t = token(6, "x", "x", -1);
	api_choice_token(&answer.choices[0], &answer.shape, &t);
	api_stream_news(&answer, 0, &out);
	t = token(7, "y", "y", -2);
	api_choice_token(&answer.choices[0], &answer.shape, &t);
	api_stream_news(&answer, 0, &out);
	done(0, FINISH_LENGTH, "");
	api_stream_finish(&answer, 0, &out);
	api_stream_end(&answer, &out);
#define TEXT "data: " HEAD("text_completion") ",\"choices\":[{\"index\":0,\"text\":"
#define ROW(piece, value, offset, id)                                                                    \
	"\"" piece "\",\"logprobs\":{\"tokens\":[\"" piece "\"],\"token_logprobs\":[" value              \
	"],\"top_logprobs\":[{\"" piece "\":" value "}],\"text_offset\":[" offset "],\"token_ids\":[" id \
	"],\"top_ids\":[[]],\"top_values\":[[]]},"                                                       \
	"\"finish_reason\":null"
	expect(TEXT ROW("x", "-1", "0", "6") ",\"prompt_token_ids\":[5],\"token_ids\":[6]}]}\n\n" TEXT ROW(
		"y", "-2", "1", "7") ",\"token_ids\":[7]}]}\n\n" TEXT
				     "\"\",\"logprobs\":null,\"finish_reason\":\"length\"}]}\n\n"
				     "data: [DONE]\n\n");
	end();
}
END_TEST

START_TEST(small_answers)
{
	begin(API_TOKENIZE, "{\"content\":\"a\"}");
	uint32_t ids[] = {1, 49151};
	ck_assert_int_eq(api_choice_ids(&answer.choices[0], ids, 7), -EPROTO);
	ck_assert_int_eq(api_choice_ids(&answer.choices[0], ids, 4), 0);
	ck_assert_int_eq(api_choice_ids(&answer.choices[0], ids + 1, 4), 0);
	api_answer_write(&answer, &out);
	expect("{\"tokens\":[1,49151]}");
	end();
	begin(API_TOKENIZE, "{\"content\":\"\"}");
	api_answer_write(&answer, &out);
	expect("{\"tokens\":[]}");
	end();
	begin(API_DETOKENIZE, "{\"tokens\":[1]}");
	api_choice_text(&answer.choices[0], "\xe2", 1); /* a sequence may be cut between two records */
	api_choice_text(&answer.choices[0], "\x82\xac", 2);
	api_answer_write(&answer, &out);
	expect("{\"content\":\"\xe2\x82\xac\"}");
	end();
	begin(API_TEMPLATE, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}");
	api_answer_write(&answer, &out);
	expect("{\"prompt\":\"\"}");
	end();
}
END_TEST

START_TEST(vectors_are_numbers_or_base64)
{
	static const struct {
		const char *format, *first, *second;
	} cases[] = {
		{"float", "[1,-0.5,0.1]", "[0.25]"},
		{"base64", "\"AACAPwAAAL/NzMw9\"", "\"AACAPg==\""},
	};
	const float first[] = {1, -0.5f, 0.1f}, second[] = {0.25f};
	for (int i = 0; i < 2; i++) {
		char body[128], expected[512];
		snprintf(body, sizeof body, "{\"input\":[\"a\",\"b\"],\"encoding_format\":\"%s\"}", cases[i].format);
		begin(API_EMBEDDING, body);
		api_choice_text(&answer.choices[1], second, sizeof second);
		api_choice_text(&answer.choices[0], first, 8); /* as it comes: in parts, and out of order */
		done(1, FINISH_STOP, "");
		api_choice_text(&answer.choices[0], first + 2, 4);
		done(0, FINISH_STOP, "");
		api_answer_write(&answer, &out);
		snprintf(expected, sizeof expected,
			 "{\"object\":\"list\",\"data\":["
			 "{\"object\":\"embedding\",\"index\":0,\"embedding\":%s},"
			 "{\"object\":\"embedding\",\"index\":1,\"embedding\":%s}],\"model\":\"small\","
			 "\"usage\":{\"prompt_tokens\":6,\"total_tokens\":6}}",
			 cases[i].first, cases[i].second);
		expect(expected);
		end();
	}
}
END_TEST

START_TEST(a_response_that_fails_says_so_in_its_last_event)
{
	struct api_error error = {0};
	begin(API_RESPONSE, "{\"input\":\"x\",\"stream\":true}");
	api_stream_begin(&answer, 0, &out);
	api_json_reset(&out);
	api_error_set(&error, 502, "worker_died", NULL, "gone");
	api_stream_error(&answer, &error, &out);
	char *text = written();
	static const char head[] =
		"event: response.failed\ndata: {\"type\":\"response.failed\",\"sequence_number\":2,"
		"\"response\":{\"id\":\"ID\",\"object\":\"response\",\"created_at\":1700000000,"
		"\"status\":\"failed\",\"model\":\"small\",\"error\":{\"code\":\"server_error\",\"message\":\"gone\"}";
	ck_assert_msg(!strncmp(text, head, sizeof head - 1), "%s", text);
	ck_assert_str_eq(text + strlen(text) - 3, "}\n\n");
	free(text);
	end();
}
END_TEST

START_TEST(errors_are_openais)
{
	struct api_error error = {0};
	api_error_set(&error, 404, "model_not_found", "model", "no model '%s'", "x\"\xff");
	api_error_write(&error, &out);
	expect("{\"error\":{\"message\":\"no model "
	       "'x\\\"\xef\xbf\xbd'\",\"type\":\"invalid_request_error\",\"param\":\"model\","
	       "\"code\":\"model_not_found\"}}");
	api_json_reset(&out);
	api_error_set(&error, 502, NULL, NULL, "gone");
	api_stream_error(&answer, &error, &out);
	expect("data: {\"error\":{\"message\":\"gone\",\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n");
	api_json_fini(&out);
}
END_TEST

/* Every shorter or longer payload, and lengths that point elsewhere, must be refused without reading past the end. */
START_TEST(token_records_with_wrong_lengths_are_refused)
{
	struct call_token head = {
		.id = 4, .index = 9, .has_logprob = 1, .logprob = -1, .n_top = 2, .piece_bytes = 2, .text_bytes = 3};
	struct call_logprob top[2] = {{4, -1, 2}, {5, -2, 1}};
	char payload[sizeof head + sizeof top + 8];
	memcpy(payload, &head, sizeof head);
	memcpy(payload + sizeof head, top, sizeof top);
	memcpy(payload + sizeof head + sizeof top, "abcdetxt", 8);
	struct record_token t = {0};
	ck_assert_int_eq(record_read_token(payload, sizeof payload, &t), 0);
	ck_assert(t.n_top == 2 && t.index == 9 && t.text_bytes == 3 && t.token.n_bytes == 2);
	ck_assert_mem_eq(t.top[0].bytes, "ab", 2);
	ck_assert_mem_eq(t.top[1].bytes, "c", 1);
	ck_assert_mem_eq(t.token.bytes, "de", 2);
	ck_assert_mem_eq(t.text, "txt", 3);
	for (size_t n = 0; n < sizeof payload; n++) {
		char *exact = malloc(n ? n : 1); /* so that the sanitizer sees one byte too many */
		memcpy(exact, payload, n);
		ck_assert_int_eq(record_read_token(exact, n, &t), -EPROTO);
		free(exact);
	}
	for (uint32_t bad = 0; bad < 5; bad++) {
		struct call_token h = head;
		struct call_logprob entries[2] = {top[0], top[1]};
		uint32_t *length[] = {&h.piece_bytes, &h.text_bytes, &h.n_top, &entries[0].piece_bytes,
				      &entries[1].piece_bytes};
		*length[bad] = bad == 2 ? 21 : UINT32_MAX;
		memcpy(payload, &h, sizeof h);
		memcpy(payload + sizeof h, entries, sizeof entries);
		ck_assert_int_eq(record_read_token(payload, sizeof payload, &t), -EPROTO);
	}
}
END_TEST

START_TEST(other_records_with_wrong_values_are_refused)
{
	struct call_done head = {FINISH_STOP, 1, 2, 1};
	char payload[sizeof(struct call_failed) + 2] = {0};
	struct record_done d;
	memcpy(payload, &head, sizeof head);
	ck_assert_int_eq(record_read_done(payload, sizeof head + 1, &d), 0);
	ck_assert_int_eq(record_read_done(payload, sizeof head, &d), -EPROTO);
	ck_assert_int_eq(record_read_done(payload, sizeof head + 2, &d), -EPROTO);
	ck_assert_int_eq(record_read_done(payload, sizeof head - 1, &d), -EPROTO);
	for (uint32_t finish = 0; finish <= 4; finish += 4) {
		head.finish = finish;
		memcpy(payload, &head, sizeof head);
		ck_assert_int_eq(record_read_done(payload, sizeof head + 1, &d), -EPROTO);
	}
	struct call_failed failed = {.status = 400, .text_bytes = 2, .param = "prompt", .code = "x"};
	struct record_failed f;
	memcpy(payload, &failed, sizeof failed);
	ck_assert_int_eq(record_read_failed(payload, sizeof payload, &f), 0);
	ck_assert_str_eq(f.param, "prompt");
	ck_assert_int_eq(record_read_failed(payload, sizeof payload - 1, &f), -EPROTO);
	failed.status = 200;
	memcpy(payload, &failed, sizeof failed);
	ck_assert_int_eq(record_read_failed(payload, sizeof payload, &f), -EPROTO);
	failed.status = 400;
	memset(failed.code, 'x', sizeof failed.code); /* no end */
	memcpy(payload, &failed, sizeof failed);
	ck_assert_int_eq(record_read_failed(payload, sizeof payload, &f), -EPROTO);
	struct call_accepted accepted;
	ck_assert_int_eq(record_read_accepted(payload, sizeof accepted - 1, &accepted), -EPROTO);
	ck_assert_int_eq(record_read_accepted(payload, sizeof accepted, &accepted), 0);
	struct call_accepted wrong[] = {{1, N_TOOL_FORMATS, 0}, {1, 0, N_REASONINGS}};
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(record_read_accepted(&wrong[i], sizeof wrong[i], &accepted), -EPROTO);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("api_answer");
	TCase *tests = tcase_create("all");
	tcase_set_timeout(tests, 30);
	tcase_add_test(tests, strings_are_valid_json_whatever_the_bytes);
	tcase_add_test(tests, floats_read_back_as_written);
	tcase_add_test(tests, a_whole_completion);
	tcase_add_test(tests, echo_with_logprobs_has_a_row_for_every_token);
	tcase_add_test(tests, the_chosen_token_is_in_top_logprobs_even_with_none_asked);
	tcase_add_test(tests, prompt_ids_alone_make_no_rows);
	tcase_add_test(tests, a_whole_chat);
	tcase_add_test(tests, a_whole_chat_with_tool_calls);
	tcase_add_test(tests, only_calls_leave_no_content);
	tcase_add_test(tests, tool_calls_as_events);
	tcase_add_test(tests, a_chat_as_events);
	tcase_add_test(tests, a_completion_as_events_sends_each_row_once);
	tcase_add_test(tests, small_answers);
	tcase_add_test(tests, vectors_are_numbers_or_base64);
	tcase_add_test(tests, a_response_that_fails_says_so_in_its_last_event);
	tcase_add_test(tests, errors_are_openais);
	tcase_add_test(tests, token_records_with_wrong_lengths_are_refused);
	tcase_add_test(tests, other_records_with_wrong_values_are_refused);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
