/* Packed groups as float32 codes, level avx2.
 *
 * A register of codes is 4 rows x 2 neighbouring columns: [row][2 columns]. That is the order in which the stored pairs
 * of columns fall apart, so most codes cost one operation each of what follows:
 *
 *   planes     the fields at the same place of each byte come down to the bottom, and a look-up of 32 bytes at once
 * gives the upper or the lower bytes of 32 bfloat16 numbers; interleaved, they are pairs of columns in a 32-bit lane,
 * and a shift or a mask makes one of the two a float32. Codes of more bits than a table of 16 has become 128 + code,
 * whose upper byte as bfloat16 is the same for all and whose lower byte is the code. 8 bits     one shuffle brings a
 * byte to the top of its lane, where it is converted: 2^24 times the code.
 *
 * It takes one broadcast of two activations for both columns, and the sums over even and over odd columns lie beside
 * each other in a register until the end of a span (row_sums_avx2).
 *
 * A quarter is one of the four registers that the 16 rows of a pair of columns are: quarters 2h and 2h + 1 hold half
 * h's rows {0, 1, 4, 5} and {2, 3, 6, 7}, because registers are interleaved in their 128-bit lanes.
 *
 * `kind`, `pair` and `quarter` are constants wherever these functions are inlined: nothing of the switch is left, and
 * what pairs and quarters have in common is done once. */
#ifndef WEIGHTD_KERNEL_GROUP_AVX2_H
#define WEIGHTD_KERNEL_GROUP_AVX2_H

#include <immintrin.h>
#include <stdint.h>

#include "src/kernel/half.h"
#include "src/kernel/inline.h"
#include "src/kernel/layout.h"
#include "src/kernel/pack.h"
#include "src/kernel/unpack.h"

enum { GROUP_PAIRS = PACK_GROUP / 2, HALF_ROWS = PACK_ROWS / 2, HALF_BYTES = 32, GROUP_QUARTERS = 4 };

/* group_scale_avx2 takes back what the conversion of bytes at the top of a lane leaves. Powers of two: nothing is
 * rounded. */
#define Q8_CODE_UNIT 0x1p-24f

/* What codes of at most 4 bits mean: the lower and the upper bytes of bfloat16, twice 16 of each. Kinds with fewer bits
 * never look up the rest. */
struct code_table_avx2 {
	__m256i low, high;
};

ALWAYS_INLINE bool has_table_avx2(enum pack_kind kind)
{
	return layout_of(kind).low_bits + layout_of(kind).high_bits <= 4;
}

ALWAYS_INLINE struct code_table_avx2 code_table_avx2(enum pack_kind kind)
{
	uint8_t low[16], high[16];

	for (uint32_t i = 0; i < 16; i++) {
		uint16_t code = bf16_from_f32((float)unpack_index(kind, i));
		low[i] = (uint8_t)code;
		high[i] = (uint8_t)(code >> 8);
	}
	return (struct code_table_avx2){
		_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)low)),
		_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)high))};
}

ALWAYS_INLINE __m256i load_avx2(const uint8_t *at)
{
	return _mm256_loadu_si256((const __m256i *)at);
}

/* How many neighbouring pairs come from the same words. Of these, the even ones have more in common with each other. */
ALWAYS_INLINE int shared_pairs_avx2(enum pack_kind kind)
{
	const struct layout l = layout_of(kind);
	return l.low_bits ? 16 / l.low_bits : kind == PACK_Q8_0 ? 4 : 2;
}

/* `words` with what is at bit `from` at bit `to`; other bits are somewhere. */
ALWAYS_INLINE __m256i moved_avx2(__m256i words, int from, int to)
{
	return from >= to ? _mm256_srli_epi32(words, from - to) : _mm256_slli_epi32(words, to - from);
}

/* Bytes of each lane: pair `first`'s code of the even column, then of the odd one at byte 2; behind each, the code of
 * the pair whose fields are one byte further up. `codes` at the half of the rows. */
