/* What a layer consists of. forward_private.h says what each step computes, and forward.c how they follow each other.
 */
#include "src/engine/forward_private.h"

#include <assert.h>
#include <string.h>

#include "src/kernel/kv_int8.h"
#include "src/kernel/kv_page.h"

/* --- rows ------------------------------------------------------------------------------------- */

bool is_narrow(const struct forward *f, enum phase phase, uint32_t n)
{
	return phase == PHASE_DECODE && n <= NARROW_ROWS && n * (1 + team_n_threads(f->setup.team)) <= DECODE_ROWS_MAX;
}

uint32_t rows_used(const struct forward *f, enum phase phase, uint32_t n)
{
	return is_narrow(f, phase, n) ? n * (1 + team_n_threads(f->setup.team)) : n;
}

struct rows rows_of(const struct forward *f, unsigned thread, uint32_t n)
{
	struct rows rows = {0, n, n * (1 + thread)};
	if (is_narrow(f, f->pass->phase, n))
		return rows;
	team_share(n, thread, team_n_threads(f->setup.team), &rows.begin, &rows.end);
	rows.own = 0;
	return rows;
}

float *own_h(const struct forward *f, struct rows rows)
{
	uint32_t dim = f->setup.model->config.dim;
	return f->pass->h + (size_t)rows.own * (dim > f->q_dim ? dim : f->q_dim);
}

static float *own_x(const struct forward *f, struct rows rows)
{
	return f->pass->x + (size_t)rows.own * f->setup.model->config.dim;
}

/* --- products --------------------------------------------------------------------------------- */

/* Rows from `first` on of what decode products read. */
static struct activations activations_from(const struct forward *f, size_t first, uint32_t n_rows, uint32_t cols)
{
	const struct activations *all = &f->pass->act;
	return (struct activations){
		.f32 = all->f32 + first,
		.bf16 = all->bf16 + first,
		.group_sum = all->group_sum + first / PACK_GROUP,
		.half_sum = all->half_sum + first / (PACK_GROUP / 2),
		.n_rows = n_rows,
		.cols = cols,
	};
}

/* Whether a product is one of int8 numerics. */
static bool takes_bytes(const struct forward *f, const struct matrix *w)
{
	return f->setup.numerics == NUMERICS_INT8 && int8_takes(w->kind);
}

/* The rows of an operand in int8 numerics; own ones where there are such. */
static struct int8_rows bytes_of(const struct forward *f, uint32_t own, uint32_t n_rows, uint32_t cols)
{
	size_t tile_groups = f->max_cols / PACK_GROUP;
	assert(!own || n_rows <= INT8_ROWS);
	return (struct int8_rows){f->pass->bytes + own * tile_groups, n_rows, cols};
}

/* The rows x [rows][cols] as weights without codes take them. */
static void stage_plain(struct forward *f, struct rows rows, const float *x, uint32_t cols)
{
	const struct kernels *kernels = f->setup.kernels;
	size_t from = (size_t)rows.begin * cols, n = (size_t)(rows.end - rows.begin) * cols;
	if (f->pass->phase == PHASE_DECODE) {
		size_t first = (size_t)rows.own * f->max_cols + from;
		struct activations part = activations_from(f, first, rows.end - rows.begin, cols);
		kernels->prepare(&part, x + from, f->plain);
	} else if (f->plain == NUMERICS_BF16) {
		kernels->to_bf16((uint16_t *)f->pass->a + from, x + from, (uint32_t)n);
	} else {
		memcpy((float *)f->pass->a + from, x + from, n * sizeof(float));
	}
}

struct operand step_stage(struct forward *f, unsigned thread, const struct products *products, uint32_t n_rows)
{
	struct rows rows = rows_of(f, thread, n_rows);
	struct operand operand = {n_rows, products->cols, rows.own};
	bool plain = false, bytes = false;
	for (uint32_t i = 0; i < products->n; i++) {
		bytes |= takes_bytes(f, products->each[i].w);
		plain |= !takes_bytes(f, products->each[i].w);
	}
	if (plain && rows.begin < rows.end)
		stage_plain(f, rows, products->x, products->cols);
	if (bytes && rows.begin < rows.end) {
		struct int8_rows all = bytes_of(f, rows.own, n_rows, products->cols);
		f->setup.kernels->int8_prepare(&all, rows.begin, rows.end, products->x);
	}
	if (!rows.own)
		team_barrier(f->setup.team);
	return operand;
}

