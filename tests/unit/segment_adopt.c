/* Adopting: what publish made is taken over whole, and every single thing that can be wrong with a leftover is refused
 * for the reason it has. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/refuse.h"
#include "tests/unit/segment_rig.h"
#include "tests/unit/suite.h"

static char name[SEGMENT_NAME_BYTES]; /* of the one named segment of a test */
static struct segment_report made;

/* The published segment's descriptor; `name` is its name, "" for a memfd. */
static int leftover(enum segment_backing backing)
{
	int fd = segment_rig_publish(backing, &made);
	name[0] = '\0';
	if (backing == SEGMENT_SHM)
		ck_assert_int_eq(segment_name(segment_rig_instance(), "tiny.Q4_0", 3, segment_rig_node(), name, NULL),
				 0);
	return fd;
}

static struct segment_spec wanted_of(enum segment_backing backing)
{
	return segment_rig_spec(backing, 1); /* payload_bytes: not looked at */
}

static int adopt(int fd, const struct segment_spec *wanted, struct err *err)
{
	struct segment_view view = {0};
	struct segment_report report;
	unsigned before = segment_rig_descriptors();
	int rc = segment_adopt(fd, name, wanted, &view, &report, err);
	ck_assert_uint_eq(segment_rig_descriptors(), before);
	if (!rc) {
		ck_assert_mem_eq(report.digest, made.digest, SEGMENT_DIGEST_BYTES);
		ck_assert_uint_eq(report.total_bytes, made.total_bytes);
		ck_assert_uint_eq(view.total_bytes, made.total_bytes);
	} else {
		ck_assert_ptr_null(view.base);
	}
	segment_detach(&view);
	return rc;
}

static void expect_refused(int fd, const struct segment_spec *wanted, const char *part)
{
	struct err err = {""};
	ck_assert_int_eq(adopt(fd, wanted, &err), -EINVAL);
	ck_assert_msg(strstr(err.text, part) != NULL, "'%s' is not in: %s", part, err.text);
}

/* Writes into a published segment, as only its owner or root can, and makes it look published again. */
static void patch(off_t at, const void *bytes, size_t n)
{
	int fd = shm_open(name, O_RDONLY, 0);
	char path[32];
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fchmod(fd, 0600), 0);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	int writable = open(path, O_RDWR);
	ck_assert_int_ge(writable, 0);
	ck_assert_int_eq(pwrite(writable, bytes, n, at), (ssize_t)n);
	close(writable);
	ck_assert_int_eq(fchmod(fd, 0440), 0);
	close(fd);
}

/* The same with a hole. */
static void punch(off_t at, off_t n)
{
	int fd = shm_open(name, O_RDONLY, 0);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fchmod(fd, 0600), 0);
	int writable = shm_open(name, O_RDWR, 0);
	ck_assert_int_ge(writable, 0);
	ck_assert_int_eq(fallocate(writable, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, n), 0);
	close(writable);
	ck_assert_int_eq(fchmod(fd, 0440), 0);
	close(fd);
}

START_TEST(what_was_published_is_adopted)
{
	struct segment_spec wanted = wanted_of((enum segment_backing)_i);
	struct segment_view view;
	struct segment_report report;
	struct err err = {""};
	int fd = leftover((enum segment_backing)_i);
	ck_assert_msg(!segment_adopt(fd, name, &wanted, &view, &report, &err), "%s", err.text);
	ck_assert(placement_verified(&report.placement));
	ck_assert_mem_eq(report.digest, made.digest, SEGMENT_DIGEST_BYTES);
	ck_assert_uint_eq(report.huge_bytes, made.huge_bytes);
	const unsigned char *payload = (const unsigned char *)view.base + SEGMENT_HEADER_BYTES;
	for (uint64_t i = 0; i < RIG_PAYLOAD; i++)
		if (payload[i] != segment_rig_byte(i))
			ck_abort_msg("byte %llu of the payload differs", (unsigned long long)i);
	segment_detach(&view);
	close(fd);
}
END_TEST

/* Reading a hole allocates, and where /dev/shm is full that is no error but a SIGBUS. */
START_TEST(an_object_with_a_hole_is_refused_before_it_is_read)
{
	struct segment_spec wanted = wanted_of(SEGMENT_SHM);
	int fd = leftover(SEGMENT_SHM);
	punch(_i ? 0 : (off_t)made.total_bytes / 8192 * 4096, 4096);
	expect_refused(fd, &wanted, "holes");
	close(fd);
}
END_TEST

