/* From what there is to who runs where, in this order:
 *
 *   limits    CPUs and memory nodes of the topology (what the process inherited), cut down by cpunodebind, physcpubind
 *             and membind
 *   front     its CPUs, so that no compute thread is planned there
 *   copies    placement's nodes, out of the memory nodes
 *   workers   per node with cores left, each reading the nearest copy
 *
 * A node with memory and without CPUs (CXL, HBM, a GPU's) gets a copy only when it is the nearest that some CPU may
 * use, or is named: what is far from every CPU is no place for what every token reads. */
#include "src/parent/plan.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "numa/interleave.h"

enum { UNKNOWN_DISTANCE = 20 }; /* of another node, where the firmware says nothing: the kernel's REMOTE_DISTANCE */

struct limits {
	struct idset cpus, cores; /* that compute threads may have; cores: one CPU of each */
	struct idset cpu_nodes;	  /* nodes with some of these CPUs */
	struct idset memory;	  /* nodes */
};

static int last_id(const struct idset *set)
{
	int last = -1;
	for (int i = idset_first(set); i >= 0; i = idset_next(set, i))
		last = i;
	return last;
}

/* What numactl calls a list, of `allowed`; *out may be `allowed`. */
static int cut_down(const char *key, const char *list, const struct idset *allowed, struct idset *out, struct err *err)
{
	struct err why;
	int rc = idset_resolve(list, allowed, out, &why);
	return rc ? err_set(err, -EINVAL, "%s: %.200s", key, why.text) : 0;
}

static void cpu_nodes_of(const struct topology *topology, const struct idset *cpus, struct idset *out)
{
	idset_clear(out);
	for (unsigned i = 0; i < topology_n_nodes(topology); i++) {
		struct idset own = topology_node(topology, i)->cpus;
		idset_and(&own, cpus);
		if (idset_first(&own) >= 0)
			idset_add(out, topology_node(topology, i)->os_index);
	}
}

/* What the process was given. */
static int read_limits(const struct topology *topology, struct limits *out, struct err *err)
{
	idset_clear(&out->cpus);
	idset_clear(&out->memory);
	for (unsigned i = 0; i < topology_n_nodes(topology); i++) {
		const struct topology_node *node = topology_node(topology, i);
		idset_or(&out->cpus, &node->cpus);
		if (node->memory_bytes && node->may_bind_memory)
			idset_add(&out->memory, node->os_index);
	}
	cpu_nodes_of(topology, &out->cpus, &out->cpu_nodes);
	if (idset_first(&out->cpus) < 0 || idset_first(&out->memory) < 0)
		return err_set(err, -EINVAL, "the inherited affinity and cpuset leave no CPU or no memory node");
	return 0;
}

/* And what of it the settings want. */
static int bind_limits(const struct topology *topology, const struct config *config, struct limits *limits,
		       struct err *err)
{
	struct idset nodes, of_nodes;
	int rc = cut_down("cpunodebind", config->cpunodebind, &limits->cpu_nodes, &nodes, err);
	if (rc == 0)
		rc = cut_down("physcpubind", config->physcpubind, &limits->cpus, &limits->cpus, err);
	if (rc == 0)
		rc = cut_down("membind", config->membind, &limits->memory, &limits->memory, err);
	if (rc)
		return rc;
	idset_clear(&of_nodes);
	for (int i = idset_first(&nodes); i >= 0; i = idset_next(&nodes, i))
		idset_or(&of_nodes, &topology_find(topology, (unsigned)i)->cpus);
	idset_and(&limits->cpus, &of_nodes);
	if (idset_first(&limits->cpus) < 0)
		return err_set(err, -EINVAL,
			       "physcpubind: none of %.60s is on the nodes that cpunodebind = %.60s leaves",
			       config->physcpubind, config->cpunodebind);
	topology_cores(topology, &limits->cpus, &limits->cores);
	return 0;
}

