/* The worker's side of the channel: puts calls together from their records, answers those that generate nothing, hands
 * the others to the scheduler, and turns its events into records.
 *
 * A record that does not fit the ring waits in its call's outbox; the call is blocked (no step is made for it) until
 * the outbox is empty, so a slow front costs memory for at most one step's events of each call.
 *
 * A megabyte of text takes up to a third of a second to become tokens, and a chat of a megabyte some tens of
 * milliseconds to become a text. So chats are rendered and texts encoded in slices, between which other calls get their
 * tokens: a short one in one go when its last byte comes, what is left of long ones in their
 * order, one after the other (a single word of a megabyte needs 36 MB meanwhile). */
#ifndef WEIGHTD_WORKER_CALLS_H
#define WEIGHTD_WORKER_CALLS_H

#include "shm/channel.h"
#include "src/call.h"
#include "src/engine/model.h"
#include "src/engine/scheduler.h"
#include "src/engine/template.h"
#include "src/engine/tokenizer.h"
#include "src/worker/worker_adapters.h"
#include "src/worker/worker_dialect.h"

struct worker_calls {
	struct channel *channel; /* borrowed, all of these */
	struct scheduler *scheduler;
	struct constraints *constraints;
	const struct worker_adapters *adapters;
	const struct tokenizer *tokenizer;
	const struct template *template;   /* NULL: the model has none, or it can't be compiled */
	char template_fault[256];	   /* why there is none */
	char bos_text[256], eos_text[256]; /* as the template's bos_token and eos_token */
	struct dialect dialect;		   /* zero: text alone */
	enum pooling_kind pooling;	   /* of texts to be embedded */
	struct incoming *incoming;	   /* calls whose bytes are still coming or becoming tokens, in order */
	struct outbox *outboxes;	   /* calls whose records wait for room */
	uint32_t n_incoming;
};

void worker_calls_init(struct worker_calls *calls, struct channel *channel, const struct tokenizer *tokenizer,
		       const struct template *template, const char *template_fault);
/* The sink for scheduler_new; set calls->scheduler afterwards. */
struct scheduler_sink worker_calls_sink(struct worker_calls *calls);
void worker_calls_fini(struct worker_calls *calls);

/* Reads all records there are, and acts on calls that came whole with them. 0 or -EPROTO: the front broke the protocol
 * and the channel is dead. */
int worker_calls_receive(struct worker_calls *calls);
/* One slice of the oldest chat or text that is still on its way to tokens. True while there is more to do. */
bool worker_calls_encode(struct worker_calls *calls);
bool worker_calls_encoding(struct worker_calls *calls); /* whether there is anything to do */
/* Moves waiting records into the ring. True while some are left. */
bool worker_calls_flush(struct worker_calls *calls);

#endif
