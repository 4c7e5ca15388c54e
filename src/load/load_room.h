/* Whether the copies that a load makes fit, said before its files are read: how much is needed, how much is free on
 * each node, and which placement would fit. */
#ifndef WEIGHTD_LOAD_ROOM_H
#define WEIGHTD_LOAD_ROOM_H

#include "numa/topology.h"
#include "src/message.h"

enum { LOAD_ROOM_NODES_MAX = 256 };

struct load_room {
	struct load_room_node {
		unsigned node;
		uint64_t free_bytes; /* UINT64_MAX: not known */
		bool advised;	     /* a copy may be put here, and somebody would read it: its CPUs may be used, too */
	} nodes[LOAD_ROOM_NODES_MAX];
	unsigned n;	      /* nodes whose memory may be used */
	uint64_t group_bytes; /* left in the control group; UINT64_MAX: no limit, or not known */
};

/* What there is now. `memory`: nodes that the settings leave, as an order has them. A figure that may not be read is
 * taken for enough: segments are made in steps that look again. */
void load_room_read(const struct topology *topology, const struct idset *memory, struct load_room *out);

/* 0, or -ENOMEM for copies of `total_bytes` each where the order wants them; -EXFULL: not beside the copies that the
 * order says are served, but in their place, so one node after the other. */
int load_room_check(const struct load_room *room, const struct message_load *order, uint64_t total_bytes,
		    struct err *err);

#endif
