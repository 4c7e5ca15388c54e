#include "tests/unit/tiny_speech.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/kernel/half.h"

static const struct image_config config = {
	.family = IMAGE_FAMILY_WHISPER,
	.n_layers = TINY_LAYERS,
	.dim = TINY_DIM,
	.n_heads = TINY_DIM / TINY_HEAD_DIM,
	.n_kv_heads = TINY_DIM / TINY_HEAD_DIM,
	.head_dim = TINY_HEAD_DIM,
	.ffn_dim = TINY_FFN,
	.vocab = TINY_WORDS,
	.context = TINY_CONTEXT,
	.norm_eps = 1e-5f,
	.tied_head = 1,
	.activation = IMAGE_GELU,
	.embedding_scale = 1,
	.attention_scale = 0.125f,
	.encoder_layers = TINY_ENCODER_LAYERS,
	.encoder_context = TINY_POSITIONS,
	.mel_bins = TINY_BINS,
};

/* --- made ------------------------------------------------------------------------------------- */

static float next_random(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return (float)((int)(*state >> 8) - (1 << 23)) / (1 << 23);
}

static const float *vector(uint32_t n, float middle, uint32_t *state)
{
	float *v = aligned_alloc(64, (n * sizeof *v + 63) / 64 * 64);
	assert(v);
	for (uint32_t i = 0; i < n; i++)
		v[i] = middle + 0.3f * next_random(state);
	return v;
}

/* A row in the file's form. Q8_0: a scale near 0.0005 and codes. */
static void random_row(enum pack_kind kind, unsigned char *row, uint32_t cols, float width, uint32_t *state)
{
	for (uint32_t i = 0; i < cols && kind == PACK_F32; i++) {
		float value = width * next_random(state);
		memcpy(row + 4 * (size_t)i, &value, 4);
	}
	for (uint32_t i = 0; i < cols && kind == PACK_BF16; i++) {
		uint16_t value = bf16_from_f32(width * next_random(state));
		memcpy(row + 2 * (size_t)i, &value, 2);
	}
	for (uint32_t group = 0; group < cols / PACK_GROUP && kind == PACK_Q8_0; group++, row += 34) {
		uint16_t scale = f16_from_f32(width / 127);
		memcpy(row, &scale, 2);
		for (uint32_t i = 0; i < PACK_GROUP; i++)
			row[2 + i] = (unsigned char)(int8_t)(127 * next_random(state));
	}
}

static struct matrix matrix(enum pack_kind kind, uint32_t rows, uint32_t cols, uint32_t *state)
{
	size_t block_row = pack_block_row_bytes(kind, cols), source_row = pack_source_row_bytes(kind, cols);
	uint32_t n_blocks = (rows + PACK_ROWS - 1) / PACK_ROWS;
	float width = sqrtf(3.0f / (float)cols); /* so that outputs are as large as inputs */
	char *data = aligned_alloc(64, (n_blocks * block_row + 63) / 64 * 64);
	unsigned char *source = malloc(PACK_ROWS * source_row);
	assert(data && source);
	for (uint32_t b = 0; b < n_blocks; b++) {
		uint32_t n = rows - b * PACK_ROWS < PACK_ROWS ? rows - b * PACK_ROWS : PACK_ROWS;
		for (uint32_t i = 0; i < n; i++)
			random_row(kind, source + i * source_row, cols, width, state);
		pack_block_row(kind, data + b * block_row, source, n, cols);
	}
	free(source);
	return (struct matrix){data, kind, rows, cols};
}

