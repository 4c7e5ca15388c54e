/* The kernel's counters of nodes, on a tree from tests/numa/ and on this machine. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "numa/node_counters.h"
#include "tests/numa/tree.h"
#include "tests/unit/suite.h"

START_TEST(every_figure_is_the_kernels)
{
	char *root = tree_unfold("node-counters");
	struct node_counters n;
	ck_assert_int_eq(node_counters_read(root, 0, &n), 0);
	ck_assert_uint_eq(n.hit, 1279959296);
	ck_assert_uint_eq(n.miss, 12);
	ck_assert_uint_eq(n.foreign, 34);
	ck_assert_uint_eq(n.interleave_hit, 1101);
	ck_assert_uint_eq(n.local, 1279959200);
	ck_assert_uint_eq(n.other, 96);
	ck_assert_uint_eq(n.total_bytes, UINT64_C(20539608) << 10);
	ck_assert_uint_eq(n.free_bytes, UINT64_C(13727856) << 10);
	ck_assert_uint_eq(n.pool[NODE_POOL_2M].pages, 512);
	ck_assert_uint_eq(n.pool[NODE_POOL_2M].free_pages, 500);
	ck_assert_uint_eq(n.pool[NODE_POOL_1G].pages, 3);
	ck_assert_uint_eq(n.pool[NODE_POOL_1G].free_pages, 1);
	tree_remove(root);
}
END_TEST

START_TEST(a_size_the_kernel_does_not_have_is_an_empty_pool)
{
	char *root = tree_unfold("node-counters");
	struct node_counters n;
	ck_assert_int_eq(node_counters_read(root, 1, &n), 0);
	ck_assert_uint_eq(n.other, 2);
	ck_assert_uint_eq(n.pool[NODE_POOL_2M].pages, 7);
	ck_assert_uint_eq(n.pool[NODE_POOL_2M].free_pages, 0);
	ck_assert_uint_eq(n.pool[NODE_POOL_1G].pages, 0);
	tree_remove(root);
}
END_TEST

START_TEST(what_is_not_there_or_not_numbers_leaves_the_result_alone)
{
	char *root = tree_unfold("node-counters");
	struct node_counters n = {.hit = 7};
	ck_assert_int_eq(node_counters_read(root, 2, &n), -EPROTO);
	ck_assert_int_eq(node_counters_read(root, 3, &n), -EPROTO);
	ck_assert_int_eq(node_counters_read(root, 4, &n), -ENOENT);
	ck_assert_uint_eq(n.hit, 7);
	tree_remove(root);
}
END_TEST

START_TEST(this_machine_answers)
{
	struct node_counters n;
	int rc = node_counters_read(NULL, 0, &n);
	if (rc == -ENOENT)
		return; /* its kernel knows no nodes */
	ck_assert_int_eq(rc, 0);
	ck_assert_uint_gt(n.hit, 0);
	ck_assert_uint_gt(n.total_bytes, n.free_bytes);
	ck_assert_uint_gt(n.free_bytes, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("node_counters");
	TCase *all = tcase_create("all");
	tcase_add_test(all, every_figure_is_the_kernels);
	tcase_add_test(all, a_size_the_kernel_does_not_have_is_an_empty_pool);
	tcase_add_test(all, what_is_not_there_or_not_numbers_leaves_the_result_alone);
	tcase_add_test(all, this_machine_answers);
	suite_add_tcase(suite, all);
	return suite_run(suite);
}
