/* Packed groups as vdpbf16ps takes them, level avx512: 16 rows x 2 neighbouring columns of bfloat16 in a register.
 * `kind` and `pair` are constants wherever these functions are inlined, so nothing of the switch is left. */
#ifndef WEIGHTD_KERNEL_GROUP_AVX512_H
#define WEIGHTD_KERNEL_GROUP_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#include "src/kernel/inline.h"
#include "src/kernel/pack.h"
#include "src/kernel/unpack.h"

enum { GROUP_PAIRS = PACK_GROUP / 2 };

/* int8 codes leave group_pair_avx512 multiplied by 2^24, which group_scale_avx512 takes back: a byte is converted where
 * it stands at the top of a 32-bit lane. Both factors are powers of two, so nothing is rounded. */
#define Q8_CODE_UNIT 0x1p-24f

/* The 16 codes 0..15 (or -8..7) in bfloat16, twice: vpermw looks at five bits, and the fifth belongs to a neighbour. */
ALWAYS_INLINE __m512i nibble_table_avx512(int lowest)
{
	__m512i lane = _mm512_and_si512(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
					_mm512_set1_epi32(7));
	__m512 even = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_add_epi32(lane, lane), _mm512_set1_epi32(lowest)));
	__m512 odd = _mm512_add_ps(even, _mm512_set1_ps(1.0f));

	return _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(even), 16), _mm512_castps_si512(odd));
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

/* Columns 2 * pair and 2 * pair + 1 (pair 0..15) of a group. `table` is nibble_table_avx512's for the 4-bit kinds. */
ALWAYS_INLINE __m512i group_pair_avx512(enum pack_kind kind, const uint8_t *group, int pair, __m512i table)
{
	switch (kind) {
	case PACK_F32: {
		const uint8_t *at = group + 128 * pair;
		return interleave_avx512(_mm512_loadu_ps(at), _mm512_loadu_ps(at + 64));
	}
	case PACK_F16: {
		__m512i halves = _mm512_loadu_si512(group + 64 * pair);
		__m512 low = _mm512_cvtph_ps(_mm512_castsi512_si256(halves));
		__m512 high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1));
		return (__m512i)_mm512_cvtne2ps_pbh(high, low);
	}
	case PACK_BF16:
		return _mm512_loadu_si512(group + 64 * pair);
	case PACK_Q8_0: {
		__m512i quads = _mm512_loadu_si512(group + 64 * (pair / 2));
		__m512i even = _mm512_castps_si512(byte_avx512(quads, pair % 2 * 2));
		__m512i odd = _mm512_castps_si512(byte_avx512(quads, pair % 2 * 2 + 1));
		return _mm512_or_si512(_mm512_srli_epi32(even, 16),
				       odd); /* 8-bit integers leave the lower halves zero */
	}
	case PACK_Q4_0:
	case PACK_Q4_1: {
		__m512i words = _mm512_loadu_si512(group + 64 * (pair / 4));
		return _mm512_permutexvar_epi16(_mm512_srli_epi16(words, 4 * (unsigned)(pair % 4)), table);
	}
	case PACK_N_KINDS:
		break;
	}
	return _mm512_setzero_si512();
}

/* The 16 rows' scales, for kinds that have them. */
ALWAYS_INLINE __m512 group_scale_avx512(enum pack_kind kind, const uint8_t *group)
{
	const uint8_t *at = group + (kind == PACK_Q8_0 ? 512 : 256);
	__m512 scale = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)at));
	return kind == PACK_Q8_0 ? _mm512_mul_ps(scale, _mm512_set1_ps(Q8_CODE_UNIT)) : scale;
}

/* The 16 rows' minima of a q4_1 group. */
ALWAYS_INLINE __m512 group_minimum_avx512(const uint8_t *group)
{
	return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(group + 288)));
}

#endif
