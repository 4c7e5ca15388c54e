/* SentencePiece vocabularies: against a reference that merges the whole text at once by looking at every pair of
 * neighbours, and the rules around merging one by one. Golden ids of a real one are in tokenizer_golden.c. */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/tokenizer.h"
#include "src/engine/tokenizer_table.h"
#include "tests/unit/suite.h"
#include "tests/unit/tokenizer_vocab.h"

enum { MAX_PIECES = 600, MAX_TEXT = 300 };

struct scored {
	struct fixture base;
	float scores[MAX_PIECES];
};

static void begin(struct scored *f)
{
	*f = (struct scored){0};
	vocab_init_bytes(&f->base.vocab, (const uint8_t[256]){0});
	f->base.vocab.source.model = "llama";
	f->base.vocab.source.scores = f->scores;
	f->base.vocab.source.unk = vocab_add(&f->base.vocab, "<unk>", 5, TOKEN_UNKNOWN);
	f->base.vocab.source.bos = vocab_add(&f->base.vocab, "<s>", 3, TOKEN_CONTROL);
	f->base.vocab.source.eos = vocab_add(&f->base.vocab, "</s>", 4, TOKEN_CONTROL);
}

static uint32_t add(struct scored *f, const char *spelled, float score)
{
	ck_assert_uint_lt(f->base.vocab.source.n_tokens, MAX_PIECES);
	uint32_t id = vocab_add(&f->base.vocab, spelled, (uint32_t)strlen(spelled), TOKEN_NORMAL);
	f->scores[id] = score;
	return id;
}

static uint32_t add_bytes(struct scored *f)
{
	uint32_t first = f->base.vocab.source.n_tokens;
	for (unsigned byte = 0; byte < 256; byte++) {
		char spelled[8];
		snprintf(spelled, sizeof spelled, "<0x%02X>", byte);
		vocab_add(&f->base.vocab, spelled, 6, TOKEN_BYTE);
	}
	return first;
}

static void attach(struct scored *f)
{
	struct err err = {""};
	ck_assert_msg(fixture_attach(&f->base, &err) == 0, "%s", err.text);
}

static struct token_list encode(const struct scored *f, const char *text, size_t n_bytes, bool add_special)
{
	struct token_list list = {0};
	struct err err = {""};
	ck_assert_int_eq(tokenizer_encode(f->base.tokenizer, text, n_bytes, add_special, true, SIZE_MAX, &list, &err),
			 0);
	return list;
}

/* Encodes a C string; `want` ends with -1. */
static void check_ids(const struct scored *f, const char *text, bool add_special, const int *want)
{
	struct token_list list = encode(f, text, strlen(text), add_special);
	size_t n = 0;
	for (; want[n] >= 0; n++)
		ck_assert_msg(n < list.n && (int)list.ids[n] == want[n], "\"%s\": token %zu is %d, not %d", text, n,
			      n < list.n ? (int)list.ids[n] : -1, want[n]);
	ck_assert_msg(list.n == n, "\"%s\": %zu tokens, not %zu", text, list.n, n);
	token_list_fini(&list);
}
#define ids(...) ((const int[]){__VA_ARGS__, -1})

/* --- the reference ---------------------------------------------------------------------------- */

struct symbol {
	char text[3 * MAX_TEXT];
	size_t n;
};

static uint32_t find_piece(const struct vocab *vocab, const char *text, size_t n)
{
	uint32_t id = vocab_find(vocab, text, (uint32_t)n);
	return id != UINT32_MAX && vocab->types[id] == TOKEN_NORMAL ? id : UINT32_MAX;
}

/* Spells blanks as U+2581 and makes a symbol of each character of well-formed text. */
static size_t make_symbols(const char *text, size_t n_bytes, struct symbol *symbols)
{
	size_t n = 0;
	for (size_t i = 0; i < n_bytes; n++) {
		uint8_t lead = (uint8_t)text[i];
		size_t length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
		if (lead == ' ') {
			memcpy(symbols[n].text, "\u2581", 3);
			symbols[n].n = 3;
		} else {
			memcpy(symbols[n].text, text + i, length);
			symbols[n].n = length;
		}
		i += length;
	}
	return n;
}

static size_t reference_merge(const struct scored *f, struct symbol *symbols, size_t n)
{
	for (;;) {
		size_t best = n;
		float best_score = 0;
		for (size_t i = 0; i + 1 < n; i++) {
			char joined[6 * MAX_TEXT];
			memcpy(joined, symbols[i].text, symbols[i].n);
			memcpy(joined + symbols[i].n, symbols[i + 1].text, symbols[i + 1].n);
			uint32_t id = find_piece(&f->base.vocab, joined, symbols[i].n + symbols[i + 1].n);
			if (id != UINT32_MAX && (best == n || f->scores[id] > best_score)) {
				best = i;
				best_score = f->scores[id];
			}
		}
		if (best == n)
			return n;
		memcpy(symbols[best].text + symbols[best].n, symbols[best + 1].text, symbols[best + 1].n);
		symbols[best].n += symbols[best + 1].n;
		memmove(&symbols[best + 1], &symbols[best + 2], (n - best - 2) * sizeof *symbols);
		n--;
	}
}

