/* How long a counter stood still, as its watcher saw it. */
#include <check.h>

#include "src/clock.h"
#include "src/parent/watch.h"
#include "tests/unit/suite.h"

#define MS CLOCK_MS_NS

START_TEST(time_without_a_change_adds_up)
{
	struct watch watch;
	watch_begin(&watch, 7, 100 * MS);
	for (uint64_t i = 1; i <= 50; i++)
		ck_assert_uint_eq(watch_look(&watch, 7, (100 + 200 * i) * MS), 200 * i * MS);
}
END_TEST

START_TEST(any_change_begins_anew)
{
	struct watch watch;
	watch_begin(&watch, 7, 0);
	ck_assert_uint_eq(watch_look(&watch, 7, 300 * MS), 300 * MS);
	ck_assert_uint_eq(watch_look(&watch, 8, 600 * MS), 0);
	ck_assert_uint_eq(watch_look(&watch, 8, 700 * MS), 100 * MS);
	ck_assert_uint_eq(watch_look(&watch, 2, 800 * MS), 0); /* a counter that was made anew */
	ck_assert_uint_eq(watch_look(&watch, 2, 801 * MS), 1 * MS);
}
END_TEST

START_TEST(a_watcher_that_stood_still_itself_blames_nobody)
{
	struct watch watch;
	watch_begin(&watch, 7, 0);
	ck_assert_uint_eq(watch_look(&watch, 7, 3600000 * MS), WATCH_LOOK_MS * MS);
	ck_assert_uint_eq(watch_look(&watch, 7, 3600200 * MS), (WATCH_LOOK_MS + 200) * MS);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("watch");
	tcase_add_test(tests, time_without_a_change_adds_up);
	tcase_add_test(tests, any_change_begins_anew);
	tcase_add_test(tests, a_watcher_that_stood_still_itself_blames_nobody);
	Suite *suite = suite_create("src/watch");
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
