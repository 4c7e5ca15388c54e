/* Renders templates for the differential tests. One JSON object a line on standard input:
 *
 *   {"template": "…", "messages": […], "variables": {…}, "bos_token": "…", "eos_token": "…",
 *    "add_generation_prompt": true, "limits": {"steps": 0, "depth": 0, "output_bytes": 0, "memory_bytes": 0}}
 *
 * All members but "template" may be left out. One line out for each: {"text": "…"} or {"stage": "compile" or "render",
 * "errno": 22, "error": "…"}. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "src/engine/template.h"

static const char *string_or(yyjson_val *request, const char *name, const char *otherwise)
{
	const char *string = yyjson_get_str(yyjson_obj_get(request, name));
	return string ? string : otherwise;
}

static struct template_limits limits_of(yyjson_val *request)
{
	yyjson_val *limits = yyjson_obj_get(request, "limits");
	return (struct template_limits){
		.steps = yyjson_get_uint(yyjson_obj_get(limits, "steps")),
		.depth = (uint32_t)yyjson_get_uint(yyjson_obj_get(limits, "depth")),
		.output_bytes = yyjson_get_uint(yyjson_obj_get(limits, "output_bytes")),
		.memory_bytes = yyjson_get_uint(yyjson_obj_get(limits, "memory_bytes")),
	};
}

static void print_line(yyjson_mut_doc *reply)
{
	size_t n_bytes;
	char *line = yyjson_mut_write(reply, YYJSON_WRITE_ALLOW_INVALID_UNICODE, &n_bytes);
	if (!line)
		abort();
	fwrite(line, 1, n_bytes, stdout);
	putchar('\n');
	fflush(stdout);
	free(line);
}

static void reply_error(const char *stage, int rc, const struct err *err)
{
	yyjson_mut_doc *reply = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(reply);
	yyjson_mut_doc_set_root(reply, root);
	yyjson_mut_obj_add_str(reply, root, "stage", stage);
	yyjson_mut_obj_add_int(reply, root, "errno", -rc);
	yyjson_mut_obj_add_str(reply, root, "error", err->text);
	print_line(reply);
	yyjson_mut_doc_free(reply);
}

static void reply_text(const char *text, size_t n_bytes)
{
	yyjson_mut_doc *reply = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(reply);
	yyjson_mut_doc_set_root(reply, root);
	yyjson_mut_obj_add_strn(reply, root, "text", text, n_bytes);
	print_line(reply);
	yyjson_mut_doc_free(reply);
}

static void render(const struct template *template, yyjson_val *request)
{
	char *messages = yyjson_val_write(yyjson_obj_get(request, "messages"), 0, NULL);
	char *variables = yyjson_val_write(yyjson_obj_get(request, "variables"), 0, NULL);
	struct template_input input = {
		.messages_json = messages ? messages : "[]",
		.messages_bytes = messages ? strlen(messages) : 2,
		.variables_json = variables,
		.variables_bytes = variables ? strlen(variables) : 0,
		.bos_token = string_or(request, "bos_token", ""),
		.eos_token = string_or(request, "eos_token", ""),
		.add_generation_prompt = yyjson_get_bool(yyjson_obj_get(request, "add_generation_prompt")),
	};
	struct template_limits limits = limits_of(request);
	struct err err = {0};
	char *text;
	size_t n_bytes;
	int rc = template_render(template, &input, &limits, &text, &n_bytes, &err);
	if (rc) {
		reply_error("render", rc, &err);
	} else {
		reply_text(text, n_bytes);
		free(text);
	}
	free(messages);
	free(variables);
}

static int answer(const char *line, size_t n_bytes)
{
	yyjson_doc *doc = yyjson_read(line, n_bytes, YYJSON_READ_BIGNUM_AS_RAW);
	yyjson_val *request = yyjson_doc_get_root(doc), *source = yyjson_obj_get(request, "template");
	if (!yyjson_is_str(source)) {
		fprintf(stderr, "render_main: expected a JSON object with a template\n");
		yyjson_doc_free(doc);
		return -EINVAL;
	}
	struct template *template;
	struct err err = {0};
	int rc = template_compile(yyjson_get_str(source), yyjson_get_len(source), &template, &err);
	if (rc) {
		reply_error("compile", rc, &err);
	} else {
		render(template, request);
		template_free(template);
	}
	yyjson_doc_free(doc);
	return 0;
}

int main(void)
{
	char *line = NULL;
	size_t capacity = 0;
	ssize_t n;
	int rc = 0;
	while (!rc && (n = getline(&line, &capacity, stdin)) > 0)
		rc = answer(line, (size_t)n);
	free(line);
	return rc ? 2 : 0;
}
