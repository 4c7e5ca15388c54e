/* The calls that requests become: flags and numbers, the bytes behind them, and their order. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "src/api/request.h"
#include "tests/unit/suite.h"

static void call_of(enum api_endpoint endpoint, const char *body, uint32_t index, struct call_begin *begin,
		    struct api_json *bytes)
{
	struct api_request request;
	struct api_error error;
	*bytes = (struct api_json){0};
	ck_assert_msg(api_request_read(&request, endpoint, body, strlen(body), &error) == 0, "%s", error.message);
	api_request_call(&request, index, begin, bytes);
	ck_assert(!bytes->failed);
	ck_assert_uint_eq(bytes->n, begin->prompt_bytes + begin->stop_bytes + 4ull * begin->forced_ids +
					    begin->variables_bytes + begin->constraint_bytes);
	api_request_fini(&request);
}

START_TEST(a_completion_becomes_a_call)
{
	struct call_begin begin;
	struct api_json bytes;
	call_of(API_COMPLETION,
		"{\"prompt\":[\"one\",\"t\\u0000o\"],\"stop\":[\"##\",\"\\n\"],\"forced_token_ids\":[7,258],\"seed\":-"
		"1,"
		"\"max_tokens\":5,\"temperature\":0,\"top_p\":0,\"min_p\":1,\"top_k\":40,\"logprobs\":3,\"echo\":true,"
		"\"ignore_eos\":true,\"return_token_ids\":true,\"presence_penalty\":0.5,\"frequency_penalty\":-0.5,"
		"\"repeat_penalty\":1.5}",
		1, &begin, &bytes);
	ck_assert_uint_eq(begin.kind, CALL_KIND_COMPLETE);
	ck_assert_uint_eq(begin.flags, CALL_FLAG_LOGPROBS | CALL_FLAG_ECHO | CALL_FLAG_IGNORE_END |
					       CALL_FLAG_ADD_SPECIAL | CALL_FLAG_PARSE_SPECIAL | CALL_FLAG_PROMPT_IDS);
	ck_assert_uint_eq(begin.seed, UINT64_MAX);
	ck_assert_uint_eq(begin.max_tokens, 5);
	ck_assert_uint_eq(begin.n_logprobs, 3);
	ck_assert(begin.temperature == 0 && begin.presence_penalty == 0.5f && begin.frequency_penalty == -0.5f);
	ck_assert(begin.repeat_penalty == 1.5f && begin.top_k == 40);
	ck_assert(begin.top_p > 0 && begin.top_p < 1e-30f && begin.min_p < 1 && begin.min_p > 0.999f);
	static const char expected[] = "t\0o##\0\n\0\7\0\0\0\2\1\0\0";
	ck_assert_uint_eq(begin.n_stops, 2);
	ck_assert_uint_eq(bytes.n, sizeof expected - 1);
	ck_assert_mem_eq(bytes.bytes, expected, bytes.n);
	api_json_fini(&bytes);
}
END_TEST

START_TEST(defaults_are_openais)
{
	struct call_begin begin, other;
	struct api_json bytes;
	call_of(API_COMPLETION, "{\"prompt\":[[5,6]]}", 0, &begin, &bytes);
	ck_assert_uint_eq(begin.kind, CALL_KIND_COMPLETE_IDS);
	ck_assert_uint_eq(begin.max_tokens, 16);
	ck_assert(begin.temperature == 1 && begin.top_p == 1 && begin.min_p == 0 && begin.repeat_penalty == 1);
	ck_assert_uint_eq(bytes.n, 8);
	api_json_fini(&bytes);
	call_of(API_COMPLETION, "{\"prompt\":[[5,6]]}", 0, &other, &bytes);
	ck_assert_uint_ne(begin.seed, other.seed); /* fresh each time */
	api_json_fini(&bytes);
	call_of(API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", 0, &begin, &bytes);
	ck_assert_uint_eq(begin.kind, CALL_KIND_CHAT);
	ck_assert_uint_eq(begin.max_tokens, UINT32_MAX);
	api_json_fini(&bytes);
	call_of(API_COMPLETION, "{\"prompt\":[\"a\",\"a\"],\"seed\":9}", 1, &begin, &bytes);
	ck_assert_uint_eq(begin.seed, 9); /* as a request of its own would have it */
	api_json_fini(&bytes);
	call_of(API_TOKENIZE, "{\"content\":\"a\"}", 0, &begin, &bytes);
	ck_assert_uint_eq(begin.flags, CALL_FLAG_PARSE_SPECIAL);
	api_json_fini(&bytes);
}
END_TEST

