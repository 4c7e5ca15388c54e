/* Packed groups as vdpbf16ps takes them, level avx512: 16 rows x 2 neighbouring columns of bfloat16 in a register.
 * `kind` and `pair` are constants wherever these functions are inlined, so nothing of the switch is left. */
#ifndef WEIGHTD_KERNEL_GROUP_AVX512_H
#define WEIGHTD_KERNEL_GROUP_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#include "src/kernel/inline.h"
#include "src/kernel/layout.h"
#include "src/kernel/pack.h"
#include "src/kernel/unpack.h"

enum { GROUP_PAIRS = PACK_GROUP / 2 };

/* int8 codes leave group_pair_avx512 multiplied by 2^24, which group_scale_avx512 takes back: a byte is converted where
 * it stands at the top of a 32-bit lane. Both factors are powers of two, so nothing is rounded. */
#define Q8_CODE_UNIT 0x1p-24f

/* What codes in planes mean, in bfloat16, by their bits: [64]. Kinds with fewer bits have their codes there several
 * times, because vpermw looks at five bits, of which some then belong to a neighbour. */
struct code_table_avx512 {
	uint16_t bf16[64];
};

ALWAYS_INLINE void code_table_init_avx512(struct code_table_avx512 *table, enum pack_kind kind)
{
	const struct layout l = layout_of(kind);
	const uint32_t n_bits = l.low_bits + l.high_bits;

	for (uint32_t i = 0; i < 64 && n_bits; i++)
		table->bf16[i] = bf16_from_f32((float)unpack_index(kind, i % (1u << n_bits)));
}

/* Two registers of 16 float32, for columns k and k + 1 -> pairs. */
ALWAYS_INLINE __m512i interleave_avx512(__m512 even, __m512 odd)
{
	const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22,
					       6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
	return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(odd, even));
}

/* Byte `k` (0..3) of each 32-bit lane as a float32, times 2^24. */
ALWAYS_INLINE __m512 byte_avx512(__m512i quads, int k)
{
	const __m512i to_top = _mm512_set4_epi32((int)0x0c808080, 0x08808080, 0x04808080, 0x00808080);
	const __m512i order = _mm512_add_epi32(to_top, _mm512_set1_epi32(k << 24));
	return _mm512_cvtepi32_ps(_mm512_shuffle_epi8(quads, order));
}

ALWAYS_INLINE __m512i shift_right_avx512(__m512i words, int n)
{
	return n >= 0 ? _mm512_srli_epi16(words, (unsigned)n) : _mm512_slli_epi16(words, (unsigned)-n);
}

/* The codes of a pair in planes: their bits come down to the bottom of the lanes, those of the second plane above those
 * of the first, and are looked up. */
ALWAYS_INLINE __m512i plane_pair_avx512(enum pack_kind kind, const uint8_t *codes, int pair,
					const struct code_table_avx512 *table)
{
	const struct layout l = layout_of(kind);
	const int low_bits = l.low_bits, high_bits = l.high_bits;
	const int low_word = pair * low_bits / 16, high_word = pair * high_bits / 16;
	__m512i bits = _mm512_loadu_si512(codes + LAYOUT_PLANE_BYTES * low_word);

	bits = shift_right_avx512(bits, pair * low_bits % 16);
	if (high_bits) {
		const uint8_t *plane = codes + LAYOUT_PLANE_BYTES * (low_bits + high_word);
		__m512i high = shift_right_avx512(_mm512_loadu_si512(plane), pair * high_bits % 16 - low_bits);
		const __m512i low_mask = _mm512_set1_epi16((short)((1 << low_bits) - 1));
		bits = _mm512_ternarylogic_epi32(low_mask, bits, high, 0xca); /* a bit of low_mask ? bits : high */
	}
	if (low_bits + high_bits == 6)
		return _mm512_permutex2var_epi16(_mm512_loadu_si512(table->bf16), bits,
						 _mm512_loadu_si512(table->bf16 + 32));
	return _mm512_permutexvar_epi16(bits, _mm512_loadu_si512(table->bf16));
}

/* Columns 2 * pair and 2 * pair + 1 (pair 0..15) of a group's codes. */
ALWAYS_INLINE __m512i group_pair_avx512(enum pack_kind kind, const uint8_t *codes, int pair,
					const struct code_table_avx512 *table)
{
	switch (kind) {
	case PACK_F32: {
		const uint8_t *at = codes + 128 * pair;
		return interleave_avx512(_mm512_loadu_ps(at), _mm512_loadu_ps(at + 64));
	}
	case PACK_F16: {
		__m512i halves = _mm512_loadu_si512(codes + 64 * pair);
		__m512 low = _mm512_cvtph_ps(_mm512_castsi512_si256(halves));
		__m512 high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1));
		return (__m512i)_mm512_cvtne2ps_pbh(high, low);
	}
	case PACK_BF16:
		return _mm512_loadu_si512(codes + 64 * pair);
	case PACK_Q8_0: {
		const int at = (int)layout_byte_at(2 * (uint32_t)pair); /* the next column is two bytes further */
		__m512i quads = _mm512_loadu_si512(codes + 64 * (at / 4));
		__m512i even = _mm512_castps_si512(byte_avx512(quads, at % 4));
		__m512i odd = _mm512_castps_si512(byte_avx512(quads, at % 4 + 2));
		return _mm512_or_si512(_mm512_srli_epi32(even, 16),
				       odd); /* 8-bit integers leave the lower halves zero */
	}
	default:
		return plane_pair_avx512(kind, codes, pair, table);
	}
}

ALWAYS_INLINE __m512 halves_avx512(const uint8_t *at)
{
	return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)at));
}

ALWAYS_INLINE __m128i bytes_avx512(const uint8_t *at)
{
	return _mm_loadu_si128((const __m128i *)at);
}

/* The 16 rows' scales of a span (0, 1), for kinds that have them. */
ALWAYS_INLINE __m512 group_scale_avx512(enum pack_kind kind, const struct group *group, uint32_t span)
{
	__m512 d = halves_avx512(group->scales);
	__m512i sc;

	if (kind == PACK_Q8_0)
		return _mm512_mul_ps(d, _mm512_set1_ps(Q8_CODE_UNIT));
	if (!layout_of(kind).super)
		return d;
	sc = kind == PACK_Q3_K || kind == PACK_Q6_K
		     ? _mm512_cvtepi8_epi32(bytes_avx512(layout_span_scales(kind, group, span)))
		     : _mm512_cvtepu8_epi32(bytes_avx512(layout_span_scales(kind, group, span)));
	if (kind == PACK_Q2_K)
		sc = _mm512_and_si512(sc, _mm512_set1_epi32(15));
	return _mm512_mul_ps(d, _mm512_cvtepi32_ps(sc));
}

/* What is added to the 16 rows' scaled codes, for kinds with a minimum. */
ALWAYS_INLINE __m512 group_minimum_avx512(enum pack_kind kind, const struct group *group, uint32_t span)
{
	__m512 second = halves_avx512(layout_second_halves(group));
	__m512i m;

	if (!layout_of(kind).super)
		return second;
	m = _mm512_cvtepu8_epi32(bytes_avx512(layout_span_minima(kind, group, span)));
	if (kind == PACK_Q2_K)
		m = _mm512_srli_epi32(m, 4);
	return _mm512_fnmadd_ps(second, _mm512_cvtepi32_ps(m), _mm512_setzero_ps());
}

#endif
