/* The scheduler: queue, endings and steps. A call's way: waiting -> prefill -> decode -> finished, with ways back from
 * prefill and decode to waiting; see scheduler.h for the policy.
 *
 *   step:  admit            waiting calls whose pages fit (scheduler_memory.c)
 *          decode_step      rows of decoding calls: for each its newest token, then rows of those that replay
 *                           -> logits -> pick -> report (scheduler_tokens.c) -> maybe finish
 *          prefill_step     the next prompt rows, as many as the caller allows -> logits of the rows someone asked for
 *                           -> report, first pick; or begin and advance, the same one layer at a time
 *
 * Passes are prepared oldest call first. Making room for one call evicts only blocked ones and younger ones, so what
 * was already chosen for the pass stays. */
#include "src/engine/scheduler_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

int scheduler_new(const struct scheduler_setup *setup, struct scheduler **out, struct err *err)
{
	assert(setup->max_running >= 1 && setup->max_running <= DECODE_ROWS_MAX);
	struct scheduler *s = calloc(1, sizeof *s);
	if (s)
		s->prefill_rows = calloc(setup->prefill_chunk, sizeof *s->prefill_rows);
	if (!s || !s->prefill_rows) {
		free(s);
		return err_set(err, -ENOMEM, "no memory for the scheduler");
	}
	s->setup = *setup;
	if (prefix_new(setup->kv, setup->prefix_cache_bytes, &s->prefix)) {
		scheduler_free(s);
		return err_set(err, -ENOMEM, "no memory for the prefix cache's table");
	}
	*out = s;
	return 0;
}

static void let_go(struct scheduler *s, struct generation *g)
{
	scheduler_release(s, g);
	generation_free(g);
}

void scheduler_free(struct scheduler *s)
{
	if (!s)
		return;
	for (struct generation *g = s->waiting, *next; g; g = next) {
		next = g->next;
		let_go(s, g);
	}
	for (uint32_t i = 0; i < s->n_running; i++)
		let_go(s, s->running[i]);
	prefix_free(s->prefix);
	free(s->prefill_rows);
	free(s);
}

static uint32_t minimum(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static uint32_t pool_tokens(const struct scheduler *s)
{
	uint64_t tokens = (uint64_t)s->setup.kv->n_pages * KV_PAGE_TOKENS;
	return tokens < s->setup.context_tokens ? (uint32_t)tokens : s->setup.context_tokens;
}

uint32_t scheduler_prompt_max(const struct scheduler *s)
{
	return pool_tokens(s) - 1;
}

uint32_t scheduler_state_dim(const struct scheduler *s)
{
	return s->setup.model->config.dim;
}

uint32_t scheduler_n_running(const struct scheduler *s)
{
	return s->n_running;
}

uint32_t scheduler_n_prompts(const struct scheduler *s)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < s->n_running; i++)
		n += s->running[i]->state == GENERATION_PREFILL && !s->running[i]->blocked;
	return n;
}

uint32_t scheduler_n_waiting(const struct scheduler *s)
{
	uint32_t n = 0;
	for (const struct generation *g = s->waiting; g; g = g->next)
		n++;
	return n;
}

uint64_t scheduler_prefix_bytes(const struct scheduler *s)
{
	return prefix_bytes(s->prefix);
}

const struct scheduler_totals *scheduler_totals(const struct scheduler *s)
{
	return &s->totals;
}

void scheduler_add(struct scheduler *s, struct generation *g)
{
	assert(g->n_prompt >= 1 && g->n_prompt <= scheduler_prompt_max(s));
	uint32_t room = pool_tokens(s) - g->n_prompt;
	g->max_answer = g->pooling ? 0 : minimum(g->params.max_tokens, room);
	g->state = GENERATION_WAITING;
	g->arrival = ++s->n_arrivals;
	scheduler_enqueue(s, g);
}

struct generation *scheduler_find(struct scheduler *s, uint64_t id)
{
	for (uint32_t i = 0; i < s->n_running; i++)
		if (s->running[i]->id == id)
			return s->running[i];
	for (struct generation *g = s->waiting; g; g = g->next)
		if (g->id == id)
			return g;
	return NULL;
}

/* --- lists ------------------------------------------------------------------------------------ */

void scheduler_enqueue(struct scheduler *s, struct generation *g)
{
	struct generation **at = &s->waiting;
	while (*at && (*at)->arrival < g->arrival)
		at = &(*at)->next;
	g->next = *at;
	*at = g;
}

