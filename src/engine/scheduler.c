/* The scheduler. A call's way: waiting -> prefill -> decode -> finished; see scheduler.h for the policy.
 *
 *   step:  admit            waiting calls whose pages can be promised
 *          decode_step      one row per decoding call -> logits -> pick -> report -> maybe finish
 *          prefill_step     the next prompt rows, as many as the caller allows -> logits of the rows someone asked for
 *                           -> report, first pick
 *
 * Picking (penalties, sampling, log-probabilities) costs as much as a layer when many calls sample from a large
 * vocabulary, so rows are picked by all compute threads; events are reported by the calling thread in row order. */
#include "src/engine/scheduler.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "src/engine/pick.h"

struct scheduler {
	struct scheduler_setup setup;
	struct scheduler_totals totals;
	struct generation *waiting, **waiting_end; /* first come, first served */
	struct generation *running[DECODE_ROWS_MAX];
	uint32_t n_running;
	struct batch_row *rows; /* [prefill_chunk or DECODE_ROWS_MAX] owned */
	struct pick picks[LOGIT_ROWS_MAX];
	uint32_t pick_rows[LOGIT_ROWS_MAX];
	uint32_t n_picks;
};

int scheduler_new(const struct scheduler_setup *setup, struct scheduler **out, struct err *err)
{
	assert(setup->max_running >= 1 && setup->max_running <= DECODE_ROWS_MAX);
	struct scheduler *s = calloc(1, sizeof *s);
	uint32_t rows = setup->prefill_chunk > DECODE_ROWS_MAX ? setup->prefill_chunk : DECODE_ROWS_MAX;
	if (s)
		s->rows = calloc(rows, sizeof *s->rows);
	if (!s || !s->rows) {
		free(s);
		return err_set(err, -ENOMEM, "no memory for the scheduler");
	}
	s->setup = *setup;
	s->waiting_end = &s->waiting;
	*out = s;
	return 0;
}

