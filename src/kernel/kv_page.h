/* Where keys and values of bfloat16 lie in a KV page, for one KV head: two neighbours along the axis that a product
 * sums over are neighbours in memory, as instructions take them that multiply pairs of bfloat16.
 *
 *   keys     [head_dim / 2][KV_PAGE_TOKENS][2]     a score is a sum over dimensions
 *   values   [KV_PAGE_TOKENS / 2][head_dim][2]     an output is a sum over positions */
#ifndef WEIGHTD_KERNEL_KV_PAGE_H
#define WEIGHTD_KERNEL_KV_PAGE_H

#include "src/kernel/kernel.h"

static inline size_t kv_bf16_bytes(uint32_t head_dim)
{
	return (size_t)head_dim * KV_PAGE_TOKENS * sizeof(uint16_t);
}

static inline size_t kv_key_at(uint32_t slot, uint32_t dimension)
{
	return ((size_t)(dimension / 2) * KV_PAGE_TOKENS + slot) * 2 + dimension % 2;
}

static inline size_t kv_value_at(uint32_t slot, uint32_t dimension, uint32_t head_dim)
{
	return ((size_t)(slot / 2) * head_dim + dimension) * 2 + slot % 2;
}

#endif
