/* The forward pass of decoder models: norms, rotary or learned positions, grouped-query attention, attention to what is
 * heard, a feed-forward layer with a gate or without. What a model lacks (biases, norms of heads or of outputs,
 * windows, ears) is absent in struct model, and its step does nothing.
 *
 * Every compute thread runs the same function from top to bottom. Steps that go row by row (norm, residual, staging an
 * operand) give a thread the same rows each time, or all rows in memory of its own (see struct rows), and steps of
 * heads the same heads, so they follow each other freely; a step whose output other threads read ends at a barrier:
 * staging, the products, attention, and storing keys and values where rows of the same pass attend to them. An answer
 * alone thus meets five barriers a layer. Within a step the threads divide outputs (block rows, panels, heads, rows),
 * never sums, so how many there are cannot be seen in a result.
 *
 * So threads may as well be on several nodes, each with its own node's copy of the weights (forward_model): a weight is
 * read where it is near, by the thread whose output it is for, and what comes of it is the same. What threads make for
 * each other, the rows below, goes through memory that they share.
 *
 *   x      [rows][dim]    residual stream
 *   h      [rows][...]    normed x, attention's output: what a product reads; the feed-forward layer's output
 *   q k v  [rows][...]    one layer's projections
 *   gate   [rows][...]    attention's projected output, later activation(gate) * up
 *   up     [rows][ffn_dim]
 *
 * Of most rows of a prompt nothing is wanted but keys and values. The last layer ends there for them: the others move
 * together, and what is left of the layer is as if these had been the batch.
 *
 * A pass can stop between two layers and go on later: each phase has a lane of its own, so decode passes run while a
 * prefill pass stands still. All of a lane is one span of the call arena, taken at its first pass and given back when
 * no pass has needed it for a while. A span is as large as the widest pass, but memory is there only for rows that were
 * written; what a wide pass left behind is given back by forward_trim. */
#include "src/engine/forward.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "src/engine/forward_private.h"