void scheduler_dequeue(struct scheduler *s, struct generation *g)
{
	struct generation **at = &s->waiting;
	while (*at != g)
		at = &(*at)->next;
	*at = g->next;
	g->next = NULL;
}

void scheduler_start(struct scheduler *s, struct generation *g)
{
	uint32_t i = s->n_running++;
	for (; i > 0 && s->running[i - 1]->arrival > g->arrival; i--)
		s->running[i] = s->running[i - 1];
	s->running[i] = g;
}

void scheduler_stop(struct scheduler *s, struct generation *g)
{
	uint32_t i = 0;
	while (s->running[i] != g)
		i++;
	for (s->n_running--; i < s->n_running; i++)
		s->running[i] = s->running[i + 1];
}

/* The running call that came next after number `arrival`, NULL: none. For walks during which calls may go. */
static struct generation *running_after(const struct scheduler *s, uint64_t arrival)
{
	for (uint32_t i = 0; i < s->n_running; i++)
		if (s->running[i]->arrival > arrival)
			return s->running[i];
	return NULL;
}

/* --- endings ---------------------------------------------------------------------------------- */

static void leave(struct scheduler *s, struct generation *g)
{
	if (g->state == GENERATION_WAITING)
		scheduler_dequeue(s, g);
	else
		scheduler_stop(s, g);
	generation_free(g);
}

void scheduler_finish(struct scheduler *s, struct generation *g, enum generation_finish why)
{
	const char *text = "";
	uint32_t n_text = 0;
	bool stopped = false;
	/* A stop string took all that was held; a cancelled call's client is gone. */
	if (why != GENERATION_CANCELLED && g->state != GENERATION_FINISHED)
		generation_last_text(g, &text, &n_text, &stopped);
	g->finish = stopped ? GENERATION_STOP : why;
	s->totals.calls++;
	s->totals.cancelled += why == GENERATION_CANCELLED;
	scheduler_release(s, g);
	s->setup.sink.done(s->setup.sink.arg, g, text, n_text);
	leave(s, g);
}

void scheduler_fail(struct scheduler *s, struct generation *g, const char *reason)
{
	s->totals.calls++;
	s->totals.failed++;
	scheduler_release(s, g);
	s->setup.sink.failed(s->setup.sink.arg, g, reason);
	leave(s, g);
}

bool scheduler_cancel(struct scheduler *s, uint64_t id)
{
	struct generation *g = scheduler_find(s, id);
	if (g)
		scheduler_finish(s, g, GENERATION_CANCELLED);
	return g != NULL;
}

void scheduler_cancel_all(struct scheduler *s)
{
	while (s->n_running)
		scheduler_finish(s, s->running[0], GENERATION_CANCELLED);
	while (s->waiting)
		scheduler_finish(s, s->waiting, GENERATION_CANCELLED);
}

/* --- passes ----------------------------------------------------------------------------------- */

/* Positions a call could store in the pages it has. */
static uint32_t room_of(const struct generation *g)
{
	return g->kv.n_pages * KV_PAGE_TOKENS - g->kv.n_tokens;
}

/* Whether nobody asks what a prompt's position predicts, nor for its state. */
static bool is_silent(const struct generation *g, uint32_t position)
{
	if (g->pooling)
		return !pooling_wants(g->pooling, position);
	return position + 1 < g->n_prompt && !scheduler_scores_prompt(g);
}

/* Lays the spans out as rows; returns how many. */
static uint32_t lay_out(struct scheduler_span *spans, uint32_t n_spans, struct batch_row *rows)
{
	uint32_t n_rows = 0;
	for (uint32_t i = 0; i < n_spans; i++) {
		struct generation *g = spans[i].generation;
		spans[i].first_row = n_rows;
		for (uint32_t j = 0; j < spans[i].n; j++) {
			uint32_t position = g->kv.n_tokens + j;
			rows[n_rows++] = (struct batch_row){
				.token = generation_token(g, position),
				.position = position,
				.sequence = &g->kv,
				.adapter = g->adapter,
				.silent = is_silent(g, position),
			};
		}
	}
	return n_rows;
}

/* There was no scratch for a pass. */
static void fail_all(struct scheduler *s, const struct scheduler_span *spans, uint32_t n_spans)
{
	for (uint32_t i = 0; i < n_spans; i++)
		scheduler_fail(s, spans[i].generation, "out of memory");
}

/* --- decode ----------------------------------------------------------------------------------- */

/* Tokens of a decoding call that are known and not stored: 1, or more while it replays. */
static uint32_t behind(const struct generation *g)
{
	return g->n_prompt + g->n_answer - g->kv.n_tokens;
}

