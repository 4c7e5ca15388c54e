/* Attention over int8 keys and values, level avx512: unsigned times signed bytes by vpdpbusd, four to a sum. The 16-bit
 * operand is taken byte by byte: 256 * high + low for both products, with a chain of sums for each.
 *
 *   scores    a register holds 16 positions x 4 dimensions of a page of keys; four dimensions of a query's bytes are
 *             broadcast. Keys are 128 too large: that times the sum of the query is taken off at the end.
 *   softmax   as in attention_avx512.c, on blocks of as many positions; positions outside the span have weight 0.
 *   values    a register holds 16 dimensions x 4 positions; four positions of the weights' bytes are broadcast.
 *
 * Up to four query heads of the same KV head share every key and value that is read. Sums of integers have no order,
 * and the rest is done head by head, so which heads run together changes no head's bits. */
#include <math.h>

#include "src/kernel/inline.h"
#include "src/kernel/kv_int8.h"
#include "src/kernel/levels.h"
#include "src/kernel/page_span.h"
#include "src/kernel/vector_avx512.h"

enum {
	HEADS = 4,
	LANES = 16,
	PAGE_VECTORS = KV_PAGE_TOKENS / LANES,
	BLOCK_VECTORS = KV_BLOCK_PAGES * PAGE_VECTORS,
	MAX_HEAD_DIM = 256,
	HIGH = 0,
	LOW = 1,
};

/* What up to HEADS heads carry from block to block, beside `out`, which is H times the output until the end. */
struct state {
	int8_t q[HEADS][2][MAX_HEAD_DIM]; /* HIGH and LOW bytes of H q in whole numbers, both signed */
	int32_t excess[HEADS];		  /* what keys that are KV_KEY_OFFSET too large add to a sum */
	float factor[HEADS];		  /* of scores */
	float maximum[HEADS];
	__m512 sum[HEADS]; /* of exp(score - maximum), by lane */
	float correction[HEADS];
	__m512i score[HEADS][BLOCK_VECTORS];	   /* as whole numbers */
	uint8_t weight[HEADS][2][KV_BLOCK_TOKENS]; /* HIGH and LOW bytes of the whole weights */
	float unit[HEADS];			   /* of the weights */
	struct next_pages next;
};

ALWAYS_INLINE __m512i broadcast_four(const void *bytes)
{
	int32_t four;
	__builtin_memcpy(&four, bytes, sizeof four);
	return _mm512_set1_epi32(four);
}

ALWAYS_INLINE __m512i join_bytes(__m512i high, __m512i low)
{
	return _mm512_add_epi32(_mm512_slli_epi32(high, 8), low);
}

/* Largest magnitude; NaN where there is one, as its bits are the largest. */
static float largest_magnitude(const float *x, uint32_t n)
{
	const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
	__m512i largest = _mm512_setzero_si512();

	for (uint32_t d = 0; d < n; d += LANES)
		largest = _mm512_max_epu32(largest,
					   _mm512_and_si512(_mm512_castps_si512(_mm512_loadu_ps(x + d)), magnitude));
	return f32_from_bits(_mm512_reduce_max_epu32(largest));
}

/* Sums and differences of lanes `step` apart; `other` has them exchanged, `upper` marks those with the lower partner.
 */
ALWAYS_INLINE __m512 butterfly(__m512 x, __m512 other, __mmask16 upper)
{
	return _mm512_mask_sub_ps(_mm512_add_ps(x, other), upper, other, x);
}

/* y = H x. y may be x. */
static void spread(float *y, const float *x, uint32_t n)
{
	const uint32_t block = kv_spread_block(n);

	for (uint32_t d = 0; d < n; d += LANES) {
		__m512 v = _mm512_loadu_ps(x + d);
		v = butterfly(v, _mm512_permute_ps(v, 0xb1), 0xaaaa);
		v = butterfly(v, _mm512_permute_ps(v, 0x4e), 0xcccc);
		v = butterfly(v, _mm512_shuffle_f32x4(v, v, 0xb1), 0xf0f0);
		v = butterfly(v, _mm512_shuffle_f32x4(v, v, 0x4e), 0xff00);
		_mm512_storeu_ps(y + d, v);
	}
	for (uint32_t step = LANES; step < block; step *= 2)
		for (float *at = y; at < y + n; at += 2 * step)
			for (uint32_t d = 0; d < step; d += LANES) {
				__m512 a = _mm512_loadu_ps(at + d), b = _mm512_loadu_ps(at + d + step);
				_mm512_storeu_ps(at + d, _mm512_add_ps(a, b));
				_mm512_storeu_ps(at + d + step, _mm512_sub_ps(a, b));
			}
}

