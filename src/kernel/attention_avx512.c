/* Attention, level avx512: bfloat16 times bfloat16 by vdpbf16ps. Queries are rounded to bfloat16, and so are the
 * weights of the softmax, whose sum is that of the unrounded ones.
 *
 *   block     4 pages, 128 positions: what the running maximum moves by. Blocks begin at multiples of 128, so a row's
 *             order of sums depends on its position and its window's beginning alone.
 *   scores    a register holds 16 positions x 2 dimensions of a page of keys; a pair of a query's dimensions is
 *             broadcast from memory. One chain over the dimensions per register of positions; up to 16 chains run
 *             beside each other.
 *   softmax   positions outside the span count as -inf, whatever lies in the page there. The sum of the weights is
 *             kept in 16 lanes until the end; the output is scaled only when a block raises the maximum.
 *   values    a register holds 16 dimensions x 2 positions. Where a span begins or ends within a pair, what lies
 *             beside it is masked away.
 *
 * Up to four query heads of the same KV head share every key and value that is read. Which heads run together changes
 * no head's arithmetic: the chains are the same. */
#include <math.h>
#include <stdbool.h>

#include "src/kernel/inline.h"
#include "src/kernel/levels.h"
#include "src/kernel/page_span.h"
#include "src/kernel/vector_avx512.h"

enum {
	HEADS = 4,
	LANES = 16,
	PAGE_VECTORS = KV_PAGE_TOKENS / LANES,
	BLOCK_VECTORS = KV_BLOCK_PAGES * PAGE_VECTORS,
	PAGE_PAIRS = KV_PAGE_TOKENS / 2,
	MAX_HEAD_DIM = 256,
};

/* What up to HEADS heads carry from block to block, beside `out`. */
struct state {
	uint16_t q[HEADS][MAX_HEAD_DIM];
	float maximum[HEADS];
	__m512 sum[HEADS]; /* of the weights, by lane */
	float correction[HEADS];
	__m512 score[HEADS][BLOCK_VECTORS];
	uint16_t weight[HEADS][KV_BLOCK_PAGES][KV_PAGE_TOKENS];
	struct next_pages next;
};

ALWAYS_INLINE __m512bh broadcast_pair(const uint16_t *pair)
{
	int32_t bits;
	__builtin_memcpy(&bits, pair, sizeof bits);
	return (__m512bh)_mm512_set1_epi32(bits);
}

/* Scores of n_pages pages, which are pages `at` and on of the block. */
ALWAYS_INLINE void page_scores(int n_heads, int n_pages, struct state *s, const void *const *k, int at,
			       uint32_t head_dim)
{
	__m512 sum[HEADS][KV_BLOCK_PAGES][PAGE_VECTORS];

	UNROLL
	for (int h = 0; h < n_heads; h++) {
		UNROLL
		for (int p = 0; p < n_pages; p++)
			sum[h][p][0] = sum[h][p][1] = _mm512_setzero_ps();
	}
	for (uint32_t d = 0; d < head_dim; d += 2) {
		UNROLL
		for (int p = 0; p < n_pages; p++) {
			const uint16_t *keys = (const uint16_t *)k[p] + (size_t)d * KV_PAGE_TOKENS;
			__m512bh low = (__m512bh)_mm512_loadu_si512(keys);
			__m512bh high = (__m512bh)_mm512_loadu_si512(keys + 2 * LANES);

			prefetch_lines(s->next.k[at + p] + (size_t)d * KV_PAGE_TOKENS * sizeof *keys, 128);
			UNROLL
			for (int h = 0; h < n_heads; h++) {
				__m512bh q = broadcast_pair(&s->q[h][d]);
				sum[h][p][0] = _mm512_dpbf16_ps(sum[h][p][0], low, q);
				sum[h][p][1] = _mm512_dpbf16_ps(sum[h][p][1], high, q);
			}
		}
	}
	UNROLL
	for (int h = 0; h < n_heads; h++) {
		UNROLL
		for (int p = 0; p < n_pages; p++) {
			s->score[h][PAGE_VECTORS * (at + p)] = sum[h][p][0];
			s->score[h][PAGE_VECTORS * (at + p) + 1] = sum[h][p][1];
		}
	}
}

