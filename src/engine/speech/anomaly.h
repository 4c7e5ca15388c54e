/* Segments that are probably not there: words that are improbable, too short or too long, with silence around them.
 * The rules and their numbers are those of faster-whisper, the reference. */
#ifndef WEIGHTD_ENGINE_SPEECH_ANOMALY_H
#define WEIGHTD_ENGINE_SPEECH_ANOMALY_H

#include <stdbool.h>
#include <stdint.h>

#include "src/engine/speech/windows.h"
#include "src/engine/speech/words.h"

struct speech_silence {
	double threshold;	  /* s of silence */
	double last_speech;	  /* s, end of the last word before the window */
	uint32_t frame, n_frames; /* the window */
	uint32_t content_frames;  /* the whole audio */
};

/* Looks at the window's segments [*n] with their words. Returns true when the next window has to begin at *next_frame
 * instead. Then what is left of the segments, the first *n, is to be kept; 0 also means that nothing of the window
 * counts, not even for what comes after, when *skip is set. */
bool speech_anomaly(const struct speech_silence *silence, const struct speech_words *words,
		    const struct speech_draft *segments, uint32_t *n, uint32_t *next_frame, bool *skip);

#endif