/* Numbers to whole ones, zeros where there is nothing to be made whole. */
ALWAYS_INLINE __m512i whole(__m512 x, float inverse)
{
	__mmask16 lanes = inverse > 0.0f ? 0xffff : 0;
	return _mm512_maskz_cvtps_epi32(lanes, _mm512_mul_ps(x, _mm512_set1_ps(inverse)));
}

uint16_t to_int8_avx512(int8_t *y, const float *x, uint32_t n)
{
	float all[MAX_HEAD_DIM], inverse;
	uint16_t scale;

	spread(all, x, n);
	scale = kv_int8_scale(largest_magnitude(all, n));
	inverse = kv_int8_inverse(f32_from_bf16(scale), 1.0f);
	for (uint32_t d = 0; d < n; d += LANES)
		_mm_storeu_si128((__m128i *)(y + d), _mm512_cvtepi32_epi8(whole(_mm512_loadu_ps(all + d), inverse)));
	return scale;
}

static void begin_head(struct state *s, int head, const struct attention *a, const float *q)
{
	float all[MAX_HEAD_DIM], largest, inverse;
	__m512i sum = _mm512_setzero_si512();

	spread(all, q, a->head_dim);
	largest = largest_magnitude(all, a->head_dim);
	inverse = kv_int8_inverse(largest, KV_QUERY_MAX);
	for (uint32_t d = 0; d < a->head_dim; d += LANES) {
		__m512i numbers = whole(_mm512_loadu_ps(all + d), inverse);
		__m512i high = _mm512_srai_epi32(_mm512_add_epi32(numbers, _mm512_set1_epi32(128)), 8);
		sum = _mm512_add_epi32(sum, numbers);
		_mm_storeu_si128((__m128i *)&s->q[head][HIGH][d], _mm512_cvtepi32_epi8(high));
		_mm_storeu_si128((__m128i *)&s->q[head][LOW][d], _mm512_cvtepi32_epi8(numbers));
	}
	s->excess[head] = KV_KEY_OFFSET * _mm512_reduce_add_epi32(sum);
	s->factor[head] = a->scale / (float)kv_spread_block(a->head_dim) * (largest / KV_QUERY_MAX);
	s->maximum[head] = -INFINITY;
	s->sum[head] = _mm512_setzero_ps();
}

/* Scores of n_pages pages, which are pages `at` and on of the block. */
ALWAYS_INLINE void page_scores(int n_heads, int n_pages, struct state *s, const void *const *k, int at,
			       uint32_t head_dim)
{
	__m512i sum[HEADS][KV_BLOCK_PAGES][PAGE_VECTORS][2];

	UNROLL
	for (int h = 0; h < n_heads; h++) {
		UNROLL
		for (int p = 0; p < n_pages; p++)
			sum[h][p][0][HIGH] = sum[h][p][0][LOW] = sum[h][p][1][HIGH] = sum[h][p][1][LOW] =
				_mm512_setzero_si512();
	}
	for (uint32_t d = 0; d < head_dim; d += 4) {
		UNROLL
		for (int p = 0; p < n_pages; p++) {
			const uint8_t *keys = (const uint8_t *)k[p] + (size_t)d * KV_PAGE_TOKENS;
			__m512i first = _mm512_loadu_si512(keys), second = _mm512_loadu_si512(keys + 4 * LANES);

			prefetch_lines(s->next.k[at + p] + (size_t)d * KV_PAGE_TOKENS, 128);
			UNROLL
			for (int h = 0; h < n_heads; h++) {
				UNROLL
				for (int byte = 0; byte < 2; byte++) {
					__m512i q = broadcast_four(&s->q[h][byte][d]);
					sum[h][p][0][byte] = _mm512_dpbusd_epi32(sum[h][p][0][byte], first, q);
					sum[h][p][1][byte] = _mm512_dpbusd_epi32(sum[h][p][1][byte], second, q);
				}
			}
		}
	}
	UNROLL
	for (int h = 0; h < n_heads; h++) {
		const __m512i excess = _mm512_set1_epi32(s->excess[h]);
		UNROLL
		for (int p = 0; p < n_pages; p++) {
			UNROLL
			for (int v = 0; v < PAGE_VECTORS; v++)
				s->score[h][PAGE_VECTORS * (at + p) + v] =
					_mm512_sub_epi32(join_bytes(sum[h][p][v][HIGH], sum[h][p][v][LOW]), excess);
		}
	}
}

