/* Products of int8 numerics, level avx512: bytes times bytes by vpdpbusd (VNNI), straight from the stored groups.
 *
 * A register holds the codes of 16 rows x 4 columns; four columns of one activation row are broadcast from memory.
 *
 *   quad     codes come out of planes of 4 bits by a mask, and out of others by vpmultishiftqb (VBMI), which moves
 *            any eight bits of a 64-bit lane to any byte
 *   span     one integer sum per row, which begins at what the codes' offset takes away
 *   total    += (weight scale * sum) * activation scale, + minimum * (activation scale * sum of codes)
 *
 * Up to eight rows share the codes: 8 sums and 8 totals of 32 registers; twelve gain nothing. Every row's arithmetic is
 * the same in each width. Many rows take four block rows at a time, which stay in L2 while the activations pass by; few
 * rows take one, which stays in L1. The last pass over a block row asks for those that come after it. */
#include <math.h>

#include "src/kernel/group_avx512.h"
#include "src/kernel/int8.h"
#include "src/kernel/levels.h"
#include "src/kernel/vector_avx512.h"

enum { WIDEST = 8, MANY_ROWS = 32, MANY_BLOCKS = 4 };

/* --- activations ------------------------------------------------------------------------------ */

/* Sums of the signed bytes of each half. */
ALWAYS_INLINE void sum_halves(__m256i codes, int32_t sum[2])
{
	__m256i biased = _mm256_xor_si256(codes, _mm256_set1_epi8((char)0x80));
	__m256i eights = _mm256_sad_epu8(biased, _mm256_setzero_si256());

	sum[0] = (int32_t)(_mm256_extract_epi64(eights, 0) + _mm256_extract_epi64(eights, 1)) - 128 * PACK_GROUP / 2;
	sum[1] = (int32_t)(_mm256_extract_epi64(eights, 2) + _mm256_extract_epi64(eights, 3)) - 128 * PACK_GROUP / 2;
}

ALWAYS_INLINE void round_group(struct int8_group *group, uint32_t r, const float *x)
{
	const __m512 low = _mm512_loadu_ps(x), high = _mm512_loadu_ps(x + 16);
	const __m512 magnitude = _mm512_max_ps(_mm512_abs_ps(low), _mm512_abs_ps(high));
	const __m512 most = _mm512_set1_ps(3.402823466e38f);
	/* vmaxps may lose a NaN, so both are looked at. */
	const bool finite = !(_mm512_cmp_ps_mask(_mm512_abs_ps(low), most, _CMP_NLE_UQ) |
			      _mm512_cmp_ps_mask(_mm512_abs_ps(high), most, _CMP_NLE_UQ));
	/* layout_byte_column of each lane of 16 bytes */
	const __m256i order =
		_mm256_set_epi64x(0x0f0b0e0a0d090c08, 0x0703060205010400, 0x0f0b0e0a0d090c08, 0x0703060205010400);
	float largest = finite ? _mm512_reduce_max_ps(magnitude) : 0.0f, inverse;
	int32_t sum[INT8_PARTS];
	uint32_t quads[INT8_QUADS];
	__m256i codes;

	if (largest < INT8_SMALLEST)
		largest = 0.0f;
	inverse = largest > 0.0f ? 127.0f / largest : 0.0f;
	codes = _mm256_set_m128i(_mm512_cvtepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(high, _mm512_set1_ps(inverse)))),
				 _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(low, _mm512_set1_ps(inverse)))));
	if (!finite)
		codes = _mm256_setzero_si256();
	_mm256_storeu_si256((__m256i *)quads, _mm256_shuffle_epi8(codes, order));
	UNROLL
	for (int quad = 0; quad < INT8_QUADS; quad++)
		__builtin_memcpy(group->code[quad][r], &quads[quad], sizeof quads[quad]);
	sum_halves(codes, sum + INT8_HALVES);
	sum[INT8_WHOLE] = sum[INT8_HALVES] + sum[INT8_HALVES + 1];
	group->scale[r] = finite ? largest / 127.0f : NAN;
	UNROLL
	for (int part = 0; part < INT8_PARTS; part++) {
		group->minus_8_sum[part][r] = -8 * sum[part];
		group->sum[part][r] = group->scale[r] * (float)sum[part];
	}
}