/* One row for every answer, then what is left of the pass for those that replay, the oldest first. */
static uint32_t choose_decoding(struct scheduler *s, struct scheduler_span *spans)
{
	uint32_t n = 0, left = DECODE_ROWS_MAX;
	uint64_t arrival = 0;
	for (struct generation *g; (g = running_after(s, arrival));) {
		arrival = g->arrival;
		if (g->state != GENERATION_DECODE || g->blocked)
			continue;
		int rc = scheduler_need_room(s, g, g->kv.n_tokens + 1);
		if (!rc)
			spans[n++] = (struct scheduler_span){.generation = g, .n = 1};
		else if (rc != -EAGAIN)
			scheduler_fail(s, g, "out of memory");
	}
	left -= n;
	for (uint32_t i = 0; i < n && left > 0; i++) {
		struct generation *g = spans[i].generation;
		uint32_t wanted = minimum(behind(g), 1 + left);
		scheduler_take_room(s, g, g->kv.n_tokens + wanted); /* if it fails, what there is will do */
		spans[i].n = minimum(wanted, room_of(g));
		left -= spans[i].n - 1;
	}
	return n;
}

uint32_t scheduler_decode_step(struct scheduler *s)
{
	struct scheduler_span spans[DECODE_ROWS_MAX];
	uint32_t n_spans = choose_decoding(s, spans), n_rows = lay_out(spans, n_spans, s->rows);
	if (!n_rows)
		return 0;
	s->totals.steps++;
	uint64_t start = scheduler_now(s);
	int rc = forward_run(s->setup.forward, &(struct batch){PHASE_DECODE, n_rows, s->rows});
	s->totals.forward_ns += scheduler_now(s) - start;
	if (rc) {
		fail_all(s, spans, n_spans);
		return 0;
	}
	for (uint32_t i = 0; i < n_spans; i++) {
		struct generation *g = spans[i].generation;
		kv_advance(&g->kv, spans[i].n, PHASE_DECODE);
		s->totals.replayed_tokens += spans[i].n - !behind(g);
		if (!behind(g))
			scheduler_want_next(s, g, spans[i].first_row + spans[i].n - 1);
	}
	scheduler_serve(s);
	return n_rows;
}

/* --- prefill ---------------------------------------------------------------------------------- */

/* Prompt tokens of a span's call that this pass does not compute. */
static uint32_t left_over(const struct scheduler_span *span)
{
	return span->generation->n_prompt - span->generation->kv.n_tokens - span->n;
}

static uint32_t give_rows(struct scheduler_span *span, uint32_t n)
{
	n = minimum(n, left_over(span));
	span->n += n;
	return n;
}

/* Of the prompts that could use more rows, the one that needs the fewest; the older of equals. NULL: none. */
static struct scheduler_span *nearest_to_its_end(struct scheduler_span *spans, uint32_t n)
{
	struct scheduler_span *nearest = NULL;
	for (uint32_t i = 0; i < n; i++)
		if (left_over(&spans[i]) && (!nearest || left_over(&spans[i]) < left_over(nearest)))
			nearest = &spans[i];
	return nearest;
}

/* Half of the rows, at least one, for the oldest prompt, the rest for those that are nearest to their end. */
static void share_rows(struct scheduler_span *spans, uint32_t n, uint32_t max_rows)
{
	uint32_t left = max_rows;
	if (n)
		left -= give_rows(&spans[0], (max_rows + 1) / 2);
	for (struct scheduler_span *span; left && (span = nearest_to_its_end(spans, n));)
		left -= give_rows(span, left);
}

static uint32_t choose_prefilling(struct scheduler *s, uint32_t max_rows, struct scheduler_span *spans)
{
	uint32_t n = 0, n_chosen = 0;
	for (uint32_t i = 0; i < s->n_running; i++)
		if (s->running[i]->state == GENERATION_PREFILL && !s->running[i]->blocked)
			spans[n++] = (struct scheduler_span){.generation = s->running[i]};
	share_rows(spans, n, max_rows);
	for (uint32_t i = 0; i < n; i++) {
		struct generation *g = spans[i].generation;
		if (!spans[i].n || g->state != GENERATION_PREFILL) /* it has just been evicted for an older one */
			continue;
		int rc = scheduler_need_room(s, g, g->kv.n_tokens + spans[i].n);
		uint32_t n_rows = minimum(spans[i].n, room_of(g));
		if (rc && rc != -EAGAIN)
			scheduler_fail(s, g, "out of memory");
		else if (n_rows)
			spans[n_chosen++] = (struct scheduler_span){.generation = g, .n = n_rows};
	}
	return n_chosen;
}

