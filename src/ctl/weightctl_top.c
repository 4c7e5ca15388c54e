/* weightctl top: what the daemon does, again and again. A look is the daemon's overview, which checks no pages; rates
 * are the differences between two of them. */
#include <errno.h>
#include <inttypes.h>
#include <unistd.h>
#include <yyjson.h>

#include "src/clock.h"
#include "src/ctl/control_object.h"
#include "src/ctl/interrupt.h"
#include "src/ctl/machine.h"
#include "src/ctl/table.h"
#include "src/ctl/top.h"

struct sums {
	struct top_rates rates;
	uint64_t running, waiting;
};

static struct sums add_up(const struct top_node *nodes, unsigned n)
{
	struct sums sums = {.running = 0};
	for (unsigned i = 0; i < n; i++) {
		sums.rates.generated += nodes[i].rates.generated;
		sums.rates.prompt += nodes[i].rates.prompt;
		sums.rates.cpu += nodes[i].rates.cpu;
		sums.running += nodes[i].running;
		sums.waiting += nodes[i].waiting;
	}
	return sums;
}

/* --- for people ------------------------------------------------------------------------------- */

static void bytes_cell(struct table *table, uint64_t bytes)
{
	char text[TABLE_UNIT_TEXT];
	table_cell(table, "%s", table_bytes(bytes, text));
}

static void rate_cells(struct table *table, const struct top_rates *rates)
{
	table_cell(table, "%.1f", rates->generated);
	table_cell(table, "%.1f", rates->prompt);
	table_cell(table, "%.0f", 100 * rates->cpu);
}

static void print_nodes(const struct top_node *nodes, unsigned n)
{
	struct table *table = table_new(">NODE|>FREE|>WORKERS|>RUNNING|>WAITING|>TOKENS/S|>PROMPT/S|>CPU%");
	for (unsigned i = 0; i < n && table; i++) {
		uint64_t free_bytes = 0;
		machine_node_memory(NULL, (int)nodes[i].node, "MemFree", &free_bytes);
		table_cell(table, "%u", nodes[i].node);
		bytes_cell(table, free_bytes);
		table_cell(table, "%u", nodes[i].n_workers);
		table_cell(table, "%" PRIu64, nodes[i].running);
		table_cell(table, "%" PRIu64, nodes[i].waiting);
		rate_cells(table, &nodes[i].rates);
	}
	if (table)
		table_print(table, stdout);
	table_free(table);
	putchar('\n');
}

static void print_workers(const struct top_look *before, const struct top_look *now)
{
	struct table *table = table_new(">WORKER|>PID|>NODE|MODEL|STATE|>RUNNING|>WAITING|>TOKENS/S|>PROMPT/"
					"S|>CPU%|>KV PAGES|>PRIVATE|>RESTARTS");
	for (unsigned i = 0; i < now->n_workers && table; i++) {
		const struct top_worker *w = &now->workers[i];
		struct top_rates rates = top_worker_rates(before, now, i);
		table_cell(table, "%u", w->index);
		table_cell(table, "%d", (int)w->pid);
		table_cell(table, "%u", w->node);
		table_cell(table, "%s", w->model);
		table_cell(table, "%s", w->state);
		table_cell(table, "%" PRIu64, w->running);
		table_cell(table, "%" PRIu64, w->waiting);
		rate_cells(table, &rates);
		table_cell(table, "%" PRIu64 "/%" PRIu64, w->kv_pages_used, w->kv_pages);
		bytes_cell(table, w->private_bytes);
		table_cell(table, "%" PRIu64, w->restarts);
	}
	if (table)
		table_print(table, stdout);
	table_free(table);
}

static void print_for_people(const struct top_look *before, const struct top_look *now)
{
	struct top_node nodes[TOP_NODES_MAX];
	unsigned n = top_nodes(before, now, nodes);
	struct sums sums = add_up(nodes, n);
	char text[TABLE_UNIT_TEXT];
	printf("weightd, instance %s: %s; %" PRIu64 " running, %" PRIu64
	       " waiting; %.1f tokens/s, prompts %.1f tokens/s; "
	       "private memory %s\n\n",
	       now->instance, now->state, sums.running, sums.waiting, sums.rates.generated, sums.rates.prompt,
	       table_bytes(now->private_bytes, text));
	print_nodes(nodes, n);
	print_workers(before, now);
}

/* --- for programs ----------------------------------------------------------------------------- */

static void add_rates(yyjson_mut_doc *d, yyjson_mut_val *object, const struct top_rates *rates, uint64_t running,
		      uint64_t waiting)
{
	yyjson_mut_obj_add_uint(d, object, "running", running);
	yyjson_mut_obj_add_uint(d, object, "waiting", waiting);
	yyjson_mut_obj_add_real(d, object, "tokens_per_second", rates->generated);
	yyjson_mut_obj_add_real(d, object, "prompt_tokens_per_second", rates->prompt);
	yyjson_mut_obj_add_real(d, object, "cpus", rates->cpu);
}