void int8_prepare_avx512(const struct int8_rows *rows, uint32_t begin, uint32_t end, const float *x)
{
	const uint32_t n_groups = rows->cols / PACK_GROUP;

	for (uint32_t r = begin; r < end; r++) {
		struct int8_group *groups = rows->groups + (size_t)(r / INT8_ROWS) * n_groups;
		const float *row = x + (size_t)r * rows->cols;

		for (uint32_t g = 0; g < n_groups; g++)
			round_group(&groups[g], r % INT8_ROWS, row + (size_t)g * PACK_GROUP);
	}
}

/* --- codes ------------------------------------------------------------------------------------ */

/* For each byte of a quad in a 64-bit lane, two rows of a plane: where in it the eight bits begin that have the
 * column's field at bit `to`. */
ALWAYS_INLINE __m512i plane_order(int n_bits, int quad, int to)
{
	uint64_t order = 0;

	for (int i = 0; i < 8; i++) {
		int column = (int)layout_byte_column(4 * (uint32_t)quad + (uint32_t)i % 4) % (32 / n_bits);
		int bit = column / 2 * n_bits + 16 * (column % 2) + 32 * (i / 4) - to;
		order |= (uint64_t)(bit & 63) << 8 * i;
	}
	return _mm512_set1_epi64((long long)order);
}

/* The four columns' fields of a plane of n_bits at `plane`, at bit `to` of their bytes; the other bits are anything. A
 * plane of 4 bits has them in place, or four bits above it. */
ALWAYS_INLINE __m512i plane_quad(const uint8_t *plane, int n_bits, int quad, int to)
{
	const __m512i words = _mm512_loadu_si512(plane + LAYOUT_PLANE_BYTES * (quad / 2 * 8 * n_bits / 32));

	if (n_bits == 4 && to == 0)
		return quad % 2 ? _mm512_srli_epi32(words, 4) : words;
	return _mm512_multishift_epi64_epi8(plane_order(n_bits, quad, to), words);
}

/* iq4_nl's numbers plus 128, for vpshufb. */
ALWAYS_INLINE __m512i iq4_nl_table(void)
{
	uint8_t table[16];
	for (int i = 0; i < 16; i++)
		table[i] = (uint8_t)(unpack_iq4_nl[i] + 128);
	return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)table));
}

/* Four columns of a group's codes, without sign: int8_offset above what they mean. */
ALWAYS_INLINE __m512i group_quad(enum pack_kind kind, const uint8_t *codes, int quad)
{
	const struct layout l = layout_of(kind);
	const int n_bits = l.low_bits + l.high_bits;
	__m512i bits;

	if (kind == PACK_Q8_0)
		return _mm512_xor_si512(_mm512_loadu_si512(codes + 64 * quad), _mm512_set1_epi8((char)0x80));
	bits = plane_quad(codes, l.low_bits, quad, 0);
	if (l.high_bits) {
		__m512i high = plane_quad(codes + LAYOUT_PLANE_BYTES * l.low_bits, l.high_bits, quad, l.low_bits);
		__m512i low_mask = _mm512_set1_epi8((char)((1 << l.low_bits) - 1));
		bits = _mm512_ternarylogic_epi32(low_mask, bits, high, 0xca); /* a bit of low_mask ? bits : high */
	}
	bits = _mm512_and_si512(bits, _mm512_set1_epi8((char)((1 << n_bits) - 1)));
	return kind == PACK_IQ4_NL ? _mm512_shuffle_epi8(iq4_nl_table(), bits) : bits;
}

