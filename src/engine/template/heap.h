/* The memory of one compiled template, or of one rendering: two bump arenas that share a budget and are freed whole.
 *
 * Cells hold aligned structs, bytes hold text. They are apart so that the newest text often ends where the free space
 * begins: `a + b + c` then grows in place instead of copying the left side again (heap_extend). */
#ifndef WEIGHTD_ENGINE_TEMPLATE_HEAP_H
#define WEIGHTD_ENGINE_TEMPLATE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_block;

struct heap {
	struct heap_block *cells, *bytes; /* newest first */
	size_t left_bytes;		  /* of the budget */
	bool over_budget;		  /* why the last allocation failed: the budget (true) or the system (false) */
};

void heap_init(struct heap *heap, size_t budget_bytes);
void heap_fini(struct heap *heap);

/* Zeroed and aligned for any type. NULL: out of memory, see over_budget. */
void *heap_cells(struct heap *heap, size_t n, size_t size);
/* Not initialised, not aligned. */
char *heap_bytes(struct heap *heap, size_t n_bytes);
/* Adds n_bytes to the newest byte allocation if it ends at `end` and its block has room. */
bool heap_extend(struct heap *heap, const char *end, size_t n_bytes);

#endif
