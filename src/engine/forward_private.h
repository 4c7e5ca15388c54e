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

/* A pass of one phase, and what it works on. */
struct pass {
	enum phase phase;
	uint32_t max_rows;
	struct lane lane;
	struct batch batch;
	bool under_way;
	uint32_t layer; /* the next one to run */
	size_t thread_bytes, gemm_bytes;

	float *x;	  /* [max_rows][dim] */
	float *h;	  /* [max_rows][max(dim, q_dim)] */
	float *q;	  /* [max_rows][q_dim] */
	float *k, *v;	  /* [max_rows][kv_dim] */
	float *gate, *up; /* [max_rows][ffn_dim]; gate is [max(ffn_dim, dim)] wide: it also takes attention's output */
	float *cos_sin;	  /* [max_rows][rope_dim], as rope_angles writes them */
	float *window_cos_sin;	/* the same for layers with a window, where they have a rotary base of their own */
	void *a;		/* PREFILL: [max_rows up to 32][max_cols] bfloat16 or float32, a product's operand */
	struct activations act; /* DECODE: a product's operand, [max_rows][max_cols] */
	uint32_t *adapted;	/* [max_rows] rows with an adapter, group by group */
	struct adapter_group *groups; /* [max_rows] */
	uint32_t n_groups;	      /* 0: no row has an adapter */
	float *t;		      /* [max_rows][FORWARD_T_COLS]: A x of the products of one operand */
	char *thread_scratch;	      /* [n_threads][thread_bytes]: gemm's panel, then the page lists of attention */
};

/* What is made of the rows whose logits are asked for. */
struct head {
	struct lane lane;
	const uint32_t *rows;
	uint32_t n;
	float *logits;			      /* [LOGIT_ROWS_MAX][vocab] */
	float *picked;			      /* [LOGIT_ROWS_MAX][dim] */
	struct sampler_candidate *candidates; /* [n_threads][vocab] */
};

struct forward {
	struct forward_setup setup;
	uint32_t q_dim, kv_dim, max_cols;
	uint64_t n_products;
	uint64_t *progress;
	struct rope rope, window_rope;
	void (*rotate)(float *x, const float *cos_sin, uint32_t n_heads, uint32_t head_dim, uint32_t rope_dim);
	void (*gate)(float *y, const float *gate, const float *up, uint32_t n);
	struct pass passes[2]; /* by phase */
	struct head head;

	/* The job at hand, read by all threads. */
	struct pass *pass;
	uint32_t layer_end;
};

/* One product's operand, staged in the pass at hand. */
struct operand {
	uint32_t n_rows, cols;
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
	const float *x;
	uint32_t cols;
	uint32_t n;
	struct product each[FORWARD_PRODUCTS_MAX];
};

/* The steps of a pass, each run by every thread: `thread` does its share. Those that say so end with a barrier. */

/* x [rows][dim] = the tokens' embeddings, and the angles of the rows' positions. */
void step_embed(struct forward *f, unsigned thread);
/* h [rows][dim] = x, normed. */
void step_norm(struct forward *f, unsigned thread, const float *weight);
/* Makes x [n_rows][cols] the operand of the products that follow; ends with a barrier. */
struct operand step_stage(struct forward *f, unsigned thread, const float *x, uint32_t n_rows, uint32_t cols);
/* y [n_rows][w->rows] = operand times W^T: this thread's share of the outputs. No barrier: the caller has several. */
void step_product(struct forward *f, unsigned thread, const struct matrix *w, struct operand operand, float *y);
/* y = x W^T for each of the products, and for rows with an adapter y += scale B (A x); ends with a barrier. */
void step_products(struct forward *f, unsigned thread, const struct products *products);
/* y [rows][n] += bias [n]; NULL: there is none. */
void step_bias(struct forward *f, unsigned thread, float *y, const float *bias, uint32_t n);
/* Norms each head of y [rows][n_heads][head_dim]; NULL: there is no such norm. */
void step_head_norm(struct forward *f, unsigned thread, float *y, const float *weight, uint32_t n_heads);
/* Rotates q and k, stores k and v in the sequences' pages; ends with a barrier. */
void step_rotate_and_store(struct forward *f, unsigned thread, uint32_t layer);
/* h [rows][q_dim] = attention; ends with a barrier. */
void step_attend(struct forward *f, unsigned thread, uint32_t layer);
/* gate [rows][ffn_dim] = activation(gate) * up */
void step_gate(struct forward *f, unsigned thread);
/* x += y [rows][dim], which is normed before where there is such a norm. */
void step_add(struct forward *f, unsigned thread, float *y, const float *post_norm);
/* Norms the rows whose logits are asked for. */
void step_pick(struct forward *f, unsigned thread);

/* --- forward_adapters.c --- */

/* Groups the rows of a pass's batch by their adapters. */
void adapters_group(struct pass *pass);
/* The two halves of an adapter's work, each a thread's share: pass->t = A x, which needs no more than that x is
 * complete; and y += scale B t, after a barrier. Nothing to do where no row has an adapter. */
void adapters_in(struct forward *f, unsigned thread, const struct products *products);
void adapters_out(struct forward *f, unsigned thread, const struct products *products);

#endif
