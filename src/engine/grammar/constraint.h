/* What an answer has to look like: a program and its automaton, shared by the calls that ask for the same; and where
 * one answer stands in it.
 *
 * The scheduler's thread makes and frees these. Masks are made by the compute threads, several calls at once; a
 * constraint has a lock, since calls that share it share what its automaton remembers.
 *
 *   field              writer                       readers             ordering
 *   automaton          who holds the lock           same                lock
 *   references, idle   the scheduler's thread       same                one thread
 *   a matcher          the thread that has its row  same                the team's barrier between them
 *
 * What is allowed after an answer depends on the grammar and the answer alone: the automaton forgets and a matcher then
 * reads the answer again from its beginning. */
#ifndef WEIGHTD_ENGINE_GRAMMAR_CONSTRAINT_H
#define WEIGHTD_ENGINE_GRAMMAR_CONSTRAINT_H

#include <pthread.h>

#include "src/engine/grammar/automaton.h"

struct constraint {
	struct program program; /* owned */
	struct automaton automaton;
	struct arena *arena; /* borrowed */
	pthread_mutex_t lock;
	uint32_t references; /* matchers, and the list that keeps it (constraints.h) */
};

/* Takes the program. Returns owned, with one reference; NULL: out of memory, the program is freed. */
struct constraint *constraint_new(struct program *program, const struct pieces *pieces, uint32_t n_tokens,
				  struct arena *arena);
void constraint_put(struct constraint *constraint); /* takes NULL */
/* Whether its beginning is within the bounds; -E2BIG. To be asked before it is used. */
int constraint_check(struct constraint *constraint, struct err *err);

struct matcher {
	struct constraint *constraint;
	uint32_t state, age;
	uint32_t n_read;   /* tokens of the answer that led to `state` */
	uint64_t *allowed; /* [n_tokens bits] owned */
};

/* Adds a reference. Returns owned; NULL: out of memory. */
struct matcher *matcher_new(struct constraint *constraint);
void matcher_free(struct matcher *matcher); /* takes NULL */

/* After an answer of n tokens: what may come next, end tokens where the answer may end. View, until the next call.
 * NULL: `fault` says why (view, static). */
const uint64_t *matcher_allowed(struct matcher *matcher, const uint32_t *answer, uint32_t n, const char **fault);
/* Whether the answer is complete and nothing can follow. */
bool matcher_is_over(struct matcher *matcher, const uint32_t *answer, uint32_t n);

#endif
