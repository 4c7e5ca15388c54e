/* The copies that a load makes, one on each node of its order: room for all of them first, then the first is filled by
 * the caller and the others are made from it, then all are published or none. */
#ifndef WEIGHTD_LOAD_COPIES_H
#define WEIGHTD_LOAD_COPIES_H

#include "src/load/load.h"

struct load_copies {
	const struct message_load *order;  /* borrows */
	struct topology *topology;	   /* owned */
	struct idset cpus[LOAD_NODES_MAX]; /* that work on each copy */
	struct segment segments[LOAD_NODES_MAX];
	uint32_t n; /* made, of order->n_nodes */
};

/* Takes the room for `payload_bytes` on every node, of objects whose header says `pack_layout` and `source`. On failure
 * what was made is for load_copies_end. */
int load_copies_begin(struct load_copies *copies, const struct message_load *order, const struct segment_source *source,
		      uint32_t pack_layout, uint64_t payload_bytes, struct err *err);
/* Binds the calling thread to the first copy's node, and gives that copy's payload to be filled. */
int load_copies_first(struct load_copies *copies, void **payload, struct err *err);
/* Makes the others, by threads of their nodes. */
int load_copies_spread(struct load_copies *copies, struct err *err);
/* Publishes all and holds them against each other. `what`: its architecture and context, for every one. */
int load_copies_publish(struct load_copies *copies, const struct message_segment *what, struct loaded *out,
			struct err *err);
/* Removes what was not published. */
void load_copies_end(struct load_copies *copies);

#endif
