#include "src/load/load_order.h"

#include <errno.h>
#include <string.h>

#include "io/loop.h"
#include "numa/interleave.h"
#include "src/engine/image.h"
#include "src/load/load.h"
#include "src/load/model_quantize.h"

/* A node is part of one copy, once. */
static int check_nodes(const struct message_load *order, struct err *err)
{
	struct idset named;
	uint32_t n_more = 0;
	idset_clear(&named);
	for (uint32_t i = 0; i < order->n_nodes; i++) {
		uint32_t end = n_more + order->n_more[i];
		if (end > sizeof order->more / sizeof *order->more || order->n_more[i] >= INTERLEAVE_NODES_MAX)
			return err_set(err, -EINVAL, "the order to load spreads copies over more nodes than possible");
		for (uint32_t k = n_more; k <= end; k++) {
			unsigned node = k < end ? order->more[k] : order->node[i];
			if (idset_has(&named, node) || node >= IDSET_MAX)
				return err_set(err, -EINVAL, "the order to load names node %u twice", node);
			idset_add(&named, node);
		}
		n_more = end;
	}
	return 0;
}

int load_order_check(const struct message_load *order, struct err *err)
{
	if (!memchr(order->path, '\0', sizeof order->path) || !memchr(order->instance, '\0', sizeof order->instance) ||
	    !memchr(order->model, '\0', sizeof order->model))
		return err_set(err, -EINVAL, "the order to load has a string without an end");
	if (order->n_files < 1 || order->n_files > SEGMENT_FILES_MAX)
		return err_set(err, -EINVAL, "the order to load names %u files, possible are 1 to %d", order->n_files,
			       SEGMENT_FILES_MAX);
	if (order->n_nodes < 1 || order->n_nodes > LOAD_NODES_MAX)
		return err_set(err, -EINVAL, "the order to load names %u nodes, possible are 1 to %d", order->n_nodes,
			       LOAD_NODES_MAX);
	if (order->backing > SEGMENT_POOL_1G || order->huge > SEGMENT_HUGE_ON || order->io > IO_EPOLL ||
	    order->quantize > MODEL_INT4)
		return err_set(err, -EINVAL, "the order to load has backing %u, huge %u, io %u, quantize %u",
			       order->backing, order->huge, order->io, order->quantize);
	return check_nodes(order, err);
}

void load_order_nodes(const struct message_load *order, unsigned node, struct idset *out)
{
	idset_clear(out);
	for (uint32_t i = 0, more = 0; i < order->n_nodes; more += order->n_more[i++]) {
		if (order->node[i] != node)
			continue;
		idset_add(out, node);
		for (uint32_t k = more; k < more + order->n_more[i]; k++)
			idset_add(out, order->more[k]);
	}
}

void load_order_spec(const struct message_load *order, unsigned node, const struct segment_source *source,
		     struct segment_spec *out)
{
	*out = (struct segment_spec){
		.instance = order->instance,
		.model = order->model,
		.generation = order->generation,
		.node = node,
		.backing = order->backing,
		.huge = order->huge,
		.group = (gid_t)order->group,
		.pack_layout = IMAGE_VERSION,
		.isa = PACK_ISA_X86_64,
		.source = *source,
	};
	load_order_nodes(order, node, &out->spread);
	if (idset_count(&out->spread) < 2)
		idset_clear(&out->spread);
}

/* The CPUs of one node, or of the nearest that has some. */
static int node_cpus(const struct topology *topology, unsigned node, struct idset *out, struct err *err)
{
	const struct topology_node *best = NULL;
	if (!topology_find(topology, node))
		return err_set(err, -EINVAL, "node %u: this machine has no such node", node);
	for (unsigned i = 0; i < topology_n_nodes(topology); i++) {
		const struct topology_node *candidate = topology_node(topology, i);
		if (idset_first(&candidate->cpus) < 0)
			continue;
		if (candidate->os_index == node) {
			best = candidate;
			break;
		}
		if (!best || topology_distance(topology, node, candidate->os_index) <
				     topology_distance(topology, node, best->os_index))
			best = candidate;
	}
	if (!best)
		return err_set(err, -EINVAL, "node %u: no CPU may be used to fill it", node);
	idset_or(out, &best->cpus);
	return 0;
}

int load_order_cpus(const struct topology *topology, const struct message_load *order, unsigned node, struct idset *out,
		    struct err *err)
{
	struct idset nodes, cpus;
	int rc = 0;
	load_order_nodes(order, node, &nodes);
	idset_clear(&cpus);
	for (int at = idset_first(&nodes); at >= 0 && rc == 0; at = idset_next(&nodes, at))
		rc = node_cpus(topology, (unsigned)at, &cpus, err);
	if (rc == 0)
		*out = cpus;
	return rc;
}
