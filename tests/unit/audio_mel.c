/* Log-mel rows: how many, of what, and that they do not depend on how samples come in. Their values are held against a
 * definition in tests/e2e/test_mel.py. */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/audio/mel.h"
#include "src/audio/wire.h"

static float *noise(size_t n)
{
	float *samples = malloc((n ? n : 1) * sizeof *samples);
	uint32_t state = 12345;
	for (size_t i = 0; i < n; i++) {
		state = state * 1664525 + 1013904223;
		samples[i] = (float)((double)(state >> 8) / (1 << 23) - 1) * 0.3f;
	}
	return samples;
}

static float *make(struct mel *mel, const float *samples, size_t n, size_t part, uint64_t *n_rows)
{
	uint64_t max = mel_rows(n);
	float *rows = malloc(max * mel_bins(mel) * sizeof *rows);
	mel_begin(mel, rows, max);
	for (size_t i = 0; i < n; i += part)
		ck_assert_int_eq(mel_add(mel, samples + i, n - i < part ? n - i : part), 0);
	ck_assert_int_eq(mel_end(mel, n_rows), 0);
	ck_assert_uint_eq(*n_rows, max);
	return rows;
}

START_TEST(rows_are_counted)
{
	ck_assert_uint_eq(mel_rows(1), 1);
	ck_assert_uint_eq(mel_rows(159), 1);
	ck_assert_uint_eq(mel_rows(160), 2);
	ck_assert_uint_eq(mel_rows(480000), 3001);
	struct err err;
	struct mel *mel;
	ck_assert_int_eq(mel_new(81, &mel, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "81 mel bins"));
}
END_TEST

/* Also around every length at which something begins or ends: what is mirrored, a row, a block of rows. */
START_TEST(rows_do_not_depend_on_how_samples_come)
{
	static const size_t lengths[] = {1,	2,     40,    41,    159,   160,   161,	  199,	 200,	201,
					 202,	359,   360,   361,   399,   400,   401,	  10079, 10080, 10081,
					 10240, 10479, 10480, 10481, 20319, 20320, 20480, 20481, 47999, 100003};
	static const size_t parts[] = {1, 7, 160, 200, 201, 4096};
	struct err err;
	struct mel *mel;
	float *samples = noise(100003);
	ck_assert_int_eq(mel_new(80, &mel, &err), 0);
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		uint64_t n_rows, again;
		float *whole = make(mel, samples, lengths[i], lengths[i], &n_rows);
		for (size_t k = 0; k < n_rows * 80; k++)
			ck_assert(isfinite(whole[k]) && whole[k] <= 2 && whole[k] >= -2);
		for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
			float *rows = make(mel, samples, lengths[i], parts[p], &again);
			ck_assert_msg(!memcmp(rows, whole, n_rows * 80 * sizeof *rows), "%zu samples in parts of %zu",
				      lengths[i], parts[p]);
			free(rows);
		}
		free(whole);
	}
	mel_free(mel);
	free(samples);
}
END_TEST

START_TEST(silence_is_flat)
{
	struct err err;
	struct mel *mel;
	uint64_t n_rows;
	float *samples = calloc(16000, sizeof *samples);
	ck_assert_int_eq(mel_new(128, &mel, &err), 0);
	float *rows = make(mel, samples, 16000, 777, &n_rows);
	for (size_t i = 0; i < n_rows * 128; i++)
		ck_assert_float_eq(rows[i], -1.5f); /* (log10(1e-10) + 4) / 4 */
	free(rows);
	free(samples);
	mel_free(mel);
}
END_TEST

START_TEST(what_does_not_fit_is_refused)
{
	struct err err;
	struct mel *mel;
	uint64_t n_rows;
	float *samples = noise(64000), *rows = malloc(100 * 80 * sizeof *rows);
	ck_assert_int_eq(mel_new(80, &mel, &err), 0);
	mel_begin(mel, rows, 100);
	ck_assert_int_eq(mel_end(mel, &n_rows), -ENODATA);
	mel_begin(mel, rows, 100);
	ck_assert_int_eq(mel_add(mel, samples, 64000), -ENOSPC);
	mel_begin(mel, rows, 100);
	ck_assert_int_eq(mel_add(mel, samples, 16000), 0); /* 101 rows */
	ck_assert_int_eq(mel_end(mel, &n_rows), -ENOSPC);
	mel_begin(mel, rows, 100);
	ck_assert_int_eq(mel_add(mel, samples, 15999), 0);
	ck_assert_int_eq(mel_end(mel, &n_rows), 0);
	ck_assert_uint_eq(n_rows, 100);
	free(rows);
	free(samples);
	mel_free(mel);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("audio_mel");
	TCase *tests = tcase_create("mel");
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, rows_are_counted);
	tcase_add_test(tests, rows_do_not_depend_on_how_samples_come);
	tcase_add_test(tests, silence_is_flat);
	tcase_add_test(tests, what_does_not_fit_is_refused);
	suite_add_tcase(suite, tests);
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
