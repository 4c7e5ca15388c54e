/* Pre-tokenizers: the words of texts that tell them apart, and what holds for all of them and any text. */
#include "src/engine/tokenizer_split.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/suite.h"

static const char *const names[] = {"smollm", "gpt-2", "llama-bpe", "llama3", "llama-v3", "qwen2", "default"};
enum { N_NAMES = sizeof names / sizeof *names };

static struct split_rules *rules_of(const char *name)
{
	uint32_t kind;
	struct split_rules *rules;
	struct err err = {""};
	ck_assert_msg(split_kind_of(name, &kind, &err) == 0, "%s", err.text);
	ck_assert_msg(split_rules_new(kind, &rules, &err) == 0, "%s", err.text);
	return rules;
}

/* The words of `text`, with a bar between any two. */
static void check_words(const char *name, const char *text, const char *want)
{
	struct split_rules *rules = rules_of(name);
	struct split *split;
	char got[1000] = "";
	const char *word;
	size_t n_bytes;
	int ret;
	ck_assert_int_eq(split_new(rules, &split), 0);
	split_begin(split, text, strlen(text));
	while ((ret = split_next(split, &word, &n_bytes, NULL)) > 0) {
		if (*got)
			strcat(got, "|");
		strncat(got, word, n_bytes);
	}
	ck_assert_int_eq(ret, 0);
	ck_assert_msg(strcmp(got, want) == 0, "%s: \"%s\" became \"%s\", not \"%s\"", name, text, got, want);
	split_free(split);
	split_rules_free(rules);
}

START_TEST(digits)
{
	check_words("smollm", "a 1234", "a| |1|2|3|4");
	check_words("gpt-2", "a 1234", "a| 1234");
	check_words("llama-bpe", "a 1234", "a| |123|4");
	check_words("qwen2", "a 1234", "a| |1|2|3|4");
	check_words("default", "a 1234567", "a| |123|456|7");
	check_words("llama-bpe", "x\u0661\u0662\u0663\u0664", "x|\u0661\u0662\u0663|\u0664");
}
END_TEST

START_TEST(contractions)
{
	check_words("gpt-2", "I'll WE'LL", "I|'ll| WE|'|LL");
	check_words("llama-bpe", "I'll WE'LL x'Re", "I|'ll| WE|'LL| x|'Re");
	check_words("qwen2", "I'll WE'LL", "I|'ll| WE|'LL");
	check_words("default", "I'll", "I|'|ll"); /* marks are cut off before */
}
END_TEST

START_TEST(marks_and_letters)
{
	check_words("gpt-2", "a.b (c)\tx", "a|.|b| (|c|)|\t|x");
	check_words("llama-bpe", "a.b (c)\tx", "a|.b| (|c|)|\tx"); /* one character goes with the letters behind it */
	check_words("qwen2", "a$$\n\nb", "a|$$\n\n|b");
	check_words("default", "a+=b $5", "a|+=|b| |$|5");
	check_words("qwen2", "\u8a9e\u00e9\u0301 \U0001f600x", "\u8a9e\u00e9|\u0301| \U0001f600|x");
}
END_TEST

START_TEST(white_space)
{
	check_words("gpt-2", "a  \n  b  ", "a|  \n | b|  ");
	check_words("llama-bpe", "a  \n  b  ", "a|  \n| | b|  ");
	check_words("llama-bpe", "\n \n\t\r\n  \tb", "\n \n\t\r\n|  |\tb");
	check_words("qwen2", "a \u00a0\u3000\nb\u2003\u2003c", "a| \u00a0\u3000\n|b|\u2003|\u2003c");
	check_words("default", "a\t b", "a|\t| b");
	check_words("qwen2", "a\u180eb", "a|\u180eb"); /* no white space since Unicode 6.3 */
}
END_TEST

START_TEST(unknown_names)
{
	uint32_t kind;
	struct err err = {""};
	struct split_rules *rules;
	ck_assert_int_eq(split_kind_of("gpt2", &kind, &err), -ENOTSUP);
	ck_assert_ptr_nonnull(strstr(err.text, "tokenizer.ggml.pre = \"gpt2\""));
	ck_assert_int_eq(split_rules_new(0, &rules, &err), -EINVAL);
}
END_TEST

/* Every byte is in exactly one word, in order, and no word is empty. Includes texts with as many steps as a text can
 * have: lines of one blank, marks without end. */
START_TEST(words_are_the_text)
{
	static const char *const units[] = {" \n",    " ",   "\n",     "a",   "1",     ".",
					    "\t\r\n", "'ll", "\u8a9e", " 'x", "\u0301"};
	enum { N_BYTES = 300000 };
	struct split_rules *rules = rules_of(names[_i]);
	char *text = malloc(N_BYTES + 8);
	ck_assert_ptr_nonnull(text);
	srand(3);
	for (size_t u = 0; u <= sizeof units / sizeof *units; u++) {
		struct split *split;
		size_t n = 0, at = 0, n_bytes;
		const char *word;
		int ret;
		while (n < N_BYTES) {
			const char *unit = units[u < sizeof units / sizeof *units ? u : (size_t)rand() % u];
			memcpy(text + n, unit, strlen(unit));
			n += strlen(unit);
		}
		ck_assert_int_eq(split_new(rules, &split), 0);
		split_begin(split, text, n);
		while ((ret = split_next(split, &word, &n_bytes, NULL)) > 0) {
			ck_assert(word == text + at && n_bytes > 0 && n_bytes <= n - at);
			at += n_bytes;
		}
		ck_assert_int_eq(ret, 0);
		ck_assert_uint_eq(at, n);
		split_free(split);
	}
	free(text);
	split_rules_free(rules);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("tokenizer_split");
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, digits);
	tcase_add_test(tcase, contractions);
	tcase_add_test(tcase, marks_and_letters);
	tcase_add_test(tcase, white_space);
	tcase_add_test(tcase, unknown_names);
	tcase_add_loop_test(tcase, words_are_the_text, 0, N_NAMES);
	Suite *suite = suite_create("tokenizer_split");
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
