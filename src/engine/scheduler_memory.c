/* Who gets KV pages: admission, room for running calls, eviction. The policy is in scheduler.h; here is why it ends.
 *
 * Take the oldest running call. It is never evicted, and all other calls can be: so it gets every page but those of
 * its own, and since its length is bounded by the pool, it always has room. Each step that is made for it brings it
 * one row on, so it ends, and another is the oldest. A call let in later may be older than all that run (it was evicted
 * while it was blocked); then it is the one, and there are only so many calls older than it. A waiting call cannot be
 * passed by younger ones, so it is let in when enough running ones have ended, at the latest when none runs.
 *
 * Nobody is evicted for a call that is younger. A call that finds no page and nobody to take one from keeps what it has
 * and makes no step: perhaps an older one ends and nothing has to be computed again, or an older one takes its pages.
 *
 * Thrashing. A call that is let in has its known tokens covered, and so has every running one, with a page ahead for
 * each (claimed()); so nobody is let in just to be evicted by the next page of another. And with each eviction a call
 * asks for twice the pages ahead before it is let in again, up to all it can ever need: one that keeps losing comes
 * back later and later, and has ever more done by the time it could lose again. */
#include <assert.h>
#include <errno.h>

#include "src/engine/scheduler_private.h"

/* --- admission -------------------------------------------------------------------------------- */

/* Pages for the tokens a call has so far, and for all it may have in the end (the last token is not stored). */
static uint32_t known_pages(const struct generation *g)
{
	return kv_pages_for(g->n_prompt + g->n_answer);
}

static uint32_t most_pages(const struct generation *g)
{
	return kv_pages_for(g->n_prompt + (g->max_answer ? g->max_answer - 1 : 0));
}

static uint32_t pages_with_ahead(const struct generation *g, uint32_t ahead)
{
	uint32_t known = known_pages(g), most = most_pages(g);
	return known >= most ? known : most - known > ahead ? known + ahead : most;
}

/* Pages that running calls are about to take. */
static uint64_t claimed(const struct scheduler *s)
{
	uint64_t n = 0;
	for (uint32_t i = 0; i < s->n_running; i++) {
		uint32_t wanted = pages_with_ahead(s->running[i], 1), have = s->running[i]->kv.n_pages;
		n += wanted > have ? wanted - have : 0;
	}
	return n;
}

/* Prompt tokens that need not be computed if the prefix cache has them. The last one's row is always needed, and so are
 * those whose log-probabilities are not reported yet (a row predicts the token after it), and all of a vector. */
static uint32_t reusable_tokens(const struct generation *g)
{
	if (g->pooling)
		return 0;
	if (!scheduler_scores_prompt(g))
		return g->n_prompt - 1;
	return g->n_reported ? g->n_reported - 1 : 0;
}

static bool fits(const struct scheduler *s, const struct generation *g)
{
	if (!s->n_running) /* the pool is its own, but for idle pages */
		return true;
	uint32_t n_idle, ahead = g->n_evicted < 31 ? UINT32_C(1) << g->n_evicted : UINT32_MAX;
	uint32_t n_cached =
		prefix_match(s->prefix, adapter_digest_of(g->adapter), g->prompt, reusable_tokens(g), &n_idle);
	return claimed(s) + pages_with_ahead(g, ahead) - n_cached <= kv_available(s->setup.kv) - n_idle;
}

/* The oldest waiting call whose client reads. */
static struct generation *next_waiting(const struct scheduler *s)
{
	struct generation *g = s->waiting;
	while (g && g->blocked)
		g = g->next;
	return g;
}

bool scheduler_can_admit(const struct scheduler *s)
{
	const struct generation *g = next_waiting(s);
	return g && s->n_running < s->setup.max_running && fits(s, g);
}

static void take_prefix(struct scheduler *s, struct generation *g)
{
	prefix_take(s->prefix, adapter_digest_of(g->adapter), &g->kv, g->prompt, reusable_tokens(g));
	s->totals.prefix_tokens += g->kv.n_tokens;
	if (g->kv.n_tokens > g->n_prompt_done) {
		s->totals.prompt_tokens += g->kv.n_tokens - g->n_prompt_done;
		g->n_prompt_done = g->kv.n_tokens;
	}
}

void scheduler_admit(struct scheduler *s)
{
	while (scheduler_can_admit(s)) {
		struct generation *g = next_waiting(s);
		scheduler_dequeue(s, g);
		scheduler_start(s, g);
		g->state = GENERATION_PREFILL;
		if (scheduler_begin(s, g))
			take_prefix(s, g);
	}
}

/* --- room ------------------------------------------------------------------------------------- */

/* The prefill pass under way goes on without a call's rows, or ends here when it has no others. */
static void leave_pass(struct scheduler *s, struct generation *g)
{
	for (uint32_t i = 0; i < s->n_prefill; i++) {
		if (s->prefill[i].generation != g)
			continue;
		s->prefill[i].generation = NULL;
		if (!forward_drop(s->setup.forward, PHASE_PREFILL, &g->kv))
			s->n_prefill = s->n_prefill_rows = 0;
	}
}

void scheduler_release(struct scheduler *s, struct generation *g)
{
	leave_pass(s, g);
	kv_release(s->setup.kv, &g->kv);
}

/* Whom to take pages from for `g`: never the oldest; first those that are blocked, then those younger than `g`; of each
 * the newest. NULL: nobody. */
static struct generation *victim_for(const struct scheduler *s, const struct generation *g)
{
	for (uint32_t i = s->n_running; i-- > 1;)
		if (s->running[i]->blocked && s->running[i] != g && s->running[i]->kv.n_pages)
			return s->running[i];
	for (uint32_t i = s->n_running; i-- > 1 && s->running[i] != g;)
		if (s->running[i]->kv.n_pages)
			return s->running[i];
	return NULL;
}

/* The call goes back to its place in the queue with all it has said and without its pages. */
static void evict(struct scheduler *s, struct generation *g)
{
	s->totals.evicted++;
	g->n_evicted++;
	scheduler_release(s, g);
	scheduler_stop(s, g);
	g->state = GENERATION_WAITING;
	scheduler_enqueue(s, g);
}

int scheduler_take_room(struct scheduler *s, struct generation *g, uint32_t n_tokens)
{
	int rc;
	do
		rc = kv_extend(s->setup.kv, &g->kv, n_tokens);
	while (rc == -EAGAIN && prefix_give_up(s->prefix));
	return rc;
}

int scheduler_need_room(struct scheduler *s, struct generation *g, uint32_t n_tokens)
{
	for (;;) {
		int rc = scheduler_take_room(s, g, n_tokens);
		struct generation *victim = rc == -EAGAIN ? victim_for(s, g) : NULL;
		if (!victim)
			return rc;
		evict(s, victim);
	}
}

bool scheduler_has_room(const struct scheduler *s, const struct generation *g)
{
	return kv_pages_for(g->kv.n_tokens + 1) <= g->kv.n_pages || kv_available(s->setup.kv) || victim_for(s, g);
}
