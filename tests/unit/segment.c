/* Segments from making to removal, both backings; and that a published one cannot be changed by anybody without
 * privilege. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "numa/topology.h"
#include "shm/segment.h"
#include "src/privilege.h"
#include "tests/unit/refuse.h"
#include "tests/unit/segment_rig.h"
#include "tests/unit/suite.h"

/* _i is the backing. */
START_TEST(what_was_filled_is_what_readers_see)
{
	struct segment_report report, later;
	struct segment_view view;
	struct err err = {""};
	int fd = segment_rig_publish((enum segment_backing)_i, &report);
	ck_assert(placement_verified(&report.placement));
	ck_assert_uint_eq(report.placement.pages, report.total_bytes / 4096);
	ck_assert_msg(!segment_attach(fd, &view, &err), "%s", err.text);
	ck_assert_uint_eq((uintptr_t)view.base % (2 << 20), 0);
	const struct segment_header *header = view.header;
	ck_assert_uint_eq(header->total_bytes, report.total_bytes);
	ck_assert_uint_eq(header->payload_bytes, RIG_PAYLOAD);
	ck_assert_uint_eq(header->generation, 3);
	ck_assert_int_eq(header->node, (int)segment_rig_node());
	ck_assert_uint_eq(header->pack_layout, 7);
	ck_assert_uint_eq(header->isa, 9);
	ck_assert_str_eq(header->instance, segment_rig_instance());
	ck_assert_str_eq(header->model, "tiny.Q4_0");
	ck_assert_str_eq(header->source.path, "/models/tiny.gguf");
	ck_assert_uint_eq(header->source.n_files, 2);
	ck_assert_uint_eq(header->source.files[1], 5);
	const unsigned char *payload = (const unsigned char *)view.base + SEGMENT_HEADER_BYTES;
	for (uint64_t i = 0; i < report.total_bytes - SEGMENT_HEADER_BYTES; i++)
		if (payload[i] != (i < RIG_PAYLOAD ? segment_rig_byte(i) : 0))
			ck_abort_msg("byte %llu of the payload differs", (unsigned long long)i);
	uint8_t digest[SEGMENT_DIGEST_BYTES];
	segment_digest(view.base, view.total_bytes, digest);
	ck_assert_mem_eq(digest, header->digest, sizeof digest);
	ck_assert_mem_eq(digest, report.digest, sizeof digest);
	ck_assert_msg(!segment_check(&view, segment_rig_node(), &later, &err), "%s", err.text);
	ck_assert(placement_verified(&later.placement));
	ck_assert_uint_eq(later.total_bytes, report.total_bytes);
	ck_assert_mem_eq(later.digest, digest, sizeof digest);
	segment_detach(&view);
	segment_detach(&view);
	close(fd);
	ck_assert_uint_eq(segment_rig_left_behind(), _i == SEGMENT_SHM ? 1 : 0);
}
END_TEST

START_TEST(pages_on_the_wrong_node_are_counted)
{
	struct segment_report report;
	struct segment_view view;
	int fd = segment_rig_publish((enum segment_backing)_i, &report);
	ck_assert_int_eq(segment_attach(fd, &view, NULL), 0);
	ck_assert_int_eq(segment_check(&view, segment_rig_node() + 1, &report, NULL), 0);
	ck_assert_uint_eq(report.placement.misplaced, view.total_bytes / 4096);
	ck_assert(!placement_verified(&report.placement));
	segment_detach(&view);
	close(fd);
}
END_TEST

START_TEST(a_refused_check_leaves_the_segment_unverified)
{
	struct segment_report report;
	ck_assert_int_eq(refuse_call(SYS_move_pages, EPERM), 0);
	int fd = segment_rig_publish((enum segment_backing)_i, &report);
	ck_assert_int_eq(report.placement.refused.error[NUMA_MOVE_PAGES], EPERM);
	ck_assert(!placement_verified(&report.placement));
	close(fd);
}
END_TEST

