/* The forward pass: rows of (token, position, sequence) through the model, all rows of a batch together.
 *
 * A batch is of one phase. PREFILL rows are prompt tokens (any number up to max_rows, several positions of one sequence
 * in a row, several sequences); their products go through gemm. DECODE rows are generated tokens, one per sequence, at
 * most 32; their products are ours. A row's result depends on its sequence and its phase alone (see kernel.h). */
#ifndef WEIGHTD_ENGINE_FORWARD_H
#define WEIGHTD_ENGINE_FORWARD_H

#include "src/engine/kv.h"
#include "src/engine/model.h"
#include "src/engine/sampler.h"
#include "src/engine/team.h"
#include "src/kernel/gemm.h"
#include "src/kernel/kernel.h"

enum phase { PHASE_PREFILL = 0, PHASE_DECODE = 1 };

enum { DECODE_ROWS_MAX = 32, LOGIT_ROWS_MAX = 32 };

struct batch_row {
	uint32_t token;
	uint32_t position;
	struct kv_sequence *sequence; /* has room for `position`; n_tokens is the caller's to advance afterwards */
};

struct batch {
	enum phase phase;
	uint32_t n_rows;
	struct batch_row *rows; /* [n_rows]; rows of one sequence in order of position */
};

struct forward; /* one per worker */

struct forward_setup {
	const struct model *model; /* borrowed, all of these */
	const struct kernels *kernels;
	const struct gemm *gemm;
	struct team *team;
	struct arena *arena;
	struct kv *kv;
	enum numerics numerics;
	uint32_t max_rows;    /* of a prefill batch */
	uint32_t max_context; /* positions of a sequence */
};

/* Returns owned. Batch scratch is not committed before the first pass. -ENOMEM. */
int forward_new(const struct forward_setup *setup, struct forward **out, struct err *err);
void forward_free(struct forward *forward);

/* Runs a batch: stores its keys and values, leaves the rows' hidden states for forward_logits. 0 or -ENOMEM (scratch).
 */
int forward_run(struct forward *forward, const struct batch *batch);

/* Logits of `n` (1..LOGIT_ROWS_MAX) rows of the last batch, by row number, in that batch's phase. Returns view
 * [n][vocab] float32, valid until the next call of forward_*. */
const float *forward_logits(struct forward *forward, const uint32_t *rows, uint32_t n);

/* Room for sampling, [threads][vocab], in the batch scratch; valid like the logits. */
struct sampler_candidate *forward_candidates(struct forward *forward);

/* Gives the batch scratch back to the kernel: for when nothing runs. */
void forward_rest(struct forward *forward);

/* Products of an activation batch with a weight matrix so far: one per layer and matrix, whatever the number of rows.
 */
uint64_t forward_products(const struct forward *forward);

#endif
