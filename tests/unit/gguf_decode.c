#include "tests/unit/gguf_decode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/format/gguf.h"

static uint16_t u16(const uint8_t *at)
{
	return (uint16_t)(at[0] | at[1] << 8);
}

/* By the definition of binary16, in doubles. */
static float half(const uint8_t *at)
{
	unsigned bits = u16(at), exponent = bits >> 10 & 31, fraction = bits & 1023;
	double magnitude = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
			   : exponent	  ? ldexp(1024 + fraction, (int)exponent - 25)
					  : ldexp(fraction, -24);
	return (float)(bits >> 15 ? -magnitude : magnitude);
}

static float word(uint32_t bits)
{
	float value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

/* Element i of 32 in a block of 16 bytes of codes: the low halves are the first 16, the high halves the last. */
static int nibble(const uint8_t *codes, uint32_t i)
{
	return i < 16 ? codes[i] & 15 : codes[i - 16] >> 4;
}

/* Bit i of 32, as the fifth of a code. */
static int fifth_bit(const uint8_t *bits, uint32_t i)
{
	return (bits[i / 8] >> i % 8 & 1) * 16;
}

static float element(uint32_t type, const uint8_t *row, uint32_t i)
{
	static const int8_t iq4_nl[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
	const uint8_t *block;
	switch (type) {
	case GGUF_TENSOR_F32:
		return word(u16(row + 4 * i) | (uint32_t)u16(row + 4 * i + 2) << 16);
	case GGUF_TENSOR_F16:
		return half(row + 2 * i);
	case GGUF_TENSOR_BF16:
		return word((uint32_t)u16(row + 2 * i) << 16);
	case GGUF_TENSOR_Q8_0:
		block = row + i / 32 * 34;
		return half(block) * (float)(int8_t)block[2 + i % 32];
	case GGUF_TENSOR_Q4_0:
		block = row + i / 32 * 18;
		return half(block) * (float)(nibble(block + 2, i % 32) - 8);
	case GGUF_TENSOR_Q4_1:
		block = row + i / 32 * 20;
		return half(block) * (float)nibble(block + 4, i % 32) + half(block + 2);
	case GGUF_TENSOR_Q5_0:
		block = row + i / 32 * 22;
		return half(block) * (float)(nibble(block + 6, i % 32) + fifth_bit(block + 2, i % 32) - 16);
	case GGUF_TENSOR_Q5_1:
		block = row + i / 32 * 24;
		return half(block) * (float)(nibble(block + 8, i % 32) + fifth_bit(block + 4, i % 32)) +
		       half(block + 2);
	case GGUF_TENSOR_IQ4_NL:
		block = row + i / 32 * 18;
		return half(block) * (float)iq4_nl[nibble(block + 2, i % 32)];
	default:
		abort();
	}
}

void gguf_decode_row(uint32_t type, const uint8_t *row, uint32_t cols, float *out)
{
	for (uint32_t i = 0; i < cols; i++)
		out[i] = element(type, row, i);
}
