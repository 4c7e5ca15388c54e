/* weightctl numastat: the memory of the daemon's processes and copies on each node, laid out as numastat -p and -m do.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "shm/segment.h"
#include "src/ctl/control_object.h"
#include "src/ctl/machine.h"
#include "src/ctl/numastat.h"

enum { PROCESSES_MAX = 260, NAME_BYTES = 160 };

struct process {
	pid_t pid;
	char role[NAME_BYTES];
	struct numastat_process use;
};

struct survey {
	struct numastat_nodes nodes;
	struct process *processes; /* [n_processes] owned, room for PROCESSES_MAX */
	unsigned n_processes;
	struct numastat_copy copies[NUMASTAT_COPIES_MAX];
	char names[NUMASTAT_COPIES_MAX][SEGMENT_NAME_BYTES]; /* of the copies */
	unsigned n_copies;
};

/* The rows of numastat -m that weights and calls show in. */
static const char *const machine_keys[] = {"MemTotal",	    "MemFree",	  "MemUsed",	     "FilePages",
					   "AnonPages",	    "Shmem",	  "Mlocked",	     "ShmemHugePages",
					   "AnonHugePages", "PageTables", "HugePages_Total", "HugePages_Free"};
enum { N_MACHINE_KEYS = sizeof machine_keys / sizeof *machine_keys };

static bool machine_row(const struct weightctl *ctl, const struct numastat_nodes *nodes, const char *key,
			uint64_t bytes[NUMASTAT_NODES_MAX])
{
	uint64_t unit = 1;
	bool any = false;
	if (!strncmp(key, "HugePages_", strlen("HugePages_"))) /* a number of pages of the default size */
		machine_node_memory(ctl->sysroot, -1, "Hugepagesize", &unit);
	for (unsigned i = 0; i < nodes->n; i++) {
		bytes[i] = 0;
		any |= machine_node_memory(ctl->sysroot, (int)nodes->number[i], key, &bytes[i]);
		bytes[i] *= unit;
	}
	return any;
}

/* --- gathering -------------------------------------------------------------------------------- */

/* A memfd has no name to be opened by, and none in status; but it was given that of its segment, and numa_maps has it.
 */
static int add_copy(struct survey *survey, const char *instance, const char *model, yyjson_val *copy)
{
	const char *name = yyjson_get_str(yyjson_obj_get(copy, "segment"));
	char *room = survey->names[survey->n_copies];
	if (name && name[0])
		snprintf(room, SEGMENT_NAME_BYTES, "%s", name);
	else if (!instance || !model ||
		 segment_name(instance, model, (uint32_t)yyjson_get_uint(yyjson_obj_get(copy, "generation")),
			      (unsigned)yyjson_get_uint(yyjson_obj_get(copy, "node")), room, NULL))
		return -EINVAL;
	survey->copies[survey->n_copies++] = (struct numastat_copy){.name = room};
	return 0;
}

static int add_copies(struct survey *survey, yyjson_val *root, const char *list, struct err *err)
{
	const char *instance = yyjson_get_str(yyjson_obj_get(root, "instance"));
	yyjson_val *owner, *copy;
	size_t i, n, j, m;
	yyjson_arr_foreach(yyjson_obj_get(root, list), i, n, owner)
	{
		const char *name = yyjson_get_str(yyjson_obj_get(owner, "name"));
		yyjson_arr_foreach(yyjson_obj_get(owner, "copies"), j, m, copy)
		{
			if (survey->n_copies < NUMASTAT_COPIES_MAX && add_copy(survey, instance, name, copy))
				return err_set(err, -EPROTO, "the daemon names a copy by nothing");
		}
	}
	return 0;
}

/* A process that is gone, or not there at the moment, has no row. */
static int add_process(const struct weightctl *ctl, struct survey *survey, yyjson_val *object, const char *role,
		       struct err *err)
{
	pid_t pid = (pid_t)yyjson_get_int(yyjson_obj_get(object, "pid"));
	if (pid <= 0 || survey->n_processes == PROCESSES_MAX)
		return 0;
	struct process *process = &survey->processes[survey->n_processes];
	memset(process, 0, sizeof *process);
	process->pid = pid;
	snprintf(process->role, sizeof process->role, "%s", role);
	int rc = numastat_process(ctl->sysroot, pid, &survey->nodes, survey->copies, survey->n_copies, &process->use,
				  err);
	if (!rc)
		survey->n_processes++;
	return rc == -ESRCH ? 0 : rc;
}

