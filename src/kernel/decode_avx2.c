/* Decode products, level avx2: float32 by FMA, straight from the stored groups.
 *
 * The shape of a sum is that of level avx512: per group one chain over the even columns and one over the odd, added,
 * scaled once and added to the row's total. A register holds 8 of the 16 rows. Two activation rows share the codes:
 * eight sums, four totals and a pair of codes are what 16 registers hold. (Four rows with half the block row at a time
 * fit on paper as well, but made gcc 12 spill and ran at half the speed.) No row's arithmetic depends on its company.
 */
#include "src/kernel/group_avx2.h"
#include "src/kernel/levels.h"
#include "src/kernel/vector_avx2.h"

enum { WIDEST = 2 };

void prepare_avx2(struct activations *a, const float *x, enum numerics numerics)
{
	size_t n = (size_t)a->n_rows * a->cols;

	(void)numerics; /* this level serves F32 only */
	for (size_t i = 0; i < n; i += PACK_GROUP) {
		__m256 sum = _mm256_setzero_ps();

		for (size_t k = 0; k < PACK_GROUP; k += 8) {
			__m256 v = _mm256_loadu_ps(x + i + k);
			_mm256_store_ps(a->f32 + i + k, v);
			sum = _mm256_add_ps(sum, v);
		}
		a->group_sum[i / PACK_GROUP] = sum_avx2(sum);
	}
}

/* One block row times `n_rows` (a constant, at most WIDEST) activation rows from `first` on. */
ALWAYS_INLINE void multiply(enum pack_kind kind, int n_rows, const uint8_t *group, const struct activations *x,
			    uint32_t first, float *y, size_t y_stride, uint32_t rows)
{
	const uint32_t n_groups = x->cols / PACK_GROUP;
	const size_t group_bytes = pack_group_bytes(kind);
	const float *values[WIDEST]; /* each row's, at the current group */
	const float *group_sum = x->group_sum + (size_t)first * n_groups;
	__m256 total[2][WIDEST];

	UNROLL
	for (int r = 0; r < n_rows; r++)
		values[r] = x->f32 + (size_t)(first + (uint32_t)r) * x->cols;
	UNROLL
	for (int half = 0; half < 2; half++) {
		UNROLL
		for (int r = 0; r < n_rows; r++)
			total[half][r] = _mm256_setzero_ps();
	}
	for (uint32_t g = 0; g < n_groups; g++, group += group_bytes) {
		__m256 even[2][WIDEST], odd[2][WIDEST];

		UNROLL
		for (int pair = 0; pair < GROUP_PAIRS; pair++) {
			UNROLL
			for (int half = 0; half < 2; half++) {
				struct pair_avx2 codes = group_pair_avx2(kind, group, pair, half);
				UNROLL
				for (int r = 0; r < n_rows; r++) {
					const float *at = values[r] + 2 * pair;
					__m256 into_even = pair ? even[half][r] : _mm256_setzero_ps();
					__m256 into_odd = pair ? odd[half][r] : _mm256_setzero_ps();

					even[half][r] = _mm256_fmadd_ps(codes.even, _mm256_set1_ps(at[0]), into_even);
					odd[half][r] = _mm256_fmadd_ps(codes.odd, _mm256_set1_ps(at[1]), into_odd);
				}
			}
		}
		UNROLL
		for (int half = 0; half < 2; half++) {
			UNROLL
			for (int r = 0; r < n_rows; r++) {
				__m256 both = _mm256_add_ps(even[half][r], odd[half][r]), *into = &total[half][r];

				*into = unpack_has_scale(kind)
						? _mm256_fmadd_ps(both, group_scale_avx2(kind, group, half), *into)
						: _mm256_add_ps(both, *into);
				if (half == 1)
					values[r] += PACK_GROUP;
				if (kind == PACK_Q4_1)
					*into = _mm256_fmadd_ps(_mm256_set1_ps(group_sum[(size_t)r * n_groups + g]),
								group_minimum_avx2(group, half), *into);
			}
		}
	}
	UNROLL
	for (int half = 0; half < 2; half++) {
		UNROLL
		for (int r = 0; r < n_rows; r++)
			if (rows > (uint32_t)half * HALF_ROWS)
				_mm256_maskstore_ps(y + (first + (uint32_t)r) * y_stride + half * HALF_ROWS,
						    lanes_avx2(rows - (uint32_t)half * HALF_ROWS), total[half][r]);
	}
}

ALWAYS_INLINE void product(enum pack_kind kind, const struct matrix *w, uint32_t begin, uint32_t end,
			   const struct activations *x, float *y, size_t y_stride)
{
	const size_t block_row_bytes = x->cols / PACK_GROUP * pack_group_bytes(kind);

	for (uint32_t block = begin; block < end; block++) {
		const uint8_t *group = (const uint8_t *)w->data + block * block_row_bytes;
		uint32_t rows = w->rows - block * PACK_ROWS; /* from here to the end of the matrix */
		float *out = y + block * PACK_ROWS;
		uint32_t first = 0, left = x->n_rows;

		for (; left >= 2; left -= 2, first += 2)
			multiply(kind, 2, group, x, first, out, y_stride, rows);
		if (left >= 1)
			multiply(kind, 1, group, x, first, out, y_stride, rows);
	}
}

void decode_product_avx2(const struct matrix *w, uint32_t begin, uint32_t end, const struct activations *x, float *y,
			 size_t y_stride, enum numerics numerics)
{
	(void)numerics; /* this level serves F32 only */
	switch (w->kind) {
	case PACK_F32:
		product(PACK_F32, w, begin, end, x, y, y_stride);
		break;
	case PACK_F16:
		product(PACK_F16, w, begin, end, x, y, y_stride);
		break;
	case PACK_BF16:
		product(PACK_BF16, w, begin, end, x, y, y_stride);
		break;
	case PACK_Q8_0:
		product(PACK_Q8_0, w, begin, end, x, y, y_stride);
		break;
	case PACK_Q4_0:
		product(PACK_Q4_0, w, begin, end, x, y, y_stride);
		break;
	case PACK_Q4_1:
		product(PACK_Q4_1, w, begin, end, x, y, y_stride);
		break;
	case PACK_N_KINDS:
		break;
	}
}
