/* Byte-pair merging of one word: the pair of neighbours with the lowest rank becomes one token, the leftmost of equals
 * first, until no pair has a merge.
 *
 * The symbols are a doubly linked list in an array. A heap holds every pair that could be merged, as rank << 32 |
 * position of its left symbol: one comparison orders by rank, then from left to right. Nothing is ever removed from the
 * middle of the heap; each symbol remembers the rank of the pair it now begins, and an entry that no longer agrees is
 * skipped when it comes up. Every merge takes one entry out and puts two in at most, so n symbols take O(n log n) time
 * and 36 n bytes, whatever they are. */
#ifndef WEIGHTD_ENGINE_TOKENIZER_BPE_H
#define WEIGHTD_ENGINE_TOKENIZER_BPE_H

#include <stdbool.h>

#include "src/engine/tokenizer_table.h"

struct bpe_symbol {
	uint32_t id;	     /* TOKEN_NONE: a byte without a token; it merges with nothing */
	uint32_t prev, next; /* positions, BPE_END at the ends */
	uint32_t rank;	     /* of the pair that begins here; BPE_NO_PAIR if it has no merge or the symbol is gone */
	uint32_t merged;     /* what that pair becomes */
};
#define BPE_END UINT32_MAX
#define BPE_NO_PAIR UINT32_MAX

struct bpe {
	struct bpe_symbol *symbols; /* [capacity] owned; the merged word starts at 0 and goes on along next */
	uint64_t *heap;		    /* [2 * capacity] owned */
	size_t capacity, n, n_heap;
	size_t n_linked;    /* symbols that know their neighbours */
	size_t n_unordered; /* heap entries [0, n_unordered) are not the head of a heap yet */
};

/* Makes room for a word of `capacity` symbols, at most 2^31, and empties it. Returns 0, -ENOMEM. */
int bpe_begin(struct bpe *bpe, size_t capacity);

static inline void bpe_push(struct bpe *bpe, uint32_t id)
{
	bpe->symbols[bpe->n++].id = id;
}

/* Merges, once all symbols are pushed. *work is how many of its small steps may be done (about three per symbol in all)
 * and is counted down; false: it is used up, call again. */
bool bpe_merge(struct bpe *bpe, const struct table *table, size_t *work);
void bpe_fini(struct bpe *bpe);

#endif
