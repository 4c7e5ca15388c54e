/* Unigram vocabularies: the likeliest tokens against every way there is to write a word, in slices of any size; and
 * what one byte over and over costs in each kind of vocabulary that knows characters. tests/tokenizer compares with the
 * `tokenizers` library. */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/tokenizer.h"
#include "tests/unit/suite.h"
#include "tests/unit/tokenizer_vocab.h"

enum { MAX_PIECES = 600, MAX_WORD = 10 };

/* A vocabulary of pieces with scores of both sorts, for any of the models. */
struct scored {
	struct fixture base;
	float scores[MAX_PIECES];
	double log_probabilities[MAX_PIECES];
};

static void begin(struct scored *f, const char *model)
{
	*f = (struct scored){0};
	vocab_init_bytes(&f->base.vocab, (const uint8_t[256]){0});
	f->base.vocab.source.model = model;
	f->base.vocab.source.scores = f->scores;
	f->base.vocab.source.log_probabilities = f->log_probabilities;
	f->base.vocab.source.unk = vocab_add(&f->base.vocab, "<unk>", 5, TOKEN_CONTROL);
}

static void add(struct scored *f, const char *spelled, double score)
{
	size_t n_bytes = strlen(spelled);
	if (vocab_find(&f->base.vocab, spelled, (uint32_t)n_bytes) != UINT32_MAX)
		return;
	ck_assert_uint_lt(f->base.vocab.source.n_tokens, MAX_PIECES);
	uint32_t id = vocab_add(&f->base.vocab, spelled, (uint32_t)n_bytes, TOKEN_NORMAL);
	f->log_probabilities[id] = score;
	f->scores[id] = (float)score;
}

static void attach(struct scored *f)
{
	struct err err = {""};
	ck_assert_msg(fixture_attach(&f->base, &err) == 0, "%s", err.text);
}

/* Encodes in slices of `work`; returns how many there were. */
static unsigned encode(const struct scored *f, const char *text, size_t n_bytes, size_t work, struct token_list *list)
{
	struct tokenizer_encoding *encoding;
	struct err err = {""};
	unsigned n_slices = 1;
	int ret;
	ck_assert_int_eq(tokenizer_encoding_begin(f->base.tokenizer, text, n_bytes, false, true, SIZE_MAX, list,
						  &encoding, &err),
			 0);
	while ((ret = tokenizer_encoding_advance(encoding, work, &err)) > 0)
		n_slices++;
	ck_assert_int_eq(ret, 0);
	tokenizer_encoding_end(encoding);
	return n_slices;
}

/* --- the reference ---------------------------------------------------------------------------- */

/* The highest sum of any way to write text[at..], whose beginning has `sum`. The characters are single bytes. */
static double best_of(const struct scored *f, const char *text, size_t at, size_t n, double sum, double unknown)
{
	const struct vocab *vocab = &f->base.vocab;
	double best = -INFINITY;
	if (at == n)
		return sum;
	bool alone = false;
	for (size_t end = at + 1; end <= n; end++) {
		uint32_t id = vocab_find(vocab, text + at, (uint32_t)(end - at));
		if (id == UINT32_MAX)
			continue;
		alone |= end == at + 1;
		best = fmax(best, best_of(f, text, end, n, sum + f->log_probabilities[id], unknown));
	}
	return alone ? best : fmax(best, best_of(f, text, at + 1, n, sum + unknown, unknown));
}

/* What the tokens of a word add up to; a run of unknown characters is one token. */
static double sum_of(const struct scored *f, const char *text, const struct token_list *list, double unknown)
{
	double sum = 0;
	const char *at = text, *end = text + strlen(text);
	for (size_t i = 0; i < list->n; i++) {
		uint32_t n_bytes = f->base.vocab.tokens[list->ids[i]].n_bytes;
		if (list->ids[i] != (uint32_t)f->base.vocab.source.unk) {
			ck_assert_int_eq(memcmp(at, f->base.vocab.tokens[list->ids[i]].bytes, n_bytes), 0);
			sum += f->log_probabilities[list->ids[i]];
			at += n_bytes;
			continue;
		}
		for (; *at == 'z'; at++) /* the one character that is no token */
			sum += unknown;
	}
	ck_assert_ptr_eq(at, end);
	return sum;
}

START_TEST(the_likeliest_of_all_ways)
{
	srand(3);
	for (unsigned round = 0; round < 60; round++) {
		struct scored f;
		double least = 0;
		begin(&f, "unigram");
		for (char c = 'a'; c <= 'c'; c++)
			add(&f, (char[]){c, 0}, -(double)(rand() % 1000) / 64);
		for (unsigned i = 0; i < 30; i++) {
			char piece[5] = "";
			for (unsigned k = 0, n = 1 + (unsigned)rand() % 4; k < n; k++)
				piece[k] = (char)('a' + rand() % 3);
			double score = -(double)(rand() % 1000) / 64; /* sums of these are exact */
			add(&f, piece, score);
		}
		for (uint32_t id = 0; id < f.base.vocab.source.n_tokens; id++)
			least = fmin(least, f.log_probabilities[id]);
		attach(&f);
		for (unsigned n_texts = 0; n_texts < 60; n_texts++) {
			char text[MAX_WORD + 1] = "";
			struct token_list whole = {0}, sliced = {0};
			for (unsigned k = 0, n = 1 + (unsigned)rand() % MAX_WORD; k < n; k++)
				text[k] = "aaabbbcccz"[rand() % 10];
			encode(&f, text, strlen(text), SIZE_MAX, &whole);
			encode(&f, text, strlen(text), 1 + (unsigned)rand() % 3, &sliced);
			ck_assert_uint_eq(whole.n, sliced.n);
			ck_assert_int_eq(memcmp(whole.ids, sliced.ids, whole.n * sizeof *whole.ids), 0);
			ck_assert_double_eq(sum_of(&f, text, &whole, least - 10),
					    best_of(&f, text, 0, strlen(text), 0, least - 10));
			token_list_fini(&whole);
			token_list_fini(&sliced);
		}
		fixture_fini(&f.base);
	}
}
END_TEST

