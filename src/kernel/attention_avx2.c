/* Attention, level avx2. Up to two query heads of the same KV head share every key and value that is read.
 *
 *   scores    a register of keys is 8 positions of two dimensions, which become one register of float32 each.
 *   softmax   once per page and head; positions outside the span count as -inf, whatever lies in the page there.
 *   values    a register of values is 8 dimensions of two positions. A head's output waits in `out` between pages; 32
 *             dimensions of it at a time are kept in registers.
 *
 * Which heads run together changes no head's arithmetic. */
#include <math.h>

#include "src/kernel/inline.h"
#include "src/kernel/levels.h"
#include "src/kernel/page_span.h"
#include "src/kernel/vector_avx2.h"

enum { HEADS = 2, MAX_HEADS = 32, QUARTERS = 4, QUARTER_TOKENS = KV_PAGE_TOKENS / QUARTERS };

/* What a head carries from page to page, beside `out`. */
struct softmax {
	float maximum[MAX_HEADS];
	float sum[MAX_HEADS];
};

/* One page's part of a group of at most HEADS heads. */
struct part {
	float weight[HEADS][KV_PAGE_TOKENS]; /* exp(score - maximum), 0 outside the span */
	float correction[HEADS];
};

/* Pairs of bfloat16 as float32. */
ALWAYS_INLINE __m256 first_of_pairs(__m256i pairs)
{
	return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
}
ALWAYS_INLINE __m256 second_of_pairs(__m256i pairs)
{
	return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32((int)0xffff0000)));
}

/* q [n_heads][head_dim] times one page of keys, in quarters of 8 positions. `next`: the page after it. */
ALWAYS_INLINE void page_sums(int n_heads, const float *q, const uint16_t *k, const char *next, uint32_t head_dim,
			     __m256 sum[HEADS][QUARTERS])
{
	UNROLL
	for (int h = 0; h < n_heads; h++)
		sum[h][0] = sum[h][1] = sum[h][2] = sum[h][3] = _mm256_setzero_ps();
	for (uint32_t d = 0; d < head_dim; d += 2, k += 2 * KV_PAGE_TOKENS) {
		prefetch_lines(next + (size_t)d * KV_PAGE_TOKENS * sizeof *k, 128);
		UNROLL
		for (int i = 0; i < QUARTERS; i++) {
			__m256i keys = _mm256_loadu_si256((const __m256i *)(k + 2 * QUARTER_TOKENS * i));
			__m256 first = first_of_pairs(keys), second = second_of_pairs(keys);
			UNROLL
			for (int h = 0; h < n_heads; h++) {
				const float *at = q + (size_t)h * head_dim + d;
				sum[h][i] = _mm256_fmadd_ps(_mm256_set1_ps(at[0]), first, sum[h][i]);
				sum[h][i] = _mm256_fmadd_ps(_mm256_set1_ps(at[1]), second, sum[h][i]);
			}
		}
	}
}

/* A head's sums to weights. */
static void page_softmax(const __m256 sums[QUARTERS], float scale, struct page_span span, float *maximum, float *sum,
			 float *weight, float *correction)
{
	const __m256i positions = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
	const __m256 lowest = _mm256_set1_ps(-INFINITY);
	__m256 score[QUARTERS], counts[QUARTERS], largest = lowest, total = _mm256_setzero_ps(), now;
	float before = *maximum, page_maximum;

	for (int i = 0; i < QUARTERS; i++) {
		__m256i position = _mm256_add_epi32(positions, _mm256_set1_epi32(QUARTER_TOKENS * i));
		__m256i before_end = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)span.end), position);
		__m256i before_begin = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)span.begin), position);
		counts[i] = _mm256_castsi256_ps(_mm256_andnot_si256(before_begin, before_end));
		score[i] = _mm256_blendv_ps(lowest, _mm256_mul_ps(sums[i], _mm256_set1_ps(scale)), counts[i]);
		largest = _mm256_max_ps(largest, score[i]);
	}
	page_maximum = largest_avx2(largest);
	*maximum = page_maximum > before ? page_maximum : before;
	now = _mm256_set1_ps(*maximum);
	for (int i = 0; i < QUARTERS; i++) {
		score[i] = _mm256_and_ps(exp_avx2(_mm256_sub_ps(score[i], now)), counts[i]);
		total = _mm256_add_ps(total, score[i]);
		_mm256_storeu_ps(weight + QUARTER_TOKENS * i, score[i]);
	}
	*correction = *maximum == before ? 1.0f : _mm256_cvtss_f32(exp_avx2(_mm256_set1_ps(before - *maximum)));
	*sum = *sum * *correction + sum_avx2(total);
}

