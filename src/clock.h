/* Monotonic time for the processes in src/ (the engine has no clock). */
#ifndef WEIGHTD_CLOCK_H
#define WEIGHTD_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLOCK_MS_NS 1000000ull /* nanoseconds in a millisecond */

static inline uint64_t clock_now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
