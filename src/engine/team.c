#include "src/engine/team.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SPINS = 4000 }; /* about 40 microseconds of pauses: longer than any barrier, far shorter than a scheduler tick */

struct team_thread {
	struct team *team;
	unsigned index;
	pthread_t thread;
};

struct team {
	/* Each on its own cache line: threads spin on them. */
	_Alignas(64) atomic_uint ticket;
	_Alignas(64) atomic_uint phase;
	_Alignas(64) atomic_uint arrived;
	_Alignas(64) atomic_uint asleep;
	_Alignas(64) team_job *job;
	void *arg;
	unsigned n_threads, n_started;
	unsigned n_jobs; /* the caller's copy of `ticket` */
	atomic_int spins;
	int stop;
	team_start *start;
	void *start_arg;
	atomic_int start_error;
	struct team_thread threads[];
};

static void futex_wait(atomic_uint *word, unsigned seen)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

/* Changes *word from the value the others saw and wakes those who sleep on it. Release: partner of the acquire in
 * wait_change. Sequentially consistent against `asleep`: either the waker sees the sleeper counted, or the sleeper sees
 * the new value before it sleeps; so the system call is left out while everybody spins. */
static void announce(struct team *team, atomic_uint *word, unsigned value)
{
	atomic_store_explicit(word, value, memory_order_seq_cst);
	if (atomic_load_explicit(&team->asleep, memory_order_seq_cst))
		syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* Returns once *word differs from `seen`; acquire, partner of the store in announce. */
static void wait_change(struct team *team, atomic_uint *word, unsigned seen)
{
	int spins = atomic_load_explicit(&team->spins, memory_order_relaxed);
	for (int i = 0; i < spins; i++) {
		if (atomic_load_explicit(word, memory_order_acquire) != seen)
			return;
		__builtin_ia32_pause();
	}
	atomic_fetch_add_explicit(&team->asleep, 1, memory_order_seq_cst);
	while (atomic_load_explicit(word, memory_order_seq_cst) == seen)
		futex_wait(word, seen);
	atomic_fetch_sub_explicit(&team->asleep, 1, memory_order_relaxed);
}

void team_barrier(struct team *team)
{
	if (team->n_threads == 1)
		return;
	unsigned phase = atomic_load_explicit(&team->phase, memory_order_relaxed);
	/* acq_rel: makes this thread's writes visible to the last one to arrive, whose release below passes them on. */
	if (atomic_fetch_add_explicit(&team->arrived, 1, memory_order_acq_rel) + 1 == team->n_threads) {
		atomic_store_explicit(&team->arrived, 0, memory_order_relaxed);
		announce(team, &team->phase, phase + 1);
	} else {
		wait_change(team, &team->phase, phase);
	}
}

static void *thread_main(void *arg)
{
	struct team_thread *self = arg;
	struct team *team = self->team;
	int rc = team->start ? team->start(team->start_arg, self->index) : 0;
	if (rc)
		atomic_store_explicit(&team->start_error, rc, memory_order_relaxed); /* read after the first barrier */
	unsigned ticket = 0;
	team_barrier(team);
	for (;;) {
		wait_change(team, &team->ticket, ticket);
		ticket++;
		if (team->stop)
			return NULL;
		team->job(team->arg, self->index);
		team_barrier(team);
	}
}

void team_set_spin(struct team *team, int spin)
{
	atomic_store_explicit(&team->spins, spin ? SPINS : 0, memory_order_relaxed);
}

int team_new(unsigned n_threads, int spin, team_start *start, void *start_arg, struct team **out, struct err *err)
{
	size_t bytes = sizeof(struct team) + n_threads * sizeof(struct team_thread);
	struct team *team = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
	if (!team)
		return err_set(err, -ENOMEM, "no memory for %u threads", n_threads);
	memset(team, 0, bytes);
	team->n_threads = n_threads;
	team_set_spin(team, spin);
	team->start = start;
	team->start_arg = start_arg;

	/* Signals are the main thread's business. */
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int rc = 0;
	for (unsigned i = 1; i < n_threads && !rc; i++) {
		team->threads[i] = (struct team_thread){.team = team, .index = i};
		rc = pthread_create(&team->threads[i].thread, NULL, thread_main, &team->threads[i]);
		if (!rc)
			team->n_started++;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc) {
		/* The started ones wait in the first barrier for threads that will never come; only the process' end
		 * frees them, and the worker ends on this error. */
		return err_set(err, -rc, "cannot start thread %u of %u: %s", team->n_started + 1, n_threads,
			       strerror(rc));
	}
	rc = start ? start(start_arg, 0) : 0;
	team_barrier(team);
	if (!rc)
		rc = atomic_load_explicit(&team->start_error, memory_order_relaxed);
	if (rc) {
		team_free(team);
		return err_set(err, rc, "a compute thread cannot be set up: %s", strerror(-rc));
	}
	*out = team;
	return 0;
}

void team_free(struct team *team)
{
	if (!team)
		return;
	team->stop = 1;
	announce(team, &team->ticket, ++team->n_jobs); /* publishes `stop` */
	for (unsigned i = 1; i <= team->n_started; i++)
		pthread_join(team->threads[i].thread, NULL);
	free(team);
}

unsigned team_n_threads(const struct team *team)
{
	return team->n_threads;
}

void team_run(struct team *team, team_job *job, void *arg)
{
	team->job = job;
	team->arg = arg;
	if (team->n_threads > 1)
		announce(team, &team->ticket, ++team->n_jobs); /* publishes job and arg */
	job(arg, 0);
	team_barrier(team);
}
