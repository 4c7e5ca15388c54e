/* Chat templates: the Jinja language as model files use it, interpreted with bounds on steps, depth and output.
 *
 * The result equals what PyPI's jinja2 renders with the settings transformers uses (ImmutableSandboxedEnvironment,
 * trim_blocks, lstrip_blocks, loop controls), byte for byte. No template is recognised by name or hash. Values are JSON
 * values; there is no clock, no file, no random number: strftime_now exists only if the variable `now` says the time.
 */
#ifndef WEIGHTD_ENGINE_TEMPLATE_H
#define WEIGHTD_ENGINE_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/err.h"

struct template; /* opaque, immutable after compiling */

struct template_limits {
	uint64_t steps;	     /* evaluated nodes; 0 means 10 million */
	uint32_t depth;	     /* nesting of expressions and blocks; 0 means 200 */
	size_t output_bytes; /* 0 means 16 MiB */
	size_t memory_bytes; /* values made while rendering; 0 means 64 MiB */
};

/* Parses `source` [n_bytes] UTF-8. Returns owned. -EINVAL with line and what was expected; -ENOTSUP names the
 * construct, filter, test or method that is not supported. Never crashes on any bytes. */
int template_compile(const char *source, size_t n_bytes, struct template **out, struct err *err);
void template_free(struct template *template);

/* The variables of one rendering. */
struct template_input {
	const char *messages_json; /* a JSON array of message objects, `messages` in the template */
	size_t messages_bytes;
	const char *variables_json; /* a JSON object whose members become variables (tools, …); NULL: none */
	size_t variables_bytes;
	const char *bos_token, *eos_token; /* "" when the model has none */
	bool add_generation_prompt;
};

/* Renders into a fresh buffer: *text returns owned (free with free()), not terminated by the template but always
 * followed by a NUL that *n_bytes does not count. -EINVAL: raise_exception (the text is the template's own words), or
 * an error Jinja would raise; -E2BIG: a limit was reached, named in the text; -ENOMEM. All memory of the rendering is
 * given back before returning. */
int template_render(const struct template *template, const struct template_input *input,
		    const struct template_limits *limits, char **text, size_t *n_bytes, struct err *err);

/* The same in slices, for callers who have other things to do meanwhile. */
struct template_rendering;
/* Template and what the input points to are borrowed until the end. Returns owned. 0, -ENOMEM. */
int template_rendering_begin(const struct template *template, const struct template_input *input,
			     const struct template_limits *limits, struct template_rendering **out);
/* Goes on for about `work` steps of up to a tenth of a microsecond each. Only parsing JSON and the statement it is in
 * go on as long as they take: some milliseconds at most. Returns 1: there is more to do; 0: the text can be taken; or
 * an error as template_render. */
int template_rendering_advance(struct template_rendering *rendering, uint64_t work, struct err *err);
/* The text, once, after a 0. Returns owned, as from template_render. */
char *template_rendering_take(struct template_rendering *rendering, size_t *n_bytes);
void template_rendering_end(struct template_rendering *rendering); /* at any time; takes NULL */

#endif
