/* Encoding and decoding with small vocabularies; golden ids of a real one are in tokenizer_golden.c, hostile lists and
 * tables in tokenizer_hostile.c. */
#include "src/engine/tokenizer.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/tokenizer_reference.h"
#include "tests/unit/tokenizer_vocab.h"
#include "tests/unit/suite.h"

/* A vocabulary, its table and a tokenizer on it. */
static void attach(struct fixture *f)
{
	struct err err = {""};
	ck_assert_msg(fixture_attach(f, &err) == 0, "%s", err.text);
}

static struct token_list encode(const struct tokenizer *tokenizer, const char *text, size_t n_bytes, bool add_special,
				bool parse_special)
{
	struct token_list list = {0};
	struct err err = {""};
	int ret = tokenizer_encode(tokenizer, text, n_bytes, add_special, parse_special, SIZE_MAX, &list, &err);
	if (ret != 0)
		ck_abort_msg("%d: %s", ret, err.text);
	return list;
}

/* No ck_assert in loops: Check writes a record to a file for each. */
static void check_ids(const struct token_list *list, const uint32_t *want, size_t n)
{
	if (list->n != n)
		ck_abort_msg("%zu tokens, not %zu", list->n, n);
	for (size_t i = 0; i < n; i++)
		if (list->ids[i] != want[i])
			ck_abort_msg("token %zu is %u, not %u", i, list->ids[i], want[i]);
}

/* ids are the variable arguments. */
#define expect(f, text, add_special, parse_special, ...)                                                          \
	do {                                                                                                      \
		const uint32_t want_[] = {__VA_ARGS__};                                                           \
		struct token_list list_ = encode((f)->tokenizer, text, strlen(text), add_special, parse_special); \
		check_ids(&list_, want_, sizeof want_ / sizeof want_[0]);                                         \
		token_list_fini(&list_);                                                                          \
	} while (0)

static void expect_nothing(const struct fixture *f, const char *text, bool add_special, bool parse_special)
{
	struct token_list list = encode(f->tokenizer, text, strlen(text), add_special, parse_special);
	ck_assert_uint_eq(list.n, 0);
	token_list_fini(&list);
}

static void check_round_trip(const struct tokenizer *tokenizer, const char *text, size_t n_bytes, bool parse_special)
{
	struct token_list list = encode(tokenizer, text, n_bytes, false, parse_special);
	size_t at = 0;
	for (size_t i = 0; i < list.n; i++) {
		uint32_t n_piece;
		const char *piece = tokenizer_piece(tokenizer, list.ids[i], true, &n_piece);
		if (n_piece > n_bytes - at || memcmp(piece, text + at, n_piece) != 0)
			ck_abort_msg("token %zu is another text than byte %zu and on", i, at);
		at += n_piece;
	}
	if (at != n_bytes)
		ck_abort_msg("%zu bytes came back of %zu", at, n_bytes);
	token_list_fini(&list);
}

/* --- words and merges ------------------------------------------------------------------------- */

START_TEST(merges_follow_rank_not_length_or_place)
{
	struct fixture f = {0};
	vocab_init(&f.vocab);
	uint32_t bc = vocab_word(&f.vocab, "bc");
	uint32_t ab = vocab_word(&f.vocab, "ab");
	uint32_t abc = vocab_merge(&f.vocab, ab, 'c');
	uint32_t bcd = vocab_merge(&f.vocab, bc, 'd');
	attach(&f);
	expect(&f, "ab", false, false, ab);
	expect(&f, "abc", false, false, 'a', bc); /* b c comes first in the list; then a bc has no merge */
	expect(&f, "abcd", false, false, 'a', bcd);
	expect(&f, "abab", false, false, ab, ab);
	(void)abc; /* can't be reached: there is no way to it that does not use b c first */
	fixture_fini(&f);
}
END_TEST

START_TEST(equal_ranks_merge_from_the_left)
{
	struct fixture f = {0};
	vocab_init(&f.vocab);
	uint32_t aa = vocab_word(&f.vocab, "aa");
	uint32_t aaaa = vocab_merge(&f.vocab, aa, aa);
	attach(&f);
	expect(&f, "aaa", false, false, aa, 'a');
	expect(&f, "aaaaa", false, false, aaaa, 'a');
	expect(&f, "aaaaaaa", false, false, aaaa, aa, 'a');
	fixture_fini(&f);
}
END_TEST

