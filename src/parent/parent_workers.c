/* Workers: starting them, replacing those that die, and how a model stands by them. */
#include "src/parent/parent_internal.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "src/clock.h"
#include "src/log.h"

/* --- models ----------------------------------------------------------------------------------- */

enum model_standing model_standing(const struct parent *parent, uint32_t index, const char **why)
{
	const struct parent_model *model = &parent->models[index];
	bool failing = false, other = false;
	*why = "";
	if (model->state == MODEL_FAILED) {
		*why = model->fault;
		return STANDING_FAILED;
	}
	for (uint32_t i = 0; i < parent->n_workers; i++) {
		const struct parent_worker *worker = &parent->workers[i];
		if (worker->model != index || !worker_serves(worker))
			continue;
		if (!backoff_is_failing(&worker->backoff)) {
			other = true;
			continue;
		}
		failing = true;
		*why = worker->end;
	}
	if (failing && !other)
		return STANDING_FAILING;
	*why = "";
	return model->served ? STANDING_SERVED : STANDING_COMES; /* also before it is loaded */
}

static_assert((int)PLAN_WORKERS_MAX == (int)WORK_PARTS_MAX, "a worker may be all that a plan has");

/* --- workers ---------------------------------------------------------------------------------- */

bool worker_serves(const struct parent_worker *worker)
{
	return worker->model != PARENT_NO_MODEL && worker->duty == WORKER_SERVES;
}

unsigned worker_parts(const struct parent *parent, const struct parent_worker *worker,
		      const struct plan_worker *parts[PLAN_WORKERS_MAX])
{
	return plan_parts(&parent->plan, worker->planned, parent->models[worker->model].config->parallel, parts);
}

void worker_copy_nodes(const struct parent *parent, const struct parent_worker *worker, struct idset *out)
{
	const struct plan_worker *parts[PLAN_WORKERS_MAX];
	idset_clear(out);
	for (unsigned i = worker_parts(parent, worker, parts); i-- > 0;)
		idset_add(out, parts[i]->copy_node);
}

static bool has_memory_of(const struct parent *parent, const struct parent_worker *worker, unsigned node)
{
	const struct plan_worker *parts[PLAN_WORKERS_MAX];
	for (unsigned i = worker_parts(parent, worker, parts); i-- > 0;)
		if (parts[i]->memory_node == node)
			return true;
	return false;
}

/* What KV pages may take of all nodes they are on; those workers of another generation come before or go after this
 * one. */
static uint64_t auto_kv_bytes(const struct parent *parent, const struct parent_worker *worker)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < topology_n_nodes(parent->topology); i++) {
		const struct topology_node *node = topology_node(parent->topology, i);
		uint32_t sharers = 0;
		if (!has_memory_of(parent, worker, node->os_index))
			continue;
		for (uint32_t j = 0; j < parent->n_workers; j++) {
			const struct parent_worker *other = &parent->workers[j];
			sharers += other->model != PARENT_NO_MODEL && has_memory_of(parent, other, node->os_index) &&
				   (other->model != worker->model || other->generation == worker->generation);
		}
		sum += plan_kv_bytes(node->memory_bytes, sharers);
	}
	return sum;
}

/* A node's copy for a worker of `generation`: the newest that is no newer, since a change may have left this node's as
 * it was. `best` so far. */
static const struct parent_copy *better(const struct parent_copy *best, const struct parent_copy *copies,
					uint32_t n_copies, unsigned node, uint32_t generation)
{
	for (uint32_t i = 0; i < n_copies; i++)
		if (copies[i].segment.node == node && copies[i].segment.generation <= generation &&
		    (!best || copies[i].segment.generation > best->segment.generation))
			best = &copies[i];
	return best;
}

static const struct parent_copy *copy_on(const struct parent_model *model, unsigned node, uint32_t generation)
{
	const struct parent_copy *served = better(NULL, model->copies, model->n_copies, node, generation);
	return better(served, model->change.copies, model->change.n_copies, node, generation);
}