static uint32_t n_blocks(const struct matrix *w)
{
	return (w->rows + PACK_ROWS - 1) / PACK_ROWS;
}

/* A thread's outputs of a product, as rectangles of y: columns in blocks or panels, and rows of the batch. */
struct rectangle {
	uint32_t begin, end;
	uint32_t row_begin, row_end;
};

struct outputs {
	uint32_t n;
	struct rectangle each[3];
};

static void outputs_add(struct outputs *outputs, struct rectangle r)
{
	if (r.begin < r.end && r.row_begin < r.row_end)
		outputs->each[outputs->n++] = r;
}

/* DECODE divides block rows, so that each weight is read by one thread. PREFILL divides tiles of a panel and 32 rows, a
 * panel's one after the other: so threads have equal work although small models have few panels, and the one or two
 * panels that a thread shares with its neighbours are all that is expanded more than once. */
static struct outputs outputs_of(const struct forward *f, unsigned thread, const struct matrix *w, uint32_t n_rows)
{
	enum { TILE_ROWS = 32 };
	struct outputs outputs = {0};
	uint32_t n_threads = team_n_threads(f->setup.team), n_tiles = (n_rows + TILE_ROWS - 1) / TILE_ROWS;
	uint32_t begin, end, first, last, row_begin, row_end;

	if (f->pass->phase == PHASE_DECODE) {
		team_share(n_blocks(w), thread, n_threads, &begin, &end);
		outputs_add(&outputs, (struct rectangle){begin, end, 0, n_rows});
		return outputs;
	}
	team_share(gemm_n_panels(w) * n_tiles, thread, n_threads, &begin, &end);
	first = begin / n_tiles;
	last = end / n_tiles; /* the panel of which not all is this thread's, if any of it is */
	row_begin = begin % n_tiles * TILE_ROWS;
	row_end = end % n_tiles * TILE_ROWS;
	if (first == last) {
		outputs_add(&outputs, (struct rectangle){first, first + 1, row_begin, row_end});
		return outputs;
	}
	if (row_begin > 0)
		outputs_add(&outputs, (struct rectangle){first, first + 1, row_begin, n_rows});
	outputs_add(&outputs, (struct rectangle){first + (row_begin > 0), last, 0, n_rows});
	outputs_add(&outputs, (struct rectangle){last, last + 1, 0, row_end});
	return outputs;
}

static void product_part(struct forward *f, unsigned thread, const struct matrix *w, struct operand operand, float *y,
			 const struct rectangle *part)
{
	uint32_t n_rows = part->row_end - part->row_begin;
	y += (size_t)part->row_begin * w->rows;
	if (takes_bytes(f, w)) {
		struct int8_rows rows = bytes_of(f, operand.own, operand.n_rows, operand.cols);
		uint32_t blocks = f->pass->phase == PHASE_DECODE ? 1 : GEMM_PANEL_ROWS / PACK_ROWS, all = n_blocks(w);
		uint32_t end = part->end * blocks < all ? part->end * blocks : all;
		rows.groups += (size_t)(part->row_begin / INT8_ROWS) * (operand.cols / PACK_GROUP);
		rows.n_rows = n_rows;
		f->setup.kernels->int8_product(w, part->begin * blocks, end, &rows, y, w->rows);
	} else if (f->pass->phase == PHASE_DECODE) {
		struct activations act =
			activations_from(f, (size_t)operand.own * f->max_cols, operand.n_rows, operand.cols);
		f->setup.kernels->decode_product(w, part->begin, part->end, &act, y, w->rows, f->plain);
	} else {
		size_t element = f->plain == NUMERICS_BF16 ? sizeof(uint16_t) : sizeof(float);
		const char *a = (const char *)f->pass->a + (size_t)part->row_begin * operand.cols * element;
		gemm_run(f->setup.gemm, w, part->begin, part->end, a, n_rows, y, w->rows,
			 f->pass->thread_scratch + thread * f->pass->thread_bytes);
	}
}

