#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/speech/words.h"
#include "tests/unit/suite.h"

static struct speech_words words;

/* Cuts pieces, given as texts up to NULL, and checks the words, joined by bars. */
static void split(const char *const *texts, bool by_characters)
{
	struct speech_piece pieces[64];
	uint32_t n = 0;
	for (; texts[n]; n++)
		pieces[n] = (struct speech_piece){texts[n], (uint32_t)strlen(texts[n])};
	ck_assert_int_eq(speech_words_split(pieces, n, by_characters, &words), 0);
	uint32_t n_tokens = 0;
	for (uint32_t i = 0; i < words.n; i++)
		n_tokens += words.words[i].n_tokens;
	ck_assert_uint_eq(n_tokens, n);
}

static void ck_words(const char *expected)
{
	char all[512] = "";
	for (uint32_t i = 0; i < words.n; i++) {
		strncat(all, words.text.bytes + words.words[i].text, words.words[i].n_bytes);
		strcat(all, "|");
	}
	ck_assert_str_eq(all, expected);
}

#define SPLIT(by_characters, ...) split((const char *const[]){__VA_ARGS__, NULL}, by_characters)

START_TEST(words_begin_at_blanks_and_around_punctuation)
{
	SPLIT(false, " Ask", " not", ",", " Ken", "ned", "y", "'", "s", " \"", "end", ".", "\"", "()");
	ck_words(" Ask| not|,| Kennedy|'s| \"end|.|\"|()|");
	ck_assert_uint_eq(words.words[3].n_tokens, 3);
	speech_words_fini(&words);
}
END_TEST

START_TEST(without_blanks_words_are_whole_characters)
{
	SPLIT(true, "日", "\xe6\x9c", "\xac", "語", "ab", "\xf0\x9f", "\x98", "\x80");
	ck_words("日|本|語|ab|😀|");
	ck_assert_uint_eq(words.words[1].n_tokens, 2);
	ck_assert_uint_eq(words.words[4].n_tokens, 3);
	speech_words_fini(&words);
	SPLIT(true, "a", "\xe6\x9c", "b", "\xe6"); /* what is ill-formed in the whole text ends a word, too */
	ck_words("a|\xef\xbf\xbd|b|\xef\xbf\xbd|");
	speech_words_fini(&words);
	ck_assert(speech_by_characters("zh") && speech_by_characters("yue") && !speech_by_characters("en"));
}
END_TEST

START_TEST(punctuation_joins_its_word)
{
	SPLIT(false, " So", ",", " \"", "ask", " (", "not", ")", ".", "\"", " -", " 5");
	ck_words(" So|,| \"ask| (not|)|.|\"| -| 5|");
	speech_words_join(&words, "\"'“¿([{-", "\"'.。,，!！?？:：”)]}、");
	ck_words(" So,|| \"ask| (not).\"||||| - 5|");
	speech_words_fini(&words);
}
END_TEST

/* One token a word, a word each frames[i] to frames[i + 1], probability i / 10. */
static void timed(const char *const *texts, const uint32_t *frames)
{
	float probabilities[64];
	for (int i = 0; i < 64; i++)
		probabilities[i] = (float)i / 10;
	split(texts, false);
	speech_words_time(&words, frames, probabilities);
}

static void ck_times(uint32_t i, double start, double end)
{
	ck_assert_double_eq_tol(words.words[i].start, start, 1e-9);
	ck_assert_double_eq_tol(words.words[i].end, end, 1e-9);
}

START_TEST(words_take_their_tokens_times)
{
	static const uint32_t frames[] = {0, 10, 25, 50, 75};
	static const char *const texts[] = {" a", " b", "c", " d", NULL};
	timed(texts, frames);
	ck_times(0, 0, 0.2);
	ck_times(1, 0.2, 1);
	ck_times(2, 1, 1.5);
	ck_assert_float_eq_tol(words.words[1].probability, 0.15f, 1e-6f); /* the mean of 0.1 and 0.2 */
	speech_words_fini(&words);
}
END_TEST

