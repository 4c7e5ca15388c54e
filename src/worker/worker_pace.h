/* How much of a step the prompts may have while answers are being generated (key prefill_share).
 *
 * A step is one decode pass, then some layers of a prefill pass:
 *
 *   |-- decode --|- layer -|- layer -|-- decode --|- layer -|- layer -|-- decode --| ...
 *   |<----------- a stream's gap ---------------->|
 *
 * With a share of s the layers may take s / (1 - s) of what the decode pass took, so a stream's gap becomes at most
 * 1 / (1 - s) of the undisturbed one.
 *
 * Where several prompts wait, each counts: every further one adds a quarter of what the first has, up to PACE_TIMES_MAX.
 * With one share for all, the first answer of many users who come together would hold up all others as if only one
 * waited; with a whole share for each, the answers of a few users would stutter more than those users gain. The bound
 * is what keeps an answer alive beside any number of prompts: with a share of 50 its gap is 2, 2.25, 2.5 and at last
 * 10 times the undisturbed one.
 *
 * Two decisions follow. Within a step: does another layer still fit? It is assumed to take what the fastest of its pass
 * took. When a pass begins: how many rows? As many as make one layer fill most of the prompts' time. More rows are
 * cheaper by the row, as weights are expanded once per pass, and fewer keep the gap short; the eighth that is left
 * keeps a layer that takes a little longer from missing its step. Where even the widest pass has shorter layers,
 * several run in a step.
 *
 * Noise. On a busy machine a pass may take ten times as long as it would alone, and never less. So times are judged by
 * the smallest of several (the fastest of the last decode passes, the fastest layer of a pass): a disturbance makes no
 * budget larger and no pass narrower, and when answers become dearer for good, the budget follows a few steps later.
 * The number of rows at most doubles from one pass to the next. It may drop at once: a long context makes every row
 * dearer.
 *
 * At least one layer runs in each step, of PACE_ROWS_MIN rows at least, so no prompt starves whatever the share is. */
#ifndef WEIGHTD_WORKER_PACE_H
#define WEIGHTD_WORKER_PACE_H

#include <stdbool.h>
#include <stdint.h>

enum {
	PACE_ROWS_MIN = 16,	  /* below, a layer's time is that of expanding its weights */
	PACE_DECODES = 8,	  /* decode passes that are compared */
	PACE_TIMES_MAX = 9,	  /* of a decode pass, what all prompts may take in a step: 90 percent of it */
	PACE_ALONE_NS = 20000000, /* prompts alone: how long records from the front may lie unread */
};

struct pace {
	uint32_t share;			  /* of a prompt alone beside answers; percent, 1..100 */
	uint32_t max_rows;		  /* of a pass */
	bool alone;			  /* no answer was extended in this step */
	uint64_t decode_ns[PACE_DECODES]; /* the last ones, [n_decodes % PACE_DECODES] is the oldest */
	uint32_t n_decodes;		  /* since prompts had a step alone */
	uint64_t budget_ns, spent_ns;	  /* of this step's layers */
	uint32_t pass_rows;		  /* of the newest pass, 0: there was none yet */
	uint64_t layer_ns;		  /* its fastest layer, 0: none has run yet */
	uint32_t known_rows;		  /* the same of the newest pass wide enough to judge others by */
	uint64_t known_ns;
};

void pace_init(struct pace *pace, uint32_t share, uint32_t max_rows);
/* A step begins: its decode pass had n_rows (0: there was none) and took `ns`; now n_prompts wait. */
void pace_decoded(struct pace *pace, uint32_t n_rows, uint64_t ns, uint32_t n_prompts);
/* How many rows a pass that begins now may have, 1..max_rows. */
uint32_t pace_rows(const struct pace *pace);
/* A pass of n_rows has begun. */
void pace_began(struct pace *pace, uint32_t n_rows);
/* Other work for prompts (texts became tokens) took `ns` of this step's share. Whether there is any left. */
bool pace_spend(struct pace *pace, uint64_t ns);
/* A layer took `ns`. Whether another one belongs into this step. */
bool pace_layer(struct pace *pace, uint64_t ns);

#endif