static void count_product(struct forward *f, const struct matrix *w, uint32_t n_rows)
{
	uint64_t operations = 2 * (uint64_t)n_rows * w->rows * w->cols;
	f->n_products++;
	f->operations.products += operations;
	if (f->pass->phase == PHASE_PREFILL && !takes_bytes(f, w) && gemm_is_library(f->setup.gemm))
		f->operations.library += operations;
}

void step_product(struct forward *f, unsigned thread, const struct matrix *w, struct operand operand, float *y)
{
	struct outputs outputs = outputs_of(f, thread, w, operand.n_rows);
	if (thread == 0)
		count_product(f, w, operand.n_rows);
	for (uint32_t i = 0; i < outputs.n; i++)
		product_part(f, thread, w, operand, y, &outputs.each[i]);
}

void step_products(struct forward *f, unsigned thread, const struct products *products)
{
	struct operand operand = step_stage(f, thread, products, f->pass->batch.n_rows);
	for (uint32_t i = 0; i < products->n; i++)
		step_product(f, thread, products->each[i].w, operand, products->each[i].y);
	if (f->pass->n_groups) {
		adapters_in(f, thread, products);
		team_barrier(f->setup.team);
		adapters_out(f, thread, products);
		team_barrier(f->setup.team);
	}
	if (products->then)
		products->then(f, thread, products);
	if (products->then || !f->pass->n_groups)
		team_barrier(f->setup.team);
}

/* --- rows of the residual stream -------------------------------------------------------------- */

static void norm_row(struct forward *f, float *y, const float *x, const float *weight, const float *bias)
{
	const struct image_config *c = &f->setup.model->config;
	if (bias)
		f->setup.kernels->layer_norm(y, x, weight, bias, c->dim, c->norm_eps);
	else
		f->setup.kernels->rms_norm(y, x, weight, c->dim, c->norm_eps);
}

void step_norm(struct forward *f, unsigned thread, const float *weight, const float *bias)
{
	const struct image_config *c = &f->setup.model->config;
	struct rows rows = rows_of(f, thread, f->pass->batch.n_rows);
	float *h = own_h(f, rows);
	const float *x = own_x(f, rows);
	for (uint32_t r = rows.begin; r < rows.end; r++)
		norm_row(f, h + (size_t)r * c->dim, x + (size_t)r * c->dim, weight, bias);
}

/* The angles of row `row` at `at` of the pass's. */
static void set_angles(struct forward *f, uint32_t row, uint32_t at)
{
	const struct image_config *c = &f->setup.model->config;
	uint32_t position = f->pass->batch.rows[row].position;
	rope_angles(&f->rope, position, f->pass->cos_sin + (size_t)at * c->rope_dim);
	if (c->window_rope_base > 0)
		rope_angles(&f->window_rope, position, f->pass->window_cos_sin + (size_t)at * c->rope_dim);
}

void step_embed(struct forward *f, unsigned thread)
{
	const struct model *m = forward_model(f, thread);
	struct rows rows = rows_of(f, thread, f->pass->batch.n_rows);
	uint32_t dim = m->config.dim;
	for (uint32_t r = rows.begin; r < rows.end; r++) {
		float *x = own_x(f, rows) + (size_t)r * dim;
		f->setup.kernels->expand_row(&m->token_embd, f->pass->batch.rows[r].token, x);
		for (uint32_t i = 0; i < dim && m->config.embedding_scale != 1; i++)
			x[i] *= m->config.embedding_scale;
		if (m->position_embd.rows) {
			float *learned = own_h(f, rows) + (size_t)r * dim;
			f->setup.kernels->expand_row(&m->position_embd, f->pass->batch.rows[r].position, learned);
			f->setup.kernels->add(x, learned, dim);
		}
		set_angles(f, r, rows.own + r);
	}
}

void step_add(struct forward *f, unsigned thread, const float *y, const float *bias, const float *post_norm)
{
	const struct image_config *c = &f->setup.model->config;
	struct rows rows = rows_of(f, thread, f->pass->batch.n_rows);
	float *x = own_x(f, rows), *h = own_h(f, rows);
	for (uint32_t r = rows.begin; r < rows.end; r++) {
		const float *row = y + (size_t)r * c->dim;
		float *normed = h + (size_t)r * c->dim;
		if (post_norm)
			f->setup.kernels->rms_norm(normed, row, post_norm, c->dim, c->norm_eps);
		f->setup.kernels->add(x + (size_t)r * c->dim, post_norm ? normed : row, c->dim);
		if (bias)
			f->setup.kernels->add(x + (size_t)r * c->dim, bias, c->dim);
	}
}

