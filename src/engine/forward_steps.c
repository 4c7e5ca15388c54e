/* What a layer consists of. forward_private.h says what each step computes, and forward.c how they follow each other.
 */
#include "src/engine/forward_private.h"

#include <assert.h>
#include <string.h>

#include "src/kernel/kv_page.h"

static void share(struct forward *f, uint32_t n, unsigned thread, uint32_t *begin, uint32_t *end)
{
	team_share(n, thread, team_n_threads(f->setup.team), begin, end);
}

struct operand step_stage(struct forward *f, unsigned thread, const float *x, uint32_t n_rows, uint32_t cols)
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
			.half_sum = f->pass->act.half_sum + from / (PACK_GROUP / 2),
			.n_rows = end - begin,
			.cols = cols,
		};
		kernels->prepare(&part, x + from, f->setup.numerics);
	} else if (end > begin && f->setup.numerics == NUMERICS_BF16) {
		kernels->to_bf16((uint16_t *)f->pass->a + from, x + from, (uint32_t)n);
	} else if (end > begin) {
		memcpy((float *)f->pass->a + from, x + from, n * sizeof(float));
	}
	team_barrier(f->setup.team);
	return operand;
}

void step_product(struct forward *f, unsigned thread, const struct matrix *w, struct operand operand, float *y)
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

void step_products(struct forward *f, unsigned thread, const struct products *products)
{
	struct operand operand = step_stage(f, thread, products->x, f->pass->batch.n_rows, products->cols);
	for (uint32_t i = 0; i < products->n; i++)
		step_product(f, thread, products->each[i].w, operand, products->each[i].y);
	adapters_in(f, thread, products);
	team_barrier(f->setup.team);
	if (f->pass->n_groups) {
		adapters_out(f, thread, products);
		team_barrier(f->setup.team);
	}
}

void step_norm(struct forward *f, unsigned thread, const float *weight)
{
	const struct image_config *c = &f->setup.model->config;
	uint32_t begin, end;
	share(f, f->pass->batch.n_rows, thread, &begin, &end);
	for (uint32_t r = begin; r < end; r++)
		f->setup.kernels->rms_norm(f->pass->h + (size_t)r * c->dim, f->pass->x + (size_t)r * c->dim, weight,
					   c->dim, c->norm_eps);
}

static void set_angles(struct forward *f, uint32_t row)
{
	const struct image_config *c = &f->setup.model->config;
	uint32_t position = f->pass->batch.rows[row].position;
	rope_angles(&f->rope, position, f->pass->cos_sin + (size_t)row * c->rope_dim);
	if (c->window_rope_base > 0)
		rope_angles(&f->window_rope, position, f->pass->window_cos_sin + (size_t)row * c->rope_dim);
}

void step_embed(struct forward *f, unsigned thread)
{
	const struct model *m = f->setup.model;
	uint32_t dim = m->config.dim, begin, end;
	share(f, f->pass->batch.n_rows, thread, &begin, &end);
	for (uint32_t r = begin; r < end; r++) {
		float *x = f->pass->x + (size_t)r * dim;
		f->setup.kernels->expand_row(&m->token_embd, f->pass->batch.rows[r].token, x);
		for (uint32_t i = 0; i < dim && m->config.embedding_scale != 1; i++)
			x[i] *= m->config.embedding_scale;
		set_angles(f, r);
	}
}

void step_bias(struct forward *f, unsigned thread, float *y, const float *bias, uint32_t n)
{
	uint32_t begin, end;
	share(f, f->pass->batch.n_rows, thread, &begin, &end);
	for (uint32_t r = begin; r < end && bias; r++)
		f->setup.kernels->add(y + (size_t)r * n, bias, n);
}

void step_head_norm(struct forward *f, unsigned thread, float *y, const float *weight, uint32_t n_heads)
{
	const struct image_config *c = &f->setup.model->config;
	uint32_t begin, end;
	share(f, f->pass->batch.n_rows, thread, &begin, &end);
	for (uint32_t head = begin * n_heads; head < end * n_heads && weight; head++)
		f->setup.kernels->rms_norm(y + (size_t)head * c->head_dim, y + (size_t)head * c->head_dim, weight,
					   c->head_dim, c->norm_eps);
}