/* The first choice of each prompt is what a request for it alone gets; no two choices draw alike. */
START_TEST(choices_draw_with_seeds_of_their_own)
{
	static const char three[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"n\":3}";
	static const char seeded[] = "{\"prompt\":[\"a\",\"b\"],\"n\":3,\"seed\":9}";
	struct call_begin begin[6];
	struct api_json bytes;
	for (uint32_t i = 0; i < 6; i++) {
		call_of(API_COMPLETION, seeded, i, &begin[i], &bytes);
		ck_assert_uint_eq(bytes.n, 1);
		ck_assert_int_eq(bytes.bytes[0], i < 3 ? 'a' : 'b');
		api_json_fini(&bytes);
	}
	ck_assert_uint_eq(begin[0].seed, 9);
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_uint_eq(begin[i].seed, begin[i + 3].seed);
	ck_assert_uint_ne(begin[0].seed, begin[1].seed);
	ck_assert_uint_ne(begin[1].seed, begin[2].seed);
	ck_assert_uint_ne(begin[0].seed, begin[2].seed);
	struct api_request request;
	struct api_error error;
	ck_assert_int_eq(api_request_read(&request, API_CHAT, three, strlen(three), &error), 0);
	ck_assert_uint_eq(api_request_n_calls(&request), 3);
	for (uint32_t i = 0; i < 3; i++) {
		struct api_json none = {0};
		api_request_call(&request, i, &begin[i], &none);
		api_json_fini(&none);
	}
	ck_assert(begin[0].seed != begin[1].seed && begin[1].seed != begin[2].seed);
	api_request_fini(&request);
}
END_TEST

START_TEST(messages_reach_the_template)
{
	struct call_begin begin;
	struct api_json bytes;
	call_of(API_CHAT,
		"{\"messages\": [ {\"role\":\"user\", \"content\":[{\"type\":\"text\",\"text\":\"a\\\"\"},"
		"{\"text\":\"\\u00e9\\u0000\",\"type\":\"text\"}]}, "
		"{\"content\":null,\"role\":\"assistant\",\"x\":{\"y\":[1.5]}} ],"
		"\"add_generation_prompt\":false,\"chat_template_kwargs\":{\"think\": true}}",
		0, &begin, &bytes);
	static const char expected[] = "[{\"role\":\"user\",\"content\":\"a\\\"\xc3\xa9\\u0000\"},"
				       "{\"content\":null,\"role\":\"assistant\",\"x\":{\"y\":[1.5]}}]{\"think\":true}";
	ck_assert_uint_eq(bytes.n, sizeof expected - 1);
	ck_assert_mem_eq(bytes.bytes, expected, bytes.n);
	ck_assert_uint_eq(begin.variables_bytes, strlen("{\"think\":true}"));
	ck_assert(begin.flags & CALL_FLAG_NO_GENERATION_PROMPT);
	api_json_fini(&bytes);
}
END_TEST

START_TEST(tools_reach_the_template)
{
	struct call_begin begin;
	struct api_json bytes;
#define TOOL "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"x\":[1.5]}}"
	static const char body[] =
		"{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a1\",\"function\":{\"arguments\":"
		"\"{\\\"a\\\": 1}\",\"name\":\"f\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"a1\",\"content\":\"2\","
		"\"tool_calls\":[]}],\"chat_template_kwargs\":{\"k\":1},\"tools\":[" TOOL "]%s}";
	static const char messages[] =
		"[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a1\",\"type\":\"function\",\"function\":{\"name\":"
		"\"f\",\"arguments\":{\"a\":1}}}],\"content\":null},{\"role\":\"tool\",\"tool_call_id\":\"a1\","
		"\"content\":\"2\"}]";
	static const struct {
		const char *more, *variables;
		bool tools;
	} choices[] = {
		{"", "{\"tools\":[" TOOL "],\"k\":1}", true},
		{",\"tool_choice\":\"auto\"", "{\"tools\":[" TOOL "],\"k\":1}", true},
		{",\"tool_choice\":\"none\"", "{\"k\":1}", false},
	};
	for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
		char text[1024], expected[1024];
		snprintf(text, sizeof text, body, choices[i].more);
		snprintf(expected, sizeof expected, "%s%s", messages, choices[i].variables);
		call_of(API_CHAT, text, 0, &begin, &bytes);
		ck_assert_uint_eq(bytes.n, strlen(expected));
		ck_assert_mem_eq(bytes.bytes, expected, bytes.n);
		ck_assert_int_eq((begin.flags & CALL_FLAG_TOOLS) != 0, choices[i].tools);
		api_json_fini(&bytes);
	}
}
END_TEST

