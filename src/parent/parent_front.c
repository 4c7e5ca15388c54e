/* The front: starting it, telling it of workers and models, replacing it. */
#include "src/parent/parent_internal.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/clock.h"
#include "src/log.h"

static_assert((int)CONFIG_MODELS_MAX <= (int)(sizeof((struct message_state *)0)->model / sizeof(struct message_model)),
	      "the front is told of every model");

/* A front that does not take a message in has missed it for good: a new one is told everything anew. */
static void tell(struct parent *parent, enum message_type type, const void *payload, size_t n_bytes, const int *fds,
		 uint32_t n_fds)
{
	int rc = message_send(parent->front.fd, type, payload, n_bytes, fds, n_fds);
	if (!rc || parent->front.hung)
		return;
	log_error("the front does not take its messages (%s) and is replaced", strerror(-rc));
	kill(parent->front.pid, SIGKILL);
}

void front_tell(struct parent *parent, enum message_type type, const void *payload, size_t n_bytes)
{
	if (parent->front.pid)
		tell(parent, type, payload, n_bytes, NULL, 0);
}

void front_introduce(struct parent *parent, const struct parent_worker *worker)
{
	const struct parent_model *model = &parent->models[worker->model];
	struct message_worker_up up;
	memset(&up, 0, sizeof up);
	up.worker = (uint32_t)(worker - parent->workers);
	up.node = worker->plan.node;
	snprintf(up.model, sizeof up.model, "%s", model->config->name);
	up.created = model->created;
	up.context_tokens = (uint32_t)parent_context(parent, worker_copy(model, worker));
	up.duty = worker->duty;
	up.mel_bins = worker_copy(model, worker)->segment.mel_bins;
	up.degraded = worker_is_degraded(parent, worker);
	int fds[3] = {worker->channel.memory, worker->channel.to_worker, worker->channel.to_front};
	tell(parent, MESSAGE_WORKER_UP, &up, sizeof up, fds, 3);
}

void front_tell_copy(struct parent *parent, const struct parent_copy *copy)
{
	for (uint32_t i = 0; i < parent->n_workers; i++) {
		const struct parent_worker *worker = &parent->workers[i];
		struct idset nodes;
		if (!worker->ready)
			continue;
		worker_copy_nodes(parent, worker, &nodes);
		struct message_worker_copy is = {i, worker_is_degraded(parent, worker)};
		if (idset_has(&nodes, copy->segment.node))
			front_tell(parent, MESSAGE_WORKER_COPY, &is, sizeof is);
	}
}

void front_lose_worker(struct parent *parent, uint32_t worker)
{
	struct message_worker_down down = {worker};
	if (parent->front.pid)
		tell(parent, MESSAGE_WORKER_DOWN, &down, sizeof down, NULL, 0);
}

/* The first of a model's degraded copies, in words; the number of them. */
static uint32_t degraded_copies(const struct parent_model *model, char *text, size_t size)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < model->n_copies; i++) {
		const struct parent_copy *copy = &model->copies[i];
		const struct placement *p = &copy->segment.report.placement;
		if (copy_is_degraded(copy) && n++ == 0)
			snprintf(text, size, "node %u: %llu of %llu pages of its copy are on other nodes",
				 copy->segment.node, (unsigned long long)p->misplaced, (unsigned long long)p->pages);
	}
	return n;
}

static void add_model(struct message_state *state, const struct parent *parent, uint32_t index)
{
	const char *why, *name = parent->models[index].config->name;
	enum model_standing standing = model_standing(parent, index, &why);
	struct message_model *model = &state->model[state->n_models++];
	snprintf(model->name, sizeof model->name, "%s", name);
	snprintf(model->why, sizeof model->why, "%.255s", why);
	model->standing = standing;
	char degraded[sizeof model->why];
	model->degraded = degraded_copies(&parent->models[index], degraded, sizeof degraded);
	if (model->degraded && !model->why[0])
		snprintf(model->why, sizeof model->why, "%s", degraded);
	state->loading += standing == STANDING_COMES;
	state->failed += standing == STANDING_FAILED;
	if (standing == STANDING_FAILED || standing == STANDING_FAILING)
		snprintf(state->text, sizeof state->text, "%.255s", why);
	else if (standing == STANDING_COMES && !state->text[0])
		snprintf(state->text, sizeof state->text, "loading model '%s'", name);
	else if (model->degraded && !state->text[0])
		snprintf(state->text, sizeof state->text, "model '%.60s': %.180s", name, degraded);
}

