/* Sources of grammars and regular expressions, code point by code point. */
#ifndef WEIGHTD_ENGINE_GRAMMAR_TEXT_H
#define WEIGHTD_ENGINE_GRAMMAR_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/engine/grammar/charset.h"

struct grammar_source {
	const char *bytes;
	size_t n_bytes, at;
};

#define SOURCE_END UINT32_MAX

/* The code point at hand, SOURCE_END at the end (or before bytes that are no UTF-8, which are nothing any rule
 * expects). */
uint32_t source_peek(const struct grammar_source *source, size_t *length);
uint32_t source_next(struct grammar_source *source);
bool source_eat(struct grammar_source *source, char c);
/* A decimal number that fits 32 bits; what does not becomes UINT32_MAX - 1. False: there is none. */
bool source_number(struct grammar_source *source, uint32_t *out);
/* Exactly n hexadecimal digits. */
bool source_hex(struct grammar_source *source, unsigned n, uint32_t *out);

#endif