/* As after an orderly stop, when only the service manager has it. */
START_TEST(an_object_whose_name_went_is_adopted_without_one)
{
	struct segment_spec wanted = wanted_of(SEGMENT_SHM);
	struct err err = {""};
	int fd = leftover(SEGMENT_SHM);
	ck_assert_int_eq(shm_unlink(name), 0);
	expect_refused(fd, &wanted, "it has 0 names instead of 1");
	name[0] = '\0';
	ck_assert_msg(!adopt(fd, &wanted, &err), "%s", err.text);
	close(fd);
}
END_TEST

START_TEST(every_header_field_counts)
{
#define FIELD(member) offsetof(struct segment_header, member), sizeof(((struct segment_header *)0)->member)
	static const struct {
		size_t at, n;
		const char *part;
	} fields[] = {
		{FIELD(magic), "magic"},
		{FIELD(layout_version), "layout_version"},
		{FIELD(generation), "generation"},
		{FIELD(total_bytes), "total_bytes"},
		{FIELD(payload_bytes), "size is not the one of its payload"},
		{FIELD(digest), "digest"},
		{FIELD(node), "node"},
		{FIELD(page_bytes), "page_bytes"},
		{FIELD(pack_layout), "layout"},
		{FIELD(published), "published"},
		{FIELD(isa), "ISA"},
		{FIELD(instance), "instance"},
		{FIELD(model), "model"},
		{FIELD(source.path), "its source was"},
		{FIELD(source.size_bytes), "its source had 8195 bytes"},
		{FIELD(source.n_files), "source of 8194 files"},
		{FIELD(source.files[0]), "file 1 of 2 of its source was changed or replaced since"},
		{FIELD(source.files[1]), "file 2 of 2 of its source was changed or replaced since"},
	};
#undef FIELD
	struct segment_spec wanted = wanted_of(SEGMENT_SHM);
	struct segment_view view;
	struct segment_header good;
	struct err err = {""};
	int fd = leftover(SEGMENT_SHM);
	ck_assert_int_eq(segment_attach(fd, &view, NULL), 0);
	good = *view.header;
	segment_detach(&view);
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
		struct segment_header spoilt = good;
		/* In the second byte: sizes change by whole pages, strings stay strings. */
		((unsigned char *)&spoilt)[fields[i].at + 1] ^= 0x20;
		patch(0, &spoilt, sizeof spoilt);
		expect_refused(fd, &wanted, fields[i].part);
	}
	/* A node that there may be, but not the one that is wanted. */
	int32_t other = good.node + 1;
	patch(0, &good, sizeof good);
	patch(offsetof(struct segment_header, node), &other, sizeof other);
	expect_refused(fd, &wanted, "its header is of node");
	patch(0, &good, sizeof good);
	ck_assert_msg(!adopt(fd, &wanted, &err), "%s", err.text);
	close(fd);
}
END_TEST

/* The first, the last, and the zeros behind the payload. */
START_TEST(every_byte_counts)
{
	struct segment_spec wanted = wanted_of(SEGMENT_SHM);
	int fd = leftover(SEGMENT_SHM);
	const off_t places[] = {SEGMENT_HEADER_BYTES, SEGMENT_HEADER_BYTES + RIG_PAYLOAD - 1,
				(off_t)made.total_bytes - 1};
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		unsigned char byte, spoilt;
		ck_assert_int_eq(pread(fd, &byte, 1, places[i]), 1);
		spoilt = byte ^ 0x80;
		patch(places[i], &spoilt, 1);
		expect_refused(fd, &wanted, "digest");
		patch(places[i], &byte, 1);
	}
	ck_assert_int_eq(adopt(fd, &wanted, NULL), 0);
	close(fd);
}
END_TEST