/* Stores one row's rotated key and its value in their page. */
static void store_kv(struct forward *f, uint32_t layer, uint32_t row)
{
	const struct image_config *c = &f->setup.model->config;
	const struct batch_row *r = &f->pass->batch.rows[row];
	struct kv_page *page = r->sequence->pages[r->position / KV_PAGE_TOKENS];
	uint32_t slot = r->position % KV_PAGE_TOKENS, d = c->head_dim;
	uint16_t key[256], value[256];
	assert(d <= sizeof key / sizeof *key);
	assert(kv_may_store(page, slot, f->pass->batch.phase));
	for (uint32_t head = 0; head < c->n_kv_heads; head++) {
		size_t from = (size_t)row * f->kv_dim + (size_t)head * d;
		uint16_t *keys = kv_keys(f->setup.kv, page, layer, head);
		uint16_t *values = kv_values(f->setup.kv, page, layer, head);
		f->setup.kernels->to_bf16(key, f->pass->k + from, d);
		f->setup.kernels->to_bf16(value, f->pass->v + from, d);
		for (uint32_t i = 0; i < d; i++) {
			keys[kv_key_at(slot, i)] = key[i];
			values[kv_value_at(slot, i, d)] = value[i];
		}
	}
}

void step_rotate_and_store(struct forward *f, unsigned thread, uint32_t layer)
{
	const struct image_config *c = &f->setup.model->config;
	const float *angles = f->setup.model->layers[layer].window ? f->pass->window_cos_sin : f->pass->cos_sin;
	uint32_t begin, end;
	share(f, f->pass->batch.n_rows, thread, &begin, &end);
	for (uint32_t r = begin; r < end; r++) {
		const float *row = angles + (size_t)r * c->rope_dim;
		f->rotate(f->pass->q + (size_t)r * f->q_dim, row, c->n_heads, c->head_dim, c->rope_dim);
		f->rotate(f->pass->k + (size_t)r * f->kv_dim, row, c->n_kv_heads, c->head_dim, c->rope_dim);
		if (f->pass->batch.rows[r].sequence)
			store_kv(f, layer, r);
	}
	team_barrier(f->setup.team);
}

/* The threads divide (row, KV head) pairs. */
void step_attend(struct forward *f, unsigned thread, uint32_t layer)
{
	const struct image_config *c = &f->setup.model->config;
	uint32_t group = c->n_heads / c->n_kv_heads, window = f->setup.model->layers[layer].window, begin, end;
	const uint16_t **k = (void *)(f->pass->thread_scratch + thread * f->pass->thread_bytes + f->pass->gemm_bytes);
	const uint16_t **v = k + kv_pages_for(f->setup.max_context);
	share(f, f->pass->batch.n_rows * c->n_kv_heads, thread, &begin, &end);
	for (uint32_t item = begin; item < end; item++) {
		uint32_t row = item / c->n_kv_heads, head = item % c->n_kv_heads;
		const struct batch_row *r = &f->pass->batch.rows[row];
		if (!r->sequence)
			continue;
		uint32_t first = window && r->position >= window ? r->position + 1 - window : 0;
		uint32_t n_pages = kv_pages_for(r->position + 1);
		for (uint32_t p = first / KV_PAGE_TOKENS; p < n_pages; p++) {
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
			.first_token = first,
			.n_tokens = r->position + 1,
			.scale = c->attention_scale,
		};
		f->setup.kernels->attention(&a);
	}
	team_barrier(f->setup.team);
}

void step_add(struct forward *f, unsigned thread, float *y, const float *post_norm)
{
	const struct image_config *c = &f->setup.model->config;
	uint32_t begin, end;
	share(f, f->pass->batch.n_rows, thread, &begin, &end);
	for (uint32_t r = begin; r < end; r++) {
		float *row = y + (size_t)r * c->dim;
		if (post_norm)
			f->setup.kernels->rms_norm(row, row, post_norm, c->dim, c->norm_eps);
		f->setup.kernels->add(f->pass->x + (size_t)r * c->dim, row, c->dim);
	}
}

void step_gate(struct forward *f, unsigned thread)
{
	uint32_t n = f->setup.model->config.ffn_dim, begin, end;
	share(f, f->pass->batch.n_rows, thread, &begin, &end);
	for (uint32_t r = begin; r < end; r++)
		f->gate(f->pass->gate + (size_t)r * n, f->pass->gate + (size_t)r * n, f->pass->up + (size_t)r * n, n);
}

void step_pick(struct forward *f, unsigned thread)
{
	const struct model *m = f->setup.model;
	uint32_t dim = m->config.dim, begin, end;
	share(f, f->head.n, thread, &begin, &end);
	for (uint32_t i = begin; i < end; i++)
		f->setup.kernels->rms_norm(f->head.picked + (size_t)i * dim, f->pass->x + (size_t)f->head.rows[i] * dim,
					   m->output_norm, dim, m->config.norm_eps);
}