static struct model_layer layer(enum pack_kind kind, bool hears, uint32_t *s)
{
	const uint32_t d = TINY_DIM;
	struct model_layer l = {
		.attn_norm = vector(d, 1, s),
		.attn_norm_bias = vector(d, 0, s),
		.attn_q = matrix(kind, d, d, s),
		.attn_k = matrix(kind, d, d, s),
		.attn_v = matrix(kind, d, d, s),
		.attn_output = matrix(kind, d, d, s),
		.attn_q_bias = vector(d, 0, s),
		.attn_v_bias = vector(d, 0, s),
		.attn_output_bias = vector(d, 0, s),
		.ffn_norm = vector(d, 1, s),
		.ffn_norm_bias = vector(d, 0, s),
		.ffn_up = matrix(kind, TINY_FFN, d, s),
		.ffn_down = matrix(kind, d, TINY_FFN, s),
		.ffn_up_bias = vector(TINY_FFN, 0, s),
		.ffn_down_bias = vector(d, 0, s),
	};
	if (!hears)
		return l;
	l.cross_norm = vector(d, 1, s);
	l.cross_norm_bias = vector(d, 0, s);
	l.cross_q = matrix(kind, d, d, s);
	l.cross_k = matrix(kind, d, d, s);
	l.cross_v = matrix(kind, d, d, s);
	l.cross_output = matrix(kind, d, d, s);
	l.cross_q_bias = vector(d, 0, s);
	l.cross_v_bias = vector(d, 0, s);
	l.cross_output_bias = vector(d, 0, s);
	return l;
}

/* Heads in no order, two of them in one layer. */
static struct speech_table *make_table(void)
{
	static const struct speech_head heads[TINY_HEADS_HEARD] = {{1, 1}, {0, 0}, {1, 0}};
	struct speech_source source = {.table = {.n_heads = TINY_HEADS_HEARD}, .heads = heads};
	struct speech_table *table = malloc(speech_table_bytes(&source));
	assert(table);
	speech_table_build(&source, table);
	return table;
}

struct tiny_speech *tiny_speech_new(enum pack_kind kind, unsigned seed)
{
	struct tiny_speech *tiny = calloc(1, sizeof *tiny);
	assert(tiny);
	struct model *m = &tiny->model;
	uint32_t s = seed;
	m->config = config;
	m->layers = calloc(TINY_LAYERS, sizeof *m->layers);
	m->encoder.layers = calloc(TINY_ENCODER_LAYERS, sizeof *m->encoder.layers);
	assert(m->layers && m->encoder.layers);
	m->token_embd = m->head = matrix(kind, TINY_WORDS, TINY_DIM, &s);
	m->position_embd = matrix(kind, TINY_CONTEXT, TINY_DIM, &s);
	m->output_norm = vector(TINY_DIM, 1, &s);
	m->output_norm_bias = vector(TINY_DIM, 0, &s);
	for (unsigned i = 0; i < TINY_LAYERS; i++)
		m->layers[i] = layer(kind, true, &s);
	m->encoder.conv1 = matrix(kind, TINY_DIM, (3 * TINY_BINS + 31) / 32 * 32, &s);
	m->encoder.conv2 = matrix(kind, TINY_DIM, 3 * TINY_DIM, &s);
	m->encoder.conv1_bias = vector(TINY_DIM, 0, &s);
	m->encoder.conv2_bias = vector(TINY_DIM, 0, &s);
	m->encoder.position_embd = matrix(kind, TINY_POSITIONS, TINY_DIM, &s);
	m->encoder.output_norm = vector(TINY_DIM, 1, &s);
	m->encoder.output_norm_bias = vector(TINY_DIM, 0, &s);
	for (unsigned i = 0; i < TINY_ENCODER_LAYERS; i++)
		m->encoder.layers[i] = layer(kind, false, &s);
	m->speech = tiny->table = make_table();
	return tiny;
}

static void release(const void *made) /* by this file, const since */
{
	free((void *)(uintptr_t)made);
}

static void layers_free(struct model_layer *layers, unsigned n)
{
	for (struct model_layer *l = layers; l < layers + n; l++) {
		const void *all[] = {
			l->attn_norm,	      l->attn_norm_bias,   l->attn_q.data,   l->attn_k.data,
			l->attn_v.data,	      l->attn_output.data, l->attn_q_bias,   l->attn_v_bias,
			l->attn_output_bias,  l->ffn_norm,	   l->ffn_norm_bias, l->ffn_up.data,
			l->ffn_down.data,     l->ffn_up_bias,	   l->ffn_down_bias, l->cross_norm,
			l->cross_norm_bias,   l->cross_q.data,	   l->cross_k.data,  l->cross_v.data,
			l->cross_output.data, l->cross_q_bias,	   l->cross_v_bias,  l->cross_output_bias,
		};
		for (size_t i = 0; i < sizeof all / sizeof *all; i++)
			release(all[i]);
	}
}