START_TEST(huge_pages_follow_the_setting)
{
	struct segment_report report;
	struct segment_spec spec = segment_rig_spec(SEGMENT_MEMFD, RIG_PAYLOAD);
	struct segment segment;
	struct err err = {""};
	int fd = -1;
	spec.huge = SEGMENT_HUGE_OFF;
	ck_assert_msg(!segment_create(&spec, &segment, &err), "%s", err.text);
	ck_assert_msg(!segment_publish(&segment, &fd, &report, &err), "%s", err.text);
	ck_assert_uint_eq(report.huge_bytes, 0);
	ck_assert_uint_eq(report.small_bytes, report.total_bytes);
	close(fd);
	/* "on" gives everything or an error; which of both depends on the kernel. */
	spec.huge = SEGMENT_HUGE_ON;
	ck_assert_msg(!segment_create(&spec, &segment, &err), "%s", err.text);
	uint64_t whole = segment.total_bytes / (2 << 20) * (2 << 20);
	int rc = segment_publish(&segment, &fd, &report, &err);
	if (rc) {
		ck_assert_int_eq(rc, -ENOMEM);
		ck_assert_ptr_nonnull(strstr(err.text, "huge_pages"));
	} else {
		ck_assert_uint_eq(report.huge_bytes, whole);
		ck_assert_uint_eq(report.huge_bytes + report.small_bytes, report.total_bytes);
		close(fd);
	}
}
END_TEST

START_TEST(a_copy_has_the_same_digest)
{
	enum { PAYLOAD = (20 << 20) + 12345 }; /* several threads have a part each, and the last part is a short one */
	const struct idset anywhere = {{0}};
	struct segment_spec spec = segment_rig_spec((enum segment_backing)_i, PAYLOAD);
	struct segment first, second;
	struct segment_report reports[2];
	struct idset cpus;
	struct err err = {""};
	int fds[2];
	struct topology *t = NULL;
	ck_assert_int_eq(topology_load(NULL, &t, NULL), 0);
	cpus = topology_find(t, segment_rig_node())->cpus;
	topology_free(t);
	ck_assert_msg(!segment_create(&spec, &first, &err), "%s", err.text);
	segment_rig_fill(&first, PAYLOAD);
	spec.generation = 4;
	ck_assert_msg(!segment_create(&spec, &second, &err), "%s", err.text);
	ck_assert_msg(!segment_copy(&second, first.base, first.total_bytes, &cpus, &err), "%s", err.text);
	ck_assert_mem_eq(segment_payload(&second), segment_payload(&first), first.total_bytes - SEGMENT_HEADER_BYTES);
	memset(segment_payload(&second), 0, second.total_bytes - SEGMENT_HEADER_BYTES);
	ck_assert_msg(!segment_copy(&second, first.base, first.total_bytes, &anywhere, &err), "%s", err.text);
	ck_assert_int_eq(segment_publish(&second, &fds[1], &reports[1], &err), 0);
	ck_assert_int_eq(segment_publish(&first, &fds[0], &reports[0], &err), 0);
	ck_assert_mem_eq(reports[0].digest, reports[1].digest, SEGMENT_DIGEST_BYTES);
	spec.generation = 5;
	spec.payload_bytes = PAYLOAD + 5000;
	ck_assert_int_eq(segment_create(&spec, &second, &err), 0);
	ck_assert_int_eq(segment_copy(&second, first.base, first.total_bytes, &cpus, &err), -EINVAL);
	segment_destroy(&second);
	segment_destroy(&first); /* published: nothing happens */
	ck_assert_uint_eq(segment_rig_left_behind(), _i == SEGMENT_SHM ? 2 : 0);
	close(fds[0]);
	close(fds[1]);
}
END_TEST

