#include "src/api/speech_answer.h"

#include <math.h>
#include <string.h>

#include "src/api/speech_language.h"

void speech_answer_init(struct speech_answer *answer, const struct speech_request *request, double duration)
{
	*answer = (struct speech_answer){.translate = request->translate,
					 .wants_words = request->wants_words,
					 .wants_segments = request->wants_segments,
					 .format = request->format,
					 .duration = duration};
}

void speech_answer_fini(struct speech_answer *answer)
{
	api_json_fini(&answer->text);
	api_json_fini(&answer->segments);
	api_json_fini(&answer->words);
	api_json_fini(&answer->cues);
}

bool speech_answer_failed(const struct speech_answer *answer)
{
	return answer->text.failed || answer->segments.failed || answer->words.failed || answer->cues.failed;
}

void speech_answer_language(struct speech_answer *answer, const struct call_language *language)
{
	memcpy(answer->language, language->language, sizeof answer->language);
	answer->probability = language->probability;
}

/* --- numbers ---------------------------------------------------------------------------------- */

static uint64_t milliseconds(double seconds)
{
	return (uint64_t)llround(seconds * 1000);
}

/* Seconds, to the millisecond, and with a decimal even where it is 0, so that every reader takes it for a real. */
static void write_seconds(double seconds, struct api_json *out)
{
	uint64_t ms = milliseconds(seconds);
	unsigned part = (unsigned)(ms % 1000), digits = 3;
	while (digits > 1 && part % 10 == 0) {
		part /= 10;
		digits--;
	}
	api_json_format(out, "%llu.%0*u", (unsigned long long)(ms / 1000), (int)digits, part);
}

/* HH:MM:SS and milliseconds behind `point`. Hours have two digits or more: both formats allow that. */
static void write_clock(double seconds, char point, struct api_json *out)
{
	uint64_t ms = milliseconds(seconds);
	api_json_format(out, "%02llu:%02u:%02u%c%03u", (unsigned long long)(ms / 3600000), (unsigned)(ms / 60000 % 60),
			(unsigned)(ms / 1000 % 60), point, (unsigned)(ms % 1000));
}

/* --- texts ------------------------------------------------------------------------------------ */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}

/* Without blanks around it. */
static void trim(const char **text, size_t *n)
{
	while (*n && is_blank(**text)) {
		++*text;
		--*n;
	}
	while (*n && is_blank((*text)[*n - 1]))
		--*n;
}

/* A cue's text is one line: an empty one would end the cue. "-->" must not be in it: in WebVTT (W3C, section 4.2.2)
 * '&' and '<' begin something else, too; SubRip has no escape. */
static void write_line(const char *text, size_t n, bool is_vtt, struct api_json *out)
{
	for (size_t i = 0; i < n; i++) {
		if (text[i] == '\n' || text[i] == '\r' || text[i] == '\0')
			api_json_raw(out, " ", 1);
		else if (is_vtt && text[i] == '&')
			api_json_text(out, "&amp;");
		else if (is_vtt && text[i] == '<')
			api_json_text(out, "&lt;");
		else if (is_vtt && text[i] == '>')
			api_json_text(out, "&gt;");
		else if (!is_vtt && n - i >= 3 && memcmp(text + i, "-->", 3) == 0) {
			api_json_text(out, "->");
			i += 2;
		} else {
			api_json_raw(out, text + i, 1);
		}
	}
}