ALWAYS_INLINE __m256i plane_bytes_avx2(enum pack_kind kind, const uint8_t *codes, int first)
{
	const struct layout l = layout_of(kind);
	const int low_bits = l.low_bits, high_bits = l.high_bits;
	__m256i words = load_avx2(codes + LAYOUT_PLANE_BYTES * (first * low_bits / 16));
	__m256i bytes = _mm256_and_si256(_mm256_srli_epi32(words, first * low_bits % 16),
					 _mm256_set1_epi8((char)((1 << low_bits) - 1)));

	for (int byte = 0; high_bits && byte < 2; byte++) {
		const int from = (first + byte * 8 / low_bits) * high_bits, to = low_bits + 8 * byte;
		const __m256i mask = _mm256_set1_epi32(((1 << high_bits) - 1) * 0x10001 << to);
		__m256i high = load_avx2(codes + LAYOUT_PLANE_BYTES * (low_bits + from / 16));

		bytes = _mm256_or_si256(bytes, _mm256_and_si256(moved_avx2(high, from % 16, to), mask));
	}
	return bytes;
}

ALWAYS_INLINE __m256 plane_quarter_avx2(enum pack_kind kind, const uint8_t *codes, const struct code_table_avx2 *table,
					int pair, int odd_quarter)
{
	enum { OFFSET = 128, UPPER_BYTE = 0x43 }; /* of 128 .. 255 as bfloat16 */
	const int pairs_per_byte = 8 / layout_of(kind).low_bits;
	const int byte = pair / pairs_per_byte % 2; /* of the 16 bits that a column of a row has in a word */
	__m256i low = plane_bytes_avx2(kind, codes, pair - byte * pairs_per_byte);
	__m256i high = _mm256_set1_epi8(UPPER_BYTE), pairs;
	__m256 number;

	if (has_table_avx2(kind)) {
		high = _mm256_shuffle_epi8(table->high, low);
		low = _mm256_shuffle_epi8(table->low, low);
	}
	pairs = odd_quarter ? _mm256_unpackhi_epi8(low, high) : _mm256_unpacklo_epi8(low, high);
	pairs = byte ? _mm256_and_si256(pairs, _mm256_set1_epi32((int)0xffff0000)) : _mm256_slli_epi32(pairs, 16);
	number = _mm256_castsi256_ps(pairs);
	if (!has_table_avx2(kind))
		number = _mm256_sub_ps(number, _mm256_set1_ps((float)(OFFSET - unpack_index(kind, 0))));
	return number;
}

/* Bytes `byte` and byte + 2 of two rows in each 128-bit lane of [row][4 bytes], times 2^24. */
ALWAYS_INLINE __m256 byte_quarter_avx2(__m256i quads, int byte, int odd_quarter)
{
	const __m128i to_top = _mm_set_epi32(0x06808080, 0x04808080, 0x02808080, 0x00808080);
	const __m128i order = _mm_add_epi32(to_top, _mm_set1_epi32((8 * odd_quarter + byte) << 24));
	return _mm256_cvtepi32_ps(_mm256_shuffle_epi8(quads, _mm256_broadcastsi128_si256(order)));
}

/* float16 pairs of 8 rows. The rows of a quarter lie apart, so those of both are sorted first. */
ALWAYS_INLINE __m256 half_quarter_avx2(const uint8_t *at, int odd_quarter)
{
	__m256i sorted = _mm256_permute4x64_epi64(load_avx2(at), _MM_SHUFFLE(3, 1, 2, 0));
	return _mm256_cvtph_ps(odd_quarter ? _mm256_extracti128_si256(sorted, 1) : _mm256_castsi256_si128(sorted));
}

/* Columns 2 * pair and 2 * pair + 1 (pair 0..15) of the even or the odd (0, 1) quarter of a half; `codes` those of the
 * group at the half: 32 bytes for each half are what a column, pair, quad or word of codes has. */
