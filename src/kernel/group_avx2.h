/* Packed groups as float32 codes, level avx2: 8 of the 16 rows in a register, two neighbouring columns at a time.
 * `kind`, `pair` and `half` are constants wherever these functions are inlined, so nothing of the switch is left. */
#ifndef WEIGHTD_KERNEL_GROUP_AVX2_H
#define WEIGHTD_KERNEL_GROUP_AVX2_H

#include <immintrin.h>
#include <stdint.h>

#include "src/kernel/inline.h"
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

/* The same, unsigned. Two shifts, because a mask would hold a register where they are all taken. */
ALWAYS_INLINE __m256 unsigned_field(__m256i words, int lowest, int n_bits)
{
	return _mm256_cvtepi32_ps(_mm256_srli_epi32(_mm256_slli_epi32(words, 32 - n_bits - lowest), 32 - n_bits));
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

/* Columns 2 * pair and 2 * pair + 1 (pair 0..15) of rows 8 * half .. 8 * half + 7. */
ALWAYS_INLINE struct pair_avx2 group_pair_avx2(enum pack_kind kind, const uint8_t *group, int pair, int half)
{
	__m256i words;

	group += 32 * half; /* half of the 16 32-bit lanes that a column, pair, quad or word of codes has */
	switch (kind) {
	case PACK_F32:
		return (struct pair_avx2){_mm256_castsi256_ps(load_avx2(group + 128 * pair)),
					  _mm256_castsi256_ps(load_avx2(group + 128 * pair + 64))};
	case PACK_F16:
		return half_pair(group + 64 * pair);
	case PACK_BF16:
		words = load_avx2(group + 64 * pair);
		return (struct pair_avx2){
			_mm256_castsi256_ps(_mm256_slli_epi32(words, 16)),
			_mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32((int)0xffff0000)))};
	case PACK_Q8_0:
		words = load_avx2(group + 64 * (pair / 2));
		return (struct pair_avx2){signed_field(words, pair % 2 * 16, 8),
					  signed_field(words, pair % 2 * 16 + 8, 8)};
	case PACK_Q4_0: /* with its top bit flipped, a code q is q - 8 in two's complement */
		words = _mm256_xor_si256(load_avx2(group + 64 * (pair / 4)), _mm256_set1_epi32((int)0x88888888));
		return (struct pair_avx2){signed_field(words, pair % 4 * 4, 4),
					  signed_field(words, pair % 4 * 4 + 16, 4)};
	case PACK_Q4_1:
		words = load_avx2(group + 64 * (pair / 4));
		return (struct pair_avx2){unsigned_field(words, pair % 4 * 4, 4),
					  unsigned_field(words, pair % 4 * 4 + 16, 4)};
	case PACK_N_KINDS:
		break;
	}
	return (struct pair_avx2){_mm256_setzero_ps(), _mm256_setzero_ps()};
}

/* The 8 rows' scales, for kinds that have them. */
ALWAYS_INLINE __m256 group_scale_avx2(enum pack_kind kind, const uint8_t *group, int half)
{
	const uint8_t *at = group + (kind == PACK_Q8_0 ? 512 : 256) + 16 * half;
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)at));
}

/* The 8 rows' minima of a q4_1 group. */
ALWAYS_INLINE __m256 group_minimum_avx2(const uint8_t *group, int half)
{
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(group + 288 + 16 * half)));
}

#endif
