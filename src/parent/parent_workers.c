/* Workers: starting them, replacing those that die, and how a model stands by them. */
#include "src/parent/parent_internal.h"

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
		if (worker->model != index)
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

/* --- workers ---------------------------------------------------------------------------------- */

/* What KV pages may take: a quarter of the node they are on, divided among the workers that share it. */
static uint64_t auto_kv_bytes(const struct parent *parent, const struct parent_worker *worker)
{
	const struct topology_node *node = topology_find(parent->topology, worker->plan.memory_node);
	uint32_t sharers = 0;
	for (uint32_t i = 0; i < parent->n_workers; i++)
		sharers += parent->workers[i].plan.memory_node == worker->plan.memory_node;
	return node->memory_bytes / 4 / (sharers ? sharers : 1);
}

static int order_work(struct parent *parent, const struct parent_worker *worker)
{
	const struct config *c = &parent->config;
	const struct parent_model *model = &parent->models[worker->model];
	struct message_work order;
	memset(&order, 0, sizeof order);
	order.worker = (uint32_t)(worker - parent->workers);
	order.node = worker->plan.memory_node;
	order.memory_is_bound = parent->plan.memory_is_bound;
	order.cpus = worker->plan.cpus;
	order.spin = !parent->plan.oversubscribed && parent->config.n_models == 1; /* else CPUs are shared */
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
	uint32_t copy = 0;
	while (copy < model->n_copies && model->copies[copy].segment.node != worker->plan.copy_node)
		copy++;
	if (copy == model->n_copies)
		return -ENOENT;
	int fds[4] = {model->copies[copy].fd, worker->channel.memory, worker->channel.to_worker,
		      worker->channel.to_front};
	return message_send(worker->child.fd, MESSAGE_WORK, &order, sizeof order, fds, 4);
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

void workers_start(struct parent *parent, uint32_t model)
{
	uint32_t first = parent->n_workers;
	for (unsigned i = 0; i < parent->plan.n_workers; i++) {
		if (parent->n_workers == PARENT_WORKERS_MAX) {
			log_error("model '%s': only %u of %u workers: the limit of %d processes is reached",
				  parent->models[model].config->name, i, parent->plan.n_workers, PARENT_WORKERS_MAX);
			break;
		}
		parent->workers[parent->n_workers++] = (struct parent_worker){
			.plan = parent->plan.workers[i], .model = model, .channel = {-1, -1, -1}, .child = {.fd = -1}};
	}
	for (uint32_t i = first; i < parent->n_workers; i++)
		worker_start(parent, &parent->workers[i]);
}

void worker_try_ready(struct parent *parent, struct parent_worker *worker)
{
	if (worker->ready || !worker->started || !adapters_complete(parent, worker))
		return;
	worker->ready = true;
	worker->ready_ns = clock_now_ns();
	watch_begin(&worker->child.watch, worker_progress(worker), worker->ready_ns);
	log_info("worker %u is ready: pid %d, node %u, weights attached in %.1f ms",
		 (unsigned)(worker - parent->workers), (int)worker->child.pid, worker->plan.node,
		 (double)worker->attach_ns / CLOCK_MS_NS);
	parent->models[worker->model].served = true;
	if (parent->front.pid)
		front_introduce(parent, worker);
	adapters_worker_changed(parent, worker);
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
	worker->restarts++;
	parent->worker_restarts++;
	if (proven)
		backoff_served(&worker->backoff, now);
	else
		backoff_failed(&worker->backoff, now);
	log_end(worker, before);
	front_tell_state(parent);
	parent_announce(parent);
}

void workers_restart_due(struct parent *parent, uint64_t now_ns)
{
	for (uint32_t i = 0; i < parent->n_workers; i++)
		if (backoff_take(&parent->workers[i].backoff, now_ns))
			worker_start(parent, &parent->workers[i]);
}
