#include "src/engine/lane.h"

#include <assert.h>
#include <errno.h>

enum { ALIGN = 64 /* a cache line, and what the widest vector loads like */, PAGE_BYTES = 4096 };

void lane_clear(struct lane *lane)
{
	lane->n_bytes = lane->fixed_bytes = 0;
	lane->n_arrays = 0;
}

static void *place(struct lane *lane, size_t n_bytes)
{
	void *at = lane->span ? lane->span + lane->n_bytes : NULL;
	lane->n_bytes += (n_bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
	return at;
}

void *lane_place_fixed(struct lane *lane, size_t n_bytes)
{
	lane->n_bytes = (lane->n_bytes + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
	lane->fixed_bytes += n_bytes;
	return place(lane, n_bytes);
}

void *lane_place(struct lane *lane, uint32_t max_rows, size_t row_bytes)
{
	assert(lane->n_arrays < LANE_ARRAYS_MAX);
	lane->arrays[lane->n_arrays++] = (struct lane_array){lane->n_bytes, row_bytes};
	return place(lane, max_rows * row_bytes);
}

size_t lane_bytes(const struct lane *lane, uint32_t n_rows)
{
	size_t n_bytes = arena_span_bytes(lane->fixed_bytes);
	for (uint32_t i = 0; i < lane->n_arrays; i++)
		n_bytes += arena_span_bytes(n_rows * lane->arrays[i].row_bytes);
	return n_bytes;
}

int lane_wake(struct lane *lane, struct arena *arena)
{
	assert(!lane->span);
	lane->span = arena_alloc(arena, lane->n_bytes);
	return lane->span ? 0 : -ENOMEM;
}

void lane_release(struct lane *lane, struct arena *arena)
{
	arena_release(arena, lane->span, lane->n_bytes);
	lane->span = NULL;
	lane->written = lane->recent = 0;
}

void lane_use(struct lane *lane, uint32_t n_rows)
{
	if (n_rows > lane->recent)
		lane->recent = n_rows;
	if (n_rows > lane->written)
		lane->written = n_rows;
}

void lane_trim(struct lane *lane, struct arena *arena, uint32_t busy)
{
	uint32_t keep = lane->recent > busy ? lane->recent : busy;
	lane->recent = 0;
	if (!keep) {
		lane_release(lane, arena);
		return;
	}
	for (uint32_t i = 0; i < lane->n_arrays && keep < lane->written; i++) {
		const struct lane_array *a = &lane->arrays[i];
		arena_discard(lane->span + a->offset + keep * a->row_bytes, (lane->written - keep) * a->row_bytes);
	}
	lane->written = keep;
}
