/* Which rows run next: continuous batching over the calls of one worker.
 *
 * Steps. Each step first gives every decoding call its next token, all of them in one pass, and then moves prompts on
 * by one chunk. A long prompt thus costs running streams one chunk per token, whose size the caller sets as it goes,
 * and new calls start between two tokens of the old ones.
 *
 * Sharing a chunk. Half of the rows are the oldest prompt's; the others, and what it does not need, go to the prompt
 * with the fewest tokens left, then to the next. Of prompts that come together one after the other has its first token,
 * while with equal parts all would have theirs when the last one does. A short prompt behind a long one has its first
 * token after about a step, and none waits for more than twice the time that it would take to compute it and all older
 * ones first, whatever comes after it. It belongs to this that a caller with a clock gives several prompts more time
 * than one (src/worker/worker_pace.h): answers that begin early would hold up the prompts behind them otherwise.
 *
 * Order. Calls have an order, that of their arrival, and it never changes: the waiting one that came first is let in
 * first (those whose client does not read are passed over), memory goes to the older before the younger.
 *
 * Vectors. A call with a pooling ends with its prompt: its positions' states are summed as they are computed, and their
 * pages go with it. The prefix cache has no part in it, since every position is needed.
 *
 * Memory. A call is let in when its tokens so far and a page or so ahead fit beside what the running ones are about to
 * take, not when all it may ever need does; most answers end long before their limit. Pages are taken as they are
 * filled. When one is needed and none is left, idle pages of the prefix cache go first; then a running call loses all
 * of its pages, blocked ones before others, the newest first, never the oldest. It waits in its place in the order and
 * resumes: its prompt is computed again in prefill, then its answer's tokens so far in decode, up to the free rows of a
 * pass at a time, each in the numerics it had at first. Nothing is said twice, and the call goes on with the bits it
 * would have had. Any set of calls each of which fits the pool alone ends (scheduler_memory.c says why).
 *
 * One thread calls these functions. No clock, no sockets: events go to the sink. */
#ifndef WEIGHTD_ENGINE_SCHEDULER_H
#define WEIGHTD_ENGINE_SCHEDULER_H

#include "src/engine/forward.h"
#include "src/engine/generation.h"

/* A token of the prompt (echo) or of the answer. */
struct scheduler_token {
	uint32_t id;
	uint32_t index; /* in the whole sequence */
	bool is_prompt;
	bool has_logprob;
	float logprob;			     /* natural, of the model's own distribution */
	const struct sampler_candidate *top; /* [n_top], values are log-probabilities; view */
	uint32_t n_top;
	const char *text; /* [n_text] text that became final with this token; view */
	uint32_t n_text;
};

/* Where events go. Called from within a step or its parts and scheduler_cancel; must not call back. */
struct scheduler_sink {
	void *arg;
	/* It has left the queue for the first time; NULL: nobody asks. */
	void (*started)(void *arg, struct generation *generation);
	void (*token)(void *arg, struct generation *generation, const struct scheduler_token *token);
	/* The generation is freed when this returns. `text`: the last of it. */
	void (*done)(void *arg, struct generation *generation, const char *text, uint32_t n_text);
	void (*failed)(void *arg, struct generation *generation, const char *reason);
	/* The vector [n] of a call with a pooling, before `done`. NULL where there are no such calls. */
	void (*pooled)(void *arg, struct generation *generation, const float *vector, uint32_t n);
};

struct scheduler_setup {
	const struct model *model; /* borrowed, all of these */
	const struct tokenizer *tokenizer;
	struct forward *forward;
	struct kv *kv;
	struct team *team;
	struct scheduler_sink sink;
	uint32_t prefill_chunk;	     /* prompt rows in a step at most */
	uint32_t max_running;	     /* 1..DECODE_ROWS_MAX */
	uint32_t context_tokens;     /* prompt and answer together */
	uint64_t prefix_cache_bytes; /* of the pool's pages that ended prompts may keep; 0: none */
	uint64_t (*now_ns)(void);    /* a clock for totals.forward_ns and nothing else; NULL: that stays 0 */
};

