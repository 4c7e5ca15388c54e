/* Work on large memory by several threads at once, which are made for it and gone afterwards. Private to shm/. */
#ifndef WEIGHTD_SHM_CREW_H
#define WEIGHTD_SHM_CREW_H

#include "numa/idset.h"

enum { CREW_THREADS_MAX = 8 }; /* that many reach the bandwidth of a node's memory */

/* Runs work(context, part) once for every part of 0..n_parts - 1, in no order, on `cpus` (empty: anywhere, by one
 * thread); returns when all are done. There are as many threads as CPUs, CREW_THREADS_MAX at most, or fewer if the
 * system gives no more; 0, or -errno if there is not even one, and nothing was done. */
int crew_run(const struct idset *cpus, unsigned n_parts, void (*work)(void *context, unsigned part), void *context);

#endif
