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

enum {
	MAX_SOURCE_BYTES = 1024 * 1024,
	COMPILED_BYTES = 256 * 1024 * 1024,
	PARSED_BYTES = 32, /* of JSON, in the time of a step */
};

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

static int begin(struct render *r, const struct function *program)
{
	struct activation *activation = heap_cells(&r->heap, 1, sizeof *activation);
	if (!activation)
		return render_oom(r);
	activation->slots = heap_cells(&r->heap, program->n_slots, sizeof *activation->slots);
	if (!activation->slots)
		return render_oom(r);
	r->activation = activation;
	int rc = render_scope_enter(r, &program->scope);
	return rc ? rc : render_begin(r, program->body);
}

struct template_rendering {
	const struct template *template; /* borrowed */
	struct template_input from;
	struct input input;
	enum { OPEN, READ, BEGIN, RUN } stage;
	struct render render;
};

int template_rendering_begin(const struct template *template, const struct template_input *input,
			     const struct template_limits *limits, struct template_rendering **out)
{
	struct template_rendering *rendering = calloc(1, sizeof *rendering);
	if (!rendering)
		return -ENOMEM;
	rendering->template = template;
	rendering->from = *input;
	rendering->render.limits = limits_or_defaults(limits);
	rendering->render.steps_end = UINT64_MAX;
	heap_init(&rendering->render.heap, rendering->render.limits.memory_bytes);
	*out = rendering;
	return 0;
}

/* Goes on with the stage there is; counts *work down. Returns 1, 0: the text is there, or an error. */
static int advance_stage(struct template_rendering *rendering, uint64_t *work)
{
	struct render *r = &rendering->render;
	uint64_t before = r->steps, used;
	int rc = 0;
	switch (rendering->stage) {
	case OPEN:
		rc = input_open(r, &rendering->from, &rendering->input);
		used = rendering->from.messages_bytes / PARSED_BYTES;
		*work -= used < *work ? used : *work;
		break;
	case READ:
		rc = input_advance(r, &rendering->input, work);
		break;
	case BEGIN:
		rc = begin(r, rendering->template->program);
		break;
	case RUN:
		rc = render_advance(r, *work);
		used = r->steps - before;
		*work -= used < *work ? used : *work;
		return rc ? rc : render_write(r, "", 0); /* so that there is a buffer even for an empty output */
	}
	rendering->stage += !rc;
	return rc < 0 ? rc : 1;
}

int template_rendering_advance(struct template_rendering *rendering, uint64_t work, struct err *err)
{
	int rc;
	rendering->render.err = err;
	do
		rc = advance_stage(rendering, &work);
	while (rc > 0 && work);
	return rc;
}

char *template_rendering_take(struct template_rendering *rendering, size_t *n_bytes)
{
	struct render *r = &rendering->render;
	char *text = r->output;
	text[r->n_output] = 0;
	*n_bytes = r->n_output;
	r->output = NULL;
	return text;
}

void template_rendering_end(struct template_rendering *rendering)
{
	if (!rendering)
		return;
	heap_fini(&rendering->render.heap);
	input_close(&rendering->input);
	free(rendering->render.output);
	free(rendering);
}

int template_render(const struct template *template, const struct template_input *input,
		    const struct template_limits *limits, char **text, size_t *n_bytes, struct err *err)
{
	struct template_rendering *rendering;
	int rc = template_rendering_begin(template, input, limits, &rendering);
	if (rc)
		return err_set(err, rc, "out of memory");
	do
		rc = template_rendering_advance(rendering, UINT64_MAX, err);
	while (rc > 0);
	if (!rc)
		*text = template_rendering_take(rendering, n_bytes);
	template_rendering_end(rendering);
	return rc;
}
