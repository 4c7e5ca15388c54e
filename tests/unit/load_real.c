/* A real model, named by WEIGHTD_TEST_MODEL: loaded, and every element of every tensor compared with the file's. */
#include <fcntl.h>
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/loop.h"
#include "tests/unit/load_fixture.h"
#include "tests/unit/suite.h"

START_TEST(every_row_is_the_files)
{
	static const uint32_t backends[] = {IO_URING, IO_EPOLL};
	struct message_load order;
	struct loaded loaded;
	struct stat st;
	struct err err = {""};
	const char *path = getenv("WEIGHTD_TEST_MODEL");
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_msg(fd >= 0 && fstat(fd, &st) == 0, "%s", path);
	load_fixture_order(&order);
	snprintf(order.path, sizeof order.path, "%s", path);
	order.io = backends[_i];
	ck_assert_msg(load_fixture_load(&order, fd, &loaded, &err) == 0, "%s", err.text);
	ck_assert_uint_eq(loaded.bytes_read, (uint64_t)st.st_size);
	ck_assert_uint_gt(load_fixture_compare(&loaded, fd), 0);
	loaded_discard(&loaded);
	ck_assert_uint_eq(load_fixture_objects(&order), 0);
	close(fd);
}
END_TEST

int main(void)
{
	if (!getenv("WEIGHTD_TEST_MODEL"))
		return 77; /* skipped: no real model here */
	Suite *suite = suite_create("load_real");
	TCase *tcase = tcase_create("real model");
	tcase_set_timeout(tcase, 600);
	tcase_add_loop_test(tcase, every_row_is_the_files, 0, 2);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
