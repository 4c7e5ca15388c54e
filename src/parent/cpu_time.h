/* The CPU time of a process, or of all processes that had its place one after the other, so that it only grows. */
#ifndef WEIGHTD_CPU_TIME_H
#define WEIGHTD_CPU_TIME_H

#include <stdint.h>
#include <sys/types.h>

struct cpu_time {
	uint64_t total_ns; /* what a process used between its last sample and its end is not in it */
	uint64_t last_ns;  /* of `pid` alone */
	pid_t pid;
};

/* 0 or -errno (-ESRCH when the process is gone); on failure *use keeps its values. */
int cpu_time_sample(pid_t pid, struct cpu_time *use);

#endif