START_TEST(a_published_segment_has_no_write_bits)
{
	struct segment_report report;
	struct stat st;
	int fd = segment_rig_publish((enum segment_backing)_i, &report);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0440);
	ck_assert_int_eq(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	ck_assert_int_eq(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	ck_assert_uint_eq((uint64_t)st.st_size, report.total_bytes);
	if (_i == SEGMENT_MEMFD) {
		int seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
		ck_assert_int_eq(fcntl(fd, F_GET_SEALS) & seals, seals);
	}
	close(fd);
}
END_TEST

START_TEST(the_group_asked_for_gets_the_object)
{
	if (geteuid() != 0)
		return; /* an ordinary user may give objects to its own groups only */
	struct segment_spec spec = segment_rig_spec((enum segment_backing)_i, RIG_PAYLOAD);
	struct segment segment;
	struct segment_report report;
	struct stat st;
	int fd;
	spec.group = 12345;
	ck_assert_int_eq(segment_create(&spec, &segment, NULL), 0);
	ck_assert_int_eq(segment_publish(&segment, &fd, &report, NULL), 0);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_uint_eq(st.st_gid, 12345);
	ck_assert_uint_eq(st.st_mode & 07777, 0440);
	close(fd);
}
END_TEST

/* Attempts to change a published segment, each in a child with no capability left, as a worker has none. The child ends
 * with 0 when the attempt was refused with an errno, 1 when it was not. */
enum attempt {
	ATTEMPT_STORE,
	ATTEMPT_MPROTECT,
	ATTEMPT_MAP_WRITABLE,
	ATTEMPT_PWRITE,
	ATTEMPT_TRUNCATE,
	ATTEMPT_GROW,
	ATTEMPT_PUNCH,
	ATTEMPT_REOPEN,
	ATTEMPT_N
};

static int refused(int succeeded, int a, int b)
{
	return succeeded || (errno != a && errno != b);
}

static int attempt(enum attempt what, int fd, const struct segment_view *view)
{
	char path[32];
	switch (what) {
	case ATTEMPT_STORE:
		*(volatile char *)(uintptr_t)view->base = 1;
		return 1;
	case ATTEMPT_MPROTECT:
		return refused(!mprotect((void *)(uintptr_t)view->base, 4096, PROT_READ | PROT_WRITE), EACCES, EACCES);
	case ATTEMPT_MAP_WRITABLE:
		return refused(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED, EACCES,
			       EPERM);
	case ATTEMPT_PWRITE:
		return refused(pwrite(fd, "x", 1, 5000) >= 0, EBADF, EBADF);
	case ATTEMPT_TRUNCATE:
		return refused(!ftruncate(fd, 4096), EINVAL, EBADF);
	case ATTEMPT_GROW:
		return refused(!ftruncate(fd, 1 << 30), EINVAL, EBADF);
	case ATTEMPT_PUNCH:
		return refused(!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 8192, 4096), EBADF, EBADF);
	case ATTEMPT_REOPEN:
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		return refused(open(path, O_RDWR) >= 0, EACCES, EPERM);
	case ATTEMPT_N:
		break;
	}
	return 1;
}

START_TEST(a_reader_cannot_change_a_segment)
{
	struct segment_report report;
	struct segment_view view;
	int fd = segment_rig_publish((enum segment_backing)_i, &report);
	ck_assert_int_eq(segment_attach(fd, &view, NULL), 0);
	for (int what = 0; what < ATTEMPT_N; what++) {
		int status;
		pid_t child = fork();
		ck_assert_int_ge(child, 0);
		if (!child) {
			struct rlimit none = {0, 0};
			setrlimit(RLIMIT_CORE, &none);
			signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would turn the death into an exit */
			struct err err = {""};
			if (privilege_drop(UINT64_MAX, UINT64_MAX, &err))
				_exit(2);
			_exit(attempt((enum attempt)what, fd, &view));
		}
		ck_assert_int_eq(waitpid(child, &status, 0), child);
		if (what == ATTEMPT_STORE)
			ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "a store: status %#x",
				      status);
		else
			ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "attempt %d: status %#x", what,
				      status);
		uint8_t digest[SEGMENT_DIGEST_BYTES];
		segment_digest(view.base, view.total_bytes, digest);
		ck_assert_mem_eq(digest, report.digest, sizeof digest);
	}
	segment_detach(&view);
	close(fd);
}
END_TEST

