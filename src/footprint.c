#include "src/footprint.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yyjson.h>

#include "io/loop.h"
#include "numa/topology.h"
#include "shm/layout.h"
#include "shm/segment.h"
#include "src/kernel/kernel.h"
#include "src/load/load.h"
#include "src/parent/memory.h"
#include "src/parent/model_files.h"
#include "src/parent/plan.h"
#include "src/privilege.h"
#include "src/worker/worker_needs.h"

struct footprint {
	const struct config *config;
	struct config_model model;
	struct topology *topology;
	struct plan plan;
	enum cpu_level cpu_level;
	enum numerics numerics;
	unsigned n_threads; /* of a worker: the most any has */
	unsigned n_parts;   /* nodes that a worker spans, with a copy and memory on each: the most any does */
	uint64_t kv_bytes;  /* of a worker: the most any may have */
	struct model_outline outline;
	struct worker_needs needs;
	/* Private memory of an idle worker; its page tables but for those of the copy. */
	uint64_t base_bytes, table_bytes;
};

/* --- the model -------------------------------------------------------------------------------- */

static void find_model(struct footprint *f, const char *name)
{
	const struct config *c = f->config;
	for (uint32_t i = 0; i < c->n_models; i++)
		if (!strcmp(c->models[i].name, name)) {
			f->model = c->models[i];
			return;
		}
	snprintf(f->model.name, sizeof f->model.name, "model");
	snprintf(f->model.path, sizeof f->model.path, "%s", name);
}

static int open_files(const struct model_files *files, struct load_input *inputs, struct err *err)
{
	for (uint32_t i = 0; i < files->n; i++) {
		inputs[i] = (struct load_input){.fd = -1, .role = files->files[i].role};
		snprintf(inputs[i].name, sizeof inputs[i].name, "%s", files->files[i].name);
		int rc = model_file_open(&files->files[i], &inputs[i].fd, err);
		if (rc)
			return rc;
	}
	return 0;
}

/* As the loader does, files are opened first, privileges given up, and then the first byte is looked at. */
static int drop_privileges(const struct config *c, struct err *err)
{
	uint64_t uid = UINT64_MAX, gid = UINT64_MAX;
	int rc = geteuid() == 0 && c->user[0] ? privilege_find_user(c->user, &uid, &gid, err) : 0;
	return rc ? rc : privilege_drop(uid, gid, err);
}

static int outline(struct footprint *f, struct err *err)
{
	static struct load_input inputs[SEGMENT_FILES_MAX]; /* large; once per process */
	struct model_files files;
	struct message_load order = {.io = f->config->io, .quantize = f->model.quantize, .n_nodes = 1};
	int rc = model_files_find(&f->model, &files, err);
	if (rc)
		return rc;
	order.n_files = files.n;
	snprintf(order.path, sizeof order.path, "%s", f->model.path);
	rc = open_files(&files, inputs, err);
	if (!rc)
		rc = drop_privileges(f->config, err);
	if (!rc)
		rc = model_outline(&order, inputs, &f->outline, err);
	for (uint32_t i = 0; i < files.n; i++)
		if (inputs[i].fd > 0)
			close(inputs[i].fd);
	model_files_free(&files);
	malloc_trim(0);
	return rc;
}

/* --- workers ---------------------------------------------------------------------------------- */

/* A process, as the parent starts it for each worker of the plan that begins one. */
struct process {
	struct idset copy_nodes, memory_nodes;
	unsigned home; /* whose memory has all that is not a thread's */
	unsigned n_threads;
};

/* False: this worker of the plan is a part of another one's process. */
static bool process_of(const struct plan *plan, unsigned worker, enum parallel parallel, struct process *out)
{
	const struct plan_worker *parts[PLAN_WORKERS_MAX];
	unsigned n = plan_parts(plan, worker, parallel, parts);
	idset_clear(&out->copy_nodes);
	idset_clear(&out->memory_nodes);
	out->n_threads = 0;
	for (unsigned i = 0; i < n; i++) {
		idset_add(&out->copy_nodes, parts[i]->copy_node);
		idset_add(&out->memory_nodes, parts[i]->memory_node);
		out->n_threads += idset_count(&parts[i]->cpus);
	}
	out->home = n ? parts[0]->memory_node : 0;
	return n != 0;
}

struct processes {
	unsigned n, n_homes;
};

/* Those of a model that have memory on a node, and those that are at home there. */
static struct processes processes_on(const struct plan *plan, enum parallel parallel, unsigned node)
{
	struct processes found = {0};
	struct process process;
	for (unsigned i = 0; i < plan->n_workers; i++) {
		if (!process_of(plan, i, parallel, &process))
			continue;
		found.n += idset_has(&process.memory_nodes, node);
		found.n_homes += process.home == node;
	}
	return found;
}

/* What keys and values of a worker may take of a node: its part of what the settings say, or of the node's memory,
 * which the workers of the other models of the settings share. */
