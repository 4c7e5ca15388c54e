/* What chat templates tell of tool calls and reasoning. The templates are cut down to the words that decide. */
#include <check.h>
#include <string.h>

#include "src/worker/worker_dialect.h"
#include "tests/unit/suite.h"
#include "tests/unit/tiny_model.h"

static const struct {
	const char *template;
	enum call_tool_format tools;
	enum call_reasoning reasoning;
} cases[] = {
	{"", TOOLS_NONE, REASONING_NONE},
	{"{{ '<|im_start|>' + message['role'] }}", TOOLS_NONE, REASONING_NONE},
	{"return a json object within <tool_call></tool_call> XML tags", TOOLS_HERMES, REASONING_NONE},
	{"<tool_call>{{ tool_call.name }} ... content.split('</think>')", TOOLS_HERMES, REASONING_THINK},
	{"<tool_call>\n<function=' + tool_call.name + '>\n", TOOLS_NONE, REASONING_NONE},
	{"<tool_call>{{ name }}<arg_key>", TOOLS_NONE, REASONING_NONE},
	{"{{- \"<|python_tag|>\" + tool_call.name }}", TOOLS_LLAMA3, REASONING_NONE},
	{"<|start_header_id|>{{- '\"parameters\": ' }}", TOOLS_LLAMA3, REASONING_NONE},
	{"<|start_header_id|>{{ role }}<|end_header_id|>", TOOLS_NONE, REASONING_NONE},
	{"{{ '[TOOL_CALLS] [' }}", TOOLS_MISTRAL, REASONING_NONE},
	{"[TOOL_CALLS]{{ name }}[ARGS]{{ arguments }}", TOOLS_NONE, REASONING_NONE},
	{"<start_of_turn>model", TOOLS_NONE, REASONING_NONE},
	{"'<｜Assistant｜><think>\\n'", TOOLS_NONE, REASONING_THINK},
};

static struct tiny_model *tiny;

static struct dialect of(const char *template, enum call_tool_format tools, enum call_reasoning reasoning)
{
	return dialect_of(template, strlen(template), tools, reasoning, tiny->tokenizer);
}

START_TEST(templates_tell)
{
	struct dialect dialect = of(cases[_i].template, TOOLS_AUTO, REASONING_AUTO);
	ck_assert_int_eq(dialect.tools, cases[_i].tools);
	ck_assert_int_eq(dialect.reasoning, cases[_i].reasoning);
	ck_assert(!dialect.calls.mark_is_token); /* this vocabulary has none of them */
	dialect = of(cases[_i].template, TOOLS_MISTRAL, REASONING_NONE);
	ck_assert_int_eq(dialect.tools, TOOLS_MISTRAL);
	ck_assert_int_eq(dialect.reasoning, REASONING_NONE);
}
END_TEST

START_TEST(prompts_may_open_the_reasoning)
{
	static const struct {
		const char *prompt;
		enum call_reasoning think, none;
	} prompts[] = {
		{"", REASONING_THINK, REASONING_NONE},
		{"think>", REASONING_THINK, REASONING_NONE},
		{"<think>", REASONING_OPEN, REASONING_NONE},
		{"<|im_start|>assistant\n<think>\n", REASONING_OPEN, REASONING_NONE},
		{"<|im_start|>assistant\n<think>\n\n</think>\n\n", REASONING_THINK, REASONING_NONE},
		{"<think> he said", REASONING_THINK, REASONING_NONE},
	};
	struct dialect think = of("", TOOLS_AUTO, REASONING_THINK), none = of("", TOOLS_AUTO, REASONING_NONE);
	for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++) {
		size_t n = strlen(prompts[i].prompt);
		ck_assert_int_eq(dialect_reasoning(&think, prompts[i].prompt, n), prompts[i].think);
		ck_assert_int_eq(dialect_reasoning(&none, prompts[i].prompt, n), prompts[i].none);
	}
}
END_TEST

START_TEST(reasoning_comes_before_what_is_constrained)
{
	static const struct {
		enum call_reasoning reasoning;
		bool begins, ends;
	} leads[] = {
		{REASONING_AUTO, false, false}, /* a completion */
		{REASONING_NONE, false, false},
		{REASONING_THINK, true, true},
		{REASONING_OPEN, false, true},
	};
	struct dialect dialect = of("", TOOLS_HERMES, REASONING_THINK);
	for (size_t i = 0; i < sizeof leads / sizeof *leads; i++) {
		struct constraint_source source = {.kind = CONSTRAINT_CALLS};
		dialect_tell(&dialect, leads[i].reasoning, &source);
		ck_assert_int_eq(source.reasoning_begin != NULL, leads[i].begins);
		ck_assert_int_eq(source.reasoning_end != NULL, leads[i].ends);
		ck_assert_str_eq(source.calls->mark, "<tool_call>");
		ck_assert(!source.calls->mark_is_token);
	}
}
END_TEST

static void set_up(void)
{
	tiny = tiny_model_new(PACK_Q8_0, 9);
}

static void tear_down(void)
{
	tiny_model_free(tiny);
}

int main(void)
{
	Suite *suite = suite_create("worker_dialect");
	TCase *tests = tcase_create("all");
	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_loop_test(tests, templates_tell, 0, sizeof cases / sizeof *cases);
	tcase_add_test(tests, prompts_may_open_the_reasoning);
	tcase_add_test(tests, reasoning_comes_before_what_is_constrained);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
