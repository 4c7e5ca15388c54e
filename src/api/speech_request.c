#include "src/api/speech_request.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "src/api/speech_language.h"
#include "src/engine/utf8.h"

struct row;
typedef int reader(const struct row *row, const char *value, size_t n_bytes, struct speech_request *request,
		   struct api_error *error);

struct row {
	const char *name;
	unsigned endpoints; /* set of T, E */
	reader *read;
	double min, max;
	size_t offset;	 /* of its place in struct speech_request, for the scalar readers */
	const char *off; /* of what is not supported: the values that ask for nothing, separated by blanks */
};

/* --- readers ---------------------------------------------------------------------------------- */

static bool is_word(const char *value, size_t n, const char *word)
{
	return strlen(word) == n && strncasecmp(value, word, n) == 0;
}

static int wrong(const struct row *row, const char *wanted, const char *value, size_t n, struct api_error *error)
{
	return api_error_set(error, 400, "invalid_value", row->name, "'%s' must be %s, not '%.*s'", row->name, wanted,
			     n > 64 ? 64 : (int)n, value);
}

/* Python's clients write True and False. */
static int read_bool(const struct row *row, const char *value, size_t n, struct speech_request *request,
		     struct api_error *error)
{
	bool yes = is_word(value, n, "true") || is_word(value, n, "1");
	if (!yes && !is_word(value, n, "false") && !is_word(value, n, "0"))
		return wrong(row, "true or false", value, n, error);
	*(bool *)((char *)request + row->offset) = yes;
	return 0;
}

/* A decimal number, all of the value. False: it is none. */
static bool parse(const char *value, size_t n, double *out)
{
	char text[64], *end;
	size_t sign = n && value[0] == '-';
	/* strtod would take blanks, hexadecimal numbers, infinities. */
	if (n >= sizeof text || n == sign || !strchr("0123456789.", value[sign]))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!value[i] || !strchr("0123456789.eE+-", value[i]))
			return false;
	memcpy(text, value, n);
	text[n] = '\0';
	*out = strtod(text, &end);
	return *end == '\0' && end != text && isfinite(*out);
}

static int read_number(const struct row *row, const char *value, size_t n, double *out, struct api_error *error)
{
	if (!parse(value, n, out))
		return wrong(row, "a number", value, n, error);
	if (*out < row->min || *out > row->max)
		return api_error_set(error, 400, "out_of_range", row->name, "'%s' must be from %.10g to %.10g",
				     row->name, row->min, row->max);
	return 0;
}

static int read_f32(const struct row *row, const char *value, size_t n, struct speech_request *request,
		    struct api_error *error)
{
	double number;
	if (read_number(row, value, n, &number, error))
		return -1;
	*(float *)((char *)request + row->offset) = (float)number;
	return 0;
}

static int read_u32(const struct row *row, const char *value, size_t n, struct speech_request *request,
		    struct api_error *error)
{
	double number;
	if (read_number(row, value, n, &number, error))
		return -1;
	if (number != floor(number))
		return wrong(row, "an integer", value, n, error);
	*(uint32_t *)((char *)request + row->offset) = (uint32_t)number;
	return 0;
}

static int read_seed(const struct row *row, const char *value, size_t n, struct speech_request *request,
		     struct api_error *error)
{
	char text[24], *end;
	size_t digits = n && value[0] == '-';
	if (n >= sizeof text || n == digits || value[digits] < '0' || value[digits] > '9')
		return wrong(row, "an integer of 64 bits", value, n, error);
	memcpy(text, value, n);
	text[n] = '\0';
	errno = 0;
	request->seed = digits ? (uint64_t)strtoll(text, &end, 10) : strtoull(text, &end, 10);
	if (errno || end != text + n)
		return wrong(row, "an integer of 64 bits", value, n, error);
	request->has_seed = true;
	return 0;
}

/* A text for the model. */
static int read_text(const struct row *row, const char *value, size_t n, struct speech_request *request,
		     struct api_error *error)
{
	struct api_json *text = (struct api_json *)((char *)request + row->offset);
	if (!utf8_is_valid(value, n))
		return api_error_set(error, 400, "invalid_value", row->name, "'%s' is not UTF-8", row->name);
	api_json_raw(text, value, n);
	return text->failed ? api_error_set(error, 500, NULL, NULL, "out of memory") : 0;
}