START_TEST(the_object_itself_counts)
{
	struct segment_spec wanted = wanted_of(SEGMENT_SHM);
	int fd = leftover(SEGMENT_SHM);
	char path[SEGMENT_NAME_BYTES + 16], second[SEGMENT_NAME_BYTES + 24];
	snprintf(path, sizeof path, "/dev/shm%s", name);
	snprintf(second, sizeof second, "%s.old", path);
	ck_assert_int_eq(fchmod(fd, 0444), 0);
	expect_refused(fd, &wanted, "its mode is 0444");
	ck_assert_int_eq(fchmod(fd, 0640), 0);
	expect_refused(fd, &wanted, "its mode is 0640");
	ck_assert_int_eq(fchmod(fd, 0440), 0);
	ck_assert_int_eq(link(path, second), 0);
	expect_refused(fd, &wanted, "it has 2 names instead of 1");
	ck_assert_int_eq(unlink(second), 0);
	ck_assert_int_eq(fchmod(fd, 0600), 0);
	int writable = open(path, O_RDWR);
	ck_assert_int_eq(fchmod(fd, 0440), 0);
	expect_refused(writable, &wanted, "not for reading only");
	/* A whole number of pages, and not. */
	ck_assert_int_eq(ftruncate(writable, (off_t)made.total_bytes + 4096), 0);
	expect_refused(fd, &wanted, "holes");
	ck_assert_int_eq(fallocate(writable, 0, (off_t)made.total_bytes, 4096), 0);
	expect_refused(fd, &wanted, "total_bytes");
	ck_assert_int_eq(ftruncate(writable, (off_t)made.total_bytes + 1), 0);
	expect_refused(fd, &wanted, "no segment's size");
	ck_assert_int_eq(ftruncate(writable, (off_t)made.total_bytes - 4096), 0);
	expect_refused(fd, &wanted, "total_bytes");
	ck_assert_int_eq(ftruncate(writable, 0), 0);
	expect_refused(fd, &wanted, "no segment's size");
	close(writable);
	int pipe_fds[2];
	ck_assert_int_eq(pipe(pipe_fds), 0);
	expect_refused(pipe_fds[0], &wanted, "not a regular file");
	ck_assert_int_eq(adopt(-1, &wanted, NULL), -EBADF);
	close(fd);
}
END_TEST

/* One that is on a node is not what an order for a spread one would make. */
START_TEST(the_nodes_it_is_spread_over_count)
{
	struct segment_spec wanted = wanted_of(SEGMENT_SHM);
	int fd = leftover(SEGMENT_SHM);
	idset_add(&wanted.spread, wanted.node);
	idset_add(&wanted.spread, wanted.node + 1);
	expect_refused(fd, &wanted, "interleaved over other nodes");
	idset_clear(&wanted.spread);
	ck_assert_int_eq(adopt(fd, &wanted, NULL), 0);
	close(fd);
}
END_TEST

START_TEST(owner_and_group_count)
{
	if (geteuid() != 0)
		return; /* needs a second owner */
	struct segment_spec wanted = wanted_of(SEGMENT_SHM);
	struct err err = {""};
	int fd = leftover(SEGMENT_SHM);
	wanted.group = 12345;
	expect_refused(fd, &wanted, "its group is 0");
	ck_assert_int_eq(fchown(fd, (uid_t)-1, 12345), 0);
	ck_assert_msg(!adopt(fd, &wanted, &err), "%s", err.text);
	wanted.group = (gid_t)-1;
	expect_refused(fd, &wanted, "its group is 12345");
	ck_assert_int_eq(fchown(fd, 12345, 0), 0);
	expect_refused(fd, &wanted, "its owner is user 12345");
	ck_assert_int_eq(shm_unlink(name), 0);
	close(fd);
}
END_TEST

START_TEST(the_backing_counts)
{
	struct segment_spec shm = wanted_of(SEGMENT_SHM), memfd = wanted_of(SEGMENT_MEMFD);
	int fd = leftover(SEGMENT_MEMFD);
	expect_refused(fd, &shm, "backing = shm");
	close(fd);
	fd = leftover(SEGMENT_SHM);
	expect_refused(fd, &memfd, "no sealed memfd");
	close(fd);
}
END_TEST

/* A memfd with the right content that somebody could still write to. */
START_TEST(seals_count)
{
	static const int seals[] = {0, F_SEAL_WRITE, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SEAL,
				    F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL};
	struct segment_spec wanted = wanted_of(SEGMENT_MEMFD);
	struct segment_view view;
	char path[32];
	int fd = leftover(SEGMENT_MEMFD);
	ck_assert_int_eq(segment_attach(fd, &view, NULL), 0);
	for (size_t i = 0; i < sizeof seals / sizeof *seals; i++) {
		int copy = memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		ck_assert_int_eq(pwrite(copy, view.base, view.total_bytes, 0), (ssize_t)view.total_bytes);
		ck_assert_int_eq(fchmod(copy, 0440), 0);
		if (seals[i])
			ck_assert_int_eq(fcntl(copy, F_ADD_SEALS, seals[i]), 0);
		snprintf(path, sizeof path, "/proc/self/fd/%d", copy);
		int readonly = open(path, O_RDONLY | O_CLOEXEC);
		expect_refused(readonly, &wanted, "no sealed memfd");
		close(readonly);
		close(copy);
	}
	segment_detach(&view);
	close(fd);
}
END_TEST