static void add_node_bytes(struct message_state *state, unsigned node, uint64_t bytes)
{
	uint32_t n = 0;
	while (n < state->n_nodes && state->node[n] != node)
		n++;
	if (n == sizeof state->node / sizeof *state->node)
		return;
	if (n == state->n_nodes)
		state->node[state->n_nodes++] = (uint16_t)node;
	state->weight_bytes[n] += bytes;
}

/* Of a spread copy every node has the same part, by a page. */
static void add_weights(struct message_state *state, const struct parent *parent, const struct parent_copy *copies,
			uint32_t n_copies)
{
	for (uint32_t c = 0; c < n_copies; c++) {
		const struct message_segment *segment = &copies[c].segment;
		const struct plan_copy *plan = plan_copy(&parent->plan, segment->node);
		for (int node = plan ? idset_first(&plan->nodes) : -1; node >= 0; node = idset_next(&plan->nodes, node))
			add_node_bytes(state, (unsigned)node, segment->report.total_bytes / idset_count(&plan->nodes));
	}
}

static void add_adapters(struct message_state *state, const struct parent *parent)
{
	const struct parent_adapter *failed = adapters_failed(parent);
	for (const struct parent_adapter *a = parent->adapters; a; a = a->next)
		add_weights(state, parent, a->copies, a->n_copies);
	state->adapters_come = adapters_come(parent);
	state->adapters_failed = failed != NULL;
	if (failed)
		snprintf(state->text, sizeof state->text, "adapter '%.60s': %.160s", failed->name, failed->fault);
	else if (state->adapters_come && !state->text[0])
		snprintf(state->text, sizeof state->text, "loading adapters");
}

void front_tell_state(struct parent *parent)
{
	struct message_state state;
	memset(&state, 0, sizeof state);
	if (!parent->front.pid)
		return;
	for (uint32_t i = 0; i < parent->config.n_models; i++) {
		if (model_is_public(&parent->models[i]))
			add_model(&state, parent, i);
		add_weights(&state, parent, parent->models[i].copies, parent->models[i].n_copies);
		add_weights(&state, parent, parent->models[i].change.copies, parent->models[i].change.n_copies);
	}
	add_adapters(&state, parent);
	state.worker_restarts = parent->worker_restarts;
	state.refused = parent->refused;
	snprintf(state.placement, sizeof state.placement, "%s", parent_placement(parent));
	tell(parent, MESSAGE_STATE, &state, sizeof state, NULL, 0);
}

static void drop_pulse(struct parent *parent)
{
	pulse_detach(parent->front_pulse);
	parent->front_pulse = NULL;
}

void front_start(struct parent *parent)
{
	struct err err;
	const struct config *c = &parent->config;
	int pulse_fd = -1;
	parent->front_fault[0] = '\0';
	parent->front_proven = false;
	int rc = pulse_create(&pulse_fd, &parent->front_pulse, &err);
	if (!rc)
		rc = child_spawn(&parent->front, CHILD_FRONT, "front", (int)c->log_level, &err);
	if (rc) {
		log_error("cannot start the front: %s", err.text);
		drop_pulse(parent);
		if (pulse_fd >= 0)
			close(pulse_fd);
		backoff_failed(&parent->front_backoff, clock_now_ns());
		return;
	}
	struct message_serve order = {
		.io = c->io,
		.max_connections = c->max_connections,
		.max_request_bytes = c->max_request_bytes,
		.client_buffer_bytes = c->client_buffer_bytes,
		.max_queue = c->max_queue,
		.idle_seconds = c->idle_seconds,
		.request_seconds = c->request_seconds,
		.has_tcp = parent->tcp_fd >= 0,
		.has_keys = parent->keys_fd >= 0,
		.max_running = c->max_running,
		.max_audio_bytes = c->max_audio_bytes,
		.max_workers = c->n_models * parent->plan.n_workers +
			       c->audio_processes, /* and for each its successor's channel */
		.http_adapters = c->adapter_dir[0] != '\0',
		.metrics_aliases = c->metrics_aliases,
		.dashboard = c->dashboard,
		.prefix_cache = c->prefix_cache_bytes != 0,
		.cpus = parent->plan.io_cpus,
		.uid = parent->uid,
		.gid = parent->gid,
	};
	snprintf(order.cors_origins, sizeof order.cors_origins, "%s", c->cors_origins);
	int fds[4] = {pulse_fd, parent->unix_fd};
	uint32_t n_fds = 2;
	if (order.has_tcp)
		fds[n_fds++] = parent->tcp_fd;
	if (order.has_keys)
		fds[n_fds++] = parent->keys_fd;
	rc = message_send(parent->front.fd, MESSAGE_SERVE, &order, sizeof order, fds, n_fds);
	close(pulse_fd);
	if (rc) {
		log_error("cannot give the front its order: %s", strerror(-rc));
		child_hang_up(&parent->front); /* it ends for want of an order */
		return;
	}
	front_tell_state(parent);
	adapters_introduce(parent);
	for (uint32_t i = 0; i < parent->n_workers; i++)
		if (parent->workers[i].ready && parent->workers[i].duty != WORKER_RETIRED)
			front_introduce(parent, &parent->workers[i]);
}

