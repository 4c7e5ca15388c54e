/* Names of segments: how they are built and taken apart, whom they belong to, and what is done about strangers who have
 * taken one. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/segment_rig.h"
#include "tests/unit/suite.h"

START_TEST(names_are_built_and_checked)
{
	char name[SEGMENT_NAME_BYTES], model[200], long_instance[80];
	struct err err = {""};
	ck_assert_int_eq(segment_name("default", "SmolLM2-135M.Q4_1", 2, 11, name, &err), 0);
	ck_assert_str_eq(name, "/weightd.default.SmolLM2-135M.Q4_1.g2.n11");
	static const char *const bad[][2] = {{"", "m"},	   {"a.b", "m"}, {"a/b", "m"}, {"a", ""},
					     {"a", "m/x"}, {"a", "m x"}, {"a", "m\n"}};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		ck_assert_int_eq(segment_name(bad[i][0], bad[i][1], 0, 0, name, &err), -EINVAL);
	memset(model, 'm', sizeof model);
	model[128] = '\0';
	ck_assert_int_eq(segment_name("a", model, 0, 0, name, &err), -ENAMETOOLONG);
	model[127] = '\0';
	ck_assert_int_eq(segment_name("a", model, UINT32_MAX, UINT32_MAX, name, &err), 0);
	ck_assert_uint_lt(strlen(name), 256);
	memset(long_instance, 'i', sizeof long_instance);
	long_instance[64] = '\0';
	ck_assert_int_eq(segment_name(long_instance, "m", 0, 0, name, &err), -ENAMETOOLONG);
}
END_TEST

START_TEST(names_are_taken_apart)
{
	static const struct {
		const char *name, *model;
		uint32_t generation;
		unsigned node;
	} good[] = {
		{"weightd.a.m.g1.n0", "m", 1, 0},
		{"weightd.a.SmolLM2-135M.Q4_1.g12.n4095", "SmolLM2-135M.Q4_1", 12, 4095},
		{"weightd.a.m.g1.n0.g4294967295.n2", "m.g1.n0", UINT32_MAX, 2},
		{"weightd.a.m.g1.n0.x0123456789abcdef", "m", 1, 0},
		{"weightd.a.m.x0123456789abcdef.g1.n0", "m.x0123456789abcdef", 1, 0},
	};
	static const char *const bad[] = {
		"weightd.a.g1.n0",
		"weightd.a..g1.n0.",
		"weightd.a.m.g1",
		"weightd.a.m.n0.g1",
		"weightd.a.m.g1.n",
		"weightd.a.m.g.n0",
		"weightd.a.m.g4294967296.n0",
		"weightd.a.m.g1.n99999999999",
		"weightd.a.m.g1.n0x",
		"weightd.a-b.m.g1.n0",
		"weightd.ab.m.g1.n0",
		"weightd.m.g1.n0",
		"weightd.a.m.g1.n0.x0123456789abcde",
		"weightd.a.m.g1.n0.x0123456789abcdeF",
		"weightd.a.lock",
		"weightd.a.m.g1.n-1",
		"",
		"weightd.a.",
	};
	struct segment_found found;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		ck_assert_msg(segment_parse(good[i].name, "a", &found), "%s", good[i].name);
		ck_assert_str_eq(found.model, good[i].model);
		ck_assert_str_eq(found.name + 1, good[i].name);
		ck_assert_uint_eq(found.generation, good[i].generation);
		ck_assert_uint_eq(found.node, good[i].node);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		ck_assert_msg(!segment_parse(bad[i], "a", &found), "%s", bad[i]);
	ck_assert(segment_parse("weightd.a-b.m.g1.n0", "a-b", &found));
}
END_TEST

START_TEST(a_taken_name_is_left_alone)
{
	struct segment_spec spec = segment_rig_spec(SEGMENT_SHM, RIG_PAYLOAD);
	struct segment first, second;
	struct err err = {""};
	ck_assert_int_eq(segment_create(&spec, &first, &err), 0);
	ck_assert_int_eq(segment_create(&spec, &second, &err), -EEXIST);
	ck_assert_uint_eq(segment_rig_left_behind(), 1);
	segment_destroy(&first);
	segment_destroy(&first);
	segment_destroy(NULL);
	ck_assert_uint_eq(segment_rig_left_behind(), 0);
}
END_TEST

/* A squatter's object: another user's, under the name that a segment would have. */
static int squat(char name[SEGMENT_NAME_BYTES])
{
	ck_assert_int_eq(segment_name(segment_rig_instance(), "tiny.Q4_0", 3, segment_rig_node(), name, NULL), 0);
	int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0666);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fchown(fd, 12345, (gid_t)-1), 0);
	return fd;
}

