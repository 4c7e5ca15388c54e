/* Reading a file once: every byte right, in views of every size, over every seam, through each backend; on a file
 * system with O_DIRECT and on one without. */
#include "io/reader.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FILE_BYTES = (53 << 20) + 123, VIEW_MAX_BYTES = 16 << 20 };

static const enum io_backend backends[] = {IO_AUTO, IO_URING, IO_EPOLL};

/* The byte at an offset of every test file. */
static unsigned char byte_at(uint64_t offset)
{
	return (unsigned char)((offset * 2654435761u) >> 13);
}

static int make_file(const char *directory, uint64_t n_bytes)
{
	char path[200];
	snprintf(path, sizeof path, "%s/weightd-reader-XXXXXX", directory);
	int fd = mkstemp(path);
	ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
	unlink(path);
	unsigned char *bytes = malloc(n_bytes ? n_bytes : 1);
	ck_assert_ptr_nonnull(bytes);
	for (uint64_t i = 0; i < n_bytes; i++)
		bytes[i] = byte_at(i);
	for (uint64_t done = 0; done < n_bytes;) {
		ssize_t n = write(fd, bytes + done, n_bytes - done);
		ck_assert_int_gt(n, 0);
		done += (uint64_t)n;
	}
	free(bytes);
	ck_assert_int_eq(fsync(fd), 0);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	return fd;
}

static void check_view(const unsigned char *view, uint64_t offset, size_t n_bytes)
{
	for (size_t i = 0; i < n_bytes; i++)
		if (view[i] != byte_at(offset + i))
			ck_abort_msg("byte %llu is wrong", (unsigned long long)(offset + i));
}

/* Takes the whole file in pieces: first some sizes on purpose, then random ones. */
static void read_all(struct reader *reader, uint64_t n_bytes, uint32_t state)
{
	static const size_t first[] = {1, 4095, 4096, 2 << 20, 0, (2 << 20) - 1, VIEW_MAX_BYTES, 3, VIEW_MAX_BYTES - 1};
	struct err err = {""};
	uint64_t offset = 0;
	for (size_t round = 0; offset < n_bytes; round++) {
		state = state * 1664525u + 1013904223u;
		size_t n = round < sizeof first / sizeof *first ? first[round] : state >> (8 + round % 16);
		if (n > n_bytes - offset)
			n = n_bytes - offset;
		if (n > VIEW_MAX_BYTES)
			n = VIEW_MAX_BYTES;
		const void *view;
		ck_assert_uint_eq(reader_offset(reader), offset);
		ck_assert_msg(reader_take(reader, n, &view, &err) == 0, "%s", err.text);
		check_view(view, offset, n);
		offset += n;
	}
	ck_assert_uint_eq(reader_offset(reader), n_bytes);
	ck_assert_uint_eq(reader_bytes_read(reader), n_bytes);
}

static void read_files_of(const char *directory, enum io_backend backend)
{
	static const uint64_t sizes[] = {0, 1, 511, 4096, 4097, 2 << 20, (2 << 20) + 1, 24 << 20, FILE_BYTES};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		int fd = make_file(directory, sizes[i]);
		struct reader *reader;
		struct err err = {""};
		ck_assert_msg(reader_open(fd, 0, sizes[i], backend, &reader, &err) == 0, "%s", err.text);
		ck_assert_uint_eq(reader_size(reader), sizes[i]);
		read_all(reader, sizes[i], (uint32_t)i);
		reader_close(reader);
		close(fd);
	}
}

START_TEST(reads_every_byte_from_a_disk)
{
	read_files_of(".", backends[_i]);
}
END_TEST

START_TEST(reads_every_byte_from_memory)
{
	read_files_of("/dev/shm", backends[_i]);
}
END_TEST

