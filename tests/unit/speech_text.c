#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/speech/text.h"
#include "tests/unit/suite.h"

static struct speech_piece piece(const char *bytes)
{
	return (struct speech_piece){bytes, (uint32_t)strlen(bytes)};
}

static void ck_text(const struct speech_piece *pieces, uint32_t n, const char *expected)
{
	struct speech_text text = {0};
	ck_assert_int_eq(speech_text_append(&text, pieces, n), 0);
	ck_assert_uint_eq(text.n_bytes, strlen(expected));
	ck_assert(!memcmp(text.bytes, expected, text.n_bytes));
	speech_text_fini(&text);
}

START_TEST(characters_may_be_spread_over_pieces)
{
	const struct speech_piece pieces[] = {piece(" caf"), piece("\xc3"), piece("\xa9 \xe2\x82"), piece("\xac")};
	ck_text(pieces, 4, " café €");
	ck_text(pieces, 3, " café \xef\xbf\xbd"); /* cut: one replacement */
	ck_text(pieces + 3, 1, "\xef\xbf\xbd");
	ck_text(NULL, 0, "");
}
END_TEST

START_TEST(texts_grow)
{
	struct speech_text text = {0};
	const struct speech_piece abc = piece("abc");
	for (int i = 0; i < 1000; i++)
		ck_assert_int_eq(speech_text_append(&text, &abc, 1), 0);
	ck_assert_uint_eq(text.n_bytes, 3000);
	for (int i = 0; i < 3000; i++)
		ck_assert_int_eq(text.bytes[i], "abc"[i % 3]);
	speech_text_fini(&text);
}
END_TEST

static void ck_strip(const char *text, const char *expected)
{
	size_t n = strlen(text);
	const char *stripped = speech_strip(text, &n);
	ck_assert_uint_eq(n, strlen(expected));
	ck_assert(!memcmp(stripped, expected, n));
}

START_TEST(blanks_are_those_of_unicode)
{
	ck_strip("", "");
	ck_strip(" \t\n\r\v\f\x1c\x1f ", "");
	ck_strip("  a b  ", "a b");
	ck_strip("\u00a0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000\xc2\x85x\u3000\xc2\x85\u00a0", "x");
	ck_strip("\u200b", "\u200b"); /* of no width, and no blank */
	ck_strip("\ufeffx", "\ufeffx");
	ck_strip("é", "é");
	ck_strip("　日本　語　", "日本　語");
}
END_TEST

START_TEST(a_part_is_a_part_and_so_is_nothing)
{
	ck_assert(speech_is_part("", 0, ""));
	ck_assert(speech_is_part("b", 1, "abc"));
	ck_assert(speech_is_part("bc", 2, "abc"));
	ck_assert(!speech_is_part("ac", 2, "abc"));
	ck_assert(speech_is_part("。", 3, ".。!"));
}
END_TEST

/* len(text) / len(zlib.compress(text)), from Python's zlib. */
START_TEST(compression_ratios_are_those_of_python)
{
	char many[800];
	double ratio;
	ck_assert_int_eq(speech_compression_ratio("", 0, &ratio), 0);
	ck_assert_double_eq(ratio, 0);
	ck_assert_int_eq(speech_compression_ratio("ask what you can do for your country.", 37, &ratio), 0);
	ck_assert_double_eq_tol(ratio, 37.0 / 42, 1e-9);
	for (int i = 0; i < 100; i++)
		memcpy(many + 8 * i, "so, yes ", 8);
	ck_assert_int_eq(speech_compression_ratio(many, 800, &ratio), 0);
	ck_assert_double_eq_tol(ratio, 800.0 / 24, 1e-9);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("speech_text");
	TCase *c = tcase_create("all");
	tcase_add_test(c, characters_may_be_spread_over_pieces);
	tcase_add_test(c, texts_grow);
	tcase_add_test(c, blanks_are_those_of_unicode);
	tcase_add_test(c, a_part_is_a_part_and_so_is_nothing);
	tcase_add_test(c, compression_ratios_are_those_of_python);
	suite_add_tcase(s, c);
	return suite_run(s);
}