/* As many pages at a time as there are registers for. */
ALWAYS_INLINE void block_scores(int n_heads, struct state *s, const void *const *k, int n_pages, uint32_t head_dim)
{
	int p = 0;

	if (n_heads <= 2)
		for (; n_pages - p >= 4; p += 4)
			page_scores(n_heads, 4, s, k + p, p, head_dim);
	for (; n_pages - p >= 2; p += 2)
		page_scores(n_heads, 2, s, k + p, p, head_dim);
	for (; p < n_pages; p++)
		page_scores(n_heads, 1, s, k + p, p, head_dim);
}

/* A head's scores of a block to weights. */
static void block_softmax(struct state *s, int head, const struct attention *a, uint32_t page, int n_pages)
{
	const __m512 lowest = _mm512_set1_ps(-INFINITY), scale = _mm512_set1_ps(a->scale);
	__m512 *score = s->score[head], largest = lowest, now, sum = s->sum[head];
	float before = s->maximum[head], block_maximum;
	__mmask16 lanes[BLOCK_VECTORS];

	for (int p = 0; p < n_pages; p++) {
		struct page_span span = page_span(a, page + (uint32_t)p);
		for (int v = 0; v < PAGE_VECTORS; v++) {
			int i = PAGE_VECTORS * p + v;
			lanes[i] = span_lanes_avx512(span, (uint32_t)v);
			score[i] = _mm512_mask_mul_ps(lowest, lanes[i], score[i], scale);
			largest = _mm512_max_ps(largest, score[i]);
		}
	}
	block_maximum = _mm512_reduce_max_ps(largest);
	s->correction[head] = 1.0f;
	if (block_maximum > before) {
		s->maximum[head] = block_maximum;
		s->correction[head] = _mm512_cvtss_f32(exp_avx512(_mm512_set1_ps(before - block_maximum)));
		sum = _mm512_mul_ps(sum, _mm512_set1_ps(s->correction[head]));
	}
	now = _mm512_set1_ps(s->maximum[head]);
	for (int p = 0; p < n_pages; p++) {
		__m512 weight[PAGE_VECTORS];
		for (int v = 0; v < PAGE_VECTORS; v++) {
			int i = PAGE_VECTORS * p + v;
			weight[v] = _mm512_maskz_mov_ps(lanes[i], exp_avx512(_mm512_sub_ps(score[i], now)));
			sum = _mm512_add_ps(sum, weight[v]);
		}
		_mm512_storeu_si512(s->weight[head][p], (__m512i)_mm512_cvtne2ps_pbh(weight[1], weight[0]));
	}
	s->sum[head] = sum;
}

/* Adds a page's values, times the weights, to 16 * n_vectors dimensions of the heads' outputs. `next`: those dimensions
 * in the block after this one. */
ALWAYS_INLINE void page_values(int n_heads, int n_vectors, bool whole, const struct state *s, int page,
			       struct page_span span, const uint16_t *v, const char *next, uint32_t head_dim,
			       __m512 sum[HEADS][8])
{
	for (uint32_t pair = span.begin / 2; pair < (span.end + 1) / 2; pair++) {
		const uint16_t *values = v + (size_t)pair * head_dim * 2;
		const uint32_t first = 2 * pair < span.begin ? 0 : 0xffff,
			       second = 2 * pair + 1 < span.end ? 0xffff0000 : 0;
		const __m512i mask = _mm512_set1_epi32((int)(first | second));
		__m512i pairs[8];

		prefetch_lines(next + (size_t)pair * head_dim * 2 * sizeof *values, 64 * n_vectors);
		UNROLL
		for (int i = 0; i < n_vectors; i++) {
			pairs[i] = _mm512_loadu_si512(values + 2 * LANES * i);
			if (!whole)
				pairs[i] = _mm512_and_si512(pairs[i], mask);
		}
		UNROLL
		for (int h = 0; h < n_heads; h++) {
			__m512bh weight = broadcast_pair(&s->weight[h][page][2 * pair]);
			UNROLL
			for (int i = 0; i < n_vectors; i++)
				sum[h][i] = _mm512_dpbf16_ps(sum[h][i], (__m512bh)pairs[i], weight);
		}
	}
}

