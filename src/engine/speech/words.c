#include "src/engine/speech/words.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void speech_words_fini(struct speech_words *words)
{
	free(words->words);
	speech_text_fini(&words->text);
	*words = (struct speech_words){0};
}

bool speech_by_characters(const char *code)
{
	static const char *const codes[] = {"zh", "ja", "th", "lo", "my", "yue"};
	for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
		if (!strcmp(code, codes[i]))
			return true;
	return false;
}

/* --- cutting ---------------------------------------------------------------------------------- */

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

/* Characters in [n_bytes] of well-formed text. */
static size_t count(const char *text, size_t n_bytes)
{
	size_t n = 0;
	for (size_t i = 0; i < n_bytes; i++)
		n += ((unsigned char)text[i] & 0xc0) != 0x80;
	return n;
}

/* Whether the pieces' text, decoded alone to `part`, ends where a character ends: nothing in it was ill-formed, or the
 * whole text has the same ill-formed character there, at number `offset` + its number in the part. */
static bool is_whole(const char *part, size_t n_bytes, size_t offset, const struct speech_text *whole)
{
	const char *bad = memmem(part, n_bytes, replacement, 3);
	if (!bad)
		return true;
	size_t number = offset + count(part, (size_t)(bad - part)), at = 0;
	for (; at < whole->n_bytes; at++)
		if (((unsigned char)whole->bytes[at] & 0xc0) != 0x80 && !number--)
			break;
	return whole->n_bytes - at >= 3 && !memcmp(whole->bytes + at, replacement, 3);
}

/* Whether a stretch of text begins a word of its own, in a language with blanks. */
static bool begins_word(const char *text, size_t n_bytes)
{
	static const char punctuation[] = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
	if (n_bytes && text[0] == ' ')
		return true;
	size_t n = n_bytes;
	const char *stripped = speech_strip(text, &n);
	return speech_is_part(stripped, n, punctuation);
}

int speech_words_split(const struct speech_piece *pieces, uint32_t n, bool by_characters, struct speech_words *out)
{
	struct speech_words words = {.words = calloc(n ? n : 1, sizeof *words.words)};
	struct speech_text whole = {0};
	int failed = words.words ? speech_text_append(&whole, pieces, n) : -ENOMEM;
	size_t offset = 0; /* characters before */
	for (uint32_t begin = 0, end = 1; !failed && end <= n; end++) {
		size_t at = words.text.n_bytes;
		failed = speech_text_append(&words.text, pieces + begin, end - begin);
		if (failed)
			break;
		size_t n_bytes = words.text.n_bytes - at;
		const char *part = words.text.bytes + at;
		if (end < n && !is_whole(part, n_bytes, offset, &whole)) {
			words.text.n_bytes = at;
			continue;
		}
		if (by_characters || !words.n || begins_word(part, n_bytes))
			words.words[words.n++].text = at;
		words.words[words.n - 1].n_bytes += n_bytes;
		words.words[words.n - 1].n_tokens += end - begin;
		offset += count(part, n_bytes);
		begin = end;
	}
	speech_text_fini(&whole);
	if (failed) {
		speech_words_fini(&words);
		return failed;
	}
	*out = words;
	return 0;
}

/* --- times ------------------------------------------------------------------------------------ */

void speech_words_time(struct speech_words *words, const uint32_t *frames, const float *probabilities)
{
	uint32_t token = 0;
	for (uint32_t i = 0; i < words->n; i++) {
		struct speech_word *word = &words->words[i];
		double sum = 0;
		for (uint32_t k = 0; k < word->n_tokens; k++)
			sum += probabilities[token + k];
		word->start = frames[token] / (double)SPEECH_POSITIONS_PER_S;
		token += word->n_tokens;
		word->end = frames[token] / (double)SPEECH_POSITIONS_PER_S;
		word->probability = (float)(sum / word->n_tokens);
	}
}