/* int8 codes need no unit here as they do in group_avx512.h. */
ALWAYS_INLINE __m512 span_scale(enum pack_kind kind, const struct group *group, uint32_t span)
{
	return kind == PACK_Q8_0 ? halves_avx512(group->scales) : group_scale_avx512(kind, group, span);
}

/* --- products --------------------------------------------------------------------------------- */

ALWAYS_INLINE __m512i broadcast_quad(const int8_t quad[4])
{
	int32_t bits;
	__builtin_memcpy(&bits, quad, sizeof bits);
	return _mm512_set1_epi32(bits);
}

/* Where a row's sum begins. */
ALWAYS_INLINE __m512i begin_sum(enum pack_kind kind, const struct int8_group *group, int part, int r)
{
	const int offset = int8_offset(kind);
	__m512i sum;

	if (!offset)
		return _mm512_setzero_si512();
	sum = _mm512_set1_epi32(group->minus_8_sum[part][r]);
	if (offset < 8)
		return _mm512_srai_epi32(sum, 1);
	return offset == 8 ? sum : _mm512_slli_epi32(sum, offset == 16 ? 1 : offset == 32 ? 2 : 4);
}

/* From how many rows on the next block row is asked for. Where few rows take simple codes as fast as memory gives them,
 * the hardware looks ahead by itself, and does it better. */
ALWAYS_INLINE int prefetch_rows(enum pack_kind kind)
{
	if (kind == PACK_Q8_0)
		return WIDEST;
	return kind == PACK_Q4_0 || kind == PACK_IQ4_NL ? 2 : 1;
}

/* One block row times `n_rows` (a constant, at most WIDEST) rows from `tiles` on. `next` is what will be read after it,
 * or NULL. */
ALWAYS_INLINE void multiply(enum pack_kind kind, int n_rows, const uint8_t *block_row, const uint8_t *next,
			    const struct int8_group *tiles, uint32_t n_groups, float *y, size_t y_stride,
			    __mmask16 lanes)
{
	const struct layout l = layout_of(kind);
	const int n_spans = PACK_GROUP / l.span, span_quads = l.span / 4;
	__m512 total[WIDEST];

	UNROLL
	for (int r = 0; r < n_rows; r++)
		total[r] = _mm512_setzero_ps();
	for (uint32_t g = 0; g < n_groups; g++) {
		const struct group group = layout_group(kind, block_row, g);
		const struct int8_group *x[WIDEST / INT8_ROWS];

		if (next && n_rows >= prefetch_rows(kind))
			layout_prefetch(kind, next, g);
		UNROLL
		for (int t = 0; t < (n_rows + INT8_ROWS - 1) / INT8_ROWS; t++)
			x[t] = tiles + (size_t)t * n_groups + g;
		UNROLL
		for (int span = 0; span < n_spans; span++) {
			const int part = n_spans == 1 ? INT8_WHOLE : INT8_HALVES + span;
			__m512i sum[WIDEST];
			__m512 scale, minimum;

			UNROLL
			for (int r = 0; r < n_rows; r++)
				sum[r] = begin_sum(kind, x[r / INT8_ROWS], part, r % INT8_ROWS);
			UNROLL
			for (int quad = span * span_quads; quad < (span + 1) * span_quads; quad++) {
				__m512i codes = group_quad(kind, group.codes, quad);
				UNROLL
				for (int r = 0; r < n_rows; r++)
					sum[r] = _mm512_dpbusd_epi32(
						sum[r], codes,
						broadcast_quad(x[r / INT8_ROWS]->code[quad][r % INT8_ROWS]));
			}
			scale = span_scale(kind, &group, (uint32_t)span);
			if (l.minimum)
				minimum = group_minimum_avx512(kind, &group, (uint32_t)span);
			UNROLL
			for (int r = 0; r < n_rows; r++) {
				const struct int8_group *at = x[r / INT8_ROWS];
				__m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(sum[r]), scale);

				total[r] = _mm512_fmadd_ps(scaled, _mm512_set1_ps(at->scale[r % INT8_ROWS]), total[r]);
				if (l.minimum)
					total[r] = _mm512_fmadd_ps(
						minimum, _mm512_set1_ps(at->sum[part][r % INT8_ROWS]), total[r]);
			}
		}
	}
	UNROLL
	for (int r = 0; r < n_rows; r++)
		_mm512_mask_storeu_ps(y + (size_t)r * y_stride, lanes, total[r]);
}