/* Chooses the front's CPUs and takes a core away from the compute threads if it needs one of its own. */
static int plan_io(const struct topology *topology, const struct idset *given, struct limits *limits,
		   const struct config *config, struct idset *out, struct err *err)
{
	idset_clear(out);
	if (idset_count(&config->io_cpus)) {
		*out = config->io_cpus;
		idset_and(out, given);
		if (!idset_equal(out, &config->io_cpus)) {
			char text[128];
			return err_set(err, -EINVAL, "io_cpus: this process may only use CPUs %s",
				       idset_format(given, text, sizeof text));
		}
		/* CPUs given to the front are not computed on, unless nothing else is left. */
		struct idset rest = limits->cores;
		idset_without(&rest, out);
		if (idset_count(&rest))
			limits->cores = rest;
	} else {
		struct idset threads = limits->cpus;
		idset_without(&threads, &limits->cores);
		int chosen = last_id(idset_count(&threads) ? &threads : &limits->cpus);
		idset_add(out, (unsigned)chosen);
		if (!idset_count(&threads) && idset_count(&limits->cpus) > 2)
			idset_remove(&limits->cores, (unsigned)chosen);
	}
	cpu_nodes_of(topology, &limits->cores, &limits->cpu_nodes);
	return 0;
}

/* --- copies ----------------------------------------------------------------------------------- */

/* The nearest of `among` for each node that computes: all that are anybody's nearest. */
static void homes(const struct topology *topology, const struct limits *limits, const struct idset *among,
		  struct idset *out)
{
	idset_clear(out);
	for (int node = idset_first(&limits->cpu_nodes); node >= 0; node = idset_next(&limits->cpu_nodes, node)) {
		int home = topology_nearest(topology, (unsigned)node, among);
		if (home >= 0)
			idset_add(out, (unsigned)home);
	}
}

static unsigned distance(const struct topology *topology, unsigned from, unsigned to)
{
	unsigned told = topology_distance(topology, from, to);
	return told ? told : from == to ? 0 : UNKNOWN_DISTANCE;
}

/* The node with the shortest way from all cores together; of equals the lowest. */
static unsigned centre(const struct topology *topology, const struct limits *limits)
{
	uint64_t least = UINT64_MAX;
	unsigned best = 0;
	for (int to = idset_first(&limits->memory); to >= 0; to = idset_next(&limits->memory, to)) {
		uint64_t sum = 0;
		for (unsigned i = 0; i < topology_n_nodes(topology); i++) {
			const struct topology_node *node = topology_node(topology, i);
			struct idset cores = node->cpus;
			idset_and(&cores, &limits->cores);
			sum += (uint64_t)idset_count(&cores) * distance(topology, node->os_index, (unsigned)to);
		}
		if (sum < least) {
			least = sum;
			best = (unsigned)to;
		}
	}
	return best;
}

/* The node of the only copy. */
static int plan_one(const struct topology *topology, const struct config *config, const struct limits *limits,
		    const struct idset *roomy, struct plan *plan, struct idset *out, struct err *err)
{
	struct idset wanted, with_room = limits->memory;
	idset_clear(out);
	if (!config->preferred[0]) {
		idset_add(out, centre(topology, limits));
		return 0;
	}
	int rc = cut_down("preferred", config->preferred, &limits->memory, &wanted, err);
	if (rc)
		return rc;
	if (idset_count(&wanted) != 1)
		return err_set(err, -EINVAL, "preferred: %.60s are %u nodes; it takes one", config->preferred,
			       idset_count(&wanted));
	int node = idset_first(&wanted), asked = node;
	if (roomy)
		idset_and(&with_room, roomy);
	/* Where none has room the load will say how much is missing on the one that was asked for. */
	if (!config->strict && idset_first(&with_room) >= 0)
		node = topology_nearest(topology, (unsigned)node, &with_room);
	plan->fell_back = node != asked;
	idset_add(out, (unsigned)node);
	return 0;
}

