/* Byte-pair merging of one word: the pair of neighbours with the lowest rank becomes one token, the leftmost of equals
 * first, until no pair has a merge.
 *
 * The symbols are a doubly linked list in an array. A heap holds every pair that could be merged, as rank << 32 |
 * position of its left symbol: one comparison orders by rank, then from left to right. Nothing is ever removed from the
 * middle of the heap; each symbol remembers the rank of the pair it now begins, and an entry that no longer agrees is
 * skipped when it comes up. Every merge takes one entry out and puts two in at most, so n symbols take O(n log n) time
 * and 41 n bytes, whatever they are.
 *
 * Which pairs merge is the vocabulary's to say. Where it lists merges, the ids of the two are looked up in that list.
 * Where its tokens have ranks (SentencePiece's scores), two neighbours merge if what they spell together is a token;
 * then also a character that is no token itself can be part of one. For that the word's text lies beside the symbols.
 */
#ifndef WEIGHTD_ENGINE_TOKENIZER_BPE_H
#define WEIGHTD_ENGINE_TOKENIZER_BPE_H

#include <stdbool.h>
#include <string.h>

#include "src/engine/tokenizer_table.h"

struct bpe_symbol {
	uint32_t id;	     /* TOKEN_NONE: a byte without a token; it merges with nothing */
	uint32_t prev, next; /* positions, BPE_END at the ends */
	uint32_t rank;	     /* of the pair that begins here; BPE_NO_PAIR if it has no merge or the symbol is gone */
	uint32_t merged;     /* what that pair becomes */
	uint32_t start;	     /* of its bytes in the word's text */
};
#define BPE_END UINT32_MAX
#define BPE_NO_PAIR UINT32_MAX

struct bpe {
	struct bpe_symbol *symbols; /* [capacity] owned; the merged word starts at 0 and goes on along next */
	uint64_t *heap;		    /* [2 * capacity] owned */
	char *text;		    /* [capacity] owned: what the symbols spell, one after another */
	size_t capacity, n, n_heap, n_text;
	size_t n_linked;    /* symbols that know their neighbours */
	size_t n_unordered; /* heap entries [0, n_unordered) are not the head of a heap yet */
};

/* Makes room for a word of `capacity` bytes, at most 2^31, and empties it. Returns 0, -ENOMEM. */
int bpe_begin(struct bpe *bpe, size_t capacity);

/* Adds a symbol of one byte or more. */
static inline void bpe_push(struct bpe *bpe, uint32_t id, const char *bytes, size_t n_bytes)
{
	bpe->symbols[bpe->n].id = id;
	bpe->symbols[bpe->n++].start = (uint32_t)bpe->n_text;
	memcpy(bpe->text + bpe->n_text, bytes, n_bytes);
	bpe->n_text += n_bytes;
}

/* What the symbol at `at` spells after merging; a view that lasts until the next word. */
static inline struct tokenizer_string bpe_spelled(const struct bpe *bpe, uint32_t at)
{
	const struct bpe_symbol *symbol = &bpe->symbols[at];
	uint32_t end = symbol->next == BPE_END ? (uint32_t)bpe->n_text : bpe->symbols[symbol->next].start;
	return (struct tokenizer_string){bpe->text + symbol->start, end - symbol->start};
}

/* Merges, once all symbols are pushed. *work is how many of its small steps may be done (about three per symbol in all)
 * and is counted down; false: it is used up, call again. */
bool bpe_merge(struct bpe *bpe, const struct table *table, size_t *work);
void bpe_fini(struct bpe *bpe);

#endif
