/* The compute threads of a worker: they run one function together, thread i of n on each, with barriers inside.
 *
 *   field          writer            readers      ordering
 *   job, arg       the caller        threads      written before `ticket` (release), read after it (acquire)
 *   ticket         the caller        threads      counts jobs; threads wait for it to change
 *   arrived        every thread      all          barrier: acq_rel add; the last one resets it and bumps `phase`
 *   phase          last to arrive    all          release / acquire
 *   asleep         sleepers          wakers       seq_cst on both sides, with `ticket` and `phase` (see announce)
 *   spins          the caller        threads      relaxed: how somebody waits matters to nobody else
 *
 * Waiting spins for a moment (a barrier inside a forward pass takes well under a microsecond when all CPUs are there)
 * and then sleeps in futex(2); where CPUs are shared with others it sleeps at once. */
#ifndef WEIGHTD_ENGINE_TEAM_H
#define WEIGHTD_ENGINE_TEAM_H

#include <stdint.h>

#include "src/err.h"

struct team;

/* Runs once on each thread before anything else (to bind it to its CPU): 0 or -errno, which team_new then returns. */
typedef int team_start(void *arg, unsigned thread);
typedef void team_job(void *arg, unsigned thread);

/* `n_threads` counts the calling thread, which is thread 0 in every job. `spin` 0: never spin. Returns owned. */
int team_new(unsigned n_threads, int spin, team_start *start, void *start_arg, struct team **out, struct err *err);
void team_free(struct team *team);
/* From now on; at any time, from any thread. */
void team_set_spin(struct team *team, int spin);
unsigned team_n_threads(const struct team *team);

/* Runs job(arg, i) on every thread i; returns when all have finished. From thread 0 only. */
void team_run(struct team *team, team_job *job, void *arg);
/* Inside a job: waits for all. What was written before it is seen by all after it. */
void team_barrier(struct team *team);

/* The part of 0..n that thread i of n_threads takes. */
static inline void team_share(uint32_t n, unsigned thread, unsigned n_threads, uint32_t *begin, uint32_t *end)
{
	*begin = (uint32_t)((uint64_t)n * thread / n_threads);
	*end = (uint32_t)((uint64_t)n * (thread + 1) / n_threads);
}

#endif
