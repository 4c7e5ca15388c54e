#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/speech/voice.h"
#include "tests/unit/suite.h"

enum { N = 3000 };
static float levels[N];

/* Quiet around -70 dB. */
static void hush(void)
{
	srand(1);
	for (int i = 0; i < N; i++)
		levels[i] = -70 + (float)(rand() % 200) / 100;
}

/* Speech around -30 dB, with gaps of some frames. */
static void speak(uint32_t begin, uint32_t end)
{
	for (uint32_t i = begin; i < end; i++)
		if (i % 23 > 3 || i == begin || i == end - 1)
			levels[i] = -35 + (float)(rand() % 1000) / 100;
}

static void ck_spans(const struct speech_voice_params *params, const struct speech_span *expected, uint32_t n)
{
	struct speech_span *spans;
	uint32_t found;
	ck_assert_int_eq(speech_voice_find(levels, N, params, &spans, &found), 0);
	ck_assert_uint_eq(found, n);
	for (uint32_t i = 0; i < n; i++) {
		ck_assert_uint_eq(spans[i].begin, expected[i].begin);
		ck_assert_uint_eq(spans[i].end, expected[i].end);
	}
	free(spans);
}

START_TEST(speech_is_found_with_its_margins)
{
	struct speech_voice_params params = speech_voice_default();
	hush();
	speak(500, 800);
	speak(900, 1100); /* a second of silence stays */
	speak(1500, 1600);
	speak(2990, N);
	ck_spans(&params, (const struct speech_span[]){{460, 1140}, {1460, 1640}, {2950, N}}, 3);
	params.pad = 0;
	ck_spans(&params, (const struct speech_span[]){{500, 1100}, {1500, 1600}, {2990, N}}, 3);
	params.least_silence = 50;
	ck_spans(&params, (const struct speech_span[]){{500, 800}, {900, 1100}, {1500, 1600}, {2990, N}}, 4);
	params.pad = 50; /* margins that meet are one span */
	ck_spans(&params, (const struct speech_span[]){{450, 1150}, {1450, 1650}, {2940, N}}, 3);
}
END_TEST

START_TEST(a_click_is_no_speech)
{
	struct speech_voice_params params = speech_voice_default();
	hush();
	speak(0, 400);
	levels[1500] = levels[1501] = 0;
	ck_spans(&params, (const struct speech_span[]){{0, 440}}, 1);
}
END_TEST

START_TEST(where_nothing_stands_out_everything_is_kept)
{
	struct speech_voice_params params = speech_voice_default();
	hush();
	ck_spans(&params, (const struct speech_span[]){{0, N}}, 1);
	for (int i = 0; i < N; i++)
		levels[i] = -INFINITY;
	ck_spans(&params, (const struct speech_span[]){{0, N}}, 1);
}
END_TEST

/* The same audio, louder or softer, has the same spans. */
START_TEST(loudness_is_relative)
{
	struct speech_voice_params params = speech_voice_default();
	for (int gain = -60; gain <= 60; gain += 20) {
		hush();
		speak(700, 900);
		for (int i = 0; i < N; i++)
			levels[i] += (float)gain;
		ck_spans(&params, (const struct speech_span[]){{660, 940}}, 1);
	}
}
END_TEST

START_TEST(what_is_not_a_number_is_quiet)
{
	struct speech_voice_params params = speech_voice_default();
	hush();
	for (int i = 0; i < N; i += 7)
		levels[i] = NAN;
	speak(700, 900);
	ck_spans(&params, (const struct speech_span[]){{660, 940}}, 1);
	ck_assert_int_eq(speech_voice_find(NULL, 0, &params, &(struct speech_span *){NULL}, &(uint32_t){0}), 0);
}
END_TEST

START_TEST(levels_are_those_of_the_spectrogram)
{
	float mel[80];
	for (int i = 0; i < 80; i++)
		mel[i] = i % 2 ? 1 : 0.5f; /* log10(power) 0 and -2 */
	ck_assert_float_eq_tol(speech_voice_level(mel, 80), -10, 1e-4f);
}
END_TEST

/* Each frame of the original is at the time that its number says, before and after. */
START_TEST(times_lead_back)
{
	const struct speech_span spans[] = {{10, 20}, {50, 55}, {90, 100}};
	float mel[100][3];
	for (int i = 0; i < 100; i++)
		for (int b = 0; b < 3; b++)
			mel[i][b] = (float)(10 * i + b);
	ck_assert_uint_eq(speech_voice_keep(mel[0], 3, spans, 3), 25);
	for (uint32_t i = 0; i < 25; i++) {
		double time = i / 100.0;
		uint32_t original = (uint32_t)mel[i][0] / 10, span = speech_voice_span(spans, 3, time, false);
		ck_assert_float_eq(mel[i][2], (float)(10 * original + 2));
		ck_assert_double_eq_tol(speech_voice_time(spans, span, time), original / 100.0, 1e-9);
	}
	ck_assert_uint_eq(speech_voice_span(spans, 3, 0.10, true), 0);
	ck_assert_uint_eq(speech_voice_span(spans, 3, 0.10, false), 1);
	ck_assert_double_eq_tol(speech_voice_time(spans, 0, 0.10), 0.20, 1e-9); /* an end */
	ck_assert_double_eq_tol(speech_voice_time(spans, 1, 0.10), 0.50, 1e-9); /* a beginning */
	ck_assert_uint_eq(speech_voice_span(spans, 3, 77, true), 2);
	ck_assert_double_eq_tol(speech_voice_time(spans, 2, 77), 1, 1e-9);
	ck_assert_double_eq_tol(speech_voice_time(spans, 2, 0.01), 0.9, 1e-9); /* a word is in one span */
}
END_TEST

int main(void)
{
	Suite *s = suite_create("speech_voice");
	TCase *c = tcase_create("all");
	tcase_add_test(c, speech_is_found_with_its_margins);
	tcase_add_test(c, a_click_is_no_speech);
	tcase_add_test(c, where_nothing_stands_out_everything_is_kept);
	tcase_add_test(c, loudness_is_relative);
	tcase_add_test(c, what_is_not_a_number_is_quiet);
	tcase_add_test(c, levels_are_those_of_the_spectrogram);
	tcase_add_test(c, times_lead_back);
	suite_add_tcase(s, c);
	return suite_run(s);
}
