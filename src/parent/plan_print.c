/* A plan as text, for people and for the machines of tests/numa. */
#include "src/parent/plan.h"

static const char *plural(unsigned n)
{
	return n == 1 ? "" : "s";
}

static void print_worker(const struct plan *plan, const struct plan_worker *worker, const struct topology *topology,
			 FILE *out)
{
	char cpus[IDSET_TEXT];
	unsigned distance = topology_distance(topology, worker->node, worker->copy_node);
	unsigned n_threads = idset_count(&worker->cpus);
	fprintf(out, "worker: node %u, %u thread%s on CPU%s %s, reads node %u's copy", worker->node, n_threads,
		plural(n_threads), plural(n_threads), idset_format(&worker->cpus, cpus, sizeof cpus),
		worker->copy_node);
	/* A spread copy is at several distances. */
	if (worker->copy_node != worker->node && distance &&
	    idset_count(&plan_copy(plan, worker->copy_node)->nodes) == 1)
		fprintf(out, " (distance %u)", distance);
	if (worker->memory_node != worker->node)
		fprintf(out, ", its calls' memory on node %u", worker->memory_node);
	fputc('\n', out);
}

void plan_print(const struct plan *plan, const struct topology *topology, FILE *out)
{
	char text[IDSET_TEXT];
	for (unsigned i = 0; i < plan->n_copies; i++) {
		const struct plan_copy *copy = &plan->copies[i];
		if (idset_count(&copy->nodes) > 1)
			fprintf(out, "copy: node %u, interleaved over nodes %s\n", copy->node,
				idset_format(&copy->nodes, text, sizeof text));
		else
			fprintf(out, "copy: node %u\n", copy->node);
	}
	for (unsigned i = 0; i < plan->n_workers; i++)
		print_worker(plan, &plan->workers[i], topology, out);
	fprintf(out, "front: CPU%s %s\n", plural(idset_count(&plan->io_cpus)),
		idset_format(&plan->io_cpus, text, sizeof text));
	if (plan->memory_is_bound)
		fprintf(out, "memory: node%s %s only\n", plural(idset_count(&plan->memory)),
			idset_format(&plan->memory, text, sizeof text));
	if (plan->oversubscribed)
		fprintf(out, "oversubscribed: more workers or threads than cores, so one thread for each worker\n");
}
