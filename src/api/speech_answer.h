/* What was heard, as OpenAI's clients expect to read it: JSON, plain text, SubRip (srt), WebVTT (vtt), or events while
 * it is being heard. It grows with each segment as finished text of its format; only plain text is kept beside it. */
#ifndef WEIGHTD_SRC_API_SPEECH_ANSWER_H
#define WEIGHTD_SRC_API_SPEECH_ANSWER_H

#include <stdbool.h>

#include "src/api/json.h"
#include "src/api/speech_request.h"
#include "src/record.h"

struct speech_answer {
	bool translate, wants_words, wants_segments;
	enum speech_format format;
	double duration; /* seconds of the audio */
	char language[8];
	float probability;		 /* of that language */
	uint32_t n_segments, n_cues;	 /* cues: segments that have a text */
	struct api_json text;		 /* of all segments, without blanks around it; owned */
	struct api_json segments, words; /* JSON, items with commas between; owned */
	struct api_json cues;		 /* srt, vtt; owned */
};

void speech_answer_init(struct speech_answer *answer, const struct speech_request *request, double duration);
void speech_answer_fini(struct speech_answer *answer);
bool speech_answer_failed(const struct speech_answer *answer); /* out of memory */

void speech_answer_language(struct speech_answer *answer, const struct call_language *language);
void speech_answer_segment(struct speech_answer *answer, const struct record_segment *segment);

/* The whole body, and its type. Out of memory shows as out->failed. */
void speech_answer_write(const struct speech_answer *answer, struct api_json *out);
const char *speech_answer_type(const struct speech_answer *answer);

/* As server-sent events: what the segment that speech_answer_segment has just been given adds to the text (nothing, if
 * it has no text), and the last one. The deltas, one after the other, are the whole text. `before`: answer->text.n
 * before that segment. */
void speech_answer_write_delta(const struct speech_answer *answer, size_t before, struct api_json *out);
void speech_answer_write_end(const struct speech_answer *answer, struct api_json *out);

#endif