void front_message(struct parent *parent, struct message *message)
{
	const struct message_worker_down *down;
	const struct message_failed *failed;
	const struct message_front_ready *ready;
	const struct message_adapter_request *wish;
	const struct message_adapter *idle;
	const struct message_worker_idle *quiet;
	const struct message_audio_up *broken;
	switch (message->type) {
	case MESSAGE_READY:
		ready = message_payload(message, sizeof *ready, 0);
		parent->front_io = ready ? ready->io : parent->config.io;
		parent->front_ready = parent->front_served = true;
		parent_announce(parent);
		break;
	case MESSAGE_WORKER_DOWN: /* the worker broke the protocol: it is replaced */
		down = message_payload(message, sizeof *down, 0);
		if (down && down->worker < parent->n_workers && parent->workers[down->worker].ready) {
			log_error("worker %u broke the channel protocol and is replaced", down->worker);
			kill(parent->workers[down->worker].child.pid, SIGKILL);
		}
		break;
	case MESSAGE_WORKER_IDLE:
		quiet = message_payload(message, sizeof *quiet, 0);
		if (quiet)
			generations_worker_idle(parent, quiet->worker);
		break;
	case MESSAGE_AUDIO_DOWN:
		broken = message_payload(message, sizeof *broken, 0);
		if (broken)
			audio_broken(parent, broken->index);
		break;
	case MESSAGE_ADAPTER_REQUEST:
		wish = message_payload(message, sizeof *wish, 0);
		if (wish)
			adapters_wish(parent, wish, (struct adapter_asker){ASKER_FRONT, wish->ticket},
				      parent->config.adapter_dir);
		break;
	case MESSAGE_ADAPTER_IDLE:
		idle = message_payload(message, sizeof *idle, 0);
		if (idle)
			adapters_idle(parent, idle->id);
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
		if (!worker->ready || worker->duty == WORKER_RETIRED)
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

/* Before the first front has served, a reason of its own to end is a setting it can't work with. */
static bool is_hopeless(const struct parent *parent, int wait_status)
{
	return !parent->front_served && (WIFEXITED(wait_status) || backoff_is_failing(&parent->front_backoff));
}

void front_ended(struct parent *parent, int wait_status)
{
	char how[128];
	uint64_t now = clock_now_ns();
	bool proven = front_is_proven(parent, now);
	drop_pulse(parent);
	parent->front_ready = false;
	if (parent->stopping)
		return;
	snprintf(parent->front_end, sizeof parent->front_end, "%s%s%.120s",
		 child_describe(&parent->front, wait_status, how, sizeof how), parent->front_fault[0] ? ": " : "",
		 parent->front_fault);
	log_error("the front %s", parent->front_end);
	parent->front_restarts++;
	if (proven)
		backoff_served(&parent->front_backoff, now);
	else
		backoff_failed(&parent->front_backoff, now);
	if (is_hopeless(parent, wait_status)) {
		parent->exit_status = 1;
		parent_stop(parent);
		return;
	}
	if (parent->front_backoff.failures == BACKOFF_FAILING)
		log_error("the front keeps dying without having served; it is tried again every %d s",
			  BACKOFF_MAX_MS / 1000);
	generations_front_ended(parent);
	renew_channels(parent);
	audio_front_ended(parent);
	adapters_front_ended(parent);
}
