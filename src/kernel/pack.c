/* Packing: a transposition of 16 rows x 32 columns at a time, from the file's row-by-row form to the one in pack.h.
 * A code is moved, never changed, so that unpacking gives back what the file says to the last bit. */
#include "src/kernel/pack.h"

#include <string.h>

static const struct {
	const char *name;
	size_t source_group_bytes; /* one row's 32 columns in the file */
} kinds[PACK_N_KINDS] = {
	[PACK_F32] = {"f32", 128},  [PACK_F16] = {"f16", 64},	[PACK_BF16] = {"bf16", 64},
	[PACK_Q8_0] = {"q8_0", 34}, [PACK_Q4_0] = {"q4_0", 18}, [PACK_Q4_1] = {"q4_1", 20},
};

static size_t source_group_bytes(enum pack_kind kind)
{
	return (unsigned)kind < PACK_N_KINDS ? kinds[kind].source_group_bytes : 0;
}

const char *pack_kind_name(enum pack_kind kind)
{
	return (unsigned)kind < PACK_N_KINDS ? kinds[kind].name : "?";
}

size_t pack_group_bytes(enum pack_kind kind)
{
	return PACK_ROWS * source_group_bytes(kind);
}

size_t pack_block_row_bytes(enum pack_kind kind, uint32_t cols)
{
	return cols / PACK_GROUP * pack_group_bytes(kind);
}

size_t pack_source_row_bytes(enum pack_kind kind, uint32_t cols)
{
	return cols / PACK_GROUP * source_group_bytes(kind);
}

uint64_t pack_matrix_bytes(enum pack_kind kind, uint64_t rows, uint64_t cols)
{
	uint64_t block_rows = rows / PACK_ROWS + (rows % PACK_ROWS != 0);
	uint64_t bytes;

	if (__builtin_mul_overflow(cols / PACK_GROUP, (uint64_t)pack_group_bytes(kind), &bytes) ||
	    __builtin_mul_overflow(bytes, block_rows, &bytes) || bytes > INT64_MAX)
		return 0;
	return bytes;
}

/* Moves runs of bytes: [n_rows][n_runs] in the file -> [n_runs][16 rows]. A run is what of a row stays together: a
 * float32, a pair of 16-bit columns, four int8 columns, a scale. Inlined so that a run is one load and one store. */
__attribute__((always_inline)) static inline void pack_elements(uint8_t *group, const uint8_t *source, size_t row_bytes,
								uint32_t n_rows, size_t run_bytes, size_t n_runs)
{
	for (uint32_t row = 0; row < n_rows; row++)
		for (size_t run = 0; run < n_runs; run++)
			memcpy(group + (run * PACK_ROWS + row) * run_bytes, source + row * row_bytes + run * run_bytes,
			       run_bytes);
}

/* Eight codes, one in the low half of each byte (the first in the lowest), to the word of pack.h: the even ones to the
 * nibbles of its lower 16 bits, the odd ones to those of its upper 16. */
static uint32_t nibbles_to_word(uint64_t codes)
{
	uint64_t even = codes & 0x000f000f000f000f;
	uint64_t odd = codes >> 8 & 0x000f000f000f000f;

	even = (even | even >> 12 | even >> 24 | even >> 36) & 0xffff;
	odd = (odd | odd >> 12 | odd >> 24 | odd >> 36) & 0xffff;
	return (uint32_t)(even | odd << 16);
}

/* `codes` are a file block's 16 bytes: columns 0..15 in the low halves, 16..31 in the high halves. */
static void pack_nibbles(uint8_t *group, uint32_t row, const uint8_t *codes)
{
	for (uint32_t half = 0; half < 2; half++) {
		uint64_t eight;
		uint32_t low, high;

		memcpy(&eight, codes + 8 * half, sizeof eight);
		low = nibbles_to_word(eight);
		high = nibbles_to_word(eight >> 4);
		memcpy(group + 4 * (size_t)(half * PACK_ROWS + row), &low, sizeof low);
		memcpy(group + 4 * (size_t)((2 + half) * PACK_ROWS + row), &high, sizeof high);
	}
}

static void pack_group(enum pack_kind kind, uint8_t *group, const uint8_t *source, size_t row_bytes, uint32_t n_rows)
{
	enum { HALF = 2 }; /* bytes of a float16 scale, which starts a block in the file and ends a group here */

	switch (kind) {
	case PACK_F32:
		pack_elements(group, source, row_bytes, n_rows, 4, PACK_GROUP);
		break;
	case PACK_F16:
	case PACK_BF16:
		pack_elements(group, source, row_bytes, n_rows, 4, PACK_GROUP / 2);
		break;
	case PACK_Q8_0:
		pack_elements(group, source + HALF, row_bytes, n_rows, 4, PACK_GROUP / 4);
		pack_elements(group + 512, source, row_bytes, n_rows, HALF, 1);
		break;
	case PACK_Q4_0:
		for (uint32_t row = 0; row < n_rows; row++)
			pack_nibbles(group, row, source + row * row_bytes + HALF);
		pack_elements(group + 256, source, row_bytes, n_rows, HALF, 1);
		break;
	case PACK_Q4_1:
		for (uint32_t row = 0; row < n_rows; row++)
			pack_nibbles(group, row, source + row * row_bytes + 2 * HALF);
		pack_elements(group + 256, source, row_bytes, n_rows, HALF, 1);
		pack_elements(group + 288, source + HALF, row_bytes, n_rows, HALF, 1);
		break;
	case PACK_N_KINDS:
		break;
	}
}

void pack_block_row(enum pack_kind kind, void *block_row, const void *source, uint32_t n_rows, uint32_t cols)
{
	size_t group_bytes = pack_group_bytes(kind);
	size_t row_bytes = pack_source_row_bytes(kind, cols);
	uint8_t *group = block_row;
	const uint8_t *from = source;

	if (n_rows < PACK_ROWS)
		memset(block_row, 0, pack_block_row_bytes(kind, cols));
	for (uint32_t g = 0; g < cols / PACK_GROUP; g++) {
		pack_group(kind, group, from, row_bytes, n_rows);
		group += group_bytes;
		from += source_group_bytes(kind);
	}
}
