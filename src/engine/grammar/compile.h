/* From what a request asks for to a program. */
#ifndef WEIGHTD_ENGINE_GRAMMAR_COMPILE_H
#define WEIGHTD_ENGINE_GRAMMAR_COMPILE_H

#include "src/engine/grammar/calls.h"
#include "src/engine/grammar/program.h"

enum constraint_kind {
	CONSTRAINT_NONE,
	CONSTRAINT_GBNF,   /* a grammar as llama.cpp writes them */
	CONSTRAINT_REGEX,  /* a regular expression that the whole answer matches */
	CONSTRAINT_SCHEMA, /* a JSON Schema */
	CONSTRAINT_CHOICE, /* a JSON array of texts, one of which the answer is */
	CONSTRAINT_OBJECT, /* any JSON object; no source */
	CONSTRAINT_CALLS,  /* calls of functions (calls.h) */
};

enum { CONSTRAINT_BYTES_MAX = 128 << 10 };

struct constraint_source {
	enum constraint_kind kind;
	const char *bytes; /* [n_bytes] */
	size_t n_bytes;
	/* The answer begins with reasoning, any text up to and with `reasoning_end` (NULL: it does not), and is held to
	 * the rest behind that. Where it begins with `reasoning_begin`; NULL: it is in the middle of it at once. */
	const char *reasoning_begin, *reasoning_end;
	const struct call_syntax *calls; /* for CONSTRAINT_CALLS */
};

/* -EINVAL: wrong, or asks for what can't be enforced; -E2BIG: too large; with the place in words. -ENOMEM. Takes some
 * ms at most. */
int constraint_compile(const struct constraint_source *source, struct program *out, struct err *err);

/* The readers; each fills in an empty grammar. */
int gbnf_read(const char *source, size_t n_bytes, struct grammar *grammar, struct err *err);
int schema_read(const char *source, size_t n_bytes, struct grammar *grammar, struct err *err);

#endif
