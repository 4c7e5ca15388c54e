#include "src/front/peer.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static void free_when_quiet(struct peer *peer)
{
	if (!peer->closed || peer->doorbell.in_flight || peer->again.in_flight)
		return;
	channel_detach(&peer->channel);
	channel_close(&peer->fds);
	peer->kind->free(peer);
}

static void listen_to(struct peer *peer)
{
	loop_read(peer->loop, &peer->doorbell, peer->fds.to_front, &peer->doorbell_count, sizeof peer->doorbell_count);
}

static void on_doorbell(struct loop_op *op, int result)
{
	struct peer *peer = peer_owner(op, struct peer, doorbell);
	if (peer->closed) {
		free_when_quiet(peer);
	} else if (result < 0) {
		peer->kind->give_up(peer, strerror(-result)); /* and it may be freed */
	} else {
		listen_to(peer); /* first: what is in flight keeps it from being freed in its own turn */
		peer->kind->turn(peer);
	}
}

static void on_again(struct loop_op *op, int result)
{
	struct peer *peer = peer_owner(op, struct peer, again);
	(void)result;
	if (peer->closed)
		free_when_quiet(peer);
	else
		peer->kind->turn(peer);
}

int peer_open(struct peer *peer, const struct peer_kind *kind, struct loop *loop, const struct channel_fds *fds,
	      struct err *err)
{
	*peer = (struct peer){.kind = kind, .loop = loop, .fds = *fds};
	peer->doorbell.done = on_doorbell;
	peer->again.done = on_again;
	int rc = channel_attach(&peer->fds, CHANNEL_FRONT, &peer->channel, err);
	if (rc) {
		channel_close(&peer->fds);
		return rc;
	}
	listen_to(peer);
	return 0;
}

void peer_close(struct peer *peer)
{
	peer->closed = true;
	loop_cancel(peer->loop, &peer->doorbell);
	loop_cancel(peer->loop, &peer->again);
	free_when_quiet(peer);
}

void peer_wake(struct peer *peer, uint64_t after_ns)
{
	if (!peer->again.in_flight)
		loop_timer(peer->loop, &peer->again, after_ns);
}

bool peer_receive(struct peer *peer)
{
	static _Alignas(8) unsigned char payload[CHANNEL_RECORD_MAX]; /* too large for a stack; one loop reads */
	const struct peer_kind *kind = peer->kind;
	struct channel_record record;
	int rc = 0;
	unsigned n = 0;
	while (n < kind->records_per_turn && (!kind->may_read || kind->may_read(peer)) &&
	       (rc = channel_read(&peer->channel, &record)) == 1) {
		bool fits = record.n_bytes <= sizeof payload;
		if (fits && record.n_bytes)
			memcpy(payload, record.payload, record.n_bytes);
		record.payload = payload;
		channel_next(&peer->channel);
		if (!fits || kind->handle(peer, &record)) {
			char why[64];
			snprintf(why, sizeof why, "record of type %u, %u bytes", record.type, record.n_bytes);
			kind->give_up(peer, why);
			return false;
		}
		n++;
	}
	if (rc < 0) {
		kind->give_up(peer, "its ring is broken");
		return false;
	}
	if (n == kind->records_per_turn)
		peer_wake(peer, 0); /* there may be more, and the bell has been answered */
	return true;
}

void peer_sent(struct peer *peer, int rc)
{
	if (rc == -EAGAIN)
		peer_wake(peer, PEER_RETRY_NS);
	else if (rc)
		peer->kind->give_up(peer, "its ring is broken");
}
