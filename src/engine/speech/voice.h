/* Where somebody speaks, by loudness alone: frames of the spectrogram that stand out from the quiet of the same audio.
 * What is left out need not be transcribed, and can't be heard wrongly. No model of voices: music is kept, and where
 * loud and quiet hardly differ everything is. Silences that are shorter than a bound stay, and spans get some frames on
 * both sides, as with faster-whisper's filter, whose bounds are the defaults.
 *
 *   audio      ▁▁▁▁▅▇▆▁▁▁▁▁▁▁▁▁▁▅▆▅▂▆▁▁▁
 *   spans         └────┘        └─────┘          speech_voice_find
 *   kept          ▁▅▇▆▁▁▅▆▅▂▆▁                   speech_voice_keep, transcribed as if nothing had been between
 *   times back    speech_voice_span, speech_voice_time */
#ifndef WEIGHTD_ENGINE_SPEECH_VOICE_H
#define WEIGHTD_ENGINE_SPEECH_VOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct speech_span {
	uint32_t begin, end; /* frames of 0.01 s: [begin, end) */
};

struct speech_voice_params {
	float contrast_db;	/* what stands out less from the quiet is no speech; > 0 */
	uint32_t least_speech;	/* frames; shorter sounds are left out */
	uint32_t least_silence; /* frames; shorter silences are kept */
	uint32_t pad;		/* frames kept on both sides of speech */
};

struct speech_voice_params speech_voice_default(void);

/* The loudness, in dB, of a frame of the log-mel spectrogram that the model gets, (log10(power) + 4) / 4 [n_bins]. */
float speech_voice_level(const float *mel, uint32_t n_bins);

/* The spans with speech, rising, apart from each other, of levels [n] in dB (any origin; NaN is quiet). *spans: returns
 * owned, NULL for none. 0 or -ENOMEM. */
int speech_voice_find(const float *levels, uint32_t n, const struct speech_voice_params *params,
		      struct speech_span **spans, uint32_t *n_spans);

/* Moves the frames [n_frames][n_bins] of the spans together, in place; spans end at n_frames at most. Returns their
 * number. */
uint32_t speech_voice_keep(float *mel, uint32_t n_bins, const struct speech_span *spans, uint32_t n_spans);

/* The span that a time (s) of the kept frames is in; `is_end`: a time between two is the end of the first. Times behind
 * the last are its. n_spans >= 1. */
uint32_t speech_voice_span(const struct speech_span *spans, uint32_t n_spans, double time, bool is_end);

/* The time in the whole audio of a time of the kept frames, taken as one of the span; not before it and not behind it.
 */
double speech_voice_time(const struct speech_span *spans, uint32_t span, double time);

#endif
