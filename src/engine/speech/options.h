/* What a caller may ask of a transcription. The defaults, and what each does, are those of faster-whisper's
 * transcribe(), so that its users find what they know. */
#ifndef WEIGHTD_ENGINE_SPEECH_OPTIONS_H
#define WEIGHTD_ENGINE_SPEECH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/err.h"

enum { SPEECH_MAX_TEMPERATURES = 16, SPEECH_CODE_ROOM = 8 };

struct speech_clip {
	double start, end; /* s; INFINITY: to the end of the audio */
};

struct speech_given {
	const char *bytes; /* [n_bytes] UTF-8; NULL: none */
	size_t n_bytes;
};

/* All pointers are borrowed while a task is made. Thresholds are off when they are NAN. */
struct speech_options {
	char language[SPEECH_CODE_ROOM]; /* "en"; "": detected */
	bool translate;			 /* to English */
	bool multilingual;		 /* the language is detected again for every window */
	float language_threshold;	 /* detection is sure above this probability */
	uint32_t language_windows;	 /* windows that detection may look at, 1.. */

	uint32_t beam_size, best_of; /* 1..SPEECH_MAX_BEAMS */
	float patience, length_penalty, repetition_penalty;
	uint32_t no_repeat_ngram_size;
	uint32_t max_new_tokens; /* for each window; 0: half of the model's context */
	uint64_t seed;		 /* of draws */

	float temperatures[SPEECH_MAX_TEMPERATURES]; /* [n_temperatures] one after the other, while a text fails */
	uint32_t n_temperatures;		     /* 1.. */
	float compression_ratio_threshold;	     /* a text fails above it */
	float log_probability_threshold;	     /* a text fails below it (mean over tokens) */
	float no_speech_threshold;		     /* a window of such a failed text is silent above it */

	bool condition_on_previous_text;
	float prompt_reset_on_temperature;
	struct speech_given initial_prompt; /* before the first window, as if it had been heard */
	struct speech_given prefix;	    /* the first window's text begins with it */
	struct speech_given hotwords;	    /* in each window's prompt, not with a prefix */

	bool suppress_blank;
	const int32_t *suppress; /* [n_suppress] ids; -1: the model's list, or what is no speech */
	uint32_t n_suppress;
	bool without_timestamps;
	float max_initial_timestamp; /* s */

	bool word_timestamps;
	const char *prepend_punctuations, *append_punctuations;
	float hallucination_silence_threshold; /* s; only with word_timestamps */
	const struct speech_clip *clips;       /* [n_clips] in rising order; none: everything */
	uint32_t n_clips;
};

void speech_options_default(struct speech_options *options);

/* Checks ranges. 0 or -EINVAL, which names the option. */
int speech_options_check(const struct speech_options *options, struct err *err);

#endif