/* Durations 0.2, 0.2, 0 (not counted), 2, 0.2, 4: the median is 0.2. */
START_TEST(long_words_at_the_ends_of_sentences_are_cut)
{
	static const uint32_t frames[] = {0, 10, 20, 20, 120, 130, 330};
	static const char *const texts[] = {" a", " b", " c", ".", " d", " e", NULL};
	struct speech_pace pace;
	timed(texts, frames);
	ck_assert_int_eq(speech_words_pace(&words, &pace), 0);
	ck_assert_double_eq_tol(pace.median, 0.2, 1e-9);
	ck_assert_double_eq_tol(pace.max, 0.4, 1e-9);
	ck_times(3, 0.4, 0.8); /* the full stop */
	ck_times(4, 2.4, 2.6); /* not long */
	ck_times(5, 2.6, 6.6); /* long, but no sentence ends there */
	speech_words_fini(&words);
	SPLIT(false, " .", " x"); /* the mark is part of a longer text: no end of a sentence by itself */
	ck_assert_int_eq(speech_words_pace(&words, &pace), 0);
	ck_assert_double_eq(pace.median, 0);
	speech_words_fini(&words);
}
END_TEST

START_TEST(words_are_dealt_to_segments_which_take_their_times)
{
	static const uint32_t frames[] = {5, 15, 25, 35, 45, 60};
	static const char *const texts[] = {" a", ",", " b", " c", " d", NULL};
	struct speech_draft segments[] = {{.start = 10, .end = 10.6, .n_text_tokens = 3},
					  {.start = 10.6, .end = 11, .n_text_tokens = 0},
					  {.start = 10.7, .end = 11.5, .n_text_tokens = 2}};
	const struct speech_pace pace = {0.2, 0.4};
	timed(texts, frames);
	speech_words_join(&words, "", ",");
	speech_words_deal(&words, segments, 3, 10, &pace, 9.9);
	ck_words(" a,| b| c| d|");
	ck_assert_uint_eq(segments[0].n_words, 2);
	ck_assert_uint_eq(segments[1].n_words, 0);
	ck_assert_uint_eq(segments[2].first_word, 2);
	ck_assert_uint_eq(segments[2].n_words, 2);
	ck_assert_double_eq_tol(segments[0].start, 10.1, 1e-9);
	ck_assert_double_eq_tol(segments[0].end, 10.7, 1e-9);
	ck_assert_double_eq_tol(segments[1].end, 11, 1e-9);
	ck_assert_double_eq_tol(segments[2].end, 11.2, 1e-9);
	speech_words_fini(&words);
}
END_TEST

/* The first word took in four seconds of silence: it is cut to what is usual; the last hangs over: the segment knows
 * better. */
START_TEST(words_beside_silence_are_cut)
{
	static const uint32_t frames[] = {0, 200, 210, 310};
	static const char *const texts[] = {" a", " b", " c", NULL};
	struct speech_draft segment = {.start = 0, .end = 4.4, .n_text_tokens = 3};
	const struct speech_pace pace = {0.2, 0.4};
	timed(texts, frames);
	speech_words_deal(&words, &segment, 1, 0, &pace, 0);
	ck_times(0, 3.6, 4);
	ck_times(2, 4.2, 4.4);
	ck_assert_double_eq_tol(segment.start, 3.6, 1e-9);
	ck_assert_double_eq_tol(segment.end, 4.4, 1e-9);
	speech_words_fini(&words);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("speech_words");
	TCase *c = tcase_create("all");
	tcase_add_test(c, words_begin_at_blanks_and_around_punctuation);
	tcase_add_test(c, without_blanks_words_are_whole_characters);
	tcase_add_test(c, punctuation_joins_its_word);
	tcase_add_test(c, words_take_their_tokens_times);
	tcase_add_test(c, long_words_at_the_ends_of_sentences_are_cut);
	tcase_add_test(c, words_are_dealt_to_segments_which_take_their_times);
	tcase_add_test(c, words_beside_silence_are_cut);
	suite_add_tcase(s, c);
	return suite_run(s);
}
