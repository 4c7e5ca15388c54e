/* The vocabulary in the order of its bytes, for walking it as a tree without having one: of each token is known how
 * many bytes it shares with the one before. A walk that refuses a byte at depth d passes over all tokens that share
 * more than d bytes with their predecessor, which is a scan of small numbers.
 *
 * Tokens that add no bytes to a text (control tokens) are not in it, but for one that a grammar may want: the mark with
 * which some models begin calls of tools. It stands as a byte that no UTF-8 has, so no text of a grammar can be taken
 * for it nor it for a text. Immutable; 6 bytes a token, private. */
#ifndef WEIGHTD_ENGINE_GRAMMAR_PIECES_H
#define WEIGHTD_ENGINE_GRAMMAR_PIECES_H

#include "src/engine/tokenizer.h"

enum { PIECES_ENDS_MAX = 16, PIECE_BYTES_MAX = 1024 }; /* a longer one is never allowed under a grammar */

#define PIECES_MARK "\xFF" /* the mark's bytes in a grammar */

struct pieces {
	const struct tokenizer *tokenizer; /* borrowed */
	uint32_t n;
	uint32_t *ids;				/* [n] owned */
	uint16_t *shared;			/* [n] owned */
	int64_t mark;				/* a token, or -1 */
	uint32_t ends[PIECES_ENDS_MAX], n_ends; /* tokens that end an answer; in no piece's place */
};

int pieces_init(struct pieces *pieces, const struct tokenizer *tokenizer, int64_t mark); /* -ENOMEM */
void pieces_fini(struct pieces *pieces);						 /* takes a zeroed one */
/* A token's bytes as grammars see them; view. */
const char *pieces_bytes(const struct pieces *pieces, uint32_t id, uint32_t *n_bytes);

#endif