/* out [n_heads][head_dim], 16 * n_vectors dimensions of it from d on: out * correction + weights x values. */
ALWAYS_INLINE void block_values(int n_heads, int n_vectors, const struct state *s, const struct attention *a,
				uint32_t page, int n_pages, uint32_t d, float *out)
{
	__m512 sum[HEADS][8];

	UNROLL
	for (int h = 0; h < n_heads; h++) {
		UNROLL
		for (int i = 0; i < n_vectors; i++)
			sum[h][i] =
				_mm512_mul_ps(_mm512_loadu_ps(out + (size_t)h * a->head_dim + d + LANES * (size_t)i),
					      _mm512_set1_ps(s->correction[h]));
	}
	for (int p = 0; p < n_pages; p++) {
		struct page_span span = page_span(a, page + (uint32_t)p);
		const uint16_t *v = (const uint16_t *)a->v[page + (uint32_t)p] + 2 * (size_t)d;
		const char *next = s->next.v[p] + 2 * (size_t)d * sizeof *v;
		if (span.begin == 0 && span.end == KV_PAGE_TOKENS)
			page_values(n_heads, n_vectors, true, s, p, span, v, next, a->head_dim, sum);
		else
			page_values(n_heads, n_vectors, false, s, p, span, v, next, a->head_dim, sum);
	}
	UNROLL
	for (int h = 0; h < n_heads; h++) {
		UNROLL
		for (int i = 0; i < n_vectors; i++)
			_mm512_storeu_ps(out + (size_t)h * a->head_dim + d + LANES * (size_t)i, sum[h][i]);
	}
}

/* Query heads first .. first + n_heads - 1 (n_heads a constant) over all pages. */
ALWAYS_INLINE void attend(int n_heads, const struct attention *a, uint32_t first)
{
	const uint32_t n = a->head_dim, end = (a->n_tokens + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
	const float *q = a->q + (size_t)first * n;
	float *out = a->out + (size_t)first * n;
	struct state s;

	for (int h = 0; h < n_heads; h++) {
		s.maximum[h] = -INFINITY;
		s.sum[h] = _mm512_setzero_ps();
		for (uint32_t d = 0; d < n; d += LANES) {
			_mm256_storeu_si256((__m256i *)&s.q[h][d], bf16_avx512(_mm512_loadu_ps(q + (size_t)h * n + d)));
			_mm512_storeu_ps(out + (size_t)h * n + d, _mm512_setzero_ps());
		}
	}
	for (uint32_t page = a->first_token / KV_PAGE_TOKENS; page < end;) {
		int n_pages = (int)block_pages(page, end);
		uint32_t d = 0;

		s.next = next_pages(a, page, (uint32_t)n_pages, end);
		block_scores(n_heads, &s, a->k + page, n_pages, n);
		for (int h = 0; h < n_heads; h++)
			block_softmax(&s, h, a, page, n_pages);
		if (n_heads <= 2)
			for (; d + 8 * LANES <= n; d += 8 * LANES)
				block_values(n_heads, 8, &s, a, page, n_pages, d, out);
		for (; d + 4 * LANES <= n; d += 4 * LANES)
			block_values(n_heads, 4, &s, a, page, n_pages, d, out);
		for (; d < n; d += LANES)
			block_values(n_heads, 1, &s, a, page, n_pages, d, out);
		page += (uint32_t)n_pages;
	}
	for (int h = 0; h < n_heads; h++) {
		const __m512 sum = _mm512_set1_ps(_mm512_reduce_add_ps(s.sum[h]));
		for (uint32_t d = 0; d < n; d += LANES) {
			float *at = out + (size_t)h * n + d;
			_mm512_storeu_ps(at, _mm512_div_ps(_mm512_loadu_ps(at), sum));
		}
	}
}

void attention_avx512(const struct attention *a)
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
