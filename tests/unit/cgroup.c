/* Room in control groups, on trees from tests/numa/. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "numa/cgroup.h"
#include "tests/numa/tree.h"
#include "tests/unit/suite.h"

static const struct {
	const char *tree;
	uint64_t room;
} cases[] = {
	{"cgroup-v1", 1073741824 - 314572800 + 94371840 + 10485760},
	{"cgroup-v2", 536870912 - 67108864},
	{"cgroup-v2-full", 0},
	{"cgroup-none", UINT64_MAX},
};

START_TEST(the_tightest_limit_on_the_way_up_counts)
{
	char *root = tree_unfold(cases[_i].tree);
	uint64_t room = 7;
	struct err err = {""};
	ck_assert_msg(!cgroup_memory_room(root, &room, &err), "%s", err.text);
	ck_assert_uint_eq(room, cases[_i].room);
	tree_remove(root);
}
END_TEST

START_TEST(this_machine_answers)
{
	uint64_t room = 7;
	struct err err = {""};
	ck_assert_msg(!cgroup_memory_room(NULL, &room, &err), "%s", err.text);
	ck_assert_uint_ne(room, 7);
}
END_TEST

START_TEST(a_kernel_without_control_groups_limits_nothing)
{
	uint64_t room = 7;
	ck_assert_int_eq(cgroup_memory_room("/nonexistent", &room, NULL), 0);
	ck_assert_uint_eq(room, UINT64_MAX);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("cgroup");
	tcase_add_loop_test(tests, the_tightest_limit_on_the_way_up_counts, 0, (int)(sizeof cases / sizeof cases[0]));
	tcase_add_test(tests, this_machine_answers);
	tcase_add_test(tests, a_kernel_without_control_groups_limits_nothing);
	Suite *suite = suite_create("numa/cgroup");
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
