#include "src/record.h"

#include <errno.h>
#include <math.h>
#include <string.h>

int record_read_accepted(const void *payload, size_t n_bytes, struct call_accepted *out)
{
	struct call_accepted accepted;
	if (n_bytes != sizeof accepted)
		return -EPROTO;
	memcpy(&accepted, payload, sizeof accepted);
	if (accepted.tool_format >= N_TOOL_FORMATS || accepted.reasoning >= N_REASONINGS)
		return -EPROTO;
	*out = accepted;
	return 0;
}

/* The bytes not handed out yet. */
struct rest {
	const char *bytes;
	size_t n;
};

static int take(struct rest *rest, uint32_t n, const char **out)
{
	if (n > rest->n)
		return -EPROTO;
	*out = rest->bytes;
	rest->bytes += n;
	rest->n -= n;
	return 0;
}

int record_read_token(const void *payload, size_t n_bytes, struct record_token *out)
{
	struct rest rest = {payload, n_bytes};
	struct call_token head;
	struct record_token token = {0};
	const char *at;
	if (take(&rest, sizeof head, &at))
		return -EPROTO;
	memcpy(&head, at, sizeof head);
	if (head.n_top > CALL_LOGPROBS_MAX)
		return -EPROTO;
	for (uint32_t i = 0; i < head.n_top; i++) {
		struct call_logprob entry;
		if (take(&rest, sizeof entry, &at))
			return -EPROTO;
		memcpy(&entry, at, sizeof entry);
		token.top[i] = (struct record_piece){entry.id, entry.logprob, NULL, entry.piece_bytes};
	}
	for (uint32_t i = 0; i < head.n_top; i++)
		if (take(&rest, token.top[i].n_bytes, &token.top[i].bytes))
			return -EPROTO;
	token.token = (struct record_piece){head.id, head.logprob, NULL, head.piece_bytes};
	if (take(&rest, head.piece_bytes, &token.token.bytes) || take(&rest, head.text_bytes, &token.text) || rest.n)
		return -EPROTO;
	token.index = head.index;
	token.is_prompt = head.is_prompt != 0;
	token.has_logprob = head.has_logprob != 0;
	token.n_top = head.n_top;
	token.text_bytes = head.text_bytes;
	*out = token;
	return 0;
}

int record_read_done(const void *payload, size_t n_bytes, struct record_done *out)
{
	struct call_done head;
	if (n_bytes < sizeof head)
		return -EPROTO;
	memcpy(&head, payload, sizeof head);
	if (head.text_bytes != n_bytes - sizeof head || head.finish < FINISH_STOP || head.finish > FINISH_CANCELLED)
		return -EPROTO;
	*out = (struct record_done){head.finish, head.prompt_tokens, head.generated_tokens,
				    (const char *)payload + sizeof head, head.text_bytes};
	return 0;
}

int record_read_failed(const void *payload, size_t n_bytes, struct record_failed *out)
{
	struct call_failed head;
	if (n_bytes < sizeof head)
		return -EPROTO;
	memcpy(&head, payload, sizeof head);
	if (head.text_bytes != n_bytes - sizeof head || head.status < 400 || head.status > 599)
		return -EPROTO;
	if (!memchr(head.param, 0, sizeof head.param) || !memchr(head.code, 0, sizeof head.code))
		return -EPROTO;
	*out = (struct record_failed){
		.status = (int)head.status, .text = (const char *)payload + sizeof head, .text_bytes = head.text_bytes};
	memcpy(out->param, head.param, sizeof head.param);
	memcpy(out->code, head.code, sizeof head.code);
	return 0;
}

/* --- speech ----------------------------------------------------------------------------------- */

/* Letters and hyphens, ended by NUL and nothing behind it. */
static bool is_code(const char code[8])
{
	size_t n = strnlen(code, 8);
	if (n == 8)
		return false;
	for (size_t i = 0; i < 8; i++)
		if (i < n ? !((code[i] >= 'a' && code[i] <= 'z') || code[i] == '-') : code[i] != 0)
			return false;
	return true;
}

static bool within(double value, double min, double max)
{
	return value >= min && value <= max; /* and no NaN */
}

int record_read_language(const void *payload, size_t n_bytes, struct call_language *out)
{
	struct call_language language;
	if (n_bytes != sizeof language)
		return -EPROTO;
	memcpy(&language, payload, sizeof language);
	if (!is_code(language.language) || !language.language[0] || !within(language.probability, 0, 1.001))
		return -EPROTO; /* a softmax in float32 may sum to a little more */
	*out = language;
	return 0;
}

int record_read_want(const void *payload, size_t n_bytes, struct call_want *out)
{
	if (n_bytes != sizeof *out)
		return -EPROTO;
	memcpy(out, payload, sizeof *out);
	return 0;
}