START_TEST(first_of_a_merge_listed_twice_counts)
{
	struct fixture f = {0};
	vocab_init(&f.vocab);
	uint32_t ab = vocab_word(&f.vocab, "ab");
	vocab_word(&f.vocab, "bc");
	vocab_merge(&f.vocab, 'a', 'b');
	attach(&f);
	expect(&f, "abc", false, false, ab, 'c');
	fixture_fini(&f);
}
END_TEST

START_TEST(no_merge_crosses_a_word)
{
	struct fixture f = {0};
	vocab_init(&f.vocab);
	vocab_word(&f.vocab, "a b");
	vocab_word(&f.vocab, "12");
	vocab_word(&f.vocab, "a1");
	vocab_word(&f.vocab, "a,");
	uint32_t two = vocab_merge(&f.vocab, ' ', ' '), blank_b = vocab_merge(&f.vocab, ' ', 'b');
	uint32_t nl = vocab_merge(&f.vocab, '\n', '\n'), ts = vocab_word(&f.vocab, "'s");
	attach(&f);
	expect(&f, "a b", false, false, 'a', blank_b);
	expect(&f, "12", false, false, '1', '2');
	expect(&f, "a1a,", false, false, 'a', '1', 'a', ',');
	expect(&f, "a  b", false, false, 'a', ' ', blank_b); /* white space leaves its last blank to the word */
	expect(&f, "a  ", false, false, 'a', two);	     /* unless the text ends there */
	expect(&f, "a  1", false, false, 'a', two, '1');     /* or a number comes: it takes no blank */
	expect(&f, "\n\n\n", false, false, nl, '\n');
	expect(&f, "b's", false, false, 'b', ts);
	expect(&f, "'sb", false, false, ts, 'b');
	fixture_fini(&f);
}
END_TEST

/* 's 't 're 've 'm 'll 'd, in lower case: what follows is a word of its own, here without the letter it would merge
 * with. */
START_TEST(contractions_are_words)
{
	static const char *const contractions[] = {"s", "t", "re", "ve", "m", "ll", "d"};
	struct fixture f = {0};
	vocab_init(&f.vocab);
	uint32_t merged[256];
	for (uint32_t byte = 0; byte < 128; byte++)
		merged[byte] = vocab_merge(&f.vocab, byte, 'q');
	attach(&f);
	for (size_t i = 0; i < sizeof contractions / sizeof contractions[0]; i++) {
		char text[8];
		snprintf(text, sizeof text, "'%sq", contractions[i]);
		struct token_list list = encode(f.tokenizer, text, strlen(text), false, false);
		ck_assert_uint_eq(list.n, strlen(text));
		token_list_fini(&list);
	}
	expect(&f, "'Sq", false, false, '\'', merged['S']);
	expect(&f, "'xq", false, false, '\'', merged['x']);
	expect(&f, "'lq", false, false, '\'', merged['l']);
	fixture_fini(&f);
}
END_TEST

/* U+180E was white space once; PCRE2's \s still takes it for that. */
START_TEST(mongolian_vowel_separator_is_no_white_space)
{
	struct fixture f = {0};
	vocab_init(&f.vocab);
	uint32_t blank_e1 = vocab_merge(&f.vocab, ' ', 0xe1);
	attach(&f);
	expect(&f, "x \u180ey", false, false, 'x', blank_e1, 0xa0, 0x8e, 'y');
	expect(&f, "x \u1680y", false, false, 'x', ' ', 0xe1, 0x9a, 0x80, 'y'); /* U+1680 is: two, so it stands alone */
	fixture_fini(&f);
}
END_TEST

