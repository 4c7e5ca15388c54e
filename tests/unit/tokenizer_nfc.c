/* Normalization form C: examples of Unicode Standard Annex 15, and that it takes little work, in slices of any size.
 * tests/tokenizer compares it with the `tokenizers` library on texts of all characters. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/tokenizer_nfc.h"
#include "tests/unit/suite.h"

/* Normalizes in slices of `work` characters; returns how many were looked at in all. */
static size_t normalize(struct nfc *nfc, const char *text, size_t n_bytes, size_t work)
{
	size_t used = 0;
	int ret;
	nfc_begin(nfc, text, n_bytes);
	do {
		size_t left = work;
		ret = nfc_advance(nfc, &left);
		used += work - left;
	} while (ret > 0);
	ck_assert_int_eq(ret, 0);
	return used;
}

static void becomes(const char *text, const char *want)
{
	struct nfc nfc = {0};
	for (size_t work = 1; work < 20; work++) {
		size_t n_bytes;
		normalize(&nfc, text, strlen(text), work);
		const char *result = nfc_result(&nfc, &n_bytes);
		ck_assert_uint_eq(n_bytes, strlen(want));
		ck_assert_int_eq(memcmp(result, want, n_bytes), 0);
	}
	nfc_fini(&nfc);
}

START_TEST(examples)
{
	becomes("e\u0301", "\u00e9");
	becomes("ABC\u212b.", "ABC\u00c5.");				   /* a singleton */
	becomes("\u0301x", "\u0301x");					   /* nothing to join */
	becomes("q\u0307\u0323", "q\u0323\u0307");			   /* marks in order */
	becomes("d\u0307\u0323", "\u1e0d\u0307");			   /* the dot below is nearer */
	becomes("\u1e0b\u0323 \u1e0d\u0307", "\u1e0d\u0307 \u1e0d\u0307"); /* composed ones come apart */
	becomes("\u0958", "\u0915\u093c");				   /* excluded from composition */
	becomes("\u2adc", "\u2add\u0338");
	becomes("\u1112\u1161\u11ab", "\ud55c"); /* Hangul */
	becomes("\uac00\u11a8\u11a8", "\uac01\u11a8");
	becomes("a\u0301\u0301", "\u00e1\u0301");			    /* the second is of the first one's class */
	becomes("a\u0315\u0300\u05ae\u0300b", "\u00e0\u05ae\u0300\u0315b"); /* of Unicode's own test file */
	becomes("\u09c7\u0334\u09be", "\u09c7\u0334\u09be"); /* a starter is only joined by its neighbour */
	becomes("", "");
}
END_TEST

START_TEST(what_is_normalized_is_not_copied)
{
	static const char text[] = "It's \u00fcber-\ud55c\uad6d\uc5b4 \u65e5\u672c\u8a9e\u304c \u1e69 \U0001f600";
	struct nfc nfc = {0};
	size_t n_bytes;
	ck_assert_uint_le(normalize(&nfc, text, sizeof text - 1, SIZE_MAX), sizeof text);
	ck_assert_ptr_eq(nfc_result(&nfc, &n_bytes), text);
	ck_assert_uint_eq(n_bytes, sizeof text - 1);
	ck_assert_ptr_null(nfc.copy);
	nfc_fini(&nfc);
}
END_TEST

/* Marks in the wrong order, as many as there are: ordering them by exchanges would take the square of their number. */
START_TEST(a_text_of_marks_takes_a_few_steps_for_each)
{
	enum { N_MARKS = 1 << 19 };
	char *text = malloc(2 * N_MARKS);
	struct nfc nfc = {0};
	size_t n_bytes;
	ck_assert_ptr_nonnull(text);
	for (size_t i = 0; i < N_MARKS; i++)
		memcpy(text + 2 * i, i % 2 ? "\u0316" : "\u0301", 2);
	ck_assert_uint_le(normalize(&nfc, text, 2 * N_MARKS, 1000), 4 * N_MARKS);
	const char *result = nfc_result(&nfc, &n_bytes);
	ck_assert_uint_eq(n_bytes, 2 * N_MARKS);
	for (size_t i = 0; i < N_MARKS; i++)
		ck_assert_int_eq(memcmp(result + 2 * i, i < N_MARKS / 2 ? "\u0316" : "\u0301", 2), 0);
	nfc_fini(&nfc);
	free(text);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("tokenizer_nfc");
	TCase *tc = tcase_create("tokenizer_nfc");
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, examples);
	tcase_add_test(tc, what_is_normalized_is_not_copied);
	tcase_add_test(tc, a_text_of_marks_takes_a_few_steps_for_each);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
