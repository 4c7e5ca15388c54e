#include "src/load/load_room.h"

#include <errno.h>
#include <string.h>

#include "numa/cgroup.h"
#include "src/load/load_order.h"

void load_room_read(const struct topology *topology, const struct idset *memory, struct load_room *out)
{
	bool any = idset_first(memory) < 0;
	out->n = 0;
	for (unsigned i = 0; i < topology_n_nodes(topology) && out->n < LOAD_ROOM_NODES_MAX; i++) {
		const struct topology_node *node = topology_node(topology, i);
		struct load_room_node *room = &out->nodes[out->n];
		if (!node->memory_bytes || !node->may_bind_memory)
			continue;
		*room = (struct load_room_node){node->os_index, UINT64_MAX,
						idset_first(&node->cpus) >= 0 &&
							(any || idset_has(memory, node->os_index))};
		topology_free_bytes(node->os_index, &room->free_bytes);
		out->n++;
	}
	out->group_bytes = UINT64_MAX;
	cgroup_memory_room(NULL, &out->group_bytes, NULL);
}

static uint64_t free_on(const struct load_room *room, unsigned node)
{
	for (unsigned i = 0; i < room->n; i++)
		if (room->nodes[i].node == node)
			return room->nodes[i].free_bytes;
	return UINT64_MAX; /* not ours to judge */
}

/* What each of so many nodes has to have free for its part of a copy. */
static uint64_t part_bytes(uint64_t total_bytes, unsigned n_nodes)
{
	return total_bytes / n_nodes + SEGMENT_RESERVE_BYTES;
}

static bool group_fits(const struct load_room *room, uint64_t total_bytes, unsigned n_copies)
{
	/* Sizes are far from where this would overflow: memory is that of one machine. */
	return total_bytes <= (room->group_bytes - SEGMENT_RESERVE_BYTES) / n_copies &&
	       room->group_bytes > SEGMENT_RESERVE_BYTES;
}

/* The settings' word for what would fit instead: copies on some of the nodes, else one over all; "": nothing. Of nodes
 * without CPUs nobody would read a copy, and on those that membind leaves out there may be none. */
static void advise(const struct load_room *room, uint64_t total_bytes, char *out, size_t size)
{
	struct idset nodes;
	char list[64];
	unsigned n_advised = 0;
	uint64_t least = UINT64_MAX;
	idset_clear(&nodes);
	for (unsigned i = 0; i < room->n; i++) {
		const struct load_room_node *node = &room->nodes[i];
		if (!node->advised)
			continue;
		n_advised++;
		least = node->free_bytes < least ? node->free_bytes : least;
		if (node->free_bytes >= part_bytes(total_bytes, 1) &&
		    group_fits(room, total_bytes, idset_count(&nodes) + 1))
			idset_add(&nodes, node->node);
	}
	*out = '\0';
	if (idset_first(&nodes) >= 0)
		snprintf(out, size, "; placement = %s would fit", idset_format(&nodes, list, sizeof list));
	else if (n_advised > 1 && least >= part_bytes(total_bytes, n_advised) && group_fits(room, total_bytes, 1))
		snprintf(out, size, "; placement = interleave would fit");
	else
		snprintf(out, size, "; no placement would fit: free memory, or take a smaller model");
}

/* "node 1 has 300 MiB, node 2 has 12 MiB and 3 more have less", of those that are short. */
static unsigned list_short(const struct load_room *room, const struct message_load *order, uint64_t total_bytes,
			   char *out, size_t size, uint64_t *most_needed)
{
	enum { LISTED = 3 };
	unsigned n_short = 0;
	*most_needed = 0;
	*out = '\0';
	for (uint32_t i = 0; i < order->n_nodes; i++) {
		struct idset nodes;
		load_order_nodes(order, order->node[i], &nodes);
		uint64_t needed = part_bytes(total_bytes, idset_count(&nodes));
		for (int node = idset_first(&nodes); node >= 0; node = idset_next(&nodes, node)) {
			uint64_t has = free_on(room, (unsigned)node);
			if (has >= needed)
				continue;
			*most_needed = needed > *most_needed ? needed : *most_needed;
			size_t used = strlen(out);
			if (n_short++ < LISTED)
				snprintf(out + used, size - used, "%snode %d has %llu MiB", used ? ", " : "", node,
					 (unsigned long long)has >> 20);
		}
	}
	size_t used = strlen(out);
	if (n_short > LISTED)
		snprintf(out + used, size - used, ", and %u more have too little", n_short - LISTED);
	return n_short;
}

static uint64_t add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Whether each copy would fit where a served one is, once that is gone and while all others are there. */
static bool fits_in_turn(const struct load_room *room, const struct message_load *order, uint64_t total_bytes)
{
	for (uint32_t i = 0; i < order->n_nodes; i++) {
		struct idset nodes;
		load_order_nodes(order, order->node[i], &nodes);
		unsigned n = idset_count(&nodes);
		for (int node = idset_first(&nodes); node >= 0; node = idset_next(&nodes, node))
			if (add(free_on(room, (unsigned)node), order->served_bytes / n) < part_bytes(total_bytes, n))
				return false;
	}
	return order->served_bytes && add(room->group_bytes, order->served_bytes) >= part_bytes(total_bytes, 1);
}

int load_room_check(const struct load_room *room, const struct message_load *order, uint64_t total_bytes,
		    struct err *err)
{
	char nodes[120], advice[80];
	uint64_t needed;
	if (list_short(room, order, total_bytes, nodes, sizeof nodes, &needed)) {
		if (fits_in_turn(room, order, total_bytes))
			return err_set(err, -EXFULL, "%llu MiB free are needed on a node: %s",
				       (unsigned long long)needed >> 20, nodes);
		advise(room, total_bytes, advice, sizeof advice);
		return err_set(err, -ENOMEM, "%llu MiB free are needed on a node: %s%s",
			       (unsigned long long)needed >> 20, nodes, advice);
	}
	if (group_fits(room, total_bytes, order->n_nodes))
		return 0;
	int rc = fits_in_turn(room, order, total_bytes) ? -EXFULL : -ENOMEM;
	*advice = '\0';
	if (rc == -ENOMEM)
		advise(room, total_bytes, advice, sizeof advice);
	return err_set(err, rc, "%u x %llu MiB are needed, the control group has %llu MiB left (MemoryMax=)%s",
		       order->n_nodes, (unsigned long long)total_bytes >> 20,
		       (unsigned long long)room->group_bytes >> 20, advice);
}
