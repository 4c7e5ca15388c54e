#include "src/engine/tokenizer_bpe.h"

#include <errno.h>
#include <stdlib.h>

int bpe_begin(struct bpe *bpe, size_t capacity)
{
	bpe->n = 0;
	bpe->n_heap = 0;
	if (capacity <= bpe->capacity)
		return 0;
	size_t grown = capacity < 64 ? 64 : capacity;
	bpe_fini(bpe);
	bpe->symbols = malloc(grown * sizeof *bpe->symbols);
	bpe->heap = malloc(2 * grown * sizeof *bpe->heap);
	if (!bpe->symbols || !bpe->heap) {
		bpe_fini(bpe);
		return -ENOMEM;
	}
	bpe->capacity = grown;
	return 0;
}

void bpe_fini(struct bpe *bpe)
{
	free(bpe->symbols);
	free(bpe->heap);
	*bpe = (struct bpe){0};
}

static void sift_down(struct bpe *bpe, size_t at, uint64_t key)
{
	for (;;) {
		size_t child = 2 * at + 1;
		if (child >= bpe->n_heap)
			break;
		if (child + 1 < bpe->n_heap && bpe->heap[child + 1] < bpe->heap[child])
			child++;
		if (key <= bpe->heap[child])
			break;
		bpe->heap[at] = bpe->heap[child];
		at = child;
	}
	bpe->heap[at] = key;
}

static void heap_push(struct bpe *bpe, uint64_t key)
{
	size_t at = bpe->n_heap++;
	while (at && key < bpe->heap[(at - 1) / 2]) {
		bpe->heap[at] = bpe->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	bpe->heap[at] = key;
}

static uint64_t heap_pop(struct bpe *bpe)
{
	uint64_t least = bpe->heap[0], last = bpe->heap[--bpe->n_heap];
	if (bpe->n_heap)
		sift_down(bpe, 0, last);
	return least;
}

/* Looks the pair up that begins at a symbol which has a successor. Returns whether it has a merge. */
static bool find_pair(struct bpe *bpe, const struct table *table, uint32_t at)
{
	struct bpe_symbol *symbol = &bpe->symbols[at];
	const struct table_merge *merge = table_find_merge(table, symbol->id, bpe->symbols[symbol->next].id);
	symbol->rank = merge ? merge->rank : BPE_NO_PAIR;
	symbol->merged = merge ? merge->merged : TOKEN_NONE;
	return symbol->rank != BPE_NO_PAIR;
}

static void push_pair(struct bpe *bpe, const struct table *table, uint32_t at)
{
	if (find_pair(bpe, table, at))
		heap_push(bpe, (uint64_t)bpe->symbols[at].rank << 32 | at);
}

static void link_symbols(struct bpe *bpe, const struct table *table)
{
	for (uint32_t at = 0; at < bpe->n; at++) {
		struct bpe_symbol *symbol = &bpe->symbols[at];
		symbol->prev = at ? at - 1 : BPE_END;
		symbol->next = at + 1 < bpe->n ? at + 1 : BPE_END;
		symbol->rank = BPE_NO_PAIR;
	}
	for (uint32_t at = 0; at + 1 < bpe->n; at++)
		if (find_pair(bpe, table, at))
			bpe->heap[bpe->n_heap++] = (uint64_t)bpe->symbols[at].rank << 32 | at;
	for (size_t at = bpe->n_heap / 2; at-- > 0;)
		sift_down(bpe, at, bpe->heap[at]);
}

void bpe_merge(struct bpe *bpe, const struct table *table)
{
	link_symbols(bpe, table);
	while (bpe->n_heap) {
		uint64_t key = heap_pop(bpe);
		uint32_t at = (uint32_t)key;
		struct bpe_symbol *left = &bpe->symbols[at];
		if (left->rank != key >> 32)
			continue; /* one of the two is gone or has grown since */
		struct bpe_symbol *right = &bpe->symbols[left->next];
		left->id = left->merged;
		left->next = right->next;
		left->rank = right->rank = BPE_NO_PAIR;
		if (left->next != BPE_END) {
			bpe->symbols[left->next].prev = at;
			push_pair(bpe, table, at);
		}
		if (left->prev != BPE_END)
			push_pair(bpe, table, left->prev);
	}
}
