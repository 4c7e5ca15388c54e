/* Attention over int8 keys and values, level avx2: codes are widened to 16 bits, which vpmaddwd multiplies with the
 * query's or the weights' whole numbers and adds in pairs.
 *
 *   scores    16 bytes are 4 positions x 4 dimensions of a page of keys, sums 4 positions x 2; 16 positions at a time.
 *             Keys are 128 too large: that times the sum of the query is taken off at the end.
 *   softmax   once per block and head; positions outside the span have weight 0.
 *   values    16 bytes are 4 dimensions x 4 positions, sums 4 dimensions x 2; 16 dimensions at a time.
 *
 * Up to two query heads of the same KV head share every key and value that is read. Sums of integers have no order, and
 * the rest is done head by head, so which heads run together changes no head's bits. */
#include <math.h>

#include "src/kernel/inline.h"
#include "src/kernel/kv_int8.h"
#include "src/kernel/levels.h"
#include "src/kernel/page_span.h"
#include "src/kernel/vector_avx2.h"

enum {
	HEADS = 2,
	LANES = 8,
	PAGE_VECTORS = KV_PAGE_TOKENS / LANES,
	BLOCK_VECTORS = KV_BLOCK_PAGES * PAGE_VECTORS,
	MAX_HEAD_DIM = 256,
	FOURS = 4, /* vectors of sums that run beside each other: 16 positions, or 16 dimensions */
};

/* What up to HEADS heads carry from block to block, beside `out`, which is H times the output until the end. */
struct state {
	int16_t q[HEADS][MAX_HEAD_DIM]; /* H q in whole numbers */
	int32_t excess[HEADS];		/* what keys that are KV_KEY_OFFSET too large add to a sum */
	float factor[HEADS];		/* of scores */
	float maximum[HEADS], sum[HEADS], correction[HEADS];
	int32_t score[HEADS][KV_BLOCK_TOKENS]; /* as whole numbers */
	int16_t weight[HEADS][KV_BLOCK_TOKENS];
	float unit[HEADS]; /* of the weights */
	struct next_pages next;
};

ALWAYS_INLINE __m256i broadcast_four(const int16_t *numbers)
{
	int64_t four;
	__builtin_memcpy(&four, numbers, sizeof four);
	return _mm256_set1_epi64x(four);
}

/* Neighbours of a and of b added: [8] in their order. */
ALWAYS_INLINE __m256i add_pairs(__m256i a, __m256i b)
{
	return _mm256_permute4x64_epi64(_mm256_hadd_epi32(a, b), 0xd8);
}

/* Largest magnitude; NaN where there is one, as its bits are the largest. */
static float largest_magnitude(const float *x, uint32_t n)
{
	const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
	__m256i largest = _mm256_setzero_si256();
	uint32_t lanes[LANES];

	for (uint32_t d = 0; d < n; d += LANES) {
		__m256i bits = _mm256_loadu_si256((const __m256i *)(x + d));
		largest = _mm256_max_epu32(largest, _mm256_and_si256(bits, magnitude));
	}
	_mm256_storeu_si256((__m256i *)lanes, largest);
	for (int i = 1; i < LANES; i++)
		lanes[0] = lanes[i] > lanes[0] ? lanes[i] : lanes[0];
	return f32_from_bits(lanes[0]);
}

/* Sums and differences of lanes `step` apart; `other` has them exchanged, `upper` marks those with the lower partner.
 */
#define BUTTERFLY(x, other, upper) _mm256_blend_ps(_mm256_add_ps(x, other), _mm256_sub_ps(other, x), upper)

/* y = H x. y may be x. */
static void spread(float *y, const float *x, uint32_t n)
{
	const uint32_t block = kv_spread_block(n);

	for (uint32_t d = 0; d < n; d += LANES) {
		__m256 v = _mm256_loadu_ps(x + d);
		v = BUTTERFLY(v, _mm256_permute_ps(v, 0xb1), 0xaa);
		v = BUTTERFLY(v, _mm256_permute_ps(v, 0x4e), 0xcc);
		v = BUTTERFLY(v, _mm256_permute2f128_ps(v, v, 1), 0xf0);
		_mm256_storeu_ps(y + d, v);
	}
	for (uint32_t step = LANES; step < block; step *= 2)
		for (float *at = y; at < y + n; at += 2 * step)
			for (uint32_t d = 0; d < step; d += LANES) {
				__m256 a = _mm256_loadu_ps(at + d), b = _mm256_loadu_ps(at + d + step);
				_mm256_storeu_ps(at + d, _mm256_add_ps(a, b));
				_mm256_storeu_ps(at + d + step, _mm256_sub_ps(a, b));
			}
}