static const struct character alphabet[] = {
	{"a", 'L'},	 {"b", 'L'},	      {"s", 'L'},      {"t", 'L'},	{"r", 'L'},	     {"e", 'L'},
	{"l", 'L'},	 {"v", 'L'},	      {"\u00e9", 'L'}, {"\u0436", 'L'}, {"\u8a9e", 'L'},     {"\uac00", 'L'},
	{"\u02b0", 'L'}, {"\U00010400", 'L'}, {"0", 'N'},      {"7", 'N'},	{"\u00bd", 'N'},     {"\u0663", 'N'},
	{"\u2167", 'N'}, {" ", 'S'},	      {" ", 'S'},      {" ", 'S'},	{"\n", 'S'},	     {"\t", 'S'},
	{"\r", 'S'},	 {"\xc2\x85", 'S'},   {"\u00a0", 'S'}, {"\u2003", 'S'}, {"\u2028", 'S'},     {"\u3000", 'S'},
	{"'", 'O'},	 {"'", 'O'},	      {",", 'O'},      {"_", 'O'},	{"\u0301", 'O'},     {"\u200b", 'O'},
	{"\u180e", 'O'}, {"\U0001f469", 'O'}, {"\ufffd", 'O'}, {"\ue000", 'O'}, {"\U0010fffd", 'O'}, {"\x01", 'O'},
};
enum { N_ALPHABET = sizeof alphabet / sizeof alphabet[0], MAX_CHARACTERS = 60 };

static unsigned pick(unsigned n)
{
	return (unsigned)rand() % n;
}

/* Merges of what the alphabet's characters are made of, so that most texts have something to merge. */
static void add_random_merges(struct vocab *vocab, uint32_t n)
{
	uint32_t parts[512], n_parts = 0;
	for (unsigned i = 0; i < N_ALPHABET; i++)
		for (const char *p = alphabet[i].utf8; *p; p++)
			parts[n_parts++] = (uint8_t)*p;
	for (uint32_t i = 0; i < n && n_parts < 512; i++) {
		unsigned near = pick(n_parts);
		/* Half of them join bytes of one character or of neighbours in the list, half are arbitrary. */
		unsigned next = pick(2) && near + 1 < n_parts ? near + 1 : pick(n_parts);
		parts[n_parts++] = vocab_merge(vocab, parts[near], parts[next]);
	}
}

START_TEST(random_texts_equal_the_reference)
{
	srand((unsigned)_i + 1);
	struct fixture f = {0};
	vocab_init(&f.vocab);
	add_random_merges(&f.vocab, 20 + pick(300));
	attach(&f);
	for (unsigned round = 0; round < 200; round++) {
		const struct character *chars[MAX_CHARACTERS];
		char text[4 * MAX_CHARACTERS + 1];
		uint32_t want[4 * MAX_CHARACTERS];
		size_t n = pick(MAX_CHARACTERS + 1), n_bytes = 0;
		/* Some texts draw from a few characters only: long runs, many ties. */
		unsigned first = pick(N_ALPHABET), span = pick(3) ? N_ALPHABET : 1 + pick(4);
		for (size_t i = 0; i < n; i++) {
			chars[i] = &alphabet[(first + pick(span)) % N_ALPHABET];
			n_bytes += strlen(strcpy(text + n_bytes, chars[i]->utf8));
		}
		size_t n_want = reference_encode(&f.vocab, chars, n, want);
		struct token_list list = encode(f.tokenizer, text, n_bytes, false, true);
		check_ids(&list, want, n_want);
		token_list_fini(&list);
		check_round_trip(f.tokenizer, text, n_bytes, true);
	}
	fixture_fini(&f);
}
END_TEST

/* --- bytes that are no text ------------------------------------------------------------------- */

START_TEST(random_bytes_come_back)
{
	srand(5);
	struct fixture f = {0};
	vocab_init(&f.vocab);
	add_random_merges(&f.vocab, 200);
	for (unsigned i = 0; i < 100; i++)
		vocab_merge(&f.vocab, pick(256), 128 + pick(128));
	vocab_add(&f.vocab, "<|x|>", 5, TOKEN_CONTROL);
	vocab_add(&f.vocab, "\xff\xfe", 2, TOKEN_USER_DEFINED);
	attach(&f);
	for (unsigned round = 0; round < 2000; round++) {
		char text[200];
		size_t n_bytes = pick(sizeof text);
		for (size_t i = 0; i < n_bytes; i++)
			text[i] = pick(3) ? (char)pick(256) : "<|x|> \xff\xfe\xe8\xaa\x9e"[pick(11)];
		check_round_trip(f.tokenizer, text, n_bytes, round % 2);
	}
	fixture_fini(&f);
}
END_TEST

