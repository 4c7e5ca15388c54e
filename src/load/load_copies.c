#include "src/load/load_copies.h"

#include <errno.h>
#include <string.h>

#include "numa/bind.h"
#include "src/load/load_order.h"

static void destroy_all(struct load_copies *copies)
{
	for (uint32_t i = 0; i < copies->n; i++)
		segment_destroy(&copies->segments[i]); /* nothing happens to a published one */
	copies->n = 0;
}

/* Room on every node, all of one backing, or none. */
static int create_all(struct load_copies *copies, struct segment_spec *spec, struct err *err)
{
	int rc = 0;
	for (uint32_t i = 0; i < copies->order->n_nodes && rc == 0; i++) {
		spec->node = copies->order->node[i];
		rc = load_order_cpus(copies->topology, spec->node, &spec->cpus, err);
		if (rc == 0)
			rc = segment_create(spec, &copies->segments[i], err);
		copies->n += rc == 0;
	}
	if (rc)
		destroy_all(copies);
	return rc;
}

int load_copies_begin(struct load_copies *copies, const struct message_load *order, const struct segment_source *source,
		      uint32_t pack_layout, uint64_t payload_bytes, struct err *err)
{
	struct segment_spec spec;
	copies->order = order;
	load_order_spec(order, order->node[0], source, &spec);
	spec.pack_layout = pack_layout;
	spec.payload_bytes = payload_bytes;
	int rc = topology_load(NULL, &copies->topology, err);
	if (rc == 0)
		rc = create_all(copies, &spec, err);
	bool replaceable =
		spec.backing == SEGMENT_SHM || (segment_is_pooled(spec.backing) && spec.huge == SEGMENT_HUGE_TRY);
	if (rc == -ENOSPC && replaceable) {
		/* A container's /dev/shm is often 64 MiB, and a pool has what somebody set aside; a memfd is bounded by
		 * neither. Status tells which it is. */
		spec.backing = SEGMENT_MEMFD;
		rc = create_all(copies, &spec, err);
	}
	return rc;
}

int load_copies_first(struct load_copies *copies, void **payload, struct err *err)
{
	const struct idset *cpus = NULL;
	int rc = load_order_cpus(copies->topology, copies->order->node[0], &cpus, err);
	if (rc == 0)
		rc = bind_thread(cpus, err);
	if (rc == 0)
		*payload = segment_payload(&copies->segments[0]);
	return rc;
}

int load_copies_spread(struct load_copies *copies, struct err *err)
{
	const struct idset *cpus = NULL;
	int rc = 0;
	for (uint32_t i = 1; i < copies->n && rc == 0; i++) {
		rc = load_order_cpus(copies->topology, copies->order->node[i], &cpus, err);
		if (rc == 0)
			rc = segment_copy(&copies->segments[i], copies->segments[0].base,
					  copies->segments[0].total_bytes, cpus, err);
	}
	return rc;
}

/* Publishes one copy and enters it into `out`, from where it can be discarded. */
static int publish_one(struct load_copies *copies, uint32_t i, const struct message_segment *what, struct loaded *out,
		       struct err *err)
{
	struct message_segment *made = &out->segments[i];
	*made = *what;
	memcpy(made->name, copies->segments[i].name, sizeof made->name);
	made->node = copies->order->node[i];
	made->generation = copies->order->generation;
	made->backing = copies->segments[i].spec.backing;
	int rc = segment_publish(&copies->segments[i], &out->fds[i], &made->report, err);
	if (rc)
		return rc;
	out->n = i + 1;
	if (memcmp(made->report.digest, out->segments[0].report.digest, SEGMENT_DIGEST_BYTES) != 0)
		return err_set(err, -EIO, "node %u: the copy differs from the one on node %u", made->node,
			       out->segments[0].node);
	return 0;
}

int load_copies_publish(struct load_copies *copies, const struct message_segment *what, struct loaded *out,
			struct err *err)
{
	struct loaded loaded = {.n = 0};
	for (uint32_t i = 0; i < copies->n; i++) {
		int rc = publish_one(copies, i, what, &loaded, err);
		if (rc) {
			loaded_discard(&loaded);
			return rc;
		}
	}
	*out = loaded;
	return 0;
}

void load_copies_end(struct load_copies *copies)
{
	destroy_all(copies);
	topology_free(copies->topology);
}
