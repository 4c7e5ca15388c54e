/* Memory of calls: one reservation of address space per worker, given out in page-aligned spans and given back to the
 * kernel span by span.
 *
 * Nothing is committed until it is touched; a released span loses its pages at once (MADV_DONTNEED), so that private
 * memory falls when its call ends, not when the process does. The counters are of spans handed out: an upper bound of
 * what is touched. One thread (the scheduler's) calls these functions. */
#ifndef WEIGHTD_ENGINE_ARENA_H
#define WEIGHTD_ENGINE_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "src/err.h"

struct arena {
	char *base;
	size_t reserved_bytes;
	size_t bytes, peak_bytes; /* handed out now, and at most so far */
	struct arena_hole *holes; /* free spans, sorted by offset, [n_holes] */
	uint32_t n_holes, holes_capacity;
	uint32_t n_spans; /* handed out now: at most n_spans + 1 holes lie between and around them */
};

struct arena_hole {
	size_t offset, n_bytes;
};

int arena_init(struct arena *arena, size_t reserved_bytes, struct err *err); /* -ENOMEM */
void arena_fini(struct arena *arena);

/* What a span of n_bytes takes: whole 4 KiB pages. */
size_t arena_span_bytes(size_t n_bytes);

/* Zeroed memory, a whole number of 4 KiB pages, aligned to them. NULL when no hole is large enough. */
void *arena_alloc(struct arena *arena, size_t n_bytes);
void arena_release(struct arena *arena, void *span, size_t n_bytes); /* takes NULL */

/* Part of a span loses its memory, not its place: the whole pages in it read as zeros again. */
void arena_discard(void *part, size_t n_bytes);

#endif
