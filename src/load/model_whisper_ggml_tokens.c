/* A word's id is its rank: of two that could be made of the same bytes the lower one is made first. So the merge that
 * makes a word is what merging its bytes by the words before it leads to, two parts.
 *
 * Behind the words come, in this order, the end of text, the start, the languages, six tokens that steer, and 1501
 * times; their number tells how many languages there are. What is not to be written is what is not spoken: signs, as
 * words of their own or behind a blank, dashes and quotes at a word's beginning, and the tokens that steer; the lists
 * in other formats' files come from the same rule. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/tokenizer_spelling.h"
#include "src/load/model_speech.h"
#include "src/load/model_whisper_ggml.h"

enum { N_TIMES = 1501, NAME_BYTES = 24, ENGLISH_EOT = 50256 };

/* In the order of their tokens; older models lack the last. */
static const char language_codes[][4] = {
	"en", "zh", "de", "es", "ru", "ko", "fr", "ja", "pt",  "tr", "pl", "ca", "nl", "ar", "sv",  "it", "id",
	"hi", "fi", "vi", "he", "uk", "el", "ms", "cs", "ro",  "da", "hu", "ta", "no", "th", "ur",  "hr", "bg",
	"lt", "la", "mi", "ml", "cy", "sk", "te", "fa", "lv",  "bn", "sr", "az", "sl", "kn", "et",  "mk", "br",
	"eu", "is", "hy", "ne", "mn", "bs", "kk", "sq", "sw",  "gl", "mr", "pa", "si", "km", "sn",  "yo", "so",
	"af", "oc", "ka", "be", "tg", "sd", "gu", "am", "yi",  "lo", "uz", "fo", "ht", "ps", "tk",  "nn", "mt",
	"sa", "lb", "my", "bo", "tl", "mg", "as", "tt", "haw", "ln", "ha", "ba", "jw", "su", "yue",
};

enum { N_CODES = sizeof language_codes / sizeof *language_codes };

static const char *const steering[] = {"<|translate|>",	  "<|transcribe|>", "<|startoflm|>",
				       "<|startofprev|>", "<|nospeech|>",   "<|notimestamps|>"};

enum { N_STEERING = sizeof steering / sizeof *steering };

/* --- words by their bytes --------------------------------------------------------------------- */

struct index {
	const struct whisper_ggml *file;
	uint32_t *slots; /* [mask + 1] owned: word + 1, 0: free */
	uint32_t mask;
};

static uint32_t hash(const char *bytes, uint32_t n)
{
	uint32_t h = 2166136261u; /* FNV-1a */
	for (uint32_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)bytes[i]) * 16777619u;
	return h;
}

/* -1: no word has these bytes. */
static int64_t find_word(const struct index *index, const char *bytes, uint32_t n)
{
	for (uint32_t at = hash(bytes, n) & index->mask;; at = (at + 1) & index->mask) {
		uint32_t slot = index->slots[at];
		if (!slot)
			return -1;
		const struct whisper_ggml_word *word = &index->file->words[slot - 1];
		if (word->n_bytes == n && memcmp(index->file->pool + word->begin, bytes, n) == 0)
			return slot - 1;
	}
}

static int index_words(const struct whisper_ggml *file, struct index *out, struct err *err)
{
	uint32_t size = 16;
	while (size < 2 * file->n_words)
		size *= 2;
	*out = (struct index){.file = file, .slots = calloc(size, sizeof *out->slots), .mask = size - 1};
	if (!out->slots)
		return err_set(err, -ENOMEM, "no memory for an index of %u words", file->n_words);
	for (uint32_t i = 0; i < file->n_words; i++) {
		const struct whisper_ggml_word *word = &file->words[i];
		const char *bytes = file->pool + word->begin;
		if (!word->n_bytes)
			continue; /* English models' end of text has a place among the words of others */
		if (find_word(out, bytes, word->n_bytes) >= 0)
			return err_set(err, -EINVAL, "word %u: is there twice", i);
		uint32_t at = hash(bytes, word->n_bytes) & out->mask;
		while (out->slots[at])
			at = (at + 1) & out->mask;
		out->slots[at] = i + 1;
	}
	return 0;
}

/* The first word of a text, in a vocabulary that has every beginning of what it has; *whole: it is all of it. */
static int64_t first_word(const struct index *index, const char *text, bool *whole)
{
	uint32_t n = (uint32_t)strlen(text);
	for (uint32_t length = n; length; length--) {
		int64_t word = find_word(index, text, length);
		*whole = length == n;
		if (word >= 0)
			return word;
	}
	return -1;
}

/* --- the tokenizer ---------------------------------------------------------------------------- */

/* What is being written: lists of the plan's tokenizer, and where their bytes go. */
struct writing {
	const struct whisper_ggml *file;
	struct index index;
	struct tokenizer_string *tokens, *merges;
	int32_t *types;
	char *at;
	uint32_t n_merges;
};

static void spell(struct writing *w, const char *bytes, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		char room[2];
		struct tokenizer_string spelled = spelling_of_byte((uint8_t)bytes[i], room);
		memcpy(w->at, spelled.bytes, spelled.n_bytes);
		w->at += spelled.n_bytes;
	}
}