/* From the middle on: what is before is not read, and offsets stay those of the file. */
START_TEST(begins_anywhere)
{
	static const uint64_t starts[] = {4096, 1 << 20, (2 << 20) + 4096, FILE_BYTES / 4096 * 4096};
	int fd = make_file(".", FILE_BYTES);
	for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
		struct reader *reader;
		struct err err = {""};
		const void *view;
		ck_assert_msg(reader_open(fd, starts[i], FILE_BYTES, backends[_i], &reader, &err) == 0, "%s", err.text);
		for (uint64_t offset = starts[i]; offset < FILE_BYTES;) {
			size_t n = FILE_BYTES - offset < 3000001 ? (size_t)(FILE_BYTES - offset) : 3000001;
			ck_assert_uint_eq(reader_offset(reader), offset);
			ck_assert_msg(reader_take(reader, n, &view, &err) == 0, "%s", err.text);
			check_view(view, offset, n);
			offset += n;
		}
		ck_assert_uint_eq(reader_bytes_read(reader), FILE_BYTES - starts[i]);
		ck_assert_int_eq(reader_take(reader, 1, &view, &err), -EINVAL);
		ck_assert_ptr_nonnull(strstr(err.text, "the file has 55574651"));
		reader_close(reader);
	}
	struct reader *reader;
	ck_assert_int_eq(reader_open(fd, 4097, FILE_BYTES, backends[_i], &reader, NULL), -EINVAL);
	ck_assert_int_eq(reader_open(fd, FILE_BYTES + 4096, FILE_BYTES, backends[_i], &reader, NULL), -EINVAL);
	close(fd);
}
END_TEST

static size_t resident_bytes(int fd, uint64_t n_bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n_pages = (n_bytes + page - 1) / page, n_resident = 0;
	void *map = mmap(NULL, n_bytes, PROT_READ, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(map, MAP_FAILED);
	unsigned char *pages = malloc(n_pages);
	ck_assert_int_eq(mincore(map, n_bytes, pages), 0);
	for (size_t i = 0; i < n_pages; i++)
		n_resident += pages[i] & 1;
	free(pages);
	munmap(map, n_bytes);
	return n_resident * page;
}

/* What is read once isn't wanted again: neither with O_DIRECT nor without is the file in the page cache afterwards. */
START_TEST(leaves_the_page_cache_alone)
{
	int fd = make_file(".", FILE_BYTES);
	struct reader *reader;
	struct err err;
	size_t before = resident_bytes(fd, FILE_BYTES);
	ck_assert_uint_lt(before, FILE_BYTES / 2);
	ck_assert_int_eq(reader_open(fd, 0, FILE_BYTES, backends[_i], &reader, &err), 0);
	read_all(reader, FILE_BYTES, 1);
	reader_close(reader);
	ck_assert_uint_lt(resident_bytes(fd, FILE_BYTES), before + FILE_BYTES / 10);
	close(fd);
}
END_TEST

START_TEST(restores_the_descriptors_flags)
{
	int fd = make_file(".", 8192);
	int flags = fcntl(fd, F_GETFL);
	struct reader *reader;
	struct err err;
	ck_assert_int_eq(reader_open(fd, 0, 8192, backends[_i], &reader, &err), 0);
	reader_close(reader);
	ck_assert_int_eq(fcntl(fd, F_GETFL), flags);
	close(fd);
}
END_TEST

/* Chunks that are skipped before they were asked for are never read, and what follows is right. */
START_TEST(skips)
{
	int fd = make_file(".", FILE_BYTES);
	struct reader *reader;
	struct err err;
	const void *view;
	uint64_t at = 1000, far = 48u << 20;
	ck_assert_int_eq(reader_open(fd, 0, FILE_BYTES, backends[_i], &reader, &err), 0);
	ck_assert_int_eq(reader_skip(reader, at, &err), 0);
	ck_assert_int_eq(reader_take(reader, 5000, &view, &err), 0);
	check_view(view, at, 5000);
	ck_assert_int_eq(reader_skip(reader, far - at - 5000, &err), 0);
	ck_assert_int_eq(reader_take(reader, 3 << 20, &view, &err), 0);
	check_view(view, far, 3 << 20);
	ck_assert_uint_lt(reader_bytes_read(reader), 32u << 20);
	ck_assert_int_eq(reader_skip(reader, FILE_BYTES, &err), -EINVAL);
	ck_assert_int_eq(reader_skip(reader, FILE_BYTES - far - (3 << 20), &err), 0);
	ck_assert_int_eq(reader_take(reader, 1, &view, &err), -EINVAL);
	reader_close(reader);
	/* Closing in the middle, with reads in flight. */
	ck_assert_int_eq(reader_open(fd, 0, FILE_BYTES, backends[_i], &reader, &err), 0);
	ck_assert_int_eq(reader_take(reader, 1, &view, &err), 0);
	reader_close(reader);
	close(fd);
}
END_TEST

START_TEST(reports_a_file_that_shrank)
{
	static const uint64_t sizes[] = {0, 1, 5 << 20, (5 << 20) + 4096, (5 << 20) + 5};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		int fd = make_file(".", sizes[i]);
		struct reader *reader;
		struct err err = {""};
		const void *view;
		char expected[64];
		ck_assert_int_eq(reader_open(fd, 0, 7 << 20, backends[_i], &reader, &err), 0);
		int rc = 0;
		for (uint64_t offset = 0; rc == 0 && offset < 7 << 20; offset += 1 << 20) {
			rc = reader_take(reader, 1 << 20, &view, &err);
			if (rc == 0)
				check_view(view, offset, 1 << 20);
		}
		ck_assert_int_eq(rc, -EIO);
		snprintf(expected, sizeof expected, "offset %llu: the file ends here", (unsigned long long)sizes[i]);
		ck_assert_msg(strncmp(err.text, expected, strlen(expected)) == 0, "%s", err.text);
		ck_assert_int_eq(reader_take(reader, 1 << 20, &view, &err), -EIO);
		reader_close(reader);
		close(fd);
	}
}
END_TEST

