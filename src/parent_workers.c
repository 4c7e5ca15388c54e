/* Workers and the front: starting them, introducing them to each other, replacing those that die. */
#include "src/parent_internal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "src/clock.h"
#include "src/log.h"

#define MS CLOCK_MS_NS
enum {
	BACKOFF_FIRST_MS = 100, /* before the second start in a row; the first is at once */
	BACKOFF_MAX_MS = 10000,
	STEADY_MS = 10000, /* a process that lived this long starts with a clean record */
};

/* When to start a process again that failed `failures` times in a row. */
static uint64_t next_start(uint32_t failures)
{
	uint64_t wait = failures <= 1 ? 0 : (uint64_t)BACKOFF_FIRST_MS << (failures - 2 < 10 ? failures - 2 : 10);
	return clock_now_ns() + (wait < BACKOFF_MAX_MS ? wait : BACKOFF_MAX_MS) * MS + 1;
}

/* --- front ------------------------------------------------------------------------------------ */

static void introduce(struct parent *parent, const struct parent_worker *worker)
{
	const struct parent_model *model = &parent->models[worker->model];
	struct message_worker_up up;
	memset(&up, 0, sizeof up);
	up.worker = (uint32_t)(worker - parent->workers);
	up.node = worker->plan.node;
	snprintf(up.model, sizeof up.model, "%s", model->config->name);
	up.created = model->created;
	up.context_tokens = (uint32_t)parent_context(parent, model);
	int fds[3] = {worker->channel.memory, worker->channel.to_worker, worker->channel.to_front};
	int rc = message_send(parent->front.fd, MESSAGE_WORKER_UP, &up, sizeof up, fds, 3);
	if (rc)
		log_warning("cannot tell the front of worker %u: %s", up.worker, strerror(-rc));
}

void front_tell_state(struct parent *parent)
{
	struct message_state state;
	memset(&state, 0, sizeof state);
	if (!parent->front.pid)
		return;
	for (uint32_t i = 0; i < parent->config.n_models; i++) {
		const struct parent_model *model = &parent->models[i];
		/* For clients a model is there once someone serves it. */
		bool comes = model->state == MODEL_WAITING || model->state == MODEL_LOADING ||
			     (model->state == MODEL_LOADED && !model->served);
		state.loading += comes;
		state.failed += model->state == MODEL_FAILED;
		if (model->state == MODEL_FAILED)
			snprintf(state.text, sizeof state.text, "%.255s", model->fault);
		else if (comes && !state.text[0])
			snprintf(state.text, sizeof state.text, "loading model '%s'", model->config->name);
		for (uint32_t c = 0; c < model->n_copies; c++) {
			uint32_t n = 0;
			while (n < state.n_nodes && state.node[n] != model->copies[c].segment.node)
				n++;
			if (n == sizeof state.node / sizeof *state.node)
				continue;
			if (n == state.n_nodes)
				state.node[state.n_nodes++] = (uint16_t)model->copies[c].segment.node;
			state.weight_bytes[n] += model->copies[c].segment.report.total_bytes;
		}
	}
	state.worker_restarts = parent->worker_restarts;
	message_send(parent->front.fd, MESSAGE_STATE, &state, sizeof state, NULL, 0);
}

void front_start(struct parent *parent)
{
	struct err err;
	const struct config *c = &parent->config;
	parent->front_restart_ns = 0;
	if (child_spawn(&parent->front, CHILD_FRONT, "front", (int)c->log_level, &err)) {
		log_error("cannot start the front: %s", err.text);
		parent->front_restart_ns = next_start(++parent->front_restarts);
		return;
	}
	struct message_serve order = {
		.io = c->io,
		.max_connections = c->max_connections,
		.max_request_bytes = c->max_request_bytes,
		.client_buffer_bytes = c->client_buffer_bytes,
		.max_queue = c->max_queue,
		.has_tcp = parent->tcp_fd >= 0,
		.cpus = parent->plan.io_cpus,
		.uid = parent->uid,
		.gid = parent->gid,
	};
	int fds[2] = {parent->unix_fd, parent->tcp_fd};
	message_send(parent->front.fd, MESSAGE_SERVE, &order, sizeof order, fds, parent->tcp_fd >= 0 ? 2 : 1);
	front_tell_state(parent);
	for (uint32_t i = 0; i < parent->n_workers; i++)
		if (parent->workers[i].ready)
			introduce(parent, &parent->workers[i]);
}

void front_message(struct parent *parent, struct message *message)
{
	const struct message_worker_down *down;
	const struct message_failed *failed;
	const struct message_front_ready *ready;
	switch (message->type) {
	case MESSAGE_READY:
		ready = message_payload(message, sizeof *ready, 0);
		parent->front_io = ready ? ready->io : parent->config.io;
		parent->front_ready = true;
		parent_announce(parent);
		break;
	case MESSAGE_WORKER_DOWN: /* the worker broke the protocol: it is replaced */
		down = message_payload(message, sizeof *down, 0);
		if (down && down->worker < parent->n_workers && parent->workers[down->worker].ready) {
			log_error("worker %u broke the channel protocol and is replaced", down->worker);
			kill(parent->workers[down->worker].child.pid, SIGKILL);
		}
		break;
	case MESSAGE_FAILED:
		failed = message_payload(message, sizeof *failed, 0);
		if (failed)
			snprintf(parent->front_fault, sizeof parent->front_fault, "%.255s", failed->err.text);
		break;
	default:
		log_warning("the front sent an unexpected message, type %u", message->type);
	}
}

