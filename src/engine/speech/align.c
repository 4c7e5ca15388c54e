#include "src/engine/speech/align.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 7, HALF = WIDTH / 2 };

enum step { BOTH = 0, ROW = 1, FRAME = 2 };

/* What one head needs to be normalized; arrays owned. */
struct norm {
	float *scale;		 /* [n_rows] 1 / sum over frames */
	float *mean, *deviation; /* [n_frames] over rows, deviation as its inverse */
	float *row;		 /* [n_frames] one row, normalized */
};

static const float *weights_of(const struct speech_attention *a, uint32_t row, uint32_t head)
{
	return a->weights + ((size_t)row * a->n_heads + head) * a->n_positions;
}

/* Mean and deviation of each frame over all rows, in two passes, so that small deviations of large means are right. */
static void measure(const struct speech_attention *a, uint32_t head, struct norm *norm)
{
	uint32_t n_frames = a->n_frames;
	memset(norm->mean, 0, n_frames * sizeof(float));
	memset(norm->deviation, 0, n_frames * sizeof(float));
	for (uint32_t row = 0; row < a->n_rows; row++) {
		const float *w = weights_of(a, row, head);
		double sum = 0;
		for (uint32_t f = 0; f < n_frames; f++)
			sum += w[f];
		norm->scale[row] = sum > 0 ? (float)(1 / sum) : 0;
		for (uint32_t f = 0; f < n_frames; f++)
			norm->mean[f] += w[f] * norm->scale[row];
	}
	for (uint32_t f = 0; f < n_frames; f++)
		norm->mean[f] /= (float)a->n_rows;
	for (uint32_t row = 0; row < a->n_rows; row++) {
		const float *w = weights_of(a, row, head);
		for (uint32_t f = 0; f < n_frames; f++) {
			float d = w[f] * norm->scale[row] - norm->mean[f];
			norm->deviation[f] += d * d;
		}
	}
	for (uint32_t f = 0; f < n_frames; f++) {
		float variance = norm->deviation[f] / (float)a->n_rows;
		norm->deviation[f] = variance > 0 ? 1 / sqrtf(variance) : 0;
	}
}

static float median(const float *row, uint32_t n, uint32_t at)
{
	float sorted[WIDTH];
	for (int k = -HALF; k <= HALF; k++) {
		int64_t from = llabs((int64_t)at + k); /* mirrored at both ends */
		float x = row[from < n ? from : 2 * (int64_t)n - 2 - from];
		int i = k + HALF;
		for (; i > 0 && sorted[i - 1] > x; i--)
			sorted[i] = sorted[i - 1];
		sorted[i] = x;
	}
	return sorted[HALF];
}

/* Adds a head's filtered rows to sum [n][n_frames]. */
static void add_head(const struct speech_attention *a, uint32_t head, uint32_t first_row, uint32_t n, struct norm *norm,
		     float *sum)
{
	measure(a, head, norm);
	for (uint32_t i = 0; i < n; i++) {
		const float *w = weights_of(a, first_row + i, head);
		float scale = norm->scale[first_row + i], *out = sum + (size_t)i * a->n_frames;
		for (uint32_t f = 0; f < a->n_frames; f++)
			norm->row[f] = (w[f] * scale - norm->mean[f]) * norm->deviation[f];
		for (uint32_t f = 0; f < a->n_frames; f++)
			out[f] += a->n_frames <= HALF ? norm->row[f] : median(norm->row, a->n_frames, f);
	}
}

/* The way of largest sum through gain [n][n_frames]: steps[n][n_frames] is how each point was reached; cost [2][n + 1].
 */
static void warp(const float *gain, uint32_t n, uint32_t n_frames, float factor, uint8_t *steps, float *cost)
{
	float *before = cost, *now = cost + n + 1;
	before[0] = 0;
	for (uint32_t i = 1; i <= n; i++)
		before[i] = INFINITY;
	for (uint32_t f = 0; f < n_frames; f++) {
		now[0] = INFINITY;
		for (uint32_t i = 0; i < n; i++) {
			float both = before[i], row = now[i], frame = before[i + 1], least;
			enum step step;
			if (frame <= both && frame <= row)
				least = frame, step = FRAME;
			else if (both <= row)
				least = both, step = BOTH;
			else
				least = row, step = ROW;
			now[i + 1] = least - gain[(size_t)i * n_frames + f] * factor;
			steps[(size_t)i * n_frames + f] = (uint8_t)step;
		}
		float *t = before;
		before = now;
		now = t;
	}
}

static void walk_back(const uint8_t *steps, uint32_t n, uint32_t n_frames, uint32_t *frames)
{
	uint32_t i = n - 1, f = n_frames - 1;
	for (;;) {
		frames[i] = f;
		uint8_t step = steps[(size_t)i * n_frames + f];
		if (i == 0 && f == 0)
			return;
		if (i == 0)
			step = FRAME;
		else if (f == 0)
			step = ROW;
		i -= step != FRAME;
		f -= step != ROW;
	}
}

int speech_align(const struct speech_attention *a, uint32_t first_row, uint32_t n, uint32_t *frames)
{
	int failed = -ENOMEM;
	struct norm norm = {.scale = malloc(a->n_rows * sizeof(float)),
			    .mean = malloc(a->n_frames * sizeof(float)),
			    .deviation = malloc(a->n_frames * sizeof(float)),
			    .row = malloc(a->n_frames * sizeof(float))};
	float *sum = calloc((size_t)n * a->n_frames, sizeof *sum), *cost = malloc(2 * ((size_t)n + 1) * sizeof *cost);
	uint8_t *steps = calloc(n, a->n_frames);
	if (!norm.scale || !norm.mean || !norm.deviation || !norm.row || !sum || !cost || !steps)
		goto done;
	for (uint32_t head = 0; head < a->n_heads; head++)
		add_head(a, head, first_row, n, &norm, sum);
	warp(sum, n, a->n_frames, 1 / (float)a->n_heads, steps, cost);
	walk_back(steps, n, a->n_frames, frames);
	failed = 0;
done:
	free(norm.scale);
	free(norm.mean);
	free(norm.deviation);
	free(norm.row);
	free(sum);
	free(cost);
	free(steps);
	return failed;
}
