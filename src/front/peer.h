/* A process at the other end of a channel, as the front's loop hears it: its doorbell, another look when something
 * waits, records copied out of the ring, and memory that goes when the loop holds nothing of it any more. What is said
 * over the channel is its owner's matter (src/front/worker.h, src/front/audio.h), of which it is a part.
 *
 * The other side is hostile: every record is copied before it is believed, and a peer that breaks the protocol is
 * given up by its owner. */
#ifndef WEIGHTD_SRC_FRONT_PEER_H
#define WEIGHTD_SRC_FRONT_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "io/loop.h"
#include "shm/channel.h"
#include "src/err.h"

/* From a member to the struct that has it: struct front_worker *worker = peer_owner(peer, struct front_worker, peer) */
#define peer_owner(member, type, name) ((type *)((char *)(member)-offsetof(type, name)))

/* A full ring is looked at again after this: a peer that takes bytes in without having something to say does not ring.
 */
enum { PEER_RETRY_NS = 2 * 1000 * 1000 };

struct peer;

/* What peers of a kind have in common; static. */
struct peer_kind {
	unsigned records_per_turn; /* then others get their turn */
	/* Whether records may be read now; NULL: always. */
	bool (*may_read)(struct peer *peer);
	/* A record, whose payload is copied and aligned to 8 bytes. -EPROTO: it may not be. */
	int (*handle)(struct peer *peer, const struct channel_record *record);
	/* The doorbell rang, or peer_wake's time has come: calls peer_receive, and sends what waits. */
	void (*turn)(struct peer *peer);
	/* It broke the protocol, or its ring is broken: `why` says how. To call peer_close. */
	void (*give_up)(struct peer *peer, const char *why);
	/* After peer_close: the loop has nothing of it any more, its channel is let go of. Frees the owner. */
	void (*free)(struct peer *peer);
};

struct peer {
	const struct peer_kind *kind;
	struct loop *loop;
	struct channel channel;
	struct channel_fds fds; /* owned */
	struct loop_op doorbell, again;
	uint64_t doorbell_count;
	bool closed; /* waits for its operations to end */
};

/* Attaches and starts to listen. Takes the descriptors, also on failure, after which the owner is the caller's to free.
 * 0 or -errno. */
int peer_open(struct peer *peer, const struct peer_kind *kind, struct loop *loop, const struct channel_fds *fds,
	      struct err *err);
/* Stops listening; kind->free is called when that has ended, which may be at once. */
void peer_close(struct peer *peer);

/* A turn after so long, unless there is one to come already. */
void peer_wake(struct peer *peer, uint64_t after_ns);
/* Reads what it wrote. False: it was given up, and may be gone. */
bool peer_receive(struct peer *peer);
/* What came of writing to it: 0; -EAGAIN: it is looked at again; else it is given up, and may be gone. */
void peer_sent(struct peer *peer, int rc);

#endif
