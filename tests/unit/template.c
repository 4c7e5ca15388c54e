#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/template.h"
#include "tests/unit/suite.h"

static struct err err;

/* Renders with no messages; the text is free()d by the caller, NULL with `err` and *rc set on failure. */
static char *render_limited(const char *source, const char *variables, const struct template_limits *limits, int *rc)
{
	struct template *template = NULL;
	struct template_input input = {
		.messages_json = "[]",
		.messages_bytes = 2,
		.variables_json = variables,
		.variables_bytes = variables ? strlen(variables) : 0,
		.bos_token = "<s>",
		.eos_token = "",
	};
	char *text = NULL;
	size_t n_bytes = 0;
	err.text[0] = 0;
	*rc = template_compile(source, strlen(source), &template, &err);
	if (!*rc)
		*rc = template_render(template, &input, limits, &text, &n_bytes, &err);
	template_free(template);
	ck_assert(*rc || strlen(text) == n_bytes);
	ck_assert(!*rc || err.text[0]);
	return *rc ? NULL : text;
}

static void renders(const char *source, const char *variables, const char *expected)
{
	int rc;
	char *text = render_limited(source, variables, NULL, &rc);
	ck_assert_msg(rc == 0, "%s: %s", source, err.text);
	ck_assert_str_eq(text, expected);
	free(text);
}

static void fails(const char *source, int code, const char *words)
{
	int rc;
	char *text = render_limited(source, NULL, NULL, &rc);
	ck_assert_msg(rc == code, "%s: %d %s", source, rc, text ? text : err.text);
	ck_assert_msg(strstr(err.text, words) != NULL, "%s: %s", source, err.text);
}

static void exceeds(const char *source, struct template_limits limits, const char *words)
{
	int rc;
	char *text = render_limited(source, NULL, &limits, &rc);
	ck_assert_msg(rc == -E2BIG, "%s: %d %s", source, rc, text ? text : err.text);
	ck_assert_msg(strstr(err.text, words) != NULL, "%s: %s", source, err.text);
}

START_TEST(messages_tokens_and_the_generation_prompt_are_variables)
{
	const char *source =
		"{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m['content'] }}{{ eos_token }}{% endfor %}"
		"{% if add_generation_prompt %}[assistant]{% endif %}";
	struct template *template;
	struct template_input input = {
		.messages_json =
			"[{\"role\":\"user\",\"content\":\"h\\u00e9\"},{\"role\":\"system\",\"content\":null}]",
		.bos_token = "<s>",
		.eos_token = "</s>",
		.add_generation_prompt = true,
	};
	input.messages_bytes = strlen(input.messages_json);
	char *text;
	size_t n_bytes;
	ck_assert_int_eq(template_compile(source, strlen(source), &template, &err), 0);
	for (int i = 0; i < 2; i++) { /* a template is rendered many times */
		ck_assert_int_eq(template_render(template, &input, NULL, &text, &n_bytes, &err), 0);
		ck_assert_str_eq(text, "<s>[user]hé</s>[system]None</s>[assistant]");
		ck_assert_uint_eq(n_bytes, strlen(text));
		free(text);
	}
	template_free(template);
}
END_TEST

START_TEST(variables_win_over_globals_and_over_messages)
{
	renders("{{ range }}{{ tools[0].n }}", "{\"range\": 5, \"tools\": [{\"n\": 1.5}]}", "51.5");
	renders("{{ messages }}", "{\"messages\": [1]}", "[1]");
}
END_TEST

START_TEST(an_empty_template_renders_to_an_empty_string)
{
	renders("", NULL, "");
	renders("\n", NULL, "");
	renders("{% set a = 1 %}", NULL, "");
	renders("{{ ''|upper }}{{ '' ~ '' }}", NULL, "");
}
END_TEST

START_TEST(a_name_set_in_a_loop_is_undefined_before_it)
{
	renders("{% for a in [1] %}{{ x }}{% endfor %}{% set x = 2 %}", "{\"x\": 1}", "");
	renders("{{ x }}{% for a in [1] %}{{ x }}{% endfor %}{% set x = 2 %}{{ x }}", "{\"x\": 1}", "112");
	renders("{% set x = 1 %}{% for a in [1, 2] %}{{ x }}{% set x = x + a %}{% endfor %}{{ x }}", NULL, "111");
}
END_TEST

