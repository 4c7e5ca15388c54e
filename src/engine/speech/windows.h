/* A window's tokens as segments, and where the next window begins. Frames are those of the spectrogram, 0.01 s each;
 * timestamps and the encoder's positions are 0.02 s apart. */
#ifndef WEIGHTD_ENGINE_SPEECH_WINDOWS_H
#define WEIGHTD_ENGINE_SPEECH_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

enum {
	SPEECH_FRAMES_PER_S = 100,
	SPEECH_FRAMES = 3000, /* a window of 30 s */
	SPEECH_FRAMES_PER_POSITION = 2,
	SPEECH_POSITIONS_PER_S = SPEECH_FRAMES_PER_S / SPEECH_FRAMES_PER_POSITION,
};

/* A segment that is not finished: a slice of the window's tokens, and later of its words. */
struct speech_draft {
	double start, end; /* s */
	uint32_t first_token, n_tokens;
	uint32_t n_text_tokens; /* those of them below the end's id */
	uint32_t first_word, n_words;
};

struct speech_window_split {
	uint32_t n_drafts;
	uint32_t next_frame;
	bool single_ending; /* one timestamp at the end: nothing was said behind it */
};

/* Splits tokens [n] of the window of n_frames that begins at `frame` at pairs of timestamps. What follows the last pair
 * without a timestamp at its end is unfinished: the next window begins there. Without a pair it is one segment.
 * `drafts` has room for n + 1. */
struct speech_window_split speech_window_split(const uint32_t *tokens, uint32_t n, uint32_t eot,
					       uint32_t first_timestamp, uint32_t frame, uint32_t n_frames,
					       struct speech_draft *drafts);

#endif
