/* What forward.c (passes) and forward_steps.c (what a layer consists of) share. */
#ifndef WEIGHTD_ENGINE_FORWARD_PRIVATE_H
#define WEIGHTD_ENGINE_FORWARD_PRIVATE_H

#include "src/engine/forward.h"
#include "src/engine/lane.h"
#include "src/engine/rope.h"

/* Rows of a batch that have the same adapter: pass->adapted[first .. first + n). */
struct adapter_group {
	const struct adapter *adapter;
	uint32_t first, n;
};

/* How threads divide steps that go row by row. In a wide pass each takes some of the rows. In a narrow one, of so few
 * rows that waiting for each other costs more than the steps, each does them for all rows, in memory of its own: the
 * rows of an array behind those that all threads share. */
enum { NARROW_ROWS = 2 };

struct rows {
	uint32_t begin, end; /* of the batch, this thread's */
	uint32_t own;	     /* the first of its own rows of an array; 0: there are none, all rows are shared */
};

/* A pass of one phase, and what it works on. Arrays marked * are a thread's own in a narrow pass. */
struct pass {
	enum phase phase;
	uint32_t max_rows;
	struct lane lane;
	struct batch batch;
	bool under_way;
	bool attends_itself; /* some row attends to what another one of the pass stores */
	uint32_t layer;	     /* the next one to run */
	uint32_t n_rows;     /* of the batch that came; batch.n_rows are what is left of it in the last layer */
	size_t thread_bytes, gemm_bytes, lists_bytes;

	float *x;	  /* * [max_rows][dim] */
	float *h;	  /* * [max_rows][max(dim, q_dim)]; shared rows for attention's output and the layer's last */
	float *q;	  /* [max_rows][q_dim] */
	float *k, *v;	  /* [max_rows][kv_dim] */
	float *gate, *up; /* [max_rows][ffn_dim] */
	float *attended;  /* [max_rows][dim] attention's output, projected; where gate is in a wide pass */
	float *cos_sin;	  /* * [max_rows][rope_dim], as rope_angles writes them */
	float *window_cos_sin;	  /* the same for layers with a window, where they have a rotary base of their own */
	void *a;		  /* PREFILL: [max_rows up to 32][max_cols] bfloat16 or float32, a product's operand */
	struct activations act;	  /* DECODE: * a product's operand, [max_rows][max_cols] */
	struct int8_group *bytes; /* the same with int8 numerics, else NULL: the rows' tiles one after the other,
				     in DECODE as many as rows, so that own rows have one of their own */
	struct batch_row *kept;	  /* [max_rows] the batch in the last layer, where some rows are silent */
	uint32_t *place;	  /* [max_rows] where in the batch a row that came is now; none for silent ones */
	uint32_t *adapted;	  /* [max_rows] rows with an adapter, group by group */
	struct adapter_group *groups; /* [max_rows] */
	uint32_t n_groups;	      /* 0: no row has an adapter */
	float *t;		      /* [max_rows][FORWARD_T_COLS]: A x of the products of one operand */
	char *thread_scratch;	      /* [n_threads][thread_bytes]: gemm's panel, then the page lists of attention,
				     then a struct cross_scratch's arrays */
};

/* What is made of the rows whose logits are asked for. */
struct head {
	struct lane lane;
	const uint32_t *rows;
	uint32_t n;
	float *logits;			      /* [LOGIT_ROWS_MAX][vocab] */
	float *picked;			      /* * [LOGIT_ROWS_MAX][dim] */
	struct sampler_candidate *candidates; /* [n_threads][vocab] */
};

struct forward {
	struct forward_setup setup;
	uint32_t q_dim, kv_dim, max_cols;
	enum numerics plain; /* of weights without codes */
	uint64_t n_products;
	struct forward_operations operations;
	uint64_t *progress;
	struct rope rope, window_rope;
	void (*rotate)(float *x, const float *cos_sin, uint32_t n_heads, uint32_t head_dim, uint32_t rope_dim);
	void (*gate)(float *y, const float *gate, const float *up, uint32_t n);
	void (*attention)(const struct attention *a);
	struct pass passes[2]; /* by phase */
	struct head head;

	/* The job at hand, read by all threads. */
	struct pass *pass;
	uint32_t layer_end;
};

/* One product's operand, staged in the pass at hand. */
struct operand {
	uint32_t n_rows, cols;
	uint32_t own; /* as in struct rows */
};

/* Products of one operand at most, and columns of pass->t. */
enum { FORWARD_PRODUCTS_MAX = 3, FORWARD_T_COLS = (int)FORWARD_PRODUCTS_MAX * ADAPTER_RANK_MAX };

struct product {
	enum adapter_product of;
	const struct matrix *w;
	float *y; /* [rows of the batch][w->rows] */
};

