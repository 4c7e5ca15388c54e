/* What encoding means, written for the reader and as slow as that is: the pre-tokenizer "smollm" tried alternative by
 * alternative over characters whose class is given, and merging by trying the merges in order of rank over the whole
 * word, again and again. Shares nothing with the encoder. */
#ifndef WEIGHTD_TESTS_TOKENIZER_REFERENCE_H
#define WEIGHTD_TESTS_TOKENIZER_REFERENCE_H

#include <stddef.h>
#include <stdint.h>

#include "tests/unit/tokenizer_vocab.h"

struct character {
	const char *utf8;
	char kind; /* 'L' letter, 'N' number, 'S' white space, 'O' anything else */
};

/* Encodes chars[n] with a vocabulary whose tokens 0 to 255 are the bytes. `ids` has room for one per byte of text;
 * returns their number. */
size_t reference_encode(const struct vocab *vocab, const struct character *const *chars, size_t n, uint32_t *ids);

#endif
