/* Packing: a transposition of 16 rows x a block's columns at a time, from the file's row-by-row form to the one in
 * pack.h. A code is moved, never changed, so that unpacking gives back what the file says to the last bit. */
#include "src/kernel/pack.h"

#include <string.h>

#include "src/kernel/pack_plane.h"
#include "src/kernel/pack_super.h"

static const struct {
	const char *name;
	uint16_t block_cols; /* of a block in the file */
	uint16_t block_bytes;
} kinds[PACK_N_KINDS] = {
	[PACK_F32] = {"f32", 32, 128},	  [PACK_F16] = {"f16", 32, 64},	      [PACK_BF16] = {"bf16", 32, 64},
	[PACK_Q8_0] = {"q8_0", 32, 34},	  [PACK_Q4_0] = {"q4_0", 32, 18},     [PACK_Q4_1] = {"q4_1", 32, 20},
	[PACK_Q5_0] = {"q5_0", 32, 22},	  [PACK_Q5_1] = {"q5_1", 32, 24},     [PACK_Q2_K] = {"q2_k", 256, 84},
	[PACK_Q3_K] = {"q3_k", 256, 110}, [PACK_Q4_K] = {"q4_k", 256, 144},   [PACK_Q5_K] = {"q5_k", 256, 176},
	[PACK_Q6_K] = {"q6_k", 256, 210}, [PACK_IQ4_NL] = {"iq4_nl", 32, 18},
};

const char *pack_kind_name(enum pack_kind kind)
{
	return (unsigned)kind < PACK_N_KINDS ? kinds[kind].name : "?";
}

uint32_t pack_block_cols(enum pack_kind kind)
{
	return (unsigned)kind < PACK_N_KINDS ? kinds[kind].block_cols : PACK_GROUP;
}

size_t pack_block_row_bytes(enum pack_kind kind, uint32_t cols)
{
	return layout_block_row_bytes(kind, cols);
}

size_t pack_source_row_bytes(enum pack_kind kind, uint32_t cols)
{
	return (unsigned)kind < PACK_N_KINDS ? cols / kinds[kind].block_cols * (size_t)kinds[kind].block_bytes : 0;
}

uint64_t pack_matrix_bytes(enum pack_kind kind, uint64_t rows, uint64_t cols)
{
	uint64_t block_rows = rows / PACK_ROWS + (rows % PACK_ROWS != 0);
	uint64_t bytes;

	if (__builtin_mul_overflow(cols / pack_block_cols(kind), (uint64_t)layout_block_bytes(kind), &bytes) ||
	    __builtin_mul_overflow(bytes, block_rows, &bytes) || bytes > INT64_MAX)
		return 0;
	return bytes;
}

/* Moves runs of bytes: [n_rows][n_runs] in the file -> [n_runs][16 rows]. A run is what of a row stays together: a
 * float32, a pair of 16-bit columns, a scale. Inlined so that a run is one load and one store. */
__attribute__((always_inline)) static inline void pack_elements(uint8_t *group, const uint8_t *source, size_t row_bytes,
								uint32_t n_rows, size_t run_bytes, size_t n_runs)
{
	for (uint32_t row = 0; row < n_rows; row++)
		for (size_t run = 0; run < n_runs; run++)
			memcpy(group + (run * PACK_ROWS + row) * run_bytes, source + row * row_bytes + run * run_bytes,
			       run_bytes);
}

/* Four bytes to every other byte of eight. */
ALWAYS_INLINE uint64_t spread_bytes(uint32_t four)
{
	uint64_t x = (four | (uint64_t)four << 16) & 0x0000ffff0000ffff;
	return (x | x << 8) & 0x00ff00ff00ff00ff;
}

/* Rows of 32 bytes to the order in which bytes are multiplied. */
static void pack_bytes(uint8_t *group, const uint8_t *source, size_t row_bytes, uint32_t n_rows)
{
	for (uint32_t octet = 0; octet < PACK_GROUP / 8; octet++)
		for (uint32_t row = 0; row < n_rows; row++) {
			uint32_t halves[2];
			uint64_t ordered;

			memcpy(halves, source + row * row_bytes + 8 * octet, sizeof halves);
			ordered = spread_bytes(halves[0]) | spread_bytes(halves[1]) << 8;
			for (uint32_t quad = 0; quad < 2; quad++, ordered >>= 32) {
				uint32_t four = (uint32_t)ordered;
				memcpy(group + 4 * (size_t)((2 * octet + quad) * PACK_ROWS + row), &four, sizeof four);
			}
		}
}