/* Products in one layer that have the operand x [rows of the batch][cols] in common. */
struct products {
	uint32_t layer;
	/* What each thread does with its share of the outputs before others see them; NULL: nothing. */
	void (*then)(struct forward *f, unsigned thread, const struct products *products);
	const float *bias; /* what `then` adds first; NULL: nothing */
	const float *x;
	uint32_t cols;
	uint32_t n;
	struct product each[FORWARD_PRODUCTS_MAX];
};

/* The steps of a pass, each run by every thread: `thread` does its share. Those that say so end with a barrier. */

/* This thread's rows of `n` in the phase of the pass at hand. */
struct rows rows_of(const struct forward *f, unsigned thread, uint32_t n);
/* Whether passes of `n` rows are narrow, and how many rows of the arrays they use. */
bool is_narrow(const struct forward *f, enum phase phase, uint32_t n);
uint32_t rows_used(const struct forward *f, enum phase phase, uint32_t n);
/* A thread's own rows of h, [n][dim]. */
float *own_h(const struct forward *f, struct rows rows);

/* x [rows][dim] = the tokens' embeddings, and the angles of the rows' positions. */
void step_embed(struct forward *f, unsigned thread);
/* h [rows][dim] = x, normed: by a layer norm where there is a bias. */
void step_norm(struct forward *f, unsigned thread, const float *weight, const float *bias);
/* Makes x [n_rows][products->cols] the operand of `products`, each of which follows; ends with a barrier unless it is
 * narrow. */
struct operand step_stage(struct forward *f, unsigned thread, const struct products *products, uint32_t n_rows);
/* y [n_rows][w->rows] = operand times W^T: this thread's share of the outputs. No barrier: the caller has several. */
void step_product(struct forward *f, unsigned thread, const struct matrix *w, struct operand operand, float *y);
/* y = x W^T for each of the products, and for rows with an adapter y += scale B (A x); ends with a barrier. */
void step_products(struct forward *f, unsigned thread, const struct products *products);
/* Biases, norms and rotates the heads of q, k and v, and stores k and v in the sequences' pages; ends with a barrier if
 * the pass attends itself. */
void step_heads(struct forward *f, unsigned thread, uint32_t layer);
/* Takes the rows out of a prompts' pass whose keys and values are all that is wanted, once the last layer has stored
 * them. Begins behind a barrier and ends with one. Returns whether any rows are left. */
bool step_keep(struct forward *f, unsigned thread);
/* h [rows][q_dim] = attention; ends with a barrier. */
void step_attend(struct forward *f, unsigned thread, uint32_t layer);
/* gate [rows][ffn_dim] = activation(gate) * up, for this thread's outputs of both. */
void step_gate(struct forward *f, unsigned thread, const struct products *products);
/* up [rows][ffn_dim] = gelu(up + bias), where there is no gate. */
void step_gelu(struct forward *f, unsigned thread, const struct products *products);
/* x += y [rows][dim] + bias, where there is one; y is normed before where there is such a norm (into h). */
void step_add(struct forward *f, unsigned thread, const float *y, const float *bias, const float *post_norm);
/* The feed-forward part of a layer: x += down(activation(gate) * up), or down(gelu(up)). */
void step_feed_forward(struct forward *f, unsigned thread, const struct model_layer *l, uint32_t layer);
/* Stores a head's key and value [head_dim] at a slot of a page. */
void store_head(const struct forward *f, void *keys, void *values, uint32_t slot, const float *k, const float *v);
/* Tells whoever watches that work goes on. */
void count_progress(struct forward *f);
/* Norms the rows whose logits are asked for. */
void step_pick(struct forward *f, unsigned thread);

/* --- forward_cross.c --- */

/* What each thread needs for attention to a window of sound, and for the encoder's. */
struct cross_scratch {
	const void **k, **v; /* [pages of a window] */
	float *q, *out;	     /* [CROSS_ROWS][head_dim] */
};
enum { CROSS_ROWS = 32 }; /* query rows that are attended together */
/* Places it at `at`, 64-byte aligned; NULL: none. Returns how many bytes it takes, 0 for models that do not hear. */
size_t cross_scratch_place(const struct forward *f, void *at, struct cross_scratch *out);
/* out [n][q_dim] = attention of q [n][q_dim] at one head to a window's positions in `layer`; n <= CROSS_ROWS. */
void cross_attend(const struct forward *f, const struct cross_scratch *scratch, const struct speech_window *window,
		  uint32_t layer, uint32_t head, const float *q, float *out, uint32_t n);
/* x += what a speech model's decoder layer hears, for rows with a window; nothing for others. */
void step_hear(struct forward *f, unsigned thread, uint32_t layer);

/* --- forward_adapters.c --- */

/* Groups the rows of a pass's batch by their adapters. */
void adapters_group(struct pass *pass);
/* The two halves of an adapter's work, each a thread's share: pass->t = A x, which needs no more than that x is
 * complete; and y += scale B t, after a barrier. Nothing to do where no row has an adapter. */
void adapters_in(struct forward *f, unsigned thread, const struct products *products);
void adapters_out(struct forward *f, unsigned thread, const struct products *products);

#endif
