/* JSON input to template variables. */
#ifndef WEIGHTD_ENGINE_TEMPLATE_INPUT_H
#define WEIGHTD_ENGINE_TEMPLATE_INPUT_H

#include "src/engine/template/render.h"

struct yyjson_doc;

/* The parsed JSON whose strings the values borrow. Zero before opening. */
struct input_documents {
	struct yyjson_doc *messages, *variables;
};

/* Fills render->context. -EINVAL: not JSON, not an array or object, or a number that does not fit; -E2BIG: nested too
 * deep. `documents` needs closing in every case, after the rendering. */
int input_open(struct render *render, const struct template_input *input, struct input_documents *documents);
void input_close(struct input_documents *documents);

#endif