static int read_model(const struct row *row, const char *value, size_t n, struct speech_request *request,
		      struct api_error *error)
{
	if (n < 1 || n >= sizeof request->model || memchr(value, 0, n))
		return api_error_set(error, 400, "out_of_range", row->name, "'model' must have 1 to 127 bytes");
	memcpy(request->model, value, n);
	request->model[n] = '\0';
	return 0;
}

static int read_language(const struct row *row, const char *value, size_t n, struct speech_request *request,
			 struct api_error *error)
{
	memset(request->speech.language, 0, sizeof request->speech.language);
	if (n == 0 || is_word(value, n, "auto"))
		return 0;
	const char *code = speech_language_code(value, n);
	if (!code)
		return wrong(row, "a code (ISO 639-1, such as \"en\") of a language that Whisper knows", value, n,
			     error);
	memcpy(request->speech.language, code, strlen(code));
	return 0;
}

static int read_format(const struct row *row, const char *value, size_t n, struct speech_request *request,
		       struct api_error *error)
{
	static const char *const formats[] = {[SPEECH_JSON] = "json",
					      [SPEECH_TEXT] = "text",
					      [SPEECH_SRT] = "srt",
					      [SPEECH_VERBOSE_JSON] = "verbose_json",
					      [SPEECH_VTT] = "vtt"};
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
		if (is_word(value, n, formats[i])) {
			request->format = (enum speech_format)i;
			return 0;
		}
	}
	return wrong(row, "json, text, srt, verbose_json or vtt", value, n, error);
}

static int read_granularity(const struct row *row, const char *value, size_t n, struct speech_request *request,
			    struct api_error *error)
{
	if (is_word(value, n, "word"))
		request->wants_words = true;
	else if (is_word(value, n, "segment"))
		request->wants_segments = true;
	else
		return wrong(row, "word or segment", value, n, error);
	return 0;
}

static int read_unsupported(const struct row *row, const char *value, size_t n, struct speech_request *request,
			    struct api_error *error)
{
	(void)request;
	for (const char *word = row->off; word && *word;) {
		size_t length = strcspn(word, " ");
		if (length == n && strncasecmp(word, value, n) == 0)
			return 0;
		word += length + (word[length] == ' ');
	}
	return api_error_set(error, 400, "unsupported_field", row->name, "'%s' is not supported in this version%s%s%s",
			     row->name, row->off ? " (may be: " : "", row->off ? row->off : "", row->off ? ")" : "");
}

static int read_ignored(const struct row *row, const char *value, size_t n, struct speech_request *request,
			struct api_error *error)
{
	(void)row, (void)value, (void)n, (void)request, (void)error;
	return 0;
}

/* --- the table -------------------------------------------------------------------------------- */

#define AT(member) offsetof(struct speech_request, member)
enum { T = 1 /* transcriptions */, E = 2 /* translations */, TE = T | E };

