/* Operations on one row of activations, level ref: the definitions, as the papers named in kernel.h write them. */
#include <math.h>

#include "src/kernel/gelu.h"
#include "src/kernel/half.h"
#include "src/kernel/levels.h"

void rms_norm_ref(float *y, const float *x, const float *weight, uint32_t n, float eps)
{
	double sum = 0.0;
	float inverse;

	for (uint32_t i = 0; i < n; i++)
		sum += (double)x[i] * x[i];
	inverse = (float)(1.0 / sqrt(sum / n + eps));
	for (uint32_t i = 0; i < n; i++)
		y[i] = x[i] * inverse * weight[i];
}

void layer_norm_ref(float *y, const float *x, const float *weight, const float *bias, uint32_t n, float eps)
{
	double sum = 0.0, squares = 0.0, mean;
	float inverse;

	for (uint32_t i = 0; i < n; i++)
		sum += (double)x[i];
	mean = sum / n;
	for (uint32_t i = 0; i < n; i++)
		squares += ((double)x[i] - mean) * ((double)x[i] - mean);
	inverse = (float)(1.0 / sqrt(squares / n + eps));
	for (uint32_t i = 0; i < n; i++)
		y[i] = (float)((double)x[i] - mean) * inverse * weight[i] + bias[i];
}

void rope_pairs_ref(float *x, const float *cos_sin, uint32_t n_heads, uint32_t head_dim, uint32_t rope_dim)
{
	for (uint32_t head = 0; head < n_heads; head++, x += head_dim)
		for (uint32_t i = 0; i + 1 < rope_dim; i += 2) {
			float a = x[i], b = x[i + 1];
			float cosine = cos_sin[i], sine = cos_sin[i + 1];

			x[i] = a * cosine - b * sine;
			x[i + 1] = a * sine + b * cosine;
		}
}

void rope_halves_ref(float *x, const float *cos_sin, uint32_t n_heads, uint32_t head_dim, uint32_t rope_dim)
{
	uint32_t half = rope_dim / 2;

	for (uint32_t head = 0; head < n_heads; head++, x += head_dim)
		for (uint32_t i = 0; i < half; i++) {
			float a = x[i], b = x[half + i];
			float cosine = cos_sin[i], sine = cos_sin[half + i];

			x[i] = a * cosine - b * sine;
			x[half + i] = a * sine + b * cosine;
		}
}

void swiglu_ref(float *y, const float *gate, const float *up, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		y[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
}

/* The paper's x / 2 (1 + tanh(u)) is x / (1 + e^(-2u)), which keeps its digits where tanh is near -1. */
void geglu_ref(float *y, const float *gate, const float *up, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		float x = gate[i];
		float twice_u = x * (GELU_LINEAR + GELU_CUBIC * (x * x));

		y[i] = x / (1.0f + expf(-twice_u)) * up[i];
	}
}

/* By erfc, whose digits do not get lost where the share is small. */
void gelu_ref(float *y, const float *x, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		y[i] = x[i] * (float)(0.5 * erfc(-(double)x[i] * M_SQRT1_2));
}

void add_ref(float *x, const float *y, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		x[i] += y[i];
}

void to_bf16_ref(uint16_t *y, const float *x, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		y[i] = bf16_from_f32(x[i]);
}
