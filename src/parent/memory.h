/* Private memory of a process, as the kernel counts it: anonymous resident pages and page tables. Shared weights are in
 * neither, but in what it has locked. */
#ifndef WEIGHTD_MEMORY_H
#define WEIGHTD_MEMORY_H

#include <stdint.h>
#include <sys/types.h>

struct memory_use {
	uint64_t private_bytes;	     /* RssAnon + VmPTE at the last sample */
	uint64_t table_bytes;	     /* of these, VmPTE */
	uint64_t private_peak_bytes; /* the highest sample so far */
	uint64_t shared_bytes;	     /* RssShmem + HugetlbPages at the last sample: the weights, above all */
	uint64_t locked_bytes;	     /* VmLck at the last sample: mappings that cannot be swapped out */
};

/* Samples /proc/PID/status. 0 or -errno (-ESRCH when the process is gone); on failure *use keeps its values. */
int memory_sample(pid_t pid, struct memory_use *use);

#endif