/* Ids of well-formed text; first_byte: the id of <0x00>, UINT32_MAX: no byte tokens. */
static size_t reference_encode(const struct scored *f, const char *text, size_t n_bytes, uint32_t first_byte,
			       uint32_t *out)
{
	static struct symbol symbols[MAX_TEXT];
	size_t n = reference_merge(f, symbols, make_symbols(text, n_bytes, symbols)), n_out = 0;
	uint32_t unk = (uint32_t)f->base.vocab.source.unk;
	for (size_t i = 0; i < n; i++) {
		uint32_t id = find_piece(&f->base.vocab, symbols[i].text, symbols[i].n);
		bool is_blank = symbols[i].n == 3 && memcmp(symbols[i].text, "\u2581", 3) == 0;
		if (id != UINT32_MAX)
			out[n_out++] = id;
		else if (first_byte == UINT32_MAX)
			n_out += !n_out || out[n_out - 1] != unk ? (out[n_out] = unk, 1) : 0;
		else if (is_blank)
			out[n_out++] = first_byte + ' ';
		else
			for (size_t b = 0; b < symbols[i].n; b++)
				out[n_out++] = first_byte + (uint8_t)symbols[i].text[b];
	}
	return n_out;
}

static unsigned pick(unsigned n)
{
	return (unsigned)rand() % n;
}

static const char *const alphabet[] = {"a", "b", "c", "d", " ", " ", "\n", "\u00e9", "\u8a9e", "\U0001f600"};

static void random_piece(char *out)
{
	unsigned n = 2 + pick(4);
	for (*out = '\0'; n--;) {
		const char *character = alphabet[pick(pick(4) ? 6 : 10)];
		strcat(out, *character == ' ' ? "\u2581" : character);
	}
}

/* Few letters and few scores: pieces compete, scores tie, and pieces contain what is no piece. */
static uint32_t random_vocab(struct scored *f)
{
	begin(f);
	uint32_t first_byte = pick(2) ? add_bytes(f) : UINT32_MAX;
	for (size_t i = 0; i < sizeof alphabet / sizeof *alphabet; i++)
		if (pick(8) && i != 4)
			add(f, *alphabet[i] == ' ' ? "\u2581" : alphabet[i], -100);
	for (unsigned i = 0; i < 10 + pick(100); i++) {
		char piece[64];
		random_piece(piece);
		if (vocab_find(&f->base.vocab, piece, (uint32_t)strlen(piece)) == UINT32_MAX)
			add(f, piece, -(float)pick(12) / 4);
	}
	attach(f);
	return first_byte;
}

static size_t random_text(char *text)
{
	size_t n = 0;
	for (unsigned i = pick(60); i--;) {
		const char *character = alphabet[pick(pick(3) ? 6 : 10)];
		memcpy(text + n, character, strlen(character));
		n += strlen(character);
	}
	return n;
}

START_TEST(merges_as_the_reference_does)
{
	srand((unsigned)_i + 1);
	for (unsigned round = 0; round < 40; round++) {
		struct scored f;
		uint32_t first_byte = random_vocab(&f);
		for (unsigned t = 0; t < 50; t++) {
			char text[MAX_TEXT];
			uint32_t want[4 * MAX_TEXT];
			size_t n_bytes = random_text(text), n = reference_encode(&f, text, n_bytes, first_byte, want);
			struct token_list list = encode(&f, text, n_bytes, false);
			ck_assert_msg(list.n == n && (!n || memcmp(list.ids, want, n * sizeof *want) == 0),
				      "round %u, \"%.*s\": %zu tokens, not %zu", round, (int)n_bytes, text, list.n, n);
			token_list_fini(&list);
		}
		fixture_fini(&f.base);
	}
}
END_TEST