/* As many pages at a time as there are registers for: 16 for sums. */
ALWAYS_INLINE void block_scores(int n_heads, struct state *s, const void *const *k, int n_pages, uint32_t head_dim)
{
	int p = 0;

	if (n_heads == 1)
		for (; n_pages - p >= 4; p += 4)
			page_scores(n_heads, 4, s, k + p, p, head_dim);
	if (n_heads <= 2)
		for (; n_pages - p >= 2; p += 2)
			page_scores(n_heads, 2, s, k + p, p, head_dim);
	for (; p < n_pages; p++)
		page_scores(n_heads, 1, s, k + p, p, head_dim);
}

ALWAYS_INLINE __m512 page_scales(const void *codes, uint32_t head_dim, int v)
{
	return f32_avx512(_mm256_loadu_si256((const __m256i *)(kv_int8_scales(codes, head_dim) + LANES * v)));
}

/* A head's weights of a block, with the values' scales, as whole numbers. */
static void store_weights(struct state *s, int head, const __m512 *weight, int n_vectors)
{
	__m512 most = _mm512_setzero_ps();
	float largest, inverse;

	for (int i = 0; i < n_vectors; i++)
		most = _mm512_max_ps(weight[i], most); /* NaN is not the largest: `sum` has it */
	largest = _mm512_reduce_max_ps(most);
	inverse = kv_int8_inverse(largest, KV_WEIGHT_MAX);
	for (int i = 0; i < n_vectors; i++) {
		__m512i numbers = whole(weight[i], inverse);
		_mm_storeu_si128((__m128i *)&s->weight[head][HIGH][LANES * i],
				 _mm512_cvtepi32_epi8(_mm512_srli_epi32(numbers, 8)));
		_mm_storeu_si128((__m128i *)&s->weight[head][LOW][LANES * i], _mm512_cvtepi32_epi8(numbers));
	}
	s->unit[head] = largest / KV_WEIGHT_MAX;
}

/* A head's scores of a block to weights. */
static void block_softmax(struct state *s, int head, const struct attention *a, uint32_t page, int n_pages)
{
	const __m512 lowest = _mm512_set1_ps(-INFINITY), factor = _mm512_set1_ps(s->factor[head]);
	__m512 score[BLOCK_VECTORS], largest = lowest, now, sum = s->sum[head];
	float before = s->maximum[head], block_maximum;
	__mmask16 lanes[BLOCK_VECTORS];

	for (int i = 0; i < PAGE_VECTORS * n_pages; i++) {
		uint32_t p = page + (uint32_t)(i / PAGE_VECTORS);
		int v = i % PAGE_VECTORS;
		__m512 scale = _mm512_mul_ps(factor, page_scales(a->k[p], a->head_dim, v));
		lanes[i] = span_lanes_avx512(page_span(a, p), (uint32_t)v);
		score[i] = _mm512_mask_mul_ps(lowest, lanes[i], scale, _mm512_cvtepi32_ps(s->score[head][i]));
		largest = _mm512_max_ps(score[i], largest);
	}
	block_maximum = _mm512_reduce_max_ps(largest);
	s->correction[head] = 1.0f;
	if (block_maximum > before) {
		s->maximum[head] = block_maximum;
		s->correction[head] = _mm512_cvtss_f32(exp_avx512(_mm512_set1_ps(before - block_maximum)));
		sum = _mm512_mul_ps(sum, _mm512_set1_ps(s->correction[head]));
	}
	now = _mm512_set1_ps(s->maximum[head]);
	for (int i = 0; i < PAGE_VECTORS * n_pages; i++) {
		uint32_t p = page + (uint32_t)(i / PAGE_VECTORS);
		__m512 weight = _mm512_maskz_mov_ps(lanes[i], exp_avx512(_mm512_sub_ps(score[i], now)));
		sum = _mm512_add_ps(sum, weight);
		score[i] = _mm512_maskz_mul_ps(lanes[i], weight, page_scales(a->v[p], a->head_dim, i % PAGE_VECTORS));
	}
	s->sum[head] = sum;
	store_weights(s, head, score, PAGE_VECTORS * n_pages);
}

/* out [n_heads][head_dim], 16 * n_vectors dimensions of it from d on: out * correction + weights x values. Positions
 * that do not count have weight 0, so whole fours of them do no harm. */
