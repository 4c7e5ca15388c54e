/* Operations on one row of activations, level avx512. Tails are masked, so a row never touches its neighbours. */
#include <math.h>

#include "src/kernel/gelu.h"
#include "src/kernel/levels.h"
#include "src/kernel/vector_avx512.h"

/* The squares are summed in double: 16 lanes, then the lanes, in one order for a given n. */
void rms_norm_avx512(float *y, const float *x, const float *weight, uint32_t n, float eps)
{
	__m512d low = _mm512_setzero_pd(), high = _mm512_setzero_pd();
	__m512 inverse;

	for (uint32_t i = 0; i < n; i += 16) {
		__m512 v = _mm512_maskz_loadu_ps(lanes_avx512(n - i), x + i);
		__m512d a = _mm512_cvtps_pd(_mm512_castps512_ps256(v));
		__m512d b = _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));

		low = _mm512_fmadd_pd(a, a, low);
		high = _mm512_fmadd_pd(b, b, high);
	}
	inverse = _mm512_set1_ps((float)(1.0 / sqrt(_mm512_reduce_add_pd(_mm512_add_pd(low, high)) / n + eps)));
	for (uint32_t i = 0; i < n; i += 16) {
		__mmask16 lanes = lanes_avx512(n - i);
		__m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, x + i), inverse);
		_mm512_mask_storeu_ps(y + i, lanes, _mm512_mul_ps(v, _mm512_maskz_loadu_ps(lanes, weight + i)));
	}
}

/* Eight pairs at a time: (a, b) * cos + (-b, a) * sin, with cos and sin each spread over both places of a pair. */
void rope_pairs_avx512(float *x, const float *cos_sin, uint32_t n_heads, uint32_t head_dim, uint32_t rope_dim)
{
	for (uint32_t i = 0; i < rope_dim; i += 16) {
		__mmask16 lanes = lanes_avx512(rope_dim - i);
		__m512 table = _mm512_maskz_loadu_ps(lanes, cos_sin + i);
		__m512 cosine = _mm512_moveldup_ps(table), sine = _mm512_movehdup_ps(table);

		for (uint32_t head = 0; head < n_heads; head++) {
			float *at = x + (size_t)head * head_dim + i;
			__m512 v = _mm512_maskz_loadu_ps(lanes, at);
			__m512 crossed = _mm512_mul_ps(_mm512_permute_ps(v, _MM_SHUFFLE(2, 3, 0, 1)), sine);

			_mm512_mask_storeu_ps(at, lanes, _mm512_fmaddsub_ps(v, cosine, crossed));
		}
	}
}

void rope_halves_avx512(float *x, const float *cos_sin, uint32_t n_heads, uint32_t head_dim, uint32_t rope_dim)
{
	uint32_t half = rope_dim / 2;

	for (uint32_t i = 0; i < half; i += 16) {
		__mmask16 lanes = lanes_avx512(half - i);
		__m512 cosine = _mm512_maskz_loadu_ps(lanes, cos_sin + i);
		__m512 sine = _mm512_maskz_loadu_ps(lanes, cos_sin + half + i);

		for (uint32_t head = 0; head < n_heads; head++) {
			float *at = x + (size_t)head * head_dim + i;
			__m512 a = _mm512_maskz_loadu_ps(lanes, at), b = _mm512_maskz_loadu_ps(lanes, at + half);

			_mm512_mask_storeu_ps(at, lanes, _mm512_fmsub_ps(a, cosine, _mm512_mul_ps(b, sine)));
			_mm512_mask_storeu_ps(at + half, lanes, _mm512_fmadd_ps(b, cosine, _mm512_mul_ps(a, sine)));
		}
	}
}

void swiglu_avx512(float *y, const float *gate, const float *up, uint32_t n)
{
	const __m512 one = _mm512_set1_ps(1.0f);

	for (uint32_t i = 0; i < n; i += 16) {
		__mmask16 lanes = lanes_avx512(n - i);
		__m512 g = _mm512_maskz_loadu_ps(lanes, gate + i);
		__m512 silu = _mm512_div_ps(g, _mm512_add_ps(one, exp_avx512(_mm512_sub_ps(_mm512_setzero_ps(), g))));

		_mm512_mask_storeu_ps(y + i, lanes, _mm512_mul_ps(silu, _mm512_maskz_loadu_ps(lanes, up + i)));
	}
}

void geglu_avx512(float *y, const float *gate, const float *up, uint32_t n)
{
	const __m512 one = _mm512_set1_ps(1.0f), zero = _mm512_setzero_ps();

	for (uint32_t i = 0; i < n; i += 16) {
		__mmask16 lanes = lanes_avx512(n - i);
		__m512 x = _mm512_maskz_loadu_ps(lanes, gate + i);
		__m512 slope =
			_mm512_fmadd_ps(_mm512_mul_ps(x, x), _mm512_set1_ps(GELU_CUBIC), _mm512_set1_ps(GELU_LINEAR));
		__m512 e = exp_avx512(_mm512_sub_ps(zero, _mm512_mul_ps(x, slope)));
		__m512 gelu = _mm512_div_ps(x, _mm512_add_ps(one, e));

		_mm512_mask_storeu_ps(y + i, lanes, _mm512_mul_ps(gelu, _mm512_maskz_loadu_ps(lanes, up + i)));
	}
}

void add_avx512(float *x, const float *y, uint32_t n)
{
	for (uint32_t i = 0; i < n; i += 16) {
		__mmask16 lanes = lanes_avx512(n - i);
		__m512 sum = _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, x + i), _mm512_maskz_loadu_ps(lanes, y + i));
		_mm512_mask_storeu_ps(x + i, lanes, sum);
	}
}

void to_bf16_avx512(uint16_t *y, const float *x, uint32_t n)
{
	for (uint32_t i = 0; i < n; i += 16) {
		__mmask16 lanes = lanes_avx512(n - i);
		_mm256_mask_storeu_epi16(y + i, lanes, bf16_avx512(_mm512_maskz_loadu_ps(lanes, x + i)));
	}
}