START_TEST(malformed_bytes_do_not_change_the_words_around_them)
{
	struct fixture f = {0};
	vocab_init(&f.vocab);
	uint32_t ab = vocab_word(&f.vocab, "ab"), e8aa = vocab_merge(&f.vocab, 0xe8, 0xaa);
	uint32_t b_ff = vocab_merge(&f.vocab, 'b', 0xff);
	attach(&f);
	expect(&f,
	       "ab\xff"
	       "ab",
	       false, false, ab, 0xff, ab);
	expect(&f, "ab\xe8\xaa", false, false, ab, e8aa);
	expect(&f, "b\xff", false, false, 'b', 0xff);
	(void)b_ff; /* would join a letter and a malformed byte */
	expect(&f, "\xc0\x80", false, false, 0xc0, 0x80);
	fixture_fini(&f);
}
END_TEST

START_TEST(bytes_without_a_token)
{
	struct fixture f = {0};
	uint8_t keep[256];
	memset(keep, 1, sizeof keep);
	keep[0x04] = keep[0xf1] = keep[0xff] = 0;
	vocab_init_bytes(&f.vocab, keep);
	/* Ids are the bytes', less the number of those missing before. */
	uint32_t a = 'a' - 1, b = 'b' - 1, ab = vocab_merge(&f.vocab, a, b);
	attach(&f);
	/* In well-formed text they are left out, and nothing merges across the place. */
	expect_nothing(&f, "\x04\x04", false, false);
	expect(&f, "ab\x04", false, false, ab);
	expect(&f, "\U00040000", false, false, 0x80 - 1, 0x80 - 1, 0x80 - 1);
	/* Malformed ones are replaced by U+FFFD: EF BF BD. */
	expect(&f, "a\xff", false, false, a, 0xef - 1, 0xbf - 1, 0xbd - 1);
	expect(&f, "\xf1\xc0", false, false, 0xef - 1, 0xbf - 1, 0xbd - 1, 0xc0 - 1);
	fixture_fini(&f);
}
END_TEST

/* --- special tokens --------------------------------------------------------------------------- */

START_TEST(special_spellings)
{
	struct fixture f = {0};
	vocab_init(&f.vocab);
	uint32_t control = vocab_add(&f.vocab, "<|end|>", 7, TOKEN_CONTROL);
	uint32_t unknown = vocab_add(&f.vocab, "<unk>", 5, TOKEN_UNKNOWN);
	uint32_t user = vocab_add(&f.vocab, "[user]", 6, TOKEN_USER_DEFINED);
	vocab_add(&f.vocab, "<unused>", 8, TOKEN_UNUSED);
	vocab_add(&f.vocab, "", 0, TOKEN_CONTROL); /* must not match everywhere */
	attach(&f);
	expect(&f, "a<|end|><unk>[user]b", false, true, 'a', control, unknown, user, 'b');
	expect(&f, "[user]", false, false, user);
	expect(&f, "<unk>", false, false, '<', 'u', 'n', 'k', '>');
	expect(&f, "<|end|>", false, false, '<', '|', 'e', 'n', 'd', '|', '>');
	expect(&f, "<|end|", false, true, '<', '|', 'e', 'n', 'd', '|'); /* cut at the end of the text */
	expect(&f, "<<|end|>", false, true, '<', control);
	expect(&f, "<unused>", false, true, '<', 'u', 'n', 'u', 's', 'e', 'd', '>');
	fixture_fini(&f);
}
END_TEST

START_TEST(leftmost_then_longest_special_wins)
{
	struct fixture f = {0};
	vocab_init(&f.vocab);
	uint32_t ab = vocab_add(&f.vocab, "ab", 2, TOKEN_USER_DEFINED);
	uint32_t abcd = vocab_add(&f.vocab, "abcd", 4, TOKEN_CONTROL);
	uint32_t bcde = vocab_add(&f.vocab, "bcdefg", 6, TOKEN_CONTROL);
	uint32_t abc = vocab_add(&f.vocab, "abc", 3, TOKEN_CONTROL);
	uint32_t high = vocab_add(&f.vocab, "\xff\xfe", 2, TOKEN_CONTROL);
	attach(&f);
	expect(&f, "abcd", false, true, abcd);
	expect(&f, "abcx", false, true, abc, 'x');
	expect(&f, "abx", false, true, ab, 'x');
	expect(&f, "abcdefg", false, true, abcd, 'e', 'f', 'g');
	expect(&f, "xbcdefg", false, true, 'x', bcde);
	expect(&f, "abcd", false, false, ab, 'c', 'd'); /* the longer ones are not looked for */
	expect(&f, "abcab", false, true, abc, ab);
	expect(&f, "a\xff\xfe\xff", false, true, 'a', high, 0xff);
	fixture_fini(&f);
}
END_TEST

