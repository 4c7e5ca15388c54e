#include "src/engine/speech/anomaly.h"

#include <math.h>

static double score_of(const struct speech_word *word)
{
	double duration = word->end - word->start, score = word->probability < 0.15f;
	if (duration < 0.133)
		score += (0.133 - duration) * 15;
	if (duration > 2)
		score += duration - 2;
	return score;
}

/* By its first eight words that are not punctuation. */
static bool is_odd(const struct speech_words *words, const struct speech_draft *segment)
{
	static const char punctuation[] = "\"'“¿([{-\"'.。,，!！?？:：”)]}、";
	double score = 0;
	uint32_t n = 0;
	if (!segment || !segment->n_words)
		return false;
	for (uint32_t i = 0; i < segment->n_words && n < 8; i++) {
		const struct speech_word *word = &words->words[segment->first_word + i];
		if (speech_is_part(words->text.bytes + word->text, word->n_bytes, punctuation))
			continue;
		score += score_of(word);
		n++;
	}
	return score >= 3 || score + 0.01 >= n;
}

static const struct speech_draft *with_words(const struct speech_draft *segments, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (segments[i].n_words)
			return &segments[i];
	return NULL;
}

static uint32_t frame_at(double s)
{
	return (uint32_t)fmax(0, rint(s * SPEECH_FRAMES_PER_S));
}

bool speech_anomaly(const struct speech_silence *silence, const struct speech_words *words,
		    const struct speech_draft *segments, uint32_t *n, uint32_t *next_frame, bool *skip)
{
	double offset = (double)silence->frame / SPEECH_FRAMES_PER_S, threshold = silence->threshold;
	double window_end = offset + (double)SPEECH_FRAMES / SPEECH_FRAMES_PER_S;
	double heard_end = offset + (double)silence->n_frames / SPEECH_FRAMES_PER_S;
	const struct speech_draft *first = with_words(segments, *n);
	*skip = false;
	if (first && is_odd(words, first) && first->start - offset > threshold) {
		*next_frame = silence->frame + frame_at(first->start - offset);
		*n = 0;
		*skip = true;
		return true;
	}
	double last_end = silence->last_speech;
	for (uint32_t i = 0; i < *n; i++) {
		const struct speech_draft *segment = &segments[i];
		if (!segment->n_words)
			continue;
		if (is_odd(words, segment)) {
			const struct speech_draft *next = with_words(segments + i + 1, *n - i - 1);
			double next_start = next ? words->words[next->first_word].start : heard_end;
			bool before = segment->start - last_end > threshold || segment->start < threshold ||
				      segment->start - offset < 2;
			bool after = next_start - segment->end > threshold || is_odd(words, next) ||
				     window_end - segment->end < 2;
			if (before && after) {
				double content = (double)silence->content_frames / SPEECH_FRAMES_PER_S;
				*next_frame = content - segment->end < threshold
						      ? silence->content_frames
						      : frame_at(fmax(offset + 1, segment->start));
				*n = i;
				return true;
			}
		}
		last_end = segment->end;
	}
	return false;
}