/* A prompt's rows were computed: counts them, and asks for what they predict and is not said yet. Row of position p
 * predicts token p + 1 of the sequence. Returns whether the call ends here. */
static bool ask_span(struct scheduler *s, const struct scheduler_span *span)
{
	struct generation *g = span->generation;
	uint32_t end = g->kv.n_tokens, first = end - span->n;
	uint32_t fresh = end > g->n_prompt_done ? minimum(end - g->n_prompt_done, span->n) : 0;
	s->totals.prompt_tokens += fresh;
	s->totals.replayed_tokens += span->n - fresh;
	g->n_prompt_done += fresh;
	if (g->pooling)
		scheduler_pool(s, span);
	for (uint32_t index = first + 1; scheduler_scores_prompt(g) && index <= end && index < g->n_prompt; index++)
		if (index >= g->n_reported)
			scheduler_want_score(s, g, span->first_row + index - 1 - first, index);
	if (end < g->n_prompt)
		return false;
	if (!g->pooling)
		prefix_insert(s->prefix, adapter_digest_of(g->adapter), &g->kv, g->prompt, g->n_prompt);
	g->state = GENERATION_DECODE;
	if (g->max_answer && !g->n_answer)
		scheduler_want_next(s, g, span->first_row + span->n - 1);
	return !g->max_answer;
}

uint32_t scheduler_prefill_begin(struct scheduler *s, uint32_t max_rows)
{
	assert(max_rows >= 1 && max_rows <= s->setup.prefill_chunk);
	if (s->n_prefill_rows)
		return s->n_prefill_rows;
	uint32_t n_spans = choose_prefilling(s, max_rows, s->prefill);
	uint32_t n_rows = lay_out(s->prefill, n_spans, s->prefill_rows);
	if (!n_rows)
		return 0;
	s->totals.steps++;
	if (forward_begin(s->setup.forward, &(struct batch){PHASE_PREFILL, n_rows, s->prefill_rows})) {
		fail_all(s, s->prefill, n_spans);
		return 0;
	}
	s->n_prefill = n_spans;
	s->n_prefill_rows = n_rows;
	return n_rows;
}

bool scheduler_prefill_under_way(const struct scheduler *s)
{
	return s->n_prefill_rows;
}

/* The last layer has run. */
static void end_prefill(struct scheduler *s)
{
	struct scheduler_span spans[DECODE_ROWS_MAX]; /* the pass is over for those that end here */
	bool ends[DECODE_ROWS_MAX];
	uint32_t n_spans = 0;
	for (uint32_t i = 0; i < s->n_prefill; i++)
		if (s->prefill[i].generation)
			spans[n_spans++] = s->prefill[i];
	s->n_prefill = s->n_prefill_rows = 0;
	for (uint32_t i = 0; i < n_spans; i++) {
		kv_advance(&spans[i].generation->kv, spans[i].n, PHASE_PREFILL);
		ends[i] = ask_span(s, &spans[i]);
	}
	scheduler_serve(s);
	for (uint32_t i = 0; i < n_spans; i++)
		if (ends[i]) /* it took no token, so nothing else has ended it */
			scheduler_end_prompt(s, spans[i].generation);
}

bool scheduler_prefill_advance(struct scheduler *s)
{
	if (!s->n_prefill_rows)
		return false;
	uint64_t start = scheduler_now(s);
	bool more = forward_advance(s->setup.forward, PHASE_PREFILL);
	s->totals.forward_ns += scheduler_now(s) - start;
	if (!more)
		end_prefill(s);
	return more;
}

uint32_t scheduler_prefill_step(struct scheduler *s, uint32_t max_rows)
{
	uint32_t n_rows = scheduler_prefill_begin(s, max_rows);
	while (scheduler_prefill_advance(s))
		;
	return n_rows;
}

/* --- steps ------------------------------------------------------------------------------------ */

bool scheduler_can_run(const struct scheduler *s)
{
	for (uint32_t i = 0; i < s->n_running; i++)
		if (!s->running[i]->blocked && scheduler_has_room(s, s->running[i]))
			return true;
	return scheduler_can_admit(s);
}

bool scheduler_step(struct scheduler *s)
{
	scheduler_admit(s);
	scheduler_decode_step(s);
	scheduler_prefill_step(s, s->setup.prefill_chunk);
	return scheduler_can_run(s);
}
