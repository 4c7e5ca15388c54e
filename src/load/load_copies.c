#include "src/load/load_copies.h"

#include <errno.h>
#include <string.h>

#include "numa/bind.h"
#include "src/load/load_order.h"
#include "src/load/load_room.h"

static void destroy_all(struct load_copies *copies)
{
	for (uint32_t i = 0; i < copies->n; i++)
		segment_destroy(&copies->segments[i]); /* nothing happens to a published one */
	copies->n = 0;
}

/* Room on every node, all of one backing, or none. */
static int create_all(struct load_copies *copies, const struct segment_source *source, const struct segment_spec *what,
		      struct err *err)
{
	const struct message_load *order = copies->order;
	int rc = 0;
	for (uint32_t i = 0; i < order->n_nodes && rc == 0; i++) {
		struct segment_spec spec;
		load_order_spec(order, order->node[i], source, &spec);
		spec.pack_layout = what->pack_layout;
		spec.payload_bytes = what->payload_bytes;
		spec.backing = what->backing;
		spec.cpus = &copies->cpus[i];
		rc = load_order_cpus(copies->topology, order, order->node[i], &copies->cpus[i], err);
		if (rc == 0)
			rc = segment_create(&spec, &copies->segments[i], err);
		copies->n += rc == 0;
	}
	if (rc)
		destroy_all(copies);
	return rc;
}

/* Before anything is taken. A pool's pages are not in these figures; where it has too few, it says so itself. */
static int check_room(const struct load_copies *copies, uint64_t payload_bytes, struct err *err)
{
	struct load_room room;
	if (segment_is_pooled(copies->order->backing))
		return 0;
	load_room_read(copies->topology, &copies->order->memory, &room);
	return load_room_check(&room, copies->order, payload_bytes, err);
}

int load_copies_begin(struct load_copies *copies, const struct message_load *order, const struct segment_source *source,
		      uint32_t pack_layout, uint64_t payload_bytes, struct err *err)
{
	struct segment_spec what = {
		.pack_layout = pack_layout, .payload_bytes = payload_bytes, .backing = order->backing};
	copies->order = order;
	int rc = topology_load(NULL, &copies->topology, err);
	if (rc == 0)
		rc = check_room(copies, payload_bytes, err);
	if (rc == 0)
		rc = create_all(copies, source, &what, err);
	bool replaceable =
		what.backing == SEGMENT_SHM || (segment_is_pooled(what.backing) && order->huge == SEGMENT_HUGE_TRY);
	if (rc == -ENOSPC && replaceable) {
		/* A container's /dev/shm is often 64 MiB, and a pool has what somebody set aside; a memfd is bounded by
		 * neither. Status tells which it is. */
		what.backing = SEGMENT_MEMFD;
		rc = create_all(copies, source, &what, err);
	}
	return rc;
}

int load_copies_first(struct load_copies *copies, void **payload, struct err *err)
{
	int rc = bind_thread(&copies->cpus[0], err);
	if (rc == 0)
		*payload = segment_payload(&copies->segments[0]);
	return rc;
}

int load_copies_spread(struct load_copies *copies, struct err *err)
{
	int rc = 0;
	for (uint32_t i = 1; i < copies->n && rc == 0; i++)
		rc = segment_copy(&copies->segments[i], copies->segments[0].base, copies->segments[0].total_bytes,
				  &copies->cpus[i], err);
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
