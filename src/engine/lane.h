/* Working memory of passes: one span of the call arena, divided into arrays of rows, from which rows that are no longer
 * needed go back to the kernel one by one.
 *
 * The span is as long as the widest pass and costs nothing but addresses; memory is where rows were written. A pass
 * says how many rows it has (lane_use); now and then somebody with a clock trims: what no pass has needed since the
 * trim before is given back, and the whole span when there was no pass at all. So a burst of wide passes is forgotten
 * after two trims, and nothing is given back and faulted in again as long as the width stays the same.
 *
 *   span   = array 0 [max_rows][row_bytes], array 1, ..., then what does not depend on the width of a pass
 *   array  = [keep: written lately][to written: given back by a trim][never written]
 *
 * Rejected: a new span for each width (pointers change while a pass stands still, and taking a span can fail). */
#ifndef WEIGHTD_ENGINE_LANE_H
#define WEIGHTD_ENGINE_LANE_H

#include "src/engine/arena.h"

enum { LANE_ARRAYS_MAX = 20 };

struct lane {
	char *span;	    /* NULL at rest */
	size_t n_bytes;	    /* placed so far: the span's length once all is placed */
	size_t fixed_bytes; /* of these, what does not depend on the width of a pass */
	uint32_t written;   /* rows that may have memory */
	uint32_t recent;    /* the most rows in use since the last trim */
	uint32_t n_arrays;
	struct lane_array {
		size_t offset, row_bytes;
	} arrays[LANE_ARRAYS_MAX];
};

/* Starts the division anew: an owner places its arrays once before the lane has a span, which gives n_bytes, and once
 * after lane_wake, which gives the pointers. */
void lane_clear(struct lane *lane);
/* An array of rows. 64-byte aligned. NULL before there is a span. */
void *lane_place(struct lane *lane, uint32_t max_rows, size_t row_bytes);
/* Memory that is kept as long as the span. Begins at a page. */
void *lane_place_fixed(struct lane *lane, size_t n_bytes);

/* Memory that passes of n_rows leave behind until the next trim, in whole pages. For lanes at rest, too. */
size_t lane_bytes(const struct lane *lane, uint32_t n_rows);

/* Takes a span of n_bytes. -ENOMEM. */
int lane_wake(struct lane *lane, struct arena *arena);
void lane_release(struct lane *lane, struct arena *arena); /* takes a lane at rest */

/* The first n_rows of every array are about to be written. */
void lane_use(struct lane *lane, uint32_t n_rows);
/* Gives back what was not used since the last trim; the first `busy` rows stay. Releases the span if nothing is left.
 */
void lane_trim(struct lane *lane, struct arena *arena, uint32_t busy);

#endif
