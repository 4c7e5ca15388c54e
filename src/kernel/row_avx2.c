/* Operations on one row of activations, level avx2. Tails are masked, so a row never touches its neighbours. */
#include <math.h>
#include <string.h>

#include "src/kernel/gelu.h"
#include "src/kernel/inline.h"
#include "src/kernel/levels.h"
#include "src/kernel/vector_avx2.h"

static double sum_of_avx2(__m256d low, __m256d high)
{
	__m256d both = _mm256_add_pd(low, high);
	__m128d two = _mm_add_pd(_mm256_castpd256_pd128(both), _mm256_extractf128_pd(both, 1));

	return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

/* The squares are summed in double: eight lanes, then the lanes, in one order for a given n. */
void rms_norm_avx2(float *y, const float *x, const float *weight, uint32_t n, float eps)
{
	__m256d low = _mm256_setzero_pd(), high = _mm256_setzero_pd();
	__m256 inverse;

	for (uint32_t i = 0; i < n; i += 8) {
		__m256 v = _mm256_maskload_ps(x + i, lanes_avx2(n - i));
		__m256d a = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
		__m256d b = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));

		low = _mm256_fmadd_pd(a, a, low);
		high = _mm256_fmadd_pd(b, b, high);
	}
	inverse = _mm256_set1_ps((float)(1.0 / sqrt(sum_of_avx2(low, high) / n + eps)));
	for (uint32_t i = 0; i < n; i += 8) {
		__m256i lanes = lanes_avx2(n - i);
		__m256 v = _mm256_mul_ps(_mm256_maskload_ps(x + i, lanes), inverse);
		_mm256_maskstore_ps(y + i, lanes, _mm256_mul_ps(v, _mm256_maskload_ps(weight + i, lanes)));
	}
}

/* A number less the mean, as float32; the lanes of a tail give zeros. */
static __m256 centred_avx2(const float *x, __m256i lanes, __m256d mean)
{
	__m256 v = _mm256_maskload_ps(x, lanes);
	__m256d a = _mm256_sub_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(v)), mean);
	__m256d b = _mm256_sub_pd(_mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)), mean);

	return _mm256_and_ps(_mm256_set_m128(_mm256_cvtpd_ps(b), _mm256_cvtpd_ps(a)), _mm256_castsi256_ps(lanes));
}

/* In double as rms_norm's sums; what is squared has been rounded to float32 first. */
void layer_norm_avx2(float *y, const float *x, const float *weight, const float *bias, uint32_t n, float eps)
{
	__m256d low = _mm256_setzero_pd(), high = _mm256_setzero_pd(), mean;
	__m256 inverse;

	for (uint32_t i = 0; i < n; i += 8) {
		__m256 v = _mm256_maskload_ps(x + i, lanes_avx2(n - i));

		low = _mm256_add_pd(low, _mm256_cvtps_pd(_mm256_castps256_ps128(v)));
		high = _mm256_add_pd(high, _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)));
	}
	mean = _mm256_set1_pd(sum_of_avx2(low, high) / n);
	low = high = _mm256_setzero_pd();
	for (uint32_t i = 0; i < n; i += 8) {
		__m256 v = centred_avx2(x + i, lanes_avx2(n - i), mean);
		__m256d a = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
		__m256d b = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));

		low = _mm256_fmadd_pd(a, a, low);
		high = _mm256_fmadd_pd(b, b, high);
	}
	inverse = _mm256_set1_ps((float)(1.0 / sqrt(sum_of_avx2(low, high) / n + eps)));
	for (uint32_t i = 0; i < n; i += 8) {
		__m256i lanes = lanes_avx2(n - i);
		__m256 v = _mm256_mul_ps(centred_avx2(x + i, lanes, mean), inverse);
		v = _mm256_fmadd_ps(v, _mm256_maskload_ps(weight + i, lanes), _mm256_maskload_ps(bias + i, lanes));
		_mm256_maskstore_ps(y + i, lanes, v);
	}
}

/* Four pairs at a time: (a, b) * cos + (-b, a) * sin, with cos and sin each spread over both places of a pair. */
void rope_pairs_avx2(float *x, const float *cos_sin, uint32_t n_heads, uint32_t head_dim, uint32_t rope_dim)
{
	for (uint32_t i = 0; i < rope_dim; i += 8) {
		__m256i lanes = lanes_avx2(rope_dim - i);
		__m256 table = _mm256_maskload_ps(cos_sin + i, lanes);
		__m256 cosine = _mm256_moveldup_ps(table), sine = _mm256_movehdup_ps(table);

		for (uint32_t head = 0; head < n_heads; head++) {
			float *at = x + (size_t)head * head_dim + i;
			__m256 v = _mm256_maskload_ps(at, lanes);
			__m256 crossed = _mm256_mul_ps(_mm256_permute_ps(v, _MM_SHUFFLE(2, 3, 0, 1)), sine);

			_mm256_maskstore_ps(at, lanes, _mm256_fmaddsub_ps(v, cosine, crossed));
		}
	}
}