static uint32_t max_u32(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* --- memory ----------------------------------------------------------------------------------- */

/* Attention's output, projected, is kept there, too. */
static size_t gate_cols(const struct forward *f)
{
	return max_u32(f->setup.model->config.ffn_dim, f->setup.model->config.dim);
}

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
	p->gate = lane_place(l, rows, gate_cols(f) * sizeof(float));
	p->up = lane_place(l, rows, c->ffn_dim * sizeof(float));
	p->cos_sin = p->window_cos_sin = lane_place(l, rows, c->rope_dim * sizeof(float));
	if (c->window_rope_base > 0)
		p->window_cos_sin = lane_place(l, rows, c->rope_dim * sizeof(float));
	if (p->phase == PHASE_PREFILL) {
		size_t element = f->plain == NUMERICS_BF16 ? sizeof(uint16_t) : sizeof(float);
		p->a = lane_place(l, (rows + 31) & ~31u, f->max_cols * element);
	} else {
		p->act.f32 = lane_place(l, rows, f->max_cols * sizeof(float));
		p->act.bf16 = lane_place(l, rows, f->max_cols * sizeof(uint16_t));
		p->act.group_sum = lane_place(l, rows, f->max_cols / PACK_GROUP * sizeof(float));
		p->act.half_sum = lane_place(l, rows, f->max_cols / (PACK_GROUP / 2) * sizeof(float));
	}
	if (f->setup.numerics == NUMERICS_INT8 && p->phase == PHASE_PREFILL)
		p->bytes = lane_place(l, (rows + INT8_ROWS - 1) / INT8_ROWS * INT8_ROWS, int8_row_bytes(f->max_cols));
	else if (f->setup.numerics == NUMERICS_INT8)
		p->bytes = lane_place(l, rows, INT8_ROWS * int8_row_bytes(f->max_cols));
	p->kept = lane_place(l, rows, sizeof *p->kept);
	p->place = lane_place(l, rows, sizeof *p->place);
	p->adapted = lane_place(l, rows, sizeof *p->adapted);
	p->groups = lane_place(l, rows, sizeof *p->groups);
	p->t = lane_place(l, rows, FORWARD_T_COLS * sizeof(float));
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
	p->lists_bytes = (2 * (size_t)kv_pages_for(f->setup.max_context) * sizeof(void *) + 63) & ~(size_t)63;
	p->thread_bytes = gemm_bytes + p->lists_bytes + cross_scratch_place(f, NULL, NULL);
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
	f->plain = kernels_plain(setup->kernels->level, setup->numerics);
	f->q_dim = c->n_heads * c->head_dim;
	f->kv_dim = c->n_kv_heads * c->head_dim;
	f->max_cols = max_u32(max_u32(c->dim, f->q_dim), c->ffn_dim);
	f->rotate = c->rope_pairing == IMAGE_ROPE_HALVES ? setup->kernels->rope_halves : setup->kernels->rope_pairs;
	f->gate = c->activation == IMAGE_GELU_TANH ? setup->kernels->geglu : setup->kernels->swiglu;
	f->attention = setup->kv->type == KV_INT8 ? setup->kernels->attention_int8 : setup->kernels->attention;
	rope_init(&f->rope, c, setup->model->rope_divisors);
	if (c->window_rope_base > 0)
		rope_init_window(&f->window_rope, c);
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

size_t forward_scratch_bytes(const struct forward *f, uint32_t n_prompt, uint32_t n_answers)
{
	return lane_bytes(&f->passes[PHASE_PREFILL].lane, rows_used(f, PHASE_PREFILL, n_prompt)) +
	       lane_bytes(&f->passes[PHASE_DECODE].lane, rows_used(f, PHASE_DECODE, n_answers)) +
	       lane_bytes(&f->head.lane, rows_used(f, PHASE_DECODE, n_answers));
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
	return p->under_way ? p->n_rows : 0;
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

const struct model *forward_model(const struct forward *f, unsigned thread)
{
	return f->setup.copies ? f->setup.copies[thread] : f->setup.model;
}

struct sampler_candidate *forward_candidates(struct forward *f)
{
	return f->head.candidates;
}

uint64_t forward_products(const struct forward *f)
{
	return f->n_products;
}

const struct forward_operations *forward_operations(const struct forward *f)
{
	return &f->operations;
}

/* --- the pass --------------------------------------------------------------------------------- */

/* An adapter's delta comes after each product and before what follows it; nothing is fused across that point. */
static void layer_pass(struct forward *f, unsigned thread, uint32_t layer)
{
	const struct model_layer *l = &forward_model(f, thread)->layers[layer];
	const struct image_config *c = &f->setup.model->config;
	struct pass *p = f->pass;
	float *h = own_h(f, rows_of(f, thread, p->batch.n_rows));
	const struct products heads = {
		.layer = layer,
		.x = h,
		.cols = c->dim,
		.n = 3,
		.each = {{ADAPTER_Q, &l->attn_q, p->q}, {ADAPTER_K, &l->attn_k, p->k}, {ADAPTER_V, &l->attn_v, p->v}},
	};
	const struct products attended = {
		.layer = layer,
		.x = p->h,
		.cols = f->q_dim,
		.n = 1,
		.each = {{ADAPTER_OUTPUT, &l->attn_output, p->attended}},
	};

	step_norm(f, thread, l->attn_norm, l->attn_norm_bias);
	step_products(f, thread, &heads);
	step_heads(f, thread, layer);
	if (p->phase == PHASE_PREFILL && layer + 1 == c->n_layers && !step_keep(f, thread))
		return;
	step_attend(f, thread, layer);
	step_products(f, thread, &attended);
	step_add(f, thread, p->attended, l->attn_output_bias, l->attn_post_norm);
	step_hear(f, thread, layer);
	step_feed_forward(f, thread, l, layer);
}

/* Relaxed, and no atomic addition: one thread writes, and readers compare the value with an older one (forward.h). */
void count_progress(struct forward *f)
{
	if (f->progress)
		__atomic_store_n(f->progress, *f->progress + 1, __ATOMIC_RELAXED);
}

static void count_attention(struct forward *f, uint32_t layer)
{
	const struct image_config *c = &f->setup.model->config;
	uint64_t n_tokens = 0, window = f->setup.model->layers[layer].window;
	for (uint32_t r = 0; r < f->pass->batch.n_rows; r++) {
		const struct batch_row *row = &f->pass->batch.rows[r];
		if (row->sequence)
			n_tokens += window && row->position >= window ? window : row->position + 1;
		if (row->window)
			n_tokens += row->window->n_positions;
	}
	f->operations.attention += 4 * n_tokens * c->n_heads * c->head_dim;
}

static void pass_layers(void *arg, unsigned thread)
{
	struct forward *f = arg;
	if (f->pass->layer == 0)
		step_embed(f, thread);
	for (uint32_t layer = f->pass->layer; layer < f->layer_end; layer++) {
		layer_pass(f, thread, layer);
		if (thread == 0) {
			count_progress(f);
			count_attention(f, layer);
		}
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

/* Prompts do, nearly always; of answers only those that are replayed. */
static bool attends_itself(const struct batch *batch)
{
	if (batch->phase == PHASE_PREFILL)
		return true;
	for (uint32_t r = 1; r < batch->n_rows; r++)
		for (uint32_t before = 0; before < r; before++)
			if (batch->rows[r].sequence == batch->rows[before].sequence)
				return true;
	return false;
}

int forward_begin(struct forward *f, const struct batch *batch)
{
	struct pass *p = &f->passes[batch->phase];
	assert(batch->n_rows > 0 && batch->n_rows <= p->max_rows && !p->under_way);
	int rc = wake(f, p);
	if (rc)
		return rc;
	lane_use(&p->lane, rows_used(f, p->phase, batch->n_rows));
	p->batch = *batch;
	p->n_rows = batch->n_rows;
	adapters_group(p);
	p->attends_itself = attends_itself(batch);
	/* Beside gate where rows are many; what other threads still read must not be where the next product goes. */
	p->attended = p->gate + (is_narrow(f, p->phase, batch->n_rows) ? batch->n_rows * gate_cols(f) : 0);
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
		if (row->sequence == sequence) {
			row->sequence = NULL;
			row->adapter = NULL;
			row->window = NULL;
			row->attended = NULL;
		}
		alive |= row->sequence != NULL;
	}
	p->under_way = alive;
	if (alive)
		adapters_group(p);
	return alive;
}

static void pick_pass(void *arg, unsigned thread)
{
	step_pick(arg, thread);
}

static void head_pass(void *arg, unsigned thread)
{
	struct forward *f = arg;
	const struct model *m = forward_model(f, thread);
	step_pick(f, thread);
	const float *own = f->head.picked + (size_t)rows_of(f, thread, f->head.n).own * m->config.dim;
	const struct products logits = {
		.x = own, .cols = m->config.dim, .n = 1, .each = {{ADAPTER_N_PRODUCTS, &m->head, f->head.logits}}};
	struct operand picked = step_stage(f, thread, &logits, f->head.n);
	step_product(f, thread, &m->head, picked, f->head.logits);
}

static void pick_rows(struct forward *f, const uint32_t *rows, uint32_t n)
{
	assert(f->pass && !f->pass->under_way && n > 0 && n <= LOGIT_ROWS_MAX);
	lane_use(&f->head.lane, rows_used(f, f->pass->phase, n));
	f->head.rows = rows;
	f->head.n = n;
}

const float *forward_states(struct forward *f, const uint32_t *rows, uint32_t n)
{
	pick_rows(f, rows, n);
	team_run(f->setup.team, pick_pass, f);
	return f->head.picked;
}

const float *forward_logits(struct forward *f, const uint32_t *rows, uint32_t n)
{
	pick_rows(f, rows, n);
	team_run(f->setup.team, head_pass, f);
	return f->head.logits;
}
