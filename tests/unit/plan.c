/* Plans over recorded and hand-made machines: who runs where must follow from the topology and the settings alone. What
 * is expected stands in tests/numa/<machine>.plan: a line "[key=value key=value ...]" and the plan's text below it. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/parent/plan.h"
#include "tests/numa/tree.h"
#include "tests/unit/suite.h"

static const char *const machines[] = {"1n-plain",  "2n8c-ht",	  "4n-memless", "cpuset-restricted",
				       "epyc-like", "epyc-nps1",  "epyc-nps4",	"xeon-snc4",
				       "8n",	    "grace-like", "even-odd",	"vm-2c"};
enum { N_MACHINES = sizeof machines / sizeof *machines };

static struct config config; /* large */
static struct plan plan;

/* Also called outside of a running test, so not through Check's own asserts. */
static void need(int rc, const char *what, const struct err *err)
{
	if (!rc)
		return;
	fprintf(stderr, "%s: %s\n", what, err->text);
	abort();
}

/* Each worker that spans nodes as "COPY:CPUS+COPY:CPUS ", in the plan's order. */
static char *describe_teams(void)
{
	const struct plan_worker *parts[PLAN_WORKERS_MAX];
	char *text = NULL, list[IDSET_TEXT];
	size_t n;
	FILE *out = open_memstream(&text, &n);
	for (unsigned i = 0; i < plan.n_workers; i++)
		for (unsigned j = 0, n_parts = plan_parts(&plan, i, PARALLEL_TENSOR, parts); j < n_parts; j++)
			fprintf(out, "%u:%s%s", parts[j]->copy_node, idset_format(&parts[j]->cpus, list, sizeof list),
				j + 1 < n_parts ? "+" : " ");
	fclose(out);
	return text;
}

static void load(const char *machine, struct topology **topology)
{
	char *root = tree_unfold(machine);
	struct err err = {""};
	need(topology_load(root, topology, &err), machine, &err);
	tree_remove(root);
}

/* "key=value key=value" over the defaults. */
static void set_all(const char *settings)
{
	char text[512], *save = NULL;
	struct err err = {""};
	snprintf(text, sizeof text, "%s", settings);
	config_defaults(&config);
	for (char *at = strtok_r(text, " ", &save); at; at = strtok_r(NULL, " ", &save))
		need(config_set(&config, at, &err), at, &err);
}

static char *describe(const struct topology *topology)
{
	char *text = NULL;
	size_t n;
	FILE *out = open_memstream(&text, &n);
	plan_print(&plan, topology, out);
	fclose(out);
	return text;
}

static char *read_expected(const char *machine)
{
	enum { MAX_BYTES = 1 << 16 };
	char path[256], *text = calloc(1, MAX_BYTES);
	snprintf(path, sizeof path, "%s/tests/numa/%s.plan", getenv("srcdir") ? getenv("srcdir") : ".", machine);
	FILE *in = fopen(path, "re");
	ck_assert_msg(in != NULL, "%s: %s", path, strerror(errno));
	ck_assert_uint_gt(fread(text, 1, MAX_BYTES - 1, in), 0);
	fclose(in);
	return text;
}

START_TEST(a_plan_is_as_written)
{
	struct topology *topology;
	struct err err = {""};
	char *expected = read_expected(machines[_i]);
	unsigned n_plans = 0;
	load(machines[_i], &topology);
	for (char *at = strchr(expected, '['), *next; at; at = next, n_plans++) {
		char *settings = at + 1, *end = strchr(settings, ']');
		ck_assert_ptr_nonnull(end);
		*end = '\0';
		char *wanted = end + 2; /* behind "]\n" */
		next = strstr(wanted, "\n[");
		if (next)
			*next++ = '\0'; /* the empty line's end: the text keeps its own */
		set_all(settings);
		ck_assert_msg(!plan_make(topology, &config, NULL, &plan, &err), "[%s]: %s", settings, err.text);
		char *text = describe(topology);
		ck_assert_msg(!strcmp(text, wanted), "%s [%s]:\n%s\nexpected:\n%s", machines[_i], settings, text,
			      wanted);
		free(text);
	}
	ck_assert_uint_gt(n_plans, 0);
	free(expected);
	topology_free(topology);
}
END_TEST

