/* What the machine looks like to this process: nodes, their CPUs and memory, distances; cut down to the affinity and
 * cpuset the process inherited. Read with hwloc, from this machine or from a recorded sysfs tree. Immutable. */
#ifndef WEIGHTD_NUMA_TOPOLOGY_H
#define WEIGHTD_NUMA_TOPOLOGY_H

#include "numa/idset.h"

struct topology;

struct topology_node {
	unsigned os_index;     /* the kernel's node number; numbers may have holes */
	struct idset cpus;     /* CPUs of the node that this process may use; may be empty */
	struct idset cores;    /* the first allowed CPU of each physical core: one compute thread each */
	uint64_t memory_bytes; /* 0: a node without memory */
	unsigned package;      /* physical package, for placement per socket */
	bool may_bind_memory;  /* in the cpuset's mems */
};

/* `sysfs_root` NULL: this machine; else a recorded tree (hwloc's HWLOC_FSROOT format), taken whole: a cpuset recorded
 * in it counts, this process' own limits do not. hwloc takes a tree's path only from the environment, so loading one
 * changes HWLOC_FSROOT for the moment and must not run beside other threads that use the environment. Returns owned. */
int topology_load(const char *sysfs_root, struct topology **out, struct err *err);
void topology_free(struct topology *topology);

unsigned topology_n_nodes(const struct topology *topology);
const struct topology_node *topology_node(const struct topology *topology, unsigned i); /* in os_index order; view */
const struct topology_node *topology_find(const struct topology *topology, unsigned os_index); /* NULL: no such node */
/* One of `cpus` for each physical core they are on, its first: where compute threads go. */
void topology_cores(const struct topology *topology, const struct idset *cpus, struct idset *out);
/* Relative distance as numactl --hardware prints it (10 = local); 0 when the machine does not say. By os_index. */
unsigned topology_distance(const struct topology *topology, unsigned from, unsigned to);
/* The node with memory nearest to `from` among `among` (itself if it is one); ties go to the lower number. -1: none. */
int topology_nearest(const struct topology *topology, unsigned from, const struct idset *among);

/* Bytes that could be allocated on a node right now without swapping: free memory and clean page cache
 * (/sys/devices/system/node/nodeN/meminfo; on a machine with one node the kernel's own estimate, MemAvailable of
 * /proc/meminfo). */
int topology_free_bytes(unsigned os_index, uint64_t *out);
/* The same of a recorded machine. */
int topology_free_bytes_in(const char *sysfs_root, unsigned os_index, uint64_t *out);

#endif
