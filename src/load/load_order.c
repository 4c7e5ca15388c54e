#include "src/load/load_order.h"

#include <errno.h>
#include <string.h>

#include "io/loop.h"
#include "src/engine/image.h"
#include "src/load/load.h"
#include "src/load/model_quantize.h"

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
	for (uint32_t i = 0; i < order->n_nodes; i++)
		for (uint32_t j = 0; j < i; j++)
			if (order->node[i] == order->node[j])
				return err_set(err, -EINVAL, "the order to load names node %u twice", order->node[i]);
	return 0;
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
}

int load_order_cpus(const struct topology *topology, unsigned node, const struct idset **out, struct err *err)
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
	*out = &best->cpus;
	return 0;
}
