/* weightctl plan: what a model takes of each node, and how many workers fit. The figures are weightd's own
 * (src/footprint.h); here they are added up and laid out.
 *
 * Memory has two levels. What stays: a copy for each node, and of each worker its libraries, tables and page tables.
 * What comes and goes: scratch while a worker computes, and keys and values of each request as long as it lasts. A node
 * has to hold both at once, at the worst moment. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "src/ctl/daemon_program.h"
#include "src/ctl/machine.h"
#include "src/ctl/table.h"
#include "src/ctl/weightctl.h"

/* All in bytes. */
struct plan_worker {
	uint64_t libraries, page_tables;	    /* stay */
	uint64_t scratch, further_scratch, request; /* come and go: once, for each further request, for each request */
	uint64_t request_tables;
	uint64_t kv_most; /* of all requests together */
	uint32_t requests, context;
	uint32_t nodes; /* that it spans: what comes and goes is on all of them alike */
};

struct plan_node {
	unsigned node, workers, cores;
	unsigned homes; /* of these workers, those whose libraries and page tables are here */
	bool knows_free;
	uint64_t free, copy, stays, peak;
	uint64_t kv_most; /* of one worker's requests, here */
	uint64_t fit;	  /* workers, by memory */
};

struct plan {
	yyjson_val *root;
	struct plan_worker worker;
	struct plan_node nodes[64];
	unsigned n_nodes;
	bool fits;
};

static uint64_t number(yyjson_val *object, const char *key)
{
	return yyjson_get_uint(yyjson_obj_get(object, key));
}

/* --- arithmetic ------------------------------------------------------------------------------- */

