/* Topology: this machine against what the kernel says, and machines from tests/numa/ against their .expected text. */
#include <check.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "numa/bind.h"
#include "numa/topology.h"
#include "tests/numa/tree.h"
#include "tests/unit/suite.h"

static const char *const machines[] = {"2n8c-ht",  "4n-memless", "epyc-like", "cpuset-restricted",
				       "1n-plain", "epyc-nps1",	 "epyc-nps4", "xeon-snc4",
				       "8n",	   "grace-like", "even-odd",  "vm-2c"};

/* The whole of a topology as text. */
static void describe(const struct topology *t, FILE *out)
{
	struct idset with_memory;
	idset_clear(&with_memory);
	for (unsigned i = 0; i < topology_n_nodes(t); i++)
		if (topology_node(t, i)->memory_bytes)
			idset_add(&with_memory, topology_node(t, i)->os_index);
	for (unsigned i = 0; i < topology_n_nodes(t); i++) {
		const struct topology_node *node = topology_node(t, i);
		char cpus[IDSET_TEXT], cores[IDSET_TEXT];
		fprintf(out, "node %u: cpus '%s' cores '%s' memory %llu MiB package %u bind %s nearest %d distances",
			node->os_index, idset_format(&node->cpus, cpus, sizeof cpus),
			idset_format(&node->cores, cores, sizeof cores), (unsigned long long)node->memory_bytes >> 20,
			node->package, node->may_bind_memory ? "yes" : "no",
			topology_nearest(t, node->os_index, &with_memory));
		for (unsigned j = 0; j < topology_n_nodes(t); j++)
			fprintf(out, " %u", topology_distance(t, node->os_index, topology_node(t, j)->os_index));
		fputc('\n', out);
	}
}

static char *read_expected(const char *name)
{
	char path[256], *text = calloc(1, 8192);
	snprintf(path, sizeof path, "%s/tests/numa/%s.expected", getenv("srcdir") ? getenv("srcdir") : ".", name);
	FILE *in = fopen(path, "re");
	ck_assert_msg(in != NULL, "%s: %s", path, strerror(errno));
	ck_assert_uint_gt(fread(text, 1, 8191, in), 0);
	fclose(in);
	return text;
}

static void check_reads_as_expected(const char *root, const char *name)
{
	char *text = NULL, *expected = read_expected(name);
	size_t n = 0;
	struct err err = {""};
	struct topology *t = NULL;
	ck_assert_int_eq(setenv("HWLOC_COMPONENTS", "linux", 1), 0);
	ck_assert_msg(!topology_load(root, &t, &err), "%s", err.text);
	ck_assert_ptr_null(getenv("HWLOC_FSROOT"));
	ck_assert_str_eq(getenv("HWLOC_COMPONENTS"), "linux");
	FILE *out = open_memstream(&text, &n);
	describe(t, out);
	fclose(out);
	ck_assert_str_eq(text, expected);
	topology_free(t);
	free(text);
	free(expected);
}

START_TEST(a_machine_reads_as_expected)
{
	char *root = tree_unfold(machines[_i]);
	check_reads_as_expected(root, machines[_i]);
	tree_remove(root);
}
END_TEST

START_TEST(what_is_recorded_of_a_machine_reads_as_the_machine)
{
	char *root = tree_unfold(machines[_i]), *recorded = tree_record(root);
	check_reads_as_expected(recorded, machines[_i]);
	tree_remove(recorded);
	tree_remove(root);
}
END_TEST

START_TEST(a_tree_that_is_not_there_is_an_error_not_an_invention)
{
	struct err err = {""};
	struct topology *t = NULL;
	ck_assert_int_eq(topology_load("/nonexistent", &t, &err), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err.text, "/nonexistent"));
	ck_assert_ptr_null(t);
	ck_assert_ptr_null(getenv("HWLOC_FSROOT"));
}
END_TEST

/* All CPUs of this machine's nodes together are the affinity the process has. */
static void check_cpus_are_the_affinity(void)
{
	struct idset affinity, all;
	struct err err = {""};
	struct topology *t = NULL;
	ck_assert_msg(!topology_load(NULL, &t, &err), "%s", err.text);
	ck_assert_msg(!bind_thread_read(&affinity, &err), "%s", err.text);
	idset_clear(&all);
	for (unsigned i = 0; i < topology_n_nodes(t); i++) {
		const struct topology_node *node = topology_node(t, i);
		struct idset cores = node->cores;
		idset_and(&cores, &node->cpus);
		ck_assert(idset_equal(&cores, &node->cores));
		ck_assert(idset_first(&node->cpus) < 0 || idset_first(&node->cores) >= 0);
		idset_or(&all, &node->cpus);
	}
	ck_assert(idset_equal(&all, &affinity));
	topology_free(t);
}