/* A list is taken at its word, so a copy that nobody would read is a mistake in it. */
static int plan_list(const struct topology *topology, const struct config *config, const struct limits *limits,
		     struct idset *out, struct err *err)
{
	struct idset unread, readers;
	char text[64];
	int rc = cut_down("placement", config->placement, &limits->memory, out, err);
	if (rc)
		return rc;
	homes(topology, limits, out, &readers);
	unread = *out;
	idset_without(&unread, &readers);
	if (idset_first(&unread) >= 0)
		return err_set(
			err, -EINVAL,
			"placement: no worker would read a copy on node %s: every CPU in use is nearer to another "
			"one of %.60s",
			idset_format(&unread, text, sizeof text), config->placement);
	return 0;
}

/* A copy on each node, */
static int add_apart(struct plan *plan, const struct idset *nodes, struct err *err)
{
	for (int node = idset_first(nodes); node >= 0; node = idset_next(nodes, node)) {
		if (plan->n_copies == PLAN_COPIES_MAX)
			return err_set(err, -E2BIG, "placement: %u copies; there can be %d", idset_count(nodes),
				       PLAN_COPIES_MAX);
		struct plan_copy *copy = &plan->copies[plan->n_copies++];
		copy->node = (unsigned)node;
		idset_add(&copy->nodes, (unsigned)node);
		idset_add(&plan->copy_nodes, (unsigned)node);
	}
	return 0;
}

/* or one over all of them. */
static int add_spread(struct plan *plan, const struct idset *nodes, struct err *err)
{
	if (idset_count(nodes) > INTERLEAVE_NODES_MAX || plan->n_copies == PLAN_COPIES_MAX)
		return err_set(err, -E2BIG, "placement: a copy over %u nodes; there can be %d", idset_count(nodes),
			       INTERLEAVE_NODES_MAX);
	struct plan_copy *copy = &plan->copies[plan->n_copies++];
	copy->node = (unsigned)idset_first(nodes);
	copy->nodes = *nodes;
	idset_add(&plan->copy_nodes, copy->node);
	return 0;
}

/* One over all homes of each package. */
static int add_packages(const struct topology *topology, struct plan *plan, struct idset *nodes, struct err *err)
{
	int rc = 0;
	while (idset_first(nodes) >= 0 && rc == 0) {
		unsigned package = topology_find(topology, (unsigned)idset_first(nodes))->package;
		struct idset own;
		idset_clear(&own);
		for (int node = idset_first(nodes); node >= 0; node = idset_next(nodes, node))
			if (topology_find(topology, (unsigned)node)->package == package)
				idset_add(&own, (unsigned)node);
		idset_without(nodes, &own);
		rc = add_spread(plan, &own, err);
	}
	return rc;
}

static int plan_copies(const struct topology *topology, const struct config *config, const struct limits *limits,
		       const struct idset *roomy, struct plan *plan, struct err *err)
{
	const char *placement = config->interleave[0] ? "interleave" : config->preferred[0] ? "one" : config->placement;
	struct idset nodes;
	int rc;
	homes(topology, limits, &limits->memory, &nodes);
	if (!strcmp(placement, "node"))
		return add_apart(plan, &nodes, err);
	if (!strcmp(placement, "socket"))
		return add_packages(topology, plan, &nodes, err);
	if (!strcmp(placement, "interleave")) {
		rc = config->interleave[0] ? cut_down("interleave", config->interleave, &limits->memory, &nodes, err)
					   : 0;
		return rc ? rc : add_spread(plan, &nodes, err);
	}
	if (!strcmp(placement, "one"))
		rc = plan_one(topology, config, limits, roomy, plan, &nodes, err);
	else
		rc = plan_list(topology, config, limits, &nodes, err);
	return rc ? rc : add_apart(plan, &nodes, err);
}

