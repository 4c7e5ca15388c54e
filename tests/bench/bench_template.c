/* How long rendering a chat template keeps a worker from its other calls: the longest slice, for a conversation of a
 * megabyte, for many short messages, and for templates that do as much as they can at once.
 *
 *   bench_template
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/engine/template.h"

enum { WORK = 8192, N_BYTES = 1 << 20 };

static const char chat[] =
	"{%- for m in messages -%}{{ '<|start|>' + m.role + '\\n' + m.content | trim + '<|end|>\\n' }}"
	"{%- endfor -%}";

static const struct {
	const char *name, *source;
	size_t message_bytes; /* of each of the messages, N_BYTES in all */
} cases[] = {
	{"one message", chat, N_BYTES},
	{"messages of 1 KiB", chat, 1024},
	{"messages of 16 bytes", chat, 16},
	{"all at once", "{{ messages }}", 16},
	{"as JSON", "{{ messages | tojson }}", 16},
	{"one as JSON", "{{ messages | tojson }}", N_BYTES},
	{"backwards", "{% for m in messages[::-1] %}{{ loop.index }}{% endfor %}", 16},
	{"loops", "{% for a in range(3000) %}{% for b in range(3000) %}{% endfor %}{% endfor %}", N_BYTES},
	{"a macro in a macro",
	 "{% macro a(n) %}{% if n %}{{ a(n - 1) }}{{ a(n - 1) }}{% endif %}{% endmacro %}{{ a(22) }}", N_BYTES},
	{"a macro in an expression",
	 "{% macro a() %}{% for i in range(90000) %}{% if i %}{% endif %}{% endfor %}{% endmacro %}{{ a() ~ '' }}",
	 N_BYTES},
	{"sorting", "{{ messages | sort(attribute='content') | length }}", 16},
	{"selecting", "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | join }}", 16},
	{"grouping", "{{ messages | groupby('content') | length }}", 16},
	{"finding what differs", "{{ messages | map(attribute='content') | unique | list | length }}", 16},
	{"looking for each", "{% for m in messages %}{% if m in messages[::-1] %}{% endif %}{% endfor %}", 64},
	{"replacing", "{{ messages[0].content | replace('a', 'bcdefgh') | length }}", N_BYTES},
	{"searching", "{{ messages[0].content.count(messages[0].content[:500000] ~ 'b') }}", N_BYTES},
	{"upper case", "{{ messages[0].content | upper | length }}", N_BYTES},
	{"title", "{{ messages[0].content | title | length }}", N_BYTES},
	{"splitting", "{{ messages[0].content.split('a') | length }}", N_BYTES},
	{"characters", "{{ messages[0].content | list | length }}", N_BYTES},
	{"repeating", "{{ ('x' * 4000000) | length }}", N_BYTES},
	{"a long list", "{{ (range(60000) | list * 60) | length }}", N_BYTES},
	{"trimming", "{% for i in range(60) %}{{ messages[0].content | trim | length }}{% endfor %}", N_BYTES},
	{"escaping", "{{ messages[0].content | e | length }}", N_BYTES},
	{"indenting", "{{ messages[0].content | indent | length }}", N_BYTES},
};

/* Of this thread alone: what others on the machine do is not what is asked here. */
static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static char *conversation(size_t message_bytes, size_t *n_bytes)
{
	size_t n_messages = N_BYTES / message_bytes, at = 1;
	char *json = malloc(N_BYTES + n_messages * 64 + 16);
	if (!json)
		abort();
	json[0] = '[';
	for (size_t i = 0; i < n_messages; i++) {
		at += (size_t)sprintf(json + at, "%s{\"role\": \"user\", \"content\": \"", i ? "," : "");
		for (size_t k = 0; k < message_bytes; k++)
			json[at++] = k < 8 && message_bytes < 1000 ? (char)('a' + (i >> (4 * k) & 15)) : "a bb "[k % 5];
		at += (size_t)sprintf(json + at, "\"}");
	}
	json[at++] = ']';
	*n_bytes = at;
	return json;
}

static void measure(const char *name, const char *source, size_t message_bytes)
{
	struct template *template;
	struct template_rendering *rendering;
	struct template_input input = {.bos_token = "", .eos_token = ""};
	struct err err = {""};
	char *json = conversation(message_bytes, &input.messages_bytes);
	uint64_t total = 0, longest = 0;
	unsigned n_slices = 0, slowest = 0;
	int rc;
	input.messages_json = json;
	if (template_compile(source, strlen(source), &template, &err) ||
	    template_rendering_begin(template, &input, NULL, &rendering))
		abort();
	do {
		uint64_t start = now_ns();
		rc = template_rendering_advance(rendering, WORK, &err);
		uint64_t took = now_ns() - start;
		total += took;
		n_slices++;
		slowest = took > longest ? n_slices : slowest;
		longest = took > longest ? took : longest;
	} while (rc > 0);
	uint64_t start = now_ns();
	template_rendering_end(rendering);
	uint64_t end_ns = now_ns() - start;
	printf("%-26s %8.2f ms, %5u slices, the longest %6.2f ms (%u), ending %5.2f ms %s\n", name, (double)total / 1e6,
	       n_slices, (double)longest / 1e6, slowest, (double)end_ns / 1e6, err.text);
	template_free(template);
	free(json);
}

int main(void)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		measure(cases[i].name, cases[i].source, cases[i].message_bytes);
	return 0;
}