START_TEST(lazy_filters_run_once_and_only_when_read)
{
	renders("{% set g = [1, 2]|map('string') %}{{ g|join }}{{ g|join }}.", NULL, "12.");
	renders("{% set g = [1]|map('nosuchfilter') %}unread", NULL, "unread");
	fails("{{ [1]|map('nosuchfilter')|list }}", -EINVAL, "no filter named 'nosuchfilter'");
	renders("{% if []|select %}a generator is true{% endif %}", NULL, "a generator is true");
}
END_TEST

START_TEST(raise_exception_gives_the_templates_own_words)
{
	int rc;
	ck_assert_ptr_null(render_limited("a\n{{ raise_exception('Only user and assistant') }}", NULL, NULL, &rc));
	ck_assert_int_eq(rc, -EINVAL);
	ck_assert_str_eq(err.text, "Only user and assistant");
}
END_TEST

START_TEST(errors_name_the_line)
{
	fails("a\n{{ x.y }}", -EINVAL, "line 2: 'x' is undefined");
	fails("a\n\n{% if %}", -EINVAL, "line 3: expected an expression, got %}");
	fails("{% if x %}\n", -EINVAL, "line 1 needs {% elif %}");
	fails("{{ 'open }}", -EINVAL, "line 1: the string");
	fails("{# open", -EINVAL, "line 1: the comment");
	fails("{{ 1 + [] }}", -EINVAL, "+ does not work between 'int' and 'list'");
	fails("\xff", -EINVAL, "not valid UTF-8");
	fails("{{ '\\ud800' }}", -EINVAL, "not a character");
}
END_TEST

START_TEST(what_is_not_supported_is_named)
{
	fails("{% for a in b recursive %}{% endfor %}", -ENOTSUP, "recursive loops");
	fails("{% include 'x' %}", -ENOTSUP, "'include'");
	fails("{{ 'a'|urlize }}", -ENOTSUP, "'urlize'");
	fails("{{ 'a'.encode() }}", -ENOTSUP, "'encode'");
	fails("{{ range }}", -ENOTSUP, "printing");
	renders("{% if false %}{{ 'a'|urlize }}{% endif %}ok", NULL, "ok");
}
END_TEST

/* The time of a request is what it says, and never the clock's. */
START_TEST(the_date_is_a_variable)
{
	const char *day = "{\"now\": \"2026-11-30\"}", *time = "{\"now\": \"2024-02-29T09:05:07\"}";
	static const char *const wrong[] = {"5",
					    "\"\"",
					    "\"2026\"",
					    "\"2026-02-30\"",
					    "\"2026-13-01\"",
					    "\"2026-1-1\"",
					    "\"2026-11-30T\"",
					    "\"2026-11-30T24:00\"",
					    "null",
					    "\"2026-11-30T10:00:00Z\""};
	renders("{{ strftime_now('%d %B %Y') }}", day, "30 November 2026");
	renders("{{ strftime_now(format='%a %-d %b, %j %H:%M:%S.%f%z%% é') }}", time,
		"Thu 29 Feb, 060 09:05:07.000000% é");
	renders("{% if strftime_now is defined %}{{ strftime_now('%Y') }}{% else %}1999{% endif %}", NULL, "1999");
	renders("{% macro m() %}{{ strftime_now('%Y') }}{% endmacro %}{{ m() }}{{ now }}", day, "20262026-11-30");
	fails("a\n{{ strftime_now('%Y') }}", -EINVAL,
	      "line 2: 'strftime_now' is undefined, because the request does not");
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		char variables[64];
		int rc;
		snprintf(variables, sizeof variables, "{\"now\": %s}", wrong[i]);
		ck_assert_ptr_null(render_limited("{{ strftime_now('%Y') }}", variables, NULL, &rc));
		ck_assert_int_eq(rc, -EINVAL);
		ck_assert_ptr_nonnull(strstr(err.text, "'now' must be a date"));
	}
	int rc;
	ck_assert_ptr_null(render_limited("{{ strftime_now('%s') }}", day, NULL, &rc));
	ck_assert_int_eq(rc, -ENOTSUP);
}
END_TEST

START_TEST(steps_are_limited)
{
	const char *loops = "{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}";
	exceeds(loops, (struct template_limits){.steps = 10000}, "10000 steps");
	exceeds("{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% "
		"endfor %}"
		"{% endfor %}",
		(struct template_limits){0}, "steps");
	exceeds("{{ range(100000)|select('in', range(100000)|list)|list|length }}", (struct template_limits){0},
		"steps");
}
END_TEST

