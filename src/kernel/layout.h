/* Where the parts of packed groups lie: the tables of pack.h as arithmetic. Inlined with a constant kind, nothing but
 * constants is left of it. Every level finds codes and scales by these functions alone. */
#ifndef WEIGHTD_KERNEL_LAYOUT_H
#define WEIGHTD_KERNEL_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/kernel/inline.h"
#include "src/kernel/pack.h"

enum {
	LAYOUT_PLANE_BYTES = 4 * PACK_ROWS,  /* of a group, for each bit of a plane */
	LAYOUT_HALVES_BYTES = 2 * PACK_ROWS, /* of one float16 a row */
	LAYOUT_HEAD_BYTES = 320,	     /* of a super-block's scales: 2 float16 and 16 bytes a row */
	LAYOUT_SUPER_GROUPS = PACK_SUPER_BLOCK / PACK_GROUP,
};

struct layout {
	bool super;	      /* whether groups lie in super-blocks, behind their scales */
	uint16_t group_bytes; /* with the group's own scales where there is no super-block */
	uint8_t low_bits;     /* of a code's first plane; 0 for kinds without planes */
	uint8_t high_bits;    /* of the second; 0 for kinds without */
	uint8_t span;	      /* columns that share a scale; 0 for kinds without scales */
	bool minimum;	      /* something is added to the scaled code */
};

ALWAYS_INLINE struct layout layout_of(enum pack_kind kind)
{
	switch (kind) {
	case PACK_F32:
		return (struct layout){.group_bytes = 2048};
	case PACK_F16:
	case PACK_BF16:
		return (struct layout){.group_bytes = 1024};
	case PACK_Q8_0:
		return (struct layout){.group_bytes = 544, .span = 32};
	case PACK_Q4_0:
	case PACK_IQ4_NL:
		return (struct layout){.group_bytes = 288, .low_bits = 4, .span = 32};
	case PACK_Q4_1:
		return (struct layout){.group_bytes = 320, .low_bits = 4, .span = 32, .minimum = true};
	case PACK_Q5_0:
		return (struct layout){.group_bytes = 352, .low_bits = 4, .high_bits = 1, .span = 32};
	case PACK_Q5_1:
		return (struct layout){.group_bytes = 384, .low_bits = 4, .high_bits = 1, .span = 32, .minimum = true};
	case PACK_Q2_K:
		return (struct layout){.super = true, .group_bytes = 128, .low_bits = 2, .span = 16, .minimum = true};
	case PACK_Q3_K:
		return (struct layout){.super = true, .group_bytes = 192, .low_bits = 2, .high_bits = 1, .span = 16};
	case PACK_Q4_K:
		return (struct layout){.super = true, .group_bytes = 256, .low_bits = 4, .span = 32, .minimum = true};
	case PACK_Q5_K:
		return (struct layout){
			.super = true, .group_bytes = 320, .low_bits = 4, .high_bits = 1, .span = 32, .minimum = true};
	case PACK_Q6_K:
		return (struct layout){.super = true, .group_bytes = 384, .low_bits = 4, .high_bits = 2, .span = 16};
	case PACK_N_KINDS:
		break;
	}
	return (struct layout){0};
}

/* Where column `k` of a group lies among bytes in the order of pack.h: quad by quad. */
ALWAYS_INLINE uint32_t layout_byte_at(uint32_t k)
{
	return k / 8 * 8 + k % 4 * 2 + k / 4 % 2;
}

/* The column whose byte lies at `at`. */
ALWAYS_INLINE uint32_t layout_byte_column(uint32_t at)
{
	return at / 8 * 8 + at % 8 / 2 + at % 2 * 4;
}

/* One group of a block row. */
struct group {
	const uint8_t *codes;
	const uint8_t *scales; /* the first float16, of d */
	uint32_t in_block;     /* which of its super-block's groups it is; 0 for kinds without */
};

ALWAYS_INLINE size_t layout_block_bytes(enum pack_kind kind)
{
	const struct layout l = layout_of(kind);
	return l.super ? LAYOUT_HEAD_BYTES + LAYOUT_SUPER_GROUPS * (size_t)l.group_bytes : l.group_bytes;
}

ALWAYS_INLINE size_t layout_block_row_bytes(enum pack_kind kind, uint32_t cols)
{
	return cols / (layout_of(kind).super ? PACK_SUPER_BLOCK : PACK_GROUP) * layout_block_bytes(kind);
}

/* Bytes of a group's codes, which are followed by its scales where there is no super-block. */
ALWAYS_INLINE size_t layout_code_bytes(enum pack_kind kind)
{
	const struct layout l = layout_of(kind);
	return l.low_bits ? (size_t)(l.low_bits + l.high_bits) * LAYOUT_PLANE_BYTES : PACK_ROWS * PACK_GROUP;
}

ALWAYS_INLINE struct group layout_group(enum pack_kind kind, const uint8_t *block_row, uint32_t g)
{
	const struct layout l = layout_of(kind);
	const uint8_t *block = block_row;
	uint32_t in_block = g % LAYOUT_SUPER_GROUPS;

	if (!l.super) {
		block += g * (size_t)l.group_bytes;
		return (struct group){block, block + layout_code_bytes(kind), 0};
	}
	block += g / LAYOUT_SUPER_GROUPS * layout_block_bytes(kind);
	return (struct group){block + LAYOUT_HEAD_BYTES + in_block * (size_t)l.group_bytes, block, in_block};
}

/* Asks for the g-th part of a block row of which every group has one, its size a group's: it is to be in L2 when the
 * block row's turn comes. A plain walk leaves that to the hardware, which stops at every 4 KiB. */
ALWAYS_INLINE void layout_prefetch(enum pack_kind kind, const uint8_t *block_row, uint32_t g)
{
	const int bytes = (int)layout_block_bytes(kind) / (layout_of(kind).super ? LAYOUT_SUPER_GROUPS : 1);

	UNROLL
	for (int at = 0; at < bytes; at += 64)
		__builtin_prefetch(block_row + g * (size_t)bytes + at, 0, 2);
}

/* The second float16 a row: dmin, or the minimum itself. */
ALWAYS_INLINE const uint8_t *layout_second_halves(const struct group *group)
{
	return group->scales + LAYOUT_HALVES_BYTES;
}

/* The integers sc [16] of span `span` (0, 1) of a group in a super-block. */
ALWAYS_INLINE const uint8_t *layout_span_scales(enum pack_kind kind, const struct group *group, uint32_t span)
{
	const uint32_t n_spans = PACK_GROUP / layout_of(kind).span;
	return group->scales + 2 * LAYOUT_HALVES_BYTES + PACK_ROWS * (size_t)(group->in_block * n_spans + span);
}

/* Its integers m [16]; for q2_k in the high halves of bytes that it shares with sc. */
ALWAYS_INLINE const uint8_t *layout_span_minima(enum pack_kind kind, const struct group *group, uint32_t span)
{
	return layout_span_scales(kind, group, span) + (kind == PACK_Q2_K ? 0 : PACK_ROWS * LAYOUT_SUPER_GROUPS);
}

#endif