void step_gate(struct forward *f, unsigned thread, const struct products *products)
{
	const struct matrix *w = products->each[0].w;
	uint32_t n = w->rows, unit = f->pass->phase == PHASE_DECODE ? PACK_ROWS : GEMM_PANEL_ROWS;
	struct outputs outputs = outputs_of(f, thread, w, f->pass->batch.n_rows);
	for (uint32_t i = 0; i < outputs.n; i++) {
		const struct rectangle *part = &outputs.each[i];
		uint32_t begin = part->begin * unit, end = part->end * unit < n ? part->end * unit : n;
		for (uint32_t r = part->row_begin; r < part->row_end; r++) {
			float *gate = f->pass->gate + (size_t)r * n + begin;
			f->gate(gate, gate, f->pass->up + (size_t)r * n + begin, end - begin);
		}
	}
}

void step_gelu(struct forward *f, unsigned thread, const struct products *products)
{
	const struct matrix *w = products->each[0].w;
	uint32_t n = w->rows, unit = f->pass->phase == PHASE_DECODE ? PACK_ROWS : GEMM_PANEL_ROWS;
	struct outputs outputs = outputs_of(f, thread, w, f->pass->batch.n_rows);
	for (uint32_t i = 0; i < outputs.n; i++) {
		const struct rectangle *part = &outputs.each[i];
		uint32_t begin = part->begin * unit, end = part->end * unit < n ? part->end * unit : n;
		for (uint32_t r = part->row_begin; r < part->row_end; r++) {
			float *y = products->each[0].y + (size_t)r * n + begin;
			if (products->bias)
				f->setup.kernels->add(y, products->bias + begin, end - begin);
			f->setup.kernels->gelu(y, y, end - begin);
		}
	}
}

void step_feed_forward(struct forward *f, unsigned thread, const struct model_layer *l, uint32_t layer)
{
	struct pass *p = f->pass;
	const struct image_config *c = &f->setup.model->config;
	float *h = own_h(f, rows_of(f, thread, p->batch.n_rows));
	bool gated = l->ffn_gate.rows;
	struct products wide = {.layer = layer, .then = step_gelu, .bias = l->ffn_up_bias, .x = h, .cols = c->dim};
	struct products down = {.layer = layer, .x = p->up, .cols = c->ffn_dim};

	if (gated) {
		wide.then = step_gate;
		wide.each[wide.n++] = (struct product){ADAPTER_GATE, &l->ffn_gate, p->gate};
		down.x = p->gate;
	}
	wide.each[wide.n++] = (struct product){ADAPTER_UP, &l->ffn_up, p->up};
	down.each[down.n++] = (struct product){ADAPTER_DOWN, &l->ffn_down, p->h};
	step_norm(f, thread, l->ffn_norm, l->ffn_norm_bias);
	step_products(f, thread, &wide);
	step_products(f, thread, &down);
	step_add(f, thread, p->h, l->ffn_down_bias, l->ffn_post_norm);
}

bool step_keep(struct forward *f, unsigned thread)
{
	struct pass *p = f->pass;
	uint32_t dim = f->setup.model->config.dim, n = 0;
	if (thread == 0) {
		for (uint32_t r = 0; r < p->n_rows; r++) {
			p->place[r] = UINT32_MAX;
			if (p->batch.rows[r].silent || !p->batch.rows[r].sequence)
				continue;
			p->place[r] = n;
			p->kept[n] = p->batch.rows[r];
			if (n < r) {
				memcpy(p->x + (size_t)n * dim, p->x + (size_t)r * dim, dim * sizeof(float));
				memcpy(p->q + (size_t)n * f->q_dim, p->q + (size_t)r * f->q_dim,
				       f->q_dim * sizeof(float));
			}
			n++;
		}
		p->batch.rows = p->kept;
		p->batch.n_rows = n;
		adapters_group(p);
	}
	team_barrier(f->setup.team);
	return p->batch.n_rows > 0;
}

