/* The plan of this machine, and holding the daemon to it. Children inherit CPUs and memory policy, and cut both down
 * further for themselves: so what cpunodebind, physcpubind and membind leave out, no process of the daemon uses. */
#include "src/parent/parent_internal.h"

#include <errno.h>
#include <string.h>

#include "numa/bind.h"
#include "src/log.h"
#include "src/parent/model_files.h"

/* What comes with a copy: page tables, buffers, the kernel's own reserve. */
enum { BESIDE_A_COPY_BYTES = 64 << 20 };

/* What copies of all models will take together, as their files are large; those that are not there are not counted:
 * loading them will say so. */
static uint64_t models_bytes(const struct config *config)
{
	static struct segment_source source; /* large; one thread */
	uint64_t sum = 0;
	for (uint32_t i = 0; i < config->n_models; i++) {
		struct model_files files = {.n = 0};
		if (!model_files_find(&config->models[i], &files, NULL) && !model_files_describe(&files, &source, NULL))
			sum += source.size_bytes + BESIDE_A_COPY_BYTES;
		model_files_free(&files);
	}
	return sum;
}

/* Nodes whose free memory is not known are taken to have enough. */
static void find_roomy(const struct topology *topology, const struct config *config, struct idset *out)
{
	uint64_t needed = models_bytes(config), free_bytes;
	idset_clear(out);
	for (unsigned i = 0; i < topology_n_nodes(topology); i++) {
		unsigned node = topology_node(topology, i)->os_index;
		if (topology_free_bytes(node, &free_bytes) || free_bytes >= needed)
			idset_add(out, node);
	}
}

static int make(const struct topology *topology, const struct config *config, struct plan *out, struct err *err)
{
	struct idset roomy;
	if (config->preferred[0])
		find_roomy(topology, config, &roomy);
	return plan_make(topology, config, config->preferred[0] ? &roomy : NULL, out, err);
}

static int hold(struct parent *parent, struct err *err)
{
	struct refusals refused = {{0}};
	int rc = bind_thread(&parent->plan.cpus, err);
	if (rc || !parent->plan.memory_is_bound)
		return rc;
	rc = bind_process_nodes(&parent->plan.memory, err);
	return refusals_note(&refused, NUMA_SET_MEMPOLICY, rc) ? placement_refused_at_start(parent, &refused, err) : rc;
}

int parent_make_plan(struct parent *parent, struct err *err)
{
	int rc = topology_load(NULL, &parent->topology, err);
	if (rc == 0)
		rc = make(parent->topology, &parent->config, &parent->plan, err);
	if (rc == 0)
		rc = placement_try(parent, err);
	if (rc == 0)
		rc = hold(parent, err);
	if (rc == 0 && parent->plan.fell_back)
		log_warning("preferred: node %.60s has not enough free memory; the copies go to node %d",
			    parent->config.preferred, idset_first(&parent->plan.copy_nodes));
	return rc;
}

/* The plan has a worker on each node; which models join them. */
static void print_joined(const struct config *config, FILE *out)
{
	for (uint32_t i = 0; i < config->n_models; i++)
		if (config->models[i].parallel == PARALLEL_TENSOR)
			fprintf(out, "model %s: parallel = tensor, so its workers on all nodes are %u process%s\n",
				config->models[i].name, config->workers_per_node,
				config->workers_per_node == 1 ? "" : "es");
}

int parent_plan(const struct config *config, FILE *out, struct err *err)
{
	static struct plan plan; /* large; one thread */
	struct topology *topology = NULL;
	int rc = topology_load(NULL, &topology, err);
	if (rc == 0)
		rc = make(topology, config, &plan, err);
	if (rc == 0) {
		plan_print(&plan, topology, out);
		print_joined(config, out);
	}
	topology_free(topology);
	return rc;
}
