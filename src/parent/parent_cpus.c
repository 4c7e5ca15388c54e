/* CPUs that go away under a worker: taken offline, or out of the cpuset that the daemon lives in. The kernel then puts
 * the threads that were bound to them on others and tells nobody; answers stay what they are, and come more slowly. So
 * the parent looks where its workers' threads may run, once a second, and says what is gone, and when it is back.
 *
 * A worker that runs is left as the kernel has put it: the CPU may be back in a moment. One that is started anew could
 * not be bound to a CPU that is not there, so it is given what is left of its own, or else of the daemon's.
 *
 * Threads that wait for each other spin for a moment where each has a CPU to itself. Models, generations and CPUs come
 * and go, so whether that is so is looked at as often, and workers are told when it has changed. */
#include "src/parent/parent_internal.h"

#include "numa/bind.h"
#include "src/clock.h"
#include "src/log.h"

enum { LOOK_MS = 1000 };

static void remove_all(struct idset *from, const struct idset *which)
{
	for (int cpu = idset_first(which); cpu >= 0; cpu = idset_next(which, cpu))
		idset_remove(from, (unsigned)cpu);
}

bool cpus_are_own(const struct parent *parent, const struct parent_worker *worker)
{
	if (parent->plan.oversubscribed || idset_first(&worker->cpus_gone) >= 0)
		return false;
	for (uint32_t i = 0; i < parent->n_workers; i++) {
		const struct parent_worker *other = &parent->workers[i];
		struct idset shared = worker->plan.cpus;
		if (other == worker || !other->child.pid)
			continue;
		idset_and(&shared, &other->plan.cpus);
		if (idset_first(&shared) >= 0)
			return false;
	}
	return true;
}

/* One that does not take it in now is told again at the next look. */
static void tell_spin(const struct parent *parent, struct parent_worker *worker)
{
	const struct message_spin message = {cpus_are_own(parent, worker)};
	if ((bool)message.spin != worker->spins &&
	    !message_send(worker->child.fd, MESSAGE_SPIN, &message, sizeof message, NULL, 0))
		worker->spins = message.spin;
}

static void look(struct parent_worker *worker)
{
	struct idset now, gone = worker->plan.cpus;
	char gone_text[64], now_text[64];
	if (bind_process_read(worker->child.pid, &now))
		return; /* it has just ended */
	remove_all(&gone, &now);
	if (idset_equal(&gone, &worker->cpus_gone))
		return;
	worker->cpus_gone = gone;
	idset_format(&now, now_text, sizeof now_text);
	if (idset_first(&gone) >= 0)
		log_warning("%s: of its CPUs %s are gone (offline, or out of the cpuset); its threads run on %s",
			    worker->child.name, idset_format(&gone, gone_text, sizeof gone_text), now_text);
	else
		log_info("%s: all of its CPUs are back; its threads run on %s", worker->child.name, now_text);
}

void cpus_turn(struct parent *parent, uint64_t now_ns)
{
	if (now_ns - parent->cpus_ns < LOOK_MS * CLOCK_MS_NS)
		return;
	parent->cpus_ns = now_ns;
	for (uint32_t i = 0; i < parent->n_workers; i++)
		if (parent->workers[i].ready)
			look(&parent->workers[i]);
	for (uint32_t i = 0; i < parent->n_workers; i++)
		if (parent->workers[i].ready)
			tell_spin(parent, &parent->workers[i]);
}

void cpus_left(const struct idset *planned, struct idset *out)
{
	struct idset left;
	unsigned n = idset_count(planned);
	*out = *planned;
	if (bind_thread_read(&left, NULL))
		return;
	idset_and(out, &left);
	if (idset_first(out) >= 0)
		return;
	/* Others compute there, too, which is slower than it was and better than not at all. */
	for (int cpu = idset_first(&left); cpu >= 0 && idset_count(out) < n; cpu = idset_next(&left, cpu))
		idset_add(out, (unsigned)cpu);
}
