/* Packed matrices: how weights lie in a segment, and how rows from a model file get there.
 *
 * A packed matrix is [rows][cols], row-major in the file's sense (y = W x, one output per row). Rows are taken 16 at a
 * time (a *block row*: one AVX-512 register of float32 outputs), columns 32 at a time (a *group*: what GGUF's
 * 32-element blocks scale together). The last block row is padded with zero rows. A block row's groups follow each
 * other; within a group the codes of 16 rows x 32 columns come first and the scales after them, so a kernel reads one
 * straight line.
 *
 *   kind    bytes per group of 16 x 32            file bytes   codes, then scales
 *   f32     2048                                  2048         [32 k][16 rows] float32
 *   f16     1024                                  1024         [16 k-pairs][16 rows][2] float16
 *   bf16    1024                                  1024         [16 k-pairs][16 rows][2] bfloat16
 *   q8_0    512 + 32  (d float16 [16])            544          [4 octets][2][16 rows][4] int8, see below
 *   q4_0    256 + 32  (d)                         288          plane of 4 bits
 *   q4_1    256 + 64  (d, then m, float16 [16])   320          plane of 4 bits
 *   q5_0    320 + 32  (d)                         352          planes of 4 bits and 1 bit
 *   q5_1    320 + 64  (d, then m)                 384          planes of 4 bits and 1 bit
 *   iq4_nl  256 + 32  (d)                         288          plane of 4 bits: indices of a fixed table
 *
 * The k-quants scale in two steps: 256 columns (8 groups, a *super-block*) have one float16 d and for some kinds one
 * dmin, and each *span* of 32 or 16 columns has integers sc and m: weight = (d sc) code - (dmin m). Such a super-block
 * starts with its scales, d and dmin first ([16 rows] float16 each; zeros where there is no dmin), then one byte a row
 * and span; the codes of its groups follow. `cols` is a multiple of 256.
 *
 *   kind    scales             codes       bytes   file    spans; what their bytes are
 *   q2_k    64 + [16][16]      8 x 128     1344    1344    16 columns; sc in the low half, m in the high half
 *   q3_k    64 + [16][16]      8 x 192     1856    1760    16 columns; int8 sc, -32..31
 *   q4_k    64 + 2 x [8][16]   8 x 256     2368    2304    32 columns; all sc, then all m, 0..63
 *   q5_k    64 + 2 x [8][16]   8 x 320     2880    2816    as q4_k
 *   q6_k    64 + [16][16]      8 x 384     3392    3360    16 columns; int8 sc
 *
 * A plane of b bits (4, 2 or 1) has, for each group, b 32-bit words a row: [b][16 rows] uint32. Field f of a word's
 * lower half (bits b f .. b f + b - 1) is column 32 / b j + 2 f of word j, the same field of its upper half the column
 * after it. A shift and a table look-up of every 16-bit lane then give 16 rows x 2 neighbouring columns in bfloat16,
 * which is what vdpbf16ps multiplies. Where a code has two planes, the first has its low bits.
 *
 * Instructions on bytes multiply four columns at once, and a mask takes every other code out of a plane of 4 bits:
 * columns 0 4 1 5 of eight, or with a shift before it 2 6 3 7. So that is the order of bytes wherever they are
 * multiplied, and in which q8_0 stores them.
 *
 * Decoding is bound by the bytes read, so nothing is stored larger than its file form, but for the k-quants' scales,
 * whose bytes are not squeezed and lines not split: at most 5.5% more. */
#ifndef WEIGHTD_KERNEL_PACK_H
#define WEIGHTD_KERNEL_PACK_H

#include <stddef.h>
#include <stdint.h>

enum { PACK_ROWS = 16, PACK_GROUP = 32, PACK_SUPER_BLOCK = 256 };

enum pack_kind { /* written to segments: never renumber */
		 PACK_F32 = 0,
		 PACK_F16 = 1,
		 PACK_BF16 = 2,
		 PACK_Q8_0 = 3,
		 PACK_Q4_0 = 4,
		 PACK_Q4_1 = 5,
		 PACK_Q5_0 = 6,
		 PACK_Q5_1 = 7,
		 PACK_Q2_K = 8,
		 PACK_Q3_K = 9,
		 PACK_Q4_K = 10,
		 PACK_Q5_K = 11,
		 PACK_Q6_K = 12,
		 PACK_IQ4_NL = 13,
		 PACK_N_KINDS = 14,
};

/* X(kind) for each: how a kernel's dispatch names every kind as a constant. */
#define PACK_EACH_KIND(X) \
	X(PACK_F32)       \
	X(PACK_F16)       \
	X(PACK_BF16)      \
	X(PACK_Q8_0)      \
	X(PACK_Q4_0)      \
	X(PACK_Q4_1)      \
	X(PACK_Q5_0)      \
	X(PACK_Q5_1)      \
	X(PACK_Q2_K)      \
	X(PACK_Q3_K)      \
	X(PACK_Q4_K)      \
	X(PACK_Q5_K)      \
	X(PACK_Q6_K)      \
	X(PACK_IQ4_NL)

/* Whose kernels read the packing. One serves all levels of this program's kernels, the definition among them: codes are
 * little-endian words, 16 rows beside each other. Another layout for another machine gets another number. */
enum pack_isa { /* written to segments: never renumber */
		PACK_ISA_X86_64 = 1,
};

/* A packed matrix somewhere in a segment. */
struct matrix {
	const void *data; /* ceil(rows / 16) block rows, 64-byte aligned, borrowed, read-only */
	enum pack_kind kind;
	uint32_t rows;
	uint32_t cols; /* a multiple of pack_block_cols(kind) */
};

const char *pack_kind_name(enum pack_kind kind); /* "q4_0"; "?" outside the enum */

/* Columns of a block in the file, which rows are made of: 32 for every kind but the k-quants, whose blocks have 256. */
uint32_t pack_block_cols(enum pack_kind kind);

/* Bytes of one block row, of a whole matrix. `cols` a multiple of pack_block_cols. pack_matrix_bytes returns 0 where
 * the product does not fit 63 bits. */
size_t pack_block_row_bytes(enum pack_kind kind, uint32_t cols);
uint64_t pack_matrix_bytes(enum pack_kind kind, uint64_t rows, uint64_t cols);

/* Bytes of one row in the file's own (GGUF) form. */
size_t pack_source_row_bytes(enum pack_kind kind, uint32_t cols);

/* Packs `n_rows` (1..16) consecutive rows in the file's form, `source` [n_rows][pack_source_row_bytes], into one block
 * row at `block_row` (written whole; missing rows become zeros). Lossless for every kind. Any alignment. */
void pack_block_row(enum pack_kind kind, void *block_row, const void *source, uint32_t n_rows, uint32_t cols);

#endif
