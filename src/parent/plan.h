/* Who runs where: which nodes get a copy, how many workers each node has, and on which CPUs. Pure arithmetic over a
 * topology and the settings. */
#ifndef WEIGHTD_PLAN_H
#define WEIGHTD_PLAN_H

#include "numa/topology.h"
#include "src/config.h"

enum { PLAN_WORKERS_MAX = 256, PLAN_COPIES_MAX = 64 };

struct plan_worker {
	unsigned node;	    /* its CPUs' node */
	unsigned copy_node; /* the node whose copy it reads: its own, or the nearest with memory */
	struct idset cpus;  /* one compute thread on each */
};

struct plan {
	struct idset copy_nodes;
	struct plan_worker workers[PLAN_WORKERS_MAX]; /* of one model */
	unsigned n_workers;
	struct idset io_cpus;
	bool oversubscribed; /* more compute threads than cores: one thread per worker, no spinning */
};

/* One worker process per node and `workers_per_node`, with disjoint CPUs while workers x threads fit into the node's
 * cores. The front's CPUs: `io_cpus` if set; else a hyperthread that no compute thread uses; else, with more than two
 * CPUs, the last core is kept for it; else it shares the last CPU. -EINVAL when nothing can run. */
int plan_make(const struct topology *topology, const struct config *config, struct plan *out, struct err *err);

#endif
