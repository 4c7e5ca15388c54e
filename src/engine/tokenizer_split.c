/* PCRE2 does the matching, compiled to machine code where that is allowed.
 *
 * Time is linear in the text by the shape of the patterns: runs are possessive (`++`: a run that was taken is never
 * given back), and the one run that has to give something back, white space before a word, gives back a single
 * character. The limits below only turn a mistake in a pattern into an error instead of a stall.
 *
 * White space is \p{White_Space}, not \s: PCRE2's \s also takes U+180E, which has not been white space since
 * Unicode 6.3. Classes come from the Unicode version PCRE2 was built with. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "src/engine/tokenizer_split.h"

#include <errno.h>
#include <pcre2.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PASSES = 4, MATCH_LIMIT = 100000, DEPTH_LIMIT = 100 };

/* What GPT-2 calls a word: an English contraction, or letters, digits or anything else, each with the blank before it,
 * or white space; white space leaves its last character to the word that follows. */
#define GPT2_WORDS                               \
	"'(?:s|t|re|ve|m|ll|d)"                  \
	"| ?\\p{L}++"                            \
	"| ?\\p{N}++"                            \
	"| ?[^\\p{White_Space}\\p{L}\\p{N}]++"   \
	"|\\p{White_Space}+(?!\\P{White_Space})" \
	"|\\p{White_Space}+"

/* Llama 3's and Qwen's words, which differ in how many digits make one: contractions in either case, letters with any
 * one character before them that is no line end, marks with the line ends behind them, white space up to its last line
 * end, and other white space as above. That last line end is found going forward, one line after the other:
 * `\s*[\r\n]+` would look for it from behind. */
#define LLAMA3_WORDS(digits)                                        \
	"(?i:'(?:s|t|re|ve|m|ll|d))"                                \
	"|[^\\r\\n\\p{L}\\p{N}]?\\p{L}++"                           \
	"|" digits "| ?[^\\p{White_Space}\\p{L}\\p{N}]++[\\r\\n]*+" \
	"|(?:[^\\P{White_Space}\\r\\n]*+[\\r\\n]++)++"              \
	"|\\p{White_Space}+(?!\\P{White_Space})"                    \
	"|\\p{White_Space}+"

static const struct pre_tokenizer {
	const char *name; /* tokenizer.ggml.pre */
	enum split_kind kind;
	const char *passes[MAX_PASSES]; /* NULL: fewer */
} pre_tokenizers[] = {
	{"smollm", SPLIT_SMOLLM, {"\\p{N}", GPT2_WORDS}}, /* each digit is a word of its own */
	{"gpt-2", SPLIT_GPT2, {GPT2_WORDS}},
	{"llama-bpe", SPLIT_LLAMA3, {LLAMA3_WORDS("\\p{N}{1,3}+")}},
	{"llama3", SPLIT_LLAMA3, {LLAMA3_WORDS("\\p{N}{1,3}+")}},
	{"llama-v3", SPLIT_LLAMA3, {LLAMA3_WORDS("\\p{N}{1,3}+")}},
	{"qwen2", SPLIT_QWEN2, {LLAMA3_WORDS("\\p{N}")}},
	{"default", SPLIT_DEFAULT, {"[\\p{P}$+<=>^~|]++", GPT2_WORDS, "\\p{N}++", "[0-9][0-9][0-9]"}},
};
enum { N_PRE_TOKENIZERS = sizeof pre_tokenizers / sizeof pre_tokenizers[0] };

struct split_rules {
	uint32_t n_passes;
	pcre2_code *code[MAX_PASSES];
};

/* Where one pass stands in the piece it was given. */
struct pass {
	const char *piece, *piece_end;
	const char *at;
	const char *match_end; /* a match that begins at `at` and is still to be given; NULL: none */
};

struct split {
	const struct split_rules *rules;
	pcre2_match_data *match;
	pcre2_match_context *limits;
	struct pass passes[MAX_PASSES];
};

int split_kind_of(const char *name, uint32_t *out, struct err *err)
{
	for (size_t i = 0; i < N_PRE_TOKENIZERS; i++)
		if (strcmp(pre_tokenizers[i].name, name) == 0) {
			*out = pre_tokenizers[i].kind;
			return 0;
		}
	return err_set(err, -ENOTSUP, "tokenizer.ggml.pre = \"%.64s\" is not supported", name);
}

static const struct pre_tokenizer *find_kind(uint32_t kind)
{
	for (size_t i = 0; i < N_PRE_TOKENIZERS; i++)
		if ((uint32_t)pre_tokenizers[i].kind == kind)
			return &pre_tokenizers[i];
	return NULL;
}