const struct parent_copy *worker_copy(const struct parent_model *model, const struct parent_worker *worker)
{
	return copy_on(model, worker->plan.copy_node, worker->generation);
}

bool worker_is_degraded(const struct parent *parent, const struct parent_worker *worker)
{
	const struct parent_model *model = &parent->models[worker->model];
	struct idset nodes;
	worker_copy_nodes(parent, worker, &nodes);
	for (int node = idset_first(&nodes); node >= 0; node = idset_next(&nodes, node)) {
		const struct parent_copy *copy = copy_on(model, (unsigned)node, worker->generation);
		if (copy && copy_is_degraded(copy))
			return true;
	}
	return false;
}

/* A copy that several parts read comes with the first of them. */
static int give_parts(const struct parent_worker *worker, const struct parent_model *model,
		      const struct plan_worker *const *parts, unsigned n_parts)
{
	uint32_t number[PLAN_WORKERS_MAX], n_copies = 0;
	int rc = 0;
	for (unsigned i = 0; i < n_parts && !rc; i++) {
		const struct parent_copy *copy = copy_on(model, parts[i]->copy_node, worker->generation);
		unsigned same = 0;
		if (!copy)
			return -ENOENT;
		while (parts[same]->copy_node != parts[i]->copy_node)
			same++;
		number[i] = same < i ? number[same] : n_copies++;
		struct message_part part = {.node = parts[i]->memory_node, .copy = number[i]};
		cpus_left(&parts[i]->cpus, &part.cpus);
		rc = message_send(worker->child.fd, MESSAGE_PART, &part, sizeof part, &copy->fd, same == i);
	}
	return rc;
}

static int order_work(struct parent *parent, struct parent_worker *worker)
{
	const struct config *c = &parent->config;
	const struct parent_model *model = &parent->models[worker->model];
	const struct plan_worker *parts[PLAN_WORKERS_MAX];
	unsigned n_parts = worker_parts(parent, worker, parts);
	struct message_work order;
	memset(&order, 0, sizeof order);
	order.worker = (uint32_t)(worker - parent->workers);
	order.node = worker->plan.memory_node;
	order.memory_is_bound = parent->plan.memory_is_bound;
	order.n_parts = n_parts;
	order.spin = worker->spins = cpus_are_own(parent, worker);
	order.cpu_level = parent->cpu_level;
	order.numerics = parent->numerics;
	order.kv_type = c->kv_type;
	order.context_tokens = c->context_tokens;
	order.prefill_chunk = c->prefill_chunk;
	order.max_running = c->max_running;
	order.lock_memory = c->lock_memory;
	order.prefill_share = c->prefill_share;
	order.tool_parser = model->config->tool_parser;
	order.reasoning = model->config->reasoning;
	order.pooling = model->config->pooling;
	order.prefix_cache_bytes = c->prefix_cache_bytes;
	order.kv_bytes = c->kv_bytes ? c->kv_bytes : auto_kv_bytes(parent, worker);
	order.uid = parent->uid;
	order.gid = parent->gid;
	snprintf(order.model, sizeof order.model, "%s", model->config->name);
	const int fds[3] = {worker->channel.memory, worker->channel.to_worker, worker->channel.to_front};
	int rc = message_send(worker->child.fd, MESSAGE_WORK, &order, sizeof order, fds, 3);
	return rc ? rc : give_parts(worker, model, parts, n_parts);
}

static void close_channel(struct parent_worker *worker)
{
	channel_detach(&worker->view);
	channel_close(&worker->channel);
}