/* 16 numbers to whole ones of 16 bits, zeros where there is nothing to be made whole. */
ALWAYS_INLINE __m256i whole(__m256 first, __m256 second, float inverse)
{
	const __m256 by = _mm256_set1_ps(inverse);
	__m256i a = _mm256_cvtps_epi32(_mm256_mul_ps(first, by)), b = _mm256_cvtps_epi32(_mm256_mul_ps(second, by));
	__m256i both = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
	return inverse > 0.0f ? both : _mm256_setzero_si256();
}

uint16_t to_int8_avx2(int8_t *y, const float *x, uint32_t n)
{
	float all[MAX_HEAD_DIM], inverse;
	uint16_t scale;

	spread(all, x, n);
	scale = kv_int8_scale(largest_magnitude(all, n));
	inverse = kv_int8_inverse(f32_from_bf16(scale), 1.0f);
	for (uint32_t d = 0; d < n; d += 2 * LANES) {
		__m256i numbers = whole(_mm256_loadu_ps(all + d), _mm256_loadu_ps(all + d + LANES), inverse);
		_mm_storeu_si128((__m128i *)(y + d), _mm_packs_epi16(_mm256_castsi256_si128(numbers),
								     _mm256_extracti128_si256(numbers, 1)));
	}
	return scale;
}

static void begin_head(struct state *s, int head, const struct attention *a, const float *q)
{
	float all[MAX_HEAD_DIM], largest, inverse;
	int32_t sum = 0;

	spread(all, q, a->head_dim);
	largest = largest_magnitude(all, a->head_dim);
	inverse = kv_int8_inverse(largest, KV_QUERY_MAX);
	for (uint32_t d = 0; d < a->head_dim; d += 2 * LANES)
		_mm256_storeu_si256((__m256i *)&s->q[head][d],
				    whole(_mm256_loadu_ps(all + d), _mm256_loadu_ps(all + d + LANES), inverse));
	for (uint32_t d = 0; d < a->head_dim; d++)
		sum += s->q[head][d];
	s->excess[head] = KV_KEY_OFFSET * sum;
	s->factor[head] = a->scale / (float)kv_spread_block(a->head_dim) * (largest / KV_QUERY_MAX);
	s->maximum[head] = -INFINITY;
	s->sum[head] = 0.0f;
}

/* Scores of 16 positions of a page of keys. `next`: those positions in the block after this one. */
ALWAYS_INLINE void half_page_scores(int n_heads, struct state *s, const uint8_t *k, const char *next, uint32_t at,
				    uint32_t head_dim)
{
	__m256i sum[HEADS][FOURS];

	UNROLL
	for (int h = 0; h < n_heads; h++)
		sum[h][0] = sum[h][1] = sum[h][2] = sum[h][3] = _mm256_setzero_si256();
	for (uint32_t d = 0; d < head_dim; d += 4, k += 4 * KV_PAGE_TOKENS, next += 4 * KV_PAGE_TOKENS) {
		prefetch_lines(next, 64);
		UNROLL
		for (int i = 0; i < FOURS; i++) {
			__m256i keys = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(k + 16 * i)));
			UNROLL
			for (int h = 0; h < n_heads; h++)
				sum[h][i] = _mm256_add_epi32(sum[h][i],
							     _mm256_madd_epi16(keys, broadcast_four(&s->q[h][d])));
		}
	}
	UNROLL
	for (int h = 0; h < n_heads; h++) {
		const __m256i excess = _mm256_set1_epi32(s->excess[h]);
		UNROLL
		for (int i = 0; i < FOURS; i += 2)
			_mm256_storeu_si256((__m256i *)&s->score[h][at + 4 * (uint32_t)i],
					    _mm256_sub_epi32(add_pairs(sum[h][i], sum[h][i + 1]), excess));
	}
}