/* One block row times `n` rows, at most WIDEST, from `tiles` on. */
ALWAYS_INLINE void multiply_some(enum pack_kind kind, uint32_t n, const uint8_t *block_row, const uint8_t *next,
				 const struct int8_group *tiles, uint32_t n_groups, float *y, size_t y_stride,
				 __mmask16 lanes)
{
	if (n == WIDEST) {
		multiply(kind, WIDEST, block_row, next, tiles, n_groups, y, y_stride, lanes);
		return;
	}
	if (n >= INT8_ROWS) {
		multiply(kind, INT8_ROWS, block_row, n == INT8_ROWS ? next : NULL, tiles, n_groups, y, y_stride, lanes);
		n -= INT8_ROWS;
		tiles += n_groups;
		y += INT8_ROWS * y_stride;
	}
	if (n == 3)
		multiply(kind, 3, block_row, next, tiles, n_groups, y, y_stride, lanes);
	else if (n == 2)
		multiply(kind, 2, block_row, next, tiles, n_groups, y, y_stride, lanes);
	else if (n == 1)
		multiply(kind, 1, block_row, next, tiles, n_groups, y, y_stride, lanes);
}

ALWAYS_INLINE void product(enum pack_kind kind, const struct matrix *w, uint32_t begin, uint32_t end,
			   const struct int8_rows *x, float *y, size_t y_stride)
{
	const size_t block_row_bytes = layout_block_row_bytes(kind, x->cols);
	const uint32_t n_groups = x->cols / PACK_GROUP;
	const uint32_t together = x->n_rows > MANY_ROWS ? MANY_BLOCKS : 1;

	for (uint32_t from = begin; from < end; from += together) {
		const uint32_t to = end - from < together ? end : from + together;

		for (uint32_t first = 0; first < x->n_rows; first += WIDEST) {
			const uint32_t n = x->n_rows - first < WIDEST ? x->n_rows - first : WIDEST;

			for (uint32_t block = from; block < to; block++) {
				const uint8_t *block_row = (const uint8_t *)w->data + block * block_row_bytes;
				const bool ask = first + n == x->n_rows && block + together < end;

				multiply_some(kind, n, block_row, ask ? block_row + together * block_row_bytes : NULL,
					      x->groups + (size_t)(first / INT8_ROWS) * n_groups, n_groups,
					      y + first * y_stride + block * PACK_ROWS, y_stride,
					      lanes_avx512(w->rows - block * PACK_ROWS));
			}
		}
	}
}

void int8_product_avx512(const struct matrix *w, uint32_t begin, uint32_t end, const struct int8_rows *x, float *y,
			 size_t y_stride)
{
	switch (w->kind) {
#define CASE(kind)                                            \
	case kind:                                            \
		product(kind, w, begin, end, x, y, y_stride); \
		break;
		CASE(PACK_Q8_0)
		CASE(PACK_Q4_0)
		CASE(PACK_Q4_1)
		CASE(PACK_Q5_0)
		CASE(PACK_Q5_1)
		CASE(PACK_Q2_K)
		CASE(PACK_Q3_K)
		CASE(PACK_Q4_K)
		CASE(PACK_Q5_K)
		CASE(PACK_Q6_K)
		CASE(PACK_IQ4_NL)
#undef CASE
	default: /* int8_takes no other kind */
		break;
	}
}
