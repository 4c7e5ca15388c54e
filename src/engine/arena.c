#include "src/engine/arena.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE_BYTES = 4096 };

size_t arena_span_bytes(size_t n_bytes)
{
	return (n_bytes + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
}

int arena_init(struct arena *arena, size_t reserved_bytes, struct err *err)
{
	*arena = (struct arena){.reserved_bytes = arena_span_bytes(reserved_bytes), .holes_capacity = 64};
	arena->holes = malloc(arena->holes_capacity * sizeof *arena->holes);
	if (!arena->holes)
		return err_set(err, -ENOMEM, "no memory for the call arena's table");
	void *base = mmap(NULL, arena->reserved_bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED) {
		int code = -errno;
		free(arena->holes);
		arena->holes = NULL;
		return err_set(err, code, "cannot reserve %zu bytes of address space for calls: %s",
			       arena->reserved_bytes, strerror(-code));
	}
	arena->base = base;
	arena->holes[0] = (struct arena_hole){0, arena->reserved_bytes};
	arena->n_holes = 1;
	return 0;
}

void arena_fini(struct arena *arena)
{
	if (arena->base)
		munmap(arena->base, arena->reserved_bytes);
	free(arena->holes);
	*arena = (struct arena){0};
}

static void remove_hole(struct arena *arena, uint32_t at)
{
	memmove(&arena->holes[at], &arena->holes[at + 1], (arena->n_holes - at - 1) * sizeof *arena->holes);
	arena->n_holes--;
}

/* First fit keeps live spans at the low end, so the page tables stay small. */
void *arena_alloc(struct arena *arena, size_t n_bytes)
{
	if (n_bytes > arena->reserved_bytes)
		return NULL;
	n_bytes = arena_span_bytes(n_bytes);
	/* Giving spans back must not fail, so the table has room for all the holes they can leave before they are
	 * taken. */
	if (arena->n_spans + 2 > arena->holes_capacity) {
		struct arena_hole *more = realloc(arena->holes, 2 * (size_t)arena->holes_capacity * sizeof *more);
		if (!more)
			return NULL;
		arena->holes = more;
		arena->holes_capacity *= 2;
	}
	for (uint32_t i = 0; i < arena->n_holes; i++) {
		struct arena_hole *hole = &arena->holes[i];
		if (hole->n_bytes < n_bytes)
			continue;
		char *span = arena->base + hole->offset;
		hole->offset += n_bytes;
		hole->n_bytes -= n_bytes;
		if (!hole->n_bytes)
			remove_hole(arena, i);
		arena->n_spans++;
		arena->bytes += n_bytes;
		if (arena->bytes > arena->peak_bytes)
			arena->peak_bytes = arena->bytes;
		return span;
	}
	return NULL;
}

void arena_release(struct arena *arena, void *span, size_t n_bytes)
{
	if (!span)
		return;
	n_bytes = arena_span_bytes(n_bytes);
	size_t offset = (size_t)((char *)span - arena->base);
	assert(offset + n_bytes <= arena->reserved_bytes && arena->bytes >= n_bytes);
	madvise(span, n_bytes, MADV_DONTNEED);
	arena->bytes -= n_bytes;
	arena->n_spans--;
	uint32_t at = 0;
	while (at < arena->n_holes && arena->holes[at].offset < offset)
		at++;
	if (at > 0 && arena->holes[at - 1].offset + arena->holes[at - 1].n_bytes == offset) {
		at--;
		arena->holes[at].n_bytes += n_bytes;
	} else {
		assert(arena->n_holes < arena->holes_capacity);
		memmove(&arena->holes[at + 1], &arena->holes[at], (arena->n_holes - at) * sizeof *arena->holes);
		arena->holes[at] = (struct arena_hole){offset, n_bytes};
		arena->n_holes++;
	}
	struct arena_hole *hole = &arena->holes[at];
	if (at + 1 < arena->n_holes && hole->offset + hole->n_bytes == arena->holes[at + 1].offset) {
		hole->n_bytes += arena->holes[at + 1].n_bytes;
		remove_hole(arena, at + 1);
	}
}

void arena_discard(void *part, size_t n_bytes)
{
	char *begin = part, *end = begin + n_bytes;
	begin += -(uintptr_t)begin & (PAGE_BYTES - 1);
	end -= (uintptr_t)end & (PAGE_BYTES - 1);
	if (begin < end)
		madvise(begin, (size_t)(end - begin), MADV_DONTNEED);
}
