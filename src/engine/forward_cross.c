/* Attention to what is heard: of a speech model's decoder rows to their window, and, since a window's pages serve the
 * encoder, too, while it makes them, of its own positions to each other.
 *
 * Rows that attend to the same positions are the query heads of one call of the kernel, so up to CROSS_ROWS of them
 * share what is read of the window: the hypotheses of a call, which follow each other in a batch, or a block of the
 * encoder's positions. Which rows are taken together changes no row's sums (kernel.h). */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "src/engine/forward_private.h"
#include "src/kernel/half.h"
#include "src/kernel/kv_int8.h"
#include "src/kernel/kv_page.h"

size_t cross_scratch_place(const struct forward *f, void *at, struct cross_scratch *out)
{
	const struct image_config *c = &f->setup.model->config;
	size_t n_pages = kv_pages_for(c->encoder_context), lists = (2 * n_pages * sizeof(void *) + 63) & ~(size_t)63;
	size_t tile = (size_t)CROSS_ROWS * c->head_dim;
	if (!c->encoder_layers)
		return 0;
	if (at) {
		out->k = at;
		out->v = out->k + n_pages;
		out->q = (float *)((char *)at + lists);
		out->out = out->q + tile;
	}
	return lists + 2 * tile * sizeof(float);
}

/* Query heads of a row that share a head of keys and values. */
static uint32_t group_of(const struct image_config *c)
{
	return c->n_heads / c->n_kv_heads;
}

void cross_attend(const struct forward *f, const struct cross_scratch *scratch, const struct speech_window *window,
		  uint32_t layer, uint32_t head, const float *q, float *out, uint32_t n)
{
	const struct image_config *c = &f->setup.model->config;
	size_t q_cols = (size_t)group_of(c) * c->head_dim;
	assert(n * group_of(c) <= CROSS_ROWS);
	for (uint32_t page = 0; page < window->n_pages; page++) {
		scratch->k[page] = speech_window_keys(window, layer, head, page);
		scratch->v[page] = speech_window_values(window, layer, head, page);
	}
	for (uint32_t r = 0; r < n; r++)
		memcpy(scratch->q + r * q_cols, q + (size_t)r * f->q_dim + head * q_cols, q_cols * sizeof *q);
	const struct attention a = {
		.q = scratch->q,
		.out = scratch->out,
		.k = scratch->k,
		.v = scratch->v,
		.n_q = n * group_of(c),
		.head_dim = c->head_dim,
		.n_tokens = window->n_positions,
		.scale = c->attention_scale,
	};
	f->attention(&a);
	for (uint32_t r = 0; r < n; r++)
		memcpy(out + (size_t)r * f->q_dim + head * q_cols, scratch->out + r * q_cols, q_cols * sizeof *q);
}

/* --- what heads attend to ----------------------------------------------------------------------- */

enum { HEAD_DIM_MAX = 256 };

/* Walsh-Hadamard, in blocks: what keys of int8 are kept as. (kv_int8.h) */
static void spread(float *x, uint32_t n)
{
	uint32_t block = kv_spread_block(n);
	for (uint32_t half = 1; half < block; half *= 2)
		for (uint32_t i = 0; i < n; i++)
			if (!(i & half)) {
				float a = x[i], b = x[i + half];
				x[i] = a + b;
				x[i + half] = a - b;
			}
}

static void scores_bf16(const float *q, const void *page, uint32_t head_dim, float *scores)
{
	const uint16_t *keys = page;
	for (uint32_t d = 0; d < head_dim; d++)
		for (uint32_t t = 0; t < KV_PAGE_TOKENS; t++)
			scores[t] += q[d] * f32_from_bf16(keys[kv_key_at(t, d)]);
}

static void scores_int8(const float *q, const void *page, uint32_t head_dim, float *scores)
{
	const unsigned char *keys = page;
	const uint16_t *scales = kv_int8_scales(keys, head_dim);
	for (uint32_t d = 0; d < head_dim; d++)
		for (uint32_t t = 0; t < KV_PAGE_TOKENS; t++)
			scores[t] += q[d] * (float)((int)keys[kv_int8_key_at(t, d)] - KV_KEY_OFFSET);
	for (uint32_t t = 0; t < KV_PAGE_TOKENS; t++)
		scores[t] *= f32_from_bf16(scales[t]);
}

/* out [n_positions] = softmax(scale * q k^T), one query head, float32. */
static void weights(const struct forward *f, const struct speech_window *window, uint32_t layer, uint32_t kv_head,
		    const float *q, float *out)
{
	const struct image_config *c = &f->setup.model->config;
	bool int8 = f->setup.kv->type == KV_INT8;
	float query[HEAD_DIM_MAX], largest = -INFINITY;
	double sum = 0;
	memcpy(query, q, c->head_dim * sizeof *q);
	if (int8)
		spread(query, c->head_dim);
	float scale = c->attention_scale / (int8 ? (float)kv_spread_block(c->head_dim) : 1);
	for (uint32_t page = 0; page < window->n_pages; page++) {
		float scores[KV_PAGE_TOKENS] = {0};
		uint32_t first = page * KV_PAGE_TOKENS, left = window->n_positions - first;
		uint32_t n = left < KV_PAGE_TOKENS ? left : KV_PAGE_TOKENS;
		(int8 ? scores_int8 : scores_bf16)(query, speech_window_keys(window, layer, kv_head, page), c->head_dim,
						   scores);
		for (uint32_t t = 0; t < n; t++) {
			out[first + t] = scale * scores[t];
			largest = fmaxf(largest, out[first + t]);
		}
	}
	for (uint32_t t = 0; t < window->n_positions; t++)
		sum += (double)(out[t] = expf(out[t] - largest));
	for (uint32_t t = 0; t < window->n_positions; t++)
		out[t] = (float)((double)out[t] / sum);
}