/* Rendering cannot stop within a statement, so one has a limit of its own; loops and macros that are printed are many.
 */
START_TEST(steps_of_one_statement_are_limited)
{
	exceeds("{{ range(90000)|list|length }}", (struct template_limits){0}, "one statement");
	exceeds("{% macro m() %}{% for i in range(90000) %}{% endfor %}{% endmacro %}{{ m() ~ '' }}",
		(struct template_limits){0}, "one statement");
	renders("{% macro m() %}{% for i in range(90000) %}{% endfor %}{% endmacro %}{{ m() }}", NULL, "");
	renders("{% for i in range(90000) %}{% endfor %}{{ range(30000)|list|length }}", NULL, "30000");
}
END_TEST

/* The text or error of a rendering in slices of `work` steps, and how many there were. Returns owned. */
static char *render_in_slices(const struct template *template, const struct template_input *input, uint64_t work,
			      int *rc, unsigned *n_slices)
{
	struct template_rendering *rendering;
	char *text = NULL;
	size_t n_bytes;
	ck_assert_int_eq(template_rendering_begin(template, input, NULL, &rendering), 0);
	for (*n_slices = 1; (*rc = template_rendering_advance(rendering, work, &err)) > 0; ++*n_slices)
		;
	if (!*rc)
		text = template_rendering_take(rendering, &n_bytes);
	template_rendering_end(rendering);
	return text;
}

/* Everything that a list of statements under way may have to come back to. */
START_TEST(slices_cannot_be_seen)
{
	static const char *const sources[] = {
		"{% for m in messages %}{% if loop.last %}{% break %}{% endif %}{{ m.a }}{% else %}none{% endfor %}",
		"{% for a in [1, 2, 3] %}{% for b in [1, 2] if b != a %}{% if a == 3 %}{% continue %}{% endif %}"
		"{{ a }}{{ b }},{% endfor %}{% else %}x{% endfor %}",
		"{% for a in [1, 2] %}{% set x %}[{% if a == 2 %}{% continue %}{% endif %}{{ a }}]{% endset %}{{ x }}"
		"{% endfor %}",
		"{% set x | upper %}a{% for i in range(3) %}{{ i }}b{% endfor %}{% endset %}{{ x }}",
		"{% filter upper | replace('A', 'e') %}{% for i in 'abc' %}{{ i }}{% endfor %}{% endfilter %}",
		"{% macro m(n, t='z') %}{% if n %}<{{ m(n - 1) }}{{ t }}{{ caller() if caller else '' }}>{% endif %}"
		"{% endmacro %}{{ m(3) }}{{ m(2, t=m(1)) ~ m(1) }}{{ m(1)|upper }}{% call m(1, 'q') %}c{{ m(1) }}"
		"{% endcall %}",
		"{% with a = 1, b = messages %}{% for c in b %}{{ c.a + a }}{% endfor %}{% endwith %}{{ a }}",
		"{% generation %}{% for m in messages %}{{ m.a }}{% endfor %}{% endgeneration %}.",
		"{% set n = namespace(t='') %}{% for m in messages %}{% set n.t = n.t ~ m.a %}{% endfor %}{{ n.t }}",
		"{% for m in messages %}{{ m.a }}{% if m.a == 2 %}{{ raise_exception('two') }}{% endif %}{% endfor %}",
		"{{ tools[0]['x'] }}{{ tools[1][0].y }}{{ tools }}",
	};
	struct template_input input = {
		.messages_json = "[{\"a\": 1}, {\"a\": 2}, {\"a\": [3, {}]}]",
		.variables_json = "{\"tools\": [{\"x\": null}, [{\"y\": [[], true]}]], \"a\": \"out\"}",
	};
	input.messages_bytes = strlen(input.messages_json);
	input.variables_bytes = strlen(input.variables_json);
	for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
		struct template *template;
		unsigned n_slices, n_whole;
		int rc, rc_whole;
		ck_assert_msg(!template_compile(sources[i], strlen(sources[i]), &template, &err), "%s", err.text);
		char *whole = render_in_slices(template, &input, UINT64_MAX, &rc_whole, &n_whole);
		struct err whole_err = err;
		ck_assert_uint_eq(n_whole, 1);
		for (uint64_t work = 1; work < 40; work++) {
			char *text = render_in_slices(template, &input, work, &rc, &n_slices);
			ck_assert_int_eq(rc, rc_whole);
			ck_assert_msg(rc ? !strcmp(err.text, whole_err.text) : !strcmp(text, whole), "%s: %s",
				      sources[i], rc ? err.text : text);
			ck_assert(n_slices > 20 || work > 1);
			free(text);
		}
		free(whole);
		template_free(template);
	}
}
END_TEST

