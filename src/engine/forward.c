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
 * A pass can stop between two layers and go on later: each phase has a lane of its own, so decode passes run while a
 * prefill pass stands still. All of a lane is one span of the call arena, taken at its first pass and given back when
 * no pass has needed it for a while. A span is as large as the widest pass, but memory is there only for rows that were
 * written; what a wide pass left behind is given back by forward_trim. */
#include "src/engine/forward.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/lane.h"

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
	float *cos_sin;	  /* [max_rows][rope_dim / 2][2] */
	void *a;	  /* PREFILL: [max_rows up to 32][max_cols] bfloat16 or float32, a product's operand */
	struct activations act; /* DECODE: a product's operand, [max_rows][max_cols] */
	char *thread_scratch;	/* [n_threads][thread_bytes]: gemm's panel, then the page lists of attention */
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
	double frequency[128]; /* [rope_dim / 2] base^(-2i / rope_dim); the family bounds head_dim by 256 */
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

static uint32_t max_u32(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* --- memory ----------------------------------------------------------------------------------- */

static void lay_out_pass(struct forward *f, struct pass *p)
{
	const struct image_config *c = &f->setup.model->config;
	struct lane *l = &p->lane;
	uint32_t rows = p->max_rows;
	lane_clear(l);
	p->x = lane_place(l, rows, c->dim * sizeof(float));
	p->h = lane_place(l, rows, max_u32(c->dim, f->q_dim) * sizeof(float));
	p->q = lane_place(l, rows, f->q_dim * sizeof(float));
	p->k = lane_place(l, rows, f->kv_dim * sizeof(float));
	p->v = lane_place(l, rows, f->kv_dim * sizeof(float));
	p->gate = lane_place(l, rows, max_u32(c->ffn_dim, c->dim) * sizeof(float));
	p->up = lane_place(l, rows, c->ffn_dim * sizeof(float));
	p->cos_sin = lane_place(l, rows, c->rope_dim * sizeof(float));
	if (p->phase == PHASE_PREFILL) {
		size_t element = f->setup.numerics == NUMERICS_BF16 ? sizeof(uint16_t) : sizeof(float);
		p->a = lane_place(l, (rows + 31) & ~31u, f->max_cols * element);
	} else {
		p->act.f32 = lane_place(l, rows, f->max_cols * sizeof(float));
		p->act.bf16 = lane_place(l, rows, f->max_cols * sizeof(uint16_t));
		p->act.group_sum = lane_place(l, rows, f->max_cols / PACK_GROUP * sizeof(float));
	}
	p->thread_scratch = lane_place_fixed(l, team_n_threads(f->setup.team) * p->thread_bytes);
}

static void lay_out_head(struct forward *f)
{
	const struct image_config *c = &f->setup.model->config;
	struct head *head = &f->head;
	lane_clear(&head->lane);
	head->logits = lane_place(&head->lane, LOGIT_ROWS_MAX, c->vocab * sizeof(float));
	head->picked = lane_place(&head->lane, LOGIT_ROWS_MAX, c->dim * sizeof(float));
	head->candidates = lane_place_fixed(&head->lane, team_n_threads(f->setup.team) * (size_t)c->vocab *
								 sizeof *head->candidates);
}

static void init_pass(struct forward *f, enum phase phase, uint32_t max_rows, size_t gemm_bytes)
{
	struct pass *p = &f->passes[phase];
	p->phase = phase;
	p->max_rows = max_rows;
	p->gemm_bytes = gemm_bytes;
	p->thread_bytes = gemm_bytes + 2 * (size_t)kv_pages_for(f->setup.max_context) * sizeof(void *);
	p->thread_bytes = (p->thread_bytes + 4095) & ~(size_t)4095; /* threads share no page */
	lay_out_pass(f, p);
}

int forward_new(const struct forward_setup *setup, struct forward **out, struct err *err)
{
	struct forward *f = calloc(1, sizeof *f);
	if (!f)
		return err_set(err, -ENOMEM, "no memory for the forward pass");
	const struct image_config *c = &setup->model->config;
	f->setup = *setup;
	f->q_dim = c->n_heads * c->head_dim;
	f->kv_dim = c->n_kv_heads * c->head_dim;
	f->max_cols = max_u32(max_u32(c->dim, f->q_dim), c->ffn_dim);
	assert(c->rope_dim / 2 <= sizeof f->frequency / sizeof *f->frequency);
	for (uint32_t i = 0; i < c->rope_dim; i += 2)
		f->frequency[i / 2] = pow(c->rope_base, -(double)i / c->rope_dim);
	init_pass(f, PHASE_PREFILL, setup->max_rows, (gemm_scratch_bytes(setup->gemm) + 63) & ~(size_t)63);
	init_pass(f, PHASE_DECODE, DECODE_ROWS_MAX, 0);
	lay_out_head(f);
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

void forward_watch(struct forward *f, uint64_t *progress)
{
	f->progress = progress;
}

static int wake(struct forward *f, struct pass *p)
{
	int rc = 0;
	if (!p->lane.span && !(rc = lane_wake(&p->lane, f->setup.arena)))
		lay_out_pass(f, p);
	if (!rc && !f->head.lane.span && !(rc = lane_wake(&f->head.lane, f->setup.arena)))
		lay_out_head(f);
	return rc;
}

static void release_hardware(void *arg, unsigned thread)
{
	const struct forward *f = arg;
	(void)thread;
	gemm_release_thread(f->setup.gemm);
}

bool forward_at_rest(const struct forward *f)
{
	return !f->passes[PHASE_PREFILL].lane.span && !f->passes[PHASE_DECODE].lane.span;
}

static uint32_t rows_under_way(const struct pass *p)
{
	return p->under_way ? p->batch.n_rows : 0;
}

void forward_trim(struct forward *f)
{
	struct pass *prefill = &f->passes[PHASE_PREFILL], *decode = &f->passes[PHASE_DECODE];
	bool prefilled = prefill->lane.span;
	lane_trim(&prefill->lane, f->setup.arena, rows_under_way(prefill));
	lane_trim(&decode->lane, f->setup.arena, rows_under_way(decode));
	/* A pass under way will want logits of as many rows as it likes, from a span that wake() has promised it. */
	lane_trim(&f->head.lane, f->setup.arena, forward_at_rest(f) ? 0 : 1);
	if (prefilled && !prefill->lane.span)
		team_run(f->setup.team, release_hardware, f); /* AMX tiles are state of each thread */
}

void forward_rest(struct forward *f)
{
	f->passes[PHASE_PREFILL].under_way = f->passes[PHASE_DECODE].under_way = false;
	forward_trim(f); /* forgets the passes there were, */
	forward_trim(f); /* and the memory that none has needed since */
}

struct sampler_candidate *forward_candidates(struct forward *f)
{
	return f->head.candidates;
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
	struct operand operand = {n_rows, cols};
	uint32_t begin, end;
	share(f, n_rows, thread, &begin, &end);
	size_t from = (size_t)begin * cols, n = (size_t)(end - begin) * cols;
	if (end > begin && f->pass->phase == PHASE_DECODE) {
		struct activations part = {
			.f32 = f->pass->act.f32 + from,
			.bf16 = f->pass->act.bf16 + from,
			.group_sum = f->pass->act.group_sum + from / PACK_GROUP,
			.n_rows = end - begin,
			.cols = cols,
		};
		kernels->prepare(&part, x + from, f->setup.numerics);
	} else if (end > begin && f->setup.numerics == NUMERICS_BF16) {
		kernels->to_bf16((uint16_t *)f->pass->a + from, x + from, (uint32_t)n);
	} else if (end > begin) {
		memcpy((float *)f->pass->a + from, x + from, n * sizeof(float));
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
	if (f->pass->phase == PHASE_DECODE) {
		struct activations act = f->pass->act;
		act.n_rows = operand.n_rows;
		act.cols = operand.cols;
		share(f, (w->rows + PACK_ROWS - 1) / PACK_ROWS, thread, &begin, &end);
		f->setup.kernels->decode_product(w, begin, end, &act, y, w->rows, f->setup.numerics);
	} else {
		share(f, gemm_n_panels(w), thread, &begin, &end);
		gemm_run(f->setup.gemm, w, begin, end, f->pass->a, operand.n_rows, y, w->rows,
			 f->pass->thread_scratch + thread * f->pass->thread_bytes);
	}
}

static void norm(struct forward *f, unsigned thread, const float *weight)
{
	const struct image_config *c = &f->setup.model->config;
	uint32_t begin, end;
	share(f, f->pass->batch.n_rows, thread, &begin, &end);
	for (uint32_t r = begin; r < end; r++)
		f->setup.kernels->rms_norm(f->pass->h + (size_t)r * c->dim, f->pass->x + (size_t)r * c->dim, weight,
					   c->dim, c->norm_eps);
}

/* Angles of each row's position: theta_i = position * frequency_i. In double: at position 8191 a float32
 * angle is already off by 5e-4. */
static void angles(struct forward *f, unsigned thread)
{
	const struct image_config *c = &f->setup.model->config;
	uint32_t begin, end;
	share(f, f->pass->batch.n_rows, thread, &begin, &end);
	for (uint32_t r = begin; r < end; r++) {
		float *out = f->pass->cos_sin + (size_t)r * c->rope_dim;
		for (uint32_t i = 0; i < c->rope_dim; i += 2) {
			double theta = f->pass->batch.rows[r].position * f->frequency[i / 2];
			out[i] = (float)cos(theta);
			out[i + 1] = (float)sin(theta);
		}
	}
}

static void embed(struct forward *f, unsigned thread)
{
	const struct model *m = f->setup.model;
	uint32_t begin, end;
	share(f, f->pass->batch.n_rows, thread, &begin, &end);
	for (uint32_t r = begin; r < end; r++)
		f->setup.kernels->expand_row(&m->token_embd, f->pass->batch.rows[r].token,
					     f->pass->x + (size_t)r * m->config.dim);
	angles(f, thread);
}

/* Stores one row's rotated key and its value in their page. */
static void store_kv(struct forward *f, uint32_t layer, uint32_t row)
{
	const struct image_config *c = &f->setup.model->config;
	const struct batch_row *r = &f->pass->batch.rows[row];
	struct kv_page *page = r->sequence->pages[r->position / KV_PAGE_TOKENS];
	uint32_t slot = r->position % KV_PAGE_TOKENS, d = c->head_dim;
	uint16_t key[256];
	assert(d <= sizeof key / sizeof *key);
	assert(kv_may_store(page, slot, f->pass->batch.phase));
	for (uint32_t head = 0; head < c->n_kv_heads; head++) {
		size_t from = (size_t)row * f->kv_dim + (size_t)head * d;
		uint16_t *keys = kv_keys(f->setup.kv, page, layer, head);
		f->setup.kernels->to_bf16(key, f->pass->k + from, d);
		for (uint32_t i = 0; i < d; i++)
			keys[(size_t)i * KV_PAGE_TOKENS + slot] = key[i];
		f->setup.kernels->to_bf16(kv_values(f->setup.kv, page, layer, head) + (size_t)slot * d,
					  f->pass->v + from, d);
	}
}

static void rotate_and_store(struct forward *f, unsigned thread, uint32_t layer)
{
	const struct image_config *c = &f->setup.model->config;
	const struct kernels *kernels = f->setup.kernels;
	uint32_t begin, end;
	share(f, f->pass->batch.n_rows, thread, &begin, &end);
	for (uint32_t r = begin; r < end; r++) {
		const float *cs = f->pass->cos_sin + (size_t)r * c->rope_dim;
		kernels->rope_pairs(f->pass->q + (size_t)r * f->q_dim, cs, c->n_heads, c->head_dim, c->rope_dim);
		kernels->rope_pairs(f->pass->k + (size_t)r * f->kv_dim, cs, c->n_kv_heads, c->head_dim, c->rope_dim);
		if (f->pass->batch.rows[r].sequence)
			store_kv(f, layer, r);
	}
	barrier(f);
}

/* h [rows][q_dim] = attention: the threads divide (row, KV head) pairs. */
static void attend(struct forward *f, unsigned thread, uint32_t layer)
{
	const struct image_config *c = &f->setup.model->config;
	uint32_t group = c->n_heads / c->n_kv_heads, begin, end;
	const uint16_t **k = (void *)(f->pass->thread_scratch + thread * f->pass->thread_bytes + f->pass->gemm_bytes);
	const uint16_t **v = k + kv_pages_for(f->setup.max_context);
	share(f, f->pass->batch.n_rows * c->n_kv_heads, thread, &begin, &end);
	for (uint32_t item = begin; item < end; item++) {
		uint32_t row = item / c->n_kv_heads, head = item % c->n_kv_heads;
		const struct batch_row *r = &f->pass->batch.rows[row];
		if (!r->sequence)
			continue;
		uint32_t n_pages = kv_pages_for(r->position + 1);
		for (uint32_t p = 0; p < n_pages; p++) {
			assert(kv_may_read(r->sequence->pages[p], f->pass->batch.phase));
			k[p] = kv_keys(f->setup.kv, r->sequence->pages[p], layer, head);
			v[p] = kv_values(f->setup.kv, r->sequence->pages[p], layer, head);
		}
		size_t at = (size_t)row * f->q_dim + (size_t)head * group * c->head_dim;
		struct attention a = {
			.q = f->pass->q + at,
			.out = f->pass->h + at,
			.k = k,
			.v = v,
			.n_q = group,
			.head_dim = c->head_dim,
			.n_tokens = r->position + 1,
			.scale = c->attention_scale,
		};
		f->setup.kernels->attention(&a);
	}
	barrier(f);
}

/* x += y, row-wise [n_rows][dim] */
static void add_residual(struct forward *f, unsigned thread, const float *y)
{
	uint32_t dim = f->setup.model->config.dim, begin, end;
	share(f, f->pass->batch.n_rows, thread, &begin, &end);
	for (uint32_t r = begin; r < end; r++)
		f->setup.kernels->add(f->pass->x + (size_t)r * dim, y + (size_t)r * dim, dim);
}

static void gate_up(struct forward *f, unsigned thread)
{
	uint32_t n = f->setup.model->config.ffn_dim, begin, end;
	share(f, f->pass->batch.n_rows, thread, &begin, &end);
	for (uint32_t r = begin; r < end; r++)
		f->setup.kernels->swiglu(f->pass->gate + (size_t)r * n, f->pass->gate + (size_t)r * n,
					 f->pass->up + (size_t)r * n, n);
}

/* --- the pass --------------------------------------------------------------------------------- */

/* An adapter's delta belongs after each product() and before what follows it; nothing is fused across that point. */
static void layer_pass(struct forward *f, unsigned thread, uint32_t layer)
{
	const struct model_layer *l = &f->setup.model->layers[layer];
	const struct image_config *c = &f->setup.model->config;
	uint32_t n = f->pass->batch.n_rows;

	norm(f, thread, l->attn_norm);
	struct operand h = stage(f, thread, f->pass->h, n, c->dim);
	product(f, thread, &l->attn_q, h, f->pass->q);
	product(f, thread, &l->attn_k, h, f->pass->k);
	product(f, thread, &l->attn_v, h, f->pass->v);
	barrier(f);
	rotate_and_store(f, thread, layer);
	attend(f, thread, layer);
	struct operand heads = stage(f, thread, f->pass->h, n, f->q_dim);
	product(f, thread, &l->attn_output, heads, f->pass->gate); /* gate is free until the FFN */
	barrier(f);
	add_residual(f, thread, f->pass->gate);

	norm(f, thread, l->ffn_norm);
	h = stage(f, thread, f->pass->h, n, c->dim);
	product(f, thread, &l->ffn_gate, h, f->pass->gate);
	product(f, thread, &l->ffn_up, h, f->pass->up);
	barrier(f);
	gate_up(f, thread);
	struct operand inner = stage(f, thread, f->pass->gate, n, c->ffn_dim);
	product(f, thread, &l->ffn_down, inner, f->pass->h);
	barrier(f);
	add_residual(f, thread, f->pass->h);
}

/* Relaxed, and no atomic addition: one thread writes, and readers compare the value with an older one (forward.h). */
static void count_progress(struct forward *f)
{
	if (f->progress)
		__atomic_store_n(f->progress, *f->progress + 1, __ATOMIC_RELAXED);
}

static void pass_layers(void *arg, unsigned thread)
{
	struct forward *f = arg;
	if (f->pass->layer == 0)
		embed(f, thread);
	for (uint32_t layer = f->pass->layer; layer < f->layer_end; layer++) {
		layer_pass(f, thread, layer);
		if (thread == 0)
			count_progress(f);
	}
}

static void run_to(struct forward *f, struct pass *p, uint32_t layer_end)
{
	f->pass = p;
	f->layer_end = layer_end;
	team_run(f->setup.team, pass_layers, f);
	p->layer = layer_end;
	p->under_way = layer_end < f->setup.model->config.n_layers;
}

int forward_begin(struct forward *f, const struct batch *batch)
{
	struct pass *p = &f->passes[batch->phase];
	assert(batch->n_rows > 0 && batch->n_rows <= p->max_rows && !p->under_way);
	int rc = wake(f, p);
	if (rc)
		return rc;
	lane_use(&p->lane, batch->n_rows);
	p->batch = *batch;
	p->layer = 0;
	p->under_way = true;
	return 0;
}

bool forward_advance(struct forward *f, enum phase phase)
{
	struct pass *p = &f->passes[phase];
	assert(p->under_way);
	run_to(f, p, p->layer + 1);
	return p->under_way;
}

int forward_run(struct forward *f, const struct batch *batch)
{
	int rc = forward_begin(f, batch);
	if (!rc)
		run_to(f, &f->passes[batch->phase], f->setup.model->config.n_layers);
	return rc;
}

bool forward_drop(struct forward *f, enum phase phase, const struct kv_sequence *sequence)
{
	struct pass *p = &f->passes[phase];
	bool alive = false;
	for (uint32_t r = 0; p->under_way && r < p->batch.n_rows; r++) {
		struct batch_row *row = &p->batch.rows[r];
		if (row->sequence == sequence)
			row->sequence = NULL;
		alive |= row->sequence != NULL;
	}
	p->under_way = alive;
	return alive;
}

static void head_pass(void *arg, unsigned thread)
{
	struct forward *f = arg;
	const struct model *m = f->setup.model;
	uint32_t dim = m->config.dim, begin, end;
	share(f, f->head.n, thread, &begin, &end);
	for (uint32_t i = begin; i < end; i++)
		f->setup.kernels->rms_norm(f->head.picked + (size_t)i * dim, f->pass->x + (size_t)f->head.rows[i] * dim,
					   m->output_norm, dim, m->config.norm_eps);
	struct operand picked = stage(f, thread, f->head.picked, f->head.n, dim);
	product(f, thread, &m->head, picked, f->head.logits);
}

const float *forward_logits(struct forward *f, const uint32_t *rows, uint32_t n)
{
	assert(f->pass && !f->pass->under_way && n > 0 && n <= LOGIT_ROWS_MAX);
	lane_use(&f->head.lane, n);
	f->head.rows = rows;
	f->head.n = n;
	team_run(f->setup.team, head_pass, f);
	return f->head.logits;
}
