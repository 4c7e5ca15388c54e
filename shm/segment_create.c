/* Making a segment: from a name to allocated pages on one node.
 *
 * Why in this order:
 *   - mbind() before anything touches the mapping: pages of a shared object go where the policy says when they are
 * first allocated, and the object's policy is the one its *first mapping* sets (struct shared_policy of the inode), so
 * it also rules fallocate(), which knows no mapping.
 *   - The policy is read back: a seccomp filter or an old kernel can make mbind() a success that did nothing.
 *   - fallocate() allocates: after it every page exists, so filling can no longer fail half-way with SIGBUS.
 *   - In 64 MiB steps with a look at the node's free memory and the control group before each: under MPOL_BIND a full
 * node is not an error but the OOM killer's turn, and others may allocate while we do.
 *   - Huge pages are made before the memory is filled: made later, by collapsing, each byte is copied once more, into
 *     memory that is not in any cache, and that took longer than reading and packing together.
 *
 * Where mbind() is refused, as containers do, the kernel's own rule is what is left: a page comes from the node of the
 * CPU that first touches it. So memory is allocated by a thread on the node's CPUs, always, as that also clears it
 * where it is. That alone would not do: pages go elsewhere without a word when the node is full, and nothing holds
 * them. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "numa/bind.h"
#include "numa/cgroup.h"
#include "numa/topology.h"
#include "shm/crew.h"
#include "shm/memfd.h"
#include "shm/segment.h"
#include "shm/segment_map.h"
#include "shm/segment_name.h"
#include "shm/segment_pool.h"

enum { STEP_BYTES = 64 << 20 };

static int open_named(struct segment *segment, struct err *err)
{
	char name[SEGMENT_NAME_BYTES];
	const struct segment_spec *spec = &segment->spec;
	int rc = segment_name(spec->instance, spec->model, spec->generation, spec->node, name, err);
	if (rc)
		return rc;
	rc = segment_open_new(name, &segment->fd);
	if (rc)
		return err_set(err, rc, "shared memory %s: %s", name, strerror(-rc));
	memcpy(segment->name, name, sizeof segment->name); /* from here on there is something to unlink */
	struct statvfs fs;
	if (fstatvfs(segment->fd, &fs))
		return err_set(err, -errno, "/dev/shm: %s", strerror(errno));
	/* No blocks at all: a tmpfs without a limit. */
	uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (fs.f_blocks && room < segment->total_bytes)
		return err_set(err, -ENOSPC,
			       "/dev/shm has %llu MiB free, node %u's copy of %s needs %llu MiB: enlarge it (mount -o "
			       "remount,size=... /dev/shm) or set backing = memfd",
			       (unsigned long long)room >> 20, spec->node, spec->model,
			       (unsigned long long)segment->total_bytes >> 20);
	return 0;
}

static int open_memfd(struct segment *segment, struct err *err)
{
	char name[SEGMENT_NAME_BYTES];
	const struct segment_spec *spec = &segment->spec;
	int rc = segment_name(spec->instance, spec->model, spec->generation, spec->node, name, err);
	if (rc)
		return rc;
	if (segment_is_pooled(spec->backing))
		return segment_pool_open(segment, name + 1, err);
	segment->fd = memfd_open_new(name + 1, err);
	return segment->fd < 0 ? segment->fd : 0;
}

void segment_nodes(const struct segment_spec *spec, struct idset *out)
{
	*out = spec->spread;
	if (idset_first(out) < 0)
		idset_add(out, spec->node);
}

/* Is there room for `bytes` more, on each node for its part, and in the control group? Refused access to either figure
 * is no reason to stop: the check guards against running out, it is not a permission. */
static int check_room(const struct segment_spec *spec, uint64_t bytes, struct err *err)
{
	uint64_t node_free, group_room;
	struct idset nodes;
	segment_nodes(spec, &nodes);
	uint64_t part = bytes / idset_count(&nodes) + SEGMENT_RESERVE_BYTES;
	for (int node = idset_first(&nodes); node >= 0; node = idset_next(&nodes, node))
		if (!topology_free_bytes((unsigned)node, &node_free) && node_free < part)
			return err_set(err, -ENOMEM,
				       "node %d has %llu MiB free, %llu MiB more are needed for its copy of %s", node,
				       (unsigned long long)node_free >> 20,
				       (unsigned long long)(part - SEGMENT_RESERVE_BYTES) >> 20, spec->model);
	if (!cgroup_memory_room(NULL, &group_room, NULL) && group_room < bytes + SEGMENT_RESERVE_BYTES)
		return err_set(
			err, -ENOMEM,
			"the control group has %llu MiB left, %llu MiB more are needed for node %u's copy of %s (raise "
			"MemoryMax=)",
			(unsigned long long)group_room >> 20, (unsigned long long)bytes >> 20, spec->node, spec->model);
	return 0;
}

/* Which small page of a huge one to make first, so that going round by pages becomes going round by huge pages: the
 * kernel gives page number i of an object to node number (i + c) mod n, whatever c is, and the first page of huge page
 * number h is to be on node number (h + c) mod n. */
