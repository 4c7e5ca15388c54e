#include "src/engine/speech/beam.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/sampler.h"

/* A hypothesis and what may follow it. */
struct speech_candidate {
	uint32_t row, token;
	float log_probability; /* of the hypothesis with the token */
};

int speech_search_init(struct speech_search *search, const struct speech_rules *rules,
		       const struct speech_search_params *params, const uint32_t *prefix, uint32_t n_prefix)
{
	*search = (struct speech_search){.rules = rules, .params = *params, .n_prefix = n_prefix, .n_tokens = n_prefix};
	search->live = calloc(SPEECH_MAX_BEAMS, sizeof *search->live);
	search->next = calloc(SPEECH_MAX_BEAMS, sizeof *search->next);
	if (params->temperature > 0)
		search->scratch = malloc(rules->n_vocab * sizeof *search->scratch);
	if (!search->live || !search->next || (params->temperature > 0 && !search->scratch)) {
		speech_search_fini(search);
		return -ENOMEM;
	}
	if (n_prefix)
		memcpy(search->live[0].tokens, prefix, n_prefix * sizeof *prefix);
	search->n_live = 1;
	search->best.score = -INFINITY;
	return 0;
}

void speech_search_fini(struct speech_search *search)
{
	free(search->live);
	free(search->next);
	free(search->scratch);
	*search = (struct speech_search){0};
}

const struct speech_text_found *speech_search_best(const struct speech_search *search)
{
	return &search->best;
}

/* Keeps a text of n tokens that has ended if it is the best so far, the earlier of equals. */
static void found(struct speech_search *search, const struct speech_hypothesis *text, uint32_t n, float log_probability)
{
	float score = n ? log_probability / powf((float)n, search->params.length_penalty) : -INFINITY;
	if (!search->n_found++ || score > search->best.score) {
		memcpy(search->best.tokens, text->tokens, n * sizeof *text->tokens);
		search->best.n_tokens = n;
		search->best.log_probability = log_probability;
		search->best.score = score;
	}
}

/* --- beams ------------------------------------------------------------------------------------ */

/* Puts a row's best continuations among the candidates: [n], best first, at most `room`; equals keep the order of rows
 * and tokens. Returns their new number. */
static uint32_t gather(uint32_t row, const float *logits, uint32_t n_vocab, float offset, struct speech_candidate *best,
		       uint32_t n, uint32_t room)
{
	enum { BLOCK = 64 }; /* of most blocks the largest is too small */
	for (uint32_t begin = 0; begin < n_vocab; begin += BLOCK) {
		uint32_t end = n_vocab - begin < BLOCK ? n_vocab : begin + BLOCK;
		if (n == room && speech_largest(logits + begin, end - begin) + offset <= best[n - 1].log_probability)
			continue;
		for (uint32_t token = begin; token < end; token++) {
			float value = logits[token] + offset;
			if (value == -INFINITY || (n == room && value <= best[n - 1].log_probability))
				continue;
			uint32_t at = n < room ? n++ : n - 1;
			for (; at > 0 && value > best[at - 1].log_probability; at--)
				best[at] = best[at - 1];
			best[at] = (struct speech_candidate){row, token, value};
		}
	}
	return n;
}

static void keep(struct speech_search *search, uint32_t slot, const struct speech_candidate *candidate)
{
	struct speech_hypothesis *next = &search->next[slot];
	memcpy(next->tokens, search->live[candidate->row].tokens, search->n_tokens * sizeof *next->tokens);
	next->tokens[search->n_tokens] = candidate->token;
	next->log_probability = candidate->log_probability;
	search->parents[slot] = candidate->row;
}

/* True when enough texts have ended. Without a length penalty no longer text can overtake the first beam's. */
static bool enough(const struct speech_search *search)
{
	const struct speech_search_params *p = &search->params;
	if (p->beam_size == 1 || p->length_penalty == 0)
		return search->first_has_ended;
	return (float)search->n_found >= roundf((float)p->beam_size * p->patience);
}

static void feed_beams(struct speech_search *search, float *logits)
{
	const struct speech_rules *rules = search->rules;
	struct speech_candidate best[2 * SPEECH_MAX_BEAMS];
	uint32_t beams = search->params.beam_size, n = 0, n_next = 0, spare = beams;
	for (uint32_t row = 0; row < search->n_live; row++) {
		float *of_row = logits + (size_t)row * rules->n_vocab;
		speech_rules_apply(rules, search->live[row].tokens, search->n_tokens, search->n_prefix, of_row);
		double total = speech_log_sum_exp(of_row, rules->n_vocab);
		float offset = (float)(search->live[row].log_probability - total);
		if (!isinf(total)) /* else nothing may follow */
			n = gather(row, of_row, rules->n_vocab, offset, best, n, 2 * beams);
	}
	bool last = search->n_tokens + 1 == search->params.max_tokens;
	for (uint32_t k = 0; k < beams && k < n; k++) {
		const struct speech_candidate *candidate = &best[k];
		bool ends = candidate->token == rules->eot;
		if (!ends && !last) {
			keep(search, n_next++, candidate);
			continue;
		}
		search->first_has_ended |= k == 0;
		keep(search, n_next, candidate); /* its text, until another takes the place */
		found(search, &search->next[n_next], search->n_tokens + !ends, candidate->log_probability);
		while (spare < n && best[spare].token == rules->eot)
			spare++;
		if (!last && spare < n)
			keep(search, n_next++, &best[spare++]);
	}
	if (!n && !search->n_found) /* nothing is allowed any more */
		found(search, &search->live[0], search->n_tokens, search->live[0].log_probability);
	search->n_live = last || enough(search) ? 0 : n_next;
}

/* --- draws ------------------------------------------------------------------------------------ */

static void feed_draws(struct speech_search *search, float *logits, bool first)
{
	const struct speech_rules *rules = search->rules;
	bool last = search->n_tokens + 1 == search->params.max_tokens;
	uint32_t n = first ? search->params.best_of : search->n_live, n_next = 0;
	double total = 0;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t row = first ? 0 : i, draw = first ? i : search->draws[i];
		float *of_row = logits + (size_t)row * rules->n_vocab;
		const struct speech_hypothesis *text = &search->live[row];
		if (!first || !i) {
			speech_rules_apply(rules, text->tokens, search->n_tokens, search->n_prefix, of_row);
			total = speech_log_sum_exp(of_row, rules->n_vocab);
		}
		if (isinf(total)) { /* nothing is allowed any more */
			found(search, text, search->n_tokens, text->log_probability);
			continue;
		}
		struct sampler sampler;
		sampler_init(&sampler, &(struct sampler_params){.seed = search->params.seed + draw,
								.temperature = search->params.temperature,
								.top_p = 1,
								.repeat_penalty = 1});
		uint32_t token =
			sampler_pick(&sampler, of_row, rules->n_vocab, search->n_tokens, NULL, search->scratch);
		sampler_fini(&sampler);
		keep(search, n_next,
		     &(struct speech_candidate){row, token, (float)(text->log_probability + of_row[token] - total)});
		search->draws[n_next] = draw;
		if (token == rules->eot || last)
			found(search, &search->next[n_next], search->n_tokens + (token != rules->eot),
			      search->next[n_next].log_probability);
		else
			n_next++;
	}
	search->n_live = n_next;
}

void speech_search_feed(struct speech_search *search, float *logits)
{
	if (search->params.temperature > 0)
		feed_draws(search, logits, search->n_tokens == search->n_prefix);
	else
		feed_beams(search, logits);
	struct speech_hypothesis *t = search->live;
	search->live = search->next;
	search->next = t;
	search->n_tokens++;
}
