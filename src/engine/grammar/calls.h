/* Calls of functions as a grammar: what a model has to write, in its own syntax, so that it calls some of the functions
 * it was told of with arguments that fit their schemas. */
#ifndef WEIGHTD_ENGINE_GRAMMAR_CALLS_H
#define WEIGHTD_ENGINE_GRAMMAR_CALLS_H

#include <stdbool.h>
#include <stddef.h>

#include "src/engine/grammar/nodes.h"

/* A call is an object {"name": NAME, ARGUMENTS: {...}}. Calls are written as
 *
 *     mark open call close mark open call close ...             without a separator
 *     mark open call separator call separator call ... close    with one
 *
 * with white space between the parts where the model likes it. */
struct call_syntax {
	const char *mark;
	bool mark_is_token; /* a control token (pieces.h) and not, or not only, text */
	bool bare;	    /* an answer that begins with a call has no mark */
	const char *open, *close;
	const char *separator; /* NULL: each call has a mark of its own */
	const char *arguments; /* the member's name */
};

/* `source` is a JSON object: `functions`, a list of objects with `name` and `parameters` (a JSON Schema of objects);
 * `required`: the answer is calls; `answer`, a schema: it is calls or an instance of that; neither: it may be any text,
 * but what looks like a call is one. `one`: it ends with the first call. Fills in an empty grammar. -EINVAL with the
 * function and the place in its schema. */
int calls_read(const char *source, size_t n_bytes, const struct call_syntax *syntax, struct grammar *grammar,
	       struct err *err);

#endif
