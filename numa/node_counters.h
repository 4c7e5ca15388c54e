/* What the kernel counts of a node: where pages were taken, how much memory is left, and the pools of huge pages. */
#ifndef WEIGHTD_NUMA_NODE_COUNTERS_H
#define WEIGHTD_NUMA_NODE_COUNTERS_H

#include <stdint.h>

enum { NODE_POOL_2M, NODE_POOL_1G, NODE_POOLS };

struct node_counters {
	/* Pages taken since the machine started (Documentation/admin-guide/numastat.rst): */
	uint64_t hit;		 /* here, as wanted */
	uint64_t miss;		 /* here, though wanted on another node */
	uint64_t foreign;	 /* on another node, though wanted here */
	uint64_t interleave_hit; /* here, as an interleaving policy wanted */
	uint64_t local, other;	 /* here, by a process that ran here; elsewhere */
	/* Memory now. */
	uint64_t total_bytes, free_bytes;
	struct node_pool { /* pages of hugetlb; 0 where the kernel has none of that size */
		uint64_t pages, free_pages;
	} pool[NODE_POOLS];
};

/* Reads /sys/devices/system/node/node<node> below `sysfs_root` (NULL: this machine). 0, -ENOENT: there is no such node,
 * or the kernel knows no nodes; -EPROTO: its files say something else than such files do. */
int node_counters_read(const char *sysfs_root, unsigned node, struct node_counters *out);

#endif