/* What the worker makes a grammar of; NULL: nothing. */
static void expect_calls(enum api_endpoint endpoint, const char *tools, const char *more, const char *source)
{
	struct call_begin begin;
	struct api_json bytes;
	char text[2048];
	size_t n = source ? strlen(source) : 0;
	snprintf(text, sizeof text, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[%s]%s}", tools,
		 more);
	call_of(endpoint, text, 0, &begin, &bytes);
	ck_assert_uint_eq(begin.constraint, n ? CALL_CONSTRAINT_CALLS : CALL_CONSTRAINT_NONE);
	ck_assert_uint_eq(begin.constraint_bytes, n);
	if (n) {
		ck_assert_str_eq(begin.constraint_field, "tools");
		ck_assert_mem_eq(bytes.bytes + bytes.n - n, source, n);
	}
	api_json_fini(&bytes);
}

START_TEST(tool_choices_constrain_the_answer)
{
#define F "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"x\":1}}}"
#define F_OUT "{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"x\":1}}"
#define G "{\"type\":\"function\",\"function\":{\"name\":\"g\",\"strict\":true}}"
#define G_OUT "{\"name\":\"g\",\"parameters\":{\"type\":\"object\",\"properties\":{}}}"
#define NAMED(name) "{\"type\":\"function\",\"function\":{\"name\":\"" name "\"}}"
	static const struct {
		const char *tools, *more, *source; /* NULL: none */
	} cases[] = {
		{F, "", NULL},
		{F, ",\"tool_choice\":\"auto\"", NULL},
		{F "," G, ",\"tool_choice\":\"none\"", NULL},
		{F "," G, ",\"tool_choice\":\"required\"",
		 "{\"required\":true,\"one\":false,\"functions\":[" F_OUT "," G_OUT "]}"},
		{F "," G, ",\"tool_choice\":\"required\",\"parallel_tool_calls\":false",
		 "{\"required\":true,\"one\":true,\"functions\":[" F_OUT "," G_OUT "]}"},
		{F "," G, ",\"tool_choice\":" NAMED("g"), "{\"required\":true,\"one\":true,\"functions\":[" G_OUT "]}"},
		{F "," G, "", /* strict: what is not is held to nothing but an object */
		 "{\"required\":false,\"one\":false,\"functions\":[{\"name\":\"f\",\"parameters\":{\"type\":"
		 "\"object\"}}," G_OUT "]}"},
		{F "," G,
		 ",\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"required\",\"tools\":"
		 "[" NAMED("f") "]}}",
		 "{\"required\":true,\"one\":false,\"functions\":[" F_OUT "]}"},
		{F "," G,
		 ",\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"auto\",\"tools\":[" NAMED(
			 "g") "]}}",
		 "{\"required\":false,\"one\":false,\"functions\":[" G_OUT "]}"},
		{"{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}",
		 ",\"tool_choice\":\"required\"",
		 "{\"required\":true,\"one\":false,\"functions\":[{\"name\":\"f\",\"parameters\":{\"type\":"
		 "\"object\"}}]}"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		expect_calls(API_CHAT, cases[i].tools, cases[i].more, cases[i].source);
		expect_calls(API_TEMPLATE, cases[i].tools, cases[i].more, NULL); /* has no answer to constrain */
	}
}
END_TEST

/* Calls that need not be made leave the rest of the answer to its schema. */
START_TEST(an_answer_is_calls_or_what_was_asked_for)
{
	static const struct {
		const char *tools, *more, *source;
	} cases[] = {
		{F, ",\"response_format\":{\"type\":\"json_object\"}",
		 "{\"required\":false,\"one\":false,\"functions\":[{\"name\":\"f\",\"parameters\":{\"type\":\"object\"}"
		 "}],"
		 "\"answer\":{\"type\":\"object\"}}"},
		{F, ",\"parallel_tool_calls\":false,\"guided_json\":\"{\\\"type\\\": \\\"integer\\\"}\"",
		 "{\"required\":false,\"one\":true,\"functions\":[{\"name\":\"f\",\"parameters\":{\"type\":\"object\"}}"
		 "],"
		 "\"answer\":{\"type\":\"integer\"}}"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		expect_calls(API_CHAT, cases[i].tools, cases[i].more, cases[i].source);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("api_call");
	TCase *tests = tcase_create("all");
	tcase_add_test(tests, a_completion_becomes_a_call);
	tcase_add_test(tests, defaults_are_openais);
	tcase_add_test(tests, choices_draw_with_seeds_of_their_own);
	tcase_add_test(tests, messages_reach_the_template);
	tcase_add_test(tests, tools_reach_the_template);
	tcase_add_test(tests, tool_choices_constrain_the_answer);
	tcase_add_test(tests, an_answer_is_calls_or_what_was_asked_for);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
