/* The forward pass of the llama family (RMSNorm, rotary positions, grouped-query attention, SwiGLU).
 *
 * Every compute thread runs the same function from top to bottom. Steps that work row by row (norm, residual, gate, and
 * staging an operand) give a thread the same rows each time, so they follow each other freely; a step whose output
 * other threads read ends at a barrier: staging, the products, storing keys and values, attention. Within a step the
 * threads divide outputs (block rows, panels, heads, rows), never sums, so how many there are cannot be seen in a
 * result.
 *
 *   x      [rows][dim]    residual stream            h      normed x, attention's output, gate * up: what a product
 * reads q k v  [rows][...]    one layer's projections    gate up [rows][ffn_dim]
 *
 * All of it is one span of the call arena, taken at the first pass after a rest and given back by forward_rest. */
#include "src/engine/forward.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };

struct forward {
	struct forward_setup setup;
	uint32_t q_dim, kv_dim, max_cols;
	uint64_t n_products;
	double frequency[128]; /* [rope_dim / 2] base^(-2i / rope_dim); the family bounds head_dim by 256 */

	void *scratch; /* in the arena; NULL at rest */
	size_t scratch_bytes;
	float *x;	  /* [max_rows][dim] */
	float *h;	  /* [max_rows][max(dim, q_dim)] */
	float *q;	  /* [max_rows][q_dim] */
	float *k, *v;	  /* [max_rows][kv_dim] */
	float *gate, *up; /* [max_rows][ffn_dim]; gate is [max(ffn_dim, dim)] wide: it also takes attention's output */
	float *cos_sin;	  /* [max_rows][rope_dim / 2][2] */
	void *a;	  /* [max_rows up to 32][max_cols] bfloat16 or float32: a prefill product's operand */
	struct activations act;		      /* a decode product's operand, [32][max_cols] */
	float *logits;			      /* [LOGIT_ROWS_MAX][vocab] */
	struct sampler_candidate *candidates; /* [n_threads][vocab] */
	float *picked;			      /* [LOGIT_ROWS_MAX][dim]: the rows whose logits are asked for */
	char *thread_scratch; /* [n_threads][thread_bytes]: gemm's panel, then the page lists of attention */
	size_t thread_bytes, gemm_bytes;

	/* The job at hand, read by all threads. */
	struct batch batch;
	const uint32_t *logit_rows;
	uint32_t n_logits;
};

/* One product's operand, staged for the phase at hand. */
struct operand {
	enum phase phase;
	uint32_t n_rows, cols;
};

