/* What calls say: tokens picked, scored and reported.
 *
 * Picking (penalties, sampling, log-probabilities) costs as much as a layer when many calls sample from a large
 * vocabulary, so rows are picked by all compute threads; events are reported by the calling thread in row order.
 * Everything is said once: what an evicted call computes again has been said. */
#include "src/engine/scheduler_private.h"

bool scheduler_scores_prompt(const struct generation *g)
{
	return g->params.echo && g->params.logprobs;
}

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
	g->n_reported = index + 1;
	s->setup.sink.token(s->setup.sink.arg, g, &token);
}

/* Takes the answer's next token: reports it and decides whether it is the last. */
static void take_token(struct scheduler *s, struct generation *g, const struct pick *pick)
{
	struct scheduler_token token = {.id = pick->token, .index = g->n_prompt + g->n_answer, .text = ""};
	if (pick->fault) {
		scheduler_fail(s, g, pick->fault);
		return;
	}
	bool forced = g->n_answer < g->n_forced;
	bool end = !forced && !g->params.ignore_end && tokenizer_is_end(s->setup.tokenizer, pick->token),
	     stopped = false;
	if (g->params.logprobs)
		set_logprobs(&token, pick);
	s->totals.answer_tokens++;
	if (generation_add_token(g, pick->token) || sampler_see(&g->sampler, pick->token, 1)) {
		scheduler_fail(s, g, "out of memory");
		return;
	}
	if (!end) {
		uint32_t n;
		bool is_mark = g->params.show_mark && pick->token == g->params.mark;
		const char *piece = tokenizer_piece(s->setup.tokenizer, pick->token, is_mark, &n);
		if (generation_add_text(g, piece, n, &token.text, &token.n_text, &stopped)) {
			scheduler_fail(s, g, "out of memory");
			return;
		}
	}
	s->setup.sink.token(s->setup.sink.arg, g, &token);
	if (stopped)
		g->state = GENERATION_FINISHED;
	/* Where the grammar allows nothing more, waiting for an end token would cost a pass. */
	bool over = !end && !stopped && g->matcher && matcher_is_over(g->matcher, g->answer, g->n_answer);
	if (end || stopped || over)
		scheduler_finish(s, g, GENERATION_STOP);
	else if (g->n_answer >= g->max_answer)
		scheduler_finish(s, g, GENERATION_LENGTH);
}

bool scheduler_begin(struct scheduler *s, struct generation *g)
{
	bool scored = scheduler_scores_prompt(g);
	if (g->begun)
		return true;
	g->begun = true;
	if (s->setup.sink.started)
		s->setup.sink.started(s->setup.sink.arg, g);
	if (g->params.echo || g->params.prompt_ids)
		for (uint32_t i = 0; i < (scored ? 1 : g->n_prompt); i++)
			report_prompt(s, g, i, NULL);
	for (uint32_t i = 0; i < g->n_prompt; i++)
		if (sampler_see(&g->sampler, g->prompt[i], 0)) {
			scheduler_fail(s, g, "out of memory");
			return false;
		}
	if (g->max_answer || scored || g->pooling)
		return true;
	scheduler_finish(s, g, GENERATION_LENGTH);
	return false;
}

/* --- vectors ---------------------------------------------------------------------------------- */

/* Rows whose states are asked for together, and their positions. */
struct wanted {
	uint32_t rows[LOGIT_ROWS_MAX], positions[LOGIT_ROWS_MAX];
	uint32_t n;
};

static void pool_wanted(struct scheduler *s, struct pooling *pooling, struct wanted *wanted)
{
	if (!wanted->n)
		return;
	uint64_t start = scheduler_now(s);
	const float *states = forward_states(s->setup.forward, wanted->rows, wanted->n);
	s->totals.forward_ns += scheduler_now(s) - start;
	for (uint32_t i = 0; i < wanted->n; i++)
		pooling_add(pooling, wanted->positions[i], states + (size_t)i * pooling->dim);
	wanted->n = 0;
}

void scheduler_pool(struct scheduler *s, const struct scheduler_span *span)
{
	struct pooling *pooling = span->generation->pooling;
	uint32_t first = span->generation->kv.n_tokens - span->n;
	struct wanted wanted = {.n = 0};
	for (uint32_t i = 0; i < span->n; i++) {
		if (!pooling_wants(pooling, first + i))
			continue;
		wanted.rows[wanted.n] = span->first_row + i;
		wanted.positions[wanted.n++] = first + i;
		if (wanted.n == LOGIT_ROWS_MAX)
			pool_wanted(s, pooling, &wanted);
	}
	pool_wanted(s, pooling, &wanted);
}

void scheduler_end_prompt(struct scheduler *s, struct generation *g)
{
	const float *vector = g->pooling ? pooling_finish(g->pooling) : NULL;
	if (g->pooling && !vector) {
		scheduler_fail(s, g, "the model's states of this text are not finite");
		return;
	}
	if (vector)
		s->setup.sink.pooled(s->setup.sink.arg, g, vector, g->pooling->n_vector);
	scheduler_finish(s, g, vector ? GENERATION_STOP : GENERATION_LENGTH);
}

/* --- picks ------------------------------------------------------------------------------------ */

void scheduler_serve(struct scheduler *s)
{
	if (!s->n_picks)
		return;
	uint64_t start = scheduler_now(s);
	const float *logits = forward_logits(s->setup.forward, s->pick_rows, s->n_picks);
	s->totals.forward_ns += scheduler_now(s) - start;
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

static void want(struct scheduler *s, const struct pick *pick, uint32_t row)
{
	const struct generation_params *params = &pick->generation->params;
	if (s->n_picks == LOGIT_ROWS_MAX)
		scheduler_serve(s);
	s->picks[s->n_picks] = *pick;
	s->picks[s->n_picks].want_logprob = params->logprobs;
	s->picks[s->n_picks].want_top = params->logprobs ? params->n_logprobs : 0;
	s->pick_rows[s->n_picks++] = row;
}

void scheduler_want_next(struct scheduler *s, struct generation *g, uint32_t row)
{
	struct pick pick = {.generation = g, .given = g->n_answer < g->n_forced ? (int64_t)g->forced[g->n_answer] : -1};
	want(s, &pick, row);
}

void scheduler_want_score(struct scheduler *s, struct generation *g, uint32_t row, uint32_t index)
{
	struct pick pick = {.generation = g, .given = g->prompt[index], .prompt_index = index};
	want(s, &pick, row);
}
