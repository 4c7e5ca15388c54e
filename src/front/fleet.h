/* The models the front knows, the workers that serve them, and which of those takes a call.
 *
 * The shortest queue. A worker's queue is counted in what has to be computed before a new call's first token: each call
 * it has weighs as much as 4 KiB of prompt, and prompts that have shown no token yet weigh their bytes on top. (4 KiB
 * are about a thousand tokens; a model that prefills three times as fast as it generates is then as long busy as with
 * an answer of some hundred.) So a worker that chews on a long prompt gets no short ones behind it, and n short calls
 * are spread evenly.
 *
 * With a prefix cache, prompts that begin alike should meet: their KV pages are private to a worker. So every prompt of
 * at least 256 bytes (two KV pages of 32 tokens; what is shared below that is not worth waiting for) ranks the workers
 * by a hash of those bytes and of the worker's number, and the highest rank wins among all workers whose queue is no
 * more than two calls longer than the shortest. That is rendezvous hashing: nothing is remembered, a worker's death
 * moves its own share of the beginnings and no other, its successor gets the same share back, and calls turned away by
 * a long queue agree on their second choice, too.
 *
 * A worker whose copy is degraded (some of its pages are on other nodes) reads them slowly, and from the memory that
 * the workers of good copies read theirs from. So it gets calls only while each ready worker of a good copy has as many
 * as it computes at a time (max_running), or there is none; its share of the beginnings moves as with a death.
 *
 * Rejected: a tree of what each worker has cached (it is the workers that evict, and the front would have to follow);
 * hashing the system message alone (all of a tenant's calls share it, so that every conversation would be spilled over
 * all workers as soon as there are more calls than one worker takes). */
#ifndef WEIGHTD_SRC_FRONT_FLEET_H
#define WEIGHTD_SRC_FRONT_FLEET_H

#include <stdbool.h>
#include <stdint.h>

#include "src/config.h"
#include "src/front/call.h"
#include "src/front/metrics_model.h"
#include "src/front/worker.h"
#include "src/message.h"

/* A model stays known while its workers are being restarted: it is then not ready, rather than unknown. */
struct fleet_model {
	char name[128];	  /* "": the place is free */
	uint64_t created; /* Unix seconds */
	uint32_t context_tokens;
	uint32_t mel_bins; /* it hears speech, of so many bins; 0: it writes texts */
	struct metrics_model metrics;
};

struct fleet {
	struct fleet_model model[CONFIG_MODELS_MAX];
	uint32_t n_models;
	struct front_worker *workers; /* list, owned */
	bool by_beginning;	      /* workers have a prefix cache */
	uint32_t max_running;	      /* calls a worker computes at a time; with more it has no room */
};

enum { FLEET_BEGINNING_BYTES = 256 };

/* A worker has come; one of the same index is replaced. Takes the descriptors. */
void fleet_worker_up(struct front *front, const struct message_worker_up *up, const struct channel_fds *fds);
/* From here on other workers take calls: 0, or -EPROTO. The retired ones keep what they have. */
int fleet_flip(struct fleet *fleet, const struct message_flip *flip);
/* Tells the parent of those retired ones whose calls have all ended. */
void fleet_settle(struct fleet *fleet);
/* Models that are not in the parent's list any more, and have no worker, are forgotten. */
void fleet_forget(struct fleet *fleet, const struct message_state *state);
/* Its copy is degraded, or good again; a worker that is not known is none. */
void fleet_worker_copy(struct fleet *fleet, const struct message_worker_copy *is);
/* A worker is gone: its calls fail. */
void fleet_worker_down(struct front *front, uint32_t index);

/* By name [n_bytes], the first one without a name; NULL. */
struct fleet_model *fleet_find_model(struct fleet *fleet, const char *name, size_t n_bytes);
/* The hash of a call's beginning; 0: any worker is as good as another. */
uint64_t fleet_beginning(const struct fleet *fleet, const struct front_call *call);
/* The ready worker of that model for a call of this beginning; NULL: none is ready. */
struct front_worker *fleet_choose(struct fleet *fleet, const struct fleet_model *model, uint64_t beginning);

/* Whether place i is taken. */
static inline bool fleet_has(const struct fleet *fleet, uint32_t i)
{
	return fleet->model[i].name[0] != '\0';
}

enum fleet_health { FLEET_OK, FLEET_NOT_READY, FLEET_STALLED };
/* Is there a ready worker of this model whose engine makes progress? */
enum fleet_health fleet_check(struct fleet *fleet, const struct fleet_model *model, uint64_t now_ns);

#endif
