/* A process that served comes back at once; one that never did has to wait, longer and longer. */
#include <check.h>

#include "src/parent/backoff.h"
#include "src/clock.h"
#include "tests/unit/suite.h"

#define MS CLOCK_MS_NS

/* Milliseconds until it may start, seen at `now`; the start is taken. */
static uint64_t wait_ms(struct backoff *backoff, uint64_t now)
{
	uint64_t ms = 0;
	while (!backoff_take(backoff, now + ms * MS + 1))
		ck_assert_uint_lt(ms++, 100000);
	return ms;
}

START_TEST(deaths_after_serving_cost_nothing_however_many)
{
	struct backoff backoff = {0};
	for (uint64_t now = 1; now < 1000; now++) {
		backoff_served(&backoff, now);
		ck_assert_uint_eq(wait_ms(&backoff, now), 0);
		ck_assert(!backoff_is_failing(&backoff));
	}
}
END_TEST

START_TEST(deaths_in_a_row_without_serving_wait_longer_and_longer)
{
	static const uint64_t expected[] = {0, 100, 200, 400, 10000, 10000, 10000};
	struct backoff backoff = {0};
	for (unsigned i = 0; i < sizeof expected / sizeof *expected; i++) {
		backoff_failed(&backoff, 5000 * MS);
		ck_assert_uint_eq(wait_ms(&backoff, 5000 * MS), expected[i]);
		ck_assert_int_eq(backoff_is_failing(&backoff), i + 1 >= BACKOFF_FAILING);
	}
	backoff_served(&backoff, 0);
	ck_assert(!backoff_is_failing(&backoff));
	ck_assert_uint_eq(wait_ms(&backoff, 0), 0);
}
END_TEST

START_TEST(a_start_is_taken_once_and_only_when_planned)
{
	struct backoff backoff = {0};
	ck_assert(!backoff_take(&backoff, UINT64_MAX));
	backoff_served(&backoff, 0); /* also at a clock's zero */
	ck_assert(backoff_take(&backoff, 1));
	ck_assert(!backoff_take(&backoff, UINT64_MAX));
	for (int i = 0; i < 1000; i++)
		backoff_failed(&backoff, 0); /* the shift stays in bounds */
	ck_assert_uint_eq(wait_ms(&backoff, 0), BACKOFF_MAX_MS);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("backoff");
	tcase_add_test(tests, deaths_after_serving_cost_nothing_however_many);
	tcase_add_test(tests, deaths_in_a_row_without_serving_wait_longer_and_longer);
	tcase_add_test(tests, a_start_is_taken_once_and_only_when_planned);
	Suite *suite = suite_create("src/backoff");
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
