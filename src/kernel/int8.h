/* Products of int8 numerics: activations are rounded to 8 bits, 32 at a time, and multiplied by the codes of stored
 * weights as integers, exactly. An opt-in: twice the arithmetic of bfloat16, for some of its accuracy.
 *
 *   scale    = max |x| / 127 over a group of 32 columns
 *   code     = x / scale, rounded to the nearest integer, ties to even
 *   y[i]     = sum over spans of  (weight scale * integer sum) * scale  +  minimum * (scale * sum of codes)
 *
 * Kinds without codes (f32, f16, bf16) are multiplied in the level's own numerics instead. Prompts and answers take the
 * same path, in the same order of sums.
 *
 * Instructions that multiply bytes want one operand without sign, so codes of weights are taken as they are stored, and
 * what that adds (an offset of 8 in q4_0) times the sum of a row's codes is where an integer sum begins. */
#ifndef WEIGHTD_KERNEL_INT8_H
#define WEIGHTD_KERNEL_INT8_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/kernel/layout.h"
#include "src/kernel/pack.h"

enum { INT8_ROWS = 4, INT8_QUADS = PACK_GROUP / 4 };

/* Where sums over a group are kept: of the whole, of its first and second half. */
enum int8_part { INT8_WHOLE = 0, INT8_HALVES = 1, INT8_PARTS = 3 };

/* One group of columns of four rows of activations: a kernel for many rows then needs one pointer for four of them. */
struct int8_group {
	int8_t code[INT8_QUADS][INT8_ROWS][4]; /* in the order of pack.h: layout_byte_column(4 * quad + i) */
	float scale[INT8_ROWS];
	int32_t minus_8_sum[INT8_PARTS][INT8_ROWS]; /* -8 times the sum of codes */
	float sum[INT8_PARTS][INT8_ROWS];	    /* scale times the sum of codes */
	float unused[INT8_ROWS];
};
static_assert(sizeof(struct int8_group) == 256, "four cache lines");

/* Rows of activations: row r is row r % 4 of tile [r / 4][cols / 32]. 64-byte aligned. */
struct int8_rows {
	struct int8_group *groups;
	uint32_t n_rows, cols;
};

/* Bytes per row of activations, in whole tiles. */
static inline size_t int8_row_bytes(uint32_t cols)
{
	return cols / PACK_GROUP * sizeof(struct int8_group) / INT8_ROWS;
}

/* Whether a kind is multiplied by integers. */
static inline bool int8_takes(enum pack_kind kind)
{
	return layout_of(kind).span != 0;
}

/* What the stored codes of a kind, read without sign, are above what they mean. */
ALWAYS_INLINE int int8_offset(enum pack_kind kind)
{
	switch (kind) {
	case PACK_Q3_K:
		return 4;
	case PACK_Q4_0:
		return 8;
	case PACK_Q5_0:
		return 16;
	case PACK_Q6_K:
		return 32;
	case PACK_Q8_0:
	case PACK_IQ4_NL:
		return 128;
	default:
		return 0;
	}
}

/* A group whose largest magnitude is below this counts as zero: 127 over it would not be finite. */
#define INT8_SMALLEST 0x1p-100f

#endif
