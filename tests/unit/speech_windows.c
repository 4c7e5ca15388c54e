#include <check.h>

#include "src/engine/speech/windows.h"
#include "tests/unit/suite.h"

/* Text below 10, the end 10, timestamps from 20 on. */
enum { EOT = 10, T = 20 };
static struct speech_draft drafts[64];

static struct speech_window_split split(const uint32_t *tokens, uint32_t n)
{
	return speech_window_split(tokens, n, EOT, T, 1000, 2500, drafts);
}

static void ck_draft(uint32_t i, double start, double end, uint32_t first, uint32_t n, uint32_t n_text)
{
	ck_assert_double_eq_tol(drafts[i].start, start, 1e-9);
	ck_assert_double_eq_tol(drafts[i].end, end, 1e-9);
	ck_assert_uint_eq(drafts[i].first_token, first);
	ck_assert_uint_eq(drafts[i].n_tokens, n);
	ck_assert_uint_eq(drafts[i].n_text_tokens, n_text);
}

START_TEST(pairs_split_and_what_is_unfinished_begins_the_next_window)
{
	const uint32_t tokens[] = {T, 1, 2, T + 100, T + 150, 3, T + 200, T + 210, 4, 5};
	struct speech_window_split s = split(tokens, 10);
	ck_assert_uint_eq(s.n_drafts, 2);
	ck_draft(0, 10, 12, 0, 4, 2);
	ck_draft(1, 13, 14, 4, 3, 1);
	ck_assert_uint_eq(s.next_frame, 1000 + 400); /* where the last segment ended */
	ck_assert(!s.single_ending);
}
END_TEST

START_TEST(with_one_timestamp_at_the_end_the_window_is_done)
{
	const uint32_t tokens[] = {T, 1, 2, T + 100, T + 150, 3, T + 200};
	struct speech_window_split s = split(tokens, 7);
	ck_assert_uint_eq(s.n_drafts, 2);
	ck_draft(1, 13, 14, 4, 3, 1);
	ck_assert_uint_eq(s.next_frame, 3500);
	ck_assert(s.single_ending);
}
END_TEST

START_TEST(without_a_pair_it_is_one_segment)
{
	const uint32_t with_end[] = {T + 5, 1, 2, T + 100}, without[] = {1, 2, 3}, zero[] = {T, 1};
	struct speech_window_split s = split(with_end, 4);
	ck_assert_uint_eq(s.n_drafts, 1);
	ck_draft(0, 10, 12, 0, 4, 2);
	ck_assert_uint_eq(s.next_frame, 3500);
	s = split(without, 3);
	ck_assert_uint_eq(s.n_drafts, 1);
	ck_draft(0, 10, 35, 0, 3, 3);
	s = split(zero, 2); /* <|0.00|> does not say when it ends */
	ck_draft(0, 10, 35, 0, 2, 1);
	s = split(without, 0);
	ck_draft(0, 10, 35, 0, 0, 0);
}
END_TEST

START_TEST(a_window_always_moves_on)
{
	const uint32_t tokens[] = {T, 1, T, T, 2};
	ck_assert_uint_eq(split(tokens, 5).next_frame, 3500);
}
END_TEST

START_TEST(marks_are_tokens_but_no_text)
{
	const uint32_t tokens[] = {T, 1, EOT, EOT + 3, 2, T + 50};
	split(tokens, 6);
	ck_draft(0, 10, 11, 0, 6, 2);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("speech_windows");
	TCase *c = tcase_create("all");
	tcase_add_test(c, pairs_split_and_what_is_unfinished_begins_the_next_window);
	tcase_add_test(c, with_one_timestamp_at_the_end_the_window_is_done);
	tcase_add_test(c, without_a_pair_it_is_one_segment);
	tcase_add_test(c, a_window_always_moves_on);
	tcase_add_test(c, marks_are_tokens_but_no_text);
	suite_add_tcase(s, c);
	return suite_run(s);
}
