/* Operations on one row of activations, level avx512. Tails are masked, so a row never touches its neighbours. */
#include <math.h>

#include "src/kernel/gelu.h"
#include "src/kernel/inline.h"
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

/* A number less the mean, as float32; the lanes of a tail give zeros. */
static __m512 centred_avx512(const float *x, __mmask16 lanes, __m512d mean)
{
	__m512 v = _mm512_maskz_loadu_ps(lanes, x);
	__m512d a = _mm512_sub_pd(_mm512_cvtps_pd(_mm512_castps512_ps256(v)), mean);
	__m512d b = _mm512_sub_pd(_mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1)), mean);
	__m512 both = _mm512_castps256_ps512(_mm512_cvtpd_ps(a));

	return _mm512_maskz_mov_ps(lanes, _mm512_insertf32x8(both, _mm512_cvtpd_ps(b), 1));
}

/* In double as rms_norm's sums; what is squared has been rounded to float32 first. */
void layer_norm_avx512(float *y, const float *x, const float *weight, const float *bias, uint32_t n, float eps)
{
	__m512d low = _mm512_setzero_pd(), high = _mm512_setzero_pd(), mean;
	__m512 inverse;

	for (uint32_t i = 0; i < n; i += 16) {
		__m512 v = _mm512_maskz_loadu_ps(lanes_avx512(n - i), x + i);

		low = _mm512_add_pd(low, _mm512_cvtps_pd(_mm512_castps512_ps256(v)));
		high = _mm512_add_pd(high, _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1)));
	}
	mean = _mm512_set1_pd(_mm512_reduce_add_pd(_mm512_add_pd(low, high)) / n);
	low = high = _mm512_setzero_pd();
	for (uint32_t i = 0; i < n; i += 16) {
		__m512 v = centred_avx512(x + i, lanes_avx512(n - i), mean);
		__m512d a = _mm512_cvtps_pd(_mm512_castps512_ps256(v));
		__m512d b = _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));

		low = _mm512_fmadd_pd(a, a, low);
		high = _mm512_fmadd_pd(b, b, high);
	}
	inverse = _mm512_set1_ps((float)(1.0 / sqrt(_mm512_reduce_add_pd(_mm512_add_pd(low, high)) / n + eps)));
	for (uint32_t i = 0; i < n; i += 16) {
		__mmask16 lanes = lanes_avx512(n - i);
		__m512 v = _mm512_mul_ps(centred_avx512(x + i, lanes, mean), inverse);
		v = _mm512_fmadd_ps(v, _mm512_maskz_loadu_ps(lanes, weight + i),
				    _mm512_maskz_loadu_ps(lanes, bias + i));
		_mm512_mask_storeu_ps(y + i, lanes, v);
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

/* The share below -|x|; gelu.h has the polynomial. */
static __m512 share_below_avx512(__m512 a)
{
	static const float r[] = {GELU_R8, GELU_R7, GELU_R6, GELU_R5, GELU_R4, GELU_R3, GELU_R2, GELU_R1};
	const __m512 one = _mm512_set1_ps(1.0f);
	__m512 t = _mm512_div_ps(one, _mm512_fmadd_ps(a, _mm512_set1_ps(GELU_T), one));
	__m512 sum = _mm512_set1_ps(GELU_R9);

	UNROLL
	for (int i = 0; i < 8; i++)
		sum = _mm512_fmadd_ps(sum, t, _mm512_set1_ps(r[i]));
	return _mm512_mul_ps(_mm512_mul_ps(sum, t),
			     exp_avx512(_mm512_mul_ps(_mm512_mul_ps(a, a), _mm512_set1_ps(-0.5f))));
}

void gelu_avx512(float *y, const float *x, uint32_t n)
{
	const __m512 one = _mm512_set1_ps(1.0f), zero = _mm512_setzero_ps();

	for (uint32_t i = 0; i < n; i += 16) {
		__mmask16 lanes = lanes_avx512(n - i);
		__m512 v = _mm512_maskz_loadu_ps(lanes, x + i);
		__m512 share = share_below_avx512(_mm512_abs_ps(v));
		__mmask16 above = _mm512_cmp_ps_mask(v, zero, _CMP_GT_OQ);

		share = _mm512_mask_sub_ps(share, above, one, share);
		_mm512_mask_storeu_ps(y + i, lanes, _mm512_mul_ps(v, share));
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