START_TEST(a_rendering_may_end_at_any_time)
{
	const char *source = "{% for m in messages %}{% set x %}{{ m }}{% endset %}{{ x }}{% endfor %}";
	struct template_input input = {.messages_json = "[1, [2], 3]", .messages_bytes = 11};
	struct template *template;
	ck_assert_int_eq(template_compile(source, strlen(source), &template, &err), 0);
	for (int n_slices = 0; n_slices < 20; n_slices++) {
		struct template_rendering *rendering;
		ck_assert_int_eq(template_rendering_begin(template, &input, NULL, &rendering), 0);
		for (int i = 0; i < n_slices && template_rendering_advance(rendering, 1, &err) > 0; i++)
			;
		template_rendering_end(rendering);
	}
	template_rendering_end(NULL);
	template_free(template);
}
END_TEST

START_TEST(nesting_is_limited)
{
	exceeds("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", (struct template_limits){0}, "200 deep");
	exceeds("{% set n = namespace(a=[]) %}{% for i in range(500) %}{% set n.a = [n.a] %}{% endfor %}{{ n.a }}",
		(struct template_limits){0}, "200 deep");
	exceeds("{% set n = namespace(a=[]) %}{% for i in range(500) %}{% set n.a = n.a|select %}{% endfor %}{{ "
		"n.a|list }}",
		(struct template_limits){0}, "200 deep");
}
END_TEST

START_TEST(nesting_in_the_source_is_limited)
{
	enum { N = 100000 };
	static const char *const openings[] = {"{{ (", "{{ [", "{{ -", "{{ not ", "{% if 1 %}", "{% for a in b %}",
					       "{{ a("};
	for (size_t i = 0; i < sizeof openings / sizeof *openings; i++) {
		const char *opening = openings[i], *inside = strncmp(opening, "{{ ", 3) == 0 ? opening + 3 : opening;
		char *source = calloc(1, N + 32), *to = stpcpy(source, opening);
		while (to - source < N)
			to = stpcpy(to, inside);
		struct template *template = NULL;
		ck_assert_int_eq(template_compile(source, (size_t)(to - source), &template, &err), -E2BIG);
		ck_assert_ptr_null(template);
		free(source);
	}
}
END_TEST

START_TEST(long_chains_do_not_nest)
{
	enum { N = 20000 };
	char *source = calloc(1, 8 * N), *to = stpcpy(source, "{{ 0");
	for (int i = 0; i < N; i++)
		to = stpcpy(to, " + 1");
	strcpy(to, " }}");
	renders(source, NULL, "20000");
	free(source);
}
END_TEST

START_TEST(output_and_memory_are_limited)
{
	exceeds("{% for a in range(1000) %}xxxxxxxxxx{% endfor %}", (struct template_limits){.output_bytes = 5000},
		"5000 bytes");
	exceeds("{{ 'x' * 1000000000000 }}", (struct template_limits){0}, "memory");
	exceeds("{{ [1] * 1000000000000 }}", (struct template_limits){0}, "steps");
	exceeds("{{ [1] * 60000 }}", (struct template_limits){.memory_bytes = 500000}, "memory");
	exceeds("{{ '%1000000d' % 1 }}{{ 'x'.center(100000000) }}", (struct template_limits){0}, "output");
	exceeds("{{ 'x'.ljust(9000000000000000000) }}", (struct template_limits){0}, "output");
	exceeds("{{ range(1000)|list }}", (struct template_limits){.memory_bytes = 1000}, "1000 bytes of memory");
}
END_TEST

START_TEST(adding_to_a_text_or_list_in_a_loop_stays_linear)
{
	/* Quadratic copying would need 100 MB and more. */
	renders("{% set n = namespace(t='', l=[]) %}{% for i in range(5000) %}{% set n.t = n.t + 'abcdefgh' %}"
		"{% set n.l = n.l + [i] %}{% endfor %}{{ n.t|length }} {{ n.l|length }}",
		NULL, "40000 5000");
	renders("{% set a = 'x' + 'y' %}{% set b = a + '1' %}{% set c = a + '2' %}{{ a }}{{ b }}{{ c }}", NULL,
		"xyxy1xy2");
}
END_TEST

