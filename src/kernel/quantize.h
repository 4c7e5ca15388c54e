/* Rows of plain numbers into rows of blocks, for weights that are to be served smaller than they are stored. Run by the
 * loader, once a weight; plain C is as fast as a disk. */
#ifndef WEIGHTD_KERNEL_QUANTIZE_H
#define WEIGHTD_KERNEL_QUANTIZE_H

#include <stddef.h>

#include "src/kernel/pack.h"

/* One row of `cols` numbers (`from`: f32, f16 or bf16) into a row of `to`, both in the file's form that pack_block_row
 * takes (pack_source_row_bytes of each): bf16, q8_0 or q4_0. `cols` is a multiple of 32; any alignment.
 *
 *   bf16   rounded to nearest even
 *   q8_0   32 columns at a time: d = max |x| / 127, code = x / d rounded half away from zero
 *   q4_0   32 columns at a time: d = m / -8, where m is the first x of the largest magnitude, so that it becomes the
 *          code that has no opposite; code = x / d + 8.5 in float32, cut, at most 15
 *
 * d is then stored as float16; the codes are those of the d before that. These are the rules by which GGUF's own tools
 * make such blocks, so the same weights become the same bytes. 0; -ERANGE: a number is infinite, NaN, or so large that
 * its block has no scale. */
int quantize_row(enum pack_kind from, const void *row, enum pack_kind to, void *out, uint32_t cols);

#endif