const struct plan_copy *plan_copy(const struct plan *plan, unsigned node)
{
	for (unsigned i = 0; i < plan->n_copies; i++)
		if (plan->copies[i].node == node)
			return &plan->copies[i];
	return NULL;
}

/* --- workers ---------------------------------------------------------------------------------- */

/* The workers of one node over its cores [n_cores]; `as`: what they have in common. */
static int plan_node(struct plan *plan, const struct plan_worker *as, const struct idset *cores,
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
		*worker = *as;
		worker->rank = w;
		for (unsigned t = 0; t < threads; t++) {
			idset_add(&worker->cpus, (unsigned)cpu);
			cpu = idset_next(cores, cpu);
			if (cpu < 0)
				cpu = idset_first(cores); /* only when oversubscribed, or for the very last one */
		}
	}
	return 0;
}

/* The copy whose nearest node is the nearest of all. */
static unsigned nearest_copy(const struct topology *topology, const struct plan *plan, unsigned from)
{
	struct idset all;
	idset_clear(&all);
	for (unsigned i = 0; i < plan->n_copies; i++)
		idset_or(&all, &plan->copies[i].nodes);
	int nearest = topology_nearest(topology, from, &all); /* all have memory, so there is one */
	for (unsigned i = 0; i < plan->n_copies; i++)
		if (idset_has(&plan->copies[i].nodes, (unsigned)nearest))
			return plan->copies[i].node;
	return plan->copies[0].node;
}

static int plan_workers(const struct topology *topology, const struct config *config, const struct limits *limits,
			struct plan *plan, struct err *err)
{
	int rc = 0;
	for (unsigned i = 0; i < topology_n_nodes(topology) && rc == 0; i++) {
		const struct topology_node *node = topology_node(topology, i);
		struct plan_worker as = {.node = node->os_index};
		struct idset own = node->cpus;
		idset_and(&own, &limits->cores);
		if (!idset_count(&own))
			continue;
		as.copy_node = nearest_copy(topology, plan, node->os_index);
		as.memory_node = (unsigned)topology_nearest(topology, node->os_index, &limits->memory);
		rc = plan_node(plan, &as, &own, config, err);
	}
	return rc;
}

int plan_make(const struct topology *topology, const struct config *config, const struct idset *roomy, struct plan *out,
	      struct err *err)
{
	struct limits limits;
	struct plan plan;
	memset(&plan, 0, sizeof plan);
	int rc = read_limits(topology, &limits, err);
	if (rc)
		return rc;
	const struct limits given = limits;
	rc = bind_limits(topology, config, &limits, err);
	if (rc == 0)
		rc = plan_io(topology, &given.cpus, &limits, config, &plan.io_cpus, err);
	if (rc == 0)
		rc = plan_copies(topology, config, &limits, roomy, &plan, err);
	if (rc == 0)
		rc = plan_workers(topology, config, &limits, &plan, err);
	if (rc)
		return rc;
	plan.cpus = limits.cpus;
	idset_or(&plan.cpus, &plan.io_cpus);
	plan.memory = limits.memory;
	plan.memory_is_bound = strcmp(config->membind, "all") != 0;
	*out = plan;
	return 0;
}

unsigned plan_parts(const struct plan *plan, unsigned worker, enum parallel parallel,
		    const struct plan_worker *parts[PLAN_WORKERS_MAX])
{
	const struct plan_worker *first = &plan->workers[worker];
	unsigned n = 0;
	for (unsigned i = 0; i < plan->n_workers; i++) {
		const struct plan_worker *other = &plan->workers[i];
		if (other != first && (parallel == PARALLEL_NONE || other->rank != first->rank))
			continue;
		if (i < worker)
			return 0;
		parts[n++] = other;
	}
	return n;
}

uint64_t plan_kv_bytes(uint64_t memory_bytes, uint32_t n_sharers)
{
	return memory_bytes / 4 / (n_sharers ? n_sharers : 1);
}
