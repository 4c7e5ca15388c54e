/* An encoder's layer needs all keys and values before its first row can attend, so each is two sweeps over the
 * positions, ENCODER_ROWS of them at a time:
 *
 *   convolve   x = gelu(conv2(gelu(conv1(mel)))) + positions           convolutions are products over frames laid side
 * by side layers     keys:   h = norm(x), k, v                               -> pages of the window rest:   h =
 * norm(x), q, attention to those pages, x += ..., x += feed-forward(norm(x)) hear       h = output norm(x), k, v of
 * every decoder layer         -> pages of the window
 *
 * A layer's keys and values are kept where the decoder's first layer will have its own at the end, so they take no
 * memory of their own, and attention is that of a decoder row (forward_cross.c). Only x is there for all positions.
 * Each part is a job of the team. What a step needs to know is in a struct pass, as in other passes; its rows are the
 * part's. */
#include "src/engine/speech/encoder.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/forward_private.h"

enum { ENCODER_ROWS = 512, STORE_ROWS = KV_PAGE_TOKENS };

enum part { PART_CONVOLVE, PART_KEYS, PART_REST, PART_HEAR, PART_NONE };

struct encoder {
	struct forward *forward;
	struct pass pass;
	char *span; /* NULL: no window is under way */
	size_t n_bytes;
	float *x;      /* [encoder_context][dim] */
	float *frames; /* [2 * ENCODER_ROWS + 1][dim] the first convolution; where h, q and k are later */
	float *side;   /* [..][3 * channels] frames side by side; where `up` is later */

	const float *mel;
	uint32_t n_frames;
	struct speech_window *window;
	enum part part;
	uint32_t layer, first; /* the next part's */
};

static const struct image_config *config_of(const struct encoder *e)
{
	return &e->forward->setup.model->config;
}