START_TEST(a_strangers_name_is_salted)
{
	if (geteuid() != 0)
		return; /* needs a second owner */
	struct segment_report report;
	struct segment_found *found = NULL;
	char name[SEGMENT_NAME_BYTES];
	unsigned n = 0;
	int squatter = squat(name), fd = segment_rig_publish(SEGMENT_SHM, &report);
	ck_assert_uint_eq(segment_rig_left_behind(), 2);
	ck_assert_int_eq(segment_find(segment_rig_instance(), &found, &n, NULL), 0);
	ck_assert_uint_eq(n, 1);
	ck_assert_uint_eq(strlen(found[0].name), strlen(name) + 18);
	ck_assert_int_eq(strncmp(found[0].name, name, strlen(name)), 0);
	ck_assert_str_eq(found[0].model, "tiny.Q4_0");
	/* It is the published object and no other. */
	struct stat ours, named;
	int again = shm_open(found[0].name, O_RDONLY, 0);
	ck_assert_int_eq(fstat(fd, &ours), 0);
	ck_assert_int_eq(fstat(again, &named), 0);
	ck_assert_uint_eq(ours.st_ino, named.st_ino);
	ck_assert_int_eq(segment_remove_instance(segment_rig_instance(), NULL), 1);
	ck_assert_int_eq(fstat(squatter, &named), 0);
	ck_assert_uint_eq(named.st_nlink, 1);
	ck_assert_int_eq(shm_unlink(name), 0);
	free(found);
	close(again);
	close(fd);
	close(squatter);
}
END_TEST

START_TEST(segments_are_found_by_name)
{
	struct segment_spec spec = segment_rig_spec(SEGMENT_SHM, RIG_PAYLOAD);
	struct segment made[3];
	struct segment_found *found = &(struct segment_found){.node = 77};
	unsigned n = 77;
	ck_assert_int_eq(segment_find(segment_rig_instance(), &found, &n, NULL), 0);
	ck_assert_uint_eq(n, 0);
	ck_assert_ptr_null(found);
	for (int i = 0; i < 3; i++) {
		spec.model = i == 2 ? "other" : "tiny.Q4_0";
		spec.generation = (uint32_t)i;
		ck_assert_int_eq(segment_create(&spec, &made[i], NULL), 0);
	}
	ck_assert_int_eq(segment_find(segment_rig_instance(), &found, &n, NULL), 0);
	ck_assert_uint_eq(n, 3);
	free(found);
	ck_assert_int_eq(segment_remove_model(segment_rig_instance(), "tiny.Q4_0", NULL), 2);
	ck_assert_int_eq(segment_remove_model(segment_rig_instance(), "tiny", NULL), 0);
	ck_assert_int_eq(segment_find(segment_rig_instance(), &found, &n, NULL), 0);
	ck_assert_uint_eq(n, 1);
	ck_assert_str_eq(found[0].model, "other");
	free(found);
	for (int i = 0; i < 3; i++)
		segment_destroy(&made[i]);
	ck_assert_int_eq(segment_find("a/b", &found, &n, NULL), -EINVAL);
}
END_TEST

