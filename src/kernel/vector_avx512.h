/* What several *_avx512.c files need: the exponential, bfloat16 rounding, bfloat16 as float32, masks of
 * tails and of positions. */
#ifndef WEIGHTD_KERNEL_VECTOR_AVX512_H
#define WEIGHTD_KERNEL_VECTOR_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#include "src/kernel/exp.h"
#include "src/kernel/page_span.h"

/* The first n lanes of 16. */
static inline __mmask16 lanes_avx512(uint32_t n)
{
	return (__mmask16)(n >= 16 ? 0xffff : (1u << n) - 1);
}

/* Which of the 16 positions of vector `v` of a page count. */
static inline __mmask16 span_lanes_avx512(struct page_span span, uint32_t v)
{
	uint32_t end = span.end > 16 * v ? span.end - 16 * v : 0;
	uint32_t begin = span.begin > 16 * v ? span.begin - 16 * v : 0;
	return lanes_avx512(end) & ~lanes_avx512(begin);
}

/* NaN stays NaN: min and max return their second operand where one is NaN, and scalef keeps it. */
static inline __m512 exp_avx512(__m512 x)
{
	__m512 n, r, q;

	x = _mm512_max_ps(_mm512_set1_ps(EXP_LOWEST), _mm512_min_ps(_mm512_set1_ps(EXP_HIGHEST), x));
	n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(EXP_LOG2_E)),
				 _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
	r = _mm512_fnmadd_ps(n, _mm512_set1_ps(EXP_LN2_HIGH), x);
	r = _mm512_fnmadd_ps(n, _mm512_set1_ps(EXP_LN2_LOW), r);
	q = _mm512_fmadd_ps(_mm512_set1_ps(EXP_Q4), r, _mm512_set1_ps(EXP_Q3));
	q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(EXP_Q2));
	q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(EXP_Q1));
	q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(EXP_Q0));
	q = _mm512_add_ps(_mm512_fmadd_ps(_mm512_mul_ps(r, r), q, r), _mm512_set1_ps(1.0f));
	return _mm512_scalef_ps(q, n);
}

/* float32 -> the upper 16 bits of each lane, as bf16_from_f32 of half.h. (vcvtneps2bf16 would flush denormals.) */
static inline __m256i bf16_avx512(__m512 x)
{
	__m512i bits = _mm512_castps_si512(x);
	__m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
	__m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
	__m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x00400000));
	__mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);

	return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_mask_mov_epi32(rounded, nan, quiet), 16));
}

static inline __m512 f32_avx512(__m256i halves)
{
	return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

#endif
