/* Attention over int8 keys and values, level ref: the definition, as attention_ref.c is for bfloat16. kv_int8.h has the
 * format, and why all products are of integers.
 *
 *   query     H q as whole numbers up to KV_QUERY_MAX, and their unit
 *   score     scale / |H| * unit * key scale * (query . key codes)
 *   block     KV_BLOCK_TOKENS positions, beginning at a multiple of that: the running maximum, sum and output move as
 *             they do by page in attention_ref.c
 *   weight    exp(score - maximum) * value scale, as whole numbers up to KV_WEIGHT_MAX of a unit of the block's own: a
 *             unit for all blocks would lose the many small weights of a long context beside one large one
 *   output    += unit * (weights . value codes); in the end H output / |H|, over the sum of exp(score - maximum)
 *
 * What a page holds beside the span has weight 0. NaN and infinities, of a query or as a scale, reach every output of
 * their head by way of the units and the sum. */
#include <math.h>
#include <string.h>

#include "src/kernel/kv_int8.h"
#include "src/kernel/levels.h"
#include "src/kernel/page_span.h"

enum { MAX_HEAD_DIM = 256 };

/* Largest magnitude; NaN where there is one, as its bits are the largest. */
static float largest_magnitude(const float *x, uint32_t n)
{
	uint32_t largest = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t bits = f32_bits(x[i]) & 0x7fffffff;
		largest = bits > largest ? bits : largest;
	}
	return f32_from_bits(largest);
}

/* y = H x, as the fast transform has it: sums and differences of neighbours, then of every second one, and so on. */
static void spread(float *y, const float *x, uint32_t n)
{
	uint32_t block = kv_spread_block(n);

	memcpy(y, x, n * sizeof *y);
	for (uint32_t step = 1; step < block; step *= 2)
		for (uint32_t i = 0; i < n; i++)
			if (!(i & step)) {
				float sum = y[i] + y[i + step], difference = y[i] - y[i + step];
				y[i] = sum;
				y[i + step] = difference;
			}
}

uint16_t to_int8_ref(int8_t *y, const float *x, uint32_t n)
{
	float all[MAX_HEAD_DIM], inverse;
	uint16_t scale;

	spread(all, x, n);
	scale = kv_int8_scale(largest_magnitude(all, n));
	inverse = kv_int8_inverse(f32_from_bf16(scale), 1.0f);
	for (uint32_t i = 0; i < n; i++)
		y[i] = inverse > 0.0f ? (int8_t)lrintf(all[i] * inverse) : 0;
	return scale;
}

/* H times a head of the query as whole numbers; returns their unit. */
static float to_whole(int32_t *y, const float *x, uint32_t n)
{
	float all[MAX_HEAD_DIM], largest, inverse;

	spread(all, x, n);
	largest = largest_magnitude(all, n);
	inverse = kv_int8_inverse(largest, KV_QUERY_MAX);
	for (uint32_t i = 0; i < n; i++)
		y[i] = inverse > 0.0f ? (int32_t)lrintf(all[i] * inverse) : 0;
	return largest / KV_QUERY_MAX;
}

/* What a block's positions have in common. */
struct block {
	uint32_t begin, end; /* positions, of those that count */
	float weight[KV_BLOCK_TOKENS];
	float maximum; /* of the scores */
};

/* weight = the scores. */
static void block_scores(const struct attention *a, const int32_t *q, float factor, struct block *block)
{
	block->maximum = -INFINITY;
	for (uint32_t t = block->begin; t < block->end; t++) {
		const uint8_t *k = a->k[t / KV_PAGE_TOKENS];
		uint32_t slot = t % KV_PAGE_TOKENS;
		float scale = f32_from_bf16(kv_int8_scales(k, a->head_dim)[slot]), score;
		int32_t sum = 0;
		for (uint32_t d = 0; d < a->head_dim; d++)
			sum += q[d] * (k[kv_int8_key_at(slot, d)] - KV_KEY_OFFSET);
		score = factor * scale * (float)sum;
		block->weight[t % KV_BLOCK_TOKENS] = score;
		if (score > block->maximum)
			block->maximum = score;
	}
}

/* weight = exp(score - maximum) * value scale; returns the sum of exp(score - maximum). */
static float block_weights(const struct attention *a, float maximum, struct block *block)
{
	float sum = 0.0f;

	for (uint32_t t = block->begin; t < block->end; t++) {
		float *weight = &block->weight[t % KV_BLOCK_TOKENS], p = expf(*weight - maximum);
		sum += p;
		*weight = p * f32_from_bf16(kv_int8_scales(a->v[t / KV_PAGE_TOKENS], a->head_dim)[t % KV_PAGE_TOKENS]);
	}
	return sum;
}

/* out += weights x values */
static void block_values(const struct attention *a, const struct block *block, float *out)
{
	int32_t sums[MAX_HEAD_DIM] = {0};
	float largest = 0.0f, inverse;

	for (uint32_t t = block->begin; t < block->end; t++)
		if (block->weight[t % KV_BLOCK_TOKENS] > largest)
			largest = block->weight[t % KV_BLOCK_TOKENS];
	inverse = kv_int8_inverse(largest, KV_WEIGHT_MAX);
	for (uint32_t t = block->begin; t < block->end; t++) {
		const int8_t *v = a->v[t / KV_PAGE_TOKENS];
		float weight = block->weight[t % KV_BLOCK_TOKENS] * inverse;
		int32_t whole = weight >= 0.0f ? (int32_t)lrintf(weight) : 0; /* not of NaN */
		for (uint32_t d = 0; d < a->head_dim; d++)
			sums[d] += whole * v[kv_int8_value_at(t % KV_PAGE_TOKENS, d, a->head_dim)];
	}
	for (uint32_t d = 0; d < a->head_dim; d++)
		out[d] += largest / KV_WEIGHT_MAX * (float)sums[d];
}

static void attend(const struct attention *a, const float *query, float *out)
{
	int32_t q[MAX_HEAD_DIM];
	const float spread_by = (float)kv_spread_block(a->head_dim);
	float factor = a->scale / spread_by * to_whole(q, query, a->head_dim), maximum = -INFINITY, sum = 0.0f;
	float all[MAX_HEAD_DIM] = {0.0f}; /* H out */
	struct block block = {.begin = a->first_token};

	for (; block.begin < a->n_tokens; block.begin = block.end) {
		float new_maximum, correction;

		block.end = (block.begin / KV_BLOCK_TOKENS + 1) * KV_BLOCK_TOKENS;
		block.end = block.end < a->n_tokens ? block.end : a->n_tokens;
		block_scores(a, q, factor, &block);
		new_maximum = block.maximum > maximum ? block.maximum : maximum;
		correction = expf(maximum - new_maximum);
		maximum = new_maximum;
		for (uint32_t d = 0; d < a->head_dim; d++)
			all[d] *= correction;
		sum = sum * correction + block_weights(a, maximum, &block);
		block_values(a, &block, all);
	}
	spread(out, all, a->head_dim);
	for (uint32_t d = 0; d < a->head_dim; d++)
		out[d] /= spread_by * sum;
}

void attention_int8_ref(const struct attention *a)
{
	for (uint32_t head = 0; head < a->n_q; head++)
		attend(a, a->q + (size_t)head * a->head_dim, a->out + (size_t)head * a->head_dim);
}