/* Whatever the machine and the settings are. */
static void check_rules(const struct topology *topology)
{
	struct idset taken, read;
	idset_clear(&taken);
	idset_clear(&read);
	for (unsigned i = 0; i < plan.n_workers; i++) {
		const struct plan_worker *w = &plan.workers[i];
		const struct topology_node *node = topology_find(topology, w->node);
		ck_assert_int_ge(idset_first(&w->cpus), 0);
		ck_assert(idset_has(&plan.copy_nodes, w->copy_node));
		ck_assert_uint_gt(topology_find(topology, w->copy_node)->memory_bytes, 0);
		ck_assert_ptr_nonnull(plan_copy(&plan, w->copy_node));
		ck_assert(idset_has(&plan.memory, w->memory_node));
		idset_add(&read, w->copy_node);
		for (int cpu = idset_first(&w->cpus); cpu >= 0; cpu = idset_next(&w->cpus, cpu)) {
			ck_assert(idset_has(&node->cpus, (unsigned)cpu));
			ck_assert(idset_has(&plan.cpus, (unsigned)cpu));
			ck_assert(plan.oversubscribed || !idset_has(&taken, (unsigned)cpu));
			idset_add(&taken, (unsigned)cpu);
		}
	}
	ck_assert(idset_equal(&read, &plan.copy_nodes)); /* no copy that nobody reads */
	ck_assert_uint_eq(idset_count(&plan.io_cpus), 1);
	struct idset covered;
	idset_clear(&covered);
	for (unsigned i = 0; i < plan.n_copies; i++) {
		const struct plan_copy *copy = &plan.copies[i];
		struct idset rest = copy->nodes;
		ck_assert_uint_eq((unsigned)idset_first(&copy->nodes), copy->node);
		ck_assert(idset_has(&plan.copy_nodes, copy->node));
		idset_and(&rest, &covered);
		ck_assert_int_lt(idset_first(&rest), 0); /* a node is part of one copy */
		idset_or(&covered, &copy->nodes);
	}
	ck_assert_uint_eq(idset_count(&plan.copy_nodes), plan.n_copies);
	idset_without(&covered, &plan.memory);
	ck_assert_int_lt(idset_first(&covered), 0);
}

static const struct {
	const char *machine, *settings, *expected;
} teams[] = {
	{"epyc-like", "", "0:0-1+1:2-3+4:4-5+5:6-7 "},
	{"epyc-like", "workers_per_node=2", "0:0+1:2+4:4+5:6 0:1+1:3+4:5+5:7 "},
	{"epyc-like", "cpunodebind=1,4", "1:2-3+4:4-5 "},
	{"epyc-like", "placement=one", "0:0-1+0:2-3+0:4-5+0:6-7 "},
	/* CPUs of nodes without memory read their neighbours' copies. */
	{"4n-memless", "", "0:0-3+2:4-5+2:6 "},
	/* One node: no other worker than without. */
	{"1n-plain", "", "0:0-2 "},
};

START_TEST(a_worker_over_all_nodes_has_a_part_on_each)
{
	struct topology *topology;
	load(teams[_i].machine, &topology);
	set_all(teams[_i].settings);
	ck_assert_int_eq(plan_make(topology, &config, NULL, &plan, NULL), 0);
	char *text = describe_teams();
	ck_assert_str_eq(text, teams[_i].expected);
	free(text);
	topology_free(topology);
}
END_TEST

/* Whatever the way to divide it, every worker of a plan is a part of one process. */
START_TEST(parts_cover_the_plan_once)
{
	const struct plan_worker *parts[PLAN_WORKERS_MAX];
	struct topology *topology;
	char settings[64];
	load(machines[_i], &topology);
	for (uint32_t workers = 1; workers <= 4; workers++)
		for (int parallel = PARALLEL_NONE; parallel <= PARALLEL_TENSOR; parallel++) {
			unsigned n_processes = 0, times[PLAN_WORKERS_MAX] = {0};
			snprintf(settings, sizeof settings, "workers_per_node=%u", workers);
			set_all(settings);
			ck_assert_int_eq(plan_make(topology, &config, NULL, &plan, NULL), 0);
			for (unsigned i = 0; i < plan.n_workers; i++) {
				unsigned n = plan_parts(&plan, i, (enum parallel)parallel, parts);
				n_processes += n > 0;
				while (n-- > 0)
					times[parts[n] - plan.workers]++;
			}
			ck_assert_uint_eq(n_processes, parallel == PARALLEL_NONE ? plan.n_workers : workers);
			for (unsigned i = 0; i < plan.n_workers; i++)
				ck_assert_uint_eq(times[i], 1);
		}
	topology_free(topology);
}
END_TEST

START_TEST(any_plan_keeps_the_rules)
{
	static const char *const policies[] = {"",
					       " placement=one",
					       " placement=socket",
					       " placement=interleave",
					       " interleave=all",
					       " cpunodebind=+0",
					       " membind=+0",
					       " physcpubind=!+0",
					       " preferred=+0"};
	struct topology *topology;
	char settings[128];
	load(machines[_i], &topology);
	for (size_t p = 0; p < sizeof policies / sizeof *policies; p++)
		for (uint32_t workers = 1; workers <= 5; workers++)
			for (uint32_t threads = 0; threads <= 4; threads++) {
				snprintf(settings, sizeof settings, "workers_per_node=%u threads=%u%s", workers,
					 threads, policies[p]);
				set_all(settings);
				ck_assert_int_eq(plan_make(topology, &config, NULL, &plan, NULL), 0);
				check_rules(topology);
			}
	topology_free(topology);
}
END_TEST