static size_t max_size(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* --- memory ----------------------------------------------------------------------------------- */

static void *place(struct encoder *e, size_t n_bytes)
{
	void *at = e->span ? e->span + e->n_bytes : NULL;
	e->n_bytes += (n_bytes + 63) & ~(size_t)63;
	return at;
}

static void lay_out(struct encoder *e)
{
	struct forward *f = e->forward;
	const struct image_config *c = config_of(e);
	const struct model_encoder *m = &f->setup.model->encoder;
	size_t rows = ENCODER_ROWS, n_frames = 2 * rows + 32; /* of the first convolution, in whole tiles */
	size_t of_rows = max_size(max_size(c->ffn_dim, f->q_dim), m->conv2.cols);
	size_t operand = max_size(rows * of_rows, n_frames * m->conv1.cols);
	struct pass *p = &e->pass;
	e->n_bytes = 0;
	e->x = place(e, ((size_t)c->encoder_context + CROSS_ROWS) * c->dim * sizeof(float));
	p->h = e->frames = place(e, rows * max_size(c->dim, f->q_dim) * sizeof(float));
	p->q = place(e, rows * f->q_dim * sizeof(float));
	p->k = p->attended = place(e, rows * max_size(c->dim, f->kv_dim) * sizeof(float));
	p->v = place(e, max_size(rows * f->kv_dim, (n_frames - 2 * rows) * c->dim) * sizeof(float));
	p->up = e->side = place(e, operand * sizeof(float));
	p->a = place(e, operand * (f->plain == NUMERICS_BF16 ? sizeof(uint16_t) : sizeof(float)));
	if (f->setup.numerics == NUMERICS_INT8)
		p->bytes = place(e, max_size(rows * int8_row_bytes((uint32_t)of_rows),
					     n_frames * int8_row_bytes(m->conv1.cols)));
	e->n_bytes = (e->n_bytes + 4095) & ~(size_t)4095;
	p->thread_scratch = place(e, team_n_threads(f->setup.team) * p->thread_bytes);
}

int encoder_new(struct forward *forward, struct encoder **out, struct err *err)
{
	struct encoder *e = calloc(1, sizeof *e);
	if (!e)
		return err_set(err, -ENOMEM, "no memory for the encoder");
	assert(forward->setup.model->config.encoder_layers > 0);
	e->forward = forward;
	e->part = PART_NONE;
	e->pass.phase = PHASE_PREFILL;
	e->pass.gemm_bytes = forward->passes[PHASE_PREFILL].gemm_bytes;
	e->pass.thread_bytes = (e->pass.gemm_bytes + cross_scratch_place(forward, NULL, NULL) + 4095) & ~(size_t)4095;
	lay_out(e);
	*out = e;
	return 0;
}

void encoder_stop(struct encoder *e)
{
	if (e->span)
		arena_release(e->forward->setup.arena, e->span, e->n_bytes);
	e->span = NULL;
	e->part = PART_NONE;
	e->window = NULL;
}

void encoder_free(struct encoder *e)
{
	if (!e)
		return;
	encoder_stop(e);
	free(e);
}

uint32_t encoder_frames(const struct encoder *e)
{
	return 2 * config_of(e)->encoder_context;
}

size_t encoder_scratch_bytes(const struct encoder *e)
{
	return arena_span_bytes(e->n_bytes);
}

/* --- steps ------------------------------------------------------------------------------------ */

static const struct model_encoder *tower(const struct encoder *e, unsigned thread)
{
	return &forward_model(e->forward, thread)->encoder;
}

static uint32_t n_rows(const struct encoder *e)
{
	return e->pass.batch.n_rows;
}

/* y [n][w->rows] = gelu(x w^T + bias) of one product that all threads make; ends with a barrier. */
static void convolution(struct encoder *e, unsigned thread, const struct matrix *w, const float *bias, float *y)
{
	const struct products products = {
		.then = step_gelu,
		.bias = bias,
		.x = e->side,
		.cols = w->cols,
		.n = 1,
		.each = {{ADAPTER_N_PRODUCTS, w, y}},
	};
	step_products(e->forward, thread, &products);
}

/* Frame `frame` of the window, counted from its first; beyond both ends there are zeros. */
static void put_frame(const struct encoder *e, int64_t frame, float *out)
{
	uint32_t n = config_of(e)->mel_bins;
	if (frame >= 0 && frame < e->n_frames)
		memcpy(out, e->mel + (size_t)frame * n, n * sizeof *out);
	else
		memset(out, 0, n * sizeof *out);
}

/* The first convolution's row r is frame 2 * first - 1 + r: the one before the part's, two for each of its positions.
 */
static void convolve(struct encoder *e, unsigned thread)
{
	struct forward *f = e->forward;
	const struct model_encoder *m = tower(e, thread);
	uint32_t bins = config_of(e)->mel_bins, dim = config_of(e)->dim, rows = n_rows(e), begin, end;
	unsigned n_threads = team_n_threads(f->setup.team);
	int64_t before = 2 * (int64_t)e->first - 1;

	team_barrier(f->setup.team); /* all have seen how many rows there are */
	if (thread == 0)
		e->pass.batch.n_rows = 2 * rows + 1;
	team_barrier(f->setup.team);
	team_share(2 * rows + 1, thread, n_threads, &begin, &end);
	for (uint32_t r = begin; r < end; r++) {
		float *side = e->side + (size_t)r * m->conv1.cols;
		for (uint32_t tap = 0; tap < 3; tap++)
			put_frame(e, before + r + tap - 1, side + (size_t)tap * bins);
		memset(side + 3 * (size_t)bins, 0, (m->conv1.cols - 3 * (size_t)bins) * sizeof *side);
	}
	convolution(e, thread, &m->conv1, m->conv1_bias, e->frames);
	if (thread == 0) { /* the frame before the first is nothing, and so is its row; bias and all */
		e->pass.batch.n_rows = rows;
		if (e->first == 0)
			memset(e->frames, 0, dim * sizeof(float));
	}
	team_barrier(f->setup.team);
	team_share(rows, thread, n_threads, &begin, &end);
	for (uint32_t r = begin; r < end; r++)
		memcpy(e->side + (size_t)r * m->conv2.cols, e->frames + 2 * (size_t)r * dim, 3 * dim * sizeof(float));
	convolution(e, thread, &m->conv2, m->conv2_bias, e->pass.x);
	for (uint32_t r = begin; r < end; r++) {
		float *position = e->side + (size_t)r * m->conv2.cols;
		f->setup.kernels->expand_row(&m->position_embd, e->first + r, position);
		f->setup.kernels->add(e->pass.x + (size_t)r * dim, position, dim);
	}
}

/* Stores k and v [rows][kv_dim], biased, as keys and values of `layer` of the window. The threads divide pages' heads.
 */
static void store(struct encoder *e, unsigned thread, uint32_t layer, const float *k_bias, const float *v_bias)
{
	struct forward *f = e->forward;
	const struct image_config *c = config_of(e);
	uint32_t n_pages = kv_pages_for(n_rows(e)), d = c->head_dim;
	for (uint32_t i = thread; i < n_pages * c->n_kv_heads; i += team_n_threads(f->setup.team)) {
		uint32_t head = i % c->n_kv_heads, begin = i / c->n_kv_heads * STORE_ROWS;
		uint32_t end = begin + STORE_ROWS < n_rows(e) ? begin + STORE_ROWS : n_rows(e);
		uint32_t page = (e->first + begin) / KV_PAGE_TOKENS;
		void *keys = speech_window_keys(e->window, layer, head, page);
		void *values = speech_window_values(e->window, layer, head, page);
		for (uint32_t r = begin; r < end; r++) {
			float *k = e->pass.k + (size_t)r * f->kv_dim + (size_t)head * d;
			float *v = e->pass.v + (size_t)r * f->kv_dim + (size_t)head * d;
			if (k_bias)
				f->setup.kernels->add(k, k_bias + (size_t)head * d, d);
			if (v_bias)
				f->setup.kernels->add(v, v_bias + (size_t)head * d, d);
			store_head(f, keys, values, r - begin, k, v);
		}
	}
}

static void keys(struct encoder *e, unsigned thread)
{
	const struct model_layer *l = &tower(e, thread)->layers[e->layer];
	struct pass *p = &e->pass;
	const struct products both = {
		.x = p->h,
		.cols = config_of(e)->dim,
		.n = 2,
		.each = {{ADAPTER_K, &l->attn_k, p->k}, {ADAPTER_V, &l->attn_v, p->v}},
	};
	step_norm(e->forward, thread, l->attn_norm, l->attn_norm_bias);
	step_products(e->forward, thread, &both);
	store(e, thread, 0, l->attn_k_bias, l->attn_v_bias);
}

/* h [rows][q_dim] = attention of the part's rows to all positions; ends with a barrier. */
static void attend(struct encoder *e, unsigned thread, const float *q_bias)
{
	struct forward *f = e->forward;
	const struct image_config *c = config_of(e);
	struct cross_scratch scratch;
	uint32_t group = c->n_heads / c->n_kv_heads, tile = CROSS_ROWS / group, n_tiles = (n_rows(e) + tile - 1) / tile;
	uint32_t begin, end, q_cols = group * c->head_dim;
	cross_scratch_place(f, e->pass.thread_scratch + thread * e->pass.thread_bytes + e->pass.gemm_bytes, &scratch);
	/* Tiles of one head one after the other: its keys and values stay in L2. */
	team_share(n_tiles * c->n_kv_heads, thread, team_n_threads(f->setup.team), &begin, &end);
	for (uint32_t i = begin; i < end; i++) {
		uint32_t head = i / n_tiles, row = i % n_tiles * tile;
		uint32_t n = n_rows(e) - row < tile ? n_rows(e) - row : tile;
		float *q = e->pass.q + (size_t)row * f->q_dim, *out = e->pass.h + (size_t)row * f->q_dim;
		for (uint32_t r = 0; r < n && q_bias; r++)
			f->setup.kernels->add(q + (size_t)r * f->q_dim + (size_t)head * q_cols,
					      q_bias + (size_t)head * q_cols, q_cols);
		cross_attend(f, &scratch, e->window, 0, head, q, out, n);
	}
	team_barrier(f->setup.team);
}

static void rest(struct encoder *e, unsigned thread)
{
	const struct model_layer *l = &tower(e, thread)->layers[e->layer];
	struct forward *f = e->forward;
	struct pass *p = &e->pass;
	const struct products query = {
		.x = p->h, .cols = config_of(e)->dim, .n = 1, .each = {{ADAPTER_Q, &l->attn_q, p->q}}};
	const struct products attended = {
		.x = p->h, .cols = f->q_dim, .n = 1, .each = {{ADAPTER_OUTPUT, &l->attn_output, p->attended}}};
	step_norm(f, thread, l->attn_norm, l->attn_norm_bias);
	step_products(f, thread, &query);
	attend(e, thread, l->attn_q_bias);
	step_products(f, thread, &attended);
	step_add(f, thread, p->attended, l->attn_output_bias, l->attn_post_norm);
	step_feed_forward(f, thread, l, 0);
}

/* One operand, and the products of all layers over it. */
static void hear(struct encoder *e, unsigned thread)
{
	struct forward *f = e->forward;
	const struct model *m = forward_model(f, thread);
	struct pass *p = &e->pass;
	step_norm(f, thread, m->encoder.output_norm, m->encoder.output_norm_bias);
	for (uint32_t layer = 0; layer < m->config.n_layers; layer++) {
		const struct model_layer *l = &m->layers[layer];
		const struct products both = {
			.x = p->h,
			.cols = m->config.dim,
			.n = 2,
			.each = {{ADAPTER_N_PRODUCTS, &l->cross_k, p->k}, {ADAPTER_N_PRODUCTS, &l->cross_v, p->v}},
		};
		step_products(f, thread, &both);
		store(e, thread, layer, NULL, l->cross_v_bias); /* the next operand's barrier comes after it */
	}
}

/* --- parts ------------------------------------------------------------------------------------ */

static void run_part(void *arg, unsigned thread)
{
	static void (*const parts[])(struct encoder * e, unsigned thread) = {
		[PART_CONVOLVE] = convolve,
		[PART_KEYS] = keys,
		[PART_REST] = rest,
		[PART_HEAR] = hear,
	};
	struct encoder *e = arg;
	parts[e->part](e, thread);
}

int encoder_begin(struct encoder *e, const float *mel, uint32_t n_frames, struct speech_window *window)
{
	struct forward *f = e->forward;
	assert(!e->span && n_frames <= encoder_frames(e));
	int rc = speech_window_init(window, config_of(e), f->setup.kv);
	if (rc)
		return rc;
	e->span = arena_alloc(f->setup.arena, e->n_bytes);
	if (!e->span)
		return -ENOMEM;
	lay_out(e);
	e->mel = mel;
	e->n_frames = n_frames;
	e->window = window;
	e->part = PART_CONVOLVE;
	e->layer = e->first = 0;
	return 0;
}

/* What comes behind a sweep over all positions. */
static void next_sweep(struct encoder *e)
{
	e->first = 0;
	if (e->part == PART_KEYS) {
		e->part = PART_REST;
		return;
	}
	if (e->part == PART_HEAR) {
		encoder_stop(e);
		return;
	}
	e->layer += e->part == PART_REST;
	e->part = e->layer < config_of(e)->encoder_layers ? PART_KEYS : PART_HEAR;
}

bool encoder_advance(struct encoder *e)
{
	struct forward *f = e->forward;
	struct pass *other = f->pass; /* whose logits may still be asked for */
	uint32_t left = config_of(e)->encoder_context - e->first;
	assert(e->span);
	e->pass.batch.n_rows = left < ENCODER_ROWS ? left : ENCODER_ROWS;
	e->pass.x = e->x + (size_t)e->first * config_of(e)->dim;
	f->pass = &e->pass;
	team_run(f->setup.team, run_part, e);
	f->pass = other;
	if (e->part == PART_REST)
		f->operations.attention += 4 * (uint64_t)n_rows(e) * config_of(e)->encoder_context * f->q_dim;
	count_progress(f);
	e->first += n_rows(e);
	if (e->first == config_of(e)->encoder_context)
		next_sweep(e);
	return e->span != NULL;
}

int encoder_run(struct encoder *e, const float *mel, struct speech_window *windows, uint32_t n)
{
	uint32_t n_frames = encoder_frames(e);
	for (uint32_t i = 0; i < n; i++) {
		int rc = encoder_begin(e, mel + (size_t)i * n_frames * config_of(e)->mel_bins, n_frames, &windows[i]);
		for (; rc && i < UINT32_MAX; i--)
			speech_window_release(&windows[i], e->forward->setup.arena);
		if (rc)
			return rc;
		while (encoder_advance(e)) {
		}
	}
	return 0;
}
