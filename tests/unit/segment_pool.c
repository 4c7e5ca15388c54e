/* Segments in pages of a node's pool. Where the pool of $TEST_NODE has too few free pages of 2 MiB, what needs them is
 * not tested: tests/guest has a machine with pools. That a pool is too small is tested everywhere, with more than any
 * has. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "numa/node_counters.h"
#include "tests/unit/segment_rig.h"
#include "tests/unit/suite.h"

enum { PAGE = 2 << 20, PAGES = (RIG_PAYLOAD + SEGMENT_HEADER_BYTES + PAGE - 1) / PAGE };

static uint64_t free_pages(unsigned node)
{
	struct node_counters counters;
	return node_counters_read(NULL, node, &counters) ? 0 : counters.pool[NODE_POOL_2M].free_pages;
}

START_TEST(a_copy_takes_its_pages_and_gives_them_back)
{
	struct segment_report report;
	struct segment_view view;
	struct err err = {""};
	uint64_t before = free_pages(segment_rig_node());
	int fd = segment_rig_publish(SEGMENT_POOL_2M, &report);
	ck_assert_uint_eq(free_pages(segment_rig_node()), before - PAGES);
	ck_assert_uint_eq(report.total_bytes, (uint64_t)PAGES * PAGE);
	ck_assert_uint_eq(report.huge_bytes, report.total_bytes);
	ck_assert_uint_eq(report.small_bytes, 0);
	ck_assert_uint_eq(report.giant_bytes, 0);
	ck_assert(placement_verified(&report.placement));
	ck_assert_msg(!segment_attach(fd, &view, &err), "%s", err.text);
	const unsigned char *payload = (const unsigned char *)view.base + SEGMENT_HEADER_BYTES;
	for (uint64_t i = 0; i < RIG_PAYLOAD; i += 4093)
		ck_assert_uint_eq(payload[i], segment_rig_byte(i));
	ck_assert_int_eq((int)((uintptr_t)view.base % PAGE), 0);
	struct segment_report again;
	ck_assert_msg(!segment_check(&view, segment_rig_node(), &again, &err), "%s", err.text);
	ck_assert_uint_eq(again.huge_bytes, report.huge_bytes);
	segment_detach(&view);
	close(fd);
	ck_assert_uint_eq(free_pages(segment_rig_node()), before);
}
END_TEST

START_TEST(nobody_can_write_to_it)
{
	struct segment_report report;
	int fd = segment_rig_publish(SEGMENT_POOL_2M, &report);
	char path[32];
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	ck_assert_ptr_eq(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	ck_assert_int_eq(ftruncate(fd, 0), -1);
	int wanted = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	ck_assert_int_eq(fcntl(fd, F_GET_SEALS) & wanted, wanted);
	int writable = open(path, O_RDWR); /* root may open it, and still not map it for writing */
	if (writable >= 0) {
		ck_assert_ptr_eq(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, writable, 0), MAP_FAILED);
		close(writable);
	}
	close(fd);
}
END_TEST

START_TEST(it_is_adopted_where_backing_asks_for_its_pages_alone)
{
	struct segment_report report, found;
	struct segment_view view;
	struct err err = {""};
	int fd = segment_rig_publish(SEGMENT_POOL_2M, &report);
	struct segment_spec wanted = segment_rig_spec(SEGMENT_POOL_2M, 0);
	wanted.huge = SEGMENT_HUGE_ON;
	ck_assert_msg(!segment_adopt(fd, "", &wanted, &view, &found, &err), "%s", err.text);
	ck_assert_mem_eq(found.digest, report.digest, sizeof found.digest);
	ck_assert_uint_eq(found.huge_bytes, report.total_bytes);
	segment_detach(&view);
	wanted.backing = SEGMENT_MEMFD;
	ck_assert_int_eq(segment_adopt(fd, "", &wanted, &view, &found, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "pages of 2048 KiB of a pool"));
	wanted.backing = SEGMENT_POOL_1G;
	ck_assert_int_eq(segment_adopt(fd, "", &wanted, &view, &found, &err), -EINVAL);
	close(fd);
	fd = segment_rig_publish(SEGMENT_MEMFD, &report);
	wanted.backing = SEGMENT_POOL_2M;
	wanted.huge = SEGMENT_HUGE_TRY;
	ck_assert_int_eq(segment_adopt(fd, "", &wanted, &view, &found, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "backing asks for 2048"));
	close(fd);
}
END_TEST

START_TEST(pages_that_others_take_meanwhile_are_missed_without_a_signal)
{
	/* A segment of all free pages: whoever maps one more is refused; nothing is left behind. */
	uint64_t before = free_pages(segment_rig_node());
	struct segment_spec spec = segment_rig_spec(SEGMENT_POOL_2M, before * PAGE - SEGMENT_HEADER_BYTES);
	struct segment all, more;
	struct err err = {""};
	ck_assert_msg(!segment_create(&spec, &all, &err), "%s", err.text);
	ck_assert_uint_eq(free_pages(segment_rig_node()), 0);
	spec.payload_bytes = 1;
	ck_assert_int_eq(segment_create(&spec, &more, &err), -ENOSPC);
	segment_destroy(&all);
	ck_assert_uint_eq(free_pages(segment_rig_node()), before);
}
END_TEST

START_TEST(a_pool_that_is_too_small_is_said)
{
	static const struct {
		enum segment_backing backing;
		const char *directory;
	} cases[] = {{SEGMENT_POOL_2M, "hugepages-2048kB"}, {SEGMENT_POOL_1G, "hugepages-1048576kB"}};
	unsigned descriptors = segment_rig_descriptors();
	struct segment_spec spec = segment_rig_spec(cases[_i].backing, UINT64_C(1) << 50);
	struct segment segment;
	struct err err = {""};
	ck_assert_int_eq(segment_create(&spec, &segment, &err), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(err.text, cases[_i].directory));
	ck_assert_ptr_nonnull(strstr(err.text, "nr_hugepages"));
	ck_assert_uint_eq(segment_rig_descriptors(), descriptors);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("shm/segment_pool");
	TCase *tests = tcase_create("pool");
	tcase_add_checked_fixture(tests, segment_rig_set_up, segment_rig_tear_down);
	tcase_add_loop_test(tests, a_pool_that_is_too_small_is_said, 0, 2);
	const char *wanted = getenv("TEST_NODE");
	bool has_pages = free_pages(wanted ? (unsigned)atoi(wanted) : 0) >= 2 * PAGES;
	if (has_pages) {
		tcase_add_test(tests, a_copy_takes_its_pages_and_gives_them_back);
		tcase_add_test(tests, nobody_can_write_to_it);
		tcase_add_test(tests, it_is_adopted_where_backing_asks_for_its_pages_alone);
		tcase_add_test(tests, pages_that_others_take_meanwhile_are_missed_without_a_signal);
	} else {
		printf("the node's pool has less than %d free pages of 2 MiB: what needs them is not tested here\n",
		       2 * PAGES);
	}
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