struct scheduler;

int scheduler_new(const struct scheduler_setup *setup, struct scheduler **out, struct err *err);
void scheduler_free(struct scheduler *scheduler); /* frees the calls it holds, without events */

/* The longest prompt that can be taken: below the context and what the whole KV pool holds. */
uint32_t scheduler_prompt_max(const struct scheduler *scheduler);

/* Components of a position's state. */
uint32_t scheduler_state_dim(const struct scheduler *scheduler);

/* Queues a call; takes the generation (its prompt is not longer than scheduler_prompt_max). */
void scheduler_add(struct scheduler *scheduler, struct generation *generation);

/* Ends a call at once: its pages are free when this returns; `done` (GENERATION_CANCELLED) comes before. False: no such
 * call. */
bool scheduler_cancel(struct scheduler *scheduler, uint64_t id);

/* Ends all calls, as scheduler_cancel does. */
void scheduler_cancel_all(struct scheduler *scheduler);

/* A call by id, NULL: none. View. */
struct generation *scheduler_find(struct scheduler *scheduler, uint64_t id);

/* The parts of a step, in this order. A caller with a clock runs them itself and decides by what passes cost how many
 * prompt rows the next one has; no answer depends on that. */

/* Lets waiting calls in, as far as they fit. */
void scheduler_admit(struct scheduler *scheduler);
/* The next token of every answer that can have one, and earlier ones of those that resume. Returns the number of rows
 * run, 0: there was nothing to do, or the pass failed and its calls with it. */
uint32_t scheduler_decode_step(struct scheduler *scheduler);
/* The next prompt rows, 1..prefill_chunk at most. Returns the number of rows run. */
uint32_t scheduler_prefill_step(struct scheduler *scheduler, uint32_t max_rows);

/* The same in parts, for passes that last many times longer than a decode pass: everything else may be called between
 * two layers, decode steps above all; a call that ends or is evicted meanwhile leaves the pass. scheduler_prefill_begin
 * chooses the rows and returns how many; while a pass is under way that one's number, 0: there is nothing to do.
 * scheduler_prefill_advance runs one layer, and after the last one reports what there is to report. Returns whether the
 * pass has more layers. */
uint32_t scheduler_prefill_begin(struct scheduler *scheduler, uint32_t max_rows);
bool scheduler_prefill_advance(struct scheduler *scheduler);
bool scheduler_prefill_under_way(const struct scheduler *scheduler);

/* All three, with a whole chunk of prompt rows. Returns scheduler_can_run. */
bool scheduler_step(struct scheduler *scheduler);
/* True while there is anything that could run now; false when idle, or when everything is blocked or waits for the
 * pages of a blocked call. */
bool scheduler_can_run(const struct scheduler *scheduler);

uint32_t scheduler_n_running(const struct scheduler *scheduler);
/* Of these, prompts that are not computed yet and whose clients read. */
uint32_t scheduler_n_prompts(const struct scheduler *scheduler);
uint32_t scheduler_n_waiting(const struct scheduler *scheduler);

struct scheduler_totals {
	uint64_t steps; /* passes */
	uint64_t calls, cancelled, failed;
	uint64_t prompt_tokens, answer_tokens; /* of calls, each counted once */
	uint64_t evicted;		       /* times a call lost its pages to others */
	uint64_t replayed_tokens;	       /* computed again for that */
	uint64_t prefix_tokens;		       /* not computed because the prefix cache had them */
	uint64_t forward_ns;		       /* in the forward pass: layers, states and logits */
};
/* Bytes of the prefix cache's pages, which are part of the pool. */
uint64_t scheduler_prefix_bytes(const struct scheduler *scheduler);

const struct scheduler_totals *scheduler_totals(const struct scheduler *scheduler);

#endif
