/* Decode products, level avx512: bfloat16 times bfloat16 by vdpbf16ps, straight from the stored groups.
 *
 * A register holds 16 rows x 2 columns of codes as bfloat16; both columns of one activation row are broadcast from
 * memory.
 *
 *   group    codes of pairs 0, 2, 4 ...  -> sum 0    vdpbf16ps, 8 in a chain
 *            codes of pairs 1, 3, 5 ...  -> sum 1
 *            total += scale * (sum 0 + sum 1)        one FMA
 *            total += minimum * (sum of x)           q4_1 only; the sum over x was made by prepare
 *
 * The chains of a group start at zero, so those of neighbouring groups overlap in the pipeline; only `total` is
 * carried. Up to eight activation rows share the expanded codes. Every row's arithmetic is the same in each width, so
 * how many rows run together changes no bit. Two sums, not four: eight rows then need 16 + 8 registers of 32 and
 * nothing spills. */
#include "src/kernel/group_avx512.h"
#include "src/kernel/levels.h"
#include "src/kernel/vector_avx512.h"

enum { WIDEST = 8 };

void prepare_avx512(struct activations *a, const float *x, enum numerics numerics)
{
	size_t n = (size_t)a->n_rows * a->cols;

	(void)numerics; /* this level serves BF16 only */
	for (size_t i = 0; i < n; i += PACK_GROUP) {
		__m256i low = bf16_avx512(_mm512_loadu_ps(x + i));
		__m256i high = bf16_avx512(_mm512_loadu_ps(x + i + 16));
		__m512 low_f32 = f32_avx512(low), high_f32 = f32_avx512(high);

		_mm256_store_si256((__m256i *)(a->bf16 + i), low);
		_mm256_store_si256((__m256i *)(a->bf16 + i + 16), high);
		_mm512_store_ps(a->f32 + i, low_f32);
		_mm512_store_ps(a->f32 + i + 16, high_f32);
		a->group_sum[i / PACK_GROUP] = _mm512_reduce_add_ps(_mm512_add_ps(low_f32, high_f32));
	}
}

/* One block row times `n_rows` (a constant, at most WIDEST) activation rows from `first` on. */
ALWAYS_INLINE void multiply(enum pack_kind kind, int n_rows, const uint8_t *group, const struct activations *x,
			    uint32_t first, float *y, size_t y_stride, __mmask16 lanes)
{
	const uint32_t n_groups = x->cols / PACK_GROUP;
	const size_t group_bytes = pack_group_bytes(kind);
	const uint16_t *bf16[WIDEST]; /* each row's, at the current group */
	const float *group_sum = x->group_sum + (size_t)first * n_groups;
	const __m512i table = nibble_table_avx512(kind == PACK_Q4_0 ? -8 : 0);
	__m512 total[WIDEST];

	UNROLL
	for (int r = 0; r < n_rows; r++) {
		bf16[r] = x->bf16 + (size_t)(first + (uint32_t)r) * x->cols;
		total[r] = _mm512_setzero_ps();
	}
	for (uint32_t g = 0; g < n_groups; g++, group += group_bytes) {
		__m512 sum[2][WIDEST];

		UNROLL
		for (int pair = 0; pair < GROUP_PAIRS; pair++) {
			__m512bh codes = (__m512bh)group_pair_avx512(kind, group, pair, table);
			UNROLL
			for (int r = 0; r < n_rows; r++) {
				__m512 *into = &sum[pair % 2][r];
				__m512i both;
				int32_t bits;

				__builtin_memcpy(&bits, bf16[r] + 2 * pair, sizeof bits);
				both = _mm512_set1_epi32(bits);
				*into = _mm512_dpbf16_ps(pair < 2 ? _mm512_setzero_ps() : *into, codes, (__m512bh)both);
			}
		}
		UNROLL
		for (int r = 0; r < n_rows; r++) {
			__m512 both = _mm512_add_ps(sum[0][r], sum[1][r]);

			bf16[r] += PACK_GROUP;
			if (unpack_has_scale(kind))
				total[r] = _mm512_fmadd_ps(both, group_scale_avx512(kind, group), total[r]);
			else
				total[r] = _mm512_add_ps(both, total[r]);
			if (kind == PACK_Q4_1)
				total[r] = _mm512_fmadd_ps(_mm512_set1_ps(group_sum[(size_t)r * n_groups + g]),
							   group_minimum_avx512(group), total[r]);
		}
	}
	UNROLL
	for (int r = 0; r < n_rows; r++)
		_mm512_mask_storeu_ps(y + (first + (uint32_t)r) * y_stride, lanes, total[r]);
}

ALWAYS_INLINE void product(enum pack_kind kind, const struct matrix *w, uint32_t begin, uint32_t end,
			   const struct activations *x, float *y, size_t y_stride)
{
	const size_t block_row_bytes = x->cols / PACK_GROUP * pack_group_bytes(kind);

	for (uint32_t block = begin; block < end; block++) {
		const uint8_t *group = (const uint8_t *)w->data + block * block_row_bytes;
		__mmask16 lanes = lanes_avx512(w->rows - block * PACK_ROWS);
		float *out = y + block * PACK_ROWS;
		uint32_t first = 0, left = x->n_rows;

		for (; left >= 8; left -= 8, first += 8)
			multiply(kind, 8, group, x, first, out, y_stride, lanes);
		if (left >= 4) {
			multiply(kind, 4, group, x, first, out, y_stride, lanes);
			left -= 4;
			first += 4;
		}
		if (left >= 2) {
			multiply(kind, 2, group, x, first, out, y_stride, lanes);
			left -= 2;
			first += 2;
		}
		if (left >= 1)
			multiply(kind, 1, group, x, first, out, y_stride, lanes);
	}
}

void decode_product_avx512(const struct matrix *w, uint32_t begin, uint32_t end, const struct activations *x, float *y,
			   size_t y_stride, enum numerics numerics)
{
	(void)numerics; /* this level serves BF16 only */
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