static void let_go(struct scheduler *s, struct generation *g)
{
	kv_release(s->setup.kv, &g->kv);
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
	free(s->rows);
	free(s);
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

uint32_t scheduler_n_running(const struct scheduler *s)
{
	return s->n_running;
}

uint32_t scheduler_n_waiting(const struct scheduler *s)
{
	uint32_t n = 0;
	for (const struct generation *g = s->waiting; g; g = g->next)
		n++;
	return n;
}

const struct scheduler_totals *scheduler_totals(const struct scheduler *s)
{
	return &s->totals;
}

void scheduler_add(struct scheduler *s, struct generation *g)
{
	assert(g->n_prompt >= 1 && g->n_prompt <= scheduler_prompt_max(s));
	uint32_t room = pool_tokens(s) - g->n_prompt;
	g->max_answer = g->params.max_tokens < room ? g->params.max_tokens : room;
	g->state = GENERATION_WAITING;
	g->next = NULL;
	*s->waiting_end = g;
	s->waiting_end = &g->next;
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

/* --- endings ---------------------------------------------------------------------------------- */

static void unlink_running(struct scheduler *s, struct generation *g)
{
	uint32_t i = 0;
	while (i < s->n_running && s->running[i] != g)
		i++;
	if (i == s->n_running)
		return;
	for (s->n_running--; i < s->n_running; i++) /* keeps the order of arrival */
		s->running[i] = s->running[i + 1];
}

static void unlink_waiting(struct scheduler *s, struct generation *g)
{
	for (struct generation **at = &s->waiting; *at; at = &(*at)->next)
		if (*at == g) {
			*at = g->next;
			if (!*at)
				s->waiting_end = at;
			return;
		}
}

static void finish(struct scheduler *s, struct generation *g, enum generation_finish why)
{
	const char *text = "";
	uint32_t n_text = 0;
	/* A stop string took all that was held; a cancelled call's client is gone. */
	if (why != GENERATION_CANCELLED && g->state != GENERATION_FINISHED)
		generation_last_text(g, &text, &n_text);
	g->finish = why;
	s->totals.calls++;
	s->totals.cancelled += why == GENERATION_CANCELLED;
	kv_release(s->setup.kv, &g->kv);
	s->setup.sink.done(s->setup.sink.arg, g, text, n_text);
	unlink_running(s, g);
	generation_free(g);
}

static void fail(struct scheduler *s, struct generation *g, const char *reason)
{
	s->totals.calls++;
	s->totals.failed++;
	kv_release(s->setup.kv, &g->kv);
	s->setup.sink.failed(s->setup.sink.arg, g, reason);
	unlink_running(s, g);
	generation_free(g);
}

bool scheduler_cancel(struct scheduler *s, uint64_t id)
{
	struct generation *g = scheduler_find(s, id);
	if (!g)
		return false;
	if (g->state == GENERATION_WAITING)
		unlink_waiting(s, g);
	finish(s, g, GENERATION_CANCELLED);
	return true;
}

void scheduler_cancel_all(struct scheduler *s)
{
	while (s->n_running)
		scheduler_cancel(s, s->running[0]->id);
	while (s->waiting)
		scheduler_cancel(s, s->waiting->id);
}

/* --- tokens ----------------------------------------------------------------------------------- */

static void set_logprobs(struct scheduler_token *token, const struct pick *pick)
{
	token->has_logprob = true;
	token->logprob = pick->logprob;
	token->top = pick->top;
	token->n_top = pick->n_top;
}

/* Reports prompt token `index`; `pick` NULL: without a log-probability. */
static void report_prompt(struct scheduler *s, struct generation *g, uint32_t index, const struct pick *pick)
{
	struct scheduler_token token = {.id = g->prompt[index], .index = index, .is_prompt = true, .text = ""};
	char text[1024];
	if (pick)
		set_logprobs(&token, pick);
	if (g->params.echo) {
		uint32_t n;
		const char *piece = tokenizer_piece(s->setup.tokenizer, token.id, true, &n);
		if (n <= sizeof text / 3 - 3) { /* longer pieces do not exist in practice; their text is left out */
			token.n_text = (uint32_t)utf8_stream_push(&g->utf8, piece, n, text);
			token.text = text;
		}
	}
	s->setup.sink.token(s->setup.sink.arg, g, &token);
}

/* Takes the answer's next token: reports it and decides whether it is the last. */
static void take_token(struct scheduler *s, struct generation *g, const struct pick *pick)
{
	struct scheduler_token token = {.id = pick->token, .index = g->n_prompt + g->n_answer, .text = ""};
	bool forced = g->n_answer < g->n_forced;
	bool end = !forced && !g->params.ignore_end && tokenizer_is_end(s->setup.tokenizer, pick->token),
	     stopped = false;
	if (g->params.logprobs)
		set_logprobs(&token, pick);
	g->last_token = pick->token;
	g->n_answer++;
	s->totals.answer_tokens++;
	if (sampler_see(&g->sampler, pick->token, 1)) {
		fail(s, g, "out of memory");
		return;
	}
	if (!end) {
		uint32_t n;
		const char *piece = tokenizer_piece(s->setup.tokenizer, pick->token, false, &n);
		if (generation_add_text(g, piece, n, &token.text, &token.n_text, &stopped)) {
			fail(s, g, "out of memory");
			return;
		}
	}
	s->setup.sink.token(s->setup.sink.arg, g, &token);
	if (stopped)
		g->state = GENERATION_FINISHED;
	if (end || stopped)
		finish(s, g, GENERATION_STOP);
	else if (g->n_answer >= g->max_answer)
		finish(s, g, GENERATION_LENGTH);
}

/* Computes the wanted logits and deals with each in row order. */
static void serve_picks(struct scheduler *s)
{
	if (!s->n_picks)
		return;
	const float *logits = forward_logits(s->setup.forward, s->pick_rows, s->n_picks);
	pick_run(s->setup.team, forward_candidates(s->setup.forward), s->setup.model->config.vocab, logits, s->picks,
		 s->n_picks);
	for (uint32_t i = 0; i < s->n_picks; i++) {
		const struct pick *pick = &s->picks[i];
		if (pick->prompt_index)
			report_prompt(s, pick->generation, pick->prompt_index, pick);
		else
			take_token(s, pick->generation, pick);
	}
	s->n_picks = 0;
}

/* Asks for the logits of a row: `given` -1 picks the answer's next token, else scores that token. */
static void want_pick(struct scheduler *s, struct generation *g, uint32_t row, int64_t given, uint32_t prompt_index)
{
	if (s->n_picks == LOGIT_ROWS_MAX)
		serve_picks(s);
	if (given < 0 && g->n_answer < g->n_forced)
		given = g->forced[g->n_answer];
	s->pick_rows[s->n_picks] = row;
	s->picks[s->n_picks++] = (struct pick){
		.generation = g,
		.prompt_index = prompt_index,
		.given = given,
		.want_logprob = g->params.logprobs,
		.want_top = g->params.logprobs ? g->params.n_logprobs : 0,
	};
}

/* --- steps ------------------------------------------------------------------------------------ */

/* What can be said before any pass: the prompt's tokens, unless their log-probabilities are asked for. */
static void begin(struct scheduler *s, struct generation *g)
{
	bool scored = g->params.echo && g->params.logprobs;
	if (g->params.echo || g->params.prompt_ids)
		for (uint32_t i = 0; i < (scored ? 1 : g->n_prompt); i++)
			report_prompt(s, g, i, NULL);
	for (uint32_t i = 0; i < g->n_prompt; i++)
		if (sampler_see(&g->sampler, g->prompt[i], 0)) {
			fail(s, g, "out of memory");
			return;
		}
	if (!g->max_answer && !scored)
		finish(s, g, GENERATION_LENGTH);
}

void scheduler_admit(struct scheduler *s)
{
	while (s->waiting && s->n_running < s->setup.max_running) {
		struct generation *g = s->waiting;
		int rc = kv_promise(s->setup.kv, &g->kv, g->n_prompt + g->max_answer);
		if (rc == -EAGAIN)
			return;
		unlink_waiting(s, g);
		s->running[s->n_running++] = g;
		g->state = GENERATION_PREFILL;
		if (rc)
			fail(s, g, "out of memory");
		else
			begin(s, g);
	}
}

/* Runs s->rows; on failure every call in it fails. */
static bool run(struct scheduler *s, enum phase phase, uint32_t n_rows)
{
	struct batch batch = {phase, n_rows, s->rows};
	s->totals.steps++;
	if (!forward_run(s->setup.forward, &batch))
		return true;
	for (uint32_t i = s->n_running; i-- > 0;) {
		struct generation *g = s->running[i];
		for (uint32_t r = 0; r < n_rows; r++)
			if (s->rows[r].sequence == &g->kv) {
				fail(s, g, "out of memory");
				break;
			}
	}
	return false;
}

uint32_t scheduler_decode_step(struct scheduler *s)
{
	struct generation *of_row[DECODE_ROWS_MAX];
	uint32_t n = 0;
	for (uint32_t i = 0; i < s->n_running;) {
		struct generation *g = s->running[i];
		if (g->state != GENERATION_DECODE || g->blocked) {
			i++;
		} else if (kv_extend(s->setup.kv, &g->kv, g->kv.n_tokens + 1)) {
			fail(s, g, "out of memory");
		} else {
			s->rows[n] = (struct batch_row){g->last_token, g->kv.n_tokens, &g->kv};
			of_row[n++] = g;
			i++;
		}
	}
	if (!n || !run(s, PHASE_DECODE, n))
		return 0;
	for (uint32_t r = 0; r < n; r++) {
		of_row[r]->kv.n_tokens++;
		want_pick(s, of_row[r], r, -1, 0);
	}
	serve_picks(s);
	return n;
}

/* The rows of one prompt in the chunk at hand: [first_row, first_row + n) hold positions kv.n_tokens - n and on. */
struct span {
	struct generation *generation;
	uint32_t first_row, n;
};

static uint32_t fill_chunk(struct scheduler *s, uint32_t max_rows, struct span *spans, uint32_t *n_spans)
{
	uint32_t n_rows = 0;
	*n_spans = 0;
	for (uint32_t i = 0; i < s->n_running && n_rows < max_rows;) {
		struct generation *g = s->running[i];
		if (g->state != GENERATION_PREFILL || g->blocked) {
			i++;
			continue;
		}
		uint32_t left = g->n_prompt - g->kv.n_tokens, room = max_rows - n_rows;
		uint32_t n = left < room ? left : room;
		if (kv_extend(s->setup.kv, &g->kv, g->kv.n_tokens + n)) {
			fail(s, g, "out of memory");
			continue;
		}
		spans[(*n_spans)++] = (struct span){g, n_rows, n};
		for (uint32_t j = 0; j < n; j++) {
			uint32_t position = g->kv.n_tokens + j;
			s->rows[n_rows++] = (struct batch_row){g->prompt[position], position, &g->kv};
		}
		i++;
	}
	return n_rows;
}

/* Asks for what a span's rows predict: the row of position p predicts token p + 1 of the sequence. Returns whether the
 * call ends with this span. */
static bool ask_span(struct scheduler *s, const struct span *span)
{
	struct generation *g = span->generation;
	bool scored = g->params.echo && g->params.logprobs;
	uint32_t first = g->kv.n_tokens;
	g->kv.n_tokens += span->n;
	s->totals.prompt_tokens += span->n;
	bool complete = g->kv.n_tokens == g->n_prompt;
	for (uint32_t j = 0; scored && j < span->n && first + j + 1 < g->n_prompt; j++)
		want_pick(s, g, span->first_row + j, g->prompt[first + j + 1], first + j + 1);
	if (complete && g->max_answer) {
		g->state = GENERATION_DECODE;
		want_pick(s, g, span->first_row + span->n - 1, -1, 0);
	}
	return complete && !g->max_answer;
}

uint32_t scheduler_prefill_step(struct scheduler *s, uint32_t max_rows)
{
	assert(max_rows >= 1 && max_rows <= s->setup.prefill_chunk);
	struct span spans[DECODE_ROWS_MAX];
	bool ends[DECODE_ROWS_MAX];
	uint32_t n_spans, n_rows = fill_chunk(s, max_rows, spans, &n_spans);
	if (!n_rows || !run(s, PHASE_PREFILL, n_rows))
		return 0;
	for (uint32_t i = 0; i < n_spans; i++)
		ends[i] = ask_span(s, &spans[i]);
	serve_picks(s);
	for (uint32_t i = 0; i < n_spans; i++)
		if (ends[i]) /* it took no token, so nothing else has ended it */
			finish(s, spans[i].generation, GENERATION_LENGTH);
	return n_rows;
}

bool scheduler_can_run(const struct scheduler *s)
{
	for (uint32_t i = 0; i < s->n_running; i++)
		if (!s->running[i]->blocked)
			return true;
	return s->waiting && s->n_running == 0;
}

bool scheduler_step(struct scheduler *s)
{
	scheduler_admit(s);
	scheduler_decode_step(s);
	scheduler_prefill_step(s, s->setup.prefill_chunk);
	return scheduler_can_run(s);
}