START_TEST(refuses_what_it_cannot_do)
{
	struct reader *reader = NULL;
	struct err err;
	const void *view;
	ck_assert_int_eq(reader_open(-1, 0, 100, backends[_i], &reader, &err), -EBADF);
	int fd = make_file(".", FILE_BYTES);
	ck_assert_int_eq(reader_open(fd, 0, UINT64_MAX, backends[_i], &reader, &err), -EINVAL);
	ck_assert_ptr_null(reader);
	ck_assert_int_eq(reader_open(fd, 0, FILE_BYTES, backends[_i], &reader, &err), 0);
	ck_assert_int_eq(reader_take(reader, VIEW_MAX_BYTES + 1, &view, &err), -EINVAL);
	reader_close(reader);
	close(fd);
	int pipes[2];
	ck_assert_int_eq(pipe(pipes), 0);
	ck_assert_int_eq(reader_open(pipes[0], 0, 100, backends[_i], &reader, &err), -EINVAL);
	close(pipes[0]);
	close(pipes[1]);
	reader_close(NULL);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("reader");
	TCase *tcase = tcase_create("each backend");
	int n = sizeof backends / sizeof *backends;
	tcase_set_timeout(tcase, 120);
	tcase_add_loop_test(tcase, reads_every_byte_from_a_disk, 0, n);
	tcase_add_loop_test(tcase, reads_every_byte_from_memory, 0, n);
	tcase_add_loop_test(tcase, begins_anywhere, 0, n);
	tcase_add_loop_test(tcase, leaves_the_page_cache_alone, 0, n);
	tcase_add_loop_test(tcase, restores_the_descriptors_flags, 0, n);
	tcase_add_loop_test(tcase, skips, 0, n);
	tcase_add_loop_test(tcase, reports_a_file_that_shrank, 0, n);
	tcase_add_loop_test(tcase, refuses_what_it_cannot_do, 0, n);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