/* out [n_heads][head_dim], 8 * n_vectors dimensions of it: out * correction + weight x v [span][head_dim]. `next`:
 * those dimensions in the page after this one. */
ALWAYS_INLINE void page_values(int n_heads, int n_vectors, const struct part *part, const uint16_t *v, const char *next,
			       struct page_span span, uint32_t head_dim, float *out)
{
	__m256 sum[HEADS][4];

	UNROLL
	for (int h = 0; h < n_heads; h++) {
		UNROLL
		for (int i = 0; i < n_vectors; i++)
			sum[h][i] = _mm256_mul_ps(_mm256_loadu_ps(out + (size_t)h * head_dim + 8 * i),
						  _mm256_set1_ps(part->correction[h]));
	}
	for (uint32_t t = span.begin & ~1u; t < span.end; t += 2) {
		prefetch_lines(next + (size_t)t * head_dim * sizeof *v, 32 * n_vectors);
		UNROLL
		for (int i = 0; i < n_vectors; i++) {
			const uint16_t *at = v + (size_t)t * head_dim + 16 * (size_t)i;
			__m256i values = _mm256_loadu_si256((const __m256i *)at);
			UNROLL
			for (int h = 0; h < n_heads; h++) {
				const float *weight = &part->weight[h][t];
				if (t >= span.begin)
					sum[h][i] = _mm256_fmadd_ps(_mm256_set1_ps(weight[0]), first_of_pairs(values),
								    sum[h][i]);
				if (t + 1 < span.end)
					sum[h][i] = _mm256_fmadd_ps(_mm256_set1_ps(weight[1]), second_of_pairs(values),
								    sum[h][i]);
			}
		}
	}
	UNROLL
	for (int h = 0; h < n_heads; h++) {
		UNROLL
		for (int i = 0; i < n_vectors; i++)
			_mm256_storeu_ps(out + (size_t)h * head_dim + 8 * i, sum[h][i]);
	}
}

/* One page for heads first .. first + n_heads - 1 (n_heads a constant). */
ALWAYS_INLINE void page_heads(int n_heads, const struct attention *a, uint32_t page, uint32_t first,
			      struct softmax *state)
{
	struct page_span span = page_span(a, page);
	uint32_t d = 0;
	float *out = a->out + (size_t)first * a->head_dim;
	__m256 sums[HEADS][QUARTERS];
	struct part part;
	const uint16_t *v = a->v[page];
	const struct next_pages next = next_pages(a, page, 1, (a->n_tokens + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS);

	page_sums(n_heads, a->q + (size_t)first * a->head_dim, a->k[page], next.k[0], a->head_dim, sums);
	for (int h = 0; h < n_heads; h++)
		page_softmax(sums[h], a->scale, span, &state->maximum[first + (uint32_t)h],
			     &state->sum[first + (uint32_t)h], part.weight[h], &part.correction[h]);
	for (; d + 32 <= a->head_dim; d += 32)
		page_values(n_heads, 4, &part, v + 2 * d, next.v[0] + 2 * d * sizeof *v, span, a->head_dim, out + d);
	for (; d < a->head_dim; d += 16)
		page_values(n_heads, 2, &part, v + 2 * d, next.v[0] + 2 * d * sizeof *v, span, a->head_dim, out + d);
}

void attention_avx2(const struct attention *a)
{
	struct softmax state;

	for (uint32_t head = 0; head < a->n_q; head++) {
		state.maximum[head] = -INFINITY;
		state.sum[head] = 0.0f;
	}
	for (size_t i = 0; i < (size_t)a->n_q * a->head_dim; i += 8)
		_mm256_storeu_ps(a->out + i, _mm256_setzero_ps());
	for (uint32_t page = a->first_token / KV_PAGE_TOKENS; page * KV_PAGE_TOKENS < a->n_tokens; page++) {
		uint32_t first = 0;

		for (; a->n_q - first >= 2; first += 2)
			page_heads(2, a, page, first, &state);
		if (first < a->n_q)
			page_heads(1, a, page, first, &state);
	}
	for (uint32_t head = 0; head < a->n_q; head++) {
		float *out = a->out + (size_t)head * a->head_dim;
		__m256 sum = _mm256_set1_ps(state.sum[head]);

		for (uint32_t d = 0; d < a->head_dim; d += 8)
			_mm256_storeu_ps(out + d, _mm256_div_ps(_mm256_loadu_ps(out + d), sum));
	}
}
