#include "src/ctl/top.h"

#include <string.h>
#include <time.h>
#include <yyjson.h>

static void copy_text(yyjson_val *object, const char *key, char *out, size_t size)
{
	const char *text = yyjson_get_str(yyjson_obj_get(object, key));
	snprintf(out, size, "%s", text && text[0] ? text : "-");
}

static uint64_t number(yyjson_val *object, const char *key)
{
	return yyjson_get_uint(yyjson_obj_get(object, key));
}

/* The clock of a process that is gone, or of none, says nothing. */
static uint64_t cpu_time_ns(pid_t pid)
{
	clockid_t clock;
	struct timespec t;
	if (pid <= 0 || clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t))
		return 0;
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void look_at_worker(yyjson_val *object, struct top_worker *out)
{
	*out = (struct top_worker){
		.index = (uint32_t)number(object, "index"),
		.pid = (pid_t)number(object, "pid"),
		.node = (unsigned)number(object, "node"),
		.generated_tokens = number(object, "generated_tokens"),
		.prompt_tokens = number(object, "prompt_tokens"),
		.running = number(object, "running"),
		.waiting = number(object, "waiting"),
		.kv_pages_used = number(object, "kv_pages_used"),
		.kv_pages = number(object, "kv_pages"),
		.private_bytes = number(object, "private_bytes"),
		.restarts = number(object, "restarts"),
	};
	out->cpu_ns = cpu_time_ns(out->pid);
	copy_text(object, "model", out->model, sizeof out->model);
	copy_text(object, "state", out->state, sizeof out->state);
}

void top_look(struct yyjson_val *overview, uint64_t now_ns, struct top_look *out)
{
	yyjson_val *worker;
	size_t i, n;
	out->at_ns = now_ns;
	out->n_workers = 0;
	out->private_bytes = number(overview, "private_bytes_total");
	copy_text(overview, "state", out->state, sizeof out->state);
	copy_text(overview, "instance", out->instance, sizeof out->instance);
	yyjson_arr_foreach(yyjson_obj_get(overview, "workers"), i, n, worker)
	{
		if (out->n_workers < TOP_WORKERS_MAX)
			look_at_worker(worker, &out->workers[out->n_workers++]);
	}
}

static const struct top_worker *find(const struct top_look *look, const struct top_worker *same)
{
	for (unsigned i = 0; i < look->n_workers; i++)
		if (look->workers[i].index == same->index && look->workers[i].pid == same->pid)
			return &look->workers[i];
	return NULL;
}

/* Counters only grow, but those of a process that took a dead one's number do so from 0 on. */
static double rate(uint64_t before, uint64_t now, double seconds)
{
	return (double)(now >= before ? now - before : now) / seconds;
}

struct top_rates top_worker_rates(const struct top_look *before, const struct top_look *now, unsigned worker)
{
	const struct top_worker none = {0}, *w = &now->workers[worker], *old = find(before, w);
	double seconds = (double)(now->at_ns - before->at_ns) / 1e9;
	if (!w->pid || seconds <= 0)
		return (struct top_rates){0};
	old = old ? old : &none;
	return (struct top_rates){
		.generated = rate(old->generated_tokens, w->generated_tokens, seconds),
		.prompt = rate(old->prompt_tokens, w->prompt_tokens, seconds),
		.cpu = rate(old->cpu_ns, w->cpu_ns, seconds) / 1e9,
	};
}

static struct top_node *node_of(struct top_node *nodes, unsigned *n, unsigned node)
{
	unsigned at = 0;
	while (at < *n && nodes[at].node < node)
		at++;
	if (at < *n && nodes[at].node == node)
		return &nodes[at];
	if (*n == TOP_NODES_MAX)
		return NULL;
	memmove(nodes + at + 1, nodes + at, (*n - at) * sizeof *nodes);
	nodes[at] = (struct top_node){.node = node};
	++*n;
	return &nodes[at];
}

unsigned top_nodes(const struct top_look *before, const struct top_look *now, struct top_node out[TOP_NODES_MAX])
{
	unsigned n = 0;
	for (unsigned i = 0; i < now->n_workers; i++) {
		const struct top_worker *w = &now->workers[i];
		struct top_node *node = node_of(out, &n, w->node);
		if (!node)
			continue;
		struct top_rates rates = top_worker_rates(before, now, i);
		node->n_workers++;
		node->running += w->running;
		node->waiting += w->waiting;
		node->rates.generated += rates.generated;
		node->rates.prompt += rates.prompt;
		node->rates.cpu += rates.cpu;
	}
	return n;
}
