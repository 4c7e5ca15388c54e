/* Attention, level avx512. Up to four query heads of the same KV head share every key and value that is read.
 *
 *   scores    a key row of a page is 32 positions of one dimension: one register of bfloat16. Its even and its odd
 *             positions become two registers of float32 with one instruction each, and stay apart until the
 *             exponentials are stored in order. Dimensions are summed in two chains (even, odd), added at the end.
 *   softmax   once per page and head; positions outside the span count as -inf, whatever lies in the page there.
 *   values    a head's output waits in `out` between pages; 64 dimensions of it at a time are kept in registers.
 *
 * Which heads run together changes no head's arithmetic. */
#include <math.h>

#include "src/kernel/inline.h"
#include "src/kernel/levels.h"
#include "src/kernel/page_span.h"
#include "src/kernel/vector_avx512.h"

enum { HEADS = 4, MAX_HEADS = 32 };

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

/* q [n_heads][head_dim] times one page of keys: even and odd positions' sums. */
ALWAYS_INLINE void page_sums(int n_heads, const float *q, const uint16_t *k, uint32_t head_dim, __m512 even[HEADS],
			     __m512 odd[HEADS])
{
	const __m512i upper = _mm512_set1_epi32((int)0xffff0000);
	__m512 sum[HEADS][2][2]; /* [head][dimension's parity][position's parity] */

	UNROLL
	for (int h = 0; h < n_heads; h++)
		sum[h][0][0] = sum[h][0][1] = sum[h][1][0] = sum[h][1][1] = _mm512_setzero_ps();
	for (uint32_t d = 0; d < head_dim; d += 2) {
		UNROLL
		for (uint32_t parity = 0; parity < 2; parity++) {
			__m512i keys = _mm512_loadu_si512(k + (size_t)(d + parity) * KV_PAGE_TOKENS);
			__m512 keys_even = _mm512_castsi512_ps(_mm512_slli_epi32(keys, 16));
			__m512 keys_odd = _mm512_castsi512_ps(_mm512_and_si512(keys, upper));
			UNROLL
			for (int h = 0; h < n_heads; h++) {
				__m512 value = _mm512_set1_ps(q[(size_t)h * head_dim + d + parity]);
				sum[h][parity][0] = _mm512_fmadd_ps(value, keys_even, sum[h][parity][0]);
				sum[h][parity][1] = _mm512_fmadd_ps(value, keys_odd, sum[h][parity][1]);
			}
		}
	}
	UNROLL
	for (int h = 0; h < n_heads; h++) {
		even[h] = _mm512_add_ps(sum[h][0][0], sum[h][1][0]);
		odd[h] = _mm512_add_ps(sum[h][0][1], sum[h][1][1]);
	}
}

/* A head's scores to weights. */
static void page_softmax(__m512 even, __m512 odd, struct page_span span, float *maximum, float *sum, float *weight,
			 float *correction)
{
	const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
	const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
	const __m512 lowest = _mm512_set1_ps(-INFINITY);
	__mmask16 evens = lanes_avx512((span.end + 1) / 2) & ~lanes_avx512((span.begin + 1) / 2);
	__mmask16 odds = lanes_avx512(span.end / 2) & ~lanes_avx512(span.begin / 2);
	float before = *maximum, largest;
	__m512 now;

	even = _mm512_mask_mov_ps(lowest, evens, even);
	odd = _mm512_mask_mov_ps(lowest, odds, odd);
	largest = _mm512_reduce_max_ps(_mm512_max_ps(even, odd));
	*maximum = largest > before ? largest : before;
	now = _mm512_set1_ps(*maximum);
	even = _mm512_maskz_mov_ps(evens, exp_avx512(_mm512_sub_ps(even, now)));
	odd = _mm512_maskz_mov_ps(odds, exp_avx512(_mm512_sub_ps(odd, now)));
	*correction = *maximum == before ? 1.0f : _mm512_cvtss_f32(exp_avx512(_mm512_set1_ps(before - *maximum)));
	*sum = *sum * *correction + _mm512_reduce_add_ps(_mm512_add_ps(even, odd));
	_mm512_storeu_ps(weight, _mm512_permutex2var_ps(even, low, odd));
	_mm512_storeu_ps(weight + 16, _mm512_permutex2var_ps(even, high, odd));
}