static struct tokenizer_string spelled_from(const struct writing *w, const char *begin)
{
	return (struct tokenizer_string){begin, (uint32_t)(w->at - begin)};
}

/* Where the second of the two parts begins that a word is merged of; 0: none make it. */
static uint32_t split_of(const struct index *index, uint32_t word)
{
	const struct whisper_ggml_word *self = &index->file->words[word];
	const char *bytes = index->file->pool + self->begin;
	uint8_t start[WHISPER_GGML_WORD_BYTES + 1];
	uint32_t n = self->n_bytes;
	for (uint32_t i = 0; i <= n; i++)
		start[i] = (uint8_t)i;
	while (n > 2) {
		int64_t best = word;
		uint32_t best_at = 0;
		for (uint32_t i = 0; i + 1 < n; i++) {
			int64_t rank = find_word(index, bytes + start[i], start[i + 2] - start[i]);
			if (rank >= 0 && rank < best) {
				best = rank;
				best_at = i + 1;
			}
		}
		if (!best_at)
			return 0;
		memmove(start + best_at, start + best_at + 1, n - best_at);
		n--;
	}
	return n == 2 ? start[1] : 0;
}

static void write_words(struct writing *w)
{
	for (uint32_t i = 0; i < w->file->n_words; i++) {
		const struct whisper_ggml_word *word = &w->file->words[i];
		const char *bytes = w->file->pool + word->begin, *begin = w->at;
		uint32_t split = split_of(&w->index, i);
		spell(w, bytes, word->n_bytes);
		w->tokens[i] = spelled_from(w, begin);
		w->types[i] = word->n_bytes ? TOKEN_NORMAL : TOKEN_UNUSED;
		if (!split)
			continue;
		begin = w->at;
		spell(w, bytes, split);
		*w->at++ = ' ';
		spell(w, bytes + split, word->n_bytes - split);
		w->merges[w->n_merges++] = spelled_from(w, begin);
	}
}

__attribute__((format(printf, 4, 5))) static void write_name(struct writing *w, uint32_t id, int32_t type,
							     const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int n = vsnprintf(w->at, NAME_BYTES, format, args);
	va_end(args);
	w->tokens[id] = (struct tokenizer_string){w->at, (uint32_t)n};
	w->types[id] = type;
	w->at += n;
}

static void write_names(struct writing *w, const struct speech_table *t)
{
	write_name(w, t->eot, TOKEN_CONTROL, "<|endoftext|>");
	write_name(w, t->sot, TOKEN_CONTROL, "<|startoftranscript|>");
	for (uint32_t i = 0; i < t->n_languages; i++)
		write_name(w, t->sot + 1 + i, TOKEN_CONTROL, "<|%s|>", language_codes[i]);
	for (uint32_t i = 0; i < N_STEERING; i++)
		write_name(w, t->translate + i, TOKEN_CONTROL, "%s", steering[i]);
	for (uint32_t i = 0; i < N_TIMES; i++)
		write_name(w, t->first_timestamp + i, TOKEN_USER_DEFINED, "<|%u.%02u|>", i / 50, i % 50 * 2);
}

static int write_tokenizer(struct writing *w, struct model_plan *plan, struct err *err)
{
	uint32_t n = plan->config.vocab;
	size_t pool_bytes = 4 * (size_t)w->file->n_pool + w->file->n_words + (size_t)n * NAME_BYTES + NAME_BYTES;
	struct tokenizer_source *source = &plan->tokenizer;
	source->tokens = w->tokens = calloc(n, sizeof *w->tokens);
	source->types = w->types = calloc(n, sizeof *w->types);
	source->merges = w->merges = calloc(w->file->n_words + 1u, sizeof *w->merges);
	plan->pool = w->at = malloc(pool_bytes);
	if (!w->tokens || !w->types || !w->merges || !w->at)
		return err_set(err, -ENOMEM, "no memory for %u tokens", n);
	write_words(w);
	write_names(w, &plan->speech.table);
	source->model = "gpt2";
	source->pre = "gpt-2";
	source->n_tokens = n;
	source->n_merges = w->n_merges;
	source->bos = source->eot = source->unk = source->pad = -1;
	source->eos = plan->speech.table.eot;
	return 0;
}

/* --- the speech table ------------------------------------------------------------------------- */

/* Ids that follow from their number alone. */
static int number_tokens(const struct whisper_ggml *file, const struct image_config *config, struct speech_table *t,
			 struct err *err)
{
	uint32_t n_others = 2 + N_STEERING + N_TIMES, n_words = file->n_words;
	/* Some files of English models have the end of text among the words. */
	if (n_words == ENGLISH_EOT + 1 && config->vocab == ENGLISH_EOT + n_others + N_CODES - 1)
		n_words--;
	if (config->vocab < n_words + n_others + 1 || config->vocab - n_words - n_others > N_CODES)
		return err_set(err, -EINVAL,
			       "n_vocab: %u tokens for %u words: %u more, and 1 to %d languages, are expected",
			       config->vocab, n_words, n_others, N_CODES);
	t->eot = n_words;
	t->sot = n_words + 1;
	t->n_languages = config->vocab - n_words - n_others;
	t->translate = t->sot + 1 + t->n_languages;
	t->transcribe = t->translate + 1;
	t->sot_lm = t->translate + 2;
	t->sot_prev = t->translate + 3;
	t->no_speech = t->translate + 4;
	t->no_timestamps = t->translate + 5;
	t->first_timestamp = t->translate + N_STEERING;
	t->is_multilingual = t->eot != ENGLISH_EOT;
	return 0;
}