void tiny_speech_free(struct tiny_speech *tiny)
{
	struct model *m = &tiny->model;
	const void *all[] = {
		m->token_embd.data,	m->position_embd.data,	     m->output_norm,
		m->output_norm_bias,	m->encoder.conv1.data,	     m->encoder.conv2.data,
		m->encoder.conv1_bias,	m->encoder.conv2_bias,	     m->encoder.position_embd.data,
		m->encoder.output_norm, m->encoder.output_norm_bias,
	};
	layers_free(m->layers, TINY_LAYERS);
	layers_free(m->encoder.layers, TINY_ENCODER_LAYERS);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		release(all[i]);
	model_close(m);
	free(tiny->table);
	free(tiny);
}

float *tiny_speech_mel(unsigned seed)
{
	uint32_t s = seed;
	size_t n = 2 * (size_t)TINY_POSITIONS * TINY_BINS;
	float *mel = malloc(n * sizeof *mel);
	assert(mel);
	for (size_t i = 0; i < n; i++)
		mel[i] = next_random(&s);
	return mel;
}

void tiny_listener_init(struct tiny_listener *e, const struct model *model, const struct tiny_listener_setup *setup)
{
	struct err err = {""};
	memset(e, 0, sizeof *e);
	int rc = model_gemm(model, setup->level, setup->numerics, &e->gemm, &err);
	if (!rc)
		rc = team_new(setup->n_threads, 0, NULL, NULL, &e->team, &err);
	if (!rc)
		rc = arena_init(&e->arena, (size_t)1 << 32, &err);
	if (rc)
		fprintf(stderr, "%s\n", err.text);
	assert(!rc);
	kv_init(&e->kv, &model->config, setup->kv_type, &e->arena, 200);
	const struct forward_setup forward = {
		.model = model,
		.kernels = kernels_get(setup->level, setup->numerics),
		.gemm = e->gemm,
		.team = e->team,
		.arena = &e->arena,
		.kv = &e->kv,
		.numerics = setup->numerics,
		.max_rows = 256,
		.max_context = model->config.context,
	};
	rc = forward_new(&forward, &e->forward, &err);
	if (!rc)
		rc = encoder_new(e->forward, &e->encoder, &err);
	assert(!rc);
	(void)rc;
}

void tiny_listener_fini(struct tiny_listener *e)
{
	encoder_free(e->encoder);
	forward_free(e->forward);
	arena_fini(&e->arena);
	team_free(e->team);
	gemm_free(e->gemm);
}

/* --- the same in double ------------------------------------------------------------------------- */

static void row_of(const struct matrix *w, uint32_t row, double *out)
{
	float values[4 * TINY_DIM];
	assert(w->cols <= 4 * TINY_DIM);
	kernels_get(CPU_LEVEL_REF, NUMERICS_F32)->expand_row(w, row, values);
	for (uint32_t i = 0; i < w->cols; i++)
		out[i] = (double)values[i];
}

void tiny_speech_linear(const struct matrix *w, const float *bias, const double *x, double *y)
{
	double row[4 * TINY_DIM];
	for (uint32_t i = 0; i < w->rows; i++) {
		row_of(w, i, row);
		y[i] = bias ? (double)bias[i] : 0;
		for (uint32_t j = 0; j < w->cols; j++)
			y[i] += row[j] * x[j];
	}
}

/* y [n][w->rows], each row as above. */
static double *linear(const struct matrix *w, const float *bias, const double *x, uint32_t n)
{
	double *y = malloc((size_t)n * w->rows * sizeof *y), row[4 * TINY_DIM];
	assert(y);
	for (uint32_t i = 0; i < w->rows; i++) {
		row_of(w, i, row);
		for (uint32_t r = 0; r < n; r++) {
			double sum = bias ? (double)bias[i] : 0;
			for (uint32_t j = 0; j < w->cols; j++)
				sum += row[j] * x[(size_t)r * w->cols + j];
			y[(size_t)r * w->rows + i] = sum;
		}
	}
	return y;
}