/* Which of 8 positions of a page count. */
ALWAYS_INLINE __m256 span_lanes(struct page_span span, uint32_t v)
{
	const __m256i position =
		_mm256_add_epi32(_mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0), _mm256_set1_epi32((int)(LANES * v)));
	__m256i before_end = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)span.end), position);
	__m256i before_begin = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)span.begin), position);
	return _mm256_castsi256_ps(_mm256_andnot_si256(before_begin, before_end));
}

ALWAYS_INLINE __m256 page_scales(const void *codes, uint32_t head_dim, int v)
{
	return f32_avx2(_mm_loadu_si128((const __m128i *)(kv_int8_scales(codes, head_dim) + LANES * v)));
}

/* A head's weights of a block, with the values' scales, as whole numbers. */
static void store_weights(struct state *s, int head, const __m256 *weight, int n_vectors)
{
	__m256 most = _mm256_setzero_ps();
	float largest, inverse;

	for (int i = 0; i < n_vectors; i++)
		most = _mm256_max_ps(weight[i], most); /* NaN is not the largest: `sum` has it */
	largest = largest_avx2(most);
	inverse = kv_int8_inverse(largest, KV_WEIGHT_MAX);
	for (int i = 0; i < n_vectors; i += 2)
		_mm256_storeu_si256((__m256i *)&s->weight[head][LANES * i], whole(weight[i], weight[i + 1], inverse));
	s->unit[head] = largest / KV_WEIGHT_MAX;
}

/* A head's scores of a block to weights. */
static void block_softmax(struct state *s, int head, const struct attention *a, uint32_t page, int n_pages)
{
	const __m256 lowest = _mm256_set1_ps(-INFINITY), factor = _mm256_set1_ps(s->factor[head]);
	__m256 score[BLOCK_VECTORS], counts[BLOCK_VECTORS], largest = lowest, total = _mm256_setzero_ps(), now;
	float before = s->maximum[head], block_maximum;

	for (int i = 0; i < PAGE_VECTORS * n_pages; i++) {
		uint32_t p = page + (uint32_t)(i / PAGE_VECTORS);
		int v = i % PAGE_VECTORS;
		__m256i sums = _mm256_loadu_si256((const __m256i *)&s->score[head][LANES * i]);
		__m256 scale = _mm256_mul_ps(factor, page_scales(a->k[p], a->head_dim, v));
		counts[i] = span_lanes(page_span(a, p), (uint32_t)v);
		score[i] = _mm256_blendv_ps(lowest, _mm256_mul_ps(scale, _mm256_cvtepi32_ps(sums)), counts[i]);
		largest = _mm256_max_ps(score[i], largest);
	}
	block_maximum = largest_avx2(largest);
	s->correction[head] = 1.0f;
	if (block_maximum > before) {
		s->maximum[head] = block_maximum;
		s->correction[head] = _mm256_cvtss_f32(exp_avx2(_mm256_set1_ps(before - block_maximum)));
	}
	now = _mm256_set1_ps(s->maximum[head]);
	for (int i = 0; i < PAGE_VECTORS * n_pages; i++) {
		uint32_t p = page + (uint32_t)(i / PAGE_VECTORS);
		__m256 scale = page_scales(a->v[p], a->head_dim, i % PAGE_VECTORS);
		__m256 weight = _mm256_and_ps(exp_avx2(_mm256_sub_ps(score[i], now)), counts[i]);
		total = _mm256_add_ps(total, weight);
		score[i] = _mm256_and_ps(_mm256_mul_ps(weight, scale), counts[i]);
	}
	s->sum[head] = s->sum[head] * s->correction[head] + sum_avx2(total);
	store_weights(s, head, score, PAGE_VECTORS * n_pages);
}

/* out [n_heads][head_dim], 16 dimensions of it from d on: out * correction + weights x values. Positions that do not
 * count have weight 0, so whole fours of them do no harm. */
