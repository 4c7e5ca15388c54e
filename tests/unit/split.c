/* A chat's text into its parts: every family's format, what only looks like a call, and the same parts at any cut. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/api/split.h"
#include "tests/unit/suite.h"

struct setting {
	enum call_tool_format format;
	enum call_reasoning reasoning;
	bool one_call;
};

struct run {
	struct api_split split;
	struct api_json content, reasoning;
};

static void run_begin(struct run *run, const struct setting *setting)
{
	memset(run, 0, sizeof *run);
	api_split_begin(&run->split, setting->format, setting->reasoning, setting->one_call, 5);
}

static void run_feed(struct run *run, const char *bytes, size_t n)
{
	struct api_split_parts parts = {&run->content, &run->reasoning};
	api_split_feed(&run->split, bytes, n, &parts);
}

/* "content|reasoning|name(arguments)..." */
static void run_end(struct run *run, struct api_json *out)
{
	struct api_split_parts parts = {&run->content, &run->reasoning};
	api_split_finish(&run->split, &parts);
	ck_assert(!run->split.failed && !run->content.failed && !run->reasoning.failed);
	api_json_reset(out);
	api_json_raw(out, run->content.bytes, run->content.n);
	api_json_raw(out, "|", 1);
	api_json_raw(out, run->reasoning.bytes, run->reasoning.n);
	api_json_raw(out, "|", 1);
	for (uint32_t i = 0; i < run->split.n_calls; i++) {
		const struct api_tool_call *call = &run->split.calls[i];
		ck_assert_uint_eq(strspn(call->id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"),
				  9);
		for (uint32_t j = 0; j < i; j++)
			ck_assert_str_ne(call->id, run->split.calls[j].id);
		api_json_raw(out, call->name.bytes, call->name.n);
		api_json_raw(out, "(", 1);
		api_json_raw(out, call->arguments.bytes, call->arguments.n);
		api_json_raw(out, ")", 1);
	}
	api_json_raw(out, "", 1);
	api_json_fini(&run->content);
	api_json_fini(&run->reasoning);
	api_split_fini(&run->split);
}

/* In pieces that end at the cuts [n_cuts], ascending. */
static void split_at(const struct setting *setting, const char *text, const size_t *cuts, size_t n_cuts,
		     struct api_json *out)
{
	struct run run;
	size_t at = 0, n = strlen(text);
	run_begin(&run, setting);
	for (size_t i = 0; i <= n_cuts; i++) {
		size_t end = i < n_cuts ? cuts[i] : n;
		run_feed(&run, text + at, end - at);
		at = end;
	}
	run_end(&run, out);
}

#define HERMES                                      \
	{                                           \
		TOOLS_HERMES, REASONING_NONE, false \
	}
#define LLAMA3                                      \
	{                                           \
		TOOLS_LLAMA3, REASONING_NONE, false \
	}
#define MISTRAL                                      \
	{                                            \
		TOOLS_MISTRAL, REASONING_NONE, false \
	}
#define THINK                                      \
	{                                          \
		TOOLS_NONE, REASONING_THINK, false \
	}
#define OPEN                                      \
	{                                         \
		TOOLS_NONE, REASONING_OPEN, false \
	}
#define BOTH                                         \
	{                                            \
		TOOLS_HERMES, REASONING_THINK, false \
	}

static const struct {
	struct setting setting;
	const char *text, *expected;
} cases[] = {
	{{TOOLS_NONE, REASONING_NONE, false}, " <think>a</think><tool_call> ", " <think>a</think><tool_call> ||"},
	/* hermes */
	{HERMES, "Hello.", "Hello.||"},
	{HERMES, " a < b \n", " a < b \n||"},
	{HERMES, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": [1, {\"y\": \"}\\\"]\"}]}}\n</tool_call>",
	 "||f({\"x\": [1, {\"y\": \"}\\\"]\"}]})"},
	{HERMES, "Let me see.\n\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n", "Let me see.||f({})"},
	{HERMES,
	 "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", "
	 "\"arguments\": "
	 "{\"s\":\"\xc3\xa9\"}}\n</tool_call>",
	 "||f({})g({\"s\":\"\xc3\xa9\"})"},
	{HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":{}}<tool_call>{\"name\":\"g\",\"arguments\":{}}",
	 "||f({})g({})"},
	{HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>Done.", "Done.||f({})"},
	{HERMES, "<tool_call>{\"arguments\":{\"a\":1},\"name\":\"f\"}</tool_call>", "||f({\"a\":1})"},
	{HERMES, "<tool_call>{\"id\":7,\"name\":\"f\",\"parameters\":{\"a\":1}}</tool_call>", "||f({\"a\":1})"},
	{HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}</tool_call>", "||f({\"a\":1})"},
	{HERMES, "<tool_call>{\"name\":\"f\"}</tool_call>", "||f({})"},
	{HERMES, "<tool_call>{\"name\":\"f\\u0067\",\"arguments\":{}}</tool_call>", "||fg({})"},
	{HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1},\"more\":{\"b\":2}}</tool_call>",
	 "||f({\"a\":1})"},
	/* none, or cut off */
	{HERMES, " <tool_call>nothing</tool_call>", " <tool_call>nothing</tool_call>||"},
	{HERMES, "<tool_call>{\"name\":5,\"arguments\":{}}</tool_call>",
	 "<tool_call>{\"name\":5,\"arguments\":{}}</tool_call>||"},
	{HERMES, "<tool_call>{\"arguments\":{}}</tool_call>", "<tool_call>{\"arguments\":{}}</tool_call>||"},
	{HERMES, "<tool_call>{broken}</tool_call>", "<tool_call>{broken}</tool_call>||"},
	{HERMES, "a <tool_call", "a <tool_call||"},
	{HERMES, "a <tool_call>{\"na", "a <tool_call>{\"na||"},
	{HERMES, "a <tool_call>{\"name\":\"f\",\"arguments\":{\"a\":", "a||f({\"a\":)"},
	{HERMES, "<tool_call><tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>", "<tool_call>||f({})"},
	{{TOOLS_HERMES, REASONING_NONE, true},
	 "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call><tool_call>{\"name\":\"g\",\"arguments\":{}}</"
	 "tool_call>",
	 "||f({})"},
	/* llama3 */
	{LLAMA3, "{\"name\": \"f\", \"parameters\": {\"a\": 1}}", "||f({\"a\": 1})"},
	{LLAMA3, " \n{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}", "||f({})g({})"},
	{LLAMA3, "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}", "||f({})"},
	{LLAMA3, "Yes: <|python_tag|>{\"name\": \"f\", \"parameters\": {}}", "Yes:||f({})"},
	{LLAMA3, "<|python_tag|>print(1)", "<|python_tag|>print(1)||"},
	{LLAMA3, "{\"a\": 1} is JSON", "{\"a\": 1} is JSON||"},
	{LLAMA3, "The object {\"name\": \"f\", \"parameters\": {}}",
	 "The object {\"name\": \"f\", \"parameters\": {}}||"},
	/* mistral */
	{MISTRAL, "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}}]", "||f({\"a\": 1})"},
	{MISTRAL, "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}}, {\"arguments\": {}, \"name\": \"g\"}]",
	 "||f({})g({})"},
	{MISTRAL, "[TOOL_CALLS] none", "[TOOL_CALLS] none||"},
	{MISTRAL, "[1, 2] and [TOOL", "[1, 2] and [TOOL||"},
	/* reasoning */
	{THINK, "<think>\nHm.\n</think>\n\nYes.", "Yes.|Hm.|"},
	{THINK, "\n<think>a</think>b", "b|a|"},
	{THINK, "<think>\n\n</think>\n\nYes.", "Yes.||"},
	{THINK, "Yes <think>a</think>", "Yes <think>a</think>||"},
	{THINK, "<think>a < b </thin", "|a < b </thin|"},
	{THINK, " <thin", " <thin||"},
	{THINK, "<think>a</think> <think>b</think>", "<think>b</think>|a|"},
	{THINK, "  ", "  ||"},
	{OPEN, "\nHm.\n</think>\nYes. ", "Yes. |Hm.|"},
	{OPEN, "Hm", "|Hm|"},
	{BOTH, "<think>I call f.</think>\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>",
	 "|I call f.|f({})"},
	{BOTH, "<think><tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call></think>No.",
	 "No.|<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>|"},
	{{TOOLS_LLAMA3, REASONING_OPEN, false}, "x</think>\n{\"name\":\"f\",\"parameters\":{}}", "|x|f({})"},
};

START_TEST(parts_at_every_cut)
{
	struct api_json out = {0};
	const char *text = cases[_i].text;
	size_t n = strlen(text), every[1024];
	split_at(&cases[_i].setting, text, NULL, 0, &out);
	ck_assert_str_eq(out.bytes, cases[_i].expected);
	for (size_t i = 0; i < n; i++)
		every[i] = i;
	split_at(&cases[_i].setting, text, every, n, &out);
	ck_assert_str_eq(out.bytes, cases[_i].expected);
	for (size_t i = 0; i <= n; i++)
		for (size_t j = i; j <= n; j++) {
			size_t cuts[2] = {i, j};
			split_at(&cases[_i].setting, text, cuts, 2, &out);
			ck_assert_str_eq(out.bytes, cases[_i].expected);
		}
	api_json_fini(&out);
}
END_TEST

static uint32_t state = 1;

static uint32_t pick(uint32_t n)
{
	state = state * 1664525u + 1013904223u;
	return (state >> 8) % n;
}

/* Texts of marks, halves of marks and JSON in any order. */
START_TEST(random_texts_have_the_same_parts_at_random_cuts)
{
	static const char *const words[] = {"<think>",
					    "</think>",
					    "<tool_call>",
					    "</tool_call>",
					    "<|python_tag|>",
					    "[TOOL_CALLS]",
					    "[",
					    "]",
					    "{",
					    "}",
					    ";",
					    ",",
					    " ",
					    "\n",
					    "a",
					    "\"",
					    "\\",
					    "<",
					    "</tool_",
					    "[TOOL",
					    "{\"name\": \"f\", \"arguments\": {\"a\": \"b\"}}",
					    "{\"name\":\"g\",\"parameters\":{}}",
					    "{\"arguments\":{},\"name\":\"h\"}",
					    "\"name\":",
					    "\"arguments\":",
					    "\xc3\xa9"};
	static char text[4096];
	struct api_json whole = {0}, pieces = {0};
	unsigned with_calls = 0;
	for (int round = 0; round < 20000; round++) {
		struct setting setting = {pick(N_TOOL_FORMATS), pick(N_REASONINGS), pick(4) == 0};
		size_t n = 0, cuts[128], n_cuts = 0;
		for (uint32_t i = 0, words_now = 1 + pick(12); i < words_now; i++)
			n += (size_t)sprintf(text + n, "%s", words[pick(sizeof words / sizeof *words)]);
		split_at(&setting, text, NULL, 0, &whole);
		for (size_t at = 0; (at += 1 + pick(9)) < n && n_cuts < 128;)
			cuts[n_cuts++] = at;
		split_at(&setting, text, cuts, n_cuts, &pieces);
		if (strcmp(whole.bytes, pieces.bytes) != 0)
			ck_abort_msg("format %d, reasoning %d: '%s' is '%s' in pieces, '%s' whole", setting.format,
				     setting.reasoning, text, pieces.bytes, whole.bytes);
		with_calls += whole.bytes[strlen(whole.bytes) - 1] == ')';
	}
	ck_assert_uint_gt(with_calls, 500);
	api_json_fini(&whole);
	api_json_fini(&pieces);
}
END_TEST

/* A name that never ends must not be read again with every piece. */
START_TEST(long_garbage_takes_linear_time)
{
	struct setting setting = HERMES;
	struct run run;
	struct api_json out = {0};
	run_begin(&run, &setting);
	run_feed(&run, "<tool_call>{\"name\":\"", 20);
	for (int i = 0; i < 2000000; i++)
		run_feed(&run, "x", 1);
	run_end(&run, &out);
	ck_assert_uint_eq(out.n, 20 + 2000000 + 3);
	api_json_fini(&out);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("split");
	TCase *tests = tcase_create("all");
	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(tests, parts_at_every_cut, 0, sizeof cases / sizeof *cases);
	tcase_add_test(tests, random_texts_have_the_same_parts_at_random_cuts);
	tcase_add_test(tests, long_garbage_takes_linear_time);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
