/* Packing of k-quants, private to pack.c and pack_<level>.c: where a block's fields are, and a super-block's scales,
 * for all levels; the definition of the rest. */
#ifndef WEIGHTD_KERNEL_PACK_SUPER_H
#define WEIGHTD_KERNEL_PACK_SUPER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "src/kernel/layout.h"
#include "src/kernel/pack.h"

/* One super-block of `n_rows` (1..16) rows: `source` is the first row's block in the file, the next rows' are
 * `row_bytes` apart. Missing rows are left alone. Nothing happens for other kinds. */
void pack_super_block(enum pack_kind kind, uint8_t *block, const uint8_t *source, size_t row_bytes, uint32_t n_rows);

/* Byte offsets of the fields of a block in the file, and its bytes. `m` is dmin's; the scales of q2_k to q6_k are at
 * `scales`, `low` and `high` are the codes' two planes. */
struct super_fields {
	uint8_t d, m, scales, low, high;
};

ALWAYS_INLINE struct super_fields super_fields(enum pack_kind kind)
{
	switch (kind) {
	case PACK_Q2_K:
		return (struct super_fields){.d = 80, .m = 82, .scales = 0, .low = 16};
	case PACK_Q3_K:
		return (struct super_fields){.d = 108, .scales = 96, .low = 32, .high = 0};
	case PACK_Q4_K:
		return (struct super_fields){.d = 0, .m = 2, .scales = 4, .low = 16};
	case PACK_Q5_K:
		return (struct super_fields){.d = 0, .m = 2, .scales = 4, .low = 48, .high = 16};
	case PACK_Q6_K:
		return (struct super_fields){.d = 208, .scales = 192, .low = 0, .high = 128};
	default:
		return (struct super_fields){0};
	}
}

/* q4_k's and q5_k's 12 bytes: the low 6 bits of the first four are sc of groups 0..3, of the next four m of groups
 * 0..3; the last four have the low halves of sc (low nibble) and m (high nibble) of groups 4..7, whose upper two bits
 * fill up the first eight. All sc [8], then all m, four bytes at a time. */
ALWAYS_INLINE void unsqueeze_k4(const uint8_t *from, uint8_t out[16])
{
	uint32_t in[3], fours[4];

	memcpy(in, from, sizeof in);
	fours[0] = in[0] & 0x3f3f3f3f;
	fours[1] = (in[2] & 0x0f0f0f0f) | (in[0] >> 2 & 0x30303030);
	fours[2] = in[1] & 0x3f3f3f3f;
	fours[3] = (in[2] >> 4 & 0x0f0f0f0f) | (in[1] >> 2 & 0x30303030);
	memcpy(out, fours, sizeof fours);
}

/* q3_k's 12 bytes: the low 4 bits of 16 numbers folded over 8 bytes, then the high 2 bits folded over 4; 32 is taken
 * off, in every byte for itself: bit 7 is lent to it, so that nothing is borrowed from the next one. */
ALWAYS_INLINE void unsqueeze_k3(const uint8_t *from, uint8_t out[16])
{
	uint32_t in[3], fours[4];

	memcpy(in, from, sizeof in);
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t low = in[i % 2] >> i / 2 * 4 & 0x0f0f0f0f, high = in[2] >> i * 2 & 0x03030303;
		fours[i] = ((low | high << 4 | 0x80808080) - 0x20202020) ^ 0x80808080;
	}
	memcpy(out, fours, sizeof fours);
}

/* The 16 bytes of scales that each row of a super-block has, in the order in which they follow each other. */
ALWAYS_INLINE void super_row_scales(enum pack_kind kind, const uint8_t *from, uint8_t out[16])
{
	switch (kind) {
	case PACK_Q4_K:
	case PACK_Q5_K:
		unsqueeze_k4(from, out);
		break;
	case PACK_Q3_K:
		unsqueeze_k3(from, out);
		break;
	default:
		memcpy(out, from, 16);
		break;
	}
}

/* Scales of one row of a super-block. */
ALWAYS_INLINE void super_put_scales(enum pack_kind kind, uint8_t *block, uint32_t row, const uint8_t *source)
{
	const struct super_fields at = super_fields(kind);
	uint8_t scales[16];

	memcpy(block + 2 * (size_t)row, source + at.d, 2);
	if (layout_of(kind).minimum)
		memcpy(block + LAYOUT_HALVES_BYTES + 2 * (size_t)row, source + at.m, 2);
	super_row_scales(kind, source + at.scales, scales);
	for (uint32_t i = 0; i < 16; i++)
		block[2 * LAYOUT_HALVES_BYTES + i * PACK_ROWS + row] = scales[i];
}

#endif
