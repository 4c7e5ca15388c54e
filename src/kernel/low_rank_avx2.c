/* An adapter's products, level avx2: as at level avx512, in registers of eight lanes. */
#include "src/kernel/inline.h"
#include "src/kernel/levels.h"
#include "src/kernel/low_rank.h"
#include "src/kernel/vector_avx2.h"

/* Eight values from value number i on. */
ALWAYS_INLINE __m256 load(uint32_t kind, const void *values, size_t i)
{
	const uint16_t *halves = (const uint16_t *)values + i;

	if (kind == PACK_F32)
		return _mm256_loadu_ps((const float *)values + i);
	if (kind == PACK_F16)
		return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)halves));
	return f32_avx2(_mm_loadu_si128((const __m128i *)halves));
}

ALWAYS_INLINE void in(const struct low_rank *m, uint32_t kind, uint32_t begin, uint32_t end, const float *const *x,
		      float *const *t, int n_rows)
{
	for (uint32_t i = begin; i < end; i++) {
		const size_t row = (size_t)i * m->cols;
		__m256 even[LOW_RANK_ROWS], odd[LOW_RANK_ROWS];

		UNROLL
		for (int r = 0; r < n_rows; r++)
			even[r] = odd[r] = _mm256_setzero_ps();
		for (uint32_t k = 0; k < m->cols; k += 16) {
			__m256 first = load(kind, m->a, row + k), second = load(kind, m->a, row + k + 8);
			UNROLL
			for (int r = 0; r < n_rows; r++) {
				even[r] = _mm256_fmadd_ps(first, _mm256_loadu_ps(x[r] + k), even[r]);
				odd[r] = _mm256_fmadd_ps(second, _mm256_loadu_ps(x[r] + k + 8), odd[r]);
			}
		}
		UNROLL
		for (int r = 0; r < n_rows; r++)
			t[r][i] = sum_avx2(_mm256_add_ps(even[r], odd[r]));
	}
}

/* Eight rows of a block; those past the last are not written. */
ALWAYS_INLINE void half_block(const struct low_rank *m, uint32_t kind, uint32_t first, const float *const *t,
			      float *const *y, int n_rows)
{
	const size_t from = (size_t)(first / PACK_ROWS) * m->rank * PACK_ROWS + first % PACK_ROWS;
	const __m256i lanes = lanes_avx2(m->rows - first);
	const __m256 scale = _mm256_set1_ps(m->scale);
	__m256 sum[LOW_RANK_ROWS];

	UNROLL
	for (int r = 0; r < n_rows; r++)
		sum[r] = _mm256_setzero_ps();
	for (uint32_t j = 0; j < m->rank; j++) {
		__m256 values = load(kind, m->b, from + (size_t)j * PACK_ROWS);
		UNROLL
		for (int r = 0; r < n_rows; r++)
			sum[r] = _mm256_fmadd_ps(values, _mm256_set1_ps(t[r][j]), sum[r]);
	}
	UNROLL
	for (int r = 0; r < n_rows; r++) {
		__m256 before = _mm256_maskload_ps(y[r] + first, lanes);
		_mm256_maskstore_ps(y[r] + first, lanes, _mm256_fmadd_ps(scale, sum[r], before));
	}
}

ALWAYS_INLINE void out(const struct low_rank *m, uint32_t kind, uint32_t begin, uint32_t end, const float *const *t,
		       float *const *y, int n_rows)
{
	for (uint32_t first = begin * PACK_ROWS; first < end * PACK_ROWS && first < m->rows; first += 8)
		half_block(m, kind, first, t, y, n_rows);
}

void low_rank_in_avx2(const struct low_rank *m, uint32_t begin, uint32_t end, const float *const *x, float *const *t,
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

void low_rank_out_avx2(const struct low_rank *m, uint32_t begin, uint32_t end, const float *const *t, float *const *y,
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
