/* The vocabulary in the order of its bytes, for walking it as a tree without having one: of each token is known how
 * many bytes it shares with the one before. A walk that refuses a byte at depth d passes over all tokens that share
 * more than d bytes with their predecessor, which is a scan of small numbers.
 *
 * Tokens that add no bytes to a text (control tokens) are not in it. Immutable; 6 bytes a token, private. */
#ifndef WEIGHTD_ENGINE_GRAMMAR_PIECES_H
#define WEIGHTD_ENGINE_GRAMMAR_PIECES_H

#include "src/engine/tokenizer.h"

enum { PIECES_ENDS_MAX = 16, PIECE_BYTES_MAX = 1024 }; /* a longer one is never allowed under a grammar */

struct pieces {
	const struct tokenizer *tokenizer; /* borrowed */
	uint32_t n;
	uint32_t *ids;				/* [n] owned */
	uint16_t *shared;			/* [n] owned */
	uint32_t ends[PIECES_ENDS_MAX], n_ends; /* tokens that end an answer; in no piece's place */
};

int pieces_init(struct pieces *pieces, const struct tokenizer *tokenizer); /* -ENOMEM */
void pieces_fini(struct pieces *pieces);				   /* takes a zeroed one */

#endif