static int compile(const char *pattern, pcre2_code **out, struct err *err)
{
	int error;
	PCRE2_SIZE where;
	pcre2_code *code =
		pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &error, &where, NULL);
	if (!code) {
		char text[128];
		pcre2_get_error_message(error, (PCRE2_UCHAR *)text, sizeof text);
		return err_set(err, error == PCRE2_ERROR_HEAP_FAILED ? -ENOMEM : -EIO, "pre-tokenizer: %s (at %zu)",
			       text, where);
	}
	/* Fails where pages may not become executable; then the interpreter does the same work. */
	pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
	*out = code;
	return 0;
}

int split_rules_new(uint32_t kind, struct split_rules **out, struct err *err)
{
	const struct pre_tokenizer *pre = find_kind(kind);
	if (!pre)
		return err_set(err, -EINVAL, "tokenizer table: no pre-tokenizer has the number %u", kind);
	struct split_rules *rules = calloc(1, sizeof *rules);
	if (!rules)
		return -ENOMEM;
	int ret = 0;
	for (; rules->n_passes < MAX_PASSES && pre->passes[rules->n_passes]; rules->n_passes++) {
		ret = compile(pre->passes[rules->n_passes], &rules->code[rules->n_passes], err);
		if (ret < 0)
			goto fail;
	}
	*out = rules;
	return 0;
fail:
	split_rules_free(rules);
	return ret;
}

void split_rules_free(struct split_rules *rules)
{
	if (!rules)
		return;
	for (uint32_t i = 0; i < MAX_PASSES; i++)
		pcre2_code_free(rules->code[i]);
	free(rules);
}

int split_new(const struct split_rules *rules, struct split **out)
{
	struct split *split = calloc(1, sizeof *split);
	if (!split)
		return -ENOMEM;
	split->rules = rules;
	split->match = pcre2_match_data_create(1, NULL);
	split->limits = pcre2_match_context_create(NULL);
	if (!split->match || !split->limits) {
		split_free(split);
		return -ENOMEM;
	}
	pcre2_set_depth_limit(split->limits, DEPTH_LIMIT);
	*out = split;
	return 0;
}

void split_free(struct split *split)
{
	if (!split)
		return;
	pcre2_match_data_free(split->match);
	pcre2_match_context_free(split->limits);
	free(split);
}

static void pass_begin(struct pass *pass, const char *piece, size_t n_bytes)
{
	*pass = (struct pass){.piece = piece, .piece_end = piece + n_bytes, .at = piece};
}

void split_begin(struct split *split, const char *text, size_t n_bytes)
{
	memset(split->passes, 0, sizeof split->passes);
	pass_begin(&split->passes[0], text, n_bytes);
	/* Lines of white space are one step each, and a text may be nothing else. */
	pcre2_set_match_limit(split->limits, MATCH_LIMIT + 2 * (uint32_t)n_bytes);
}

/* Finds the next match in the pass's piece. Returns 1, 0: none, or an error. */
static int find_match(struct split *split, uint32_t n, const char **start, const char **end, struct err *err)
{
	struct pass *pass = &split->passes[n];
	/* The caller vouches for the UTF-8; checking it again for every word would make long texts quadratic. */
	int found = pcre2_match(split->rules->code[n], (PCRE2_SPTR)pass->piece, (size_t)(pass->piece_end - pass->piece),
				(size_t)(pass->at - pass->piece), PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, split->match,
				split->limits);
	if (found == PCRE2_ERROR_NOMATCH)
		return 0;
	if (found < 0)
		return err_set(err, found == PCRE2_ERROR_NOMEMORY ? -ENOMEM : -EIO, "pre-tokenizer: PCRE2 error %d",
			       found);
	const PCRE2_SIZE *range = pcre2_get_ovector_pointer(split->match);
	*start = pass->piece + range[0];
	*end = pass->piece + range[1];
	return 1;
}

/* The next piece that pass n makes, out of those that pass n - 1 makes. Calls itself once per pass. */
static int next_piece(struct split *split, uint32_t n, const char **piece, size_t *n_bytes, struct err *err)
{
	struct pass *pass = &split->passes[n];
	if (pass->at == pass->piece_end) {
		if (n == 0)
			return 0;
		int ret = next_piece(split, n - 1, piece, n_bytes, err);
		if (ret <= 0)
			return ret;
		pass_begin(pass, *piece, *n_bytes);
	}
	const char *start = pass->at, *end = pass->match_end;
	if (!end) {
		int found = find_match(split, n, &start, &end, err);
		if (found < 0)
			return found;
		if (!found)
			start = end = pass->piece_end;
	}
	*piece = pass->at;
	bool gap = start > pass->at;
	*n_bytes = (size_t)((gap ? start : end) - pass->at);
	pass->at += *n_bytes;
	pass->match_end = gap && end > start ? end : NULL;
	return 1;
}

int split_next(struct split *split, const char **word, size_t *n_bytes, struct err *err)
{
	return next_piece(split, split->rules->n_passes - 1, word, n_bytes, err);
}