static int name_languages(struct model_plan *plan, struct err *err)
{
	uint32_t n = plan->speech.table.n_languages;
	struct speech_language *languages = calloc(n, sizeof *languages);
	plan->speech.languages = languages;
	if (!languages)
		return err_set(err, -ENOMEM, "no memory for %u languages", n);
	for (uint32_t i = 0; i < n; i++) {
		memcpy(languages[i].code, language_codes[i], strlen(language_codes[i]));
		languages[i].token = plan->speech.table.sot + 1 + i;
	}
	return 0;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

/* Signs that are suppressed where they are one word; notes always, by the word that they begin with. */
static const char *const signs[] = {
	"\"",
	"#",
	"(",
	")",
	"*",
	"+",
	"/",
	":",
	";",
	"<",
	"=",
	">",
	"@",
	"[",
	"\\",
	"]",
	"^",
	"_",
	"`",
	"{",
	"|",
	"}",
	"~",
	"\u300c",
	"\u300d",
	"\u300e",
	"\u300f",
	"<<",
	">>",
	"<<<",
	">>>",
	"--",
	"---",
	"-(",
	"-[",
	"('",
	"(\"",
	"((",
	"))",
	"(((",
	")))",
	"[[",
	"]]",
	"{{",
	"}}",
	"\u266a\u266a",
	"\u266a\u266a\u266a",
};
static const char *const notes[] = {"\u2669", "\u266a", "\u266b", "\u266c", "\u266d", "\u266e", "\u266f"};

enum { N_SIGNS = sizeof signs / sizeof *signs, N_NOTES = sizeof notes / sizeof *notes, N_STEERED = 6 };

static uint32_t collect_signs(const struct index *index, uint32_t *out)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < 2 * (N_SIGNS + N_NOTES); i++) {
		const char *sign = i / 2 < N_SIGNS ? signs[i / 2] : notes[i / 2 - N_SIGNS];
		char text[16];
		bool whole = false;
		snprintf(text, sizeof text, "%s%s", i % 2 ? " " : "", sign);
		int64_t word = first_word(index, text, &whole);
		if (word >= 0 && (whole || i / 2 >= N_SIGNS))
			out[n++] = (uint32_t)word;
	}
	const char *const beginnings[] = {" -", " '"};
	for (uint32_t i = 0; i < 2; i++) {
		bool whole;
		int64_t word = first_word(index, beginnings[i], &whole);
		if (word >= 0)
			out[n++] = (uint32_t)word;
	}
	return n;
}

static int suppress(const struct index *index, struct model_plan *plan, struct err *err)
{
	struct speech_table *t = &plan->speech.table;
	const uint32_t steered[N_STEERED] = {t->sot, t->translate, t->transcribe, t->sot_lm, t->sot_prev, t->no_speech};
	uint32_t *ids = calloc(2 * (N_SIGNS + N_NOTES) + 2 + N_STEERED, sizeof *ids), n, kept = 0;
	uint32_t *begin = calloc(2, sizeof *begin);
	plan->speech.suppressed = ids;
	plan->speech.suppressed_begin = begin;
	if (!ids || !begin)
		return err_set(err, -ENOMEM, "no memory for suppressed tokens");
	n = collect_signs(index, ids);
	memcpy(ids + n, steered, sizeof steered);
	n += N_STEERED;
	qsort(ids, n, sizeof *ids, by_number);
	for (uint32_t i = 0; i < n; i++)
		if (!kept || ids[kept - 1] != ids[i])
			ids[kept++] = ids[i];
	t->n_suppressed = kept;
	int64_t blank = find_word(index, " ", 1);
	if (blank >= 0)
		begin[t->n_suppressed_begin++] = (uint32_t)blank;
	begin[t->n_suppressed_begin++] = t->eot;
	return 0;
}

int model_whisper_ggml_tokens(const struct whisper_ggml *file, struct model_plan *plan, struct err *err)
{
	const struct hf_json nothing = {.file = "", .document = NULL};
	struct writing w = {.file = file};
	int rc = number_tokens(file, &plan->config, &plan->speech.table, err);
	if (rc == 0)
		rc = index_words(file, &w.index, err);
	if (rc == 0)
		rc = write_tokenizer(&w, plan, err);
	if (rc == 0)
		rc = name_languages(plan, err);
	if (rc == 0)
		rc = suppress(&w.index, plan, err);
	free(w.index.slots);
	if (rc == 0)
		rc = model_speech_heads(plan, &nothing, "alignment_heads", err);
	return rc ? rc : model_speech_check(plan, err);
}