/* As in llama.cpp, what is beside a special token ends there: a blank before it is at a text's end. */
START_TEST(words_end_at_specials)
{
	struct fixture f = {0};
	vocab_init(&f.vocab);
	uint32_t two = vocab_merge(&f.vocab, ' ', ' '), blank_a = vocab_merge(&f.vocab, ' ', 'a');
	uint32_t control = vocab_add(&f.vocab, "<s>", 3, TOKEN_CONTROL);
	attach(&f);
	expect(&f, "a  <s> a", false, true, 'a', two, control, blank_a);
	expect(&f, "  a", false, true, ' ', blank_a);
	fixture_fini(&f);
}
END_TEST

START_TEST(adds_bos_and_eos_as_the_model_says)
{
	for (int i = 0; i < 4; i++) {
		struct fixture f = {0};
		vocab_init(&f.vocab);
		uint32_t bos = vocab_add(&f.vocab, "<s>", 3, TOKEN_CONTROL);
		uint32_t eos = vocab_add(&f.vocab, "</s>", 4, TOKEN_CONTROL);
		uint32_t eot = vocab_add(&f.vocab, "<eot>", 5, TOKEN_CONTROL);
		struct tokenizer_source *source = &f.vocab.source;
		source->bos = bos, source->eos = eos, source->eot = eot;
		source->ends[0] = 'x', source->ends[1] = 'y', source->n_ends = 2;
		source->add_bos = i & 1, source->add_eos = i & 2;
		attach(&f);
		uint32_t want[3], n = 0;
		if (i & 1)
			want[n++] = bos;
		want[n++] = 'a';
		if (i & 2)
			want[n++] = eos;
		struct token_list list = encode(f.tokenizer, "a", 1, true, false);
		check_ids(&list, want, n);
		token_list_fini(&list);
		list = encode(f.tokenizer, NULL, 0, true, false);
		ck_assert_uint_eq(list.n, n - 1);
		token_list_fini(&list);
		expect(&f, "a", false, false, 'a');
		ck_assert_int_eq(tokenizer_bos(f.tokenizer), bos);
		ck_assert_int_eq(tokenizer_eos(f.tokenizer), eos);
		ck_assert(tokenizer_is_end(f.tokenizer, eos));
		ck_assert(tokenizer_is_end(f.tokenizer, eot));
		ck_assert(tokenizer_is_end(f.tokenizer, 'x'));
		ck_assert(tokenizer_is_end(f.tokenizer, 'y'));
		ck_assert(!tokenizer_is_end(f.tokenizer, 0)); /* those behind the second are none */
		ck_assert(!tokenizer_is_end(f.tokenizer, bos));
		ck_assert(!tokenizer_is_end(f.tokenizer, UINT32_MAX)); /* -1 stands for none, not for this id */
		fixture_fini(&f);
	}
}
END_TEST

START_TEST(no_special_ids)
{
	struct fixture f = {0};
	vocab_init(&f.vocab);
	attach(&f);
	expect(&f, "a", true, true, 'a');
	ck_assert_int_eq(tokenizer_bos(f.tokenizer), -1);
	ck_assert_int_eq(tokenizer_eos(f.tokenizer), -1);
	ck_assert(!tokenizer_is_end(f.tokenizer, UINT32_MAX));
	ck_assert_uint_eq(tokenizer_n_tokens(f.tokenizer), 256);
	fixture_fini(&f);
}
END_TEST

/* --- pieces ----------------------------------------------------------------------------------- */

static void check_piece(const struct tokenizer *tokenizer, uint32_t id, bool special, const char *want)
{
	uint32_t n_bytes = 99;
	const char *piece = tokenizer_piece(tokenizer, id, special, &n_bytes);
	ck_assert_uint_eq(n_bytes, strlen(want));
	ck_assert_mem_eq(piece, want, n_bytes);
}

