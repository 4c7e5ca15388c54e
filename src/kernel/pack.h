/* Packed matrices: how weights lie in a segment, and how rows from a model file get there.
 *
 * A packed matrix is [rows][cols], row-major in the file's sense (y = W x, one output per row). Rows are taken 16 at a
 * time (a *block row*: one AVX-512 register of float32 outputs), columns 32 at a time (a *group*: what GGUF's
 * 32-element blocks scale together). The last block row is padded with zero rows. A block row's groups follow each
 * other; within a group the codes of 16 rows x 32 columns come first and the scales after them, so a kernel reads one
 * straight line.
 *
 *   kind    bytes per group of 16 x 32            file bytes   codes
 *   f32     2048                                  2048         [32 k][16 rows] float32
 *   f16     1024                                  1024         [16 k-pairs][16 rows][2] float16
 *   bf16    1024                                  1024         [16 k-pairs][16 rows][2] bfloat16
 *   q8_0    512 + 32  (d float16 [16])            544          [8 k-quads][16 rows][4] int8
 *   q4_0    256 + 32  (d float16 [16])            288          [4][16 rows] uint32, see below
 *   q4_1    256 + 64  (d, then m, float16 [16])   320          as q4_0
 *
 * In a 4-bit group the 32-bit word j (0..3) of a row holds 8 codes: bits 4h + 16e (h 0..3, e 0..1) are column
 * 8j + 2h + e. A shift by 4h and a 16-entry table look-up of every 16-bit lane then give 16 rows x 2 neighbouring
 * columns in bfloat16, which is what vdpbf16ps multiplies.
 *
 * Nothing is stored larger than its file form, because decoding is bound by the bytes read. */
#ifndef WEIGHTD_KERNEL_PACK_H
#define WEIGHTD_KERNEL_PACK_H

#include <stddef.h>
#include <stdint.h>

enum { PACK_ROWS = 16, PACK_GROUP = 32 };

enum pack_kind { /* written to segments: never renumber */
		 PACK_F32 = 0,
		 PACK_F16 = 1,
		 PACK_BF16 = 2,
		 PACK_Q8_0 = 3,
		 PACK_Q4_0 = 4,
		 PACK_Q4_1 = 5,
		 PACK_N_KINDS = 6,
};

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
	uint32_t cols; /* a multiple of PACK_GROUP */
};

const char *pack_kind_name(enum pack_kind kind); /* "q4_0"; "?" outside the enum */

/* Bytes of one group (16 rows x 32 columns), of one block row, of a whole matrix. `cols` a multiple of 32.
 * pack_matrix_bytes returns 0 where the product does not fit 63 bits. */
size_t pack_group_bytes(enum pack_kind kind);
size_t pack_block_row_bytes(enum pack_kind kind, uint32_t cols);
uint64_t pack_matrix_bytes(enum pack_kind kind, uint64_t rows, uint64_t cols);

/* Bytes of one row in the file's own (GGUF) form. */
size_t pack_source_row_bytes(enum pack_kind kind, uint32_t cols);

/* Packs `n_rows` (1..16) consecutive rows in the file's form, `source` [n_rows][pack_source_row_bytes], into one block
 * row at `block_row` (written whole; missing rows become zeros). Lossless for every kind. Any alignment. */
void pack_block_row(enum pack_kind kind, void *block_row, const void *source, uint32_t n_rows, uint32_t cols);

#endif