static const char *bytes_of(const struct speech_words *words, const struct speech_word *word)
{
	return words->text.bytes + word->text;
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

static bool ends_sentence(const struct speech_words *words, uint32_t i)
{
	return speech_is_part(bytes_of(words, &words->words[i]), words->words[i].n_bytes, ".。!！?？");
}

int speech_words_pace(struct speech_words *words, struct speech_pace *pace)
{
	double *durations = malloc((words->n ? words->n : 1) * sizeof *durations);
	uint32_t n = 0;
	if (!durations)
		return -ENOMEM;
	for (uint32_t i = 0; i < words->n; i++)
		if (words->words[i].end != words->words[i].start)
			durations[n++] = words->words[i].end - words->words[i].start;
	qsort(durations, n, sizeof *durations, compare);
	double median = n ? (durations[(n - 1) / 2] + durations[n / 2]) / 2 : 0;
	free(durations);
	*pace = (struct speech_pace){.median = fmin(0.7, median)};
	pace->max = 2 * pace->median;
	for (uint32_t i = 1; n && i < words->n; i++) {
		struct speech_word *word = &words->words[i];
		if (word->end - word->start <= pace->max)
			continue;
		if (ends_sentence(words, i))
			word->end = word->start + pace->max;
		else if (ends_sentence(words, i - 1))
			word->start = word->end - pace->max;
	}
	return 0;
}

/* Puts the tokens and the text of `from` to those of `to`: between them is nothing but empty words. */
static void join(struct speech_word *to, struct speech_word *from)
{
	if (from->n_bytes && (!to->n_bytes || from->text < to->text))
		to->text = from->text;
	to->n_bytes += from->n_bytes;
	to->n_tokens += from->n_tokens;
	from->n_bytes = from->n_tokens = 0;
}

void speech_words_join(struct speech_words *words, const char *prepended, const char *appended)
{
	struct speech_word *w = words->words;
	for (uint32_t i = words->n ? words->n - 1 : 0, j = i; i-- > 0;) {
		const char *text = bytes_of(words, &w[i]);
		size_t n = w[i].n_bytes;
		bool after_blank = n && text[0] == ' ';
		text = speech_strip(text, &n);
		if (after_blank && speech_is_part(text, n, prepended))
			join(&w[j], &w[i]);
		else
			j = i;
	}
	for (uint32_t i = 0, j = 1; j < words->n; j++) {
		bool ends_in_blank = w[i].n_bytes && bytes_of(words, &w[i])[w[i].n_bytes - 1] == ' ';
		if (!ends_in_blank && speech_is_part(bytes_of(words, &w[j]), w[j].n_bytes, appended))
			join(&w[i], &w[j]);
		else
			i = j;
	}
}

/* --- segments --------------------------------------------------------------------------------- */

static double hundredths(double s)
{
	return rint(s * 100) / 100;
}

static double duration(const struct speech_word *word)
{
	return word->end - word->start;
}

/* Words after a pause take in some of it: the first, and with it the second, is cut to what is usual. */
static void cut_after_pause(struct speech_word *w, uint32_t n, const struct speech_pace *pace, double last_speech)
{
	if (w[0].end - last_speech <= 4 * pace->median)
		return;
	if (duration(&w[0]) <= pace->max && !(n > 1 && w[1].end - w[0].start > 2 * pace->max))
		return;
	if (n > 1 && duration(&w[1]) > pace->max)
		w[0].end = w[1].start = fmax(w[1].end / 2, w[1].end - pace->max);
	w[0].start = fmax(0, w[0].end - pace->max);
}

/* A segment's own times win over those of a first or last word that is half a second longer. */
static void fit_segment(struct speech_draft *segment, struct speech_word *first, struct speech_word *last,
			const struct speech_pace *pace)
{
	if (segment->start < first->end && segment->start - 0.5 > first->start)
		first->start = fmax(0, fmin(first->end - pace->median, segment->start));
	else
		segment->start = first->start;
	if (segment->end > last->start && segment->end + 0.5 < last->end)
		last->end = fmax(last->start + pace->median, segment->end);
	else
		segment->end = last->end;
}

void speech_words_deal(struct speech_words *words, struct speech_draft *segments, uint32_t n, double time_offset,
		       const struct speech_pace *pace, double last_speech)
{
	uint32_t from = 0, kept = 0;
	for (uint32_t s = 0; s < n; s++) {
		struct speech_draft *segment = &segments[s];
		segment->first_word = kept;
		for (uint32_t tokens = 0; from < words->n && tokens < segment->n_text_tokens; from++) {
			struct speech_word word = words->words[from];
			tokens += word.n_tokens;
			word.start = hundredths(time_offset + word.start);
			word.end = hundredths(time_offset + word.end);
			if (word.n_bytes)
				words->words[kept++] = word;
		}
		segment->n_words = kept - segment->first_word;
		if (!segment->n_words)
			continue;
		struct speech_word *w = words->words + segment->first_word;
		cut_after_pause(w, segment->n_words, pace, last_speech);
		fit_segment(segment, w, w + segment->n_words - 1, pace);
		last_speech = segment->end;
	}
	words->n = kept;
}
