/* Samples of segments: which pages have their turn, and what is said of those. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/segment_map.h"
#include "tests/unit/refuse.h"
#include "tests/unit/segment_rig.h"
#include "tests/unit/suite.h"

enum { N_MAX = 64 };

START_TEST(a_sample_is_spread_over_the_whole_object)
{
	static const uint64_t sizes[] = {64, 65, 127, 1000, 4096, 1000003, 1ull << 33};
	uint64_t page[N_MAX];
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
		for (uint64_t turn = 0; turn < 300; turn++) {
			uint64_t longest = sizes[s] / N_MAX + 1;
			segment_sample_pages(sizes[s], N_MAX, turn, page);
			bool spread = page[0] < longest && page[N_MAX - 1] < sizes[s] &&
				      page[N_MAX - 1] + longest >= sizes[s];
			for (unsigned i = 1; i < N_MAX; i++)
				spread &= page[i] > page[i - 1] && page[i] - page[i - 1] < 2 * longest;
			ck_assert_msg(spread, "of %lu pages, turn %lu", sizes[s], turn);
		}
}
END_TEST

START_TEST(every_page_has_its_turn)
{
	for (uint64_t pages = 1; pages < 400; pages++)
		for (uint32_t n = 1; n <= N_MAX && n <= pages; n = n < 5 ? n + 1 : n * 2) {
			bool seen[400] = {false};
			uint64_t page[N_MAX], turns = (pages + n - 1) / n;
			for (uint64_t turn = 1000; turn < 1000 + turns; turn++) {
				segment_sample_pages(pages, n, turn, page);
				for (uint32_t i = 0; i < n; i++)
					seen[page[i]] = true;
			}
			uint64_t i = 0;
			while (i < pages && seen[i])
				i++;
			ck_assert_msg(i == pages, "page %lu of %lu is in no sample of %u", i, pages, n);
		}
}
END_TEST

/* What is anywhere in the object and a sixteenth of a stretch long is found within so many turns, not at the end of
 * all. */
START_TEST(a_few_turns_see_what_one_does_not)
{
	enum { STRETCH = 1600, HOLE = STRETCH / 16, TURNS = 40 };
	uint64_t page[1];
	for (uint64_t from = 0; from + HOLE <= STRETCH; from += 7) {
		unsigned found = 0;
		for (uint64_t turn = 0; turn < TURNS; turn++) {
			segment_sample_pages(STRETCH, 1, turn, page);
			found += page[0] >= from && page[0] < from + HOLE;
		}
		ck_assert_msg(found > 0, "pages %lu to %lu", from, from + HOLE);
	}
}
END_TEST

START_TEST(the_pages_asked_for_are_counted)
{
	struct segment_report report;
	struct placement found;
	struct err err = {""};
	int fd = segment_rig_publish((enum segment_backing)_i, &report);
	unsigned before = segment_rig_descriptors();
	for (uint64_t turn = 0; turn < 5; turn++) {
		ck_assert_msg(!segment_sample(fd, segment_rig_node(), 100, turn, &found, &err), "%s", err.text);
		ck_assert_uint_eq(found.pages, 100);
		ck_assert_uint_eq(found.on_node, 100);
		ck_assert(placement_verified(&found));
		ck_assert_int_eq(segment_sample(fd, segment_rig_node() + 1, 100, turn, &found, &err), 0);
		ck_assert_uint_eq(found.misplaced, 100);
	}
	/* It has fewer than 4096. */
	ck_assert_int_eq(segment_sample(fd, segment_rig_node(), SEGMENT_SAMPLE_MAX, 0, &found, &err), 0);
	ck_assert_uint_eq(found.pages, report.total_bytes / 4096);
	ck_assert_uint_eq(found.on_node, found.pages);
	ck_assert_uint_eq(segment_rig_descriptors(), before);
	close(fd);
}
END_TEST

START_TEST(a_refused_question_is_no_claim)
{
	struct segment_report report;
	struct placement found;
	int fd = segment_rig_publish(SEGMENT_SHM, &report);
	ck_assert_int_eq(refuse_call(SYS_move_pages, EPERM), 0);
	ck_assert_int_eq(segment_sample(fd, segment_rig_node(), 10, 0, &found, NULL), 0);
	ck_assert_int_eq(found.refused.error[NUMA_MOVE_PAGES], EPERM);
	ck_assert_uint_eq(found.on_node + found.misplaced, 0);
	close(fd);
}
END_TEST

START_TEST(what_is_no_segment_is_not_sampled)
{
	struct placement found;
	struct err err = {""};
	int pipe_fds[2];
	ck_assert_int_eq(pipe(pipe_fds), 0);
	ck_assert_int_eq(segment_sample(pipe_fds[0], 0, 10, 0, &found, &err), -EINVAL);
	ck_assert_int_eq(segment_sample(pipe_fds[0], 0, 0, 0, &found, &err), -EINVAL);
	ck_assert_int_eq(segment_sample(pipe_fds[0], 0, SEGMENT_SAMPLE_MAX + 1, 0, &found, &err), -EINVAL);
	ck_assert_msg(strstr(err.text, "4097 pages") != NULL, "%s", err.text);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("sample");
	tcase_add_checked_fixture(tests, segment_rig_set_up, segment_rig_tear_down);
	tcase_add_test(tests, a_sample_is_spread_over_the_whole_object);
	tcase_add_test(tests, every_page_has_its_turn);
	tcase_add_test(tests, a_few_turns_see_what_one_does_not);
	tcase_add_loop_test(tests, the_pages_asked_for_are_counted, SEGMENT_SHM, SEGMENT_MEMFD + 1);
	tcase_add_test(tests, a_refused_question_is_no_claim);
	tcase_add_test(tests, what_is_no_segment_is_not_sampled);
	Suite *suite = suite_create("shm/segment_sample");
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