/* Channels end with the front, too: its half-written records can't be trusted. */
static void renew_channels(struct parent *parent)
{
	struct err err;
	for (uint32_t i = 0; i < parent->n_workers; i++) {
		struct parent_worker *worker = &parent->workers[i];
		if (!worker->ready)
			continue;
		struct channel_fds fresh;
		struct channel view;
		if (channel_create(&fresh, &err)) {
			log_error("worker %u: no new channel: %s", i, err.text);
			kill(worker->child.pid, SIGKILL);
			continue;
		}
		int fds[3] = {fresh.memory, fresh.to_worker, fresh.to_front};
		if (channel_attach(&fresh, CHANNEL_FRONT, &view, &err) ||
		    message_send(worker->child.fd, MESSAGE_CHANNEL, NULL, 0, fds, 3)) {
			channel_close(&fresh);
			kill(worker->child.pid, SIGKILL);
			continue;
		}
		channel_detach(&worker->view);
		channel_close(&worker->channel);
		worker->channel = fresh;
		worker->view = view;
	}
}

void front_ended(struct parent *parent, int wait_status)
{
	char how[128];
	bool was_ready = parent->front_ready, steady = clock_now_ns() - parent->front.started_ns > STEADY_MS * MS;
	parent->front_ready = false;
	if (parent->stopping)
		return;
	log_error("the front %s%s%s", child_describe(wait_status, how, sizeof how), parent->front_fault[0] ? ": " : "",
		  parent->front_fault);
	if (!was_ready && !parent->front_restarts) { /* it never served: a setting it can't work with */
		parent->exit_status = 1;
		parent_stop(parent);
		return;
	}
	parent->front_restarts = steady ? 1 : parent->front_restarts + 1;
	parent->front_restart_ns = next_start(parent->front_restarts);
	renew_channels(parent);
}

/* --- workers ---------------------------------------------------------------------------------- */

/* What KV pages may take: a quarter of the copy's node, divided among the workers that share it. */
static uint64_t auto_kv_bytes(const struct parent *parent, const struct parent_worker *worker)
{
	const struct topology_node *node = topology_find(parent->topology, worker->plan.copy_node);
	uint32_t sharers = 0;
	for (uint32_t i = 0; i < parent->n_workers; i++)
		sharers += parent->workers[i].plan.copy_node == worker->plan.copy_node;
	return node->memory_bytes / 4 / (sharers ? sharers : 1);
}

static int order_work(struct parent *parent, const struct parent_worker *worker)
{
	const struct config *c = &parent->config;
	const struct parent_model *model = &parent->models[worker->model];
	struct message_work order;
	memset(&order, 0, sizeof order);
	order.worker = (uint32_t)(worker - parent->workers);
	order.node = worker->plan.copy_node;
	order.cpus = worker->plan.cpus;
	order.spin = !parent->plan.oversubscribed && parent->config.n_models == 1; /* else CPUs are shared */
	order.cpu_level = parent->cpu_level;
	order.numerics = parent->numerics;
	order.context_tokens = c->context_tokens;
	order.prefill_chunk = c->prefill_chunk;
	order.max_running = c->max_running;
	order.lock_memory = c->lock_memory;
	order.prefill_share = c->prefill_share;
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
	worker->restart_ns = 0;
	worker->fault[0] = '\0';
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
		worker->restart_ns = next_start(++worker->failures);
		return;
	}
	rc = order_work(parent, worker);
	if (rc)
		log_error("cannot give %s its order: %s", name, strerror(-rc));
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

void worker_message(struct parent *parent, struct parent_worker *worker, struct message *message)
{
	const struct message_failed *failed;
	switch (message->type) {
	case MESSAGE_READY:
		worker->ready = true;
		log_info("worker %u is ready: pid %d, node %u", (unsigned)(worker - parent->workers),
			 (int)worker->child.pid, worker->plan.node);
		parent->models[worker->model].served = true;
		if (parent->front.pid)
			introduce(parent, worker);
		front_tell_state(parent);
		parent_announce(parent);
		break;
	case MESSAGE_FAILED:
		failed = message_payload(message, sizeof *failed, 0);
		if (failed)
			snprintf(worker->fault, sizeof worker->fault, "%.255s", failed->err.text);
		break;
	default:
		log_warning("a worker sent an unexpected message, type %u", message->type);
	}
}

void worker_ended(struct parent *parent, struct parent_worker *worker, int wait_status)
{
	char how[128];
	struct message_worker_down down = {(uint32_t)(worker - parent->workers)};
	bool steady = clock_now_ns() - worker->child.started_ns > STEADY_MS * MS;
	if (worker->ready && parent->front.pid)
		message_send(parent->front.fd, MESSAGE_WORKER_DOWN, &down, sizeof down, NULL, 0);
	worker->ready = false;
	close_channel(worker);
	if (parent->stopping)
		return;
	log_error("worker %u %s%s%s", down.worker, child_describe(wait_status, how, sizeof how),
		  worker->fault[0] ? ": " : "", worker->fault);
	worker->restarts++;
	parent->worker_restarts++;
	worker->failures = steady ? 1 : worker->failures + 1;
	worker->restart_ns = next_start(worker->failures);
	front_tell_state(parent);
}

void workers_restart_due(struct parent *parent, uint64_t now_ns)
{
	if (parent->stopping)
		return;
	if (parent->front_restart_ns && parent->front_restart_ns <= now_ns)
		front_start(parent);
	for (uint32_t i = 0; i < parent->n_workers; i++) {
		struct parent_worker *worker = &parent->workers[i];
		if (worker->restart_ns && worker->restart_ns <= now_ns)
			worker_start(parent, worker);
	}
}