START_TEST(this_machine_has_the_cpus_of_the_affinity)
{
	check_cpus_are_the_affinity();
}
END_TEST

START_TEST(an_inherited_affinity_cuts_the_nodes_cpus)
{
	struct idset all, one;
	struct err err;
	ck_assert_int_eq(bind_thread_read(&all, &err), 0);
	idset_clear(&one);
	for (int cpu = idset_first(&all); cpu >= 0; cpu = idset_next(&all, cpu)) {
		idset_clear(&one);
		idset_add(&one, (unsigned)cpu); /* the last one stays */
	}
	/* As taskset does it: narrowed before the program starts. Check runs every test in a process of its own. */
	ck_assert_int_eq(bind_thread(&one, &err), 0);
	check_cpus_are_the_affinity();
}
END_TEST

START_TEST(free_bytes_are_within_the_machines_memory)
{
	struct topology *t = NULL;
	ck_assert_int_eq(topology_load(NULL, &t, NULL), 0);
	uint64_t physical = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE), bytes;
	for (unsigned i = 0; i < topology_n_nodes(t); i++) {
		const struct topology_node *node = topology_node(t, i);
		ck_assert_int_eq(topology_free_bytes(node->os_index, &bytes), 0);
		ck_assert_uint_le(bytes, physical);
		ck_assert(bytes > 0 || !node->memory_bytes);
	}
	ck_assert_int_eq(topology_free_bytes(IDSET_MAX - 1, &bytes), -ENODEV);
	ck_assert_ptr_nonnull(topology_find(t, topology_node(t, 0)->os_index));
	ck_assert_ptr_null(topology_find(t, IDSET_MAX - 1));
	ck_assert_ptr_null(topology_node(t, topology_n_nodes(t)));
	topology_free(t);
	topology_free(NULL);
}
END_TEST

START_TEST(nearest_copy_prefers_distance_then_the_lower_number)
{
	char *root = tree_unfold("epyc-like");
	struct topology *t = NULL;
	struct idset among;
	ck_assert_int_eq(topology_load(root, &t, NULL), 0);
	ck_assert_int_eq(idset_parse("1,4", &among, NULL), 0);
	ck_assert_int_eq(topology_nearest(t, 0, &among), 1);
	ck_assert_int_eq(topology_nearest(t, 5, &among), 4);
	ck_assert_int_eq(idset_parse("4,5", &among, NULL), 0);
	ck_assert_int_eq(topology_nearest(t, 0, &among), 4); /* both 32 away */
	idset_clear(&among);
	ck_assert_int_eq(topology_nearest(t, 0, &among), -1);
	topology_free(t);
	tree_remove(root);
}
END_TEST

START_TEST(one_cpu_of_each_core_whichever_cpus_there_are)
{
	static const char *const cases[][2] = {{"0-15", "0-7"}, {"8-15", "8-15"}, {"1,8-9,15", "1,8,15"}, {"", ""}};
	char *root = tree_unfold("epyc-like"), text[IDSET_TEXT]; /* CPU n and n + 8 share a core */
	struct topology *t = NULL;
	struct idset cpus, cores;
	ck_assert_int_eq(topology_load(root, &t, NULL), 0);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		idset_parse(cases[i][0], &cpus, NULL);
		topology_cores(t, &cpus, &cores);
		ck_assert_str_eq(idset_format(&cores, text, sizeof text), cases[i][1]);
	}
	topology_free(t);
	tree_remove(root);
}
END_TEST

int main(int argc, char **argv)
{
	if (argc > 1) { /* topology TREE: prints its description, to write an .expected file */
		char *root = tree_unfold(argv[1]);
		struct err err = {""};
		struct topology *t = NULL;
		if (topology_load(root, &t, &err))
			fprintf(stderr, "%s\n", err.text);
		else
			describe(t, stdout);
		topology_free(t);
		tree_remove(root);
		return err.text[0] != '\0';
	}
	TCase *tests = tcase_create("topology");
	tcase_add_loop_test(tests, a_machine_reads_as_expected, 0, (int)(sizeof machines / sizeof machines[0]));
	tcase_add_loop_test(tests, what_is_recorded_of_a_machine_reads_as_the_machine, 0,
			    (int)(sizeof machines / sizeof machines[0]));
	tcase_add_test(tests, a_tree_that_is_not_there_is_an_error_not_an_invention);
	tcase_add_test(tests, this_machine_has_the_cpus_of_the_affinity);
	tcase_add_test(tests, an_inherited_affinity_cuts_the_nodes_cpus);
	tcase_add_test(tests, free_bytes_are_within_the_machines_memory);
	tcase_add_test(tests, nearest_copy_prefers_distance_then_the_lower_number);
	tcase_add_test(tests, one_cpu_of_each_core_whichever_cpus_there_are);
	Suite *suite = suite_create("numa/topology");
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
