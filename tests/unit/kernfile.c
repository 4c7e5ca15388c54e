/* Reading the kernel's small files: whole or not at all. */
#include <check.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "numa/kernfile.h"
#include "tests/numa/tree.h"
#include "tests/unit/suite.h"

START_TEST(a_file_is_read_whole)
{
	char *root = tree_unfold("2n8c-ht"), text[64];
	ck_assert_int_eq(kernfile_read(root, "/sys/devices/system/node/online", text, sizeof text), 4);
	ck_assert_str_eq(text, "0-1\n");
	ck_assert_int_eq(kernfile_read(root, "/sys/devices/system/node/online", text, 5), 4); /* just fits */
	ck_assert_str_eq(text, "0-1\n");
	tree_remove(root);
	ck_assert_int_gt(kernfile_read(NULL, "/proc/self/comm", text, sizeof text), 0);
}
END_TEST

START_TEST(a_file_that_does_not_fit_is_not_cut)
{
	char *root = tree_unfold("2n8c-ht"), text[64];
	memset(text, '#', sizeof text);
	ck_assert_int_eq(kernfile_read(root, "/sys/devices/system/node/online", text, 4), -EFBIG);
	ck_assert_int_eq(text[4], '#');
	tree_remove(root);
}
END_TEST

START_TEST(what_cannot_be_read_is_an_error)
{
	char text[64], path[PATH_MAX];
	ck_assert_int_eq(kernfile_read(NULL, "/proc/nonexistent", text, sizeof text), -ENOENT);
	ck_assert_int_eq(kernfile_read(NULL, "/proc", text, sizeof text), -EISDIR);
	memset(path, 'a', sizeof path - 1);
	path[sizeof path - 1] = '\0';
	ck_assert_int_eq(kernfile_read("/x", path, text, sizeof text), -ENAMETOOLONG);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("kernfile");
	tcase_add_test(tests, a_file_is_read_whole);
	tcase_add_test(tests, a_file_that_does_not_fit_is_not_cut);
	tcase_add_test(tests, what_cannot_be_read_is_an_error);
	Suite *suite = suite_create("numa/kernfile");
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