/* out [n_heads][head_dim], 16 * n_vectors dimensions of it: out * correction + weight x v [span][head_dim]. */
ALWAYS_INLINE void page_values(int n_heads, int n_vectors, const struct part *part, const uint16_t *v,
			       struct page_span span, uint32_t head_dim, float *out)
{
	__m512 sum[HEADS][4];

	UNROLL
	for (int h = 0; h < n_heads; h++) {
		UNROLL
		for (int i = 0; i < n_vectors; i++)
			sum[h][i] = _mm512_mul_ps(_mm512_loadu_ps(out + (size_t)h * head_dim + 16 * i),
						  _mm512_set1_ps(part->correction[h]));
	}
	for (uint32_t t = span.begin; t < span.end; t++) {
		__m512 values[4];
		UNROLL
		for (int i = 0; i < n_vectors; i++)
			values[i] =
				f32_avx512(_mm256_loadu_si256((const __m256i *)(v + (size_t)t * head_dim + 16 * i)));
		UNROLL
		for (int h = 0; h < n_heads; h++) {
			UNROLL
			for (int i = 0; i < n_vectors; i++)
				sum[h][i] = _mm512_fmadd_ps(_mm512_set1_ps(part->weight[h][t]), values[i], sum[h][i]);
		}
	}
	UNROLL
	for (int h = 0; h < n_heads; h++) {
		UNROLL
		for (int i = 0; i < n_vectors; i++)
			_mm512_storeu_ps(out + (size_t)h * head_dim + 16 * i, sum[h][i]);
	}
}

/* One page for heads first .. first + n_heads - 1 (n_heads a constant). */
ALWAYS_INLINE void page_heads(int n_heads, const struct attention *a, uint32_t page, uint32_t first,
			      struct softmax *state)
{
	struct page_span span = page_span(a, page);
	uint32_t d = 0;
	float *out = a->out + (size_t)first * a->head_dim;
	__m512 even[HEADS], odd[HEADS];
	struct part part;

	page_sums(n_heads, a->q + (size_t)first * a->head_dim, a->k[page], a->head_dim, even, odd);
	for (int h = 0; h < n_heads; h++) {
		const __m512 scale = _mm512_set1_ps(a->scale);
		page_softmax(_mm512_mul_ps(even[h], scale), _mm512_mul_ps(odd[h], scale), span,
			     &state->maximum[first + (uint32_t)h], &state->sum[first + (uint32_t)h], part.weight[h],
			     &part.correction[h]);
	}
	for (; d + 64 <= a->head_dim; d += 64)
		page_values(n_heads, 4, &part, a->v[page] + d, span, a->head_dim, out + d);
	for (; d < a->head_dim; d += 16)
		page_values(n_heads, 1, &part, a->v[page] + d, span, a->head_dim, out + d);
}

void attention_avx512(const struct attention *a)
{
	struct softmax state;

	for (uint32_t head = 0; head < a->n_q; head++) {
		state.maximum[head] = -INFINITY;
		state.sum[head] = 0.0f;
	}
	for (size_t i = 0; i < (size_t)a->n_q * a->head_dim; i += 16)
		_mm512_storeu_ps(a->out + i, _mm512_setzero_ps());
	for (uint32_t page = a->first_token / KV_PAGE_TOKENS; page * KV_PAGE_TOKENS < a->n_tokens; page++) {
		uint32_t first = 0;

		for (; a->n_q - first >= 4; first += 4)
			page_heads(4, a, page, first, &state);
		if (a->n_q - first == 3)
			page_heads(3, a, page, first, &state);
		else if (a->n_q - first == 2)
			page_heads(2, a, page, first, &state);
		else if (a->n_q - first == 1)
			page_heads(1, a, page, first, &state);
	}
	for (uint32_t head = 0; head < a->n_q; head++) {
		float *out = a->out + (size_t)head * a->head_dim;
		__m512 sum = _mm512_set1_ps(state.sum[head]);

		for (uint32_t d = 0; d < a->head_dim; d += 16)
			_mm512_storeu_ps(out + d, _mm512_div_ps(_mm512_loadu_ps(out + d), sum));
	}
}
