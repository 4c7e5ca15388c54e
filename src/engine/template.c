#include "src/engine/template.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/template/ast.h"
#include "src/engine/template/input.h"
#include "src/engine/template/lex.h"
#include "src/engine/template/parse.h"
#include "src/engine/template/render.h"
#include "src/engine/template/scope.h"

enum { MAX_SOURCE_BYTES = 1024 * 1024, COMPILED_BYTES = 256 * 1024 * 1024 };

static const struct template_limits default_limits = {
	.steps = 10 * 1000 * 1000,
	.depth = 200,
	.output_bytes = 16 * 1024 * 1024,
	.memory_bytes = 64 * 1024 * 1024,
};

static int compile(struct template *template, const char *source, size_t n_bytes, struct err *err)
{
	struct token_list tokens = {0};
	const struct text text = {.bytes = source, .n_bytes = n_bytes, .n_chars = n_bytes};
	template->program = heap_cells(&template->heap, 1, sizeof *template->program);
	int rc = template->program ? 0 : err_set(err, -ENOMEM, "out of memory");
	rc = rc ? rc : lex(&template->heap, &text, &tokens, err);
	if (!rc) {
		struct parser parser = {.heap = &template->heap, .token = tokens.tokens, .err = err};
		rc = parse_template(&parser, &template->program->body);
	}
	free(tokens.tokens);
	return rc ? rc : scope_resolve(&template->heap, template->program, err);
}

int template_compile(const char *source, size_t n_bytes, struct template **out, struct err *err)
{
	if (n_bytes > MAX_SOURCE_BYTES)
		return err_set(err, -E2BIG, "the template is larger than %d bytes", MAX_SOURCE_BYTES);
	if (!text_valid_utf8(source, n_bytes))
		return err_set(err, -EINVAL, "the template is not valid UTF-8");
	struct template *template = calloc(1, sizeof *template);
	if (!template)
		return err_set(err, -ENOMEM, "out of memory");
	heap_init(&template->heap, COMPILED_BYTES);
	int rc = compile(template, source, n_bytes, err);
	if (rc) {
		template_free(template);
		return rc;
	}
	*out = template;
	return 0;
}

void template_free(struct template *template)
{
	if (!template)
		return;
	heap_fini(&template->heap);
	free(template);
}

static struct template_limits limits_or_defaults(const struct template_limits *given)
{
	struct template_limits limits = given ? *given : (struct template_limits){0};
	limits.steps = limits.steps ? limits.steps : default_limits.steps;
	limits.depth = limits.depth ? limits.depth : default_limits.depth;
	limits.output_bytes = limits.output_bytes ? limits.output_bytes : default_limits.output_bytes;
	limits.memory_bytes = limits.memory_bytes ? limits.memory_bytes : default_limits.memory_bytes;
	return limits;
}

static int run(struct render *r, const struct function *program)
{
	struct activation activation = {.slots = heap_cells(&r->heap, program->n_slots, sizeof *activation.slots)};
	if (!activation.slots)
		return render_oom(r);
	r->activation = &activation;
	int rc = render_scope_enter(r, &program->scope);
	rc = rc ? rc : render_statements(r, program->body);
	return rc ? rc : render_write(r, "", 0); /* so that there is a buffer even for an empty output */
}

int template_render(const struct template *template, const struct template_input *input,
		    const struct template_limits *limits, char **text, size_t *n_bytes, struct err *err)
{
	struct render render = {.limits = limits_or_defaults(limits), .err = err};
	struct input_documents documents = {0};
	heap_init(&render.heap, render.limits.memory_bytes);
	int rc = input_open(&render, input, &documents);
	rc = rc ? rc : run(&render, template->program);
	heap_fini(&render.heap);
	input_close(&documents);
	if (rc) {
		free(render.output);
		return rc;
	}
	render.output[render.n_output] = 0;
	*text = render.output;
	*n_bytes = render.n_output;
	return 0;
}