ALWAYS_INLINE void block_values(int n_heads, int n_vectors, const struct state *s, const struct attention *a,
				uint32_t page, int n_pages, uint32_t d, float *out)
{
	__m512i sum[HEADS][8][2];

	UNROLL
	for (int h = 0; h < n_heads; h++) {
		UNROLL
		for (int i = 0; i < n_vectors; i++)
			sum[h][i][HIGH] = sum[h][i][LOW] = _mm512_setzero_si512();
	}
	for (int p = 0; p < n_pages; p++) {
		const struct page_span span = page_span(a, page + (uint32_t)p);
		const int8_t *v = (const int8_t *)a->v[page + (uint32_t)p] + 4 * (size_t)d;
		const char *next = s->next.v[p] + 4 * (size_t)d;
		for (uint32_t t = span.begin & ~3u; t < span.end; t += 4) {
			const int8_t *values = v + (size_t)t * a->head_dim;
			__m512i codes[8];

			prefetch_lines(next + (size_t)t * a->head_dim, 64 * n_vectors);
			UNROLL
			for (int i = 0; i < n_vectors; i++)
				codes[i] = _mm512_loadu_si512(values + 4 * LANES * i);
			UNROLL
			for (int h = 0; h < n_heads; h++) {
				UNROLL
				for (int byte = 0; byte < 2; byte++) {
					__m512i weight =
						broadcast_four(&s->weight[h][byte][KV_PAGE_TOKENS * (uint32_t)p + t]);
					UNROLL
					for (int i = 0; i < n_vectors; i++)
						sum[h][i][byte] =
							_mm512_dpbusd_epi32(sum[h][i][byte], weight, codes[i]);
				}
			}
		}
	}
	UNROLL
	for (int h = 0; h < n_heads; h++) {
		const __m512 correction = _mm512_set1_ps(s->correction[h]), unit = _mm512_set1_ps(s->unit[h]);
		UNROLL
		for (int i = 0; i < n_vectors; i++) {
			float *at = out + (size_t)h * a->head_dim + d + LANES * (size_t)i;
			__m512 added = _mm512_cvtepi32_ps(join_bytes(sum[h][i][HIGH], sum[h][i][LOW]));
			__m512 kept = _mm512_mul_ps(_mm512_loadu_ps(at), correction);
			_mm512_storeu_ps(at, _mm512_fmadd_ps(unit, added, kept));
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
			_mm512_storeu_ps(out + (size_t)h * n + d, _mm512_setzero_ps());
	}
	for (uint32_t page = a->first_token / KV_PAGE_TOKENS; page < end;) {
		int n_pages = (int)block_pages(page, end);
		uint32_t d = 0;

		s.next = next_pages(a, page, (uint32_t)n_pages, end);
		block_scores(n_heads, &s, a->k + page, n_pages, n);
		for (int h = 0; h < n_heads; h++)
			block_softmax(&s, h, a, page, n_pages);
		if (n_heads == 1)
			for (; d + 8 * LANES <= n; d += 8 * LANES)
				block_values(n_heads, 8, &s, a, page, n_pages, d, out);
		if (n_heads <= 2)
			for (; d + 4 * LANES <= n; d += 4 * LANES)
				block_values(n_heads, 4, &s, a, page, n_pages, d, out);
		for (; d + 2 * LANES <= n; d += 2 * LANES)
			block_values(n_heads, 2, &s, a, page, n_pages, d, out);
		for (; d < n; d += LANES)
			block_values(n_heads, 1, &s, a, page, n_pages, d, out);
		page += (uint32_t)n_pages;
	}
	for (int h = 0; h < n_heads; h++) {
		const __m512 sum = _mm512_set1_ps((float)kv_spread_block(n) * _mm512_reduce_add_ps(s.sum[h]));
		spread(out + (size_t)h * n, out + (size_t)h * n, n);
		for (uint32_t d = 0; d < n; d += LANES) {
			float *at = out + (size_t)h * n + d;
			_mm512_storeu_ps(at, _mm512_div_ps(_mm512_loadu_ps(at), sum));
		}
	}
}

void attention_int8_avx512(const struct attention *a)
{
	uint32_t first = 0;

	for (; a->n_q - first >= 4; first += 4)
		attend(4, a, first);
	if (a->n_q - first == 3)
		attend(3, a, first);
	else if (a->n_q - first == 2)
		attend(2, a, first);
	else if (a->n_q - first == 1)
		attend(1, a, first);
}