static uint64_t kv_bytes_on(const struct footprint *f, const struct topology_node *node)
{
	const struct config *c = f->config;
	unsigned n_sharers = processes_on(&f->plan, f->model.parallel, node->os_index).n;
	if (c->kv_bytes)
		return c->kv_bytes / f->n_parts;
	for (uint32_t i = 0; i < c->n_models; i++)
		if (strcmp(c->models[i].name, f->model.name) != 0)
			n_sharers += processes_on(&f->plan, c->models[i].parallel, node->os_index).n;
	return plan_kv_bytes(node->memory_bytes, n_sharers);
}

/* What the largest worker has. */
static void measure_plan(struct footprint *f)
{
	struct process process;
	f->n_parts = 1;
	for (unsigned i = 0; i < f->plan.n_workers; i++) {
		if (!process_of(&f->plan, i, f->model.parallel, &process))
			continue;
		unsigned n = idset_count(&process.memory_nodes);
		f->n_threads = process.n_threads > f->n_threads ? process.n_threads : f->n_threads;
		f->n_parts = n > f->n_parts ? n : f->n_parts;
	}
	for (unsigned i = 0; i < f->plan.n_workers; i++) {
		uint64_t bytes = 0;
		if (!process_of(&f->plan, i, f->model.parallel, &process))
			continue;
		for (unsigned n = 0; n < topology_n_nodes(f->topology); n++)
			if (idset_has(&process.memory_nodes, topology_node(f->topology, n)->os_index))
				bytes += kv_bytes_on(f, topology_node(f->topology, n));
		f->kv_bytes = bytes > f->kv_bytes ? bytes : f->kv_bytes;
	}
}

static int choose_kernels(struct footprint *f, struct err *err)
{
	const struct config *c = f->config;
	f->cpu_level = c->cpu_level == UINT32_MAX ? kernels_detect() : (enum cpu_level)c->cpu_level;
	f->numerics = c->numerics == UINT32_MAX ? kernels_numerics(f->cpu_level) : (enum numerics)c->numerics;
	if (kernels_get(f->cpu_level, f->numerics))
		return 0;
	return err_set(err, -ENOTSUP, "cpu_level = %s and these numerics: this CPU does not offer them",
		       cpu_level_name(f->cpu_level));
}

/* `idle` is what a process of this program has before it does anything. */
static int measure_worker(struct footprint *f, const struct memory_use *idle, struct err *err)
{
	const struct config *c = f->config;
	const struct message_work order = {
		.cpu_level = f->cpu_level,
		.numerics = f->numerics,
		.kv_type = c->kv_type,
		.context_tokens = c->context_tokens,
		.prefill_chunk = c->prefill_chunk,
		.max_running = c->max_running,
		.tool_parser = f->model.tool_parser,
		.reasoning = f->model.reasoning,
	};
	struct memory_use before = {0}, after = {0};
	memory_sample(getpid(), &before);
	int rc = worker_needs_make(&order, f->n_threads, f->outline.image, f->outline.bytes, &f->needs, err);
	if (rc)
		return rc;
	memory_sample(getpid(), &after);
	f->table_bytes = idle->table_bytes + after.table_bytes - before.table_bytes;
	f->base_bytes = idle->private_bytes + after.private_bytes - before.private_bytes - f->table_bytes;
	return 0;
}

/* --- JSON ------------------------------------------------------------------------------------- */

/* Page tables of a mapping: 8 bytes for each page in it, and whole pages of them. */
static uint64_t page_table_bytes(uint64_t bytes, const struct config *c)
{
	const uint64_t table_page_bytes = 4096, entries = table_page_bytes / 8;
	bool huge = c->huge_pages != SEGMENT_HUGE_OFF || segment_is_pooled((enum segment_backing)c->backing);
	uint64_t page_bytes = huge ? PLACEMENT_HUGE_BYTES : table_page_bytes;
	return (bytes / page_bytes + entries - 1) / entries * table_page_bytes;
}

/* What of a copy lies on a node: all of it, its part of one that is interleaved, or nothing. */
static uint64_t share_bytes(const struct plan *plan, unsigned node, uint64_t copy_bytes)
{
	for (unsigned i = 0; i < plan->n_copies; i++) {
		unsigned n = idset_count(&plan->copies[i].nodes);
		if (idset_has(&plan->copies[i].nodes, node))
			return (copy_bytes + n - 1) / n;
	}
	return 0;
}

