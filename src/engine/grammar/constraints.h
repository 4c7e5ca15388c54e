/* The constraints of a worker: calls that ask for the same share one, and the few last ones stay for those that will.
 */
#ifndef WEIGHTD_ENGINE_GRAMMAR_CONSTRAINTS_H
#define WEIGHTD_ENGINE_GRAMMAR_CONSTRAINTS_H

#include "src/engine/grammar/compile.h"
#include "src/engine/grammar/constraint.h"

enum { CONSTRAINTS_IDLE_MAX = 4 }; /* kept while no call has them: AUTOMATON_BYTES each at most */

struct constraints;

/* Sorts the vocabulary, which takes some ten ms: to be made before there are calls. Borrows both. `mark`: see pieces.h.
 * -ENOMEM. */
int constraints_new(const struct tokenizer *tokenizer, uint32_t n_tokens, int64_t mark, struct arena *arena,
		    struct constraints **out);
/* No call may have one any more. Takes NULL. */
void constraints_free(struct constraints *constraints);

/* The constraint of a source, compiled if it is new; a matcher of it. Copies the source's bytes; the other texts and
 * the syntax are to outlive the constraints. Returns owned. Errors as constraint_compile. */
int constraints_matcher(struct constraints *constraints, const struct constraint_source *source, struct matcher **out,
			struct err *err);

#endif