static uint32_t max_u32(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* --- scratch ---------------------------------------------------------------------------------- */

static size_t take(size_t *at, size_t bytes)
{
	size_t here = *at;
	*at += (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
	return here;
}

/* Places every array behind `base`; called with NULL to learn the size. */
static size_t lay_out(struct forward *f, char *base)
{
	const struct image_config *c = &f->setup.model->config;
	size_t at = 0, rows = f->setup.max_rows;
	size_t padded = (rows + 31) & ~(size_t)31, element = f->setup.numerics == NUMERICS_BF16 ? 2 : 4;
#define PLACE(field, bytes)                                      \
	do {                                                     \
		size_t here_ = take(&at, (bytes));               \
		f->field = base ? (void *)(base + here_) : NULL; \
	} while (0)
	PLACE(x, rows * c->dim * 4);
	PLACE(h, rows * max_u32(c->dim, f->q_dim) * 4);
	PLACE(q, rows * f->q_dim * 4);
	PLACE(k, rows * f->kv_dim * 4);
	PLACE(v, rows * f->kv_dim * 4);
	PLACE(gate, rows * max_u32(c->ffn_dim, c->dim) * 4);
	PLACE(up, rows * c->ffn_dim * 4);
	PLACE(cos_sin, rows * c->rope_dim * 4);
	PLACE(a, padded * f->max_cols * element);
	PLACE(act.f32, DECODE_ROWS_MAX * (size_t)f->max_cols * 4);
	PLACE(act.bf16, DECODE_ROWS_MAX * (size_t)f->max_cols * 2);
	PLACE(act.group_sum, DECODE_ROWS_MAX * (size_t)(f->max_cols / PACK_GROUP) * 4);
	PLACE(logits, LOGIT_ROWS_MAX * (size_t)c->vocab * 4);
	PLACE(candidates, team_n_threads(f->setup.team) * (size_t)c->vocab * sizeof *f->candidates);
	PLACE(picked, LOGIT_ROWS_MAX * (size_t)c->dim * 4);
	PLACE(thread_scratch, team_n_threads(f->setup.team) * f->thread_bytes);
#undef PLACE
	return at;
}

int forward_new(const struct forward_setup *setup, struct forward **out, struct err *err)
{
	struct forward *f = calloc(1, sizeof *f);
	if (!f)
		return err_set(err, -ENOMEM, "no memory for the forward pass");
	const struct image_config *c = &setup->model->config;
	f->setup = *setup;
	f->setup.max_rows = max_u32(setup->max_rows, DECODE_ROWS_MAX);
	f->q_dim = c->n_heads * c->head_dim;
	f->kv_dim = c->n_kv_heads * c->head_dim;
	f->max_cols = max_u32(max_u32(c->dim, f->q_dim), c->ffn_dim);
	assert(c->rope_dim / 2 <= sizeof f->frequency / sizeof *f->frequency);
	for (uint32_t i = 0; i < c->rope_dim; i += 2)
		f->frequency[i / 2] = pow(c->rope_base, -(double)i / c->rope_dim);
	f->gemm_bytes = (gemm_scratch_bytes(setup->gemm) + ALIGN - 1) & ~(size_t)(ALIGN - 1);
	f->thread_bytes = f->gemm_bytes + 2 * (size_t)kv_pages_for(setup->max_context) * sizeof(void *);
	f->thread_bytes = (f->thread_bytes + 4095) & ~(size_t)4095;
	f->scratch_bytes = lay_out(f, NULL);
	*out = f;
	return 0;
}

void forward_free(struct forward *f)
{
	if (!f)
		return;
	forward_rest(f);
	free(f);
}

static void release_hardware(void *arg, unsigned thread)
{
	const struct forward *f = arg;
	(void)thread;
	gemm_release_thread(f->setup.gemm);
}

void forward_rest(struct forward *f)
{
	if (!f->scratch)
		return;
	team_run(f->setup.team, release_hardware, f); /* AMX tiles are state of each thread */
	arena_release(f->setup.arena, f->scratch, f->scratch_bytes);
	f->scratch = NULL;
}

static int wake(struct forward *f)
{
	if (f->scratch)
		return 0;
	f->scratch = arena_alloc(f->setup.arena, f->scratch_bytes);
	if (!f->scratch)
		return -ENOMEM;
	lay_out(f, f->scratch);
	return 0;
}

struct sampler_candidate *forward_candidates(struct forward *f)
{
	return f->candidates;
}

uint64_t forward_products(const struct forward *f)
{
	return f->n_products;
}

/* --- steps, each run by every thread ---------------------------------------------------------- */

static void barrier(struct forward *f)
{
	team_barrier(f->setup.team);
}

static void share(struct forward *f, uint32_t n, unsigned thread, uint32_t *begin, uint32_t *end)
{
	team_share(n, thread, team_n_threads(f->setup.team), begin, end);
}

/* Makes x [n_rows][cols] the operand of the products that follow; ends with a barrier. */
static struct operand stage(struct forward *f, unsigned thread, const float *x, uint32_t n_rows, uint32_t cols)
{
	const struct kernels *kernels = f->setup.kernels;
	struct operand operand = {f->batch.phase, n_rows, cols};
	uint32_t begin, end;
	share(f, n_rows, thread, &begin, &end);
	size_t from = (size_t)begin * cols, n = (size_t)(end - begin) * cols;
	if (end > begin && operand.phase == PHASE_DECODE) {
		struct activations part = {
			.f32 = f->act.f32 + from,
			.bf16 = f->act.bf16 + from,
			.group_sum = f->act.group_sum + from / PACK_GROUP,
			.n_rows = end - begin,
			.cols = cols,
		};
		kernels->prepare(&part, x + from, f->setup.numerics);
	} else if (end > begin && f->setup.numerics == NUMERICS_BF16) {
		kernels->to_bf16((uint16_t *)f->a + from, x + from, (uint32_t)n);
	} else if (end > begin) {
		memcpy((float *)f->a + from, x + from, n * sizeof(float));
	}
	barrier(f);
	return operand;
}

/* y [n_rows][w->rows] = operand times W^T: this thread's share of the outputs. No barrier: the caller has several. */
static void product(struct forward *f, unsigned thread, const struct matrix *w, struct operand operand, float *y)
{
	uint32_t begin, end;
	if (thread == 0)
		f->n_products++;
	if (operand.phase == PHASE_DECODE) {
		struct activations act = f->act;
		act.n_rows = operand.n_rows;
		act.cols = operand.cols;
		share(f, (w->rows + PACK_ROWS - 1) / PACK_ROWS, thread, &begin, &end);
		f->setup.kernels->decode_product(w, begin, end, &act, y, w->rows, f->setup.numerics);
	} else {
		share(f, gemm_n_panels(w), thread, &begin, &end);
		gemm_run(f->setup.gemm, w, begin, end, f->a, operand.n_rows, y, w->rows,
			 f->thread_scratch + thread * f->thread_bytes);
	}
}

static void norm(struct forward *f, unsigned thread, const float *weight)
{
	const struct image_config *c = &f->setup.model->config;
	uint32_t begin, end;
	share(f, f->batch.n_rows, thread, &begin, &end);
	for (uint32_t r = begin; r < end; r++)
		f->setup.kernels->rms_norm(f->h + (size_t)r * c->dim, f->x + (size_t)r * c->dim, weight, c->dim,
					   c->norm_eps);
}

/* Angles of each row's position: theta_i = position * frequency_i. In double: at position 8191 a float32
 * angle is already off by 5e-4. */
static void angles(struct forward *f, unsigned thread)
{
	const struct image_config *c = &f->setup.model->config;
	uint32_t begin, end;
	share(f, f->batch.n_rows, thread, &begin, &end);
	for (uint32_t r = begin; r < end; r++) {
		float *out = f->cos_sin + (size_t)r * c->rope_dim;
		for (uint32_t i = 0; i < c->rope_dim; i += 2) {
			double theta = f->batch.rows[r].position * f->frequency[i / 2];
			out[i] = (float)cos(theta);
			out[i + 1] = (float)sin(theta);
		}
	}
}

static void embed(struct forward *f, unsigned thread)
{
	const struct model *m = f->setup.model;
	uint32_t begin, end;
	share(f, f->batch.n_rows, thread, &begin, &end);
	for (uint32_t r = begin; r < end; r++)
		f->setup.kernels->expand_row(&m->token_embd, f->batch.rows[r].token, f->x + (size_t)r * m->config.dim);
	angles(f, thread);
}

/* Stores one row's rotated key and its value in their page. */
static void store_kv(struct forward *f, uint32_t layer, uint32_t row)
{
	const struct image_config *c = &f->setup.model->config;
	const struct batch_row *r = &f->batch.rows[row];
	uint16_t *page = r->sequence->pages[r->position / KV_PAGE_TOKENS];
	uint32_t slot = r->position % KV_PAGE_TOKENS, d = c->head_dim;
	uint16_t key[256];
	assert(d <= sizeof key / sizeof *key);
	for (uint32_t head = 0; head < c->n_kv_heads; head++) {
		size_t from = (size_t)row * f->kv_dim + (size_t)head * d;
		uint16_t *keys = kv_keys(f->setup.kv, page, layer, head);
		f->setup.kernels->to_bf16(key, f->k + from, d);
		for (uint32_t i = 0; i < d; i++)
			keys[(size_t)i * KV_PAGE_TOKENS + slot] = key[i];
		f->setup.kernels->to_bf16(kv_values(f->setup.kv, page, layer, head) + (size_t)slot * d, f->v + from, d);
	}
}

static void rotate_and_store(struct forward *f, unsigned thread, uint32_t layer)
{
	const struct image_config *c = &f->setup.model->config;
	const struct kernels *kernels = f->setup.kernels;
	uint32_t begin, end;
	share(f, f->batch.n_rows, thread, &begin, &end);
	for (uint32_t r = begin; r < end; r++) {
		const float *cs = f->cos_sin + (size_t)r * c->rope_dim;
		kernels->rope_pairs(f->q + (size_t)r * f->q_dim, cs, c->n_heads, c->head_dim, c->rope_dim);
		kernels->rope_pairs(f->k + (size_t)r * f->kv_dim, cs, c->n_kv_heads, c->head_dim, c->rope_dim);
		store_kv(f, layer, r);
	}
	barrier(f);
}

/* h [rows][q_dim] = attention: the threads divide (row, KV head) pairs. */
static void attend(struct forward *f, unsigned thread, uint32_t layer)
{
	const struct image_config *c = &f->setup.model->config;
	uint32_t group = c->n_heads / c->n_kv_heads, begin, end;
	const uint16_t **k = (void *)(f->thread_scratch + thread * f->thread_bytes + f->gemm_bytes);
	const uint16_t **v = k + kv_pages_for(f->setup.max_context);
	float scale = 1.0f / sqrtf((float)c->head_dim);
	share(f, f->batch.n_rows * c->n_kv_heads, thread, &begin, &end);
	for (uint32_t item = begin; item < end; item++) {
		uint32_t row = item / c->n_kv_heads, head = item % c->n_kv_heads;
		const struct batch_row *r = &f->batch.rows[row];
		uint32_t n_pages = kv_pages_for(r->position + 1);
		for (uint32_t p = 0; p < n_pages; p++) {
			k[p] = kv_keys(f->setup.kv, r->sequence->pages[p], layer, head);
			v[p] = kv_values(f->setup.kv, r->sequence->pages[p], layer, head);
		}
		size_t at = (size_t)row * f->q_dim + (size_t)head * group * c->head_dim;
		struct attention a = {
			.q = f->q + at,
			.out = f->h + at,
			.k = k,
			.v = v,
			.n_q = group,
			.head_dim = c->head_dim,
			.n_tokens = r->position + 1,
			.scale = scale,
		};
		f->setup.kernels->attention(&a);
	}
	barrier(f);
}

/* x += y, row-wise [n_rows][dim] */
static void add_residual(struct forward *f, unsigned thread, const float *y)
{
	uint32_t dim = f->setup.model->config.dim, begin, end;
	share(f, f->batch.n_rows, thread, &begin, &end);
	for (uint32_t r = begin; r < end; r++)
		f->setup.kernels->add(f->x + (size_t)r * dim, y + (size_t)r * dim, dim);
}

static void gate_up(struct forward *f, unsigned thread)
{
	uint32_t n = f->setup.model->config.ffn_dim, begin, end;
	share(f, f->batch.n_rows, thread, &begin, &end);
	for (uint32_t r = begin; r < end; r++)
		f->setup.kernels->swiglu(f->gate + (size_t)r * n, f->gate + (size_t)r * n, f->up + (size_t)r * n, n);
}

/* --- the pass --------------------------------------------------------------------------------- */

/* An adapter's delta belongs after each product() and before what follows it; nothing is fused across that point. */
static void layer_pass(struct forward *f, unsigned thread, uint32_t layer)
{
	const struct model_layer *l = &f->setup.model->layers[layer];
	const struct image_config *c = &f->setup.model->config;
	uint32_t n = f->batch.n_rows;

	norm(f, thread, l->attn_norm);
	struct operand h = stage(f, thread, f->h, n, c->dim);
	product(f, thread, &l->attn_q, h, f->q);
	product(f, thread, &l->attn_k, h, f->k);
	product(f, thread, &l->attn_v, h, f->v);
	barrier(f);
	rotate_and_store(f, thread, layer);
	attend(f, thread, layer);
	struct operand heads = stage(f, thread, f->h, n, f->q_dim);
	product(f, thread, &l->attn_output, heads, f->gate); /* gate is free until the FFN */
	barrier(f);
	add_residual(f, thread, f->gate);

	norm(f, thread, l->ffn_norm);
	h = stage(f, thread, f->h, n, c->dim);
	product(f, thread, &l->ffn_gate, h, f->gate);
	product(f, thread, &l->ffn_up, h, f->up);
	barrier(f);
	gate_up(f, thread);
	struct operand inner = stage(f, thread, f->gate, n, c->ffn_dim);
	product(f, thread, &l->ffn_down, inner, f->h);
	barrier(f);
	add_residual(f, thread, f->h);
}

static void pass(void *arg, unsigned thread)
{
	struct forward *f = arg;
	embed(f, thread);
	for (uint32_t layer = 0; layer < f->setup.model->config.n_layers; layer++)
		layer_pass(f, thread, layer);
}

int forward_run(struct forward *f, const struct batch *batch)
{
	assert(batch->n_rows > 0 && batch->n_rows <= f->setup.max_rows);
	assert(batch->phase == PHASE_PREFILL || batch->n_rows <= DECODE_ROWS_MAX);
	int rc = wake(f);
	if (rc)
		return rc;
	f->batch = *batch;
	team_run(f->setup.team, pass, f);
	return 0;
}

static void head_pass(void *arg, unsigned thread)
{
	struct forward *f = arg;
	const struct model *m = f->setup.model;
	uint32_t dim = m->config.dim, begin, end;
	share(f, f->n_logits, thread, &begin, &end);
	for (uint32_t i = begin; i < end; i++)
		f->setup.kernels->rms_norm(f->picked + (size_t)i * dim, f->x + (size_t)f->logit_rows[i] * dim,
					   m->output_norm, dim, m->config.norm_eps);
	struct operand picked = stage(f, thread, f->picked, f->n_logits, dim);
	product(f, thread, &m->head, picked, f->logits);
}

const float *forward_logits(struct forward *f, const uint32_t *rows, uint32_t n)
{
	assert(f->scratch && n > 0 && n <= LOGIT_ROWS_MAX);
	f->logit_rows = rows;
	f->n_logits = n;
	team_run(f->setup.team, head_pass, f);
	return f->logits;
}
