/* Plans over recorded and hand-made machines: who runs where must follow from the topology alone. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/parent/plan.h"
#include "tests/numa/tree.h"
#include "tests/unit/suite.h"

/* "0<0:0-1" is a worker on node 0 that reads node 0's copy with CPUs 0-1; then "io" and the front's CPUs. */
static char *describe(const struct plan *plan)
{
	char *text = NULL, list[IDSET_TEXT];
	size_t n;
	FILE *out = open_memstream(&text, &n);
	for (unsigned i = 0; i < plan->n_workers; i++)
		fprintf(out, "%u<%u:%s ", plan->workers[i].node, plan->workers[i].copy_node,
			idset_format(&plan->workers[i].cpus, list, sizeof list));
	fprintf(out, "copies %s ", idset_format(&plan->copy_nodes, list, sizeof list));
	fprintf(out, "io %s%s", idset_format(&plan->io_cpus, list, sizeof list), plan->oversubscribed ? " over" : "");
	fclose(out);
	return text;
}

static const struct {
	const char *machine;
	uint32_t workers, threads;
	const char *io, *expected;
} cases[] = {
	/* The front takes a hyperthread that no compute thread uses. */
	{"epyc-like", 1, 0, "", "0<0:0-1 1<1:2-3 4<4:4-5 5<5:6-7 copies 0-1,4-5 io 15"},
	{"epyc-like", 2, 0, "", "0<0:0 0<0:1 1<1:2 1<1:3 4<4:4 4<4:5 5<5:6 5<5:7 copies 0-1,4-5 io 15"},
	{"epyc-like", 3, 0, "",
	 "0<0:0 0<0:1 0<0:0 1<1:2 1<1:3 1<1:2 4<4:4 4<4:5 4<4:4 5<5:6 5<5:7 5<5:6 copies 0-1,4-5 io 15 over"},
	{"epyc-like", 1, 1, "0", "0<0:1 1<1:2 4<4:4 5<5:6 copies 0-1,4-5 io 0"},
	/* Asking for more threads than cores gives one thread each, said to be too many. */
	{"epyc-like", 1, 5, "", "0<0:0 1<1:2 4<4:4 5<5:6 copies 0-1,4-5 io 15 over"},
	{"2n8c-ht", 1, 0, "", NULL},
	{"4n-memless", 1, 0, "", NULL},
	{"cpuset-restricted", 1, 0, "", NULL},
	{"1n-plain", 1, 0, "", NULL},
};

static void load(const char *machine, struct topology **topology)
{
	char *root = tree_unfold(machine);
	struct err err = {""};
	ck_assert_msg(!topology_load(root, topology, &err), "%s: %s", machine, err.text);
	tree_remove(root);
}

static struct config settings(uint32_t workers, uint32_t threads, const char *io)
{
	static struct config config;
	memset(&config, 0, sizeof config);
	config.workers_per_node = workers;
	config.threads = threads;
	ck_assert_int_eq(idset_parse(io, &config.io_cpus, NULL), 0);
	return config;
}

START_TEST(a_plan_is_as_written)
{
	struct topology *topology;
	struct err err = {""};
	static struct plan plan;
	load(cases[_i].machine, &topology);
	struct config config = settings(cases[_i].workers, cases[_i].threads, cases[_i].io);
	ck_assert_msg(!plan_make(topology, &config, &plan, &err), "%s", err.text);
	char *text = describe(&plan);
	if (cases[_i].expected)
		ck_assert_str_eq(text, cases[_i].expected);
	free(text);
	topology_free(topology);
}
END_TEST

START_TEST(any_plan_keeps_the_rules)
{
	static const char *const machines[] = {"2n8c-ht", "4n-memless", "epyc-like", "cpuset-restricted", "1n-plain"};
	static struct plan plan;
	struct topology *topology;
	load(machines[_i], &topology);
	for (uint32_t workers = 1; workers <= 5; workers++)
		for (uint32_t threads = 0; threads <= 4; threads++) {
			struct config config = settings(workers, threads, "");
			ck_assert_int_eq(plan_make(topology, &config, &plan, NULL), 0);
			struct idset taken;
			idset_clear(&taken);
			for (unsigned i = 0; i < plan.n_workers; i++) {
				const struct plan_worker *w = &plan.workers[i];
				const struct topology_node *node = topology_find(topology, w->node);
				ck_assert_int_ge(idset_first(&w->cpus), 0);
				ck_assert(idset_has(&plan.copy_nodes, w->copy_node));
				ck_assert_uint_gt(topology_find(topology, w->copy_node)->memory_bytes, 0);
				for (int cpu = idset_first(&w->cpus); cpu >= 0; cpu = idset_next(&w->cpus, cpu)) {
					ck_assert(idset_has(&node->cpus, (unsigned)cpu));
					ck_assert(plan.oversubscribed || !idset_has(&taken, (unsigned)cpu));
					idset_add(&taken, (unsigned)cpu);
				}
			}
			ck_assert_uint_eq(idset_count(&plan.io_cpus), 1);
		}
	topology_free(topology);
}
END_TEST

START_TEST(io_cpus_outside_the_inherited_set_are_refused)
{
	struct topology *topology;
	static struct plan plan;
	struct err err = {""};
	load("cpuset-restricted", &topology);
	struct config config = settings(1, 0, "4000");
	ck_assert_int_eq(plan_make(topology, &config, &plan, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "io_cpus"));
	topology_free(topology);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("plan");
	TCase *tc = tcase_create("plan");
	tcase_add_loop_test(tc, a_plan_is_as_written, 0, (int)(sizeof cases / sizeof *cases));
	tcase_add_loop_test(tc, any_plan_keeps_the_rules, 0, 5);
	tcase_add_test(tc, io_cpus_outside_the_inherited_set_are_refused);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