static void add_node(yyjson_mut_doc *d, yyjson_mut_val *nodes, const struct footprint *f, const char *sysroot,
		     const struct topology_node *node, uint64_t copy_bytes)
{
	char cpus[IDSET_TEXT];
	uint64_t free_bytes;
	struct processes workers = processes_on(&f->plan, f->model.parallel, node->os_index);
	yyjson_mut_val *n = yyjson_mut_arr_add_obj(d, nodes);
	yyjson_mut_obj_add_uint(d, n, "node", node->os_index);
	yyjson_mut_obj_add_strcpy(d, n, "cpus", idset_format(&node->cpus, cpus, sizeof cpus));
	yyjson_mut_obj_add_uint(d, n, "cores", idset_count(&node->cores));
	yyjson_mut_obj_add_uint(d, n, "memory_bytes", node->memory_bytes);
	if (!topology_free_bytes_in(sysroot, node->os_index, &free_bytes))
		yyjson_mut_obj_add_uint(d, n, "free_bytes", free_bytes);
	yyjson_mut_obj_add_uint(d, n, "copy_bytes", share_bytes(&f->plan, node->os_index, copy_bytes));
	yyjson_mut_obj_add_uint(d, n, "workers", workers.n);
	yyjson_mut_obj_add_uint(d, n, "workers_at_home", workers.n_homes);
	yyjson_mut_obj_add_uint(d, n, "kv_bytes", kv_bytes_on(f, node));
}

static void add_worker(yyjson_mut_doc *d, yyjson_mut_val *root, const struct footprint *f, uint64_t copy_bytes)
{
	yyjson_mut_val *w = yyjson_mut_obj_add_obj(d, root, "worker");
	yyjson_mut_obj_add_uint(d, w, "threads", f->n_threads);
	yyjson_mut_obj_add_uint(d, w, "base_bytes", f->base_bytes);
	yyjson_mut_obj_add_uint(d, w, "nodes", f->n_parts);
	/* It maps the copy of each of its nodes. */
	yyjson_mut_obj_add_uint(d, w, "page_table_bytes",
				f->table_bytes + f->n_parts * page_table_bytes(copy_bytes, f->config));
	yyjson_mut_obj_add_uint(d, w, "scratch_bytes", f->needs.scratch_bytes);
	yyjson_mut_obj_add_uint(d, w, "further_scratch_bytes", f->needs.further_scratch_bytes);
	yyjson_mut_obj_add_uint(d, w, "max_running", f->config->max_running);
	yyjson_mut_obj_add_uint(d, w, "kv_bytes", f->kv_bytes);
	yyjson_mut_obj_add_uint(d, w, "kv_page_bytes", f->needs.kv_page_bytes);
	yyjson_mut_obj_add_uint(d, w, "kv_page_tokens", f->needs.kv_page_tokens);
}

static int print(const struct footprint *f, const char *sysroot, FILE *out, struct err *err)
{
	yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(d);
	uint64_t copy_bytes, pool_page_bytes = segment_pool_page_bytes((enum segment_backing)f->config->backing);
	int rc = segment_total_bytes(f->outline.bytes, pool_page_bytes, &copy_bytes);
	if (rc) {
		yyjson_mut_doc_free(d);
		return err_set(err, rc, "a copy of %llu bytes cannot be made", (unsigned long long)f->outline.bytes);
	}
	yyjson_mut_doc_set_root(d, root);
	yyjson_mut_obj_add_str(d, root, "path", f->model.path);
	yyjson_mut_obj_add_str(d, root, "architecture", f->outline.architecture);
	yyjson_mut_obj_add_str(d, root, "cpu_level", cpu_level_name(f->cpu_level));
	yyjson_mut_obj_add_str(d, root, "numerics", numerics_name(f->numerics));
	yyjson_mut_obj_add_uint(d, root, "context_tokens", f->needs.context_tokens);
	yyjson_mut_obj_add_uint(d, root, "copy_bytes", copy_bytes);
	yyjson_mut_obj_add_uint(d, root, "pool_page_bytes", pool_page_bytes);
	add_worker(d, root, f, copy_bytes);
	yyjson_mut_val *nodes = yyjson_mut_obj_add_arr(d, root, "nodes");
	for (unsigned i = 0; i < topology_n_nodes(f->topology); i++)
		add_node(d, nodes, f, sysroot, topology_node(f->topology, i), copy_bytes);
	char *text = yyjson_mut_write(d, YYJSON_WRITE_NEWLINE_AT_END | YYJSON_WRITE_ALLOW_INVALID_UNICODE, NULL);
	yyjson_mut_doc_free(d);
	if (!text)
		return err_set(err, -ENOMEM, "no memory for the JSON");
	fputs(text, out);
	free(text);
	return 0;
}

int footprint_print(const struct config *config, const char *model, const char *sysroot, FILE *out, struct err *err)
{
	static struct footprint f; /* large; once per process */
	struct memory_use idle = {0};
	f.config = config;
	memory_sample(getpid(), &idle);
	find_model(&f, model);
	int rc = choose_kernels(&f, err);
	if (!rc)
		rc = topology_load(sysroot, &f.topology, err);
	if (!rc)
		rc = plan_make(f.topology, config, NULL, &f.plan, err);
	if (!rc)
		measure_plan(&f);
	if (!rc)
		rc = outline(&f, err);
	if (!rc)
		rc = measure_worker(&f, &idle, err);
	if (!rc)
		rc = print(&f, sysroot, out, err);
	topology_free(f.topology);
	return rc;
}
