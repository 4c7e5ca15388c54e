/* Calls the front has with workers, and the table that finds them by id. Ids count up and never come again, so a late
 * record can't be taken for another call's. */
#ifndef WEIGHTD_SRC_FRONT_CALL_H
#define WEIGHTD_SRC_FRONT_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "src/api/json.h"
#include "src/call.h"
#include "src/front/metrics_model.h"

struct exchange;
struct front_worker;
struct speech;

enum call_phase {
	PHASE_QUEUED,  /* the worker knows nothing of it */
	PHASE_SENDING, /* CALL_BEGIN is out, not all bytes */
	PHASE_SENT,
};

struct front_call {
	uint64_t id;
	struct exchange *exchange;     /* borrows, either of the two; both NULL: nobody waits for it any more, */
	struct speech *speech;	       /* it is being cancelled */
	uint32_t index;		       /* of the exchange's choices */
	struct front_worker *worker;   /* borrows */
	struct front_adapter *adapter; /* held; NULL: the model alone */
	enum call_phase phase;
	bool cancel_sent;
	bool accepted;		/* the worker has said so */
	bool started;		/* its first token has come: the prompt no longer waits */
	uint32_t prompt_tokens; /* once accepted */
	struct metrics_call times;
	/* What the worker has said; a worker without an end must not fill our memory. */
	uint64_t n_tokens, result_bytes;
	struct call_begin begin;
	struct api_json bytes; /* for CALL_BYTES; owned, gone once sent */
	size_t sent;	       /* of `bytes` */
	/* of speech, whose bytes come while it is being heard */
	struct call_speech *options; /* owned */
	uint64_t sent_before;	     /* bytes that were sent and are gone from `bytes` */
	uint64_t wanted_frames;
	struct front_call *next, *previous; /* the worker's calls, oldest first */
	struct front_call *chain;	    /* the table's */
};

struct call_table {
	struct front_call **bucket; /* [mask + 1] owned */
	uint64_t mask;
	uint64_t last_id;
	uint32_t n;
};

/* For about `n_expected` calls at a time (more only cost time). -ENOMEM. */
int call_table_init(struct call_table *table, uint32_t n_expected);
void call_table_fini(struct call_table *table); /* of an empty table */

/* A fresh call in the table, or NULL. */
struct front_call *call_new(struct call_table *table);
/* Takes the call out of the table and frees it. */
void call_free(struct call_table *table, struct front_call *call);
struct front_call *call_find(const struct call_table *table, uint64_t id);

/* Is it one for the scheduler, which says when it is accepted and started? */
static inline bool call_computes(const struct front_call *call)
{
	return call->begin.kind <= CALL_KIND_COMPLETE_IDS || call->begin.kind >= CALL_KIND_EMBED;
}

/* Does it hear speech? */
static inline bool call_hears(const struct front_call *call)
{
	return call->options;
}

/* Does anybody wait for it? */
static inline bool call_has_owner(const struct front_call *call)
{
	return call->exchange || call->speech;
}

/* Does this call make an answer of tokens (or else of CALL_RESULT)? */
static inline bool call_generates(const struct front_call *call)
{
	return call->begin.kind == CALL_KIND_CHAT || call->begin.kind == CALL_KIND_COMPLETE ||
	       call->begin.kind == CALL_KIND_COMPLETE_IDS;
}

#endif