/* A row's 32 codes of a kind with planes whose blocks are groups. Its nibbles are 16 bytes, columns 0..15 in the low
 * halves, 16..31 in the high halves; a fifth bit of column k is bit k of the four bytes before them. */
ALWAYS_INLINE void pack_code_row(enum pack_kind kind, uint8_t *group, uint32_t row, const uint8_t *source)
{
	const struct layout l = layout_of(kind);
	struct codes codes = {{0}};

	source += l.minimum ? 4 : 2; /* behind the scales */
	if (l.high_bits) {
		for (uint32_t k = 0; k < PACK_GROUP; k++)
			codes.at[k] = (uint8_t)((source[k / 8] >> k % 8 & 1) << 4);
		source += 4;
	}
	codes_add(&codes, 0, 16, source, 0, 4, 0);
	codes_add(&codes, 16, 16, source, 4, 4, 0);
	planes_put(kind, group, row, &codes);
}

ALWAYS_INLINE void pack_codes(enum pack_kind kind, uint8_t *group, const uint8_t *source, size_t row_bytes,
			      uint32_t n_rows)
{
	uint8_t *scales = group + layout_code_bytes(kind);

	for (uint32_t row = 0; row < n_rows; row++)
		pack_code_row(kind, group, row, source + row * row_bytes);
	pack_elements(scales, source, row_bytes, n_rows, 2, 1);
	if (layout_of(kind).minimum)
		pack_elements(scales + LAYOUT_HALVES_BYTES, source + 2, row_bytes, n_rows, 2, 1);
}

/* One block of the file, of each row: a group or a super-block. */
static void pack_block(enum pack_kind kind, uint8_t *block, const uint8_t *source, size_t row_bytes, uint32_t n_rows)
{
	switch (kind) {
	case PACK_F32:
		pack_elements(block, source, row_bytes, n_rows, 4, PACK_GROUP);
		break;
	case PACK_F16:
	case PACK_BF16:
		pack_elements(block, source, row_bytes, n_rows, 4, PACK_GROUP / 2);
		break;
	case PACK_Q8_0: /* a float16 scale starts a block in the file and ends a group here */
		pack_bytes(block, source + 2, row_bytes, n_rows);
		pack_elements(block + layout_code_bytes(PACK_Q8_0), source, row_bytes, n_rows, 2, 1);
		break;
	case PACK_Q4_0:
	case PACK_IQ4_NL: /* the same codes, with another meaning */
		pack_codes(PACK_Q4_0, block, source, row_bytes, n_rows);
		break;
	case PACK_Q4_1:
		pack_codes(PACK_Q4_1, block, source, row_bytes, n_rows);
		break;
	case PACK_Q5_0:
		pack_codes(PACK_Q5_0, block, source, row_bytes, n_rows);
		break;
	case PACK_Q5_1:
		pack_codes(PACK_Q5_1, block, source, row_bytes, n_rows);
		break;
	case PACK_Q2_K:
	case PACK_Q3_K:
	case PACK_Q4_K:
	case PACK_Q5_K:
	case PACK_Q6_K:
		pack_super_block(kind, block, source, row_bytes, n_rows);
		break;
	case PACK_N_KINDS:
		break;
	}
}

void pack_block_row(enum pack_kind kind, void *block_row, const void *source, uint32_t n_rows, uint32_t cols)
{
	size_t row_bytes = pack_source_row_bytes(kind, cols);
	uint32_t n_blocks = cols / pack_block_cols(kind);
	uint8_t *block = block_row;
	const uint8_t *from = source;

	if (n_rows < PACK_ROWS)
		memset(block_row, 0, pack_block_row_bytes(kind, cols));
	for (uint32_t i = 0; i < n_blocks; i++) {
		pack_block(kind, block, from, row_bytes, n_rows);
		block += layout_block_bytes(kind);
		from += kinds[kind].block_bytes;
	}
}