static void add_worker(yyjson_mut_doc *d, yyjson_mut_val *workers, const struct top_worker *w,
		       const struct top_rates *rates)
{
	yyjson_mut_val *object = yyjson_mut_arr_add_obj(d, workers);
	yyjson_mut_obj_add_uint(d, object, "index", w->index);
	yyjson_mut_obj_add_int(d, object, "pid", w->pid);
	yyjson_mut_obj_add_uint(d, object, "node", w->node);
	yyjson_mut_obj_add_str(d, object, "model", w->model);
	yyjson_mut_obj_add_str(d, object, "state", w->state);
	add_rates(d, object, rates, w->running, w->waiting);
	yyjson_mut_obj_add_uint(d, object, "kv_pages_used", w->kv_pages_used);
	yyjson_mut_obj_add_uint(d, object, "kv_pages", w->kv_pages);
	yyjson_mut_obj_add_uint(d, object, "private_bytes", w->private_bytes);
	yyjson_mut_obj_add_uint(d, object, "restarts", w->restarts);
}

static int print_json(const struct weightctl *ctl, const struct top_look *before, const struct top_look *now)
{
	struct top_node nodes[TOP_NODES_MAX];
	unsigned n = top_nodes(before, now, nodes);
	struct sums sums = add_up(nodes, n);
	yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(d);
	yyjson_mut_doc_set_root(d, root);
	yyjson_mut_obj_add_str(d, root, "instance", now->instance);
	yyjson_mut_obj_add_str(d, root, "state", now->state);
	yyjson_mut_obj_add_real(d, root, "seconds", (double)(now->at_ns - before->at_ns) / 1e9);
	yyjson_mut_obj_add_uint(d, root, "private_bytes", now->private_bytes);
	add_rates(d, root, &sums.rates, sums.running, sums.waiting);
	yyjson_mut_val *list = yyjson_mut_obj_add_arr(d, root, "nodes");
	for (unsigned i = 0; i < n; i++) {
		yyjson_mut_val *node = yyjson_mut_arr_add_obj(d, list);
		yyjson_mut_obj_add_uint(d, node, "node", nodes[i].node);
		yyjson_mut_obj_add_uint(d, node, "workers", nodes[i].n_workers);
		add_rates(d, node, &nodes[i].rates, nodes[i].running, nodes[i].waiting);
	}
	list = yyjson_mut_obj_add_arr(d, root, "workers");
	for (unsigned i = 0; i < now->n_workers; i++) {
		struct top_rates rates = top_worker_rates(before, now, i);
		add_worker(d, list, &now->workers[i], &rates);
	}
	return weightctl_print_json(ctl, d);
}

/* --- looking ---------------------------------------------------------------------------------- */

static enum weightctl_exit look(const struct weightctl *ctl, struct top_look *out)
{
	struct err err = {""};
	yyjson_doc *doc;
	enum weightctl_exit code = control_object(ctl, "overview", &doc, &err);
	if (code != EXIT_OK)
		return (enum weightctl_exit)control_object_fail(ctl, code, "top", &err);
	top_look(yyjson_doc_get_root(doc), clock_now_ns(), out);
	yyjson_doc_free(doc);
	return EXIT_OK;
}

/* Ends with --once after one interval, else when it is interrupted, which is how it is meant to end. */
int weightctl_top(struct weightctl *ctl)
{
	static struct top_look looks[2]; /* large */
	bool terminal = isatty(STDOUT_FILENO) && !ctl->json && !ctl->top.once;
	int rc = look(ctl, &looks[0]);
	for (unsigned i = 1; rc == EXIT_OK; i++) {
		if (interrupt_wait(ctl->interrupt_fd, -1, (int)ctl->top.interval_s * 1000) == -EINTR)
			return ctl->top.once ? EXIT_INTERRUPTED : EXIT_OK;
		rc = look(ctl, &looks[i % 2]);
		if (rc != EXIT_OK)
			break;
		if (terminal)
			fputs("\033[H\033[2J", stdout); /* a clear screen, from its top */
		if (ctl->json)
			rc = print_json(ctl, &looks[(i - 1) % 2], &looks[i % 2]);
		else
			print_for_people(&looks[(i - 1) % 2], &looks[i % 2]);
		if (ctl->top.once || (fflush(stdout) && rc == EXIT_OK))
			break;
		if (!terminal && !ctl->json)
			putchar('\n');
	}
	return rc == EXIT_INTERRUPTED && !ctl->top.once ? EXIT_OK : rc;
}
