/* The forward pass: rows of (token, position, sequence) through the model, all rows of a batch together.
 *
 * A batch is of one phase. PREFILL rows are prompt tokens (any number up to max_rows, several positions of one sequence
 * in a row, several sequences); their products go through gemm. DECODE rows are generated tokens, at most 32, one per
 * sequence or several positions of one that is replayed; their products are ours. Rows with different adapters and with
 * none run together. A row's result depends on its sequence, its phase, its adapter and, in a speech model's decoder,
 * its window of sound alone (see kernel.h). */
#ifndef WEIGHTD_ENGINE_FORWARD_H
#define WEIGHTD_ENGINE_FORWARD_H

#include <stdbool.h>

#include "src/engine/adapter.h"
#include "src/engine/kv.h"
#include "src/engine/model.h"
#include "src/engine/sampler.h"
#include "src/engine/speech_window.h"
#include "src/engine/team.h"
#include "src/kernel/gemm.h"
#include "src/kernel/kernel.h"

enum { DECODE_ROWS_MAX = 32, LOGIT_ROWS_MAX = 32 };

struct batch_row {
	uint32_t token;
	uint32_t position;
	struct kv_sequence *sequence;  /* has room for `position`; kv_advance is the caller's to do afterwards */
	const struct adapter *adapter; /* borrowed until the pass ends or the row is dropped; NULL: none */
	bool silent; /* only its keys and values are wanted: nobody will ask for its logits or states */
	/* Of a speech model: what is heard, borrowed until the pass ends or the row is dropped. Rows of one window that
	 * follow each other share the reads of it. */
	const struct speech_window *window;
	/* [n_heads of the speech table][encoder_context] becomes what these heads attend to, each summing to 1, for
	 * rows that are not silent. NULL: not wanted. */
	float *attended;
};

struct batch {
	enum phase phase;
	uint32_t n_rows;
	struct batch_row *rows; /* [n_rows]; rows of one sequence in order of position */
};

struct forward; /* one per worker */

struct forward_setup {
	const struct model *model; /* borrowed, all of these */
	/* [threads of the team] the copy of `model` that each thread reads: the same bytes, on its own node. NULL: all
	 * threads read `model`. */
	const struct model *const *copies;
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

/* The same in parts, so that passes of the other phase can run in between. forward_begin takes the batch, whose rows
 * have to stay where they are; forward_advance runs one layer and returns whether there are more to run. One pass per
 * phase. */
int forward_begin(struct forward *forward, const struct batch *batch);
bool forward_advance(struct forward *forward, enum phase phase);
/* Takes a sequence's rows out of the pass that is under way (their `sequence` becomes NULL): its pages are not touched
 * any more, nor is their adapter. Returns whether a pass is still under way: one that has lost all its rows is not. */
bool forward_drop(struct forward *forward, enum phase phase, const struct kv_sequence *sequence);

/* Logits of `n` (1..LOGIT_ROWS_MAX) rows of the batch that was run last, by row number, none of them silent, in that
 * batch's phase. Returns view [n][vocab] float32, valid until the next call of forward_*. */
const float *forward_logits(struct forward *forward, const uint32_t *rows, uint32_t n);

/* Hidden states of such rows behind the output norm. Returns view [n][dim] float32, valid likewise. */
const float *forward_states(struct forward *forward, const uint32_t *rows, uint32_t n);

/* The copy of the model that a thread of the team reads. View. */
const struct model *forward_model(const struct forward *forward, unsigned thread);

/* Room for sampling, [threads][vocab], in the scratch; valid like the logits. */
struct sampler_candidate *forward_candidates(struct forward *forward);

/* Memory that passes over n_prompt rows of prompts and n_answers answers, with the logits of these, take until they are
 * trimmed. */
size_t forward_scratch_bytes(const struct forward *forward, uint32_t n_prompt, uint32_t n_answers);

/* Gives back to the kernel what no pass has needed since the last forward_trim: rows of scratch beyond the widest pass,
 * or all of it when there was none. For somebody with a clock to call now and then. */
void forward_trim(struct forward *forward);
bool forward_at_rest(const struct forward *forward); /* there is none left */
/* Gives all scratch back. A pass that is under way is forgotten. */
void forward_rest(struct forward *forward);

/* *progress grows with every layer of every pass from now on (relaxed stores by the calling thread of forward_*, so
 * that thread may write it, too). NULL: nothing is counted. */
void forward_watch(struct forward *forward, uint64_t *progress);

/* Products of an activation batch with a weight matrix so far: one per layer and matrix, whatever the number of rows,
 * as long as there are rows: of silent ones the last layer multiplies three. */
uint64_t forward_products(const struct forward *forward);

/* Floating-point operations so far, a multiplication and an addition counted as two: of the products with the model's
 * matrices (2 m n k each), and of attention (2 for each component of a query head and each key, and as many for the
 * values). Adapters' products, which have rank / dim of a matrix's, are not counted. Differences are meant. */
struct forward_operations {
	uint64_t products, attention;
	uint64_t library; /* of the products, those that oneDNN made */
};
const struct forward_operations *forward_operations(const struct forward *forward);

#endif
