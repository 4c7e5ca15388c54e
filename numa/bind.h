/* Binding of threads to CPUs and of mappings to nodes, as numactl does, and reading back what the kernel made of it. */
#ifndef WEIGHTD_NUMA_BIND_H
#define WEIGHTD_NUMA_BIND_H

#include <sys/types.h>

#include "numa/idset.h"
#include "numa/refusal.h"

/* The calling thread's affinity. Binding outside the inherited set is -EINVAL and says so. */
int bind_thread(const struct idset *cpus, struct err *err);
int bind_thread_read(struct idset *out, struct err *err);
/* The CPUs that threads of process `pid` may run on now, all together: those that are offline or out of its cpuset are
 * not among them. -ESRCH when it is gone. */
int bind_process_read(pid_t pid, struct idset *out);

/* Memory that the calling thread is the first to touch comes from `node` first (MPOL_PREFERRED, never OOM), whatever
 * policy it inherited; that of threads it starts, too. */
int bind_thread_memory(unsigned node, struct err *err);
/* The same before a process has other threads, for all that it is going to have to itself; and what it has touched so
 * far moves there. The kernel moves every page that no other process maps, also of shared memory: so this comes before
 * a segment is attached. 0 also when a call was refused, which is added to *refused. */
int bind_process_memory(unsigned node, struct refusals *refused, struct err *err);

/* All new memory of the calling process, and of what it starts, comes from `nodes` alone (MPOL_BIND). */
int bind_process_nodes(const struct idset *nodes, struct err *err);

/* MPOL_BIND for a mapping, before its pages exist; then the policy is read back and compared. -EIO when the kernel
 * accepted it but reports another policy. 0 also when a call was refused, which is added to *refused: then the policy
 * is not there, or not known to be. */
int bind_mapping(void *base, size_t bytes, unsigned node, struct refusals *refused, struct err *err);
/* The same over several nodes, with MPOL_INTERLEAVE. */
int bind_mapping_spread(void *base, size_t bytes, const struct idset *nodes, struct refusals *refused, struct err *err);

#endif
