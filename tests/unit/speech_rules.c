#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/speech/rules.h"
#include "tests/unit/suite.h"

/* A small vocabulary: text 0..9, end 10, other marks 11..13 (13: no timestamps), timestamps 14..29. */
enum { N = 30, EOT = 10, NO_TIMESTAMPS = 13, FIRST = 14 };

static struct speech_rules plain(void)
{
	return (struct speech_rules){.n_vocab = N,
				     .eot = EOT,
				     .no_timestamps = NO_TIMESTAMPS,
				     .first_timestamp = FIRST,
				     .timestamps = true,
				     .max_initial_timestamp = 5,
				     .repetition_penalty = 1};
}

static float logits[N];

static void apply(const struct speech_rules *rules, const uint32_t *tokens, uint32_t n, uint32_t n_prefix)
{
	speech_rules_apply(rules, tokens, n, n_prefix, logits);
}

static void level(void)
{
	for (int i = 0; i < N; i++)
		logits[i] = -1;
}

/* Checks that exactly the ids of [begin, end) and `also` (or none: N) are left. */
static void ck_left(uint32_t begin, uint32_t end, uint32_t also)
{
	for (uint32_t i = 0; i < N; i++)
		ck_assert_msg((logits[i] > -INFINITY) == ((i >= begin && i < end) || i == also), "token %u", i);
}

START_TEST(a_text_begins_with_a_timestamp_that_is_not_too_late)
{
	struct speech_rules r = plain();
	level();
	apply(&r, NULL, 0, 0);
	ck_left(FIRST, FIRST + 6, N);
	const uint32_t given[] = {FIRST, 3};
	level();
	apply(&r, given, 2, 2); /* the same behind what was given */
	ck_left(FIRST, FIRST + 6, N);
	r.max_initial_timestamp = 1000;
	level();
	apply(&r, NULL, 0, 0);
	ck_left(FIRST, N, N);
}
END_TEST

START_TEST(the_first_timestamp_is_followed_by_text)
{
	struct speech_rules r = plain();
	const uint32_t tokens[] = {FIRST + 2};
	level();
	logits[NO_TIMESTAMPS] = 50;
	apply(&r, tokens, 1, 0);
	for (uint32_t i = 0; i < N; i++)
		ck_assert_int_eq(logits[i] > -INFINITY, i < FIRST && i != NO_TIMESTAMPS);
}
END_TEST

START_TEST(a_timestamp_behind_text_is_followed_by_one_not_earlier_or_the_end)
{
	struct speech_rules r = plain();
	const uint32_t tokens[] = {FIRST, 3, FIRST + 4};
	level();
	logits[EOT] = 20; /* more probable than all timestamps */
	apply(&r, tokens, 3, 0);
	for (uint32_t i = 0; i < N; i++)
		ck_assert_int_eq(logits[i] > -INFINITY,
				 i >= FIRST + 4 || (i >= EOT && i < FIRST && i != NO_TIMESTAMPS));
	level();
	apply(&r, tokens, 3, 0); /* as probable as each of them: they win together */
	ck_left(FIRST + 4, N, N);
}
END_TEST

START_TEST(a_pair_is_followed_by_text)
{
	struct speech_rules r = plain();
	const uint32_t tokens[] = {FIRST, 3, FIRST + 4, FIRST + 4};
	level();
	for (int i = FIRST; i < N; i++)
		logits[i] = 30; /* however probable timestamps are */
	apply(&r, tokens, 4, 0);
	for (uint32_t i = 0; i < N; i++)
		ck_assert_int_eq(logits[i] > -INFINITY, i < FIRST && i != NO_TIMESTAMPS);
}
END_TEST

/* 12 timestamps of weight w each against one text token of weight 1: they win from w > 1/12 on. */
START_TEST(timestamps_come_when_all_together_beat_the_best_text_token)
{
	struct speech_rules r = plain();
	const uint32_t tokens[] = {FIRST + 4, 3};
	for (int win = 0; win < 2; win++) {
		for (int i = 0; i < N; i++)
			logits[i] = i < FIRST ? -40 : logf(win ? 1.01f / 12 : 0.99f / 12);
		logits[7] = 0;
		apply(&r, tokens, 2, 0);
		ck_assert_int_eq(isinf(logits[7]) != 0, win);
		ck_assert(isinf(logits[FIRST + 3])); /* earlier than the last */
		ck_assert(!isinf(logits[FIRST + 4]));
	}
}
END_TEST

START_TEST(without_timestamps_nothing_is_said_of_them)
{
	struct speech_rules r = plain();
	const uint32_t tokens[] = {3};
	r.timestamps = false;
	level();
	apply(&r, tokens, 1, 0);
	ck_left(0, N, N);
	level();
	apply(&r, NULL, 0, 0);
	ck_left(0, N, N);
}
END_TEST