static void worker_start(struct parent *parent, struct parent_worker *worker)
{
	struct err err;
	char name[32];
	snprintf(name, sizeof name, "worker %u", (unsigned)(worker - parent->workers));
	worker->fault[0] = '\0';
	worker->proven = worker->started = false;
	worker->memory = (struct memory_use){0};
	int rc = channel_create(&worker->channel, &err);
	if (!rc) {
		rc = channel_attach(&worker->channel, CHANNEL_FRONT, &worker->view, &err);
		if (!rc)
			rc = child_spawn(&worker->child, CHILD_WORKER, name, (int)parent->config.log_level, &err);
		if (rc)
			close_channel(worker);
	}
	if (rc) {
		log_error("cannot start %s: %s", name, err.text);
		snprintf(worker->end, sizeof worker->end, "cannot be started: %.200s", err.text);
		worker->ended_ns = clock_now_ns();
		backoff_failed(&worker->backoff, worker->ended_ns);
		return;
	}
	rc = order_work(parent, worker);
	if (rc) {
		snprintf(worker->fault, sizeof worker->fault, "its order could not be sent: %s", strerror(-rc));
		child_hang_up(&worker->child); /* it ends for want of an order */
		return;
	}
	adapters_worker_started(parent, worker);
}

/* A free place, if need be at the end; NULL. */
static struct parent_worker *take_place(struct parent *parent)
{
	uint32_t i = 0;
	while (i < parent->n_workers && parent->workers[i].model != PARENT_NO_MODEL)
		i++;
	if (i == PARENT_WORKERS_MAX)
		return NULL;
	parent->n_workers += i == parent->n_workers;
	return &parent->workers[i];
}

void worker_forget(struct parent *parent, struct parent_worker *worker)
{
	*worker = (struct parent_worker){.model = PARENT_NO_MODEL, .channel = {-1, -1, -1}, .child = {.fd = -1}};
	while (parent->n_workers && parent->workers[parent->n_workers - 1].model == PARENT_NO_MODEL)
		parent->n_workers--;
}

static uint32_t places_left(const struct parent *parent)
{
	uint32_t n = PARENT_WORKERS_MAX;
	for (uint32_t i = 0; i < parent->n_workers; i++)
		n -= parent->workers[i].model != PARENT_NO_MODEL;
	return n;
}

/* The newest of the copies that some of the parts read; 0: they read none of them. */
static uint32_t newest_read(const struct plan_worker *const *parts, unsigned n_parts, const struct parent_copy *copies,
			    uint32_t n_copies)
{
	uint32_t newest = 0;
	for (unsigned i = 0; i < n_parts; i++)
		for (uint32_t c = 0; c < n_copies; c++)
			if (copies[c].segment.node == parts[i]->copy_node && copies[c].segment.generation > newest)
				newest = copies[c].segment.generation;
	return newest;
}

int workers_start(struct parent *parent, uint32_t model, const struct parent_copy *copies, uint32_t n_copies,
		  enum worker_duty duty, struct err *err)
{
	struct parent_worker *started[PARENT_WORKERS_MAX];
	uint32_t n = 0;
	if (places_left(parent) < parent->plan.n_workers)
		return err_set(err, -ENOSPC, "its workers would be more than the %d processes that there can be",
			       PARENT_WORKERS_MAX);
	for (unsigned i = 0; i < parent->plan.n_workers; i++) {
		const struct plan_worker *parts[PLAN_WORKERS_MAX];
		unsigned n_parts = plan_parts(&parent->plan, i, parent->models[model].config->parallel, parts);
		uint32_t generation = newest_read(parts, n_parts, copies, n_copies);
		if (!generation)
			continue;
		struct parent_worker *worker = started[n++] = take_place(parent);
		*worker = (struct parent_worker){.plan = parent->plan.workers[i],
						 .planned = i,
						 .model = model,
						 .generation = generation,
						 .duty = duty,
						 .channel = {-1, -1, -1},
						 .child = {.fd = -1}};
		while (n_parts-- > 0)
			idset_or(&worker->plan.cpus, &parts[n_parts]->cpus);
	}
	for (uint32_t i = 0; i < n; i++) /* they share what a node has: all are known before the first starts */
		worker_start(parent, started[i]);
	return 0;
}