/* The owner of a sealed memfd, privileges and all, is stopped by the seal; and cannot take it off. */
START_TEST(seals_bind_even_the_privileged)
{
	struct segment_report report;
	char path[32];
	int fd = segment_rig_publish(SEGMENT_MEMFD, &report);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	ck_assert_int_eq(fchmod(fd, 0600), 0);
	int writable = open(path, O_RDWR);
	if (writable >= 0) {
		ck_assert_int_lt(pwrite(writable, "x", 1, 5000), 0);
		ck_assert_int_eq(errno, EPERM);
		ck_assert_int_lt(ftruncate(writable, 4096), 0);
		ck_assert_int_eq(errno, EPERM);
		ck_assert_ptr_eq(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, writable, 0), MAP_FAILED);
		close(writable);
	}
	ck_assert_int_lt(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
	close(fd);
}
END_TEST

START_TEST(failures_leave_nothing_behind)
{
	struct segment_spec spec = segment_rig_spec((enum segment_backing)_i, (uint64_t)1 << 43);
	struct segment segment = {.fd = -77};
	struct err err = {""};
	unsigned before = segment_rig_descriptors();
	/* 8 TiB: /dev/shm or the segment_rig_node() is too small, and the message has the figures. */
	ck_assert_int_eq(segment_create(&spec, &segment, &err), _i == SEGMENT_SHM ? -ENOSPC : -ENOMEM);
	ck_assert_ptr_nonnull(strstr(err.text, "MiB"));
	ck_assert_int_eq(segment.fd, -77);
	spec.payload_bytes = UINT64_MAX - 5;
	ck_assert_int_eq(segment_create(&spec, &segment, &err), -EOVERFLOW);
	spec.payload_bytes = INT64_MAX;
	ck_assert_int_eq(segment_create(&spec, &segment, &err), -EOVERFLOW);
	spec.payload_bytes = 0;
	ck_assert_int_eq(segment_create(&spec, &segment, &err), -EINVAL);
	spec.payload_bytes = RIG_PAYLOAD;
	spec.model = "a/b";
	ck_assert_int_eq(segment_create(&spec, &segment, &err), -EINVAL);
	ck_assert_uint_eq(segment_rig_left_behind(), 0);
	ck_assert_uint_eq(segment_rig_descriptors(), before);
}
END_TEST

/* Linux 6.1 has no MFD_NOEXEC_SEAL, and maps a memfd that is sealed against writing only through a descriptor that was
 * opened for reading alone. */