static double *normed(const double *x, const float *weight, const float *bias, uint32_t n)
{
	double *y = malloc((size_t)n * TINY_DIM * sizeof *y);
	assert(y);
	for (uint32_t r = 0; r < n; r++) {
		const double *row = x + (size_t)r * TINY_DIM;
		double mean = 0, variance = 0;
		for (unsigned i = 0; i < TINY_DIM; i++)
			mean += row[i] / TINY_DIM;
		for (unsigned i = 0; i < TINY_DIM; i++)
			variance += (row[i] - mean) * (row[i] - mean) / TINY_DIM;
		for (unsigned i = 0; i < TINY_DIM; i++)
			y[(size_t)r * TINY_DIM + i] =
				(row[i] - mean) / sqrt(variance + (double)config.norm_eps) * (double)weight[i] +
				(double)bias[i];
	}
	return y;
}

static void gelu(double *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		x[i] *= 0.5 * erfc(-x[i] * M_SQRT1_2);
}

static void add(double *x, double *y, size_t n) /* frees y */
{
	for (size_t i = 0; i < n; i++)
		x[i] += y[i];
	free(y);
}

struct reference_attention {
	double *q, *k, *v; /* [n][TINY_DIM], [n_keys][TINY_DIM] owned */
	uint32_t n, n_keys;
	bool causal;
	double *attended; /* [n][heads][n_keys] or NULL */
};

static void attend_row(const struct reference_attention *a, uint32_t r, uint32_t head, double *out)
{
	uint32_t n_keys = a->causal ? r + 1 : a->n_keys, at = head * TINY_HEAD_DIM;
	double *weight = malloc(n_keys * sizeof *weight), largest = -INFINITY, sum = 0;
	assert(weight);
	for (uint32_t t = 0; t < n_keys; t++) {
		weight[t] = 0;
		for (unsigned d = 0; d < TINY_HEAD_DIM; d++)
			weight[t] += 0.125 * a->q[(size_t)r * TINY_DIM + at + d] * a->k[(size_t)t * TINY_DIM + at + d];
		largest = fmax(largest, weight[t]);
	}
	for (uint32_t t = 0; t < n_keys; t++)
		sum += weight[t] = exp(weight[t] - largest);
	for (uint32_t t = 0; t < n_keys; t++) {
		weight[t] /= sum;
		for (unsigned d = 0; d < TINY_HEAD_DIM; d++)
			out[d] += weight[t] * a->v[(size_t)t * TINY_DIM + at + d];
		if (a->attended)
			a->attended[((size_t)r * config.n_heads + head) * a->n_keys + t] = weight[t];
	}
	free(weight);
}

/* Projected by `output`; frees q, k and v. */
static double *attention(struct reference_attention a, const struct matrix *output, const float *bias)
{
	double *out = calloc((size_t)a.n * TINY_DIM, sizeof *out);
	assert(out);
	for (uint32_t r = 0; r < a.n; r++)
		for (uint32_t head = 0; head < config.n_heads; head++)
			attend_row(&a, r, head, out + (size_t)r * TINY_DIM + (size_t)head * TINY_HEAD_DIM);
	double *y = linear(output, bias, out, a.n);
	free(out);
	free(a.q);
	free(a.k);
	free(a.v);
	return y;
}

static void self_attention(const struct model_layer *l, double *x, uint32_t n, bool causal)
{
	double *h = normed(x, l->attn_norm, l->attn_norm_bias, n);
	struct reference_attention a = {
		.q = linear(&l->attn_q, l->attn_q_bias, h, n),
		.k = linear(&l->attn_k, NULL, h, n),
		.v = linear(&l->attn_v, l->attn_v_bias, h, n),
		.n = n,
		.n_keys = n,
		.causal = causal,
	};
	add(x, attention(a, &l->attn_output, l->attn_output_bias), (size_t)n * TINY_DIM);
	free(h);
}

static void cross_attention(const struct model_layer *l, double *x, uint32_t n, const double *states, double *attended)
{
	double *h = normed(x, l->cross_norm, l->cross_norm_bias, n);
	struct reference_attention a = {
		.q = linear(&l->cross_q, l->cross_q_bias, h, n),
		.k = linear(&l->cross_k, NULL, states, TINY_POSITIONS),
		.v = linear(&l->cross_v, l->cross_v_bias, states, TINY_POSITIONS),
		.n = n,
		.n_keys = TINY_POSITIONS,
		.attended = attended,
	};
	add(x, attention(a, &l->cross_output, l->cross_output_bias), (size_t)n * TINY_DIM);
	free(h);
}

