/* Who runs where: which nodes get a copy, how many workers each node has, and on which CPUs. Pure arithmetic over a
 * topology and the settings. */
#ifndef WEIGHTD_PLAN_H
#define WEIGHTD_PLAN_H

#include "numa/topology.h"
#include "src/config.h"

enum { PLAN_WORKERS_MAX = 256, PLAN_COPIES_MAX = 64 };

/* Whether one worker computes on one node, or on all of them, each output by a thread of the node that has its weights.
 */
enum parallel { PARALLEL_NONE, PARALLEL_TENSOR };

struct plan_worker {
	unsigned node;	      /* its CPUs' node */
	unsigned rank;	      /* among the workers of its node */
	unsigned copy_node;   /* the copy it reads, by name: of its own node, or of the nearest with one */
	unsigned memory_node; /* where its calls' memory comes from: its own, or the nearest that may be used */
	struct idset cpus;    /* one compute thread on each */
};

struct plan_copy {
	unsigned node;	    /* what it is named for: the lowest of its nodes */
	struct idset nodes; /* one, or those that it is interleaved over */
};

struct plan {
	struct plan_copy copies[PLAN_COPIES_MAX]; /* no two share a node */
	unsigned n_copies;
	struct idset copy_nodes;		      /* the nodes they are named for */
	struct plan_worker workers[PLAN_WORKERS_MAX]; /* of one model */
	unsigned n_workers;
	struct idset cpus;    /* all that any process of the daemon may run on */
	struct idset memory;  /* nodes that memory may come from */
	bool memory_is_bound; /* by membind: every process is to be held to these nodes */
	bool fell_back;	      /* the copy is not on the preferred node */
	struct idset io_cpus;
	bool oversubscribed; /* more compute threads than cores: one thread per worker, no spinning */
};

/* One worker process per node and `workers_per_node`, with disjoint CPUs while workers x threads fit into the node's
 * cores. The front's CPUs: `io_cpus` if set; else a hyperthread that no compute thread uses; else, with more than two
 * CPUs, the last core is kept for it; else it shares the last CPU. `roomy`: the nodes that copies of all models fit
 * onto right now, which only decides where a preferred node is given up for another; NULL: all. -EINVAL when nothing
 * can run, or a list names what is not there; -E2BIG. The text begins with the key. */
int plan_make(const struct topology *topology, const struct config *config, const struct idset *roomy, struct plan *out,
	      struct err *err);

/* The copy that is named for a node; NULL: none is. View. */
const struct plan_copy *plan_copy(const struct plan *plan, unsigned node);

/* What a worker's keys and values may take of a node's memory where the settings say auto: a quarter of it, divided
 * among the workers that have memory there. */
uint64_t plan_kv_bytes(uint64_t memory_bytes, uint32_t n_sharers);

/* As text, a line for each copy and worker: what weightd --plan prints. */
void plan_print(const struct plan *plan, const struct topology *topology, FILE *out);

/* The parts of the process that plan->workers[worker] begins: with PARALLEL_NONE that worker alone, with
 * PARALLEL_TENSOR the workers of the same rank on all nodes, of which the first one begins it. Returns how many parts
 * there are, views into the plan; 0: this worker is a part of an earlier one's process. */
unsigned plan_parts(const struct plan *plan, unsigned worker, enum parallel parallel,
		    const struct plan_worker *parts[PLAN_WORKERS_MAX]);

#endif
