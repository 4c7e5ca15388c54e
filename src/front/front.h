/* The front: the one process that clients talk to. It maps no weights and opens nothing; listeners and channels come
 * from the parent as descriptors.
 *
 *      parent ── messages ──▶ front.c            orders, workers coming and going, drain
 *     clients ── front_connection ──▶ front_route.c ── api_request ──▶ front_exchange.c
 *                                                                          │  one front_call per prompt and choice
 *     workers ◀──────── channels ──────── front_worker.c ◀── front_fleet.c ┘  (which worker of which model)
 *                           └── records ──▶ front_exchange.c ── api_answer, api_stream ──▶ client
 *
 * Everything happens in callbacks of one loop, so nothing here needs a lock. Lives of things: an exchange is one
 * request being answered, and ends with its answer or with its client; a call ends when its worker says so (or dies).
 * An exchange that ends first leaves its calls behind without one, cancelled; they hold their place in the queue's
 * bound until the worker has confirmed, so that the bound stays one on the work in the workers, not on what clients
 * see. */
#ifndef WEIGHTD_SRC_FRONT_H
#define WEIGHTD_SRC_FRONT_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/channel.h"
#include "src/api/json.h"
#include "src/front/audio.h"
#include "src/front/call.h"
#include "src/front/connection.h"
#include "src/front/cors.h"
#include "src/front/fleet.h"
#include "src/front/metrics.h"
#include "src/front/roster.h"
#include "src/keys.h"
#include "src/message.h"
#include "src/pulse.h"

enum { FRONT_LISTENERS_MAX = 2 };

struct front_listener {
	struct front *front;
	int fd;
	struct loop_op accept;
	struct loop_op queue; /* there is no place: a poll that tells when somebody waits for one */
	struct loop_op pause; /* before the next look, when there was neither a place nor a descriptor */
};

struct front {
	struct message_serve order;
	struct loop *loop;
	struct connection_set connections;
	unsigned most_connections; /* since memory was last given back */
	bool accept_fails;	   /* and the log knows */
	struct front_listener listener[FRONT_LISTENERS_MAX];
	unsigned n_listeners;
	struct loop_op control; /* messages of the parent */
	struct loop_op drain;
	struct loop_op beat;
	struct pulse *pulse;	 /* owned mapping */
	uint64_t drain_until_ns; /* 0: not draining */
	int status;		 /* exit status once the loop has stopped */

	struct keys keys; /* that clients must show one of; none: they need not */
	struct cors cors; /* of which other origins pages may call */
	struct fleet fleet;
	struct roster roster;
	struct wish *wishes; /* list, owned: who waits for the parent's word on an adapter */
	uint64_t last_ticket;
	struct call_table calls;
	struct audio_pool audio;    /* of processes that decode audio */
	struct speech *speeches;    /* list, owned: requests to hear speech */
	struct message_state state; /* the parent's last word on models and memory */
	bool has_state;
	struct message_figures figures; /* and on what it measures */
	bool has_figures;
	struct message_overview overview; /* and on models, copies and workers one by one */
	bool has_overview;
	uint64_t told_ns; /* when that came */
	struct front_metrics metrics;

	struct api_json scratch; /* of whoever is writing an answer; used within one callback */
};

#endif
