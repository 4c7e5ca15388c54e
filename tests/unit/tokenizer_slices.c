/* Encoding in slices: the tokens are the same whatever the size of a slice, and so is what a limit leaves behind. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/suite.h"
#include "tests/unit/tokenizer_vocab.h"

static unsigned pick(unsigned n)
{
	return (unsigned)rand() % n;
}

/* Merges of two letters that compete with each other, so that the order of merging shows in long words. */
static void make_vocab(struct vocab *vocab)
{
	uint32_t parts[40] = {'l', 'v'};
	vocab_init(vocab);
	for (unsigned n = 2; n < 40; n++)
		parts[n] = vocab_merge(vocab, parts[pick(n)], parts[pick(n)]);
	vocab_add(vocab, "<|x|>", 5, TOKEN_CONTROL);
	vocab->source.bos = vocab->source.eos = 'z';
	vocab->source.add_bos = vocab->source.add_eos = true;
}

/* What tokenizer_encode returns; *n_slices is how many it took. */
static int encode_in_slices(const struct tokenizer *tokenizer, const char *text, size_t n_bytes, size_t limit,
			    size_t work, struct token_list *list, unsigned *n_slices)
{
	struct tokenizer_encoding *encoding;
	struct err err = {""};
	int ret = tokenizer_encoding_begin(tokenizer, text, n_bytes, true, true, limit, list, &encoding, &err);
	ck_assert_int_eq(ret, 0);
	for (*n_slices = 1; (ret = tokenizer_encoding_advance(encoding, work, &err)) > 0; ++*n_slices)
		;
	tokenizer_encoding_end(encoding);
	return ret;
}

START_TEST(slices_cannot_be_seen)
{
	struct vocab vocab;
	struct tokenizer *tokenizer;
	struct err err = {""};
	void *table;
	uint64_t table_bytes;
	srand(6);
	make_vocab(&vocab);
	ck_assert_int_eq(vocab_table(&vocab.source, &table, &table_bytes, &err), 0);
	ck_assert_int_eq(tokenizer_attach(table, table_bytes, &tokenizer, &err), 0);
	for (unsigned round = 0; round < 1000; round++) {
		char text[200];
		size_t n_bytes = pick(sizeof text), work = 1 + pick(round % 2 ? 4 : 200);
		for (size_t i = 0; i < n_bytes; i++)
			text[i] = pick(30) ? "lv"[pick(2)] : pick(2) ? "<|x|> \xc3\xa9"[pick(8)] : (char)pick(256);
		struct token_list want = {0}, list = {0};
		unsigned n_slices;
		ck_assert_int_eq(tokenizer_encode(tokenizer, text, n_bytes, true, true, SIZE_MAX, &want, &err), 0);
		int ret = encode_in_slices(tokenizer, text, n_bytes, SIZE_MAX, work, &list, &n_slices);
		if (ret || list.n != want.n || memcmp(list.ids, want.ids, want.n * sizeof *want.ids))
			ck_abort_msg("round %u, slices of %zu: %d, %zu tokens for %zu", round, work, ret, list.n,
				     want.n);
		ck_assert_uint_ge(n_slices, n_bytes / work / 5); /* a special takes one step for its five bytes */
		ret = encode_in_slices(tokenizer, text, n_bytes, want.n - 1, work, &list, &n_slices);
		ck_assert_int_eq(ret, -E2BIG);
		ck_assert_uint_eq(list.n, want.n); /* as it was */
		token_list_fini(&list);
		token_list_fini(&want);
	}
	tokenizer_detach(tokenizer);
	free(table);
	vocab_fini(&vocab);
}
END_TEST

/* What is given up halfway leaves nothing behind (the sanitizers look). */
START_TEST(an_encoding_may_end_at_any_time)
{
	struct vocab vocab;
	struct tokenizer *tokenizer;
	struct err err = {""};
	void *table;
	uint64_t table_bytes;
	make_vocab(&vocab);
	ck_assert_int_eq(vocab_table(&vocab.source, &table, &table_bytes, &err), 0);
	ck_assert_int_eq(tokenizer_attach(table, table_bytes, &tokenizer, &err), 0);
	for (size_t work = 0; work < 60; work++) {
		struct tokenizer_encoding *encoding;
		struct token_list list = {0};
		ck_assert_int_eq(tokenizer_encoding_begin(tokenizer, "lvlvlvlvlv <|x|>l\xff", 18, true, true, SIZE_MAX,
							  &list, &encoding, &err),
				 0);
		ck_assert_int_ge(tokenizer_encoding_advance(encoding, work, &err), 0);
		tokenizer_encoding_end(encoding);
		token_list_fini(&list);
	}
	tokenizer_encoding_end(NULL);
	tokenizer_detach(tokenizer);
	free(table);
	vocab_fini(&vocab);
}
END_TEST

/* How many slices of 64 steps a text of N_LONG bytes takes that repeats `unit`. */
static unsigned slices_of(const struct tokenizer *tokenizer, const char *unit)
{
	enum { N_LONG = 1 << 18 };
	char *text = malloc(N_LONG);
	struct token_list list = {0};
	unsigned n_slices;
	ck_assert_ptr_nonnull(text);
	for (size_t i = 0, n = strlen(unit); i < N_LONG; i++)
		text[i] = unit[i % n];
	ck_assert_int_eq(encode_in_slices(tokenizer, text, N_LONG, SIZE_MAX, 64, &list, &n_slices), 0);
	token_list_fini(&list);
	free(text);
	return n_slices;
}

/* One byte over and over is one word without end, and every pair of its neighbours merges: the text that costs the
 * most. It takes ten times the steps of English at most. */
START_TEST(one_byte_repeated_takes_no_more_than_ten_times_english)
{
	struct vocab vocab;
	struct tokenizer *tokenizer;
	struct err err = {""};
	void *table;
	uint64_t table_bytes;
	vocab_init(&vocab);
	vocab_word(&vocab, " the");
	vocab_word(&vocab, " quick");
	vocab_word(&vocab, " brown");
	for (uint32_t whole = 'a', n = 0; n < 12; n++)
		whole = vocab_merge(&vocab, whole, whole);
	for (uint32_t whole = '.', n = 0; n < 200; n++)
		whole = vocab_merge(&vocab, whole, '.');
	ck_assert_int_eq(vocab_table(&vocab.source, &table, &table_bytes, &err), 0);
	ck_assert_int_eq(tokenizer_attach(table, table_bytes, &tokenizer, &err), 0);
	static const char *const units[] = {"a", ".", " ", "\n", "\xff", "7", "\xe8\xaa\x9e"};
	unsigned english = slices_of(tokenizer, "It's the quick brown fox, over 12 lazy dogs. ");
	ck_assert_uint_gt(english, 1000);
	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		ck_assert_uint_le(slices_of(tokenizer, units[i]), 10 * english);
	tokenizer_detach(tokenizer);
	free(table);
	vocab_fini(&vocab);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("tokenizer_slices");
	TCase *tc = tcase_create("tokenizer_slices");
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, slices_cannot_be_seen);
	tcase_add_test(tc, an_encoding_may_end_at_any_time);
	tcase_add_test(tc, one_byte_repeated_takes_no_more_than_ten_times_english);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