START_TEST(json_input_is_checked)
{
	struct template *template;
	char *text;
	size_t n_bytes;
	static const struct {
		const char *messages, *variables;
		int code;
	} inputs[] = {
		{"[", NULL, -EINVAL},
		{"{}", NULL, -EINVAL},
		{"[]", "[]", -EINVAL},
		{"[]", "{\"a\":", -EINVAL},
		{"[18446744073709551615]", NULL, -EINVAL},
		{"[123456789012345678901234567890]", NULL, -EINVAL},
		{"[9223372036854775807, -9223372036854775808, 1e400, 0.1]", NULL, 0},
	};
	ck_assert_int_eq(template_compile("{{ messages }}", 14, &template, &err), 0);
	for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
		struct template_input input = {.messages_json = inputs[i].messages,
					       .messages_bytes = strlen(inputs[i].messages),
					       .variables_json = inputs[i].variables,
					       .variables_bytes =
						       inputs[i].variables ? strlen(inputs[i].variables) : 0};
		ck_assert_int_eq(template_render(template, &input, NULL, &text, &n_bytes, &err), inputs[i].code);
		if (inputs[i].code)
			continue;
		ck_assert_str_eq(text, "[9223372036854775807, -9223372036854775808, inf, 0.1]");
		free(text);
	}
	template_free(template);
}
END_TEST

START_TEST(deep_json_input_is_refused)
{
	enum { N = 100000 };
	char *json = malloc(2 * N + 1);
	memset(json, '[', N);
	memset(json + N, ']', N);
	struct template *template;
	struct template_input input = {.messages_json = json, .messages_bytes = 2 * N};
	char *text;
	size_t n_bytes;
	ck_assert_int_eq(template_compile("x", 1, &template, &err), 0);
	ck_assert_int_eq(template_render(template, &input, NULL, &text, &n_bytes, &err), -E2BIG);
	template_free(template);
	free(json);
}
END_TEST

START_TEST(a_hostile_scope_is_refused_not_chewed_on)
{
	enum { N = 20000 };
	char *source = calloc(1, 64 * N), *to = source;
	for (int i = 0; i < N; i++)
		to += sprintf(to, "{%% if a %%}{%% set v%d = 1 %%}{%% endif %%}", i);
	struct template *template = NULL;
	ck_assert_int_eq(template_compile(source, (size_t)(to - source), &template, &err), -E2BIG);
	free(source);
}
END_TEST

int main(void)
{
	TCase *language = tcase_create("language");
	tcase_add_test(language, messages_tokens_and_the_generation_prompt_are_variables);
	tcase_add_test(language, variables_win_over_globals_and_over_messages);
	tcase_add_test(language, an_empty_template_renders_to_an_empty_string);
	tcase_add_test(language, a_name_set_in_a_loop_is_undefined_before_it);
	tcase_add_test(language, lazy_filters_run_once_and_only_when_read);
	TCase *errors = tcase_create("errors");
	tcase_add_test(errors, raise_exception_gives_the_templates_own_words);
	tcase_add_test(errors, errors_name_the_line);
	tcase_add_test(errors, what_is_not_supported_is_named);
	tcase_add_test(language, the_date_is_a_variable);
	TCase *limits = tcase_create("limits");
	tcase_set_timeout(limits, 60);
	tcase_add_test(limits, steps_are_limited);
	tcase_add_test(limits, steps_of_one_statement_are_limited);
	tcase_add_test(limits, slices_cannot_be_seen);
	tcase_add_test(limits, a_rendering_may_end_at_any_time);
	tcase_add_test(limits, nesting_is_limited);
	tcase_add_test(limits, nesting_in_the_source_is_limited);
	tcase_add_test(limits, long_chains_do_not_nest);
	tcase_add_test(limits, output_and_memory_are_limited);
	tcase_add_test(limits, adding_to_a_text_or_list_in_a_loop_stays_linear);
	tcase_add_test(limits, json_input_is_checked);
	tcase_add_test(limits, deep_json_input_is_refused);
	tcase_add_test(limits, a_hostile_scope_is_refused_not_chewed_on);
	Suite *suite = suite_create("template");
	suite_add_tcase(suite, language);
	suite_add_tcase(suite, errors);
	suite_add_tcase(suite, limits);
	return suite_run(suite);
}
