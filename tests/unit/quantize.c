/* Numbers into blocks: codes and scales of chosen groups, what rounding may cost, and what has no scale. That whole
 * models become the bytes that GGUF's tools make of them is tests/e2e/test_hf.py's part. */
#include "src/kernel/quantize.h"

#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/kernel/half.h"
#include "tests/unit/suite.h"

enum { COLS = 4 * PACK_GROUP, ROW_BYTES = COLS * 4 };

static float scale_of(const unsigned char *block)
{
	uint16_t half;
	memcpy(&half, block, sizeof half);
	return f32_from_f16(half);
}

/* What a block stands for. */
static float value_of(enum pack_kind kind, const unsigned char *block, uint32_t i)
{
	if (kind == PACK_Q8_0)
		return scale_of(block) * (float)(int8_t)block[2 + i];
	unsigned nibbles = block[2 + i % 16];
	return scale_of(block) * ((float)(i < 16 ? nibbles & 15 : nibbles >> 4) - 8);
}

static void fill_random(float *x, uint32_t n, float magnitude)
{
	for (uint32_t i = 0; i < n; i++)
		x[i] = magnitude * ((float)rand() / (float)RAND_MAX * 2 - 1);
}

START_TEST(q8_0_of_chosen_numbers)
{
	float x[PACK_GROUP] = {254, -254, 1, -1, 0.999f, 3, -3, 2.5f};
	unsigned char block[34];
	ck_assert_int_eq(quantize_row(PACK_F32, x, PACK_Q8_0, block, PACK_GROUP), 0);
	ck_assert_float_eq(scale_of(block), 2);
	/* Halves go away from zero. */
	static const int8_t codes[] = {127, -127, 1, -1, 0, 2, -2, 1, 0};
	for (size_t i = 0; i < sizeof codes; i++)
		ck_assert_int_eq((int8_t)block[2 + i], codes[i]);
}
END_TEST

/* The first of the largest magnitude becomes code 0, whichever sign it has. */
START_TEST(q4_0_of_chosen_numbers)
{
	float x[PACK_GROUP] = {0, 8, -8, 4, 0.4f, 0.5f, -0.5f, -7};
	unsigned char block[18];
	x[16] = 7;
	ck_assert_int_eq(quantize_row(PACK_F32, x, PACK_Q4_0, block, PACK_GROUP), 0);
	ck_assert_float_eq(scale_of(block), -1);
	static const unsigned codes[] = {8, 0, 15, 4, 8, 8, 9, 15};
	for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
		ck_assert_uint_eq(block[2 + i] & 15, codes[i]);
	ck_assert_uint_eq(block[2] >> 4, 1);
	ck_assert_uint_eq(block[3] >> 4, 8);
}
END_TEST

START_TEST(zeros_stay_zeros)
{
	float x[PACK_GROUP] = {0};
	unsigned char block[34];
	ck_assert_int_eq(quantize_row(PACK_F32, x, PACK_Q8_0, block, PACK_GROUP), 0);
	for (uint32_t i = 0; i < PACK_GROUP; i++)
		ck_assert_float_eq(value_of(PACK_Q8_0, block, i), 0);
	ck_assert_int_eq(quantize_row(PACK_F32, x, PACK_Q4_0, block, PACK_GROUP), 0);
	for (uint32_t i = 0; i < PACK_GROUP; i++)
		ck_assert_float_eq(value_of(PACK_Q4_0, block, i), 0);
	for (uint32_t i = 0; i < PACK_GROUP; i++)
		x[i] = 1e-42f; /* its scale is 0 in float16, and has no inverse in float32 */
	ck_assert_int_eq(quantize_row(PACK_F32, x, PACK_Q8_0, block, PACK_GROUP), 0);
	ck_assert_float_eq(value_of(PACK_Q8_0, block, 0), 0);
}
END_TEST

/* Half a step, and what the scale loses as float16; with 4 bits a whole step at the end that has no code 16. */
START_TEST(rounding_costs_half_a_step)
{
	static const enum pack_kind kinds[] = {PACK_Q8_0, PACK_Q4_0};
	enum pack_kind kind = kinds[_i];
	float x[COLS];
	unsigned char row[ROW_BYTES];
	srand(7);
	for (int round = 0; round < 1000; round++) {
		fill_random(x, COLS, ldexpf(1, rand() % 16 - 2));
		ck_assert_int_eq(quantize_row(PACK_F32, x, kind, row, COLS), 0);
		for (uint32_t i = 0; i < COLS; i++) {
			const unsigned char *block = row + i / PACK_GROUP * pack_source_row_bytes(kind, PACK_GROUP);
			float step = fabsf(scale_of(block)),
			      error = fabsf(value_of(kind, block, i % PACK_GROUP) - x[i]);
			bool at_the_end = kind == PACK_Q4_0 && x[i] / scale_of(block) > 7;
			ck_assert_float_le(error, step * (at_the_end ? 1.01f : 0.51f) + fabsf(x[i]) * 0x1p-11f);
		}
	}
}
END_TEST