START_TEST(pieces_are_what_a_token_adds_to_a_text)
{
	struct fixture f = {0};
	vocab_init(&f.vocab);
	uint32_t word = vocab_word(&f.vocab, " caf\xc3\xa9");
	uint32_t control = vocab_add(&f.vocab, "<s>", 3, TOKEN_CONTROL);
	uint32_t unknown = vocab_add(&f.vocab, "<unk>", 5, TOKEN_UNKNOWN);
	uint32_t user = vocab_add(&f.vocab, "a b", 3, TOKEN_USER_DEFINED);
	uint32_t unused = vocab_add(&f.vocab, "<pad9>", 6, TOKEN_UNUSED);
	uint32_t byte = vocab_add(&f.vocab, "<0xE8>", 6, TOKEN_BYTE);
	uint32_t blank_like =
		vocab_add(&f.vocab, "\u0120<s>", 5, TOKEN_CONTROL);	     /* a control token keeps its spelling */
	uint32_t literal = vocab_add(&f.vocab, "\u8a9e x", 5, TOKEN_NORMAL); /* not in the byte spelling */
	attach(&f);
	check_piece(f.tokenizer, word, false, " caf\xc3\xa9");
	check_piece(f.tokenizer, '\n', false, "\n");
	check_piece(f.tokenizer, 0xad, false, "\xad");
	check_piece(f.tokenizer, control, false, "");
	check_piece(f.tokenizer, control, true, "<s>");
	check_piece(f.tokenizer, unknown, false, "");
	check_piece(f.tokenizer, unknown, true, "<unk>");
	check_piece(f.tokenizer, user, false, "a b");
	check_piece(f.tokenizer, unused, true, "");
	check_piece(f.tokenizer, byte, false, "\xe8");
	check_piece(f.tokenizer, blank_like, true, "\u0120<s>");
	check_piece(f.tokenizer, literal, false, "\u8a9e x");
	check_piece(f.tokenizer, f.vocab.source.n_tokens, true, "");
	check_piece(f.tokenizer, UINT32_MAX, true, "");
	for (uint32_t id = 0; id < 256; id++) {
		uint32_t n_bytes;
		const char *piece = tokenizer_piece(f.tokenizer, id, false, &n_bytes);
		ck_assert_uint_eq(n_bytes, 1);
		ck_assert_uint_eq((uint8_t)*piece, id);
	}
	fixture_fini(&f);
}
END_TEST

/* Llama 3's rule: a word that is a token as a whole is that token, also where its merges lead elsewhere. */
START_TEST(whole_words_before_merges)
{
	for (int whole = 0; whole < 2; whole++) {
		struct fixture f;
		vocab_init(&f.vocab);
		uint32_t bc = vocab_merge(&f.vocab, 'b', 'c'), abc = vocab_add(&f.vocab, "abc", 3, TOKEN_NORMAL);
		vocab_add(&f.vocab, "dd", 2, TOKEN_CONTROL);
		f.vocab.source.pre = "llama-bpe";
		f.vocab.source.ignore_merges = whole;
		attach(&f);
		if (whole)
			expect(&f, "abc.abcd", false, false, abc, '.', 'a', bc, 'd');
		else
			expect(&f, "abc.abcd", false, false, 'a', bc, '.', 'a', bc, 'd');
		expect(&f, "dd", false, false, 'd', 'd'); /* only normal tokens are words */
		fixture_fini(&f);
	}
}
END_TEST

/* --- limits, and where the table lies --------------------------------------------------------- */

START_TEST(stops_at_the_limit_and_leaves_the_list_as_it_was)
{
	struct fixture f = {0};
	vocab_init(&f.vocab);
	f.vocab.source.bos = f.vocab.source.eos = 'z';
	f.vocab.source.add_bos = f.vocab.source.add_eos = true;
	attach(&f);
	struct token_list list = {0};
	struct err err = {""};
	ck_assert_int_eq(tokenizer_encode(f.tokenizer, "abc", 3, false, false, 3, &list, &err), 0);
	ck_assert_int_eq(tokenizer_encode(f.tokenizer, "de", 2, false, false, 2, &list, &err), 0); /* appends */
	check_ids(&list, (const uint32_t[]){'a', 'b', 'c', 'd', 'e'}, 5);
	ck_assert_int_eq(tokenizer_encode(f.tokenizer, "abc", 3, false, false, 2, &list, &err), -E2BIG);
	ck_assert_int_eq(tokenizer_encode(f.tokenizer, "abc", 3, true, false, 4, &list, &err), -E2BIG);
	ck_assert_int_eq(tokenizer_encode(f.tokenizer, "a", 1, false, false, 0, &list, &err), -E2BIG);
	ck_assert_str_ne(err.text, "");
	ck_assert_uint_eq(list.n, 5);
	ck_assert_int_eq(tokenizer_encode(f.tokenizer, "abc", 3, true, false, 5, &list, &err), 0);
	ck_assert_uint_eq(list.n, 10);
	token_list_fini(&list);
	ck_assert_ptr_null(list.ids);
	fixture_fini(&f);
}
END_TEST