/* Of a row at the speech table's heads among those of one KV head in `layer`. */
static void row_weights(const struct forward *f, uint32_t row, uint32_t layer, uint32_t kv_head)
{
	const struct image_config *c = &f->setup.model->config;
	const struct batch_row *r = &f->pass->batch.rows[row];
	const struct speech_table *speech = f->setup.model->speech;
	for (uint32_t i = 0; speech && i < speech->n_heads; i++) {
		struct speech_head head = speech_heads(speech)[i];
		if (head.layer == layer && head.head / group_of(c) == kv_head)
			weights(f, r->window, layer, kv_head,
				f->pass->q + (size_t)row * f->q_dim + (size_t)head.head * c->head_dim,
				r->attended + (size_t)i * c->encoder_context);
	}
}

/* --- the step ----------------------------------------------------------------------------------- */

/* Rows from `first` on that hear the same window, as many as are attended together. */
static uint32_t run_length(const struct forward *f, uint32_t first)
{
	const struct batch *batch = &f->pass->batch;
	uint32_t most = CROSS_ROWS / group_of(&f->setup.model->config), n = 1;
	while (n < most && first + n < batch->n_rows && batch->rows[first + n].window == batch->rows[first].window)
		n++;
	return n;
}

static void run_attend(struct forward *f, unsigned thread, uint32_t layer, uint32_t head, uint32_t first, uint32_t n)
{
	const struct image_config *c = &f->setup.model->config;
	const struct model_layer *l = &forward_model(f, thread)->layers[layer];
	const struct batch_row *rows = &f->pass->batch.rows[first];
	size_t q_cols = (size_t)group_of(c) * c->head_dim;
	float *q = f->pass->q + (size_t)first * f->q_dim;
	struct cross_scratch scratch;
	cross_scratch_place(f,
			    f->pass->thread_scratch + thread * f->pass->thread_bytes + f->pass->gemm_bytes +
				    f->pass->lists_bytes,
			    &scratch);
	for (uint32_t r = 0; r < n; r++) {
		if (l->cross_q_bias)
			f->setup.kernels->add(q + (size_t)r * f->q_dim + head * q_cols, l->cross_q_bias + head * q_cols,
					      (uint32_t)q_cols);
		if (rows[r].attended)
			row_weights(f, first + r, layer, head);
	}
	cross_attend(f, &scratch, rows->window, layer, head, q, f->pass->h + (size_t)first * f->q_dim, n);
}

/* h [rows][q_dim] = attention. A row without a window hears nothing. */
static void step_attend_window(struct forward *f, unsigned thread, uint32_t layer)
{
	const struct image_config *c = &f->setup.model->config;
	uint32_t number = 0, n_threads = team_n_threads(f->setup.team);
	for (uint32_t first = 0, n; first < f->pass->batch.n_rows; first += n) {
		n = run_length(f, first);
		for (uint32_t head = 0; head < c->n_kv_heads; head++, number++) {
			if (number % n_threads != thread)
				continue;
			size_t q_cols = (size_t)group_of(c) * c->head_dim;
			if (f->pass->batch.rows[first].window)
				run_attend(f, thread, layer, head, first, n);
			for (uint32_t r = 0; r < n && !f->pass->batch.rows[first].window; r++)
				memset(f->pass->h + (size_t)(first + r) * f->q_dim + head * q_cols, 0,
				       q_cols * sizeof(float));
		}
	}
	team_barrier(f->setup.team);
}

void step_hear(struct forward *f, unsigned thread, uint32_t layer)
{
	const struct model_layer *l = &forward_model(f, thread)->layers[layer];
	struct pass *p = f->pass;
	if (!l->cross_q.rows)
		return;
	/* No adapter has products here. */
	const struct products query = {
		.x = own_h(f, rows_of(f, thread, p->batch.n_rows)),
		.cols = l->cross_q.cols,
		.n = 1,
		.each = {{ADAPTER_N_PRODUCTS, &l->cross_q, p->q}},
	};
	const struct products heard = {
		.x = p->h,
		.cols = l->cross_output.cols,
		.n = 1,
		.each = {{ADAPTER_N_PRODUCTS, &l->cross_output, p->attended}},
	};
	step_norm(f, thread, l->cross_norm, l->cross_norm_bias);
	step_product(f, thread, &l->cross_q, step_stage(f, thread, &query, p->batch.n_rows), p->q);
	team_barrier(f->setup.team);
	step_attend_window(f, thread, layer);
	step_product(f, thread, &l->cross_output, step_stage(f, thread, &heard, p->batch.n_rows), p->attended);
	team_barrier(f->setup.team);
	step_add(f, thread, p->attended, l->cross_output_bias, NULL);
}