START_TEST(an_older_kernels_memfd_will_do)
{
	struct segment_report report;
	struct segment_view view;
	struct err err = {""};
	ck_assert_int_eq(refuse_flags(SYS_memfd_create, 1, 8, EINVAL), 0);
	ck_assert_int_eq(memfd_create("refused", 8), -1);
	int fd = segment_rig_publish(SEGMENT_MEMFD, &report);
	ck_assert_int_eq(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	ck_assert_msg(!segment_attach(fd, &view, &err), "%s", err.text);
	segment_detach(&view);
	close(fd);
}
END_TEST

/* The kernel tells that all pages are on the node; but not what holds them there. */
static void expect_unbound(long call, enum numa_call noted)
{
	struct segment_report report;
	ck_assert_int_eq(refuse_call((unsigned)call, EPERM), 0);
	int fd = segment_rig_publish(SEGMENT_MEMFD, &report);
	ck_assert_int_eq(report.placement.refused.error[noted], EPERM);
	ck_assert(!placement_verified(&report.placement));
	ck_assert(!placement_wrong(&report.placement));
	close(fd);
}

START_TEST(a_refused_mbind_makes_an_unverified_segment)
{
	expect_unbound(SYS_mbind, NUMA_MBIND);
}
END_TEST

START_TEST(a_refused_get_mempolicy_makes_an_unverified_segment)
{
	expect_unbound(SYS_get_mempolicy, NUMA_GET_MEMPOLICY);
}
END_TEST

/* A node that is not there, or is taken away by a cpuset: where pages are instead is known. */
START_TEST(a_node_that_may_not_be_bound_to_is_never_published)
{
	struct segment_spec spec = segment_rig_spec((enum segment_backing)_i, RIG_PAYLOAD);
	struct segment_report report;
	struct segment segment;
	struct err err = {""};
	int fd = -1;
	spec.node = 1023;
	ck_assert_msg(!segment_create(&spec, &segment, &err), "%s", err.text);
	ck_assert_int_eq(segment.refused.error[NUMA_MBIND], EINVAL);
	ck_assert_int_lt(segment_publish(&segment, &fd, &report, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.text, "1023"));
	ck_assert_int_eq(fd, -1);
	ck_assert_uint_eq(segment_rig_left_behind(), 0);
}
END_TEST

START_TEST(an_mbind_that_did_nothing_makes_no_segment)
{
	struct segment_spec spec = segment_rig_spec((enum segment_backing)_i, RIG_PAYLOAD);
	struct segment segment;
	struct err err = {""};
	ck_assert_int_eq(refuse_call(SYS_mbind, 0), 0);
	ck_assert_int_eq(segment_create(&spec, &segment, &err), -EIO);
	ck_assert_uint_eq(segment_rig_left_behind(), 0);
}
END_TEST

/* With mbind refused, the node's CPUs are what decides: the thread that touches memory first has to be on them. */
START_TEST(memory_is_first_touched_by_the_nodes_cpus)
{
	struct segment_spec spec = segment_rig_spec((enum segment_backing)_i, RIG_PAYLOAD);
	struct idset none_of_ours;
	struct segment segment;
	struct err err = {""};
	idset_clear(&none_of_ours);
	idset_add(&none_of_ours, IDSET_MAX - 1); /* a CPU that no thread can run on shows that it was asked for */
	spec.cpus = &none_of_ours;
	ck_assert_int_eq(segment_create(&spec, &segment, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "thread"));
	ck_assert_uint_eq(segment_rig_left_behind(), 0);
}
END_TEST

START_TEST(running_out_while_allocating_leaves_nothing_behind)
{
	struct segment_spec spec = segment_rig_spec((enum segment_backing)_i, RIG_PAYLOAD);
	struct segment segment;
	struct err err = {""};
	ck_assert_int_eq(refuse_call(SYS_fallocate, ENOSPC), 0);
	ck_assert_int_eq(segment_create(&spec, &segment, &err), _i == SEGMENT_SHM ? -ENOSPC : -ENOMEM);
	ck_assert_uint_eq(segment_rig_left_behind(), 0);
}
END_TEST

/* A writable stand-in for a segment whose header is then spoilt field by field. */
START_TEST(a_spoilt_header_is_refused_by_name)
{
	struct segment_report report;
	struct segment_view view;
	struct err err = {""};
	int fd = segment_rig_publish(SEGMENT_SHM, &report);
	ck_assert_int_eq(segment_attach(fd, &view, NULL), 0);
	int copy = memfd_create("spoilt", MFD_CLOEXEC);
	ck_assert_int_eq(ftruncate(copy, (off_t)view.total_bytes), 0);
	struct segment_header *h = mmap(NULL, view.total_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, copy, 0);
	memcpy(h, view.base, view.total_bytes);
	const struct segment_header good = *h;
	struct segment_view out = {0};
	ck_assert_msg(!segment_attach(copy, &out, &err), "%s", err.text);
	segment_detach(&out);
#define REFUSES(change, name)                                                  \
	do {                                                                   \
		*h = good;                                                     \
		change;                                                        \
		ck_assert_int_eq(segment_attach(copy, &out, &err), -EINVAL);   \
		ck_assert_msg(strstr(err.text, name) != NULL, "%s", err.text); \
		ck_assert_ptr_null(out.base);                                  \
	} while (0)
	REFUSES(h->magic ^= 1, "magic");
	REFUSES(h->layout_version++, "layout_version");
	REFUSES(h->published = 0, "published");
	REFUSES(h->total_bytes += 4096, "total_bytes");
	REFUSES(h->payload_bytes = 0, "payload_bytes");
	REFUSES(h->payload_bytes = h->total_bytes, "payload_bytes");
	REFUSES(h->page_bytes = 16384, "page_bytes");
	REFUSES(h->node = -1, "node");
	REFUSES(h->node = IDSET_MAX, "node");
	REFUSES(memset(h->instance, 'i', sizeof h->instance), "instance");
	REFUSES(memset(h->model, 'm', sizeof h->model), "model");
	REFUSES(memset(h->source.path, 'p', sizeof h->source.path), "source path");
	REFUSES(h->source.n_files = SEGMENT_FILES_MAX + 1, "source of 257 files");
#undef REFUSES
	*h = good;
	ck_assert_int_eq(ftruncate(copy, 4096), 0);
	ck_assert_int_eq(segment_attach(copy, &out, &err), -EINVAL);
	ck_assert_int_eq(ftruncate(copy, 8192 + 1), 0);
	ck_assert_int_eq(segment_attach(copy, &out, &err), -EINVAL);
	ck_assert_int_eq(ftruncate(copy, 0), 0);
	ck_assert_int_eq(segment_attach(copy, &out, &err), -EINVAL);
	int pipe_fds[2];
	ck_assert_int_eq(pipe(pipe_fds), 0);
	ck_assert_int_eq(segment_attach(pipe_fds[0], &out, &err), -EINVAL);
	ck_assert_int_eq(segment_attach(-1, &out, &err), -EBADF);
}
END_TEST

START_TEST(attach_and_detach_do_not_leak)
{
	struct segment_report report;
	struct segment_view view;
	int fd = segment_rig_publish((enum segment_backing)_i, &report);
	unsigned before = segment_rig_descriptors();
	for (int i = 0; i < 50; i++) {
		ck_assert_int_eq(segment_attach(fd, &view, NULL), 0);
		segment_detach(&view);
	}
	ck_assert_uint_eq(segment_rig_descriptors(), before);
	char line[512];
	FILE *maps = fopen("/proc/self/maps", "re");
	while (fgets(line, sizeof line, maps))
		ck_assert_msg(!strstr(line, "tiny.Q4_0"), "%s", line);
	fclose(maps);
	close(fd);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("segment");
	tcase_add_checked_fixture(tests, segment_rig_set_up, segment_rig_tear_down);
	tcase_add_loop_test(tests, what_was_filled_is_what_readers_see, SEGMENT_SHM, SEGMENT_MEMFD + 1);
	tcase_add_loop_test(tests, pages_on_the_wrong_node_are_counted, SEGMENT_SHM, SEGMENT_MEMFD + 1);
	tcase_add_loop_test(tests, a_refused_check_leaves_the_segment_unverified, SEGMENT_SHM, SEGMENT_MEMFD + 1);
	tcase_add_test(tests, huge_pages_follow_the_setting);
	tcase_add_loop_test(tests, a_copy_has_the_same_digest, SEGMENT_SHM, SEGMENT_MEMFD + 1);
	tcase_add_loop_test(tests, a_published_segment_has_no_write_bits, SEGMENT_SHM, SEGMENT_MEMFD + 1);
	tcase_add_loop_test(tests, the_group_asked_for_gets_the_object, SEGMENT_SHM, SEGMENT_MEMFD + 1);
	tcase_add_loop_test(tests, a_reader_cannot_change_a_segment, SEGMENT_SHM, SEGMENT_MEMFD + 1);
	tcase_add_test(tests, seals_bind_even_the_privileged);
	tcase_add_loop_test(tests, failures_leave_nothing_behind, SEGMENT_SHM, SEGMENT_MEMFD + 1);
	tcase_add_test(tests, an_older_kernels_memfd_will_do);
	tcase_add_test(tests, a_refused_mbind_makes_an_unverified_segment);
	tcase_add_test(tests, a_refused_get_mempolicy_makes_an_unverified_segment);
	tcase_add_loop_test(tests, a_node_that_may_not_be_bound_to_is_never_published, SEGMENT_SHM, SEGMENT_MEMFD + 1);
	tcase_add_loop_test(tests, an_mbind_that_did_nothing_makes_no_segment, SEGMENT_SHM, SEGMENT_MEMFD + 1);
	tcase_add_loop_test(tests, memory_is_first_touched_by_the_nodes_cpus, SEGMENT_SHM, SEGMENT_MEMFD + 1);
	tcase_add_loop_test(tests, running_out_while_allocating_leaves_nothing_behind, SEGMENT_SHM, SEGMENT_MEMFD + 1);
	tcase_add_test(tests, a_spoilt_header_is_refused_by_name);
	tcase_add_loop_test(tests, attach_and_detach_do_not_leak, SEGMENT_SHM, SEGMENT_MEMFD + 1);
	Suite *suite = suite_create("shm/segment");
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
