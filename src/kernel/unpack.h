/* What the codes of a packed group mean, in plain C: the definition that every level's fast path must agree with. */
#ifndef WEIGHTD_KERNEL_UNPACK_H
#define WEIGHTD_KERNEL_UNPACK_H

#include <stdint.h>
#include <string.h>

#include "src/kernel/half.h"
#include "src/kernel/layout.h"
#include "src/kernel/pack.h"

enum { UNPACK_MAX_SPANS = 2 };

/* One row's 32 weights of a group: weight[k] = scale[k / span] * code[k] + minimum[k / span]. */
struct unpacked {
	float code[PACK_GROUP];
	uint32_t span; /* 16 or 32 */
	float scale[UNPACK_MAX_SPANS];
	float minimum[UNPACK_MAX_SPANS];
};

/* iq4_nl's table. (ggml: kvalues_iq4nl) */
static const int8_t unpack_iq4_nl[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/* The number that the bits of a code in planes stand for: an integer of at most 8 bits, exact in bfloat16. */
ALWAYS_INLINE int unpack_index(enum pack_kind kind, uint32_t bits)
{
	switch (kind) {
	case PACK_Q4_0:
		return (int)bits - 8;
	case PACK_Q5_0:
		return (int)bits - 16;
	case PACK_Q6_K:
		return (int)bits - 32;
	case PACK_Q3_K: /* the plane of one bit says "do not subtract 4" */
		return (int)bits - 4;
	case PACK_IQ4_NL:
		return unpack_iq4_nl[bits];
	default:
		return (int)bits;
	}
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

/* Column `k` of a row in a plane of `n_bits`: see pack.h. */
static inline uint32_t unpack_field(const uint8_t *plane, uint32_t n_bits, uint32_t row, uint32_t k)
{
	uint32_t per_word = 32 / n_bits, word;
	memcpy(&word, plane + 4 * (size_t)(k / per_word * PACK_ROWS + row), sizeof word);
	return word >> (k % per_word / 2 * n_bits + 16 * (k % 2)) & ((1u << n_bits) - 1);
}

static inline uint32_t unpack_bits(enum pack_kind kind, const uint8_t *codes, uint32_t row, uint32_t k)
{
	const struct layout l = layout_of(kind);
	uint32_t bits = unpack_field(codes, l.low_bits, row, k);

	if (l.high_bits)
		bits |= unpack_field(codes + (size_t)l.low_bits * LAYOUT_PLANE_BYTES, l.high_bits, row, k)
			<< l.low_bits;
	return bits;
}

/* The integers of a span in a super-block. */
static inline int unpack_span_scale(enum pack_kind kind, const struct group *group, uint32_t row, uint32_t span)
{
	uint8_t byte = layout_span_scales(kind, group, span)[row];

	switch (kind) {
	case PACK_Q2_K:
		return byte & 15;
	case PACK_Q3_K:
	case PACK_Q6_K:
		return (int8_t)byte;
	default:
		return byte;
	}
}

static inline int unpack_span_minimum(enum pack_kind kind, const struct group *group, uint32_t row, uint32_t span)
{
	uint8_t byte = layout_span_minima(kind, group, span)[row];
	return kind == PACK_Q2_K ? byte >> 4 : byte;
}

static inline void unpack_scales(enum pack_kind kind, const struct group *group, uint32_t row, struct unpacked *out)
{
	const struct layout l = layout_of(kind);
	float d, second = 0.0f;

	out->span = l.span ? l.span : PACK_GROUP;
	for (uint32_t span = 0; span < UNPACK_MAX_SPANS; span++) {
		out->scale[span] = 1.0f;
		out->minimum[span] = 0.0f;
	}
	if (!l.span)
		return;
	d = f32_from_f16(unpack_u16(group->scales, row));
	if (l.minimum)
		second = f32_from_f16(unpack_u16(layout_second_halves(group), row));
	for (uint32_t span = 0; span < PACK_GROUP / l.span; span++) {
		out->scale[span] = l.super ? d * (float)unpack_span_scale(kind, group, row, span) : d;
		if (l.minimum)
			out->minimum[span] =
				l.super ? -(second * (float)unpack_span_minimum(kind, group, row, span)) : second;
	}
}

/* Group `g` of a block row, `row` 0..15 a row in it. */
static inline void unpack_row(enum pack_kind kind, const uint8_t *block_row, uint32_t g, uint32_t row,
			      struct unpacked *out)
{
	const struct group group = layout_group(kind, block_row, g);
	const uint8_t *codes = group.codes;

	unpack_scales(kind, &group, row, out);
	switch (kind) {
	case PACK_F32:
		for (uint32_t k = 0; k < PACK_GROUP; k++)
			memcpy(&out->code[k], codes + 4 * (size_t)(k * PACK_ROWS + row), sizeof out->code[k]);
		break;
	case PACK_F16:
		for (uint32_t k = 0; k < PACK_GROUP; k++)
			out->code[k] = f32_from_f16(unpack_u16(codes, (k / 2 * PACK_ROWS + row) * 2 + k % 2));
		break;
	case PACK_BF16:
		for (uint32_t k = 0; k < PACK_GROUP; k++)
			out->code[k] = f32_from_bf16(unpack_u16(codes, (k / 2 * PACK_ROWS + row) * 2 + k % 2));
		break;
	case PACK_Q8_0:
		for (uint32_t k = 0; k < PACK_GROUP; k++) {
			uint32_t at = layout_byte_at(k);
			out->code[k] = (float)(int8_t)codes[(at / 4 * PACK_ROWS + row) * 4 + at % 4];
		}
		break;
	default:
		for (uint32_t k = 0; k < PACK_GROUP; k++)
			out->code[k] = (float)unpack_index(kind, unpack_bits(kind, codes, row, k));
		break;
	}
}

#endif
