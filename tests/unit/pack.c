/* Packing: what expand_row reads back is what the GGUF block says, computed here straight from the block. */
#include "src/kernel/pack.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/kernel/kernel.h"
#include "tests/unit/suite.h"

static uint64_t seed = 0x9e3779b97f4a7c15;

static uint32_t next_random(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33);
}

/* IEEE 754 binary16 by its formula. */
static float half_value(const uint8_t *at)
{
	unsigned bits = at[0] | at[1] << 8;
	unsigned exponent = bits >> 10 & 31, fraction = bits & 1023;
	float magnitude = exponent == 0	  ? ldexpf((float)fraction, -24)
			  : exponent < 31 ? ldexpf((float)(1024 + fraction), (int)exponent - 25)
			  : fraction	  ? NAN
					  : INFINITY;
	return bits & 0x8000 ? -magnitude : magnitude;
}

/* Element `i` (0..31) of a block in the file. (GGUF: ggml's block_q4_0, block_q4_1, block_q8_0) */
static float source_value(enum pack_kind kind, const uint8_t *block, unsigned i)
{
	uint32_t bits = 0;
	float value;

	switch (kind) {
	case PACK_F32:
		memcpy(&value, block + 4 * i, 4);
		return value;
	case PACK_F16:
		return half_value(block + 2 * i);
	case PACK_BF16:
		bits = (uint32_t)block[2 * i] << 16 | (uint32_t)block[2 * i + 1] << 24;
		memcpy(&value, &bits, 4);
		return value;
	case PACK_Q8_0:
		return half_value(block) * (float)(int8_t)block[2 + i];
	case PACK_Q4_0:
		return half_value(block) * (float)((i < 16 ? block[2 + i] & 15 : block[2 + i - 16] >> 4) - 8);
	case PACK_Q4_1:
		return half_value(block) * (float)(i < 16 ? block[4 + i] & 15 : block[4 + i - 16] >> 4) +
		       half_value(block + 2);
	case PACK_N_KINDS:
		break;
	}
	return NAN;
}

static int same(float a, float b)
{
	return a == b || (isnan(a) && isnan(b));
}

/* Packs random bytes (every scale, infinities and NaN among them) and reads all rows back. */
static void check_round_trip(enum pack_kind kind, uint32_t rows, uint32_t cols, size_t misalign)
{
	size_t row_bytes = pack_source_row_bytes(kind, cols);
	size_t block_row_bytes = pack_block_row_bytes(kind, cols);
	size_t bytes = pack_matrix_bytes(kind, rows, cols);
	uint8_t *memory = malloc(rows * row_bytes + misalign), *source = memory + misalign;
	uint8_t *packed = aligned_alloc(64, (bytes + 64 + 63) / 64 * 64);
	float *out = malloc(cols * sizeof *out);
	struct matrix w = {packed, kind, rows, cols};

	for (size_t i = 0; i < rows * row_bytes; i++)
		source[i] = (uint8_t)next_random();
	memset(packed, 0xa5, bytes + 64);
	for (uint32_t row = 0; row < rows; row += PACK_ROWS)
		pack_block_row(kind, packed + row / PACK_ROWS * block_row_bytes, source + row * row_bytes,
			       rows - row < PACK_ROWS ? rows - row : PACK_ROWS, cols);
	for (size_t i = 0; i < 64; i++)
		ck_assert_uint_eq(packed[bytes + i], 0xa5);
	for (uint32_t row = 0; row < (rows + 15) / 16 * 16; row++) {
		kernels_get(CPU_LEVEL_REF, NUMERICS_F32)->expand_row(&w, row, out);
		for (uint32_t k = 0; k < cols; k++) {
			size_t block_bytes = pack_source_row_bytes(kind, PACK_GROUP);
			const uint8_t *block = source + row * row_bytes + k / PACK_GROUP * block_bytes;
			float expected = row < rows ? source_value(kind, block, k % PACK_GROUP) : 0.0f;
			ck_assert_msg(same(out[k], expected), "%s row %u column %u: %a, expected %a",
				      pack_kind_name(kind), row, k, (double)out[k], (double)expected);
		}
	}
	free(memory);
	free(packed);
	free(out);
}

START_TEST(a_packed_row_reads_back_as_the_file_says)
{
	enum pack_kind kind = (enum pack_kind)_i;
	check_round_trip(kind, 16, 32, 0);
	check_round_trip(kind, 1, 32, 1);
	check_round_trip(kind, 15, 96, 3);
	check_round_trip(kind, 17, 64, 2);
	check_round_trip(kind, 49, 576, 7);
}
END_TEST

START_TEST(a_packed_matrix_is_no_larger_than_its_file_form)
{
	enum pack_kind kind = (enum pack_kind)_i;
	ck_assert_uint_eq(pack_matrix_bytes(kind, 48, 576), 48 * pack_source_row_bytes(kind, 576));
	ck_assert_uint_eq(pack_matrix_bytes(kind, 33, 576), 48 * pack_source_row_bytes(kind, 576));
	ck_assert_uint_eq(pack_block_row_bytes(kind, 576), 18 * pack_group_bytes(kind));
}
END_TEST

START_TEST(sizes_that_do_not_fit_are_zero)
{
	ck_assert_uint_eq(pack_matrix_bytes(PACK_F32, UINT64_MAX, 32), 0);
	ck_assert_uint_eq(pack_matrix_bytes(PACK_F32, 16, UINT64_MAX - 31), 0);
	ck_assert_uint_eq(pack_matrix_bytes(PACK_Q4_0, (uint64_t)1 << 32, (uint64_t)1 << 32), 0);
	ck_assert_uint_eq(pack_matrix_bytes(PACK_N_KINDS, 16, 32), 0);
	ck_assert_uint_eq(pack_matrix_bytes(PACK_Q4_0, (uint64_t)1 << 31, (uint64_t)1 << 31), (uint64_t)9 << 58);
}
END_TEST

START_TEST(kinds_have_names)
{
	ck_assert_str_eq(pack_kind_name(PACK_Q4_1), "q4_1");
	ck_assert_str_eq(pack_kind_name(PACK_BF16), "bf16");
	ck_assert_str_eq(pack_kind_name(PACK_N_KINDS), "?");
	ck_assert_str_eq(pack_kind_name((enum pack_kind) - 1), "?");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pack");
	TCase *tests = tcase_create("pack");

	tcase_add_loop_test(tests, a_packed_row_reads_back_as_the_file_says, 0, PACK_N_KINDS);
	tcase_add_loop_test(tests, a_packed_matrix_is_no_larger_than_its_file_form, 0, PACK_N_KINDS);
	tcase_add_test(tests, sizes_that_do_not_fit_are_zero);
	tcase_add_test(tests, kinds_have_names);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