static const struct {
	const char *machine, *settings, *words;
} refusals[] = {
	{"cpuset-restricted", "io_cpus=4000", "io_cpus: this process may only use CPUs 1-2,5"},
	{"cpuset-restricted", "membind=0", "membind: '0': 0 is not there or not allowed; possible: 1"},
	{"cpuset-restricted", "physcpubind=0-2", "physcpubind: '0-2': 0 is not there or not allowed; possible: 1-2,5"},
	{"epyc-like", "cpunodebind=2", "cpunodebind: '2': 2 is not there or not allowed; possible: 0-1,4-5"},
	{"epyc-like", "cpunodebind=!0-1,4-5", "cpunodebind: '!0-1,4-5': that leaves none of 0-1,4-5"},
	{"epyc-like", "membind=+4", "membind: '+4': there are 4 to choose from, +0 is the first"},
	{"epyc-like", "cpunodebind=0 physcpubind=6",
	 "physcpubind: none of 6 is on the nodes that cpunodebind = 0 leaves"},
	{"epyc-like", "preferred=0-1", "preferred: 0-1 are 2 nodes; it takes one"},
	{"epyc-like", "placement=0,4 cpunodebind=0-1", "placement: no worker would read a copy on node 4"},
	{"epyc-like", "interleave=0-2", "interleave: '0-2': 2 is not there or not allowed; possible: 0-1,4-5"},
	{"grace-like", "placement=0-1", "placement: no worker would read a copy on node 1"},
	{"4n-memless", "placement=1", "placement: '1': 1 is not there or not allowed; possible: 0,2-3"},
	{"4n-memless", "cpunodebind=3", "cpunodebind: '3': 3 is not there or not allowed; possible: 0-2"},
};

START_TEST(what_cannot_be_had_is_refused_by_its_key)
{
	struct topology *topology;
	struct err err = {""};
	load(refusals[_i].machine, &topology);
	set_all(refusals[_i].settings);
	ck_assert_int_eq(plan_make(topology, &config, NULL, &plan, &err), -EINVAL);
	ck_assert_msg(!strncmp(err.text, refusals[_i].words, strlen(refusals[_i].words)), "%s", err.text);
	topology_free(topology);
}
END_TEST

/* Nodes with room, and where the copy that prefers node 0 of two packages with two nodes each goes. */
static const struct {
	const char *roomy, *settings;
	int node;
} falls[] = {
	{"0-1,4-5", "preferred=0", 0},		{"1,4-5", "preferred=0", 1}, {"4-5", "preferred=0", 4},
	{"1,4-5", "preferred=0 strict=yes", 0}, {"", "preferred=0", 0},
};

START_TEST(a_preferred_node_without_room_is_given_up_for_the_nearest_that_has_some)
{
	struct topology *topology;
	struct idset roomy;
	load("epyc-like", &topology);
	set_all(falls[_i].settings);
	ck_assert_int_eq(idset_parse(falls[_i].roomy, &roomy, NULL), 0);
	ck_assert_int_eq(plan_make(topology, &config, &roomy, &plan, NULL), 0);
	ck_assert_uint_eq(idset_count(&plan.copy_nodes), 1);
	ck_assert_int_eq(idset_first(&plan.copy_nodes), falls[_i].node);
	ck_assert(plan.fell_back == (falls[_i].node != 0));
	topology_free(topology);
}
END_TEST

/* plan MACHINE KEY=VALUE ...: prints a section for its .plan file. */
static int print_section(int argc, char **argv)
{
	struct topology *topology;
	struct err err = {""};
	char settings[512] = "";
	for (int i = 2; i < argc; i++)
		snprintf(settings + strlen(settings), sizeof settings - strlen(settings), "%s%s", i > 2 ? " " : "",
			 argv[i]);
	load(argv[1], &topology);
	set_all(settings);
	if (plan_make(topology, &config, NULL, &plan, &err)) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	printf("[%s]\n", settings);
	plan_print(&plan, topology, stdout);
	topology_free(topology);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return print_section(argc, argv);
	Suite *suite = suite_create("plan");
	TCase *tc = tcase_create("plan");
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, a_plan_is_as_written, 0, N_MACHINES);
	tcase_add_loop_test(tc, any_plan_keeps_the_rules, 0, N_MACHINES);
	tcase_add_loop_test(tc, what_cannot_be_had_is_refused_by_its_key, 0, (int)(sizeof refusals / sizeof *refusals));
	tcase_add_loop_test(tc, a_preferred_node_without_room_is_given_up_for_the_nearest_that_has_some, 0,
			    (int)(sizeof falls / sizeof *falls));
	tcase_add_loop_test(tc, a_worker_over_all_nodes_has_a_part_on_each, 0, (int)(sizeof teams / sizeof *teams));
	tcase_add_loop_test(tc, parts_cover_the_plan_once, 0, N_MACHINES);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
