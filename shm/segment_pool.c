/* Segments in pages of a node's pool: 2 MiB or 1 GiB pages that an administrator has set aside (hugetlb), so that there
 * are always as many, whatever else runs, where transparent ones depend on how memory is fragmented.
 *
 * What is different from other memory, and why it is made in another way:
 *   - fallocate() takes the policy of the thread, not of the object (hugetlbfs keeps none from mbind), so the pages are
 *     taken by populating the mapping, which is bound. That reports what would otherwise be a SIGBUS.
 *   - mmap() would reserve pages, and fail, by the nodes that the thread's policy allows (numactl --membind), which is
 *     not the policy that the mapping gets. So it reserves nothing (MAP_NORESERVE); the node's own pool is looked at
 *     first, and populating can still find it empty.
 *   - The pool is not part of the node's free memory, nor charged to the control group: neither is looked at.
 *   - Pages are never swapped out, locked or not, and there is nothing to collapse.
 *
 * A memfd, not a file of a hugetlbfs mount: it needs no mount, no privilege and no directory, it can be sealed, and the
 * service manager's store gives it to the next daemon. */
#include "shm/segment_pool.h"

#include <errno.h>
#include <linux/memfd.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "numa/node_counters.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif
#ifndef HUGETLBFS_MAGIC
#define HUGETLBFS_MAGIC 0x958458f6
#endif

static const struct pool {
	uint64_t page_bytes;
	unsigned flag;
	int counter;	       /* in struct node_counters */
	const char *name;      /* of its pages */
	const char *directory; /* in sysfs */
} pools[] = {
	[SEGMENT_POOL_2M] = {UINT64_C(2) << 20, MFD_HUGE_2MB, NODE_POOL_2M, "2 MiB", "hugepages-2048kB"},
	[SEGMENT_POOL_1G] = {UINT64_C(1) << 30, MFD_HUGE_1GB, NODE_POOL_1G, "1 GiB", "hugepages-1048576kB"},
};

uint64_t segment_pool_page_bytes(enum segment_backing backing)
{
	return segment_is_pooled(backing) ? pools[backing].page_bytes : 0;
}

int segment_pool_object_page_bytes(int fd, uint64_t *out)
{
	struct statfs fs;
	if (fstatfs(fd, &fs))
		return -errno;
	*out = (unsigned long)fs.f_type == HUGETLBFS_MAGIC ? (uint64_t)fs.f_bsize : 0;
	return 0;
}

static int check_pool(const struct segment *segment, struct err *err)
{
	const struct segment_spec *spec = &segment->spec;
	const struct pool *pool = &pools[spec->backing];
	struct node_counters counters;
	uint64_t wanted = segment->total_bytes / pool->page_bytes;
	if (node_counters_read(NULL, spec->node, &counters)) /* nothing to go by: populating will tell */
		return 0;
	if (counters.pool[pool->counter].free_pages >= wanted)
		return 0;
	return err_set(err, -ENOSPC,
		       "node %u's pool has %llu free pages of %s, its copy of %s needs %llu: enlarge it "
		       "(/sys/devices/system/node/node%u/hugepages/%s/nr_hugepages)",
		       spec->node, (unsigned long long)counters.pool[pool->counter].free_pages, pool->name, spec->model,
		       (unsigned long long)wanted, spec->node, pool->directory);
}

int segment_pool_open(struct segment *segment, const char *name, struct err *err)
{
	const struct pool *pool = &pools[segment->spec.backing];
	int rc = check_pool(segment, err);
	if (rc)
		return rc;
	segment->fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB | pool->flag);
	if (segment->fd < 0)
		return err_set(err, errno == ENODEV || errno == EINVAL ? -ENOSPC : -errno,
			       "this kernel makes no memory of %s pages: %s", pool->name, strerror(errno));
	return 0;
}

int segment_pool_allocate(const struct segment *segment, struct err *err)
{
	const struct pool *pool = &pools[segment->spec.backing];
	for (uint64_t done = 0; done < segment->total_bytes;) {
		if (!madvise((char *)segment->base + done, pool->page_bytes, MADV_POPULATE_WRITE)) {
			done += pool->page_bytes;
		} else if (errno != EINTR && errno != EAGAIN) {
			return err_set(err, -ENOSPC, "node %u: taking %s pages of its pool stopped at %llu of %llu: %s",
				       segment->spec.node, pool->name, (unsigned long long)(done / pool->page_bytes),
				       (unsigned long long)(segment->total_bytes / pool->page_bytes), strerror(errno));
		}
	}
	return 0;
}