/* clang-format off */
static const struct row table[] = {
	{"model",                          TE, read_model, 0, 0, 0, NULL},
	{"response_format",                TE, read_format, 0, 0, 0, NULL},
	{"prompt",                         TE, read_text, 0, 0, AT(initial_prompt), NULL},
	{"temperature",                    TE, read_f32, 0, 1, AT(temperature), NULL},
	{"language",                       TE, read_language, 0, 0, 0, NULL}, /* OpenAI: T alone */
	{"stream",                         T,  read_bool, 0, 0, AT(stream), NULL},
	{"timestamp_granularities[]",      T,  read_granularity, 0, 0, 0, NULL},
	{"timestamp_granularities",        T,  read_granularity, 0, 0, 0, NULL},

	{"seed",                           TE, read_seed, 0, 0, 0, NULL},
	{"beam_size",                      TE, read_u32, 1, CALL_BEAMS_MAX, AT(speech.beam_size), NULL},
	{"best_of",                        TE, read_u32, 1, CALL_BEAMS_MAX, AT(speech.best_of), NULL},
	{"patience",                       TE, read_f32, 0.01, 10, AT(speech.patience), NULL},
	{"length_penalty",                 TE, read_f32, -10, 10, AT(speech.length_penalty), NULL},
	{"repetition_penalty",             TE, read_f32, 0.1, 10, AT(speech.repetition_penalty), NULL},
	{"no_repeat_ngram_size",           TE, read_u32, 0, CALL_SEGMENT_TOKENS_MAX, AT(speech.no_repeat_ngram_size), NULL},
	{"max_new_tokens",                 TE, read_u32, 1, CALL_SEGMENT_TOKENS_MAX, AT(speech.max_new_tokens), NULL},
	{"compression_ratio_threshold",    TE, read_f32, 0, 1e6, AT(speech.compression_ratio_threshold), NULL},
	{"log_prob_threshold",             TE, read_f32, -1e6, 0, AT(speech.log_prob_threshold), NULL},
	{"no_speech_threshold",            TE, read_f32, 0, 1, AT(speech.no_speech_threshold), NULL},
	{"condition_on_previous_text",     TE, read_bool, 0, 0, AT(condition), NULL},
	{"prompt_reset_on_temperature",    TE, read_f32, 0, 2, AT(speech.prompt_reset_on_temperature), NULL},
	{"prefix",                         TE, read_text, 0, 0, AT(prefix), NULL},
	{"hotwords",                       TE, read_text, 0, 0, AT(hotwords), NULL},
	{"suppress_blank",                 TE, read_bool, 0, 0, AT(suppress_blank), NULL},
	{"without_timestamps",             TE, read_bool, 0, 0, AT(no_timestamps), NULL},
	{"max_initial_timestamp",          TE, read_f32, 0, 30, AT(speech.max_initial_timestamp), NULL},
	{"word_timestamps",                TE, read_bool, 0, 0, AT(word_timestamps), NULL},
	{"hallucination_silence_threshold", TE, read_f32, 0, 1e6, AT(speech.hallucination_silence_threshold), NULL},
	{"language_detection_threshold",   TE, read_f32, 0, 1, AT(speech.language_detection_threshold), NULL},
	{"language_detection_segments",    TE, read_u32, 1, 64, AT(speech.language_detection_segments), NULL},

	{"user",                           TE, read_ignored, 0, 0, 0, NULL}, /* changes nothing of the answer */

	/* These would change it and can't be honoured; the values at the end ask for nothing. */
	{"include[]",                      T,  read_unsupported, 0, 0, 0, NULL}, /* logprobs of tokens */
	{"include",                        T,  read_unsupported, 0, 0, 0, NULL},
	{"chunking_strategy",              T,  read_unsupported, 0, 0, 0, "null"},
	{"known_speaker_names[]",          T,  read_unsupported, 0, 0, 0, NULL},
	{"known_speaker_references[]",     T,  read_unsupported, 0, 0, 0, NULL},
	{"vad_filter",                     TE, read_unsupported, 0, 0, 0, "false 0"},
	{"vad_parameters",                 TE, read_unsupported, 0, 0, 0, NULL},
	{"suppress_tokens",                TE, read_unsupported, 0, 0, 0, "-1 [-1]"},
	{"clip_timestamps",                TE, read_unsupported, 0, 0, 0, "0"},
	{"multilingual",                   TE, read_unsupported, 0, 0, 0, "false 0"},
};
/* clang-format on */
enum { N_ROWS = sizeof table / sizeof *table };
static_assert(N_ROWS <= 64, "`given` is a set of them");

const char *speech_request_row(size_t i)
{
	return i < N_ROWS ? table[i].name : NULL;
}

/* --- the request ------------------------------------------------------------------------------ */

void speech_request_init(struct speech_request *request, bool translate)
{
	*request = (struct speech_request){
		.translate = translate,
		.condition = true,
		.suppress_blank = true,
		.speech =
			{
				.beam_size = 5,
				.best_of = 5,
				.patience = 1,
				.length_penalty = 1,
				.repetition_penalty = 1,
				.compression_ratio_threshold = 2.4f,
				.log_prob_threshold = -1,
				.no_speech_threshold = 0.6f,
				.prompt_reset_on_temperature = 0.5f,
				.max_initial_timestamp = 1,
				.language_detection_threshold = 0.5f,
				.language_detection_segments = 1,
			},
	};
}

void speech_request_fini(struct speech_request *request)
{
	api_json_fini(&request->initial_prompt);
	api_json_fini(&request->prefix);
	api_json_fini(&request->hotwords);
}

static bool is_list(const struct row *row)
{
	return row->read == read_granularity;
}

