/* Conversions between float32 and the two 16-bit floating formats, in plain C: exact widening, and rounding to nearest
 * even. Every level gives these results, bit for bit, for normal numbers. */
#ifndef WEIGHTD_KERNEL_HALF_H
#define WEIGHTD_KERNEL_HALF_H

#include <stdint.h>
#include <string.h>

static inline float f32_from_bits(uint32_t bits)
{
	float value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

static inline uint32_t f32_bits(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	return bits;
}

/* IEEE 754 binary16: 1 sign, 5 exponent (bias 15), 10 fraction bits. */
static inline float f32_from_f16(uint16_t half)
{
	uint32_t sign = (uint32_t)(half & 0x8000) << 16;
	uint32_t exponent = (half >> 10) & 0x1f;
	uint32_t fraction = half & 0x3ff;

	if (exponent == 0) { /* zero or denormal: fraction * 2^-24, which float32 holds exactly */
		float magnitude = (float)fraction * 0x1p-24f;
		return f32_from_bits(sign | f32_bits(magnitude));
	}
	if (exponent == 0x1f) /* infinity or NaN */
		return f32_from_bits(sign | 0x7f800000 | fraction << 13);
	return f32_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

/* What is beyond the largest becomes infinite. */
static inline uint16_t f16_from_f32(float value)
{
	uint32_t bits = f32_bits(value), magnitude = bits & 0x7fffffff;
	uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);

	if (magnitude > 0x7f800000)
		return sign | 0x7e00;
	if (magnitude >= 0x477ff000) /* 65520: halfway between the largest and what would be next */
		return sign | 0x7c00;
	if (magnitude < 0x38800000) /* below 2^-14, denormal: adding 0.5 leaves the rounded fraction in the low bits */
		return (uint16_t)(sign | (f32_bits(f32_from_bits(magnitude) + 0.5f) - f32_bits(0.5f)));
	magnitude -= (uint32_t)112 << 23;
	return (uint16_t)(sign | (magnitude + 0xfff + (magnitude >> 13 & 1)) >> 13);
}

/* bfloat16 is the upper half of a float32. */
static inline float f32_from_bf16(uint16_t half)
{
	return f32_from_bits((uint32_t)half << 16);
}

static inline uint16_t bf16_from_f32(float value)
{
	uint32_t bits = f32_bits(value);

	if ((bits & 0x7fffffff) > 0x7f800000) /* NaN: rounding could carry it into infinity or zero, so make it quiet */
		return (uint16_t)(bits >> 16 | 0x0040);
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float f32_round_bf16(float value)
{
	return f32_from_bf16(bf16_from_f32(value));
}

#endif
