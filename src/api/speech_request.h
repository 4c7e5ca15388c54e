/* A request to hear speech: POST /v1/audio/transcriptions and /v1/audio/translations. Its fields come one by one, as
 * parts of a form, and are texts; one table (speech_request.c) knows the type, the range and the endpoints of each.
 * What holds for JSON requests holds here: a field that would change the answer and is not supported, or is not known,
 * is refused with its name, never skipped.
 *
 * Fields beyond OpenAI's are faster-whisper's, by its names; what is not said is as there. */
#ifndef WEIGHTD_SRC_API_SPEECH_REQUEST_H
#define WEIGHTD_SRC_API_SPEECH_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/api/error.h"
#include "src/api/json.h"
#include "src/call.h"

enum speech_format { SPEECH_JSON, SPEECH_TEXT, SPEECH_SRT, SPEECH_VERBOSE_JSON, SPEECH_VTT };

enum { SPEECH_VALUE_MAX = CALL_SPEECH_TEXT_MAX, SPEECH_FIELDS_MAX = 48 };

struct speech_request {
	bool translate;
	char model[128]; /* "": not named */
	enum speech_format format;
	bool stream;
	bool wants_words, wants_segments; /* of verbose_json */
	uint64_t seed;
	bool has_seed;
	struct call_speech speech; /* all but what the audio and the model say: duration, n_frames, mel_bins */
	struct api_json initial_prompt, prefix, hotwords; /* owned */

	/* As read, before speech_request_end makes the above of it. */
	uint64_t given; /* set of table rows */
	bool condition, suppress_blank, no_timestamps, word_timestamps;
	float temperature;
};

void speech_request_init(struct speech_request *request, bool translate);
void speech_request_fini(struct speech_request *request);

/* One part of the form that is no file; `value` are any bytes. -1 with a 400 that names the field. */
int speech_request_field(struct speech_request *request, const char *name, const char *value, size_t n_bytes,
			 struct api_error *error);
/* The form has ended: rules between fields. */
int speech_request_end(struct speech_request *request, bool has_file, struct api_error *error);

/* The call for a worker: `begin` and `speech`, and the texts that its bytes begin with. `seed`: where it named none. */
void speech_request_call(const struct speech_request *request, uint64_t seed, double duration, uint64_t n_frames,
			 uint32_t mel_bins, struct call_begin *begin, struct call_speech *speech,
			 struct api_json *bytes);

/* Every row's name, for tests that go through all of them; NULL behind the last. */
const char *speech_request_row(size_t i);

#endif