static uint64_t worker_stays(const struct plan_worker *w)
{
	return w->libraries + w->page_tables;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t requests_bytes(const struct plan_worker *w)
{
	return least(w->requests * w->request, w->kv_most);
}

/* What comes and goes beside keys and values. */
static uint64_t worker_scratch(const struct plan_worker *w)
{
	return w->scratch + (w->requests - 1) * w->further_scratch + w->requests * w->request_tables;
}

static uint64_t worker_peak(const struct plan_worker *w)
{
	return worker_stays(w) + worker_scratch(w) + requests_bytes(w);
}

/* A worker's part of what comes and goes, on one of its nodes. */
static uint64_t part_bytes(const struct plan_worker *w, const struct plan_node *n)
{
	return worker_scratch(w) / w->nodes + least(w->requests * w->request / w->nodes, n->kv_most);
}

static void read_worker(struct plan *plan)
{
	yyjson_val *object = yyjson_obj_get(plan->root, "worker");
	struct plan_worker *w = &plan->worker;
	uint64_t page_tokens = number(object, "kv_page_tokens");
	w->libraries = number(object, "base_bytes");
	w->page_tables = number(object, "page_table_bytes");
	w->scratch = number(object, "scratch_bytes");
	w->further_scratch = number(object, "further_scratch_bytes");
	w->kv_most = number(object, "kv_bytes");
	w->nodes = (uint32_t)number(object, "nodes");
	w->nodes += !w->nodes;
	w->requests = (uint32_t)number(object, "max_running");
	w->context = (uint32_t)number(plan->root, "context_tokens");
	if (page_tokens)
		w->request = (w->context + page_tokens - 1) / page_tokens * number(object, "kv_page_bytes");
	w->request_tables = w->request / 512; /* 8 bytes for 4 KiB */
}

static void read_node(struct plan *plan, yyjson_val *object)
{
	struct plan_node *n = &plan->nodes[plan->n_nodes++];
	const struct plan_worker *w = &plan->worker;
	yyjson_val *free_bytes = yyjson_obj_get(object, "free_bytes");
	*n = (struct plan_node){
		.node = (unsigned)number(object, "node"),
		.workers = (unsigned)number(object, "workers"),
		.cores = (unsigned)number(object, "cores"),
		.homes = (unsigned)number(object, "workers_at_home"),
		.kv_most = number(object, "kv_bytes"),
		.copy = number(object, "copy_bytes"), /* that of the copy which lies here */
		.knows_free = free_bytes != NULL,
		.free = yyjson_get_uint(free_bytes),
	};
	n->stays = n->copy + n->homes * worker_stays(w);
	n->peak = n->stays + n->workers * part_bytes(w, n);
	n->fit = n->free > n->copy ? (n->free - n->copy) / (worker_stays(w) + part_bytes(w, n)) : 0;
	plan->fits &= !n->knows_free || n->peak <= n->free;
}

static void read_plan(struct plan *plan, yyjson_val *root)
{
	yyjson_val *node;
	size_t i, n;
	*plan = (struct plan){.root = root, .fits = true};
	read_worker(plan);
	yyjson_arr_foreach(yyjson_obj_get(root, "nodes"), i, n, node)
	{
		if (plan->n_nodes < sizeof plan->nodes / sizeof *plan->nodes)
			read_node(plan, node);
	}
}

/* --- for people ------------------------------------------------------------------------------- */

static void bytes_cell(struct table *table, uint64_t bytes)
{
	char text[TABLE_UNIT_TEXT];
	table_cell(table, "%s", bytes ? table_bytes(bytes, text) : "-");
}

static void print_table(struct table *table)
{
	putchar('\n');
	table_print(table, stdout);
	table_free(table);
}

static void print_worker(const struct plan_worker *w)
{
	struct table *table = table_new("MEMORY OF|>LIBRARIES|>PAGE TABLES|>SCRATCH|>KEYS, VALUES|>STAYS|>PEAK");
	if (!table)
		return;
	table_cell(table, "a worker with one request");
	bytes_cell(table, w->libraries);
	bytes_cell(table, w->page_tables + w->request_tables);
	bytes_cell(table, w->scratch);
	bytes_cell(table, w->request);
	bytes_cell(table, worker_stays(w));
	bytes_cell(table, worker_stays(w) + w->request_tables + w->scratch + w->request);
	table_cell(table, "each further request");
	bytes_cell(table, 0);
	bytes_cell(table, w->request_tables);
	bytes_cell(table, w->further_scratch);
	bytes_cell(table, w->request);
	bytes_cell(table, 0);
	bytes_cell(table, w->request_tables + w->further_scratch + w->request);
	table_cell(table, "a worker with %u", w->requests);
	bytes_cell(table, w->libraries);
	bytes_cell(table, w->page_tables + w->requests * w->request_tables);
	bytes_cell(table, w->scratch + (w->requests - 1) * w->further_scratch);
	bytes_cell(table, requests_bytes(w));
	bytes_cell(table, worker_stays(w));
	bytes_cell(table, worker_peak(w));
	print_table(table);
}

static void print_nodes(const struct plan *plan)
{
	struct table *table = table_new(">NODE|>FREE|>COPY|>WORKERS|>STAYS|>PEAK|>WORKERS THAT FIT|>CORES");
	if (!table)
		return;
	for (unsigned i = 0; i < plan->n_nodes; i++) {
		const struct plan_node *n = &plan->nodes[i];
		table_cell(table, "%u", n->node);
		bytes_cell(table, n->free);
		bytes_cell(table, n->copy);
		table_cell(table, "%u", n->workers);
		bytes_cell(table, n->stays);
		bytes_cell(table, n->peak);
		table_cell(table, "%" PRIu64, n->fit);
		table_cell(table, "%u", n->cores);
	}
	print_table(table);
	for (unsigned i = 0; i < plan->n_nodes; i++) {
		const struct plan_node *n = &plan->nodes[i];
		char peak[TABLE_UNIT_TEXT], available[TABLE_UNIT_TEXT];
		if (n->knows_free && n->peak > n->free)
			printf("\nnode %u: %s are wanted at the worst moment, %s are free: lower max_running, "
			       "context_tokens or kv_bytes, take kv_type = int8, or fewer workers\n",
			       n->node, table_bytes(n->peak, peak), table_bytes(n->free, available));
	}
}

static void print_for_people(const struct plan *plan)
{
	const struct plan_worker *w = &plan->worker;
	yyjson_val *root = plan->root;
	printf("%s (%s): %u threads a worker, requests of %u tokens, %s on %s\n",
	       yyjson_get_str(yyjson_obj_get(root, "path")), yyjson_get_str(yyjson_obj_get(root, "architecture")),
	       (unsigned)number(yyjson_obj_get(root, "worker"), "threads"), w->context,
	       yyjson_get_str(yyjson_obj_get(root, "numerics")), yyjson_get_str(yyjson_obj_get(root, "cpu_level")));
	print_worker(w);
	print_nodes(plan);
}

/* --- huge pages ------------------------------------------------------------------------------- */

/* How many pages node `n` has to have in its pool for a copy more, and the file that says so. Of the size that the
 * settings' backing takes, else of the machine's usual one. */
static uint64_t pool_target(const char *root, const struct plan *plan, const struct plan_node *n, char path[128])
{
	uint64_t page_bytes = number(plan->root, "pool_page_bytes"), reserved = 0, unused = 0;
	if (!page_bytes && !machine_node_memory(root, -1, "Hugepagesize", &page_bytes))
		return 0;
	machine_node_pool(root, n->node, page_bytes / 1024, "nr_hugepages", &reserved);
	machine_node_pool(root, n->node, page_bytes / 1024, "free_hugepages", &unused);
	snprintf(path, 128, "/sys/devices/system/node/node%u/hugepages/hugepages-%" PRIu64 "kB/nr_hugepages", n->node,
		 page_bytes / 1024);
	return (n->copy + page_bytes - 1) / page_bytes + reserved - unused;
}

static void print_reservations(const struct weightctl *ctl, const struct plan *plan)
{
	puts("\nHuge pages for the copies, beside those that are in use already:");
	for (unsigned i = 0; i < plan->n_nodes; i++) {
		char path[128];
		uint64_t pages = plan->nodes[i].copy ? pool_target(ctl->sysroot, plan, &plan->nodes[i], path) : 0;
		if (pages)
			printf("echo %" PRIu64 " > %s\n", pages, path);
	}
}

/* --- for programs ----------------------------------------------------------------------------- */

static void add_sums(const struct weightctl *ctl, const struct plan *plan, yyjson_mut_doc *doc)
{
	yyjson_mut_val *root = yyjson_mut_doc_get_root(doc), *worker = yyjson_mut_obj_get(root, "worker"), *node;
	const struct plan_worker *w = &plan->worker;
	size_t i, n;
	yyjson_mut_obj_add_bool(doc, root, "fits", plan->fits);
	yyjson_mut_obj_add_uint(doc, worker, "request_bytes", w->request + w->request_tables);
	yyjson_mut_obj_add_uint(doc, worker, "stays_bytes", worker_stays(w));
	yyjson_mut_obj_add_uint(doc, worker, "peak_bytes", worker_peak(w));
	yyjson_mut_arr_foreach(yyjson_mut_obj_get(root, "nodes"), i, n, node)
	{
		char path[128];
		if (i >= plan->n_nodes)
			break;
		const struct plan_node *p = &plan->nodes[i];
		yyjson_mut_obj_add_uint(doc, node, "stays_bytes", p->stays);
		yyjson_mut_obj_add_uint(doc, node, "peak_bytes", p->peak);
		yyjson_mut_obj_add_uint(doc, node, "workers_that_fit", p->fit);
		uint64_t pages = ctl->plan.huge_pages && p->copy ? pool_target(ctl->sysroot, plan, p, path) : 0;
		if (pages) {
			yyjson_mut_obj_add_uint(doc, node, "huge_pages", pages);
			yyjson_mut_obj_add_strcpy(doc, node, "huge_pages_file", path);
		}
	}
}

/* --- asking ----------------------------------------------------------------------------------- */

static yyjson_doc *ask(const struct weightctl *ctl, struct err *err)
{
	enum { ANSWER_MAX = 1 << 20 };
	const char *arguments[48];
	char context[48], requests[48], *text;
	unsigned n = 0;
	snprintf(context, sizeof context, "context_tokens=%u", ctl->plan.context);
	snprintf(requests, sizeof requests, "max_running=%u", ctl->plan.requests);
	const struct {
		const char *option, *value;
	} given[] = {{"--footprint", ctl->arguments[0]},
		     {"--config", ctl->config_file},
		     {"--sysroot", ctl->sysroot},
		     {"--set", ctl->plan.context ? context : NULL},
		     {"--set", ctl->plan.requests ? requests : NULL}};
	for (size_t i = 0; i < sizeof given / sizeof *given; i++)
		if (given[i].value) {
			arguments[n++] = given[i].option;
			arguments[n++] = given[i].value;
		}
	for (uint32_t i = 0; i < ctl->bench.n_settings; i++) {
		arguments[n++] = "--set";
		arguments[n++] = ctl->bench.settings[i];
	}
	arguments[n] = NULL;
	if (daemon_program_ask(arguments, ctl->interrupt_fd, ANSWER_MAX, &text, err))
		return NULL;
	yyjson_doc *doc = yyjson_read(text, strlen(text), 0);
	free(text);
	if (!yyjson_is_obj(yyjson_doc_get_root(doc)))
		err_set(err, 0, "weightd --footprint did not print a JSON object");
	return doc;
}

int weightctl_plan(struct weightctl *ctl)
{
	struct plan plan;
	struct err err = {""};
	yyjson_doc *doc = ask(ctl, &err);
	if (err.text[0]) {
		yyjson_doc_free(doc);
		return weightctl_fail(ctl, EXIT_FAILED, "plan: %s", err.text);
	}
	read_plan(&plan, yyjson_doc_get_root(doc));
	int rc = EXIT_OK;
	if (ctl->json) {
		yyjson_mut_doc *sums = yyjson_doc_mut_copy(doc, NULL);
		if (sums)
			add_sums(ctl, &plan, sums);
		rc = weightctl_print_json(ctl, sums);
	} else {
		print_for_people(&plan);
		if (ctl->plan.huge_pages)
			print_reservations(ctl, &plan);
	}
	yyjson_doc_free(doc);
	return rc == EXIT_OK && !plan.fits ? EXIT_FAILED : rc;
}
