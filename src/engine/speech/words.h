/* The words of a window and their times: tokens joined to words, punctuation joined to its word, durations that can't
 * be right cut. The rules and their numbers are those of faster-whisper, the reference. */
#ifndef WEIGHTD_ENGINE_SPEECH_WORDS_H
#define WEIGHTD_ENGINE_SPEECH_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "src/engine/speech/text.h"
#include "src/engine/speech/windows.h"

struct speech_word {
	size_t text; /* offset in the list's text */
	size_t n_bytes;
	uint32_t n_tokens;
	double start, end; /* s */
	float probability; /* mean of its tokens' */
};

struct speech_words {
	struct speech_word *words; /* [n] owned */
	uint32_t n;
	struct speech_text text; /* of all words, one behind the other */
};
void speech_words_fini(struct speech_words *words);

/* Cuts pieces [n] into words: before a piece that begins with a blank and around punctuation or, `by_characters`,
 * wherever a character ends, for languages that are written without blanks. Times are 0. 0 or -ENOMEM. */
int speech_words_split(const struct speech_piece *pieces, uint32_t n, bool by_characters, struct speech_words *out);

/* Whether a language (its code) is written without blanks. */
bool speech_by_characters(const char *code);

/* Gives words their times (s, from the window's begin) and probabilities. `frames` [n_tokens + 1]: the first frame of
 * each token and of the end; `probabilities` [n_tokens]. n_tokens is the sum of the words'. */
void speech_words_time(struct speech_words *words, const uint32_t *frames, const float *probabilities);

/* How long words take, in s. */
struct speech_pace {
	double median, max;
};
/* Measures it, and cuts words at the ends of sentences that are longer. 0 or -ENOMEM. */
int speech_words_pace(struct speech_words *words, struct speech_pace *pace);

/* Joins punctuation of `prepended` to the word behind it, of `appended` to that before it. What was joined leaves an
 * empty word without tokens behind. */
void speech_words_join(struct speech_words *words, const char *prepended, const char *appended);

/* Deals the words out to the segments [n] of the window that begins at time_offset, drops empty ones, makes times those
 * of the whole audio and rounds them to 0.01 s; cuts long words after a pause; then a segment begins and ends with its
 * words, unless they are too long. `last_speech`: s, the end of the last word before. */
void speech_words_deal(struct speech_words *words, struct speech_draft *segments, uint32_t n, double time_offset,
		       const struct speech_pace *pace, double last_speech);

#endif