/* The same numbers stored in three ways, exactly representable in all, give the same blocks. */
START_TEST(what_is_stored_does_not_matter)
{
	static const enum pack_kind kinds[] = {PACK_BF16, PACK_Q8_0, PACK_Q4_0};
	enum pack_kind kind = kinds[_i];
	float x[COLS];
	uint16_t f16[COLS], bf16[COLS];
	unsigned char from_f32[ROW_BYTES] = {0}, from_f16[ROW_BYTES] = {0}, from_bf16[ROW_BYTES] = {0};
	srand(8);
	fill_random(x, COLS, 4);
	for (uint32_t i = 0; i < COLS; i++) {
		bf16[i] = bf16_from_f32(x[i]);
		x[i] = f32_from_bf16(bf16[i]);
		f16[i] = f16_from_f32(x[i]);
		x[i] = f32_from_f16(f16[i]);
		bf16[i] = bf16_from_f32(x[i]);
	}
	ck_assert_int_eq(quantize_row(PACK_F32, x, kind, from_f32, COLS), 0);
	ck_assert_int_eq(quantize_row(PACK_F16, f16, kind, from_f16, COLS), 0);
	ck_assert_int_eq(quantize_row(PACK_BF16, bf16, kind, from_bf16, COLS), 0);
	ck_assert_mem_eq(from_f32, from_f16, sizeof from_f32);
	ck_assert_mem_eq(from_f32, from_bf16, sizeof from_f32);
	if (kind == PACK_BF16)
		ck_assert_mem_eq(from_f32, bf16, sizeof bf16);
}
END_TEST

START_TEST(refuses_what_has_no_scale)
{
	static const float bad[] = {INFINITY, -INFINITY, NAN, 3e38f};
	static const enum pack_kind kinds[] = {PACK_Q8_0, PACK_Q4_0};
	unsigned char row[ROW_BYTES];
	for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
		for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
			float x[2 * PACK_GROUP] = {1};
			x[_i] = bad[b];
			ck_assert_int_eq(quantize_row(PACK_F32, x, kinds[k], row, 2 * PACK_GROUP), -ERANGE);
		}
	float x[PACK_GROUP] = {1, 3e38f};
	ck_assert_int_eq(quantize_row(PACK_F32, x, PACK_BF16, row, PACK_GROUP), 0);
	x[2] = 0x1.ffp127f; /* rounds to infinity */
	ck_assert_int_eq(quantize_row(PACK_F32, x, PACK_BF16, row, PACK_GROUP), -ERANGE);
}
END_TEST

/* Against the two neighbours between which a value lies. */
START_TEST(f16_is_the_nearest)
{
	for (uint32_t half = 0; half < 0x7c00; half++) {
		float low = f32_from_f16((uint16_t)half),
		      high = half + 1 < 0x7c00 ? f32_from_f16((uint16_t)(half + 1)) : 65536;
		float middle = (low + high) / 2;
		uint16_t even = (uint16_t)(half % 2 ? half + 1 : half);
		ck_assert_uint_eq(f16_from_f32(low), half);
		ck_assert_uint_eq(f16_from_f32(-low), half | 0x8000);
		ck_assert_uint_eq(f16_from_f32(nextafterf(middle, 0)), half);
		ck_assert_uint_eq(f16_from_f32(middle), even);
		ck_assert_uint_eq(f16_from_f32(nextafterf(middle, INFINITY)), half + 1);
	}
	ck_assert_uint_eq(f16_from_f32(INFINITY), 0x7c00);
	ck_assert_uint_eq(f16_from_f32(NAN) & 0x7fff, 0x7e00);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("quantize");
	TCase *tcase = tcase_create("quantize");
	tcase_add_test(tcase, q8_0_of_chosen_numbers);
	tcase_add_test(tcase, q4_0_of_chosen_numbers);
	tcase_add_test(tcase, zeros_stay_zeros);
	tcase_add_loop_test(tcase, rounding_costs_half_a_step, 0, 2);
	tcase_add_loop_test(tcase, what_is_stored_does_not_matter, 0, 3);
	tcase_add_loop_test(tcase, refuses_what_has_no_scale, 0, 2 * PACK_GROUP);
	tcase_add_test(tcase, f16_is_the_nearest);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