void worker_try_ready(struct parent *parent, struct parent_worker *worker)
{
	if (worker->ready || !worker->started || !adapters_complete(parent, worker))
		return;
	worker->ready = true;
	worker->ready_ns = clock_now_ns();
	watch_begin(&worker->child.watch, worker_progress(worker), worker->ready_ns);
	char cpus[IDSET_TEXT];
	log_info("worker %u is ready: pid %d, node %u, CPUs %s, weights attached in %.1f ms",
		 (unsigned)(worker - parent->workers), (int)worker->child.pid, worker->plan.node,
		 idset_format(&worker->plan.cpus, cpus, sizeof cpus), (double)worker->attach_ns / CLOCK_MS_NS);
	parent->models[worker->model].served |= worker->duty == WORKER_SERVES;
	if (parent->front.pid)
		front_introduce(parent, worker);
	adapters_worker_changed(parent, worker);
	generations_worker_ready(parent, worker);
	front_tell_state(parent);
	parent_announce(parent);
}

void worker_message(struct parent *parent, struct parent_worker *worker, struct message *message)
{
	const struct message_failed *failed;
	const struct message_worker_ready *ready;
	switch (message->type) {
	case MESSAGE_READY:
		ready = message_payload(message, sizeof *ready, 0);
		worker->attach_ns = ready ? ready->attach_ns : 0;
		worker->started = true;
		if (ready)
			placement_refused(parent, &ready->refused);
		worker_try_ready(parent, worker);
		break;
	case MESSAGE_ADAPTER_ATTACHED:
	case MESSAGE_ADAPTER_NOT_ATTACHED:
		adapters_worker_message(parent, worker, message);
		break;
	case MESSAGE_FAILED:
		failed = message_payload(message, sizeof *failed, 0);
		if (failed)
			snprintf(worker->fault, sizeof worker->fault, "%.255s", failed->err.text);
		break;
	default:
		if (!bench_message(parent, worker, message))
			log_warning("a worker sent an unexpected message, type %u", message->type);
	}
}

/* One line per death, but not the same one for ever: a worker that is failing says it once. */
static void log_end(const struct parent_worker *worker, const char *before)
{
	if (!backoff_is_failing(&worker->backoff))
		log_error("%s %s", worker->child.name, worker->end);
	else if (worker->backoff.failures == BACKOFF_FAILING || strcmp(worker->end, before))
		log_error("%s %s; it has ended %u times without having served and is tried again every %d s",
			  worker->child.name, worker->end, worker->backoff.failures, BACKOFF_MAX_MS / 1000);
}

void worker_ended(struct parent *parent, struct parent_worker *worker, int wait_status)
{
	char how[128], before[sizeof worker->end];
	uint64_t now = clock_now_ns();
	bool proven = worker_is_proven(worker, now);
	if (worker->ready)
		front_lose_worker(parent, (uint32_t)(worker - parent->workers));
	worker->ready = worker->started = false;
	close_channel(worker);
	bench_lost(parent, worker);
	adapters_worker_changed(parent, worker);
	if (parent->stopping)
		return;
	memcpy(before, worker->end, sizeof before);
	snprintf(worker->end, sizeof worker->end, "%s%s%.200s",
		 child_describe(&worker->child, wait_status, how, sizeof how), worker->fault[0] ? ": " : "",
		 worker->fault);
	worker->ended_ns = now;
	if (worker->duty != WORKER_SERVES && generations_worker_ended(parent, worker))
		return;
	worker->restarts++;
	parent->worker_restarts++;
	if (proven)
		backoff_served(&worker->backoff, now);
	else
		backoff_failed(&worker->backoff, now);
	log_end(worker, before);
	front_tell_state(parent);
	parent_announce(parent);
	if (backoff_is_failing(&worker->backoff) && parent->models[worker->model].change.state == CHANGE_NONE)
		wish_failed(parent, &parent->models[worker->model], worker->end);
}

void workers_restart_due(struct parent *parent, uint64_t now_ns)
{
	for (uint32_t i = 0; i < parent->n_workers; i++)
		if (backoff_take(&parent->workers[i].backoff, now_ns))
			worker_start(parent, &parent->workers[i]);
}