/* Times in seconds: of a year at most, and not backwards. */
static bool is_span(double start, double end)
{
	return within(start, 0, 366.0 * 86400) && within(end, start, 366.0 * 86400);
}

static int take_words(struct rest *rest, struct record_segment *segment)
{
	const char *at;
	for (uint32_t i = 0; i < segment->head.n_words; i++) {
		struct call_word word;
		if (take(rest, sizeof word, &at))
			return -EPROTO;
		memcpy(&word, at, sizeof word);
		if (!is_span(word.start, word.end) || !within(word.probability, 0, 1.001))
			return -EPROTO;
		segment->words[i] = (struct record_word){word.start, word.end, word.probability, NULL, word.text_bytes};
	}
	for (uint32_t i = 0; i < segment->head.n_words; i++)
		if (take(rest, segment->words[i].text_bytes, &segment->words[i].text))
			return -EPROTO;
	return 0;
}

int record_read_segment(const void *payload, size_t n_bytes, struct record_segment *out)
{
	struct rest rest = {payload, n_bytes};
	struct call_segment *head = &out->head;
	const char *at;
	if (take(&rest, sizeof *head, &at))
		return -EPROTO;
	memcpy(head, at, sizeof *head);
	if (head->n_tokens > CALL_SEGMENT_TOKENS_MAX || head->n_words > CALL_SEGMENT_TOKENS_MAX ||
	    !is_span(head->start, head->end) || !within(head->temperature, 0, 2) || isnan(head->avg_logprob) ||
	    isnan(head->compression_ratio) || !within(head->no_speech_prob, 0, 1.001))
		return -EPROTO;
	if (take(&rest, head->n_tokens * (uint32_t)sizeof(uint32_t), &at))
		return -EPROTO;
	memcpy(out->tokens, at, head->n_tokens * sizeof(uint32_t));
	if (take_words(&rest, out) || take(&rest, head->text_bytes, &out->text) || rest.n)
		return -EPROTO;
	return 0;
}

uint64_t record_speech_bytes(const struct call_speech *speech)
{
	return (uint64_t)speech->initial_prompt_bytes + speech->prefix_bytes + speech->hotwords_bytes +
	       speech->n_frames * speech->mel_bins * sizeof(float);
}

static bool temperatures_ok(const struct call_speech *s)
{
	if (s->n_temperatures < 1 || s->n_temperatures > CALL_TEMPERATURES_MAX)
		return false;
	for (uint32_t i = 0; i < s->n_temperatures; i++)
		if (!within(s->temperatures[i], 0, 2))
			return false;
	return true;
}

static bool speech_ok(const struct call_speech *s)
{
	return within(s->duration, 0, 366.0 * 86400) && s->n_frames <= UINT32_MAX && s->mel_bins >= 1 &&
	       s->mel_bins <= CALL_MEL_BINS_MAX && !(s->flags & ~(uint32_t)CALL_SPEECH_FLAGS) && is_code(s->language) &&
	       s->beam_size >= 1 && s->beam_size <= CALL_BEAMS_MAX && s->best_of >= 1 && s->best_of <= CALL_BEAMS_MAX &&
	       temperatures_ok(s) && s->no_repeat_ngram_size <= CALL_SEGMENT_TOKENS_MAX &&
	       s->max_new_tokens <= CALL_SEGMENT_TOKENS_MAX && s->patience > 0 && s->patience <= 10 &&
	       within(s->length_penalty, -10, 10) && within(s->repetition_penalty, 0.1f, 10) &&
	       within(s->compression_ratio_threshold, 0, 1e6) && s->log_prob_threshold <= 0 &&
	       within(s->no_speech_threshold, 0, 1) && within(s->prompt_reset_on_temperature, 0, 2) &&
	       within(s->max_initial_timestamp, 0, 30) && within(s->hallucination_silence_threshold, 0, 1e6) &&
	       within(s->language_detection_threshold, 0, 1) && s->language_detection_segments >= 1 &&
	       s->language_detection_segments <= 64 && s->initial_prompt_bytes <= CALL_SPEECH_TEXT_MAX &&
	       s->prefix_bytes <= CALL_SPEECH_TEXT_MAX && s->hotwords_bytes <= CALL_SPEECH_TEXT_MAX;
}

int record_read_speech(const void *payload, size_t n_bytes, struct call_begin *begin, struct call_speech *out)
{
	struct call_begin head;
	struct call_speech speech;
	if (n_bytes != sizeof head + sizeof speech)
		return -EPROTO;
	memcpy(&head, payload, sizeof head);
	memcpy(&speech, (const char *)payload + sizeof head, sizeof speech);
	if ((head.kind != CALL_KIND_TRANSCRIBE && head.kind != CALL_KIND_TRANSLATE) || !speech_ok(&speech) ||
	    head.prompt_bytes != record_speech_bytes(&speech))
		return -EPROTO;
	*begin = head;
	*out = speech;
	return 0;
}