ALWAYS_INLINE void block_values(int n_heads, const struct state *s, const struct attention *a, uint32_t page,
				int n_pages, uint32_t d, float *out)
{
	__m256i sum[HEADS][FOURS];

	UNROLL
	for (int h = 0; h < n_heads; h++)
		sum[h][0] = sum[h][1] = sum[h][2] = sum[h][3] = _mm256_setzero_si256();
	for (int p = 0; p < n_pages; p++) {
		const struct page_span span = page_span(a, page + (uint32_t)p);
		const int8_t *v = (const int8_t *)a->v[page + (uint32_t)p] + 4 * (size_t)d;
		const char *next = s->next.v[p] + 4 * (size_t)d;
		for (uint32_t t = span.begin & ~3u; t < span.end; t += 4) {
			const int8_t *values = v + (size_t)t * a->head_dim;

			prefetch_lines(next + (size_t)t * a->head_dim, 64);
			UNROLL
			for (int i = 0; i < FOURS; i++) {
				__m128i bytes = _mm_loadu_si128((const __m128i *)(values + 16 * (size_t)i));
				__m256i codes = _mm256_cvtepi8_epi16(bytes);
				UNROLL
				for (int h = 0; h < n_heads; h++) {
					const int16_t *weight = &s->weight[h][KV_PAGE_TOKENS * (uint32_t)p + t];
					sum[h][i] = _mm256_add_epi32(sum[h][i],
								     _mm256_madd_epi16(codes, broadcast_four(weight)));
				}
			}
		}
	}
	UNROLL
	for (int h = 0; h < n_heads; h++) {
		const __m256 correction = _mm256_set1_ps(s->correction[h]), unit = _mm256_set1_ps(s->unit[h]);
		UNROLL
		for (int i = 0; i < FOURS; i += 2) {
			float *at = out + (size_t)h * a->head_dim + d + 4 * (size_t)i;
			__m256 added = _mm256_cvtepi32_ps(add_pairs(sum[h][i], sum[h][i + 1]));
			__m256 kept = _mm256_mul_ps(_mm256_loadu_ps(at), correction);
			_mm256_storeu_ps(at, _mm256_fmadd_ps(unit, added, kept));
		}
	}
}

/* Query heads first .. first + n_heads - 1 (n_heads a constant) over all pages. */
ALWAYS_INLINE void attend(int n_heads, const struct attention *a, uint32_t first)
{
	const uint32_t n = a->head_dim, end = (a->n_tokens + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
	float *out = a->out + (size_t)first * n;
	struct state s;

	for (int h = 0; h < n_heads; h++) {
		begin_head(&s, h, a, a->q + (first + (size_t)h) * n);
		for (uint32_t d = 0; d < n; d += LANES)
			_mm256_storeu_ps(out + (size_t)h * n + d, _mm256_setzero_ps());
	}
	for (uint32_t page = a->first_token / KV_PAGE_TOKENS; page < end;) {
		int n_pages = (int)block_pages(page, end);

		s.next = next_pages(a, page, (uint32_t)n_pages, end);
		for (int p = 0; p < n_pages; p++)
			for (uint32_t t = 0; t < KV_PAGE_TOKENS; t += 16)
				half_page_scores(n_heads, &s, (const uint8_t *)a->k[page + (uint32_t)p] + 4 * t,
						 s.next.k[p] + 4 * t, KV_PAGE_TOKENS * (uint32_t)p + t, n);
		for (int h = 0; h < n_heads; h++)
			block_softmax(&s, h, a, page, n_pages);
		for (uint32_t d = 0; d < n; d += 16)
			block_values(n_heads, &s, a, page, n_pages, d, out);
		page += (uint32_t)n_pages;
	}
	for (int h = 0; h < n_heads; h++) {
		const __m256 sum = _mm256_set1_ps((float)kv_spread_block(n) * s.sum[h]);
		spread(out + (size_t)h * n, out + (size_t)h * n, n);
		for (uint32_t d = 0; d < n; d += LANES) {
			float *at = out + (size_t)h * n + d;
			_mm256_storeu_ps(at, _mm256_div_ps(_mm256_loadu_ps(at), sum));
		}
	}
}

void attention_int8_avx2(const struct attention *a)
{
	uint32_t first = 0;

	for (; a->n_q - first >= 2; first += 2)
		attend(2, a, first);
	if (first < a->n_q)
		attend(1, a, first);
}