/* Where a row that came with the batch is now. */
static size_t place_of(const struct pass *p, uint32_t row)
{
	if (p->batch.rows == p->kept)
		row = p->place[row];
	assert(row < p->batch.n_rows); /* else it is silent */
	return row;
}

void step_pick(struct forward *f, unsigned thread)
{
	const struct model *m = forward_model(f, thread);
	struct rows rows = rows_of(f, thread, f->head.n);
	const float *x = own_x(f, rows_of(f, thread, f->pass->batch.n_rows));
	uint32_t dim = m->config.dim;
	for (uint32_t i = rows.begin; i < rows.end; i++)
		norm_row(f, f->head.picked + (size_t)(rows.own + i) * dim, x + place_of(f->pass, f->head.rows[i]) * dim,
			 m->output_norm, m->output_norm_bias);
}

/* --- heads ------------------------------------------------------------------------------------ */

/* A row's query heads of one KV head, and that head. */
struct head_item {
	uint32_t row, head;
	size_t q_at, kv_at; /* in a row of q, of k and v */
	uint32_t group;	    /* query heads */
};

static struct head_item head_item(const struct forward *f, uint32_t number)
{
	const struct image_config *c = &f->setup.model->config;
	struct head_item item = {.row = number / c->n_kv_heads, .head = number % c->n_kv_heads};
	item.group = c->n_heads / c->n_kv_heads;
	item.q_at = (size_t)item.head * item.group * c->head_dim;
	item.kv_at = (size_t)item.head * c->head_dim;
	return item;
}

/* The threads divide (row, KV head) pairs, in step_heads and in step_attend alike. They take turns: later rows of a
 * prompt attend to more, so a thread with the second half of them would be the last. */
static uint32_t n_head_items(const struct forward *f)
{
	return f->pass->batch.n_rows * f->setup.model->config.n_kv_heads;
}

/* y [n_heads][head_dim] += bias, then normed; NULL: there is none. */
static void bias_and_norm(struct forward *f, float *y, uint32_t n_heads, const float *bias, const float *norm)
{
	const struct image_config *c = &f->setup.model->config;
	if (bias)
		f->setup.kernels->add(y, bias, n_heads * c->head_dim);
	for (uint32_t head = 0; head < n_heads && norm; head++)
		f->setup.kernels->rms_norm(y + (size_t)head * c->head_dim, y + (size_t)head * c->head_dim, norm,
					   c->head_dim, c->norm_eps);
}

enum { HEAD_DIM_MAX = 256 };

static void store_bf16(const struct kernels *kernels, uint16_t *keys, uint16_t *values, uint32_t slot, const float *k,
		       const float *v, uint32_t d)
{
	uint16_t key[HEAD_DIM_MAX], value[HEAD_DIM_MAX];
	kernels->to_bf16(key, k, d);
	kernels->to_bf16(value, v, d);
	for (uint32_t i = 0; i < d; i += 2) {
		memcpy(&keys[kv_key_at(slot, i)], &key[i], 2 * sizeof *key); /* a pair of dimensions */
		values[kv_value_at(slot, i, d)] = value[i];
		values[kv_value_at(slot, i + 1, d)] = value[i + 1];
	}
}

static void store_int8(const struct kernels *kernels, unsigned char *keys, unsigned char *values, uint32_t slot,
		       const float *k, const float *v, uint32_t d)
{
	int8_t key[HEAD_DIM_MAX], value[HEAD_DIM_MAX];
	kv_int8_scales(keys, d)[slot] = kernels->to_int8(key, k, d);
	kv_int8_scales(values, d)[slot] = kernels->to_int8(value, v, d);
	for (uint32_t i = 0; i < d; i++) {
		keys[kv_int8_key_at(slot, i)] = (unsigned char)(key[i] + KV_KEY_OFFSET);
		values[kv_int8_value_at(slot, i, d)] = (unsigned char)value[i];
	}
}

