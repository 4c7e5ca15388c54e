/* What may be opened as an adapter, and what a client's path may not lead to. */
#include "src/parent/adapter_file.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/suite.h"

static char top[] = "/tmp/weightd-adapter-XXXXXX", inside[64], outside[64];

static const char *in(const char *name)
{
	static char path[256];
	snprintf(path, sizeof path, "%s/%s", inside, name);
	return path;
}

static void write_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, "x", 1), 1);
	close(fd);
}

static void setup(void)
{
	char target[128];
	strcpy(top + strlen(top) - 6, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(top));
	snprintf(inside, sizeof inside, "%s/in", top);
	snprintf(outside, sizeof outside, "%s/out", top);
	ck_assert_int_eq(mkdir(inside, 0700), 0);
	write_file(outside);
	write_file(in("file"));
	ck_assert_int_eq(mkdir(in("empty"), 0700), 0);
	ck_assert_int_eq(mkdir(in("folder"), 0700), 0);
	write_file(in("folder/adapter_config.json"));
	write_file(in("folder/adapter_model.safetensors"));
	ck_assert_int_eq(mkdir(in("leaky"), 0700), 0);
	write_file(in("leaky/adapter_config.json"));
	snprintf(target, sizeof target, "%s", outside);
	ck_assert_int_eq(symlink(target, in("leaky/adapter_model.safetensors")), 0);
	ck_assert_int_eq(symlink(target, in("absolute")), 0);
	ck_assert_int_eq(symlink("../out", in("up")), 0);
	ck_assert_int_eq(symlink("folder/../file", in("within")), 0);
	ck_assert_int_eq(symlink("..", in("parent")), 0);
	ck_assert_int_eq(mkfifo(in("fifo"), 0600), 0);
	snprintf(target, sizeof target, "%s2", inside);
	ck_assert_int_eq(mkdir(target, 0700), 0);
	strcat(target, "/file");
	write_file(target);
}

static void teardown(void)
{
	char command[128];
	snprintf(command, sizeof command, "rm -rf %s", top);
	ck_assert_int_eq(system(command), 0);
}

START_TEST(files_and_folders_are_opened)
{
	struct adapter_files files;
	struct err err = {""};
	char path[160];
	static const struct {
		const char *path;
		uint32_t n;
	} good[] = {{"file", 1}, {"./file", 1}, {"folder/../file", 1}, {"within", 1}, {"folder", 2}, {"folder/", 2}};
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		ck_assert_msg(!adapter_files_open_beneath(inside, good[i].path, getuid(), &files, &err), "%s",
			      err.text);
		ck_assert_uint_eq(files.n, good[i].n);
		for (uint32_t k = 0; k < files.n; k++)
			ck_assert_int_eq(fcntl(files.fds[k], F_GETFL) & O_ACCMODE, O_RDONLY);
		adapter_files_close(&files);
		/* The same as a whole path, with and without a blunt end of the directory. */
		snprintf(path, sizeof path, "%s//%s", inside, good[i].path);
		ck_assert_msg(!adapter_files_open_beneath(inside, path, getuid(), &files, &err), "%s", err.text);
		adapter_files_close(&files);
		ck_assert_msg(!adapter_files_open(path, &files, &err), "%s", err.text);
		adapter_files_close(&files);
	}
}
END_TEST

START_TEST(nothing_leads_out)
{
	char sibling[80];
	snprintf(sibling, sizeof sibling, "%s2/file", inside); /* begins like the directory, and is not in it */
	const struct {
		const char *path;
		int code;
	} bad[] = {
		{"../out", -EACCES},
		{"folder/../../out", -EACCES},
		{"..", -EACCES},
		{"parent", -EACCES},
		{"parent/out", -EACCES},
		{"absolute", -EACCES},
		{"up", -EACCES},
		{"leaky", -EACCES},
		{outside, -EACCES},
		{sibling, -EACCES},
		{"/etc/passwd", -EACCES},
		{"/", -EACCES},
		{"", -EACCES},
		{"/proc/self/fd/0", -EACCES},
		{"none", -ENOENT},
		{"file/none", -ENOTDIR},
		{"empty", -ENOENT},
		{".", -ENOENT},
		{"fifo", -EINVAL},
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct adapter_files files = {.n = 77};
		struct err err = {""};
		int rc = adapter_files_open_beneath(inside, bad[i].path, getuid(), &files, &err);
		ck_assert_msg(rc == bad[i].code, "'%s': %d, %s", bad[i].path, rc, err.text);
		ck_assert_str_ne(err.text, "");
		ck_assert_uint_eq(files.n, 77);
	}
}
END_TEST

/* As root alone it can be tried: a file of somebody who is neither root nor the service. */
START_TEST(others_files_are_not_taken_from_a_client)
{
	struct adapter_files files;
	struct err err = {""};
	if (geteuid() != 0)
		return;
	ck_assert_int_eq(chown(in("file"), 12345, 12345), 0);
	ck_assert_int_eq(adapter_files_open_beneath(inside, "file", 0, &files, &err), -EACCES);
	ck_assert_ptr_nonnull(strstr(err.text, "another user"));
	ck_assert_int_eq(adapter_files_open_beneath(inside, "file", 12345, &files, &err), 0);
	adapter_files_close(&files);
	ck_assert_int_eq(adapter_files_open(in("file"), &files, &err), 0); /* an operator's word is enough */
	adapter_files_close(&files);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("adapter_file");
	TCase *tests = tcase_create("all");
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, files_and_folders_are_opened);
	tcase_add_test(tests, nothing_leads_out);
	tcase_add_test(tests, others_files_are_not_taken_from_a_client);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