/* A memfd without huge pages. */
static int leftover_of_small_pages(void)
{
	struct segment_spec spec = segment_rig_spec(SEGMENT_MEMFD, RIG_PAYLOAD);
	struct segment segment;
	int fd;
	name[0] = '\0';
	spec.huge = SEGMENT_HUGE_OFF;
	ck_assert_int_eq(segment_create(&spec, &segment, NULL), 0);
	segment_rig_fill(&segment, RIG_PAYLOAD);
	ck_assert_int_eq(segment_publish(&segment, &fd, &made, NULL), 0);
	ck_assert_uint_eq(made.huge_bytes, 0);
	return fd;
}

START_TEST(huge_pages_follow_the_setting)
{
	struct segment_spec wanted = wanted_of(SEGMENT_MEMFD);
	int fd = leftover_of_small_pages();
	wanted.huge = SEGMENT_HUGE_OFF;
	ck_assert_int_eq(adopt(fd, &wanted, NULL), 0);
	/* An adoption asks for them as a load does; "on" then is all or nothing, which depends on the kernel. */
	struct err err = {""};
	wanted.huge = SEGMENT_HUGE_ON;
	if (adopt(fd, &wanted, &err)) {
		ck_assert_ptr_nonnull(strstr(err.text, "huge_pages = on"));
	} else {
		wanted.huge = SEGMENT_HUGE_OFF;
		expect_refused(fd, &wanted, "huge_pages = off");
	}
	close(fd);
}
END_TEST

START_TEST(huge_pages_that_cannot_be_had_are_missed_only_where_demanded)
{
	struct segment_spec wanted = wanted_of(SEGMENT_MEMFD);
	struct err err = {""};
	int fd = leftover_of_small_pages();
	ck_assert_int_eq(refuse_call(SYS_madvise, EINVAL), 0); /* as a kernel without MADV_COLLAPSE */
	ck_assert_msg(!adopt(fd, &wanted, &err), "%s", err.text);
	wanted.huge = SEGMENT_HUGE_ON;
	expect_refused(fd, &wanted, "huge_pages = on asks for all");
	close(fd);
}
END_TEST

/* The header says another node than the pages are on, and so does the order. */
START_TEST(misplaced_pages_are_refused)
{
	struct segment_spec wanted = wanted_of(SEGMENT_SHM);
	int fd = leftover(SEGMENT_SHM);
	int32_t node = (int32_t)segment_rig_node() + 1;
	patch(offsetof(struct segment_header, node), &node, sizeof node);
	wanted.node = segment_rig_node() + 1;
	expect_refused(fd, &wanted, "pages are not on node");
	close(fd);
}
END_TEST

/* A load would know as little. */
START_TEST(untold_placement_is_adopted_as_unverified)
{
	struct segment_spec wanted = wanted_of((enum segment_backing)_i);
	struct segment_view view;
	struct segment_report report;
	int fd = leftover((enum segment_backing)_i);
	ck_assert_int_eq(refuse_call(SYS_move_pages, EPERM), 0);
	ck_assert_int_eq(segment_adopt(fd, name, &wanted, &view, &report, NULL), 0);
	ck_assert_int_eq(report.placement.refused.error[NUMA_MOVE_PAGES], EPERM);
	ck_assert(!placement_verified(&report.placement));
	segment_detach(&view);
	close(fd);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("segment_adopt");
	tcase_add_checked_fixture(tests, segment_rig_set_up, segment_rig_tear_down);
	tcase_add_loop_test(tests, what_was_published_is_adopted, SEGMENT_SHM, SEGMENT_MEMFD + 1);
	tcase_add_loop_test(tests, an_object_with_a_hole_is_refused_before_it_is_read, 0, 2);
	tcase_add_test(tests, an_object_whose_name_went_is_adopted_without_one);
	tcase_add_test(tests, every_header_field_counts);
	tcase_add_test(tests, every_byte_counts);
	tcase_add_test(tests, the_object_itself_counts);
	tcase_add_test(tests, the_nodes_it_is_spread_over_count);
	tcase_add_test(tests, owner_and_group_count);
	tcase_add_test(tests, the_backing_counts);
	tcase_add_test(tests, seals_count);
	tcase_add_test(tests, huge_pages_follow_the_setting);
	tcase_add_test(tests, huge_pages_that_cannot_be_had_are_missed_only_where_demanded);
	tcase_add_test(tests, misplaced_pages_are_refused);
	tcase_add_loop_test(tests, untold_placement_is_adopted_as_unverified, SEGMENT_SHM, SEGMENT_MEMFD + 1);
	Suite *suite = suite_create("shm/segment_adopt");
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