START_TEST(table_may_lie_anywhere)
{
	struct fixture f = {0};
	vocab_init(&f.vocab);
	uint32_t abc = vocab_word(&f.vocab, "abc"), control = vocab_add(&f.vocab, "<s>", 3, TOKEN_CONTROL);
	attach(&f);
	void *copy;
	ck_assert_int_eq(posix_memalign(&copy, 64, f.table_bytes), 0);
	memcpy(copy, f.table, f.table_bytes);
	memset(f.table, 0xee, f.table_bytes);
	tokenizer_detach(f.tokenizer);
	free(f.table);
	f.table = copy;
	struct err err = {""};
	ck_assert_msg(tokenizer_attach(copy, f.table_bytes, &f.tokenizer, &err) == 0, "%s", err.text);
	expect(&f, "abc<s>", false, true, abc, control);
	fixture_fini(&f);
}
END_TEST

/* A mebibyte of what makes quadratic tokenizers stall; the case's timeout is what fails. */
START_TEST(long_texts_take_linear_time)
{
	static const char *const units[] = {"a",      " ",  "\n", "1",	 "ab",	 "\u8a9e",
					    "\u3000", "a ", "'",  "<|x", "\xff", "\xe8\xaa"};
	struct fixture f = {0};
	vocab_init(&f.vocab);
	uint32_t run = 'a', blanks = ' ';
	for (int i = 0; i < 6; i++) {
		run = vocab_merge(&f.vocab, run, run);
		blanks = vocab_merge(&f.vocab, blanks, blanks);
	}
	vocab_word(&f.vocab, "ab");
	vocab_word(&f.vocab, "ba");
	vocab_add(&f.vocab, "<|x|>", 5, TOKEN_CONTROL);
	attach(&f);
	size_t n_unit = strlen(units[_i]), n_bytes = (1 << 20) / n_unit * n_unit;
	char *text = malloc(n_bytes);
	ck_assert_ptr_nonnull(text);
	for (size_t at = 0; at < n_bytes; at += n_unit)
		memcpy(text + at, units[_i], n_unit);
	check_round_trip(f.tokenizer, text, n_bytes, true);
	free(text);
	fixture_fini(&f);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("tokenizer");
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, merges_follow_rank_not_length_or_place);
	tcase_add_test(tcase, equal_ranks_merge_from_the_left);
	tcase_add_test(tcase, first_of_a_merge_listed_twice_counts);
	tcase_add_test(tcase, no_merge_crosses_a_word);
	tcase_add_test(tcase, contractions_are_words);
	tcase_add_test(tcase, mongolian_vowel_separator_is_no_white_space);
	tcase_add_loop_test(tcase, random_texts_equal_the_reference, 0, 20);
	tcase_add_test(tcase, random_bytes_come_back);
	tcase_add_test(tcase, malformed_bytes_do_not_change_the_words_around_them);
	tcase_add_test(tcase, bytes_without_a_token);
	tcase_add_test(tcase, special_spellings);
	tcase_add_test(tcase, leftmost_then_longest_special_wins);
	tcase_add_test(tcase, words_end_at_specials);
	tcase_add_test(tcase, adds_bos_and_eos_as_the_model_says);
	tcase_add_test(tcase, no_special_ids);
	tcase_add_test(tcase, pieces_are_what_a_token_adds_to_a_text);
	tcase_add_test(tcase, whole_words_before_merges);
	tcase_add_test(tcase, stops_at_the_limit_and_leaves_the_list_as_it_was);
	tcase_add_test(tcase, table_may_lie_anywhere);
	tcase_add_loop_test(tcase, long_texts_take_linear_time, 0, 12);
	Suite *suite = suite_create("tokenizer");
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
