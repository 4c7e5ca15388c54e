/* A program run on bytes, and the tokens it allows.
 *
 * What may come next is a set of places in the program, each with a stack of calls to return to. Stacks are chains of
 * cells, each cell there once, so that a place is a pair of numbers; sets in order are states, each state there once. A
 * state remembers where each byte led (as a lazily made deterministic automaton does) and which tokens it allows, so
 * that a grammar soon costs a look-up per byte and, where it has been before, per token.
 *
 *   state   arcs [n_classes] | places [n] (operation, cell)           mask   one bit per token
 *   cell    operation to return to, cell below
 *
 * All lie in one span of a fixed size, filled from its beginning. When it is half full everything in it is forgotten
 * but the state at hand; who had another finds it again by the bytes that led there (constraint.h).
 *
 * An operation has bounds, so that memory and time of a step have, whatever the grammar; a grammar that needs more has
 * too many readings to be followed. Calls share an automaton, and whether one of them ends at a bound must not depend
 * on what the others have made it remember. So what an operation is charged is not what it did but what it would have
 * done with nothing remembered: each arc keeps what it cost to find and is charged to every operation that takes it,
 * once.
 *
 * Rejected: states on the heap with an LRU (per-state lists and unbounded fragmentation, for a cache whose working set
 * is small), and precomputing all states (there are infinitely many). */
#ifndef WEIGHTD_ENGINE_GRAMMAR_AUTOMATON_H
#define WEIGHTD_ENGINE_GRAMMAR_AUTOMATON_H

#include "src/engine/arena.h"
#include "src/engine/grammar/pieces.h"
#include "src/engine/grammar/program.h"

enum {
	AUTOMATON_BYTES = 8 << 20,
	AUTOMATON_PLACES_MAX = 4096,   /* in a state */
	AUTOMATON_DEPTH_MAX = 512,     /* of calls: what nests deeper is not offered */
	AUTOMATON_WORK_MAX = 1 << 20,  /* places looked at in one operation: some ten ms */
	AUTOMATON_TAKEN_MAX = 3 << 20, /* bytes of states and cells that one operation may need */
	AUTOMATON_BUCKETS = 4096,
};

#define AUTOMATON_DEAD 1u /* the state without a text; no state has this number, and 0 is none */

struct automaton {
	const struct program *program; /* borrowed */
	const struct pieces *pieces;
	uint32_t n_tokens; /* bits of a mask */
	char *span;	   /* [AUTOMATON_BYTES] */
	uint32_t used;
	uint32_t start;		 /* 0: not made yet */
	uint32_t age;		 /* changes when all states are forgotten */
	uint64_t operation;	 /* the one under way: a step or a mask */
	uint32_t work, taken;	 /* charged to it */
	struct scratch *scratch; /* of one step */
};

/* A step's scratch and the span come from the arena. -ENOMEM. */
int automaton_init(struct automaton *automaton, const struct program *program, const struct pieces *pieces,
		   uint32_t n_tokens, struct arena *arena);
void automaton_fini(struct automaton *automaton, struct arena *arena);

/* To be called before each operation, with a state that is to be had afterwards, or 0. If there is little room, all
 * other states are forgotten, `age` changes, and the state has another number, which is returned; 0: that failed. */
uint32_t automaton_begin(struct automaton *automaton, uint32_t state);

/* States; 0: it takes more memory or time than one operation may. */
uint32_t automaton_start(struct automaton *automaton);
uint32_t automaton_step(struct automaton *automaton, uint32_t state, const char *bytes, uint32_t n_bytes);

bool automaton_accepts(const struct automaton *automaton, uint32_t state);
/* Whether any byte leads on. */
bool automaton_goes_on(const struct automaton *automaton, uint32_t state);
/* The tokens whose bytes lead on, as bits [n_tokens]; end tokens are not among them. View, until the next begin. NULL:
 * as above. */
const uint64_t *automaton_mask(struct automaton *automaton, uint32_t state);

#endif