START_TEST(suppressed_tokens_go_always_and_those_of_the_beginning_at_first)
{
	static const uint32_t always[] = {1, 12}, begin[] = {2, EOT};
	static const uint32_t tokens[] = {5, 5};
	struct speech_rules r = plain();
	r.timestamps = false;
	r.suppressed = always, r.n_suppressed = 2;
	r.suppressed_begin = begin, r.n_suppressed_begin = 2;
	for (uint32_t n = 0; n <= 2; n++)
		for (uint32_t prefix = 0; prefix <= n; prefix++) {
			level();
			apply(&r, tokens, n, prefix);
			for (uint32_t i = 0; i < N; i++)
				ck_assert_int_eq(isinf(logits[i]) != 0,
						 i == 1 || i == 12 || (n == prefix && (i == 2 || i == EOT)));
		}
}
END_TEST

START_TEST(suppression_comes_before_timestamps_are_weighed)
{
	static const uint32_t always[] = {7}, tokens[] = {FIRST, 3};
	struct speech_rules r = plain();
	r.suppressed = always, r.n_suppressed = 1;
	for (int i = 0; i < N; i++)
		logits[i] = i < FIRST ? -40 : 0;
	logits[7] = 90; /* would win */
	apply(&r, tokens, 2, 0);
	ck_left(FIRST, N, N);
}
END_TEST

START_TEST(repetition_is_penalised_once)
{
	struct speech_rules r = plain();
	const uint32_t tokens[] = {4, 4, 6};
	r.timestamps = false;
	r.repetition_penalty = 2;
	level();
	logits[4] = 3;
	apply(&r, tokens, 3, 0);
	for (uint32_t i = 0; i < N; i++)
		ck_assert_float_eq(logits[i], i == 4 ? 1.5f : i == 6 ? -2 : -1);
}
END_TEST

START_TEST(an_ngram_does_not_come_again)
{
	struct speech_rules r = plain();
	const uint32_t tokens[] = {1, 2, 3, 1, 2, 4, 1, 2};
	r.timestamps = false;
	r.no_repeat_ngram = 3;
	level();
	apply(&r, tokens, 8, 0);
	for (uint32_t i = 0; i < N; i++)
		ck_assert_int_eq(isinf(logits[i]) != 0, i == 3 || i == 4);
	r.no_repeat_ngram = 1; /* no token twice */
	level();
	apply(&r, tokens, 3, 0);
	for (uint32_t i = 0; i < N; i++)
		ck_assert_int_eq(isinf(logits[i]) != 0, i >= 1 && i <= 3);
	r.no_repeat_ngram = 9; /* longer than the text */
	level();
	apply(&r, tokens, 8, 0);
	ck_left(0, N, N);
}
END_TEST

START_TEST(what_is_not_a_number_is_not_chosen)
{
	struct speech_rules r = plain();
	r.timestamps = false;
	level();
	logits[3] = NAN;
	apply(&r, NULL, 0, 0);
	ck_assert(logits[3] == -INFINITY);
}
END_TEST

START_TEST(log_sum_exp_is_that_of_doubles)
{
	static float x[2000];
	srand(3);
	for (int round = 0; round < 2000; round++) {
		uint32_t n = 1 + (uint32_t)rand() % 2000;
		double max = -INFINITY, sum = 0;
		float width = (float)(1 + rand() % 300);
		for (uint32_t i = 0; i < n; i++) {
			x[i] = rand() % 7 ? width * ((float)rand() / (float)RAND_MAX - 0.5f) : -INFINITY;
			max = x[i] > max ? x[i] : max;
		}
		for (uint32_t i = 0; i < n; i++)
			sum += max > -INFINITY ? exp(x[i] - max) : 0;
		if (max == -INFINITY)
			ck_assert(speech_log_sum_exp(x, n) == -INFINITY);
		else
			ck_assert_double_eq_tol(speech_log_sum_exp(x, n), max + log(sum), 1e-5);
	}
	ck_assert(speech_log_sum_exp(x, 0) == -INFINITY);
	for (int i = 0; i < 40; i++)
		x[i] = i == 17 || i == 33 ? 1 : NAN; /* counts for nothing */
	ck_assert_double_eq_tol(speech_log_sum_exp(x, 40), 1 + log(2), 1e-5);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("speech_rules");
	TCase *c = tcase_create("all");
	tcase_add_test(c, a_text_begins_with_a_timestamp_that_is_not_too_late);
	tcase_add_test(c, the_first_timestamp_is_followed_by_text);
	tcase_add_test(c, a_timestamp_behind_text_is_followed_by_one_not_earlier_or_the_end);
	tcase_add_test(c, a_pair_is_followed_by_text);
	tcase_add_test(c, timestamps_come_when_all_together_beat_the_best_text_token);
	tcase_add_test(c, without_timestamps_nothing_is_said_of_them);
	tcase_add_test(c, suppressed_tokens_go_always_and_those_of_the_beginning_at_first);
	tcase_add_test(c, suppression_comes_before_timestamps_are_weighed);
	tcase_add_test(c, repetition_is_penalised_once);
	tcase_add_test(c, an_ngram_does_not_come_again);
	tcase_add_test(c, what_is_not_a_number_is_not_chosen);
	tcase_add_test(c, log_sum_exp_is_that_of_doubles);
	suite_add_tcase(s, c);
	return suite_run(s);
}