static void feed_forward(const struct model_layer *l, double *x, uint32_t n)
{
	double *h = normed(x, l->ffn_norm, l->ffn_norm_bias, n);
	double *up = linear(&l->ffn_up, l->ffn_up_bias, h, n);
	gelu(up, (size_t)n * TINY_FFN);
	add(x, linear(&l->ffn_down, l->ffn_down_bias, up, n), (size_t)n * TINY_DIM);
	free(h);
	free(up);
}

/* gelu of a convolution over three frames, every `stride`-th, with zeros around x [n][channels]. */
static double *convolution(const struct matrix *w, const float *bias, const double *x, uint32_t n, uint32_t channels,
			   uint32_t stride)
{
	uint32_t n_out = n / stride;
	double *side = calloc((size_t)n_out * w->cols, sizeof *side);
	assert(side);
	for (uint32_t r = 0; r < n_out; r++)
		for (int tap = 0; tap < 3; tap++) {
			int frame = (int)(r * stride) + tap - 1;
			if (frame >= 0 && frame < (int)n)
				memcpy(side + (size_t)r * w->cols + (size_t)tap * channels,
				       x + (size_t)frame * channels, channels * sizeof *x);
		}
	double *y = linear(w, bias, side, n_out);
	gelu(y, (size_t)n_out * w->rows);
	free(side);
	return y;
}

double *tiny_speech_states(const struct model *model, const float *mel)
{
	const struct model_encoder *m = &model->encoder;
	const uint32_t n = TINY_POSITIONS, n_frames = 2 * n;
	double *frames = malloc((size_t)n_frames * TINY_BINS * sizeof *frames), position[TINY_DIM];
	assert(frames);
	for (size_t i = 0; i < (size_t)n_frames * TINY_BINS; i++)
		frames[i] = (double)mel[i];
	double *first = convolution(&m->conv1, m->conv1_bias, frames, n_frames, TINY_BINS, 1);
	double *x = convolution(&m->conv2, m->conv2_bias, first, n_frames, TINY_DIM, 2);
	for (uint32_t r = 0; r < n; r++) {
		row_of(&m->position_embd, r, position);
		for (unsigned i = 0; i < TINY_DIM; i++)
			x[(size_t)r * TINY_DIM + i] += position[i];
	}
	for (unsigned i = 0; i < TINY_ENCODER_LAYERS; i++) {
		self_attention(&m->layers[i], x, n, false);
		feed_forward(&m->layers[i], x, n);
	}
	double *states = normed(x, m->output_norm, m->output_norm_bias, n);
	free(frames);
	free(first);
	free(x);
	return states;
}

void tiny_speech_logits(const struct model *model, const double *states, const uint32_t *tokens, uint32_t n,
			double *logits, double *attended)
{
	size_t one = (size_t)config.n_heads * TINY_POSITIONS;
	double *x = malloc((size_t)n * TINY_DIM * sizeof *x), *heads = malloc(n * one * sizeof *heads);
	double position[TINY_DIM];
	assert(x && heads);
	for (uint32_t r = 0; r < n; r++) {
		row_of(&model->token_embd, tokens[r], x + (size_t)r * TINY_DIM);
		row_of(&model->position_embd, r, position);
		for (unsigned i = 0; i < TINY_DIM; i++)
			x[(size_t)r * TINY_DIM + i] += position[i];
	}
	for (uint32_t layer = 0; layer < TINY_LAYERS; layer++) {
		const struct model_layer *l = &model->layers[layer];
		self_attention(l, x, n, true);
		cross_attention(l, x, n, states, heads);
		feed_forward(l, x, n);
		for (unsigned i = 0; i < TINY_HEADS_HEARD; i++) {
			struct speech_head head = speech_heads(model->speech)[i];
			for (uint32_t r = 0; r < n && head.layer == layer; r++)
				memcpy(attended + ((size_t)r * TINY_HEADS_HEARD + i) * TINY_POSITIONS,
				       heads + r * one + (size_t)head.head * TINY_POSITIONS,
				       TINY_POSITIONS * sizeof *heads);
		}
	}
	double *h = normed(x, model->output_norm, model->output_norm_bias, n);
	double *y = linear(&model->head, NULL, h, n);
	memcpy(logits, y, (size_t)n * TINY_WORDS * sizeof *y);
	free(h);
	free(y);
	free(x);
	free(heads);
}
