#include "src/kernel/quantize.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "src/kernel/half.h"

/* A group's numbers as float32, exactly. */
static void widen(enum pack_kind from, const unsigned char *values, float out[PACK_GROUP])
{
	if (from == PACK_F32) {
		memcpy(out, values, PACK_GROUP * sizeof *out);
		return;
	}
	assert(from == PACK_F16 || from == PACK_BF16);
	for (uint32_t i = 0; i < PACK_GROUP; i++) {
		uint16_t half;
		memcpy(&half, values + 2 * (size_t)i, sizeof half);
		out[i] = from == PACK_F16 ? f32_from_f16(half) : f32_from_bf16(half);
	}
}

/* The first of the largest magnitude; NaN if there is one. */
static float extreme(const float x[PACK_GROUP])
{
	float most = 0;
	for (uint32_t i = 0; i < PACK_GROUP; i++) {
		if (isnan(x[i]))
			return x[i];
		if (fabsf(x[i]) > fabsf(most))
			most = x[i];
	}
	return most;
}

/* Writes a block's scale. *inverse is what its numbers are multiplied by: 0 where they vanish beside float32's own
 * reach. */
static int put_scale(float d, unsigned char *block, float *inverse)
{
	uint16_t half = f16_from_f32(d);
	if (!isfinite(d) || (half & 0x7fff) >= 0x7c00)
		return -ERANGE;
	memcpy(block, &half, sizeof half);
	*inverse = d != 0 && isfinite(1 / d) ? 1 / d : 0;
	return 0;
}

static int to_bf16(const float x[PACK_GROUP], unsigned char *out)
{
	for (uint32_t i = 0; i < PACK_GROUP; i++) {
		uint16_t half = bf16_from_f32(x[i]);
		if (!isfinite(f32_from_bf16(half)))
			return -ERANGE;
		memcpy(out + 2 * (size_t)i, &half, sizeof half);
	}
	return 0;
}

static int to_q8_0(const float x[PACK_GROUP], unsigned char *block)
{
	float inverse;
	int rc = put_scale(fabsf(extreme(x)) / 127, block, &inverse);
	for (uint32_t i = 0; i < PACK_GROUP && rc == 0; i++)
		block[2 + i] = (unsigned char)(int8_t)roundf(x[i] * inverse);
	return rc;
}

/* Code i and code i + 16 share a byte. */
static int to_q4_0(const float x[PACK_GROUP], unsigned char *block)
{
	unsigned char codes[PACK_GROUP];
	float inverse;
	int rc = put_scale(extreme(x) / -8, block, &inverse);
	for (uint32_t i = 0; i < PACK_GROUP && rc == 0; i++) {
		float code = x[i] * inverse + 8.5f; /* rounded twice: this folder is compiled without fusing */
		codes[i] = code < 15 ? (unsigned char)code : 15;
	}
	for (uint32_t i = 0; i < PACK_GROUP / 2 && rc == 0; i++)
		block[2 + i] = (unsigned char)(codes[i] | codes[i + PACK_GROUP / 2] << 4);
	return rc;
}

int quantize_row(enum pack_kind from, const void *row, enum pack_kind to, void *out, uint32_t cols)
{
	const unsigned char *source = row;
	unsigned char *target = out;
	size_t step = pack_source_row_bytes(from, PACK_GROUP), target_step = pack_source_row_bytes(to, PACK_GROUP);
	float x[PACK_GROUP];
	int rc = 0;
	assert(cols % PACK_GROUP == 0);
	for (uint32_t col = 0; col < cols && rc == 0; col += PACK_GROUP) {
		widen(from, source, x);
		if (to == PACK_BF16)
			rc = to_bf16(x, target);
		else if (to == PACK_Q8_0)
			rc = to_q8_0(x, target);
		else
			rc = to_q4_0(x, target);
		source += step;
		target += target_step;
	}
	return rc;
}