static void add_cue(struct speech_answer *answer, const struct call_segment *head, const char *text, size_t n)
{
	bool is_vtt = answer->format == SPEECH_VTT;
	struct api_json *out = &answer->cues;
	if (!is_vtt)
		api_json_format(out, "%u\n", answer->n_cues + 1);
	write_clock(head->start, is_vtt ? '.' : ',', out);
	api_json_text(out, " --> ");
	write_clock(head->end, is_vtt ? '.' : ',', out);
	api_json_text(out, "\n");
	write_line(text, n, is_vtt, out);
	api_json_text(out, "\n\n");
	answer->n_cues++;
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void add_words(struct speech_answer *answer, const struct record_segment *segment)
{
	struct api_json *out = &answer->words;
	for (uint32_t i = 0; i < segment->head.n_words; i++) {
		const struct record_word *word = &segment->words[i];
		const char *text = word->text;
		size_t n = word->text_bytes;
		trim(&text, &n);
		api_json_text(out, out->n ? ",{\"word\":" : "{\"word\":");
		api_json_string(out, text, n);
		api_json_text(out, ",\"start\":");
		write_seconds(word->start, out);
		api_json_text(out, ",\"end\":");
		write_seconds(word->end, out);
		api_json_text(out, ",\"probability\":");
		api_json_f32(out, word->probability);
		api_json_text(out, "}");
	}
}

static void add_segment(struct speech_answer *answer, const struct record_segment *segment)
{
	const struct call_segment *head = &segment->head;
	struct api_json *out = &answer->segments;
	api_json_format(out, "%s{\"id\":%u,\"seek\":%u,\"start\":", out->n ? "," : "", head->id, head->seek);
	write_seconds(head->start, out);
	api_json_text(out, ",\"end\":");
	write_seconds(head->end, out);
	api_json_text(out, ",\"text\":");
	api_json_string(out, segment->text, head->text_bytes);
	api_json_text(out, ",\"tokens\":[");
	for (uint32_t i = 0; i < head->n_tokens; i++)
		api_json_format(out, "%s%u", i ? "," : "", segment->tokens[i]);
	api_json_text(out, "],\"temperature\":");
	api_json_f32(out, head->temperature);
	api_json_text(out, ",\"avg_logprob\":");
	api_json_f32(out, head->avg_logprob);
	api_json_text(out, ",\"compression_ratio\":");
	api_json_f32(out, head->compression_ratio);
	api_json_text(out, ",\"no_speech_prob\":");
	api_json_f32(out, head->no_speech_prob);
	api_json_text(out, "}");
}

/* --- the answer ------------------------------------------------------------------------------- */

void speech_answer_segment(struct speech_answer *answer, const struct record_segment *segment)
{
	const char *text = segment->text;
	size_t n = segment->head.text_bytes;
	answer->n_segments++;
	if (answer->format == SPEECH_VERBOSE_JSON && answer->wants_segments)
		add_segment(answer, segment);
	if (answer->format == SPEECH_VERBOSE_JSON && answer->wants_words)
		add_words(answer, segment);
	bool spaced = n && is_blank(*text);
	trim(&text, &n);
	if (!n)
		return;
	if (answer->format == SPEECH_SRT || answer->format == SPEECH_VTT)
		add_cue(answer, &segment->head, text, n);
	if (answer->text.n && spaced) /* in some languages there is none between sentences */
		api_json_raw(&answer->text, " ", 1);
	api_json_raw(&answer->text, text, n);
}

/* Clients are told in whole seconds how much was heard, as OpenAI tells them; begun ones count. */
static void write_usage(const struct speech_answer *answer, struct api_json *out)
{
	api_json_format(out, ",\"usage\":{\"type\":\"duration\",\"seconds\":%.0f}", ceil(answer->duration));
}

static void write_verbose(const struct speech_answer *answer, struct api_json *out)
{
	const char *language = speech_language_name(answer->language);
	api_json_format(out, "{\"task\":\"%s\",\"language\":", answer->translate ? "translate" : "transcribe");
	api_json_string(out, language, strlen(language));
	api_json_text(out, ",\"language_probability\":");
	api_json_f32(out, answer->probability);
	api_json_text(out, ",\"duration\":");
	write_seconds(answer->duration, out);
	api_json_text(out, ",\"text\":");
	api_json_string(out, answer->text.bytes, answer->text.n);
	if (answer->wants_segments) {
		api_json_text(out, ",\"segments\":[");
		api_json_raw(out, answer->segments.bytes, answer->segments.n);
		api_json_text(out, "]");
	}
	if (answer->wants_words) {
		api_json_text(out, ",\"words\":[");
		api_json_raw(out, answer->words.bytes, answer->words.n);
		api_json_text(out, "]");
	}
	write_usage(answer, out);
	api_json_text(out, "}");
}

void speech_answer_write(const struct speech_answer *answer, struct api_json *out)
{
	out->failed |= speech_answer_failed(answer);
	switch (answer->format) {
	case SPEECH_JSON:
		api_json_text(out, "{\"text\":");
		api_json_string(out, answer->text.bytes, answer->text.n);
		write_usage(answer, out);
		api_json_text(out, "}");
		break;
	case SPEECH_TEXT:
		api_json_raw(out, answer->text.bytes, answer->text.n);
		api_json_text(out, "\n");
		break;
	case SPEECH_VERBOSE_JSON:
		write_verbose(answer, out);
		break;
	case SPEECH_VTT:
		api_json_text(out, "WEBVTT\n\n");
		api_json_raw(out, answer->cues.bytes, answer->cues.n);
		break;
	case SPEECH_SRT:
		api_json_raw(out, answer->cues.bytes, answer->cues.n);
		break;
	}
}

const char *speech_answer_type(const struct speech_answer *answer)
{
	switch (answer->format) {
	case SPEECH_TEXT:
		return "text/plain; charset=utf-8";
	case SPEECH_SRT:
		return "application/x-subrip; charset=utf-8";
	case SPEECH_VTT:
		return "text/vtt; charset=utf-8";
	default:
		return "application/json";
	}
}

void speech_answer_write_delta(const struct speech_answer *answer, size_t before, struct api_json *out)
{
	out->failed |= speech_answer_failed(answer);
	if (answer->text.n == before)
		return;
	api_json_text(out, "data: {\"type\":\"transcript.text.delta\",\"delta\":");
	api_json_string(out, answer->text.bytes + before, answer->text.n - before);
	api_json_text(out, "}\n\n");
}

void speech_answer_write_end(const struct speech_answer *answer, struct api_json *out)
{
	out->failed |= speech_answer_failed(answer);
	api_json_text(out, "data: {\"type\":\"transcript.text.done\",\"text\":");
	api_json_string(out, answer->text.bytes, answer->text.n);
	write_usage(answer, out);
	api_json_text(out, "}\n\n");
}
