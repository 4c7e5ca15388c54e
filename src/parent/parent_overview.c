/* Models, copies and workers one by one, for GET /v1/status of the front, which knows of them only what it needs to
 * give calls away. It is sent with the figures, so that a front which hangs finds no more than one of each. */
#include "src/parent/parent_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "src/clock.h"
#include "src/parent/status.h"

static_assert(sizeof(struct message_overview) <= MESSAGE_MAX_BYTES, "one message holds it");
static_assert((int)OVERVIEW_MODELS_MAX >= (int)CONFIG_MODELS_MAX, "every model has a place");
static_assert((int)OVERVIEW_WORKERS_MAX >= (int)PARENT_WORKERS_MAX, "every worker has a place");

static void add_copies(struct message_overview *overview, const struct parent *parent, uint32_t model, uint32_t adapter,
		       const struct parent_copy *copies, uint32_t n_copies)
{
	for (uint32_t c = 0; c < n_copies; c++) {
		const struct message_segment *segment = &copies[c].segment;
		const struct segment_report *report = &segment->report;
		const struct plan_copy *plan = plan_copy(&parent->plan, segment->node);
		if (overview->n_copies == OVERVIEW_COPIES_MAX) {
			overview->n_copies_more += n_copies - c;
			return;
		}
		overview->copy[overview->n_copies++] = (struct overview_copy){
			.small_bytes = report->small_bytes,
			.huge_bytes = report->huge_bytes,
			.giant_bytes = report->giant_bytes,
			.pages = report->placement.pages,
			.misplaced = report->placement.misplaced,
			.adapter = adapter,
			.generation = segment->generation,
			.node = (uint16_t)segment->node,
			.n_nodes = plan ? (uint16_t)idset_count(&plan->nodes) : 1,
			.model = (uint8_t)model,
			.degraded = copy_is_degraded(&copies[c]),
			.verified = placement_verified(&report->placement),
		};
	}
}

static void add_model(struct message_overview *overview, const struct parent *parent, uint32_t index)
{
	const struct parent_model *model = &parent->models[index];
	const struct parent_change *change = &model->change;
	struct overview_model *out = &overview->model[index];
	const char *why;
	snprintf(out->name, sizeof out->name, "%s", model->config->name);
	if (model->n_copies)
		snprintf(out->architecture, sizeof out->architecture, "%.31s", model->copies[0].segment.architecture);
	out->standing = model_standing(parent, index, &why);
	out->generation = model->n_copies ? model->generation : 0;
	if (change->state != CHANGE_NONE) {
		out->next_generation = change->generation;
		snprintf(out->change, sizeof out->change, "%s", status_change_word(change));
	}
	if (model->state == MODEL_LOADING || change->state == CHANGE_FILLING) {
		out->done_bytes = model->done_bytes;
		out->total_bytes = model->total_bytes;
	}
}

static void add_worker(struct message_overview *overview, const struct parent *parent, uint32_t index, uint64_t now_ns)
{
	const struct parent_worker *worker = &parent->workers[index];
	struct overview_worker *out = &overview->worker[index];
	if (worker->model == PARENT_NO_MODEL)
		return;
	out->is_there = 1;
	out->model = (uint8_t)worker->model;
	out->shared_bytes = worker->child.pid ? worker->memory.shared_bytes : 0;
	out->generation = worker->generation;
	out->restarts = worker->restarts;
	if (worker->backoff.due_ns > now_ns)
		out->restart_in_ms = (uint32_t)((worker->backoff.due_ns - now_ns) / CLOCK_MS_NS);
	out->node = (uint16_t)worker->plan.node;
	out->copy_node = (uint16_t)worker->plan.copy_node;
	idset_format(&worker->plan.cpus, out->cpus, sizeof out->cpus);
	snprintf(out->state, sizeof out->state, "%s", status_worker_word(worker));
}

void overview_tell(struct parent *parent)
{
	static struct message_overview overview; /* large; one thread */
	uint64_t now_ns = clock_now_ns();
	overview = (struct message_overview){.uptime_s = (now_ns - parent->started_ns) / (1000 * CLOCK_MS_NS)};
	overview.n_models = parent->config.n_models;
	overview.n_workers = parent->n_workers;
	for (uint32_t m = 0; m < parent->config.n_models; m++) {
		const struct parent_model *model = &parent->models[m];
		if (model->state == MODEL_NONE)
			continue;
		add_model(&overview, parent, m);
		add_copies(&overview, parent, m, 0, model->copies, model->n_copies);
		add_copies(&overview, parent, m, 0, model->change.copies, model->change.n_copies);
	}
	for (const struct parent_adapter *a = parent->adapters; a; a = a->next)
		add_copies(&overview, parent, a->model, a->id, a->copies, a->n_copies);
	for (uint32_t i = 0; i < parent->n_workers; i++)
		add_worker(&overview, parent, i, now_ns);
	front_tell(parent, MESSAGE_OVERVIEW, &overview, sizeof overview);
}