static int gather(const struct weightctl *ctl, yyjson_val *root, struct survey *survey, struct err *err)
{
	yyjson_val *worker;
	size_t i, n;
	int rc = numastat_nodes(ctl->sysroot, &survey->nodes, err);
	if (!rc)
		rc = add_copies(survey, root, "models", err);
	if (!rc)
		rc = add_copies(survey, root, "adapters", err);
	if (!rc)
		rc = add_process(ctl, survey, yyjson_obj_get(root, "parent"), "parent", err);
	if (!rc)
		rc = add_process(ctl, survey, yyjson_obj_get(root, "front"), "front", err);
	yyjson_arr_foreach(yyjson_obj_get(root, "workers"), i, n, worker)
	{
		char role[NAME_BYTES];
		const char *model = yyjson_get_str(yyjson_obj_get(worker, "model"));
		snprintf(role, sizeof role, "worker %" PRIu64 ", %s", yyjson_get_uint(yyjson_obj_get(worker, "index")),
			 model ? model : "-");
		if (!rc)
			rc = add_process(ctl, survey, worker, role, err);
	}
	return rc;
}

/* What a process has besides copies. */
static void own_bytes(const struct process *process, unsigned n_nodes, uint64_t bytes[NUMASTAT_NODES_MAX])
{
	for (unsigned i = 0; i < n_nodes; i++) {
		bytes[i] = 0;
		for (int kind = 0; kind < NUMASTAT_COPIES; kind++)
			bytes[i] += process->use.bytes[kind][i];
	}
}

static void add_up(uint64_t sum[NUMASTAT_NODES_MAX], const uint64_t bytes[NUMASTAT_NODES_MAX], unsigned n_nodes)
{
	for (unsigned i = 0; i < n_nodes; i++)
		sum[i] += bytes[i];
}

/* --- for people ------------------------------------------------------------------------------- */

enum { COLUMN = 15 };

static void print_head(const struct numastat_nodes *nodes, const char *title, const char *first, int width)
{
	printf("%s\n%-*s", title, width, first);
	for (unsigned i = 0; i < nodes->n; i++) {
		char text[24];
		snprintf(text, sizeof text, "Node %u", nodes->number[i]);
		printf(" %*s", COLUMN, text);
	}
	printf(" %*s\n", COLUMN, "Total");
}

static void print_rule(const struct numastat_nodes *nodes, int width)
{
	static const char dashes[] = "----------------------------------------------------------------";
	printf("%.*s", width < (int)sizeof dashes ? width : (int)sizeof dashes - 1, dashes);
	for (unsigned i = 0; i <= nodes->n; i++)
		printf(" %.*s", COLUMN, dashes);
	putchar('\n');
}

/* numastat's MBs have 1048576 bytes. */
static void print_row(const struct numastat_nodes *nodes, const char *name, int width,
		      const uint64_t bytes[NUMASTAT_NODES_MAX])
{
	uint64_t sum = 0;
	printf("%-*s", width, name);
	for (unsigned i = 0; i < nodes->n; i++) {
		printf(" %*.2f", COLUMN, (double)bytes[i] / 1048576);
		sum += bytes[i];
	}
	printf(" %*.2f\n", COLUMN, (double)sum / 1048576);
}

static int widest(int width, const char *name)
{
	int n = (int)strlen(name);
	return n > width ? n : width;
}

static void print_machine(const struct weightctl *ctl, const struct survey *survey)
{
	const int width = 24;
	uint64_t bytes[NUMASTAT_NODES_MAX];
	print_head(&survey->nodes, "Per-node system memory usage (in MBs)", "", width);
	print_rule(&survey->nodes, width);
	for (unsigned i = 0; i < N_MACHINE_KEYS; i++)
		if (machine_row(ctl, &survey->nodes, machine_keys[i], bytes))
			print_row(&survey->nodes, machine_keys[i], width, bytes);
}

static void print_processes(const struct survey *survey, uint64_t sum[NUMASTAT_NODES_MAX])
{
	char name[NAME_BYTES + 16];
	int width = 24;
	for (unsigned i = 0; i < survey->n_processes; i++) {
		snprintf(name, sizeof name, "%d (%s)", (int)survey->processes[i].pid, survey->processes[i].role);
		width = widest(width, name);
	}
	print_head(&survey->nodes, "\nPer-node process memory usage without the copies (in MBs)", "PID", width);
	print_rule(&survey->nodes, width);
	for (unsigned i = 0; i < survey->n_processes; i++) {
		uint64_t bytes[NUMASTAT_NODES_MAX];
		own_bytes(&survey->processes[i], survey->nodes.n, bytes);
		add_up(sum, bytes, survey->nodes.n);
		snprintf(name, sizeof name, "%d (%s)", (int)survey->processes[i].pid, survey->processes[i].role);
		print_row(&survey->nodes, name, width, bytes);
	}
}

