/* How much memory the control groups around this process still allow it, version 1, version 2 or both at once. */
#ifndef WEIGHTD_NUMA_CGROUP_H
#define WEIGHTD_NUMA_CGROUP_H

#include <stdint.h>

#include "src/err.h"

/* The tightest limit on the way from the process' own group up to the visible root: limit - use + page cache that would
 * give way. UINT64_MAX when nothing limits it. `root` NULL: this machine; else a recorded tree of /proc/self/cgroup,
 * /proc/self/mountinfo and the groups' files. */
int cgroup_memory_room(const char *root, uint64_t *out, struct err *err);

#endif
