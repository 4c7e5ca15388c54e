/* What an order to load or to adopt means: whether it can be followed, the segment it asks for on a node, and the CPUs
 * that work on it. */
#ifndef WEIGHTD_LOAD_ORDER_H
#define WEIGHTD_LOAD_ORDER_H

#include "numa/topology.h"
#include "src/message.h"

/* 0 or -EINVAL. The order comes from the parent, but a wrong one must not become a wrong write. */
int load_order_check(const struct message_load *order, struct err *err);

/* The segment of `node` without its payload_bytes; borrows the order's strings. */
void load_order_spec(const struct message_load *order, unsigned node, const struct segment_source *source,
		     struct segment_spec *out);

/* All nodes of the copy that is named for `node`; empty: there is none. */
void load_order_nodes(const struct message_load *order, unsigned node, struct idset *out);

/* The CPUs that fill or hash the copy of `node`: those of all its nodes, and for a node without any those of the
 * nearest that has some. */
int load_order_cpus(const struct topology *topology, const struct message_load *order, unsigned node, struct idset *out,
		    struct err *err);

#endif
