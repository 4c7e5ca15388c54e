#include "shm/crew.h"

#include <pthread.h>
#include <sched.h>

struct crew {
	void (*work)(void *context, unsigned part);
	void *context;
	unsigned n_parts;
	unsigned next; /* the first part that no thread has taken; relaxed: what parts wrote is ordered by joining */
};

static void *member(void *argument)
{
	struct crew *crew = argument;
	unsigned part;
	while ((part = __atomic_fetch_add(&crew->next, 1, __ATOMIC_RELAXED)) < crew->n_parts)
		crew->work(crew->context, part);
	return NULL;
}

static unsigned size(const struct idset *cpus, unsigned n_parts)
{
	unsigned n = idset_count(cpus);
	n = n < 1 ? 1 : n < CREW_THREADS_MAX ? n : CREW_THREADS_MAX;
	return n < n_parts ? n : n_parts;
}

int crew_run(const struct idset *cpus, unsigned n_parts, void (*work)(void *context, unsigned part), void *context)
{
	struct crew crew = {work, context, n_parts, 0};
	pthread_t threads[CREW_THREADS_MAX];
	unsigned n = size(cpus, n_parts), n_started = 0;
	pthread_attr_t attributes;
	int rc = pthread_attr_init(&attributes);
	if (rc)
		return -rc;
	/* Set before a thread starts and not by itself: the calling thread may be bound to another node's CPUs, and the
	 * new one does not have to stay inside those. */
	if (idset_first(cpus) >= 0)
		rc = pthread_attr_setaffinity_np(&attributes, sizeof *cpus, (const cpu_set_t *)cpus);
	while (!rc && n_started < n) {
		rc = pthread_create(&threads[n_started], &attributes, member, &crew);
		n_started += !rc;
	}
	pthread_attr_destroy(&attributes);
	for (unsigned i = 0; i < n_started; i++)
		pthread_join(threads[i], NULL);
	return n_started || !n ? 0 : -rc;
}
