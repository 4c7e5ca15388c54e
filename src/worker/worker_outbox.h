/* Records from worker to front, in order per call, whether or not the ring has room right now. */
#ifndef WEIGHTD_WORKER_OUTBOX_H
#define WEIGHTD_WORKER_OUTBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/channel.h"

struct outbox { /* one call's waiting records */
	struct outbox *next;
	uint64_t call;
	char *bytes; /* owned: { uint32 type, uint32 n_bytes, payload }... */
	size_t n_bytes, capacity, sent;
};

/* Writes a record, or puts it behind those of its call that wait. Returns false when it had to wait. When there is no
 * memory to keep it the channel is dead: the front will notice, and the worker ends. */
bool outbox_send(struct outbox **list, struct channel *channel, uint32_t type, uint64_t call, const void *head,
		 uint32_t head_bytes, const void *body, uint32_t body_bytes);

/* Moves what fits into the ring; outboxes that became empty are removed and reported. True while some are left. */
bool outbox_flush(struct outbox **list, struct channel *channel, void (*emptied)(void *arg, uint64_t call), void *arg);

void outbox_free(struct outbox **list);

#endif
