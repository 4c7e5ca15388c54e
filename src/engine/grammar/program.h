/* A grammar as a program over bytes, ready to be run by an automaton. Immutable.
 *
 * Each rule is a run of operations that ends with a return. An operation eats one byte of a range, goes on in two
 * places at once, jumps, or calls a rule. A code point is a choice of sequences of byte ranges, so that a text may be
 * cut anywhere, also between two tokens that share a character.
 *
 * A program that exists is sound: each rule it can reach can come to an end, and none can call itself before it has
 * eaten a byte. So whatever was eaten can be completed, and an automaton that eats no byte stops. */
#ifndef WEIGHTD_ENGINE_GRAMMAR_PROGRAM_H
#define WEIGHTD_ENGINE_GRAMMAR_PROGRAM_H

#include "src/engine/grammar/nodes.h"

enum { PROGRAM_OPS_MAX = 1 << 17 };

enum program_kind {
	PROGRAM_BYTE,	/* eat a byte in first..last, go on with the next operation */
	PROGRAM_SPLIT,	/* go on at a, and at b */
	PROGRAM_JUMP,	/* go on at a */
	PROGRAM_CALL,	/* the rule that begins at a, then the next operation */
	PROGRAM_TAIL,	/* the rule that begins at a instead of what is left of this one, which is nothing */
	PROGRAM_RETURN, /* the rule has ended */
	PROGRAM_NEVER,	/* no text leads on from here */
};

struct program_op {
	uint8_t kind; /* enum program_kind */
	uint8_t first, last;
	uint32_t a, b;
};

struct program {
	struct program_op *ops; /* [n_ops] owned */
	uint32_t n_ops;
	uint32_t start;
	uint32_t n_classes;    /* bytes that no operation tells apart are of one class */
	uint8_t class_of[256]; /* 0..n_classes - 1 */
	uint8_t byte_of[256];  /* [n_classes] one byte of each */
};

/* 0; -EINVAL: the grammar has a rule that never ends or begins with itself; -E2BIG; -ENOMEM. */
int program_build(const struct grammar *grammar, struct program *out, struct err *err);
void program_fini(struct program *program);

/* program_check.c: the soundness described above. `entries` [grammar->n_rules] is where each rule begins. */
int program_check(const struct program *program, const struct grammar *grammar, const uint32_t *entries,
		  struct err *err);

#endif