START_TEST(only_this_instances_segments_are_removed)
{
	struct segment_report report;
	char other[64], path[128];
	static const char *const not_segments[] = {"tiny.g1",	 "lock",	   "tiny.g1.n",
						   "tiny.gx.n0", "tiny.g1.n0.old", ".g1.n0"};
	close(segment_rig_publish(SEGMENT_SHM, &report));
	for (size_t i = 0; i < sizeof not_segments / sizeof not_segments[0]; i++) {
		snprintf(path, sizeof path, "/weightd.%s.%s", segment_rig_instance(), not_segments[i]);
		int fd = shm_open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
		ck_assert_int_ge(fd, 0);
		close(fd);
	}
	snprintf(other, sizeof other, "/weightd.%s-2.tiny.g1.n0", segment_rig_instance());
	int fd = shm_open(other, O_RDWR | O_CREAT | O_EXCL, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(segment_remove_instance(segment_rig_instance(), NULL), 1);
	ck_assert_int_eq(segment_remove_instance(segment_rig_instance(), NULL), 0);
	ck_assert_uint_eq(segment_rig_left_behind(), sizeof not_segments / sizeof not_segments[0]);
	for (size_t i = 0; i < sizeof not_segments / sizeof not_segments[0]; i++) {
		snprintf(path, sizeof path, "/weightd.%s.%s", segment_rig_instance(), not_segments[i]);
		ck_assert_int_eq(shm_unlink(path), 0);
	}
	ck_assert_int_eq(shm_unlink(other), 0);
	close(fd);
	ck_assert_int_eq(segment_remove_instance("a/b", NULL), -EINVAL);
}
END_TEST

START_TEST(another_owners_segment_is_left_alone)
{
	if (geteuid() != 0)
		return; /* needs a second owner */
	char path[128];
	snprintf(path, sizeof path, "/weightd.%s.tiny.g1.n0", segment_rig_instance());
	int fd = shm_open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fchown(fd, 12345, (gid_t)-1), 0);
	ck_assert_int_eq(segment_remove_instance(segment_rig_instance(), NULL), 0);
	ck_assert_uint_eq(segment_rig_left_behind(), 1);
	ck_assert_int_eq(shm_unlink(path), 0);
	close(fd);
}
END_TEST

START_TEST(an_instance_has_one_owner)
{
	int first = -1, second = -1;
	struct err err = {""};
	ck_assert_msg(!segment_lock_instance(segment_rig_instance(), &first, &err), "%s", err.text);
	ck_assert_int_eq(fcntl(first, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	ck_assert_int_eq(segment_lock_instance(segment_rig_instance(), &second, &err), -EBUSY);
	ck_assert_ptr_nonnull(strstr(err.text, segment_rig_instance()));
	ck_assert_int_eq(second, -1);
	ck_assert_uint_eq(segment_rig_left_behind(), 1);
	close(first); /* as a crash does: the file stays, the lock does not */
	ck_assert_int_eq(segment_lock_instance(segment_rig_instance(), &second, &err), 0);
	segment_unlock_instance(segment_rig_instance(), second);
	ck_assert_uint_eq(segment_rig_left_behind(), 0);
	ck_assert_int_eq(segment_lock_instance(segment_rig_instance(), &first, &err), 0);
	segment_unlock_instance(segment_rig_instance(), first);
	ck_assert_int_eq(segment_lock_instance("", &first, &err), -EINVAL);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("segment_name");
	tcase_add_checked_fixture(tests, segment_rig_set_up, segment_rig_tear_down);
	tcase_add_test(tests, names_are_built_and_checked);
	tcase_add_test(tests, names_are_taken_apart);
	tcase_add_test(tests, a_taken_name_is_left_alone);
	tcase_add_test(tests, a_strangers_name_is_salted);
	tcase_add_test(tests, segments_are_found_by_name);
	tcase_add_test(tests, only_this_instances_segments_are_removed);
	tcase_add_test(tests, another_owners_segment_is_left_alone);
	tcase_add_test(tests, an_instance_has_one_owner);
	Suite *suite = suite_create("shm/segment_name");
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