void store_head(const struct forward *f, void *keys, void *values, uint32_t slot, const float *k, const float *v)
{
	uint32_t d = f->setup.model->config.head_dim;
	assert(d <= HEAD_DIM_MAX);
	if (f->setup.kv->type == KV_INT8)
		store_int8(f->setup.kernels, keys, values, slot, k, v, d);
	else
		store_bf16(f->setup.kernels, keys, values, slot, k, v, d);
}

/* Stores a head's rotated key and its value in their page. */
static void store_kv(struct forward *f, uint32_t layer, const struct head_item *item, const float *k, const float *v)
{
	const struct batch_row *r = &f->pass->batch.rows[item->row];
	struct kv_page *page = r->sequence->pages[r->position / KV_PAGE_TOKENS];
	uint32_t slot = r->position % KV_PAGE_TOKENS;
	assert(kv_may_store(page, slot, f->pass->batch.phase));
	store_head(f, kv_keys(f->setup.kv, page, layer, item->head), kv_values(f->setup.kv, page, layer, item->head),
		   slot, k, v);
}

void step_heads(struct forward *f, unsigned thread, uint32_t layer)
{
	const struct image_config *c = &f->setup.model->config;
	const struct model_layer *l = &forward_model(f, thread)->layers[layer];
	const float *angles = l->window ? f->pass->window_cos_sin : f->pass->cos_sin;
	uint32_t own = rows_of(f, thread, f->pass->batch.n_rows).own, n = n_head_items(f);
	for (uint32_t number = thread; number < n; number += team_n_threads(f->setup.team)) {
		struct head_item item = head_item(f, number);
		const float *row = angles + (size_t)(own + item.row) * c->rope_dim;
		float *q = f->pass->q + (size_t)item.row * f->q_dim + item.q_at;
		float *k = f->pass->k + (size_t)item.row * f->kv_dim + item.kv_at;
		float *v = f->pass->v + (size_t)item.row * f->kv_dim + item.kv_at;
		bias_and_norm(f, q, item.group, l->attn_q_bias ? l->attn_q_bias + item.q_at : NULL, l->attn_q_norm);
		bias_and_norm(f, k, 1, l->attn_k_bias ? l->attn_k_bias + item.kv_at : NULL, l->attn_k_norm);
		bias_and_norm(f, v, 1, l->attn_v_bias ? l->attn_v_bias + item.kv_at : NULL, NULL);
		f->rotate(q, row, item.group, c->head_dim, c->rope_dim);
		f->rotate(k, row, 1, c->head_dim, c->rope_dim);
		if (f->pass->batch.rows[item.row].sequence)
			store_kv(f, layer, &item, k, v);
	}
	if (f->pass->attends_itself)
		team_barrier(f->setup.team);
}

void step_attend(struct forward *f, unsigned thread, uint32_t layer)
{
	const struct image_config *c = &f->setup.model->config;
	uint32_t window = f->setup.model->layers[layer].window, n = n_head_items(f);
	const void **k = (void *)(f->pass->thread_scratch + thread * f->pass->thread_bytes + f->pass->gemm_bytes);
	const void **v = k + kv_pages_for(f->setup.max_context);
	for (uint32_t number = thread; number < n; number += team_n_threads(f->setup.team)) {
		struct head_item item = head_item(f, number);
		const struct batch_row *r = &f->pass->batch.rows[item.row];
		if (!r->sequence)
			continue;
		uint32_t first = window && r->position >= window ? r->position + 1 - window : 0;
		uint32_t n_pages = kv_pages_for(r->position + 1);
		for (uint32_t p = first / KV_PAGE_TOKENS; p < n_pages; p++) {
			assert(kv_may_read(r->sequence->pages[p], f->pass->batch.phase));
			k[p] = kv_keys(f->setup.kv, r->sequence->pages[p], layer, item.head);
			v[p] = kv_values(f->setup.kv, r->sequence->pages[p], layer, item.head);
		}
		size_t at = (size_t)item.row * f->q_dim + item.q_at;
		struct attention a = {
			.q = f->pass->q + at,
			.out = f->pass->h + at,
			.k = k,
			.v = v,
			.n_q = item.group,
			.head_dim = c->head_dim,
			.first_token = first,
			.n_tokens = r->position + 1,
			.scale = c->attention_scale,
		};
		f->attention(&a);
	}
	team_barrier(f->setup.team);
}