static uint64_t seed_offset(uint64_t at, unsigned n_nodes, uint64_t page_bytes)
{
	uint64_t index = at / page_bytes % n_nodes, wanted = at / SEGMENT_HUGE_BYTES % n_nodes;
	return (wanted + n_nodes - index) % n_nodes * page_bytes;
}

/* Huge pages for [from, to) of an object that has none there yet, where they can be had. One small page in each, which
 * goes where the policy says, tells the kernel the node; what is missing around it is made as zeros, so nothing is
 * copied, as it is when finished pages are collapsed. What fails here, allocate() makes of small pages. */
static void allocate_huge(const struct segment *segment, uint64_t from, uint64_t to)
{
	struct idset nodes;
	segment_nodes(&segment->spec, &nodes);
	unsigned n_nodes = idset_count(&nodes);
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	for (uint64_t at = from; to - at >= SEGMENT_HUGE_BYTES; at += SEGMENT_HUGE_BYTES)
		if (fallocate(segment->fd, 0, (off_t)(at + seed_offset(at, n_nodes, page_bytes)), 1))
			return;
	segment_collapse((char *)segment->base + from, to - from);
}

static int allocate(const struct segment *segment, struct err *err)
{
	for (uint64_t done = 0; done < segment->total_bytes;) {
		uint64_t step = segment->total_bytes - done < STEP_BYTES ? segment->total_bytes - done : STEP_BYTES;
		int rc = check_room(&segment->spec, segment->total_bytes - done, err);
		if (rc)
			return rc;
		if (segment->spec.huge != SEGMENT_HUGE_OFF)
			allocate_huge(segment, done, done + step);
		/* Not posix_fallocate: where the kernel refuses, glibc would write instead. */
		while (fallocate(segment->fd, 0, (off_t)done, (off_t)step)) {
			if (errno == EINTR)
				continue;
			/* A memfd has no file system to be full: the kernel would not commit the memory. */
			rc = errno == ENOSPC && segment->spec.backing == SEGMENT_MEMFD ? -ENOMEM : -errno;
			return err_set(err, rc, "node %u: allocating %llu MiB of shared memory stopped at %llu MiB: %s",
				       segment->spec.node, (unsigned long long)segment->total_bytes >> 20,
				       (unsigned long long)done >> 20, strerror(-rc));
		}
		done += step;
	}
	return 0;
}

struct allocation {
	const struct segment *segment;
	struct err *err;
	int rc;
};

static void allocate_part(void *context, unsigned part)
{
	struct allocation *allocation = context;
	(void)part; /* there is one */
	bool pooled = segment_is_pooled(allocation->segment->spec.backing);
	allocation->rc = (pooled ? segment_pool_allocate : allocate)(allocation->segment, allocation->err);
}

static int allocate_near(const struct segment *segment, struct err *err)
{
	static const struct idset anywhere;
	struct allocation allocation = {.segment = segment, .err = err};
	const struct idset *cpus = segment->spec.cpus ? segment->spec.cpus : &anywhere;
	int rc = crew_run(cpus, 1, allocate_part, &allocation);
	if (rc)
		return err_set(err, rc, "a thread on node %u: %s", segment->spec.node, strerror(-rc));
	return allocation.rc;
}

int segment_create(const struct segment_spec *spec, struct segment *out, struct err *err)
{
	struct segment segment = {.fd = -1, .spec = *spec};
	struct idset nodes;
	int rc = segment_total_bytes(spec->payload_bytes, segment_pool_page_bytes(spec->backing), &segment.total_bytes);
	if (rc)
		return err_set(err, rc, "a segment of %llu payload bytes cannot be made",
			       (unsigned long long)spec->payload_bytes);
	rc = spec->backing == SEGMENT_SHM ? open_named(&segment, err) : open_memfd(&segment, err);
	if (rc)
		goto fail;
	if (ftruncate(segment.fd, (off_t)segment.total_bytes)) {
		rc = err_set(err, -errno, "shared memory of %llu bytes: %s", (unsigned long long)segment.total_bytes,
			     strerror(errno));
		goto fail;
	}
	rc = segment_map(segment.fd, segment.total_bytes, PROT_READ | PROT_WRITE, &segment.base);
	if (rc) {
		err_set(err, rc, "mapping %llu bytes: %s", (unsigned long long)segment.total_bytes, strerror(-rc));
		goto fail;
	}
	segment_nodes(spec, &nodes);
	rc = bind_mapping_spread(segment.base, segment.total_bytes, &nodes, &segment.refused, err);
	if (rc)
		goto fail;
	if (spec->huge == SEGMENT_HUGE_OFF && !segment_is_pooled(spec->backing))
		madvise(segment.base, segment.total_bytes, MADV_NOHUGEPAGE);
	rc = allocate_near(&segment, err);
	if (rc)
		goto fail;
	*out = segment;
	return 0;
fail:
	segment_destroy(&segment);
	return rc;
}

void segment_destroy(struct segment *segment)
{
	if (!segment)
		return;
	if (segment->base)
		munmap(segment->base, segment->total_bytes);
	/* A zeroed segment was never opened (descriptor 0 is nobody's segment), a published one is no longer ours to
	 * undo. */
	if (segment->fd > 0) {
		if (segment->name[0])
			shm_unlink(segment->name);
		close(segment->fd);
	}
	memset(segment, 0, sizeof *segment);
	segment->fd = -1;
}
