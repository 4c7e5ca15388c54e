#include <check.h>
#include <stdlib.h>

#include "src/engine/speech/symbols.h"
#include "tests/unit/speech_vocabulary.h"
#include "tests/unit/suite.h"

/* What faster-whisper's Tokenizer.non_speech_tokens gives for the vocabulary that it was recorded with, in which texts
 * are bytes: of musical signs the first byte, and of what is behind a blank the blank. */
START_TEST(symbols_are_those_of_the_reference)
{
	static const uint32_t expected[] = {32, 34, 35, 40, 41, 42, 43, 47,  58,  59,  60,  61, 62,
					    64, 91, 92, 93, 94, 95, 96, 123, 124, 125, 126, 226};
	enum { N = sizeof expected / sizeof *expected };
	struct token_list list = {0};
	struct vocabulary v;
	struct err err;
	bool seen[V_N] = {false};
	vocabulary_init(&v);
	ck_assert_int_eq(speech_symbols(v.tokenizer, &list, &err), 0);
	for (size_t i = 0; i < list.n; i++)
		seen[list.ids[i]] = true;
	for (uint32_t id = 0, next = 0; id < V_N; id++) {
		bool is_expected = next < N && expected[next] == id;
		ck_assert_msg(seen[id] == is_expected, "token %u", id);
		next += is_expected;
	}
	token_list_fini(&list);
	vocabulary_fini(&v);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("speech_symbols");
	TCase *c = tcase_create("all");
	tcase_add_test(c, symbols_are_those_of_the_reference);
	suite_add_tcase(s, c);
	return suite_run(s);
}
