/* Decode products, level avx512: bfloat16 times bfloat16 by vdpbf16ps, straight from the stored groups.
 *
 * A register holds 16 rows x 2 columns of codes as bfloat16; both columns of one activation row are broadcast from
 * memory.
 *
 *   span     codes of pairs 0, 2, 4 ...  -> sum 0    vdpbf16ps, 8 in a chain; 4 where a scale is for 16 columns
 *            codes of pairs 1, 3, 5 ...  -> sum 1
 *            total += scale * (sum 0 + sum 1)        one FMA
 *            total += minimum * (sum of x)           kinds with a minimum only; prepare made the sum over x
 *
 * The chains of a span start at zero, so those of neighbouring spans overlap in the pipeline; only `total` is
 * carried. Up to eight activation rows share the expanded codes. Every row's arithmetic is the same in each width, so
 * how many rows run together changes no bit. Two sums, not four: eight rows then need 16 + 8 registers of 32 and
 * nothing spills.
 *
 * The hardware looks ahead as long as groups are read faster than memory gives them, from one place to the next. Kinds
 * with codes do neither (scales lie apart, several rows compute long), so the last pass over a block row asks for the
 * next one: 1 row of q6_k gains a third, 4 of q4_0 half, 16 a tenth. */
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
		a->half_sum[i / 16] = _mm512_reduce_add_ps(low_f32);
		a->half_sum[i / 16 + 1] = _mm512_reduce_add_ps(high_f32);
		a->group_sum[i / PACK_GROUP] = _mm512_reduce_add_ps(_mm512_add_ps(low_f32, high_f32));
	}
}

/* One block row times `n_rows` (a constant, at most WIDEST) activation rows from `first` on. `next` is what will be
 * read after it, or NULL. */
ALWAYS_INLINE void multiply(enum pack_kind kind, int n_rows, const uint8_t *block_row, const uint8_t *next,
			    const struct code_table_avx512 *table, const struct activations *x, uint32_t first,
			    float *y, size_t y_stride, __mmask16 lanes)
{
	const struct layout l = layout_of(kind);
	const int n_spans = l.span ? PACK_GROUP / l.span : 1, span_pairs = GROUP_PAIRS / n_spans;
	const uint32_t n_groups = x->cols / PACK_GROUP;
	const size_t sum_stride = n_groups * (size_t)n_spans;
	const uint16_t *bf16[WIDEST]; /* each row's, at the current group */
	const float *span_sum = (n_spans == 2 ? x->half_sum : x->group_sum) + first * sum_stride;
	__m512 total[WIDEST];

	UNROLL
	for (int r = 0; r < n_rows; r++) {
		bf16[r] = x->bf16 + (size_t)(first + (uint32_t)r) * x->cols;
		total[r] = _mm512_setzero_ps();
	}
	for (uint32_t g = 0; g < n_groups; g++) {
		const struct group group = layout_group(kind, block_row, g);

		if (next && (l.span || (kind != PACK_F32 && n_rows == WIDEST)))
			layout_prefetch(kind, next, g);
		UNROLL
		for (int span = 0; span < n_spans; span++, span_sum++) {
			__m512 sum[2][WIDEST];

			UNROLL
			for (int pair = 0; pair < span_pairs; pair++) {
				const int at = span * span_pairs + pair; /* in the group */
				__m512bh codes = (__m512bh)group_pair_avx512(kind, group.codes, at, table);
				UNROLL
				for (int r = 0; r < n_rows; r++) {
					__m512 into = pair < 2 ? _mm512_setzero_ps() : sum[pair % 2][r];
					int32_t bits;

					__builtin_memcpy(&bits, bf16[r] + 2 * at, sizeof bits);
					sum[pair % 2][r] =
						_mm512_dpbf16_ps(into, codes, (__m512bh)_mm512_set1_epi32(bits));
				}
			}
			UNROLL
			for (int r = 0; r < n_rows; r++) {
				__m512 both = _mm512_add_ps(sum[0][r], sum[1][r]);

				if (l.span)
					total[r] = _mm512_fmadd_ps(
						both, group_scale_avx512(kind, &group, (uint32_t)span), total[r]);
				else
					total[r] = _mm512_add_ps(both, total[r]);
				if (l.minimum)
					total[r] = _mm512_fmadd_ps(_mm512_set1_ps(span_sum[(size_t)r * sum_stride]),
								   group_minimum_avx512(kind, &group, (uint32_t)span),
								   total[r]);
			}
		}
		UNROLL
		for (int r = 0; r < n_rows; r++)
			bf16[r] += PACK_GROUP;
	}
	UNROLL
	for (int r = 0; r < n_rows; r++)
		_mm512_mask_storeu_ps(y + (first + (uint32_t)r) * y_stride, lanes, total[r]);
}

ALWAYS_INLINE void product(enum pack_kind kind, const struct matrix *w, uint32_t begin, uint32_t end,
			   const struct activations *x, float *y, size_t y_stride)
{
	const size_t block_row_bytes = layout_block_row_bytes(kind, x->cols);
	struct code_table_avx512 table;

	code_table_init_avx512(&table, kind);
	for (uint32_t block = begin; block < end; block++) {
		const uint8_t *block_row = (const uint8_t *)w->data + block * block_row_bytes;
		const uint8_t *next = block + 1 < end ? block_row + block_row_bytes : NULL;
		__mmask16 lanes = lanes_avx512(w->rows - block * PACK_ROWS);
		float *out = y + block * PACK_ROWS;
		uint32_t first = 0, left = x->n_rows;

		for (; left >= 8; left -= 8, first += 8)
			multiply(kind, 8, block_row, left == 8 ? next : NULL, &table, x, first, out, y_stride, lanes);
		if (left >= 4) {
			multiply(kind, 4, block_row, left == 4 ? next : NULL, &table, x, first, out, y_stride, lanes);
			left -= 4;
			first += 4;
		}
		if (left >= 2) {
			multiply(kind, 2, block_row, left == 2 ? next : NULL, &table, x, first, out, y_stride, lanes);
			left -= 2;
			first += 2;
		}
		if (left >= 1)
			multiply(kind, 1, block_row, next, &table, x, first, out, y_stride, lanes);
	}
}

void decode_product_avx512(const struct matrix *w, uint32_t begin, uint32_t end, const struct activations *x, float *y,
			   size_t y_stride, enum numerics numerics)
{
	(void)numerics; /* this level serves BF16 only */
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
