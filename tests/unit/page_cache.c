/* What a file has in memory, as either system call tells it, and what lets go of it and what does not. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "io/page_cache.h"
#include "tests/unit/refuse.h"
#include "tests/unit/suite.h"

enum { CACHESTAT = 451, SIZE = (70 << 20) + 5, WHOLE = (SIZE + 4095) / 4096 * 4096 }; /* more than one window */

static char path[] = "/var/tmp/weightd-page-cache-XXXXXX";
static int fd; /* read-only, of a file that was just written */

static void write_file(void)
{
	static char block[1 << 20];
	int out = mkstemp(path);
	ck_assert_int_ge(out, 0);
	for (uint64_t left = SIZE; left;) {
		ssize_t n = write(out, block, left < sizeof block ? left : sizeof block);
		ck_assert_int_gt(n, 0);
		left -= (uint64_t)n;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	close(out);
}

static void remove_file(void)
{
	unlink(path);
	close(fd);
}

static uint64_t cached(void)
{
	uint64_t n_bytes = 12345;
	ck_assert_int_eq(page_cache_bytes(fd, SIZE, &n_bytes), 0);
	return n_bytes;
}

/* _i 1: a kernel without cachestat. */
static void choose_kernel(int without)
{
	if (without)
		ck_assert_int_eq(refuse_call(CACHESTAT, ENOSYS), 0);
}

START_TEST(a_file_that_was_just_written_is_all_in_memory_and_can_leave_it)
{
	choose_kernel(_i);
	ck_assert_uint_eq(cached(), WHOLE);
	page_cache_drop(fd);
	ck_assert_uint_eq(cached(), 0);
}
END_TEST

START_TEST(what_somebody_maps_stays_and_is_counted)
{
	enum { MAPPED = 8 << 20 };
	choose_kernel(_i);
	void *map = mmap(NULL, MAPPED, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
	ck_assert_ptr_ne(map, MAP_FAILED);
	page_cache_drop(fd);
	uint64_t left = cached();
	ck_assert_uint_ge(left, MAPPED);
	ck_assert_uint_lt(left, WHOLE);
	munmap(map, MAPPED);
	page_cache_drop(fd);
	ck_assert_uint_eq(cached(), 0);
}
END_TEST

/* A wrong answer would be worse: mincore tells strangers that every page is there. */
START_TEST(nobody_elses_file_is_told_of)
{
	uint64_t n_bytes = 12345;
	choose_kernel(_i);
	ck_assert_int_eq(setresuid(65534, 65534, 65534), 0);
	int rc = page_cache_bytes(fd, SIZE, &n_bytes);
	if (_i || rc) {
		ck_assert_int_eq(rc, -EPERM);
		ck_assert_uint_eq(n_bytes, 12345);
	} else {
		ck_assert_uint_eq(n_bytes, WHOLE); /* a cachestat of before Linux 6.15 tells everyone */
	}
}
END_TEST

int main(void)
{
	struct statfs fs;
	if (statfs("/var/tmp", &fs) || fs.f_type == TMPFS_MAGIC) {
		printf("page_cache: /var/tmp is in memory itself\n");
		return 77;
	}
	TCase *tests = tcase_create("page cache");
	tcase_add_checked_fixture(tests, write_file, remove_file);
	tcase_add_loop_test(tests, a_file_that_was_just_written_is_all_in_memory_and_can_leave_it, 0, 2);
	tcase_add_loop_test(tests, what_somebody_maps_stays_and_is_counted, 0, 2);
	if (geteuid() == 0)
		tcase_add_loop_test(tests, nobody_elses_file_is_told_of, 0, 2);
	Suite *suite = suite_create("io/page_cache");
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
