/* Packed groups as float32 codes, level avx2: 8 of the 16 rows in a register, two neighbouring columns at a time.
 * `kind`, `pair` and `half` are constants wherever these functions are inlined, so nothing of the switch is left. */
#ifndef WEIGHTD_KERNEL_GROUP_AVX2_H
#define WEIGHTD_KERNEL_GROUP_AVX2_H

#include <immintrin.h>
#include <stdint.h>

#include "src/kernel/inline.h"
#include "src/kernel/layout.h"
#include "src/kernel/pack.h"
#include "src/kernel/unpack.h"

enum { GROUP_PAIRS = PACK_GROUP / 2, HALF_ROWS = PACK_ROWS / 2 };

struct pair_avx2 {
	__m256 even, odd; /* columns 2 * pair and 2 * pair + 1 of 8 rows */
};

ALWAYS_INLINE __m256i load_avx2(const uint8_t *at)
{
	return _mm256_loadu_si256((const __m256i *)at);
}

/* `n_bits` bits from bit `lowest` up of each lane as a signed integer, then as float32. */
ALWAYS_INLINE __m256 signed_field(__m256i words, int lowest, int n_bits)
{
	return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(words, 32 - n_bits - lowest), 32 - n_bits));
}

/* The same, unsigned, as integers. Two shifts, because a mask would hold a register where they are all taken. */
ALWAYS_INLINE __m256i unsigned_field(__m256i words, int lowest, int n_bits)
{
	return _mm256_srli_epi32(_mm256_slli_epi32(words, 32 - n_bits - lowest), 32 - n_bits);
}

/* float16 pairs of 8 rows. Converted four rows at a time, then sorted into columns: shuffle_ps works on 128-bit lanes
 * and leaves rows 0 1 4 5 2 3 6 7, which one permutation of 64-bit pieces puts right. */
ALWAYS_INLINE struct pair_avx2 half_pair(const uint8_t *at)
{
	__m256 low = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)at));
	__m256 high = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(at + 16)));
	__m256d even = _mm256_castps_pd(_mm256_shuffle_ps(low, high, _MM_SHUFFLE(2, 0, 2, 0)));
	__m256d odd = _mm256_castps_pd(_mm256_shuffle_ps(low, high, _MM_SHUFFLE(3, 1, 3, 1)));

	return (struct pair_avx2){_mm256_castpd_ps(_mm256_permute4x64_pd(even, _MM_SHUFFLE(3, 1, 2, 0))),
				  _mm256_castpd_ps(_mm256_permute4x64_pd(odd, _MM_SHUFFLE(3, 1, 2, 0)))};
}

/* A field of the second plane of a code in its place above the first: bit `from` and those after it go to bit `to`. */
ALWAYS_INLINE __m256i high_field(__m256i words, int from, int to, int n_bits)
{
	const __m256i mask = _mm256_set1_epi32(((1 << n_bits) - 1) << to);
	return _mm256_and_si256(from >= to ? _mm256_srli_epi32(words, from - to) : _mm256_slli_epi32(words, to - from),
				mask);
}

/* The number that each lane's code stands for; lanes have nothing above the code. */
ALWAYS_INLINE __m256 code_avx2(enum pack_kind kind, __m256i bits)
{
	if (kind == PACK_IQ4_NL) {
		const __m256i table =
			_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)unpack_iq4_nl));
		bits = _mm256_srai_epi32(_mm256_slli_epi32(_mm256_shuffle_epi8(table, bits), 24), 24);
	} else if (unpack_index(kind, 0) != 0) {
		bits = _mm256_add_epi32(bits, _mm256_set1_epi32(unpack_index(kind, 0)));
	}
	return _mm256_cvtepi32_ps(bits);
}

/* Column 2 * pair + odd of codes in planes; `codes` at the half of the rows. */
ALWAYS_INLINE __m256 plane_column_avx2(enum pack_kind kind, const uint8_t *codes, int pair, int odd)
{
	const struct layout l = layout_of(kind);
	const int low_bits = l.low_bits, high_bits = l.high_bits;
	const int low_word = pair * low_bits / 16, high_word = pair * high_bits / 16;
	const int from = pair * low_bits % 16 + 16 * odd;
	__m256i bits = load_avx2(codes + LAYOUT_PLANE_BYTES * low_word);

	bits = unsigned_field(bits, from, low_bits);
	if (high_bits) {
		__m256i high = load_avx2(codes + LAYOUT_PLANE_BYTES * (low_bits + high_word));
		high = high_field(high, pair * high_bits % 16 + 16 * odd, low_bits, high_bits);
		bits = _mm256_or_si256(bits, high);
	}
	return code_avx2(kind, bits);
}

/* Columns 2 * pair and 2 * pair + 1 (pair 0..15) of rows 8 * half .. 8 * half + 7. */
ALWAYS_INLINE struct pair_avx2 group_pair_avx2(enum pack_kind kind, const uint8_t *codes, int pair, int half)
{
	const int at = (int)layout_byte_at(2 * (uint32_t)pair);
	__m256i words;

	codes += 32 * half; /* half of the 16 32-bit lanes that a column, pair, quad or word of codes has */
	switch (kind) {
	case PACK_F32:
		return (struct pair_avx2){_mm256_castsi256_ps(load_avx2(codes + 128 * pair)),
					  _mm256_castsi256_ps(load_avx2(codes + 128 * pair + 64))};
	case PACK_F16:
		return half_pair(codes + 64 * pair);
	case PACK_BF16:
		words = load_avx2(codes + 64 * pair);
		return (struct pair_avx2){
			_mm256_castsi256_ps(_mm256_slli_epi32(words, 16)),
			_mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32((int)0xffff0000)))};
	case PACK_Q8_0: /* the next column is two bytes further */
		words = load_avx2(codes + 64 * (at / 4));
		return (struct pair_avx2){signed_field(words, at % 4 * 8, 8), signed_field(words, at % 4 * 8 + 16, 8)};
	case PACK_Q4_0: /* with its top bit flipped, a code q is q - 8 in two's complement */
		words = _mm256_xor_si256(load_avx2(codes + 64 * (pair / 4)), _mm256_set1_epi32((int)0x88888888));
		return (struct pair_avx2){signed_field(words, pair % 4 * 4, 4),
					  signed_field(words, pair % 4 * 4 + 16, 4)};
	default:
		return (struct pair_avx2){plane_column_avx2(kind, codes, pair, 0),
					  plane_column_avx2(kind, codes, pair, 1)};
	}
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
