/* What a daemon did between two looks at it: rates of its workers, added up by node. */
#ifndef WEIGHTD_TOP_H
#define WEIGHTD_TOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "src/err.h"

enum { TOP_WORKERS_MAX = 256, TOP_NODES_MAX = 64 };

struct yyjson_val;

struct top_worker {
	uint32_t index;
	pid_t pid; /* 0: there is none at the moment */
	unsigned node;
	char model[128], state[32];
	uint64_t generated_tokens, prompt_tokens; /* since it was started */
	uint64_t cpu_ns;			  /* of all its threads; 0: not known */
	uint64_t running, waiting, kv_pages_used, kv_pages, private_bytes, restarts;
};

struct top_look {
	uint64_t at_ns;
	struct top_worker workers[TOP_WORKERS_MAX];
	unsigned n_workers;
	uint64_t private_bytes; /* of all processes */
	char state[32], instance[64];
};

/* Takes a look from the daemon's answer to "overview", and CPU times from the kernel. */
void top_look(struct yyjson_val *overview, uint64_t now_ns, struct top_look *out);

/* By the second. */
struct top_rates {
	double generated, prompt, cpu; /* cpu: of CPUs, 1.5 is one and a half */
};

/* A worker that was replaced in between, or not there before, has counted from 0 on. */
struct top_rates top_worker_rates(const struct top_look *before, const struct top_look *now, unsigned worker);

struct top_node {
	unsigned node, n_workers;
	uint64_t running, waiting;
	struct top_rates rates;
};

/* The nodes that have workers, by number: how many. */
unsigned top_nodes(const struct top_look *before, const struct top_look *now, struct top_node out[TOP_NODES_MAX]);

#endif
