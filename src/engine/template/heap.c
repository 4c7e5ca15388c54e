#include "src/engine/template/heap.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 32 * 1024 };

struct heap_block {
	struct heap_block *older;
	size_t n_bytes, used_bytes;
	alignas(max_align_t) char data[];
};

void heap_init(struct heap *heap, size_t budget_bytes)
{
	*heap = (struct heap){.left_bytes = budget_bytes};
}

static void free_blocks(struct heap_block *block)
{
	while (block) {
		struct heap_block *older = block->older;
		free(block);
		block = older;
	}
}

void heap_fini(struct heap *heap)
{
	free_blocks(heap->cells);
	free_blocks(heap->bytes);
	*heap = (struct heap){0};
}

/* A block that has room for n_bytes; the newest one if it has. */
static struct heap_block *block_with_room(struct heap *heap, struct heap_block **newest, size_t n_bytes)
{
	struct heap_block *block = *newest;
	if (block && block->n_bytes - block->used_bytes >= n_bytes)
		return block;
	size_t size = n_bytes > BLOCK_BYTES ? n_bytes : BLOCK_BYTES;
	if (size > heap->left_bytes)
		size = n_bytes; /* the last bytes of a small budget can be used too */
	heap->over_budget = size > heap->left_bytes;
	if (heap->over_budget || size > SIZE_MAX - sizeof *block)
		return NULL;
	block = malloc(sizeof *block + size);
	if (!block)
		return NULL;
	heap->left_bytes -= size;
	*block = (struct heap_block){.older = *newest, .n_bytes = size};
	*newest = block;
	return block;
}

void *heap_cells(struct heap *heap, size_t n, size_t size)
{
	size_t n_bytes;
	if (__builtin_mul_overflow(n, size, &n_bytes) || n_bytes > SIZE_MAX - alignof(max_align_t)) {
		heap->over_budget = true;
		return NULL;
	}
	n_bytes = (n_bytes + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
	struct heap_block *block = block_with_room(heap, &heap->cells, n_bytes);
	if (!block)
		return NULL;
	void *cells = block->data + block->used_bytes;
	block->used_bytes += n_bytes;
	return memset(cells, 0, n_bytes);
}

char *heap_bytes(struct heap *heap, size_t n_bytes)
{
	struct heap_block *block = block_with_room(heap, &heap->bytes, n_bytes);
	if (!block)
		return NULL;
	char *bytes = block->data + block->used_bytes;
	block->used_bytes += n_bytes;
	return bytes;
}

bool heap_extend(struct heap *heap, const char *end, size_t n_bytes)
{
	struct heap_block *block = heap->bytes;
	if (!block || end != block->data + block->used_bytes || block->n_bytes - block->used_bytes < n_bytes)
		return false;
	block->used_bytes += n_bytes;
	return true;
}
