/* Rotary frequencies. What the kinds of scaling give for whole models is held against an exact pass elsewhere
 * (tests/e2e/test_families.py); here are the ends and the middles of their ramps, and the two forms of the same
 * scaling. */
#include "src/engine/rope.h"

#include <check.h>
#include <math.h>

#include "tests/unit/suite.h"

static const struct image_config plain = {.rope_dim = 128, .rope_base = 500000, .context = 131072};

static struct rope rope_of(const struct image_config *config, const float *divisors)
{
	struct rope rope;
	rope_init(&rope, config, divisors);
	return rope;
}

START_TEST(unscaled_frequencies_fall_from_one_to_the_base)
{
	struct rope rope = rope_of(&plain, NULL);
	ck_assert_uint_eq(rope.n, 64);
	ck_assert_double_eq(rope.magnitude, 1);
	ck_assert_double_eq(rope.frequency[0], 1);
	ck_assert_double_eq_tol(rope.frequency[32], 1 / sqrt(500000), 1e-15);
	ck_assert_double_eq_tol(rope.frequency[63] * pow(500000, 63 / 64.0), 1, 1e-12);
}
END_TEST

START_TEST(linear_scaling_divides_all)
{
	struct image_config config = plain;
	struct rope before = rope_of(&plain, NULL);
	config.rope_scaling = IMAGE_ROPE_LINEAR;
	config.rope_factor = 8;
	struct rope after = rope_of(&config, NULL);
	for (uint32_t i = 0; i < before.n; i++)
		ck_assert_double_eq_tol(after.frequency[i] * 8, before.frequency[i], 1e-15);
}
END_TEST

/* Llama 3.1's own numbers. */
START_TEST(llama3_scaling_is_what_converters_write_as_divisors)
{
	struct image_config config = plain;
	struct rope before = rope_of(&plain, NULL);
	float divisors[64];
	unsigned n_kept = 0, n_scaled = 0;
	config.rope_scaling = IMAGE_ROPE_LLAMA3;
	config.rope_factor = 8;
	config.rope_original = 8192;
	config.rope_low = 1;
	config.rope_high = 4;
	struct rope by_parameters = rope_of(&config, NULL);
	for (uint32_t i = 0; i < 64; i++) { /* by wave lengths, as Meta's program has it */
		double wave = 2 * M_PI / before.frequency[i], smooth = (8192 / wave - 1) / 3;
		double ratio = wave < 8192 / 4.0 ? 1 : wave > 8192 ? 1 / 8.0 : (1 - smooth) / 8 + smooth;
		divisors[i] = (float)(1 / ratio);
		n_kept += ratio == 1;
		n_scaled += ratio == 1 / 8.0;
	}
	ck_assert_uint_gt(n_kept, 20);
	ck_assert_uint_gt(n_scaled, 20);
	ck_assert_uint_lt(n_kept + n_scaled, 64);
	config = plain;
	config.rope_scaling = IMAGE_ROPE_DIVISORS;
	struct rope by_divisors = rope_of(&config, divisors);
	for (uint32_t i = 0; i < 64; i++)
		ck_assert_double_eq_tol(by_parameters.frequency[i] / by_divisors.frequency[i], 1, 1e-6);
}
END_TEST

START_TEST(yarn_keeps_fast_pairs_and_scales_slow_ones)
{
	struct image_config config = plain;
	struct rope before = rope_of(&plain, NULL);
	config.rope_scaling = IMAGE_ROPE_YARN;
	config.rope_factor = 4;
	config.rope_original = 32768;
	config.rope_low = 1;
	config.rope_high = 32;
	config.rope_magnitude = 1.5f;
	struct rope rope = rope_of(&config, NULL);
	ck_assert_double_eq(rope.magnitude, 1.5);
	double last = 1;
	for (uint32_t i = 0; i < 64; i++) {
		double turns = before.frequency[i] * 32768 / (2 * M_PI),
		       ratio = rope.frequency[i] / before.frequency[i];
		ck_assert_msg(turns < 40 || ratio == 1, "pair %u turns %g times: %g", i, turns, ratio);
		ck_assert_msg(turns > 0.8 || fabs(ratio - 0.25) < 1e-12, "pair %u turns %g times: %g", i, turns, ratio);
		ck_assert_double_le(ratio, last);
		last = ratio;
	}
	float cos_sin[128];
	rope_angles(&rope, 0, cos_sin);
	ck_assert_float_eq(cos_sin[0], 1.5f);
	ck_assert_float_eq(cos_sin[1], 0);
}
END_TEST

START_TEST(angles_lie_as_the_kernels_want_them)
{
	struct image_config config = plain;
	float pairs[128], halves[128];
	struct rope rope = rope_of(&config, NULL);
	rope_angles(&rope, 12345, pairs);
	config.rope_pairing = IMAGE_ROPE_HALVES;
	rope = rope_of(&config, NULL);
	rope_angles(&rope, 12345, halves);
	for (uint32_t i = 0; i < 64; i++) {
		ck_assert_float_eq(pairs[2 * i], halves[i]);
		ck_assert_float_eq(pairs[2 * i + 1], halves[64 + i]);
		ck_assert_float_eq_tol(pairs[2 * i], (float)cos(12345 * rope.frequency[i]), 1e-7f);
		ck_assert_float_eq_tol(pairs[2 * i + 1], (float)sin(12345 * rope.frequency[i]), 1e-7f);
	}
}
END_TEST

START_TEST(windows_have_a_base_of_their_own_and_no_scaling)
{
	struct image_config config = plain;
	struct rope rope;
	config.rope_scaling = IMAGE_ROPE_LINEAR;
	config.rope_factor = 8;
	config.window_rope_base = 10000;
	rope_init_window(&rope, &config);
	ck_assert_double_eq(rope.frequency[0], 1);
	ck_assert_double_eq_tol(rope.frequency[32], 0.01, 1e-15);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rope");
	TCase *tcase = tcase_create("rope");
	tcase_add_test(tcase, unscaled_frequencies_fall_from_one_to_the_base);
	tcase_add_test(tcase, linear_scaling_divides_all);
	tcase_add_test(tcase, llama3_scaling_is_what_converters_write_as_divisors);
	tcase_add_test(tcase, yarn_keeps_fast_pairs_and_scales_slow_ones);
	tcase_add_test(tcase, angles_lie_as_the_kernels_want_them);
	tcase_add_test(tcase, windows_have_a_base_of_their_own_and_no_scaling);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
