/* What several commands read of a machine: its nodes, their CPUs and memory. `root`: NULL, or a directory with another
 * machine's /proc and /sys. */
#ifndef WEIGHTD_CTL_MACHINE_H
#define WEIGHTD_CTL_MACHINE_H

#include "numa/idset.h"

/* The nodes there are, and those with memory. Without NUMA in the kernel there is node 0. */
void machine_nodes(const char *root, struct idset *nodes, struct idset *with_memory);
/* The CPUs of a node; without NUMA all that are online. */
void machine_node_cpus(const char *root, unsigned node, struct idset *cpus);

/* What a process (directory in /proc: a pid, "self") may use, by the key in its status: "Cpus_allowed_list",
 * "Mems_allowed_list". False: that can't be read. */
bool machine_allowed(const char *root, const char *process, const char *key, struct idset *out);

/* A figure of a node's meminfo by its key ("MemFree"), of the whole machine with node -1: bytes, or a number of pages
 * where the kernel counts those. False: it has none. */
bool machine_node_memory(const char *root, int node, const char *key, uint64_t *out);

/* A figure of a node's pool of huge pages of one size: "nr_hugepages", "free_hugepages". False: there is none. */
bool machine_node_pool(const char *root, unsigned node, uint64_t kilobytes, const char *figure, uint64_t *out);

#endif
