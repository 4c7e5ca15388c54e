/* The front's side of one worker: its channel, the calls it has, and what is still to be written to it.
 *
 * Out: calls are sent in the order in which they came. When the ring is full the rest waits, and is tried again when
 * the worker rings, or a moment later. In: every record is believed as far as it can be checked. A worker that breaks
 * the protocol is treated as dead, and the parent is told so that it makes a new one. */
#ifndef WEIGHTD_SRC_FRONT_WORKER_H
#define WEIGHTD_SRC_FRONT_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "src/front/peer.h"
#include "src/message.h"

struct front;
struct front_call;
struct fleet_model;

struct front_worker {
	struct front *front;
	uint32_t index, node;
	struct fleet_model *model; /* borrows from the fleet */
	enum worker_duty duty;
	bool idle_told;			 /* the parent knows that this retired one has no call left */
	uint64_t created;		 /* Unix seconds: since when its model's generation is there */
	uint32_t context_tokens;	 /* of its generation */
	uint32_t mel_bins;		 /* the same; 0: it hears no speech */
	struct peer peer;		 /* closed: no longer in the fleet */
	struct front_call *first, *last; /* its calls, oldest first */
	uint32_t n_calls;
	uint64_t waiting_bytes; /* of the prompts of those calls that have shown no token yet */
	uint64_t n_routed;	/* calls given to it, ever */
	uint64_t busy_since_ns; /* since when it has calls without a break */
	bool degraded;		/* pages of its copy are on other nodes */
	struct front_worker *next;
};

/* Attaches and starts to listen. Takes the descriptors, also on failure. Returns owned, to be closed by worker_close.
 */
int worker_open(struct front *front, const struct channel_fds *fds, struct front_worker **out, struct err *err);
/* Fails all its calls with 502 and this reason and lets go of it. The memory goes when its operations have ended. */
void worker_close(struct front_worker *worker, const char *reason);

/* It takes new calls. */
bool worker_is_ready(struct front_worker *worker);
/* A retired worker without calls: the parent is told so, once. Often, because it may not take a message at a time. */
void worker_settle(struct front_worker *worker);
/* A call that is filled in: sends it, now or when there is room. */
void worker_add_call(struct front_worker *worker, struct front_call *call);
/* A call of this worker has more bytes to be sent. */
void worker_wake(struct front_worker *worker);
/* Nobody waits for this call any more: tells the worker to stop it. */
void worker_cancel_call(struct front_worker *worker, struct front_call *call);

/* One of its counters, e.g. worker_count(&channel_counters(&worker->peer.channel)->running). */
static inline uint64_t worker_count(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED); /* each stands alone (shm/channel.h) */
}

#endif
