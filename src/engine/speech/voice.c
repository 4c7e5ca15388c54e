#include "src/engine/speech/voice.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/speech/windows.h"

/* Levels are counted in steps of a quarter of a dB, so that shares of them need no sorting. */
enum { STEPS = 1024, STEPS_PER_DB = 4 };

struct speech_voice_params speech_voice_default(void)
{
	return (struct speech_voice_params){.contrast_db = 6, .least_speech = 5, .least_silence = 200, .pad = 40};
}

float speech_voice_level(const float *mel, uint32_t n_bins)
{
	double sum = 0;
	for (uint32_t i = 0; i < n_bins; i++)
		sum += mel[i];
	return (float)(10 * (4 * sum / n_bins - 4));
}

/* The level below which a share of all are, up to a step. */
static float level_at(const uint32_t *counts, uint32_t n, double share, float lowest)
{
	uint32_t below = 0, step = 0;
	for (; step < STEPS - 1; step++) {
		below += counts[step];
		if (below > share * n)
			break;
	}
	return lowest + (float)step / STEPS_PER_DB;
}

/* What is speech is above *on, what was speech stays it above *off. False: nothing stands out. */
static bool thresholds(const float *levels, uint32_t n, float contrast, float *on, float *off)
{
	uint32_t counts[STEPS] = {0}, n_counted = 0;
	float loudest = -INFINITY;
	for (uint32_t i = 0; i < n; i++)
		loudest = levels[i] > loudest ? levels[i] : loudest;
	float lowest = loudest - (float)STEPS / STEPS_PER_DB;
	if (isinf(loudest))
		return false;
	for (uint32_t i = 0; i < n; i++) {
		float step = (levels[i] - lowest) * STEPS_PER_DB;
		if (step >= 0) {
			counts[step < STEPS ? (uint32_t)step : STEPS - 1]++;
			n_counted++;
		}
	}
	float quiet = level_at(counts, n_counted, 0.1, lowest), loud = level_at(counts, n_counted, 0.95, lowest);
	if (loud - quiet < contrast)
		return false;
	*on = quiet + fmaxf(contrast, 0.3f * (loud - quiet));
	*off = quiet + fmaxf(contrast / 2, 0.2f * (loud - quiet));
	return true;
}

/* Puts spans together that have less than the least silence between them, and drops short ones; returns their number.
 */
static uint32_t tidy(struct speech_span *spans, uint32_t n, const struct speech_voice_params *params)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < n; i++)
		if (kept && spans[i].begin - spans[kept - 1].end < params->least_silence)
			spans[kept - 1].end = spans[i].end;
		else
			spans[kept++] = spans[i];
	n = kept, kept = 0;
	for (uint32_t i = 0; i < n; i++)
		if (spans[i].end - spans[i].begin >= params->least_speech)
			spans[kept++] = spans[i];
	return kept;
}

static uint32_t pad(struct speech_span *spans, uint32_t n, uint32_t n_frames, uint32_t frames)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t begin = spans[i].begin > frames ? spans[i].begin - frames : 0;
		uint32_t end = n_frames - spans[i].end > frames ? spans[i].end + frames : n_frames;
		if (kept && begin <= spans[kept - 1].end)
			spans[kept - 1].end = end;
		else
			spans[kept++] = (struct speech_span){begin, end};
	}
	return kept;
}

int speech_voice_find(const float *levels, uint32_t n, const struct speech_voice_params *params,
		      struct speech_span **spans_out, uint32_t *n_spans)
{
	float on = -INFINITY, off = -INFINITY;
	bool stands_out = thresholds(levels, n, params->contrast_db, &on, &off);
	struct speech_span *spans = malloc(((size_t)n / 2 + 1) * sizeof *spans);
	uint32_t count = 0;
	bool speaks = false;
	if (!spans)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		bool now = !stands_out || levels[i] > (speaks ? off : on);
		if (now && !speaks)
			spans[count++].begin = i;
		if (now)
			spans[count - 1].end = i + 1;
		speaks = now;
	}
	if (stands_out)
		count = tidy(spans, count, params);
	count = pad(spans, count, n, params->pad);
	if (!count) {
		free(spans);
		spans = NULL;
	}
	*spans_out = spans;
	*n_spans = count;
	return 0;
}

uint32_t speech_voice_keep(float *mel, uint32_t n_bins, const struct speech_span *spans, uint32_t n_spans)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < n_spans; i++) {
		uint32_t n = spans[i].end - spans[i].begin;
		memmove(mel + (size_t)kept * n_bins, mel + (size_t)spans[i].begin * n_bins,
			(size_t)n * n_bins * sizeof *mel);
		kept += n;
	}
	return kept;
}

/* Frames kept before a span. */
static uint32_t kept_before(const struct speech_span *spans, uint32_t span)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < span; i++)
		kept += spans[i].end - spans[i].begin;
	return kept;
}

uint32_t speech_voice_span(const struct speech_span *spans, uint32_t n_spans, double time, bool is_end)
{
	double frame = rint(time * SPEECH_FRAMES_PER_S), end = 0;
	for (uint32_t i = 0; i < n_spans; i++) {
		end += spans[i].end - spans[i].begin;
		if (frame < end || (is_end && frame == end))
			return i;
	}
	return n_spans - 1;
}

double speech_voice_time(const struct speech_span *spans, uint32_t span, double time)
{
	double frame = time * SPEECH_FRAMES_PER_S - kept_before(spans, span) + spans[span].begin;
	return fmin(fmax(frame, spans[span].begin), spans[span].end) / SPEECH_FRAMES_PER_S;
}
