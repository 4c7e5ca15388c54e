#include "src/engine/speech/windows.h"

static double seconds(double time_offset, uint32_t token, uint32_t first_timestamp)
{
	return time_offset + ((double)token - first_timestamp) / SPEECH_POSITIONS_PER_S;
}

static struct speech_draft slice(const uint32_t *tokens, uint32_t begin, uint32_t end, uint32_t eot)
{
	struct speech_draft draft = {.first_token = begin, .n_tokens = end - begin};
	for (uint32_t i = begin; i < end; i++)
		draft.n_text_tokens += tokens[i] < eot;
	return draft;
}

struct speech_window_split speech_window_split(const uint32_t *tokens, uint32_t n, uint32_t eot, uint32_t first,
					       uint32_t frame, uint32_t n_frames, struct speech_draft *drafts)
{
	double offset = (double)frame / SPEECH_FRAMES_PER_S;
	struct speech_window_split split = {.next_frame = frame + n_frames,
					    .single_ending = n >= 2 && tokens[n - 2] < first && tokens[n - 1] >= first};
	uint32_t begin = 0;
	for (uint32_t i = 1; i <= n; i++) {
		bool pair = i < n && tokens[i] >= first && tokens[i - 1] >= first;
		if (!pair && !(i == n && begin && split.single_ending))
			continue;
		struct speech_draft *draft = &drafts[split.n_drafts++];
		*draft = slice(tokens, begin, i, eot);
		draft->start = seconds(offset, tokens[begin], first);
		draft->end = seconds(offset, tokens[i - 1], first);
		begin = i;
	}
	if (begin) {
		/* A last timestamp at the very beginning would be the same window again, for ever. */
		if (!split.single_ending && tokens[begin - 1] > first)
			split.next_frame = frame + (tokens[begin - 1] - first) * SPEECH_FRAMES_PER_POSITION;
		return split;
	}
	drafts[0] = slice(tokens, 0, n, eot);
	drafts[0].start = offset;
	drafts[0].end = offset + (double)n_frames / SPEECH_FRAMES_PER_S;
	uint32_t last = n; /* behind the last timestamp */
	while (last && tokens[last - 1] < first)
		last--;
	if (last && tokens[last - 1] != first)
		drafts[0].end = seconds(offset, tokens[last - 1], first);
	split.n_drafts = 1;
	return split;
}
