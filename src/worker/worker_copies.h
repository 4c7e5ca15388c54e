/* The copies of the weights that a worker reads, and which of its threads reads which: one copy on the worker's node,
 * or (parallel = tensor) one on each node that it has threads on. All have the same bytes; a thread reads the near one.
 *
 *   node      0                 1
 *   copy      0                 1                  whose pages are all there
 *   threads   0 1 2 3           4 5 6 7            one for each CPU of a part, in their order
 *
 * A compute thread's private memory comes from its node, too, from its start on: its scratch, and of what threads share
 * (rows of a pass, keys and values) what it is the first to write. */
#ifndef WEIGHTD_WORKER_COPIES_H
#define WEIGHTD_WORKER_COPIES_H

#include <stdbool.h>

#include "src/engine/model.h"
#include "src/message.h"

struct worker_copy {
	struct segment_view segment;
	struct model model;
};

/* A compute thread's place: the CPU it is bound to, the copy it reads, and the node its private memory comes from. */
struct worker_place {
	uint16_t cpu, copy, node;
};

struct worker_copies {
	struct worker_copy *copies; /* [n] owned */
	uint32_t n;
	struct worker_place *places; /* [n_threads] owned */
	const struct model **models; /* [n_threads] owned, as forward_setup takes it; views of `copies` */
	unsigned n_threads;
	bool keep_policy; /* threads keep the memory policy that they inherit */
};

/* Adds a part's threads, and maps the copy that it brings behind `fd` (borrowed; -1: it brings none). -EINVAL for a
 * part that names no CPU or no copy, -ENOMEM, and what segment_attach says. */
int worker_copies_add(struct worker_copies *copies, const struct message_part *part, int fd, struct err *err);
/* Locks all of them into memory. -ENOMEM, -EPERM: the limit does not allow it. */
int worker_copies_lock(const struct worker_copies *copies);
/* Opens what all of them hold as models; they must hold the same. -EINVAL, -ENOMEM. */
int worker_copies_open(struct worker_copies *copies, struct err *err);
void worker_copies_fini(struct worker_copies *copies); /* half-built ones, too */

/* To be run by each compute thread (team_start, with the copies as `arg`): binds it to its CPU, and its memory to its
 * node where the kernel lets it. */
int worker_copies_start_thread(void *copies, unsigned thread);

#endif
