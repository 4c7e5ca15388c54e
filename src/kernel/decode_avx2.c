/* Decode products, level avx2: float32 by FMA, straight from the stored groups.
 *
 * The shape of a sum is that of level avx512: per span (the columns that share a scale) one chain over the even columns
 * and one over the odd, added, scaled once and added to the row's total. A register holds 8 of the 16 rows. Two
 * activation rows share the codes: eight sums, four totals and a pair of codes are what 16 registers hold. (Four rows
 * with half the block row at a time fit on paper as well, but made gcc 12 spill and ran at half the speed.) No row's
 * arithmetic depends on its company.
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
		__m256 half[2];

		for (size_t h = 0; h < 2; h++) {
			__m256 low = _mm256_loadu_ps(x + i + 16 * h), high = _mm256_loadu_ps(x + i + 16 * h + 8);
			_mm256_store_ps(a->f32 + i + 16 * h, low);
			_mm256_store_ps(a->f32 + i + 16 * h + 8, high);
			half[h] = _mm256_add_ps(low, high);
			a->half_sum[i / 16 + h] = sum_avx2(half[h]);
		}
		a->group_sum[i / PACK_GROUP] = sum_avx2(_mm256_add_ps(half[0], half[1]));
	}
}

/* Two columns of 8 rows times one activation row's values there, to the chains of its span; `starts` is a constant. */
ALWAYS_INLINE void accumulate(__m256 *even, __m256 *odd, struct pair_avx2 codes, const float *values, bool starts)
{
	*even = _mm256_fmadd_ps(codes.even, _mm256_set1_ps(values[0]), starts ? _mm256_setzero_ps() : *even);
	*odd = _mm256_fmadd_ps(codes.odd, _mm256_set1_ps(values[1]), starts ? _mm256_setzero_ps() : *odd);
}

/* A span's sum, scaled, and its minimum times the sum of its activations, on top of `total`. */
ALWAYS_INLINE __m256 scaled(enum pack_kind kind, const struct group *group, int span, int half, __m256 sum,
			    const float *span_sum, __m256 total)
{
	if (!layout_of(kind).span)
		return _mm256_add_ps(sum, total);
	total = _mm256_fmadd_ps(sum, group_scale_avx2(kind, group, (uint32_t)span, half), total);
	if (layout_of(kind).minimum)
		total = _mm256_fmadd_ps(_mm256_set1_ps(*span_sum),
					group_minimum_avx2(kind, group, (uint32_t)span, half), total);
	return total;
}

/* One block row times `n_rows` (a constant, at most WIDEST) activation rows from `first` on. */
ALWAYS_INLINE void multiply(enum pack_kind kind, int n_rows, const uint8_t *block_row, const struct activations *x,
			    uint32_t first, float *y, size_t y_stride, uint32_t rows)
{
	const struct layout l = layout_of(kind);
	const int n_spans = l.span ? PACK_GROUP / l.span : 1, span_pairs = GROUP_PAIRS / n_spans;
	const uint32_t n_groups = x->cols / PACK_GROUP;
	const size_t sum_stride = n_groups * (size_t)n_spans;
	const float *values[WIDEST]; /* each row's, at the current span */
	const float *span_sum = (n_spans == 2 ? x->half_sum : x->group_sum) + first * sum_stride;
	__m256 total[2][WIDEST];

	UNROLL
	for (int r = 0; r < n_rows; r++) {
		values[r] = x->f32 + (size_t)(first + (uint32_t)r) * x->cols;
		total[0][r] = total[1][r] = _mm256_setzero_ps();
	}
	for (uint32_t g = 0; g < n_groups; g++) {
		const struct group group = layout_group(kind, block_row, g);
		UNROLL
		for (int span = 0; span < n_spans; span++, span_sum++) {
			__m256 even[2][WIDEST], odd[2][WIDEST];

			UNROLL
			for (int pair = 0; pair < span_pairs; pair++) {
				UNROLL
				for (int half = 0; half < 2; half++) {
					struct pair_avx2 codes =
						group_pair_avx2(kind, group.codes, span * span_pairs + pair, half);
					UNROLL
					for (int r = 0; r < n_rows; r++)
						accumulate(&even[half][r], &odd[half][r], codes, values[r] + 2 * pair,
							   pair == 0);
				}
			}
			UNROLL
			for (int half = 0; half < 2; half++) {
				UNROLL
				for (int r = 0; r < n_rows; r++) {
					__m256 both = _mm256_add_ps(even[half][r], odd[half][r]);
					total[half][r] = scaled(kind, &group, span, half, both,
								span_sum + (size_t)r * sum_stride, total[half][r]);
				}
			}
			UNROLL
			for (int r = 0; r < n_rows; r++)
				values[r] += 2 * span_pairs;
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
	const size_t block_row_bytes = layout_block_row_bytes(kind, x->cols);

	for (uint32_t block = begin; block < end; block++) {
		const uint8_t *block_row = (const uint8_t *)w->data + block * block_row_bytes;
		uint32_t rows = w->rows - block * PACK_ROWS; /* from here to the end of the matrix */
		float *out = y + block * PACK_ROWS;
		uint32_t first = 0, left = x->n_rows;

		for (; left >= 2; left -= 2, first += 2)
			multiply(kind, 2, block_row, x, first, out, y_stride, rows);
		if (left >= 1)
			multiply(kind, 1, block_row, x, first, out, y_stride, rows);
	}
}

void decode_product_avx2(const struct matrix *w, uint32_t begin, uint32_t end, const struct activations *x, float *y,
			 size_t y_stride, enum numerics numerics)
{
	(void)numerics; /* this level serves F32 only */
	switch (w->kind) {
#define CASE(kind)                                            \
	case kind:                                            \
		product(kind, w, begin, end, x, y, y_stride); \
		break;
		PACK_EACH_KIND(CASE)
#undef CASE
	case PACK_N_KINDS:
		break;
	}
}
