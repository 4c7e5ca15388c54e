/* Memory by node: words of numa_maps as numastat counts them, and copies told apart. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "src/ctl/numastat.h"
#include "tests/numa/tree.h"
#include "tests/unit/suite.h"

static const struct numastat_nodes two = {2, {0, 2}}; /* node 1 is a hole */

static struct numastat_process add(const char *maps, struct numastat_copy *copies, unsigned n_copies)
{
	struct numastat_process use;
	char text[4096];
	memset(&use, 0, sizeof use);
	snprintf(text, sizeof text, "%s", maps);
	numastat_add(text, &two, copies, n_copies, &use);
	return use;
}

START_TEST(kinds_are_those_of_numastat)
{
	struct numastat_process use =
		add("56026a2df000 prefer:0 file=/usr/sbin/weightd mapped=16 mapmax=3 N0=10 N2=6 "
		    "kernelpagesize_kB=4\n"
		    "5602840cb000 prefer:0 heap anon=972 dirty=972 active=0 N0=972 kernelpagesize_kB=4\n"
		    "7fddefc43000 prefer:0\n"
		    "7fe0777be000 bind:2 anon=17 dirty=17 N2=17 kernelpagesize_kB=4\n"
		    "7fe079000000 bind:2 file=/anon_hugepage\\040(deleted) huge anon=3 dirty=3 N2=3 "
		    "kernelpagesize_kB=2048\n"
		    "7ffc717db000 default stack anon=8 dirty=8 active=1 N0=8 kernelpagesize_kB=4\n",
		    NULL, 0);
	ck_assert_uint_eq(use.bytes[NUMASTAT_HEAP][0], 972 * 4096);
	ck_assert_uint_eq(use.bytes[NUMASTAT_STACK][0], 8 * 4096);
	ck_assert_uint_eq(use.bytes[NUMASTAT_PRIVATE][0], 10 * 4096);
	ck_assert_uint_eq(use.bytes[NUMASTAT_PRIVATE][1], (6 + 17) * 4096);
	ck_assert_uint_eq(use.bytes[NUMASTAT_HUGE][1], 3 * 2048 * 1024);
	ck_assert_uint_eq(use.bytes[NUMASTAT_HUGE][0] + use.bytes[NUMASTAT_HEAP][1] + use.bytes[NUMASTAT_STACK][1], 0);
}
END_TEST

START_TEST(copies_are_counted_once_however_many_map_them)
{
	static const char maps[] =
		"7f00 bind:0 file=/dev/shm/weightd.x.m.g1.n0 dirty=100 N0=99 N2=1 kernelpagesize_kB=4\n"
		"7f01 bind:0 file=/dev/shm/weightd.x.m.g1.n0-other dirty=5 N0=5 kernelpagesize_kB=4\n"
		"7f02 bind:2 file=/memfd:weightd.x.a.g2.n2\\040(deleted) dirty=7 N2=7 kernelpagesize_kB=4\n"
		"7f03 bind:2 file=/memfd:weightd.x.a.g2.n20\\040(deleted) dirty=7 N2=9 kernelpagesize_kB=4\n";
	struct numastat_copy copies[] = {{.name = "/weightd.x.m.g1.n0"}, {.name = "/weightd.x.a.g2.n2"}};
	for (unsigned i = 1; i <= 3; i++) {
		struct numastat_process use = add(maps, copies, 2);
		ck_assert_uint_eq(use.bytes[NUMASTAT_COPIES][0], 99 * 4096);
		ck_assert_uint_eq(use.bytes[NUMASTAT_COPIES][1], 8 * 4096);
		ck_assert_uint_eq(use.bytes[NUMASTAT_PRIVATE][0], 5 * 4096); /* names that only begin alike */
		ck_assert_uint_eq(use.bytes[NUMASTAT_PRIVATE][1], 9 * 4096);
		ck_assert_uint_eq(copies[0].n_mappings, i);
		ck_assert_uint_eq(copies[0].bytes[0], 99 * 4096);
		ck_assert_uint_eq(copies[0].bytes[1], 4096);
		ck_assert_uint_eq(copies[1].bytes[1], 7 * 4096);
	}
}
END_TEST

START_TEST(words_that_are_no_counts_count_nothing)
{
	struct numastat_process use = add("7f00 default Nx=5 N0 N=3 N1=7 N02x=1 kernelpagesize_kB=4\n\n", NULL, 0),
				none;
	memset(&none, 0, sizeof none);
	ck_assert_mem_eq(&use, &none, sizeof none);
}
END_TEST

START_TEST(processes_are_read_below_a_root)
{
	char *root = tree_unfold("doctor-well");
	struct numastat_nodes nodes;
	struct numastat_process use;
	struct err err = {""};
	memset(&use, 0, sizeof use);
	ck_assert_int_eq(numastat_nodes(root, &nodes, &err), 0);
	ck_assert_uint_eq(nodes.n, 2);
	tree_write(root, "/proc/7/numa_maps", "7f00 default heap N1=5 kernelpagesize_kB=4\n");
	ck_assert_int_eq(numastat_process(root, 7, &nodes, NULL, 0, &use, &err), 0);
	ck_assert_uint_eq(use.bytes[NUMASTAT_HEAP][1], 5 * 4096);
	ck_assert_int_eq(numastat_process(root, 8, &nodes, NULL, 0, &use, &err), -ESRCH);
	tree_write(root, "/proc/8/comm", "weightd\n"); /* it is there, but nothing is counted */
	ck_assert_int_eq(numastat_process(root, 8, &nodes, NULL, 0, &use, &err), -ENOSYS);
	ck_assert_ptr_nonnull(strstr(err.text, "CONFIG_NUMA"));
	tree_remove(root);
}
END_TEST

START_TEST(a_long_file_is_read_whole)
{
	char *root = tree_unfold("doctor-well");
	struct numastat_nodes nodes = {1, {0}};
	struct numastat_process use;
	struct err err = {""};
	static char maps[20000 * 48];
	size_t n = 0;
	for (unsigned i = 0; i < 20000; i++)
		n += (size_t)snprintf(maps + n, sizeof maps - n, "7f%08x default N0=1 kernelpagesize_kB=4\n", i);
	memset(&use, 0, sizeof use);
	tree_write(root, "/proc/7/numa_maps", maps);
	ck_assert_int_eq(numastat_process(root, 7, &nodes, NULL, 0, &use, &err), 0);
	ck_assert_uint_eq(use.bytes[NUMASTAT_PRIVATE][0], 20000 * 4096);
	tree_remove(root);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("numastat");
	tcase_add_test(tests, kinds_are_those_of_numastat);
	tcase_add_test(tests, copies_are_counted_once_however_many_map_them);
	tcase_add_test(tests, words_that_are_no_counts_count_nothing);
	tcase_add_test(tests, processes_are_read_below_a_root);
	tcase_add_test(tests, a_long_file_is_read_whole);
	Suite *suite = suite_create("src/ctl/numastat");
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
