#include "src/front/fleet.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "src/front/front.h"
#include "src/log.h"

enum {
	STALLED_S = 10,			     /* an engine with work that finished no step for so long */
	CALL_WEIGHT_BYTES = 4096,	     /* of a call in a queue */
	MARGIN_BYTES = 2 * CALL_WEIGHT_BYTES /* a queue may be so much longer for a call that is at home there */
};

struct fleet_model *fleet_find_model(struct fleet *fleet, const char *name, size_t n_bytes)
{
	for (uint32_t i = 0; i < fleet->n_models; i++) {
		struct fleet_model *model = &fleet->model[i];
		if (model->name[0] &&
		    (!name || (strlen(model->name) == n_bytes && memcmp(model->name, name, n_bytes) == 0)))
			return model;
	}
	return NULL;
}

/* What clients see of a model is what its workers that serve have. */
static void begin_serving(struct front_worker *worker)
{
	worker->duty = WORKER_SERVES;
	worker->model->created = worker->created;
	worker->model->context_tokens = worker->context_tokens;
	worker->model->mel_bins = worker->mel_bins;
}

static struct fleet_model *take_place(struct fleet *fleet)
{
	uint32_t i = 0;
	while (i < fleet->n_models && fleet->model[i].name[0])
		i++;
	if (i == CONFIG_MODELS_MAX)
		return NULL;
	fleet->n_models += i == fleet->n_models;
	return &fleet->model[i];
}

static bool has_worker(const struct fleet *fleet, const struct fleet_model *model)
{
	const struct front_worker *w = fleet->workers;
	while (w && w->model != model)
		w = w->next;
	return w != NULL;
}

void fleet_forget(struct fleet *fleet, const struct message_state *state)
{
	for (uint32_t i = 0; i < fleet->n_models; i++) {
		struct fleet_model *model = &fleet->model[i];
		bool listed = false;
		for (uint32_t k = 0; k < state->n_models; k++)
			listed |= !strncmp(state->model[k].name, model->name, sizeof model->name);
		/* Requests in progress have a call at some worker, so without one nobody holds it. */
		if (!listed && !has_worker(fleet, model))
			*model = (struct fleet_model){.name = ""};
	}
}

static struct fleet_model *learn_model(struct fleet *fleet, const struct message_worker_up *up)
{
	struct fleet_model *model = fleet_find_model(fleet, up->model, strnlen(up->model, sizeof up->model));
	if (!model) {
		model = take_place(fleet);
		if (!model)
			return NULL;
		snprintf(model->name, sizeof model->name, "%.*s", (int)sizeof up->model - 1, up->model);
	}
	return model;
}

void fleet_worker_up(struct front *front, const struct message_worker_up *up, const struct channel_fds *fds)
{
	struct fleet *fleet = &front->fleet;
	struct front_worker *worker;
	struct err err;
	fleet_worker_down(front, up->worker);
	struct fleet_model *model = learn_model(fleet, up);
	if (!model) {
		struct channel_fds taken = *fds;
		channel_close(&taken);
		log_error("worker %u: more than %d models", up->worker, CONFIG_MODELS_MAX);
		return;
	}
	int rc = worker_open(front, fds, &worker, &err);
	if (rc) {
		log_error("worker %u: %s", up->worker, err.text);
		return;
	}
	worker->index = up->worker;
	worker->node = up->node;
	worker->model = model;
	worker->created = up->created;
	worker->context_tokens = up->context_tokens;
	worker->mel_bins = up->mel_bins;
	worker->duty = up->duty;
	if (up->duty == WORKER_SERVES)
		begin_serving(worker);
	worker->degraded = up->degraded != 0;
	worker->next = fleet->workers;
	fleet->workers = worker;
}

static bool is_listed(const uint16_t *list, uint32_t n, uint32_t index)
{
	while (n && list[n - 1] != index)
		n--;
	return n > 0;
}

int fleet_flip(struct fleet *fleet, const struct message_flip *flip)
{
	if (flip->n_on > sizeof flip->on / sizeof *flip->on || flip->n_off > sizeof flip->off / sizeof *flip->off)
		return -EPROTO;
	for (struct front_worker *w = fleet->workers; w; w = w->next) {
		if (is_listed(flip->on, flip->n_on, w->index))
			begin_serving(w);
		else if (is_listed(flip->off, flip->n_off, w->index))
			w->duty = WORKER_RETIRED;
	}
	fleet_settle(fleet);
	return 0;
}

