/* What only the parent knows and clients may read: private memory and CPU time of all processes, the nodes and where
 * the weights lie, hangs and restarts. The front gets it once a second, for /metrics. It is sent only to a front whose
 * loop has turned since the last time, so that a hanging one finds in its socket, when it is looked at again, no more
 * than the one snapshot, and messages that must arrive still have room. */
#include "src/parent/parent_internal.h"

#include <assert.h>

#include "src/clock.h"

enum { FIGURES_MS = 1000 };

static_assert((int)PARENT_WORKERS_MAX <= (int)(sizeof((struct message_figures *)0)->worker_private_bytes / 8),
	      "every worker has a place");
static_assert((int)PARENT_AUDIO_MAX <= (int)(sizeof((struct message_figures *)0)->audio_cpu_ns / 8),
	      "and so has audio");
static_assert(sizeof(struct message_figures) <= MESSAGE_MAX_BYTES, "one message holds it");

static struct figures_node *find_node(struct message_figures *figures, uint32_t node)
{
	uint32_t n = 0;
	while (n < figures->n_nodes && figures->node[n].node != node)
		n++;
	if (n == sizeof figures->node / sizeof *figures->node)
		return NULL;
	if (n == figures->n_nodes)
		figures->node[figures->n_nodes++] =
			(struct figures_node){.node = node, .verified = 1, .checked_ns = UINT64_MAX};
	return &figures->node[n];
}

static void add_machine(struct message_figures *figures, const struct topology *topology)
{
	for (unsigned i = 0; i < topology_n_nodes(topology); i++) {
		struct figures_node *node = find_node(figures, topology_node(topology, i)->os_index);
		if (node)
			node->counted = !node_counters_read(NULL, node->node, &node->counters);
	}
}

static void add_copy(struct message_figures *figures, const struct parent_copy *copy)
{
	const struct placement *p = &copy->segment.report.placement;
	struct figures_node *node = find_node(figures, copy->segment.node);
	if (!node)
		return;
	node->n_copies++;
	node->small_bytes += copy->segment.report.small_bytes;
	node->huge_bytes += copy->segment.report.huge_bytes;
	node->giant_bytes += copy->segment.report.giant_bytes;
	node->verified &= placement_verified(p);
	node->degraded += copy_is_degraded(copy);
	node->pages += p->pages;
	node->on_node += p->on_node;
	node->misplaced += p->misplaced;
	node->absent += p->absent;
	node->unknown += p->unknown;
	if (copy->checked_ns < node->checked_ns)
		node->checked_ns = copy->checked_ns;
}

/* Bytes of a model's weights on a node that could be swapped out: those that no worker has locked. The kernel says of a
 * worker only how much it has locked; besides the model's copies, which are of one size, it locks its adapters. */
static void add_unlocked(struct message_figures *figures, const struct parent *parent, uint32_t model)
{
	struct idset read;
	for (uint32_t c = 0; c < parent->models[model].n_copies; c++) {
		const struct message_segment *segment = &parent->models[model].copies[c].segment;
		struct figures_node *node = find_node(figures, segment->node);
		/* Pages of a pool are never swapped out, and not counted as locked. */
		uint64_t bytes = segment_is_pooled(segment->backing) ? 0 : segment->report.total_bytes, locked = 0;
		for (const struct parent_adapter *a = parent->adapters; a; a = a->next)
			for (uint32_t k = 0; k < a->n_copies && a->model == model; k++)
				if (a->copies[k].segment.node == segment->node)
					bytes += a->copies[k].segment.report.total_bytes;
		for (uint32_t i = 0; i < parent->n_workers; i++) {
			const struct parent_worker *worker = &parent->workers[i];
			if (!worker->child.pid || worker->model != model)
				continue;
			worker_copy_nodes(parent, worker, &read);
			uint64_t own = worker->memory.locked_bytes / idset_count(&read);
			if (idset_has(&read, segment->node) && own > locked)
				locked = own;
		}
		if (node && bytes > locked)
			node->unlocked_bytes += bytes - locked;
	}
}

static void fill(const struct parent *parent, struct message_figures *figures)
{
	add_machine(figures, parent->topology);
	figures->parent_cpu_ns = parent->own_cpu.total_ns;
	figures->front_cpu_ns = parent->front_cpu.total_ns;
	figures->parent_private_bytes = parent->own_memory.private_bytes;
	figures->parent_private_peak_bytes = parent->own_memory.private_peak_bytes;
	figures->front_private_bytes = parent->front_memory.private_bytes;
	figures->front_private_peak_bytes = parent->front_memory.private_peak_bytes;
	figures->n_workers = parent->n_workers;
	for (uint32_t i = 0; i < parent->n_workers; i++) {
		const struct parent_worker *worker = &parent->workers[i];
		figures->worker_private_bytes[i] = worker->child.pid ? worker->memory.private_bytes : 0;
		figures->worker_private_peak_bytes[i] = worker->memory.private_peak_bytes;
		figures->worker_cpu_ns[i] = worker->cpu.total_ns;
		figures->worker_cpus_gone[i] = (uint16_t)idset_count(&worker->cpus_gone);
		figures->worker_node[i] = (uint16_t)worker->plan.node;
	}
	for (uint32_t i = 0; i < parent->config.audio_processes; i++) {
		const struct parent_audio *audio = &parent->audio[i];
		figures->audio_private_bytes[i] = audio->child.pid ? audio->memory.private_bytes : 0;
		figures->audio_private_peak_bytes[i] = audio->memory.private_peak_bytes;
		figures->audio_cpu_ns[i] = audio->cpu.total_ns;
		figures->audio_restarts += audio->restarts;
	}
	figures->n_audio = parent_needs_audio(parent) ? parent->config.audio_processes : 0;
	for (uint32_t m = 0; m < parent->config.n_models; m++) {
		const struct parent_model *model = &parent->models[m];
		for (uint32_t c = 0; c < model->n_copies; c++)
			add_copy(figures, &model->copies[c]);
		for (uint32_t c = 0; c < model->change.n_copies; c++)
			add_copy(figures, &model->change.copies[c]);
		add_unlocked(figures, parent, m);
	}
	for (const struct parent_adapter *a = parent->adapters; a; a = a->next)
		for (uint32_t c = 0; c < a->n_copies; c++)
			add_copy(figures, &a->copies[c]);
	figures->sampled_pages = parent->sampled_pages;
	figures->sampled_misplaced = parent->sampled_misplaced;
	figures->front_restarts = parent->front_restarts;
	figures->worker_hangs = parent->hangs[CHILD_WORKER];
	figures->front_hangs = parent->hangs[CHILD_FRONT];
	figures->other_hangs = parent->hangs[CHILD_LOADER] + parent->hangs[CHILD_VERIFIER] +
			       parent->hangs[CHILD_ADAPTER_LOADER] + parent->hangs[CHILD_AUDIO];
}

void figures_turn(struct parent *parent, uint64_t now_ns)
{
	static struct message_figures figures; /* large; one thread */
	if (!parent->front_ready || !parent->front.pid || now_ns - parent->figures_ns < FIGURES_MS * CLOCK_MS_NS)
		return;
	uint64_t turns = pulse_turns(parent->front_pulse);
	if (turns == parent->figures_turns)
		return;
	parent->figures_ns = now_ns;
	parent->figures_turns = turns;
	figures = (struct message_figures){0};
	fill(parent, &figures);
	/* One that does not arrive is made good by the next. */
	message_send(parent->front.fd, MESSAGE_FIGURES, &figures, sizeof figures, NULL, 0);
	overview_tell(parent);
}
