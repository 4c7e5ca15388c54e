#include "src/engine/tokenizer_bpe.h"

#include <errno.h>
#include <stdlib.h>

int bpe_begin(struct bpe *bpe, size_t capacity)
{
	bpe->n = bpe->n_text = bpe->n_heap = bpe->n_linked = bpe->n_unordered = 0;
	if (capacity <= bpe->capacity)
		return 0;
	size_t grown = capacity < 64 ? 64 : capacity;
	bpe_fini(bpe);
	bpe->symbols = malloc(grown * sizeof *bpe->symbols);
	bpe->heap = malloc(2 * grown * sizeof *bpe->heap);
	bpe->text = malloc(grown);
	if (!bpe->symbols || !bpe->heap || !bpe->text) {
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
	free(bpe->text);
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

/* The token that the symbols at `at` and behind it spell together. */
static void find_spelled_pair(struct bpe *bpe, const struct table *table, uint32_t at)
{
	struct bpe_symbol *symbol = &bpe->symbols[at];
	struct tokenizer_string left = bpe_spelled(bpe, at), right = bpe_spelled(bpe, symbol->next);
	symbol->merged = table_find_string(table, left.bytes, (size_t)left.n_bytes + right.n_bytes);
	symbol->rank = symbol->merged == TOKEN_NONE ? BPE_NO_PAIR : table->ranks[symbol->merged];
}

static void find_listed_pair(struct bpe *bpe, const struct table *table, uint32_t at)
{
	struct bpe_symbol *symbol = &bpe->symbols[at];
	const struct table_merge *merge = table_find_merge(table, symbol->id, bpe->symbols[symbol->next].id);
	symbol->rank = merge ? merge->rank : BPE_NO_PAIR;
	symbol->merged = merge ? merge->merged : TOKEN_NONE;
}

/* Looks the pair up that begins at a symbol which has a successor. Returns whether it has a merge. */
static bool find_pair(struct bpe *bpe, const struct table *table, uint32_t at)
{
	if (table->header->kind == TABLE_PIECES)
		find_spelled_pair(bpe, table, at);
	else
		find_listed_pair(bpe, table, at);
	return bpe->symbols[at].rank != BPE_NO_PAIR;
}

static void push_pair(struct bpe *bpe, const struct table *table, uint32_t at)
{
	if (find_pair(bpe, table, at))
		heap_push(bpe, (uint64_t)bpe->symbols[at].rank << 32 | at);
}

/* Links the next symbol to its neighbours. The heap's entries are ordered when all are there. */
static void link_symbol(struct bpe *bpe, const struct table *table)
{
	uint32_t at = (uint32_t)bpe->n_linked++;
	struct bpe_symbol *symbol = &bpe->symbols[at];
	symbol->prev = at ? at - 1 : BPE_END;
	symbol->next = at + 1 < bpe->n ? at + 1 : BPE_END;
	symbol->rank = BPE_NO_PAIR;
	if (symbol->next != BPE_END) /* where the pair ends is already asked for */
		bpe->symbols[symbol->next].next = symbol->next + 1 < bpe->n ? symbol->next + 1 : BPE_END;
	if (symbol->next != BPE_END && find_pair(bpe, table, at))
		bpe->heap[bpe->n_heap++] = (uint64_t)symbol->rank << 32 | at;
	bpe->n_unordered = bpe->n_heap / 2; /* the rest has no children */
}

static void merge_pair(struct bpe *bpe, const struct table *table, uint32_t at)
{
	struct bpe_symbol *left = &bpe->symbols[at], *right = &bpe->symbols[left->next];
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

bool bpe_merge(struct bpe *bpe, const struct table *table, size_t *work)
{
	for (; *work && bpe->n_linked < bpe->n; --*work)
		link_symbol(bpe, table);
	for (; *work && bpe->n_unordered; --*work) {
		size_t at = --bpe->n_unordered;
		sift_down(bpe, at, bpe->heap[at]);
	}
	for (; *work && bpe->n_heap; --*work) {
		uint64_t key = heap_pop(bpe);
		uint32_t at = (uint32_t)key;
		if (bpe->symbols[at].rank == key >> 32) /* else one of the two is gone or has grown since */
			merge_pair(bpe, table, at);
	}
	return bpe->n_linked == bpe->n && !bpe->n_unordered && !bpe->n_heap;
}
