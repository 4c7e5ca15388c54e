/* What the codes of a packed group mean, in plain C: the definition that every level's fast path must agree with. */
#ifndef WEIGHTD_KERNEL_UNPACK_H
#define WEIGHTD_KERNEL_UNPACK_H

#include <stdint.h>
#include <string.h>

#include "src/kernel/half.h"
#include "src/kernel/pack.h"

/* One row's 32 weights of a group: weight[k] = scale * code[k] + minimum. */
struct unpacked {
	float code[PACK_GROUP];
	float scale;
	float minimum;
};

/* Whether codes of this kind are small integers with a scale for each row and group. */
static inline int unpack_has_scale(enum pack_kind kind)
{
	return kind == PACK_Q8_0 || kind == PACK_Q4_0 || kind == PACK_Q4_1;
}

static inline const uint8_t *unpack_block_row_at(const struct matrix *w, uint32_t block_row)
{
	return (const uint8_t *)w->data + block_row * pack_block_row_bytes(w->kind, w->cols);
}

static inline uint16_t unpack_u16(const uint8_t *at, size_t index)
{
	uint16_t value;
	memcpy(&value, at + 2 * index, sizeof value);
	return value;
}

/* The 4-bit code of column `k`: see the picture in pack.h. */
static inline uint32_t unpack_nibble(const uint8_t *group, uint32_t row, uint32_t k)
{
	uint32_t word;
	memcpy(&word, group + 4 * (size_t)(k / 8 * PACK_ROWS + row), sizeof word);
	return word >> (4 * (k % 8 / 2) + 16 * (k % 2)) & 15;
}

/* `group` is one group of a block row, `row` 0..15 a row in it. */
static inline void unpack_row(enum pack_kind kind, const uint8_t *group, uint32_t row, struct unpacked *out)
{
	const uint8_t *scales = group + (kind == PACK_Q8_0 ? 512 : 256);

	out->scale = 1.0f;
	out->minimum = 0.0f;
	switch (kind) {
	case PACK_F32:
		for (uint32_t k = 0; k < PACK_GROUP; k++)
			memcpy(&out->code[k], group + 4 * (size_t)(k * PACK_ROWS + row), sizeof out->code[k]);
		break;
	case PACK_F16:
		for (uint32_t k = 0; k < PACK_GROUP; k++)
			out->code[k] = f32_from_f16(unpack_u16(group, (k / 2 * PACK_ROWS + row) * 2 + k % 2));
		break;
	case PACK_BF16:
		for (uint32_t k = 0; k < PACK_GROUP; k++)
			out->code[k] = f32_from_bf16(unpack_u16(group, (k / 2 * PACK_ROWS + row) * 2 + k % 2));
		break;
	case PACK_Q8_0:
		for (uint32_t k = 0; k < PACK_GROUP; k++)
			out->code[k] = (float)(int8_t)group[(k / 4 * PACK_ROWS + row) * 4 + k % 4];
		out->scale = f32_from_f16(unpack_u16(scales, row));
		break;
	case PACK_Q4_0:
		for (uint32_t k = 0; k < PACK_GROUP; k++)
			out->code[k] = (float)((int)unpack_nibble(group, row, k) - 8);
		out->scale = f32_from_f16(unpack_u16(scales, row));
		break;
	case PACK_Q4_1:
		for (uint32_t k = 0; k < PACK_GROUP; k++)
			out->code[k] = (float)unpack_nibble(group, row, k);
		out->scale = f32_from_f16(unpack_u16(scales, row));
		out->minimum = f32_from_f16(unpack_u16(scales, PACK_ROWS + row));
		break;
	case PACK_N_KINDS:
		break;
	}
}

#endif