void rope_halves_avx2(float *x, const float *cos_sin, uint32_t n_heads, uint32_t head_dim, uint32_t rope_dim)
{
	uint32_t half = rope_dim / 2;

	for (uint32_t i = 0; i < half; i += 8) {
		__m256i lanes = lanes_avx2(half - i);
		__m256 cosine = _mm256_maskload_ps(cos_sin + i, lanes);
		__m256 sine = _mm256_maskload_ps(cos_sin + half + i, lanes);

		for (uint32_t head = 0; head < n_heads; head++) {
			float *at = x + (size_t)head * head_dim + i;
			__m256 a = _mm256_maskload_ps(at, lanes), b = _mm256_maskload_ps(at + half, lanes);

			_mm256_maskstore_ps(at, lanes, _mm256_fmsub_ps(a, cosine, _mm256_mul_ps(b, sine)));
			_mm256_maskstore_ps(at + half, lanes, _mm256_fmadd_ps(b, cosine, _mm256_mul_ps(a, sine)));
		}
	}
}

void swiglu_avx2(float *y, const float *gate, const float *up, uint32_t n)
{
	const __m256 one = _mm256_set1_ps(1.0f);

	for (uint32_t i = 0; i < n; i += 8) {
		__m256i lanes = lanes_avx2(n - i);
		__m256 g = _mm256_maskload_ps(gate + i, lanes);
		__m256 silu = _mm256_div_ps(g, _mm256_add_ps(one, exp_avx2(_mm256_sub_ps(_mm256_setzero_ps(), g))));

		_mm256_maskstore_ps(y + i, lanes, _mm256_mul_ps(silu, _mm256_maskload_ps(up + i, lanes)));
	}
}

void geglu_avx2(float *y, const float *gate, const float *up, uint32_t n)
{
	const __m256 one = _mm256_set1_ps(1.0f), zero = _mm256_setzero_ps();

	for (uint32_t i = 0; i < n; i += 8) {
		__m256i lanes = lanes_avx2(n - i);
		__m256 x = _mm256_maskload_ps(gate + i, lanes);
		__m256 slope =
			_mm256_fmadd_ps(_mm256_mul_ps(x, x), _mm256_set1_ps(GELU_CUBIC), _mm256_set1_ps(GELU_LINEAR));
		__m256 e = exp_avx2(_mm256_sub_ps(zero, _mm256_mul_ps(x, slope)));
		__m256 gelu = _mm256_div_ps(x, _mm256_add_ps(one, e));

		_mm256_maskstore_ps(y + i, lanes, _mm256_mul_ps(gelu, _mm256_maskload_ps(up + i, lanes)));
	}
}

/* The share below -|x|; gelu.h has the polynomial. */
static __m256 share_below_avx2(__m256 a)
{
	static const float r[] = {GELU_R8, GELU_R7, GELU_R6, GELU_R5, GELU_R4, GELU_R3, GELU_R2, GELU_R1};
	const __m256 one = _mm256_set1_ps(1.0f);
	__m256 t = _mm256_div_ps(one, _mm256_fmadd_ps(a, _mm256_set1_ps(GELU_T), one));
	__m256 sum = _mm256_set1_ps(GELU_R9);

	UNROLL
	for (int i = 0; i < 8; i++)
		sum = _mm256_fmadd_ps(sum, t, _mm256_set1_ps(r[i]));
	return _mm256_mul_ps(_mm256_mul_ps(sum, t),
			     exp_avx2(_mm256_mul_ps(_mm256_mul_ps(a, a), _mm256_set1_ps(-0.5f))));
}

void gelu_avx2(float *y, const float *x, uint32_t n)
{
	const __m256 one = _mm256_set1_ps(1.0f), zero = _mm256_setzero_ps();

	for (uint32_t i = 0; i < n; i += 8) {
		__m256i lanes = lanes_avx2(n - i);
		__m256 v = _mm256_maskload_ps(x + i, lanes);
		__m256 share = share_below_avx2(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), v));

		share = _mm256_blendv_ps(share, _mm256_sub_ps(one, share), _mm256_cmp_ps(v, zero, _CMP_GT_OQ));
		_mm256_maskstore_ps(y + i, lanes, _mm256_mul_ps(v, share));
	}
}

void add_avx2(float *x, const float *y, uint32_t n)
{
	for (uint32_t i = 0; i < n; i += 8) {
		__m256i lanes = lanes_avx2(n - i);
		__m256 sum = _mm256_add_ps(_mm256_maskload_ps(x + i, lanes), _mm256_maskload_ps(y + i, lanes));
		_mm256_maskstore_ps(x + i, lanes, sum);
	}
}

/* As bf16_from_f32 of half.h, eight at a time. */
static __m128i bf16_avx2(__m256 x)
{
	__m256i bits = _mm256_castps_si256(x);
	__m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
	__m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
	__m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
	__m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
	__m256i upper = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);

	return _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1));
}

void to_bf16_avx2(uint16_t *y, const float *x, uint32_t n)
{
	uint32_t i = 0;

	for (; n - i >= 8; i += 8)
		_mm_storeu_si128((__m128i *)(y + i), bf16_avx2(_mm256_loadu_ps(x + i)));
	if (i < n) {
		uint16_t tail[8];
		_mm_storeu_si128((__m128i *)tail, bf16_avx2(_mm256_maskload_ps(x + i, lanes_avx2(n - i))));
		memcpy(y + i, tail, (n - i) * sizeof *y);
	}
}
