/* One step through bytes that may or may not be UTF-8 (Unicode 16, section 3.9, tables 3-7 and 3-8). */
#ifndef WEIGHTD_ENGINE_UTF8_H
#define WEIGHTD_ENGINE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

enum utf8_kind {
	UTF8_CHARACTER, /* one well-formed sequence */
	UTF8_CUT,	/* well-formed so far, the input ends inside it */
	UTF8_MALFORMED, /* a maximal part that no continuation makes well-formed */
};

/* Looks at the sequence that begins at bytes[0]; n_bytes >= 1. *length is how many bytes it has: 1 to 4 of a character,
 * 1 to 3 of the others. Overlong forms, surrogates and everything past U+10FFFF are malformed. */
enum utf8_kind utf8_step(const char *bytes, size_t n_bytes, size_t *length);

/* Whether all of it is UTF-8; so is nothing. */
bool utf8_is_valid(const char *bytes, size_t n_bytes);

#endif
