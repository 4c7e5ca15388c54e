/* What the scheduler's files share: scheduler.c (queue, endings, steps), scheduler_memory.c (who gets pages) and
 * scheduler_tokens.c (events). */
#ifndef WEIGHTD_ENGINE_SCHEDULER_PRIVATE_H
#define WEIGHTD_ENGINE_SCHEDULER_PRIVATE_H

#include "src/engine/pick.h"
#include "src/engine/prefix.h"
#include "src/engine/scheduler.h"

/* A call's part of a pass: rows [first_row, first_row + n) are its next n positions. */
struct scheduler_span {
	struct generation *generation;
	uint32_t first_row, n;
};

struct scheduler {
	struct scheduler_setup setup;
	struct scheduler_totals totals;
	struct prefix *prefix;	    /* owned; NULL: no cache */
	struct generation *waiting; /* in order of arrival, as are the running ones */
	struct generation *running[DECODE_ROWS_MAX];
	uint32_t n_running;
	uint64_t n_arrivals;
	struct batch_row rows[DECODE_ROWS_MAX]; /* of a decode pass */

	/* The prefill pass that is under way; n_prefill_rows 0: none. A call that loses its pages leaves it. */
	struct batch_row *prefill_rows; /* [prefill_chunk] owned */
	struct scheduler_span prefill[DECODE_ROWS_MAX];
	uint32_t n_prefill, n_prefill_rows;

	struct pick picks[LOGIT_ROWS_MAX];
	uint32_t pick_rows[LOGIT_ROWS_MAX];
	uint32_t n_picks;
};

static inline uint64_t scheduler_now(const struct scheduler *s)
{
	return s->setup.now_ns ? s->setup.now_ns() : 0;
}

/* --- scheduler.c: lists and endings --- */

/* Puts a call into its place in the order of arrival, among the waiting or the running. */
void scheduler_enqueue(struct scheduler *s, struct generation *g);
void scheduler_dequeue(struct scheduler *s, struct generation *g);
void scheduler_start(struct scheduler *s, struct generation *g);
void scheduler_stop(struct scheduler *s, struct generation *g);

/* End a call: its pages go, its last event is sent, and it is freed. */
void scheduler_finish(struct scheduler *s, struct generation *g, enum generation_finish why);
void scheduler_fail(struct scheduler *s, struct generation *g, const char *reason);

/* --- scheduler_memory.c --- */

/* Takes all pages from a call. */
void scheduler_release(struct scheduler *s, struct generation *g);

/* Room for n_tokens positions of a running call. `need` evicts others for it, `take` does not. 0; -EAGAIN: the call has
 * to wait as it is, with the pages it has; -ENOMEM. */
int scheduler_need_room(struct scheduler *s, struct generation *g, uint32_t n_tokens);
int scheduler_take_room(struct scheduler *s, struct generation *g, uint32_t n_tokens);
/* Whether a running call could store its next position now. */
bool scheduler_has_room(const struct scheduler *s, const struct generation *g);
/* Whether the next waiting call would be let in now. */
bool scheduler_can_admit(const struct scheduler *s);

/* --- scheduler_tokens.c --- */

/* Whether the log-probabilities of the prompt are wanted. */
bool scheduler_scores_prompt(const struct generation *g);
/* Reports what can be said before any pass. False: the call has ended. */
bool scheduler_begin(struct scheduler *s, struct generation *g);
/* Asks for the logits of a row of the last pass: for the answer's next token, or to score prompt token `index`. */
void scheduler_want_next(struct scheduler *s, struct generation *g, uint32_t row);
void scheduler_want_score(struct scheduler *s, struct generation *g, uint32_t row, uint32_t index);
/* Takes the states of a pooling call's rows, which were computed last. */
void scheduler_pool(struct scheduler *s, const struct scheduler_span *span);
/* The call's prompt is done, and it takes no token. */
void scheduler_end_prompt(struct scheduler *s, struct generation *g);
/* Computes all logits asked for and reports, in the order they were asked for; calls may end by it. */
void scheduler_serve(struct scheduler *s);

#endif