ALWAYS_INLINE __m256 group_pair_avx2(enum pack_kind kind, const uint8_t *codes, const struct code_table_avx2 *table,
				     int pair, int odd)
{
	const int at =
		(int)layout_byte_at(2 * (uint32_t)pair); /* where a code is a byte; the next column's, 2 further */
	__m256 even_column, odd_column;
	__m256i words;

	switch (kind) {
	case PACK_F32:
		even_column = _mm256_castsi256_ps(load_avx2(codes + 128 * pair));
		odd_column = _mm256_castsi256_ps(load_avx2(codes + 128 * pair + 64));
		return odd ? _mm256_unpackhi_ps(even_column, odd_column) : _mm256_unpacklo_ps(even_column, odd_column);
	case PACK_F16:
		return half_quarter_avx2(codes + 64 * pair, odd);
	case PACK_BF16:
		words = load_avx2(codes + 64 * pair);
		return _mm256_castsi256_ps(odd ? _mm256_unpackhi_epi16(_mm256_setzero_si256(), words)
					       : _mm256_unpacklo_epi16(_mm256_setzero_si256(), words));
	case PACK_Q8_0:
		return byte_quarter_avx2(load_avx2(codes + 64 * (at / 4)), at % 4, odd);
	default:
		return plane_quarter_avx2(kind, codes, table, pair, odd);
	}
}

/* Both quarters of a half -> its 8 rows in order: even + odd column of each. */
ALWAYS_INLINE __m256 row_sums_avx2(__m256 even_quarter, __m256 odd_quarter)
{
	return _mm256_hadd_ps(even_quarter, odd_quarter);
}

/* The same, the even (0) or the odd (1) column alone. */
ALWAYS_INLINE __m256 column_avx2(__m256 even_quarter, __m256 odd_quarter, int odd)
{
	return odd ? _mm256_shuffle_ps(even_quarter, odd_quarter, _MM_SHUFFLE(3, 1, 3, 1))
		   : _mm256_shuffle_ps(even_quarter, odd_quarter, _MM_SHUFFLE(2, 0, 2, 0));
}

ALWAYS_INLINE __m256 halves_avx2(const uint8_t *at)
{
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)at));
}

/* The 8 rows' scales of a span (0, 1), for kinds that have them. */
ALWAYS_INLINE __m256 group_scale_avx2(enum pack_kind kind, const struct group *group, uint32_t span, int half)
{
	__m256 d = halves_avx2(group->scales + 2 * HALF_ROWS * half);
	__m128i bytes;
	__m256i sc;

	if (kind == PACK_Q8_0)
		return _mm256_mul_ps(d, _mm256_set1_ps(Q8_CODE_UNIT));
	if (!layout_of(kind).super)
		return d;
	bytes = _mm_loadu_si64(layout_span_scales(kind, group, span) + HALF_ROWS * half);
	sc = kind == PACK_Q3_K || kind == PACK_Q6_K ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes);
	if (kind == PACK_Q2_K)
		sc = _mm256_and_si256(sc, _mm256_set1_epi32(15));
	return _mm256_mul_ps(d, _mm256_cvtepi32_ps(sc));
}

/* What is added to the 8 rows' scaled codes, for kinds with a minimum. */
ALWAYS_INLINE __m256 group_minimum_avx2(enum pack_kind kind, const struct group *group, uint32_t span, int half)
{
	__m256 second = halves_avx2(layout_second_halves(group) + 2 * HALF_ROWS * half);
	__m256i m;

	if (!layout_of(kind).super)
		return second;
	m = _mm256_cvtepu8_epi32(_mm_loadu_si64(layout_span_minima(kind, group, span) + HALF_ROWS * half));
	if (kind == PACK_Q2_K)
		m = _mm256_srli_epi32(m, 4);
	return _mm256_fnmadd_ps(second, _mm256_cvtepi32_ps(m), _mm256_setzero_ps());
}

#endif
