/* What several *_avx2.c files need: the exponential, bfloat16 as float32, tail masks, sums across a register. */
#ifndef WEIGHTD_KERNEL_VECTOR_AVX2_H
#define WEIGHTD_KERNEL_VECTOR_AVX2_H

#include <immintrin.h>
#include <stdint.h>

#include "src/kernel/exp.h"

/* The first n lanes of 8, as maskload and maskstore take them. */
static inline __m256i lanes_avx2(uint32_t n)
{
	const __m256i lane = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
	return _mm256_cmpgt_epi32(_mm256_set1_epi32(n < 8 ? (int)n : 8), lane);
}

/* 2^n for integers n of -126 .. 127. */
static inline __m256 power_of_two_avx2(__m256i n)
{
	return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

/* NaN stays NaN: min and max return their second operand where one is NaN. 2^n goes in two halves, so that results
 * below the smallest normal number come out, rounded once. */
static inline __m256 exp_avx2(__m256 x)
{
	__m256 n, r, q;
	__m256i whole, half;

	x = _mm256_max_ps(_mm256_set1_ps(EXP_LOWEST), _mm256_min_ps(_mm256_set1_ps(EXP_HIGHEST), x));
	n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(EXP_LOG2_E)),
			    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
	r = _mm256_fnmadd_ps(n, _mm256_set1_ps(EXP_LN2_HIGH), x);
	r = _mm256_fnmadd_ps(n, _mm256_set1_ps(EXP_LN2_LOW), r);
	q = _mm256_fmadd_ps(_mm256_set1_ps(EXP_Q4), r, _mm256_set1_ps(EXP_Q3));
	q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(EXP_Q2));
	q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(EXP_Q1));
	q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(EXP_Q0));
	q = _mm256_add_ps(_mm256_fmadd_ps(_mm256_mul_ps(r, r), q, r), _mm256_set1_ps(1.0f));
	whole = _mm256_cvtps_epi32(n);
	half = _mm256_srai_epi32(whole, 1);
	q = _mm256_mul_ps(q, power_of_two_avx2(half));
	return _mm256_mul_ps(q, power_of_two_avx2(_mm256_sub_epi32(whole, half)));
}

static inline __m256 f32_avx2(__m128i halves)
{
	return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

static inline float sum_avx2(__m256 x)
{
	__m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
	__m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
	return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline float largest_avx2(__m256 x)
{
	__m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
	__m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
	return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

#endif