/* --- hostile ---------------------------------------------------------------------------------- */

static void fill(struct scored *f)
{
	static const char *const words[] = {"\u2581the", "\u2581quick", "\u2581brown", "\u2581fox",    "er",
					    "in",	 "\u2581",	"\u8a9e",      "\u8a9e\u8a9e", "qu",
					    ".",	 "..",		"ab",	       "aba"};
	char run[33] = "";
	for (char c = 'a'; c <= 'w'; c++)
		add(f, (char[]){c, 0}, -8);
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		add(f, words[i], -5 - (double)i / 8);
	for (size_t n = 0; n < 32; n++) {
		run[n] = 'a';
		add(f, run, -4 - (double)n / 16);
	}
}

/* How many slices of 64 steps a text of N_LONG bytes takes that repeats `unit`. */
static unsigned slices_of(const struct scored *f, const char *unit)
{
	enum { N_LONG = 1 << 18 };
	char *text = malloc(N_LONG);
	struct token_list list = {0};
	ck_assert_ptr_nonnull(text);
	for (size_t i = 0, n = strlen(unit); i < N_LONG; i++)
		text[i] = unit[i % n];
	unsigned n_slices = encode(f, text, N_LONG, 64, &list);
	token_list_fini(&list);
	free(text);
	return n_slices;
}

START_TEST(one_byte_repeated_takes_no_more_than_ten_times_english)
{
	static const char *const models[] = {"llama", "characters", "unigram"};
	static const char *const units[] = {"a", ".", " ", "\n", "\xff", "7", "\u8a9e", "z", "ab"};
	for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
		for (int at_blanks = 0; at_blanks < 2; at_blanks++) {
			struct scored f;
			begin(&f, models[m]);
			fill(&f);
			for (uint32_t n = 1; n < 31; n++) { /* for "characters": runs of a that grow by one */
				char run[33] = "";
				memset(run, 'a', n);
				vocab_merge(&f.base.vocab, vocab_find(&f.base.vocab, run, n),
					    vocab_find(&f.base.vocab, "a", 1));
			}
			f.base.vocab.source.words_at_blanks = at_blanks;
			f.base.vocab.source.blank = TOKENIZER_BLANK_EVERY;
			attach(&f);
			unsigned english = slices_of(&f, "It's the quick brown fox, over 12 lazy dogs. ");
			ck_assert_uint_gt(english, 1000);
			for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
				unsigned n = slices_of(&f, units[i]);
				ck_assert_msg(n <= 10 * english, "%s of %s: %u, English: %u", units[i], models[m], n,
					      english);
			}
			fixture_fini(&f.base);
		}
	}
}
END_TEST

START_TEST(bad_lists)
{
	struct scored f;
	struct err err = {""};
	begin(&f, "unigram");
	add(&f, "a", NAN);
	ck_assert_int_eq(fixture_attach(&f.base, &err), -EINVAL);
	ck_assert_msg(strstr(err.text, "score of token 1"), "%s", err.text);
	f.log_probabilities[1] = 0;
	f.base.vocab.source.unk = -1;
	ck_assert_int_eq(fixture_attach(&f.base, &err), -EINVAL);
	ck_assert_msg(strstr(err.text, "unknown_token_id"), "%s", err.text);
	fixture_fini(&f.base);
}
END_TEST

/* A damaged table is refused, or makes wrong tokens out of the same text; the sanitizers see the rest. */
START_TEST(flipped_at_random)
{
	struct scored f;
	struct err err = {""};
	unsigned n_used = 0;
	srand(8);
	begin(&f, "unigram");
	fill(&f);
	attach(&f);
	unsigned char *bytes = f.base.table;
	for (unsigned round = 0; round < 3000; round++) {
		struct tokenizer *tokenizer;
		struct token_list list = {0};
		size_t at = (size_t)rand() % f.base.table_bytes;
		unsigned char before = bytes[at];
		bytes[at] ^= (unsigned char)(1 << rand() % 8);
		if (tokenizer_attach(bytes, f.base.table_bytes, &tokenizer, &err) == 0) {
			ck_assert_int_eq(tokenizer_encode(tokenizer, "the quick\xff aabz\u8a9e", 17, true, true,
							  SIZE_MAX, &list, &err),
					 0);
			for (size_t i = 0; i < list.n; i++)
				ck_assert_uint_lt(list.ids[i], tokenizer_n_tokens(tokenizer));
			tokenizer_detach(tokenizer);
			n_used++;
		}
		token_list_fini(&list);
		bytes[at] = before;
	}
	ck_assert_uint_gt(n_used, 1000);
	fixture_fini(&f.base);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("tokenizer_unigram");
	TCase *tc = tcase_create("tokenizer_unigram");
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, the_likeliest_of_all_ways);
	tcase_add_test(tc, one_byte_repeated_takes_no_more_than_ten_times_english);
	tcase_add_test(tc, bad_lists);
	tcase_add_test(tc, flipped_at_random);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
