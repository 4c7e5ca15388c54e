/* An adapter's products, level avx512. A row of A meets up to four rows of activations, each with two sums of 16 lanes
 * that take turns over the columns; the two are added, then the lanes. A block of B has its 16 rows in the lanes, and a
 * sum runs over the rank in order. */
#include "src/kernel/inline.h"
#include "src/kernel/levels.h"
#include "src/kernel/low_rank.h"
#include "src/kernel/vector_avx512.h"

/* Sixteen values from value number i on. */
ALWAYS_INLINE __m512 load(uint32_t kind, const void *values, size_t i)
{
	const uint16_t *halves = (const uint16_t *)values + i;

	if (kind == PACK_F32)
		return _mm512_loadu_ps((const float *)values + i);
	if (kind == PACK_F16)
		return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)halves));
	return f32_avx512(_mm256_loadu_si256((const __m256i *)halves));
}

ALWAYS_INLINE void in(const struct low_rank *m, uint32_t kind, uint32_t begin, uint32_t end, const float *const *x,
		      float *const *t, int n_rows)
{
	for (uint32_t i = begin; i < end; i++) {
		const size_t row = (size_t)i * m->cols;
		__m512 even[LOW_RANK_ROWS], odd[LOW_RANK_ROWS];

		UNROLL
		for (int r = 0; r < n_rows; r++)
			even[r] = odd[r] = _mm512_setzero_ps();
		for (uint32_t k = 0; k < m->cols; k += PACK_GROUP) {
			__m512 first = load(kind, m->a, row + k), second = load(kind, m->a, row + k + 16);
			UNROLL
			for (int r = 0; r < n_rows; r++) {
				even[r] = _mm512_fmadd_ps(first, _mm512_loadu_ps(x[r] + k), even[r]);
				odd[r] = _mm512_fmadd_ps(second, _mm512_loadu_ps(x[r] + k + 16), odd[r]);
			}
		}
		UNROLL
		for (int r = 0; r < n_rows; r++)
			t[r][i] = _mm512_reduce_add_ps(_mm512_add_ps(even[r], odd[r]));
	}
}

ALWAYS_INLINE void out(const struct low_rank *m, uint32_t kind, uint32_t begin, uint32_t end, const float *const *t,
		       float *const *y, int n_rows)
{
	const __m512 scale = _mm512_set1_ps(m->scale);

	for (uint32_t block = begin; block < end; block++) {
		const __mmask16 lanes = lanes_avx512(m->rows - block * PACK_ROWS);
		__m512 sum[LOW_RANK_ROWS];

		UNROLL
		for (int r = 0; r < n_rows; r++)
			sum[r] = _mm512_setzero_ps();
		for (uint32_t j = 0; j < m->rank; j++) {
			__m512 values = load(kind, m->b, ((size_t)block * m->rank + j) * PACK_ROWS);
			UNROLL
			for (int r = 0; r < n_rows; r++)
				sum[r] = _mm512_fmadd_ps(values, _mm512_set1_ps(t[r][j]), sum[r]);
		}
		UNROLL
		for (int r = 0; r < n_rows; r++) {
			float *at = y[r] + (size_t)block * PACK_ROWS;
			__m512 sums = _mm512_fmadd_ps(scale, sum[r], _mm512_maskz_loadu_ps(lanes, at));
			_mm512_mask_storeu_ps(at, lanes, sums);
		}
	}
}

void low_rank_in_avx512(const struct low_rank *m, uint32_t begin, uint32_t end, const float *const *x, float *const *t,
			uint32_t n_rows)
{
	switch (LOW_RANK_CASE(m->a_kind, n_rows)) {
#define CASE(kind, n)                             \
	case LOW_RANK_CASE(kind, n):              \
		in(m, kind, begin, end, x, t, n); \
		break;
		LOW_RANK_EACH(CASE)
#undef CASE
	}
}

void low_rank_out_avx512(const struct low_rank *m, uint32_t begin, uint32_t end, const float *const *t, float *const *y,
			 uint32_t n_rows)
{
	switch (LOW_RANK_CASE(m->b_kind, n_rows)) {
#define CASE(kind, n)                              \
	case LOW_RANK_CASE(kind, n):               \
		out(m, kind, begin, end, t, y, n); \
		break;
		LOW_RANK_EACH(CASE)
#undef CASE
	}
}