START_TEST(slices_cannot_be_seen)
{
	srand(5);
	for (unsigned round = 0; round < 300; round++) {
		struct scored f;
		random_vocab(&f);
		char text[MAX_TEXT + 1];
		size_t n_bytes = random_text(text);
		if (pick(2))
			text[n_bytes++] = (char)pick(256); /* often malformed */
		struct token_list want = encode(&f, text, n_bytes, true), list = {0};
		struct tokenizer_encoding *encoding;
		ck_assert_int_eq(tokenizer_encoding_begin(f.base.tokenizer, text, n_bytes, true, true, SIZE_MAX, &list,
							  &encoding, NULL),
				 0);
		int ret;
		do
			ret = tokenizer_encoding_advance(encoding, 1 + pick(9), NULL);
		while (ret > 0);
		ck_assert_int_eq(ret, 0);
		tokenizer_encoding_end(encoding);
		ck_assert_uint_eq(list.n, want.n);
		if (list.n)
			ck_assert_mem_eq(list.ids, want.ids, list.n * sizeof *list.ids);
		token_list_fini(&list);
		token_list_fini(&want);
		fixture_fini(&f.base);
	}
}
END_TEST

/* --- rules around merging --------------------------------------------------------------------- */

START_TEST(the_highest_score_merges_first_and_the_leftmost_of_equals)
{
	struct scored f;
	begin(&f);
	int a = (int)add(&f, "a", -9), b = (int)add(&f, "b", -9), ab = (int)add(&f, "ab", -1),
	    ba = (int)add(&f, "ba", -2), aa = (int)add(&f, "aa", -3);
	attach(&f);
	check_ids(&f, "aba", false, ids(ab, a));
	check_ids(&f, "baba", false, ids(b, ab, a));
	check_ids(&f, "aaa", false, ids(aa, a));
	check_ids(&f, "bba", false, ids(b, ba));
	fixture_fini(&f.base);
}
END_TEST

START_TEST(blanks_before_a_text_and_behind_specials)
{
	struct scored f;
	begin(&f);
	int blank = (int)add(&f, "\u2581", -9), a = (int)add(&f, "a", -9), blank_a = (int)add(&f, "\u2581a", -1);
	int user = (int)vocab_add(&f.base.vocab, "[u\u2581v]", 7, TOKEN_USER_DEFINED),
	    bos = (int)f.base.vocab.source.bos, byte = (int)add_bytes(&f);
	f.base.vocab.source.blank = TOKENIZER_BLANK_EVERY;
	f.base.vocab.source.add_bos = true;
	attach(&f);
	check_ids(&f, "", false, ids(-1));
	check_ids(&f, "", true, ids(bos));
	check_ids(&f, "a", false, ids(blank_a));
	check_ids(&f, " a", false, ids(blank, blank_a));
	check_ids(&f, "a a", true, ids(bos, blank_a, blank_a));
	check_ids(&f, "a[u v]a", false, ids(blank_a, user, blank_a));
	check_ids(&f, "<s>a", false, ids(bos, blank_a));
	check_ids(&f, "\u2581a", false, ids(blank, blank_a)); /* a visible blank is a blank */
	check_ids(&f,
		  "\xff"
		  "a",
		  false, ids(blank, byte + 0xff, a)); /* also before bytes that are no text */
	check_ids(&f, "<0x41>", false,
		  ids(blank, byte + '<', byte + '0', byte + 'x', byte + '4', byte + '1', byte + '>'));
	fixture_fini(&f.base);
	begin(&f);
	a = (int)add(&f, "a", -9);
	add(&f, "\u2581a", -1);
	attach(&f);
	check_ids(&f, "a", false, ids(a)); /* no prefix unless the model says so */
	fixture_fini(&f.base);
}
END_TEST

START_TEST(a_text_with_its_own_begin_token_gets_no_second_one)
{
	struct scored f;
	begin(&f);
	int a = (int)add(&f, "a", -9), bos = (int)f.base.vocab.source.bos;
	f.base.vocab.source.add_bos = true;
	attach(&f);
	check_ids(&f, "a", true, ids(bos, a));
	check_ids(&f, "<s>a", true, ids(bos, a));
	check_ids(&f, "<s><s>a", true, ids(bos, bos, a)); /* what is written is written */
	check_ids(&f, "a<s>", true, ids(bos, a, bos));
	struct token_list list = {0};
	ck_assert_int_eq(tokenizer_encode(f.base.tokenizer, "<s>", 3, true, false, 10, &list, NULL), 0);
	ck_assert_uint_eq(list.ids[0], (uint32_t)bos); /* there it is only letters, so one is added */
	ck_assert_uint_gt(list.n, 1);
	token_list_fini(&list);
	fixture_fini(&f.base);
}
END_TEST

START_TEST(unknown_characters)
{
	struct scored f;
	begin(&f);
	int a = (int)add(&f, "a", -9), unk = (int)f.base.vocab.source.unk;
	attach(&f);
	check_ids(&f, "xyaz\u8a9e", false, ids(unk, a, unk)); /* once for a run */
	check_ids(&f, "\xff\xfe", false, ids(unk));
	fixture_fini(&f.base);
}
END_TEST

