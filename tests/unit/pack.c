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

static int nibble(const uint8_t *codes, unsigned i) /* of 16 bytes: low halves first */
{
	return i < 16 ? codes[i] & 15 : codes[i - 16] >> 4;
}

static int bit(const uint8_t *bytes, unsigned i)
{
	return bytes[i / 8] >> i % 8 & 1;
}

/* Sub-scale `j` (0..7) of q4_k and q5_k, and its minimum: 6-bit numbers in 12 bytes. */
static float k4_scale(const uint8_t *s, unsigned j)
{
	return (float)(j < 4 ? s[j] % 64 : s[j + 4] % 16 + s[j - 4] / 64 * 16);
}

static float k4_minimum(const uint8_t *s, unsigned j)
{
	return (float)(j < 4 ? s[j + 4] % 64 : s[j + 4] / 16 + s[j] / 64 * 16);
}

/* Sub-scale `j` (0..15) of q3_k: 6-bit numbers in 12 bytes, less 32. */
static float k3_scale(const uint8_t *s, unsigned j)
{
	int low = j < 8 ? s[j] % 16 : s[j - 8] / 16;
	return (float)(low + (s[8 + j % 4] >> 2 * (j / 4)) % 4 * 16 - 32);
}

/* Element `i` of a block of 256. */
static float super_value(enum pack_kind kind, const uint8_t *b, unsigned i)
{
	unsigned half = i / 128, quarter = i % 128 / 32, k = i % 32;
	int q;

	switch (kind) {
	case PACK_Q2_K:
		q = b[16 + 32 * half + k] >> 2 * quarter & 3;
		return half_value(b + 80) * (float)(b[i / 16] & 15) * (float)q -
		       half_value(b + 82) * (float)(b[i / 16] >> 4);
	case PACK_Q3_K:
		q = (b[32 + 32 * half + k] >> 2 * quarter & 3) - (b[k] >> i / 32 & 1 ? 0 : 4);
		return half_value(b + 108) * k3_scale(b + 96, i / 16) * (float)q;
	case PACK_Q4_K:
	case PACK_Q5_K:
		q = b[(kind == PACK_Q4_K ? 16 : 48) + 32 * (i / 64) + k] >> 4 * (i / 32 % 2) & 15;
		if (kind == PACK_Q5_K)
			q += 16 * (b[16 + k] >> i / 32 & 1);
		return half_value(b) * k4_scale(b + 4, i / 32) * (float)q -
		       half_value(b + 2) * k4_minimum(b + 4, i / 32);
	default: /* PACK_Q6_K */
		q = (b[64 * half + 32 * (quarter % 2) + k] >> 4 * (quarter / 2) & 15) +
		    16 * (b[128 + 32 * half + k] >> 2 * quarter & 3) - 32;
		return half_value(b + 208) * (float)(int8_t)b[192 + i / 16] * (float)q;
	}
}

/* Element `i` of a block in the file. (GGUF: ggml's block_q4_0 and so on) */
static float source_value(enum pack_kind kind, const uint8_t *block, unsigned i)
{
	static const int8_t iq4_nl[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
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
		return half_value(block) * (float)(nibble(block + 2, i) - 8);
	case PACK_Q4_1:
		return half_value(block) * (float)nibble(block + 4, i) + half_value(block + 2);
	case PACK_Q5_0:
		return half_value(block) * (float)(nibble(block + 6, i) + 16 * bit(block + 2, i) - 16);
	case PACK_Q5_1:
		return half_value(block) * (float)(nibble(block + 8, i) + 16 * bit(block + 4, i)) +
		       half_value(block + 2);
	case PACK_IQ4_NL:
		return half_value(block) * (float)iq4_nl[nibble(block + 2, i)];
	case PACK_Q2_K:
	case PACK_Q3_K:
	case PACK_Q4_K:
	case PACK_Q5_K:
	case PACK_Q6_K:
		return super_value(kind, block, i);
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
			uint32_t block_cols = pack_block_cols(kind);
			size_t block_bytes = pack_source_row_bytes(kind, block_cols);
			const uint8_t *block = source + row * row_bytes + k / block_cols * block_bytes;
			float expected = row < rows ? source_value(kind, block, k % block_cols) : 0.0f;
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
	uint32_t unit = pack_block_cols(kind);
	check_round_trip(kind, 16, unit, 0);
	check_round_trip(kind, 1, unit, 1);
	check_round_trip(kind, 15, 3 * unit, 3);
	check_round_trip(kind, 17, 2 * unit, 2);
	check_round_trip(kind, 49, 18 * unit, 7);
}
END_TEST

/* k-quants' scales are stored a byte each, so some take a little more. */
START_TEST(a_packed_matrix_is_hardly_larger_than_its_file_form)
{
	enum pack_kind kind = (enum pack_kind)_i;
	size_t source = 48 * pack_source_row_bytes(kind, 768), packed = pack_matrix_bytes(kind, 48, 768);
	if (pack_block_cols(kind) == PACK_GROUP)
		ck_assert_uint_eq(packed, source);
	ck_assert_uint_ge(packed, source);
	ck_assert_uint_le(packed * 100, source * 106);
	ck_assert_uint_eq(pack_matrix_bytes(kind, 33, 768), packed);
	ck_assert_uint_eq(3 * pack_block_row_bytes(kind, 768), packed);
	ck_assert_uint_eq(pack_block_row_bytes(kind, 768) % 32, 0);
}
END_TEST

/* Two packings of the same rows are the same bytes: a segment's digest depends on nothing else. */
START_TEST(every_byte_of_a_block_row_is_written)
{
	enum { COLS = 512, BYTES = 2048 * COLS / 32 };
	enum pack_kind kind = (enum pack_kind)_i;
	uint8_t *source = calloc(1, BYTES), *a = malloc(BYTES), *b = malloc(BYTES);
	for (uint32_t rows = 1; rows <= PACK_ROWS; rows++) {
		memset(a, 0x00, BYTES);
		memset(b, 0xff, BYTES);
		pack_block_row(kind, a, source, rows, COLS);
		pack_block_row(kind, b, source, rows, COLS);
		ck_assert_mem_eq(a, b, pack_block_row_bytes(kind, COLS));
	}
	free(source);
	free(a);
	free(b);
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
	ck_assert_str_eq(pack_kind_name(PACK_Q6_K), "q6_k");
	ck_assert_str_eq(pack_kind_name(PACK_IQ4_NL), "iq4_nl");
	ck_assert_str_eq(pack_kind_name(PACK_N_KINDS), "?");
	ck_assert_str_eq(pack_kind_name((enum pack_kind) - 1), "?");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pack");
	TCase *tests = tcase_create("pack");

	tcase_add_loop_test(tests, a_packed_row_reads_back_as_the_file_says, 0, PACK_N_KINDS);
	tcase_add_loop_test(tests, a_packed_matrix_is_hardly_larger_than_its_file_form, 0, PACK_N_KINDS);
	tcase_add_loop_test(tests, every_byte_of_a_block_row_is_written, 0, PACK_N_KINDS);
	tcase_add_test(tests, sizes_that_do_not_fit_are_zero);
	tcase_add_test(tests, kinds_have_names);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
