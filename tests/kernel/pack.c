/* Packing: every level's bytes are the definition's, and nothing beside them is written. */
#include <string.h>

#include "tests/kernel/kernel_test.h"

static void test_rows(const struct subject *subject, enum pack_kind kind, uint32_t n_rows, uint32_t cols,
		      size_t misalign)
{
	size_t source_bytes = n_rows * pack_source_row_bytes(kind, cols), bytes = pack_block_row_bytes(kind, cols);
	uint8_t *memory = guarded_new(source_bytes + misalign), *source = memory + misalign;
	uint8_t *packed = guarded_new(bytes), *expected = guarded_new(bytes);

	for (size_t i = 0; i < source_bytes; i++)
		source[i] = (uint8_t)random_bits();
	memset(packed, 0x5a, bytes);
	memset(expected, 0xa5, bytes);
	subject->kernels->pack_block_row(kind, packed, source, n_rows, cols);
	pack_block_row(kind, expected, source, n_rows, cols);
	expect(memcmp(packed, expected, bytes) == 0, "pack_block_row %s %ux%u differs from the definition",
	       pack_kind_name(kind), n_rows, cols);
	expect(guarded_intact(packed, bytes), "pack_block_row %s %ux%u wrote beside the block row",
	       pack_kind_name(kind), n_rows, cols);
	guarded_free(memory);
	guarded_free(packed);
	guarded_free(expected);
}

void test_pack(const struct subject *subject)
{
	for (int k = 0; k < PACK_N_KINDS; k++) {
		enum pack_kind kind = (enum pack_kind)k;
		uint32_t unit = pack_block_cols(kind);
		for (uint32_t n_rows = 1; n_rows <= PACK_ROWS; n_rows++)
			test_rows(subject, kind, n_rows, 3 * unit, n_rows % 5);
		for (size_t misalign = 0; misalign < 8; misalign++)
			test_rows(subject, kind, PACK_ROWS, (uint32_t)(1 + misalign) * unit, misalign);
	}
}