/* The pieces of a text's tokens are the text, but for what the prefix added. */
START_TEST(pieces_are_the_text)
{
	struct scored f;
	begin(&f);
	add(&f, "\u2581", -9);
	add(&f, "\u2581ab", -1);
	add(&f, "\u8a9e\u2581", -1);
	add_bytes(&f);
	attach(&f);
	static const char text[] = "ab  ab\u8a9e \u00e9\U0001f600\n\xf0\x9f";
	struct token_list list = encode(&f, text, sizeof text - 1, false);
	size_t at = 0;
	for (size_t i = 0; i < list.n; i++) {
		uint32_t n_bytes;
		const char *piece = tokenizer_piece(f.base.tokenizer, list.ids[i], false, &n_bytes);
		ck_assert_uint_le(at + n_bytes, sizeof text - 1);
		ck_assert_mem_eq(piece, text + at, n_bytes);
		at += n_bytes;
	}
	ck_assert_uint_eq(at, sizeof text - 1);
	token_list_fini(&list);
	fixture_fini(&f.base);
}
END_TEST

/* --- hostile lists and tables ----------------------------------------------------------------- */

static void refused(struct scored *f, int code, const char *says)
{
	struct err err = {""};
	ck_assert_int_eq(vocab_table(&f->base.vocab.source, &f->base.table, &f->base.table_bytes, &err), code);
	ck_assert_msg(strstr(err.text, says), "\"%s\" does not say \"%s\"", err.text, says);
	fixture_fini(&f->base);
}

START_TEST(bad_lists)
{
	static const float bad[] = {NAN, INFINITY, -INFINITY};
	struct scored f;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		begin(&f);
		add(&f, "a", bad[i]);
		refused(&f, -EINVAL, "tokenizer.ggml.scores[3]");
	}
	begin(&f);
	f.base.vocab.source.scores = NULL;
	refused(&f, -EINVAL, "tokenizer.ggml.scores is missing");
	begin(&f);
	f.base.vocab.source.unk = -1;
	refused(&f, -EINVAL, "neither byte tokens nor an unknown_token_id");
	begin(&f);
	char *long_piece = calloc(1, TABLE_MAX_PIECE_BYTES + 2);
	add(&f, memset(long_piece, 'a', TABLE_MAX_PIECE_BYTES + 1), 0);
	free(long_piece);
	refused(&f, -ENOTSUP, "tokenizer.ggml.tokens[3]");
}
END_TEST

/* A good table with some bytes changed is refused or harmless (the sanitizers look). */
START_TEST(flipped_at_random)
{
	srand((unsigned)_i + 1);
	struct scored f;
	random_vocab(&f);
	unsigned n_taken = 0;
	for (unsigned round = 0; round < 300; round++) {
		char *spoilt;
		if (posix_memalign((void **)&spoilt, 64, f.base.table_bytes) != 0)
			abort();
		memcpy(spoilt, f.base.table, f.base.table_bytes);
		for (unsigned n = 1 + pick(8); n--;)
			spoilt[pick(round % 2 ? 128 : (unsigned)f.base.table_bytes)] ^= (char)(1u << pick(8));
		struct tokenizer *tokenizer;
		int ret = tokenizer_attach(spoilt, f.base.table_bytes, &tokenizer, NULL);
		if (ret == 0) {
			char text[MAX_TEXT + 1];
			struct token_list list = {0};
			size_t n_bytes = random_text(text);
			text[n_bytes++] = (char)pick(256);
			ck_assert_int_eq(tokenizer_encode(tokenizer, text, n_bytes, true, true, 9999, &list, NULL), 0);
			for (size_t i = 0; i < list.n; i++)
				ck_assert_uint_lt(list.ids[i], tokenizer_n_tokens(tokenizer));
			token_list_fini(&list);
			tokenizer_detach(tokenizer);
			n_taken++;
		} else {
			ck_assert_int_eq(ret, -EINVAL);
		}
		free(spoilt);
	}
	ck_assert_uint_gt(n_taken, 0);
	fixture_fini(&f.base);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("tokenizer_pieces");
	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, merges_as_the_reference_does, 0, 4);
	tcase_add_test(tcase, slices_cannot_be_seen);
	tcase_add_test(tcase, the_highest_score_merges_first_and_the_leftmost_of_equals);
	tcase_add_test(tcase, blanks_before_a_text_and_behind_specials);
	tcase_add_test(tcase, a_text_with_its_own_begin_token_gets_no_second_one);
	tcase_add_test(tcase, unknown_characters);
	tcase_add_test(tcase, pieces_are_the_text);
	tcase_add_test(tcase, bad_lists);
	tcase_add_loop_test(tcase, flipped_at_random, 0, 6);
	Suite *suite = suite_create("tokenizer_pieces");
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