static void print_copies(const struct survey *survey, uint64_t sum[NUMASTAT_NODES_MAX])
{
	char name[NAME_BYTES + 48];
	int width = 24;
	for (unsigned i = 0; i < survey->n_copies; i++)
		width = widest(width, survey->copies[i].name) < 60 ? widest(width, survey->copies[i].name) : 60;
	print_head(&survey->nodes, "\nPer-node memory of the copies, each counted once (in MBs)", "Segment", width);
	print_rule(&survey->nodes, width);
	for (unsigned i = 0; i < survey->n_copies; i++) {
		const struct numastat_copy *copy = &survey->copies[i];
		add_up(sum, copy->bytes, survey->nodes.n);
		snprintf(name, sizeof name, "%s%s", copy->name, copy->n_mappings ? "" : " (not mapped)");
		print_row(&survey->nodes, name, width, copy->bytes);
	}
	print_rule(&survey->nodes, width);
	print_row(&survey->nodes, "Processes and copies", width, sum);
}

/* --- for programs ----------------------------------------------------------------------------- */

static void add_bytes(yyjson_mut_doc *doc, yyjson_mut_val *object, const char *key, const uint64_t *bytes, unsigned n)
{
	yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, object, key);
	for (unsigned i = 0; i < n; i++)
		yyjson_mut_arr_add_uint(doc, list, bytes[i]);
}

static int print_json(const struct weightctl *ctl, const struct survey *survey)
{
	static const char *const kinds[] = {"huge", "heap", "stack", "private", "copies"}; /* by enum numastat_kind */
	yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(doc);
	unsigned n_nodes = survey->nodes.n;
	yyjson_mut_doc_set_root(doc, root);
	yyjson_mut_val *nodes = yyjson_mut_obj_add_arr(doc, root, "nodes");
	for (unsigned i = 0; i < n_nodes; i++)
		yyjson_mut_arr_add_uint(doc, nodes, survey->nodes.number[i]);
	yyjson_mut_val *machine = yyjson_mut_obj_add_obj(doc, root, "system");
	for (unsigned i = 0; i < N_MACHINE_KEYS; i++) {
		uint64_t bytes[NUMASTAT_NODES_MAX];
		if (machine_row(ctl, &survey->nodes, machine_keys[i], bytes))
			add_bytes(doc, machine, machine_keys[i], bytes, n_nodes);
	}
	yyjson_mut_val *processes = yyjson_mut_obj_add_arr(doc, root, "processes");
	for (unsigned i = 0; i < survey->n_processes; i++) {
		const struct process *process = &survey->processes[i];
		yyjson_mut_val *object = yyjson_mut_arr_add_obj(doc, processes);
		yyjson_mut_obj_add_int(doc, object, "pid", process->pid);
		yyjson_mut_obj_add_str(doc, object, "role", process->role);
		for (int kind = 0; kind < N_NUMASTAT_KINDS; kind++)
			add_bytes(doc, object, kinds[kind], process->use.bytes[kind], n_nodes);
	}
	yyjson_mut_val *copies = yyjson_mut_obj_add_arr(doc, root, "copies");
	for (unsigned i = 0; i < survey->n_copies; i++) {
		yyjson_mut_val *object = yyjson_mut_arr_add_obj(doc, copies);
		yyjson_mut_obj_add_str(doc, object, "segment", survey->copies[i].name);
		yyjson_mut_obj_add_uint(doc, object, "mappings", survey->copies[i].n_mappings);
		add_bytes(doc, object, "bytes", survey->copies[i].bytes, n_nodes);
	}
	return weightctl_print_json(ctl, doc);
}

int weightctl_numastat(struct weightctl *ctl)
{
	static struct survey survey; /* large */
	struct err err = {""};
	yyjson_doc *doc;
	enum weightctl_exit code = control_object(ctl, "overview", &doc, &err);
	if (code != EXIT_OK)
		return control_object_fail(ctl, code, "numastat", &err);
	int rc = EXIT_FAILED;
	survey.processes = calloc(PROCESSES_MAX, sizeof *survey.processes);
	if (!survey.processes) {
		weightctl_fail(ctl, rc, "no memory for %d processes", PROCESSES_MAX);
	} else if (gather(ctl, yyjson_doc_get_root(doc), &survey, &err)) {
		weightctl_fail(ctl, rc, "%s", err.text);
	} else if (ctl->json) {
		rc = print_json(ctl, &survey);
	} else {
		uint64_t sum[NUMASTAT_NODES_MAX] = {0};
		print_machine(ctl, &survey);
		print_processes(&survey, sum);
		print_copies(&survey, sum);
		rc = EXIT_OK;
	}
	free(survey.processes);
	yyjson_doc_free(doc);
	return rc;
}
