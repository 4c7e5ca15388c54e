/* JSON input to template variables. */
#ifndef WEIGHTD_ENGINE_TEMPLATE_INPUT_H
#define WEIGHTD_ENGINE_TEMPLATE_INPUT_H

#include "src/engine/template/render.h"

struct yyjson_doc;

/* Fills render->context from the caller's JSON, a slice at a time. Zero before opening. */
struct input {
	const struct template_input *from;	 /* borrowed */
	struct yyjson_doc *messages, *variables; /* owned; what the values borrow their strings from */
	struct input_level *levels;		 /* arrays and objects under way, the newest last */
	uint32_t n_levels;
	struct value top; /* what the outermost of them becomes */
	enum { INPUT_MESSAGES, INPUT_VARIABLES, INPUT_DONE } stage;
};

/* Parses the messages. -EINVAL: not JSON, not an array or object, or a number that does not fit; -E2BIG: nested too
 * deep, here and later. The input needs closing in every case, after the rendering. */
int input_open(struct render *render, const struct template_input *from, struct input *input);
/* Makes values of *work of those in the JSON, which is counted down. Returns 1: there is more to do; 0: done; -errno.
 */
int input_advance(struct render *render, struct input *input, uint64_t *work);
void input_close(struct input *input);

#endif
