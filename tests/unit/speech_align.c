#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/speech/align.h"
#include "tests/unit/suite.h"

enum { MAX_ROWS = 12, MAX_HEADS = 3, POSITIONS = 40 };
static float weights[MAX_ROWS * MAX_HEADS * POSITIONS];

static float *at(uint32_t n_heads, uint32_t row, uint32_t head)
{
	return weights + ((size_t)row * n_heads + head) * POSITIONS;
}

/* --- the definition, plain: the mean over heads of filtered, normalized weights -------------------------------- */

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

static void gain_ref(const struct speech_attention *a, uint32_t first, uint32_t n, double gain[][POSITIONS])
{
	static double w[MAX_ROWS][POSITIONS], norm[MAX_ROWS][POSITIONS];
	int frames = (int)a->n_frames;
	for (uint32_t i = 0; i < n; i++)
		memset(gain[i], 0, sizeof gain[i]);
	for (uint32_t h = 0; h < a->n_heads; h++) {
		for (uint32_t r = 0; r < a->n_rows; r++) {
			double sum = 0;
			for (int f = 0; f < frames; f++)
				sum += at(a->n_heads, r, h)[f];
			for (int f = 0; f < frames; f++)
				w[r][f] = at(a->n_heads, r, h)[f] / sum;
		}
		for (int f = 0; f < frames; f++) {
			double mean = 0, variance = 0;
			for (uint32_t r = 0; r < a->n_rows; r++)
				mean += w[r][f] / a->n_rows;
			for (uint32_t r = 0; r < a->n_rows; r++)
				variance += (w[r][f] - mean) * (w[r][f] - mean) / a->n_rows;
			for (uint32_t r = 0; r < a->n_rows; r++)
				norm[r][f] = (w[r][f] - mean) / sqrt(variance);
		}
		for (uint32_t i = 0; i < n; i++)
			for (int f = 0; f < frames; f++) {
				double seven[7];
				for (int k = -3; k <= 3; k++) {
					int from = abs(f + k);
					from = from >= frames ? 2 * (frames - 1) - from : from;
					seven[k + 3] = norm[first + i][frames <= 3 ? f : from];
				}
				qsort(seven, 7, sizeof *seven, compare);
				gain[i][f] += seven[3] / a->n_heads;
			}
	}
}

/* The largest sum over all ways from (0, 0) to (row, frame) by steps to the next row, the next frame or both. */
static double best_way(double gain[][POSITIONS], int row, int frame)
{
	double best = -INFINITY;
	if (row == 0 && frame == 0)
		return gain[0][0];
	if (row > 0)
		best = fmax(best, best_way(gain, row - 1, frame));
	if (frame > 0)
		best = fmax(best, best_way(gain, row, frame - 1));
	if (row > 0 && frame > 0)
		best = fmax(best, best_way(gain, row - 1, frame - 1));
	return best + gain[row][frame];
}

/* The largest sum over all ways whose rows begin at these frames. */
static double way_by(double gain[][POSITIONS], const uint32_t *frames, uint32_t n, uint32_t n_frames)
{
	double sum = 0;
	for (uint32_t i = 0; i < n; i++) {
		/* A row ends where the next begins, or a frame before it. */
		uint32_t end = i + 1 < n ? frames[i + 1] : n_frames - 1;
		for (uint32_t f = frames[i]; f < end; f++)
			sum += gain[i][f];
		if (i + 1 == n || end == frames[i] || gain[i][end] > 0)
			sum += gain[i][end];
	}
	return sum;
}

START_TEST(the_way_is_the_best_of_all)
{
	static double gain[MAX_ROWS][POSITIONS];
	srand(5);
	for (int round = 0; round < 400; round++) {
		uint32_t n_rows = 3 + (uint32_t)rand() % 4, n_heads = 1 + (uint32_t)rand() % MAX_HEADS;
		uint32_t first = (uint32_t)rand() % 2, n = n_rows - first - 1, frames[MAX_ROWS];
		struct speech_attention a = {weights, n_rows, n_heads, POSITIONS, 2 + (uint32_t)rand() % 7};
		for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
			weights[i] = 0.01f + (float)(rand() % 1000) / 1000;
		ck_assert_int_eq(speech_align(&a, first, n, frames), 0);
		gain_ref(&a, first, n, gain);
		for (uint32_t i = 1; i < n; i++)
			ck_assert_uint_ge(frames[i], frames[i - 1]);
		ck_assert_uint_eq(frames[0], 0);
		ck_assert_uint_lt(frames[n - 1], a.n_frames);
		ck_assert_double_eq_tol(way_by(gain, frames, n, a.n_frames),
					best_way(gain, (int)n - 1, (int)a.n_frames - 1), 1e-3);
	}
}
END_TEST

START_TEST(a_staircase_is_found_and_padding_does_not_matter)
{
	uint32_t frames[MAX_ROWS];
	for (uint32_t r = 0; r < 6; r++)
		for (uint32_t h = 0; h < 2; h++)
			for (uint32_t f = 0; f < POSITIONS; f++)
				at(2, r, h)[f] = f >= 30 ? 50.0f * (float)(r + 1) : f / 5 == r ? 1 : 0.01f;
	struct speech_attention a = {weights, 6, 2, POSITIONS, 30};
	ck_assert_int_eq(speech_align(&a, 0, 6, frames), 0);
	for (uint32_t r = 0; r < 6; r++)
		ck_assert_uint_eq(frames[r], 5 * r);
}
END_TEST

/* One frame alone is no word: the median takes it out. */
START_TEST(a_spike_is_filtered)
{
	uint32_t frames[MAX_ROWS];
	for (uint32_t r = 0; r < 2; r++)
		for (uint32_t f = 0; f < POSITIONS; f++)
			at(1, r, 0)[f] = f / 20 == r ? 1 : 0.01f;
	at(1, 1, 0)[6] = 200; /* of the second row, in the first one's time */
	struct speech_attention a = {weights, 2, 1, POSITIONS, POSITIONS};
	ck_assert_int_eq(speech_align(&a, 0, 2, frames), 0);
	ck_assert_uint_eq(frames[1], 20);
}
END_TEST

START_TEST(weights_that_say_nothing_are_no_trouble)
{
	uint32_t frames[MAX_ROWS];
	memset(weights, 0, sizeof weights);
	struct speech_attention a = {weights, 5, 2, POSITIONS, POSITIONS};
	ck_assert_int_eq(speech_align(&a, 1, 3, frames), 0);
	a.n_frames = 1; /* more rows than frames */
	ck_assert_int_eq(speech_align(&a, 1, 3, frames), 0);
	for (int i = 0; i < 3; i++)
		ck_assert_uint_eq(frames[i], 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("speech_align");
	TCase *c = tcase_create("all");
	tcase_add_test(c, the_way_is_the_best_of_all);
	tcase_add_test(c, a_staircase_is_found_and_padding_does_not_matter);
	tcase_add_test(c, a_spike_is_filtered);
	tcase_add_test(c, weights_that_say_nothing_are_no_trouble);
	suite_add_tcase(s, c);
	return suite_run(s);
}