void fleet_settle(struct fleet *fleet)
{
	for (struct front_worker *w = fleet->workers; w; w = w->next)
		worker_settle(w);
}

void fleet_worker_copy(struct fleet *fleet, const struct message_worker_copy *is)
{
	for (struct front_worker *worker = fleet->workers; worker; worker = worker->next)
		if (worker->index == is->worker)
			worker->degraded = is->degraded != 0;
}

void fleet_worker_down(struct front *front, uint32_t index)
{
	for (struct front_worker **at = &front->fleet.workers; *at; at = &(*at)->next) {
		struct front_worker *worker = *at;
		if (worker->index != index)
			continue;
		*at = worker->next;
		worker_close(worker, "the worker that was making this answer has died");
		return;
	}
}

uint64_t fleet_beginning(const struct fleet *fleet, const struct front_call *call)
{
	if (!fleet->by_beginning || !call_generates(call) || call->begin.prompt_bytes < FLEET_BEGINNING_BYTES)
		return 0;
	/* The prompt comes first there; what one adapter keeps is of no use to another. */
	uint64_t hash = XXH3_64bits_withSeed(call->bytes.bytes, FLEET_BEGINNING_BYTES, call->begin.adapter);
	return hash ? hash : 1;
}

static uint64_t load_of(const struct front_worker *worker)
{
	return (uint64_t)worker->n_calls * CALL_WEIGHT_BYTES + worker->waiting_bytes;
}

static uint64_t rank_of(const struct front_worker *worker, uint64_t beginning)
{
	return XXH3_64bits_withSeed(&worker->index, sizeof worker->index, beginning);
}

/* Whether new calls are to go to good copies alone: one of them has room. */
static bool good_has_room(const struct fleet *fleet, const struct fleet_model *model)
{
	for (struct front_worker *w = fleet->workers; w; w = w->next)
		if (w->model == model && worker_is_ready(w) && !w->degraded && w->n_calls < fleet->max_running)
			return true;
	return false;
}

static bool may_take(struct front_worker *worker, const struct fleet_model *model, bool good_only)
{
	return worker->model == model && worker_is_ready(worker) && !(good_only && worker->degraded);
}

static struct front_worker *least_busy(struct fleet *fleet, const struct fleet_model *model, bool good_only)
{
	struct front_worker *best = NULL;
	for (struct front_worker *w = fleet->workers; w; w = w->next) {
		if (!may_take(w, model, good_only))
			continue;
		/* Equally busy ones take turns. */
		if (!best || load_of(w) < load_of(best) ||
		    (load_of(w) == load_of(best) && w->n_routed < best->n_routed))
			best = w;
	}
	return best;
}

struct front_worker *fleet_choose(struct fleet *fleet, const struct fleet_model *model, uint64_t beginning)
{
	bool good_only = good_has_room(fleet, model);
	struct front_worker *best = least_busy(fleet, model, good_only);
	if (!best || !beginning)
		return best;
	uint64_t most = load_of(best) + MARGIN_BYTES;
	for (struct front_worker *w = fleet->workers; w; w = w->next)
		if (may_take(w, model, good_only) && load_of(w) <= most &&
		    rank_of(w, beginning) > rank_of(best, beginning))
			best = w;
	return best;
}

static bool is_stalled(struct front_worker *worker, uint64_t now_ns)
{
	const struct worker_counters *counters = channel_counters(&worker->peer.channel);
	uint64_t since = worker_count(&counters->progress_ns);
	if (worker->n_calls == 0 && worker_count(&counters->running) + worker_count(&counters->waiting) == 0)
		return false;
	if (worker->n_calls && worker->busy_since_ns > since)
		since = worker->busy_since_ns; /* an idle engine need not have shown anything before that */
	return now_ns > since && now_ns - since > STALLED_S * 1000000000ull;
}

enum fleet_health fleet_check(struct fleet *fleet, const struct fleet_model *model, uint64_t now_ns)
{
	enum fleet_health health = FLEET_NOT_READY;
	for (struct front_worker *w = fleet->workers; w; w = w->next) {
		if (w->model != model || !worker_is_ready(w))
			continue;
		if (!is_stalled(w, now_ns))
			return FLEET_OK;
		health = FLEET_STALLED;
	}
	return health;
}
