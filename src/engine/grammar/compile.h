/* From what a request asks for to a program. */
#ifndef WEIGHTD_ENGINE_GRAMMAR_COMPILE_H
#define WEIGHTD_ENGINE_GRAMMAR_COMPILE_H

#include "src/engine/grammar/program.h"

enum constraint_kind {
	CONSTRAINT_NONE,
	CONSTRAINT_GBNF,   /* a grammar as llama.cpp writes them */
	CONSTRAINT_REGEX,  /* a regular expression that the whole answer matches */
	CONSTRAINT_SCHEMA, /* a JSON Schema */
	CONSTRAINT_CHOICE, /* a JSON array of texts, one of which the answer is */
	CONSTRAINT_OBJECT, /* any JSON object; no source */
};

enum { CONSTRAINT_BYTES_MAX = 128 << 10 };

/* -EINVAL: wrong, or asks for what can't be enforced; -E2BIG: too large; with the place in words. -ENOMEM. Takes some
 * ms at most. */
int constraint_compile(enum constraint_kind kind, const char *source, size_t n_bytes, struct program *out,
		       struct err *err);

/* The readers; each fills in an empty grammar. */
int gbnf_read(const char *source, size_t n_bytes, struct grammar *grammar, struct err *err);
int schema_read(const char *source, size_t n_bytes, struct grammar *grammar, struct err *err);

#endif
