/* Keys and values kept as int8, for one KV head of a page: codes, and behind them a scale for each position.
 *
 *   keys     [head_dim / 4][KV_PAGE_TOKENS][4] uint8     code + 128; a score is a sum over dimensions
 *            [KV_PAGE_TOKENS] bfloat16                   key[t][d] = scale[t] * code[t][d]
 *   values   [KV_PAGE_TOKENS / 4][head_dim][4] int8      codes; an output is a sum over positions
 *            [KV_PAGE_TOKENS] bfloat16
 *
 * Four neighbours along the axis that a product sums over are neighbours in memory, as instructions take them that
 * multiply bytes; those take unsigned bytes for one operand, which are the keys in one product and the weights in the
 * other. Codes are -127 .. 127.
 *
 * Spread. Of a head's dimensions some few are far larger than the rest, in keys most of all, and would leave the rest
 * few of the codes. So what is stored is H k and H v, where H is the Walsh-Hadamard matrix of the largest power of two
 * that divides head_dim, in blocks along the diagonal: every number becomes a sum of all of its block with signs + and
 * -, so that what is large is spread over all. H is symmetric and H H is its size times the identity, so with H q in
 * place of q scores are that much too large and nothing else, and outputs are brought back by H once more. (Ashkboos
 * et al., 2024) Measured as tests/e2e/test_quality.py does, mean KL in nats, SmolLM2 135M | Gemma 3 270M: bfloat16
 * pages 0.0003 | 0.0001, int8 without this 0.0020 | 0.0024, of keys 0.0006 | 0.0005, of keys and values 0.0006 |
 * 0.0004.
 *
 * Scales. One for a position's key (or value) of one head: what is stored once is never touched again, so a page's bits
 * depend on its tokens alone. A scale is the largest magnitude / 127, rounded up to bfloat16: two bytes, the range of
 * float32 (float16's smallest steps are where values of small models lie), and widening is a shift at every level.
 * Codes are made with the rounded scale, so its rounding costs no exactness, only that codes may end at 126. 2 bytes
 * for 64 .. 256 codes make a page 51 to 53 % of a bfloat16 one.
 *
 * Products are of integers. A query is rounded to 16 bits by one scale (QUERY_MAX), and so are the weights of a block
 * of BLOCK_TOKENS positions after they have taken in the values' scales (WEIGHT_MAX); sums of such products fit into 32
 * bits and are exact, so they have no order, and a level adds in whatever order it likes. Both have more bits than the
 * bfloat16 operands of the other page format: what the format costs is the rounding of the codes. */
#ifndef WEIGHTD_KERNEL_KV_INT8_H
#define WEIGHTD_KERNEL_KV_INT8_H

#include <float.h>

#include "src/kernel/half.h"
#include "src/kernel/kernel.h"
#include "src/kernel/page_span.h"

enum {
	KV_CODE_MAX = 127,
	KV_KEY_OFFSET = 128,	  /* codes of keys are stored above it */
	KV_QUERY_MAX = 127 * 257, /* the largest that is 256 * high + low with both of int8 */
	KV_WEIGHT_MAX = 32767,
};

/* Smaller ones are zeros: their reciprocals would be infinite. */
#define KV_INT8_SMALLEST 0x1p-100f

static inline size_t kv_int8_codes_bytes(uint32_t head_dim)
{
	return (size_t)head_dim * KV_PAGE_TOKENS;
}

static inline size_t kv_int8_bytes(uint32_t head_dim)
{
	return kv_int8_codes_bytes(head_dim) + KV_PAGE_TOKENS * sizeof(uint16_t);
}

static inline size_t kv_int8_key_at(uint32_t slot, uint32_t dimension)
{
	return ((size_t)(dimension / 4) * KV_PAGE_TOKENS + slot) * 4 + dimension % 4;
}

static inline size_t kv_int8_value_at(uint32_t slot, uint32_t dimension, uint32_t head_dim)
{
	return ((size_t)(slot / 4) * head_dim + dimension) * 4 + slot % 4;
}

/* [KV_PAGE_TOKENS] behind a head's keys or values. */
static inline uint16_t *kv_int8_scales(const void *codes, uint32_t head_dim)
{
	return (uint16_t *)((uintptr_t)codes + kv_int8_codes_bytes(head_dim));
}

/* Numbers that H mixes, and how many times the identity H H is. */
static inline uint32_t kv_spread_block(uint32_t head_dim)
{
	return head_dim & (0 - head_dim);
}

/* The scale of numbers whose magnitudes end at `largest`: bfloat16. Infinite where one of them is infinite or NaN, so
 * that it shows in all that is made of them. */
static inline uint16_t kv_int8_scale(float largest)
{
	if (largest < KV_INT8_SMALLEST)
		return 0;
	if (!(largest <= FLT_MAX))
		return 0x7f80;
	return (uint16_t)((f32_bits(largest / KV_CODE_MAX) + 0xffff) >> 16);
}

/* What numbers are multiplied by to become integers up to `n`; 0 where there is nothing to become. */
static inline float kv_int8_inverse(float largest, float n)
{
	return largest >= KV_INT8_SMALLEST && largest <= FLT_MAX ? n / largest : 0.0f;
}

#endif