int speech_request_field(struct speech_request *request, const char *name, const char *value, size_t n_bytes,
			 struct api_error *error)
{
	for (size_t i = 0; i < N_ROWS; i++) {
		const struct row *row = &table[i];
		if (!(row->endpoints & (request->translate ? E : T)) || strcmp(row->name, name) != 0)
			continue;
		if (n_bytes > SPEECH_VALUE_MAX)
			return api_error_set(error, 400, "out_of_range", name, "'%s' must have at most %d bytes", name,
					     SPEECH_VALUE_MAX);
		if (request->given >> i & 1 && !is_list(row)) /* two readers would disagree on which one counts */
			return api_error_set(error, 400, "duplicate_field", name, "'%s' is there twice", name);
		request->given |= UINT64_C(1) << i;
		return row->read(row, value, n_bytes, request, error);
	}
	if (strcmp(name, "file") == 0)
		return api_error_set(error, 400, "invalid_type", "file", "'file' must be a file, with a filename");
	return api_error_set(error, 400, "unknown_field", name, "unknown field '%.64s'", name);
}

/* A temperature of 0 is what is tried first (OpenAI's documentation: the model then raises it by itself where the
 * answer is doubtful); any other is the only one. */
static void set_temperatures(struct speech_request *request)
{
	struct call_speech *speech = &request->speech;
	speech->n_temperatures = request->temperature > 0 ? 1 : 6;
	for (uint32_t i = 0; i < speech->n_temperatures; i++)
		speech->temperatures[i] = request->temperature > 0 ? request->temperature : 0.2f * (float)i;
}

int speech_request_end(struct speech_request *request, bool has_file, struct api_error *error)
{
	bool lists = request->wants_words || request->wants_segments;
	if (!has_file)
		return api_error_set(error, 400, "missing_field", "file", "'file' is missing");
	if (lists && request->format != SPEECH_VERBOSE_JSON)
		return api_error_set(error, 400, "invalid_value", "timestamp_granularities[]",
				     "'timestamp_granularities[]' wants 'response_format' to be verbose_json");
	if (request->stream && request->format != SPEECH_JSON && request->format != SPEECH_TEXT)
		return api_error_set(error, 400, "invalid_value", "response_format",
				     "'stream' wants 'response_format' to be json or text");
	if (request->no_timestamps && (request->wants_words || request->word_timestamps))
		return api_error_set(error, 400, "invalid_value", "without_timestamps",
				     "'without_timestamps' and times of words exclude each other");
	if (request->speech.hallucination_silence_threshold > 0 && !request->wants_words && !request->word_timestamps)
		return api_error_set(error, 400, "invalid_value", "hallucination_silence_threshold",
				     "'hallucination_silence_threshold' wants 'word_timestamps'");
	if (request->word_timestamps && request->format == SPEECH_VERBOSE_JSON)
		request->wants_words = request->wants_segments = true;
	if (!lists)
		request->wants_segments = true;
	set_temperatures(request);
	request->speech.flags = (request->condition ? CALL_SPEECH_CONDITION : 0) |
				(request->suppress_blank ? CALL_SPEECH_SUPPRESS_BLANK : 0) |
				CALL_SPEECH_SUPPRESS_SYMBOLS |
				(request->no_timestamps ? CALL_SPEECH_NO_TIMESTAMPS : 0) |
				(request->wants_words || request->word_timestamps ? CALL_SPEECH_WORDS : 0);
	return 0;
}

void speech_request_call(const struct speech_request *request, uint64_t seed, double duration, uint64_t n_frames,
			 uint32_t mel_bins, struct call_begin *begin, struct call_speech *speech,
			 struct api_json *bytes)
{
	*speech = request->speech;
	speech->duration = duration;
	speech->n_frames = n_frames;
	speech->mel_bins = mel_bins;
	speech->initial_prompt_bytes = (uint32_t)request->initial_prompt.n;
	speech->prefix_bytes = (uint32_t)request->prefix.n;
	speech->hotwords_bytes = (uint32_t)request->hotwords.n;
	api_json_raw(bytes, request->initial_prompt.bytes, request->initial_prompt.n);
	api_json_raw(bytes, request->prefix.bytes, request->prefix.n);
	api_json_raw(bytes, request->hotwords.bytes, request->hotwords.n);
	*begin = (struct call_begin){
		.kind = request->translate ? CALL_KIND_TRANSLATE : CALL_KIND_TRANSCRIBE,
		.seed = request->has_seed ? request->seed : seed,
		.prompt_bytes = (uint64_t)bytes->n + n_frames * mel_bins * sizeof(float),
	};
}
