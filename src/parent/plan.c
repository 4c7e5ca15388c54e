#include "src/parent/plan.h"

#include <errno.h>
#include <string.h>

static int last_id(const struct idset *set)
{
	int last = -1;
	for (int i = idset_first(set); i >= 0; i = idset_next(set, i))
		last = i;
	return last;
}

/* All CPUs, and one per physical core, that this process may use. */
static void collect(const struct topology *topology, struct idset *cpus, struct idset *cores, struct idset *memory)
{
	idset_clear(cpus);
	idset_clear(cores);
	idset_clear(memory);
	for (unsigned i = 0; i < topology_n_nodes(topology); i++) {
		const struct topology_node *node = topology_node(topology, i);
		idset_or(cpus, &node->cpus);
		idset_or(cores, &node->cores);
		if (node->memory_bytes && node->may_bind_memory)
			idset_add(memory, node->os_index);
	}
}

/* Chooses the front's CPUs and takes a core away from the compute threads if it needs one of its own. */
static int plan_io(const struct idset *cpus, struct idset *cores, const struct config *config, struct idset *out,
		   struct err *err)
{
	idset_clear(out);
	if (idset_count(&config->io_cpus)) {
		*out = config->io_cpus;
		idset_and(out, cpus);
		if (!idset_equal(out, &config->io_cpus)) {
			char text[IDSET_TEXT];
			return err_set(err, -EINVAL, "io_cpus: this process may only use CPUs %s",
				       idset_format(cpus, text, sizeof text));
		}
		/* CPUs given to the front are not computed on, unless nothing else is left. */
		struct idset rest = *cores;
		for (int cpu = idset_first(out); cpu >= 0; cpu = idset_next(out, cpu))
			idset_remove(&rest, (unsigned)cpu);
		if (idset_count(&rest))
			*cores = rest;
		return 0;
	}
	struct idset threads = *cpus;
	for (int cpu = idset_first(cores); cpu >= 0; cpu = idset_next(cores, cpu))
		idset_remove(&threads, (unsigned)cpu);
	int chosen = last_id(idset_count(&threads) ? &threads : cpus);
	idset_add(out, (unsigned)chosen);
	if (!idset_count(&threads) && idset_count(cpus) > 2)
		idset_remove(cores, (unsigned)chosen);
	return 0;
}

/* The workers of one node over its cores [n_cores]. */
static int plan_node(struct plan *plan, const struct topology_node *node, const struct idset *cores, unsigned copy_node,
		     const struct config *config, struct err *err)
{
	unsigned n_workers = config->workers_per_node, n_cores = idset_count(cores);
	unsigned threads = config->threads ? config->threads : n_cores / n_workers;
	bool over = threads == 0 || threads * n_workers > n_cores;
	if (over)
		threads = 1;
	plan->oversubscribed |= over;
	int cpu = idset_first(cores);
	for (unsigned w = 0; w < n_workers; w++) {
		if (plan->n_workers == PLAN_WORKERS_MAX)
			return err_set(err, -EINVAL, "more than %d workers; lower workers_per_node", PLAN_WORKERS_MAX);
		struct plan_worker *worker = &plan->workers[plan->n_workers++];
		*worker = (struct plan_worker){.node = node->os_index, .copy_node = copy_node};
		for (unsigned t = 0; t < threads; t++) {
			idset_add(&worker->cpus, (unsigned)cpu);
			cpu = idset_next(cores, cpu);
			if (cpu < 0)
				cpu = idset_first(cores); /* only when oversubscribed, or for the very last one */
		}
	}
	return 0;
}

int plan_make(const struct topology *topology, const struct config *config, struct plan *out, struct err *err)
{
	struct idset cpus, cores, memory;
	struct plan plan;
	memset(&plan, 0, sizeof plan);
	collect(topology, &cpus, &cores, &memory);
	if (!idset_count(&cpus) || !idset_count(&memory))
		return err_set(err, -EINVAL, "the inherited affinity and cpuset leave no CPU or no memory node");
	int rc = plan_io(&cpus, &cores, config, &plan.io_cpus, err);
	if (rc)
		return rc;
	for (unsigned i = 0; i < topology_n_nodes(topology); i++) {
		const struct topology_node *node = topology_node(topology, i);
		struct idset own = node->cores;
		idset_and(&own, &cores);
		if (!idset_count(&own))
			continue;
		int copy_node = topology_nearest(topology, node->os_index, &memory);
		if (copy_node < 0)
			return err_set(err, -EINVAL, "node %u: no node with memory is within reach", node->os_index);
		idset_add(&plan.copy_nodes, (unsigned)copy_node);
		rc = plan_node(&plan, node, &own, (unsigned)copy_node, config, err);
		if (rc)
			return rc;
	}
	*out = plan;
	return 0;
}
