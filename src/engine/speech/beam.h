/* The search for the text of one window: beams at temperature 0, independent draws above it. It is fed logits and says
 * which rows it wants next; it knows no model. Scores, the place of finished texts and the end are those of
 * CTranslate2's beam and greedy search, whose answers are the reference.
 *
 *   feed: logits of the prompt's last token [1][n_vocab] -> n_live rows, all going on from the prompt
 *   feed: logits [n_live][n_vocab]                       -> n_live rows, row i going on from what was row parents[i]
 *   ... until n_live is 0; then speech_search_best is the text.
 *
 * With beams there are twice as many candidates as beams, so that texts which end leave enough that go on; those that
 * end are kept with their score, and the search ends when round(beam_size * patience) have. A text's score is the sum
 * of its tokens' log-probabilities (the end's too) over (number of tokens without the end) ^ length_penalty. */
#ifndef WEIGHTD_ENGINE_SPEECH_BEAM_H
#define WEIGHTD_ENGINE_SPEECH_BEAM_H

#include <stdbool.h>
#include <stdint.h>

#include "src/engine/speech/rules.h"

/* A decode pass has at most 32 rows, and a window at most half of the model's context of 448 tokens. */
enum { SPEECH_MAX_BEAMS = 32, SPEECH_MAX_TOKENS = 224 };

struct speech_search_params {
	uint32_t beam_size;   /* 1..SPEECH_MAX_BEAMS, for temperature 0; 1: greedy */
	uint32_t best_of;     /* 1..SPEECH_MAX_BEAMS, for temperatures above 0 */
	float patience;	      /* > 0 */
	float length_penalty; /* 0: texts compete by their sums */
	float temperature;    /* >= 0 */
	uint64_t seed;	      /* of draws: same seed, same text */
	uint32_t max_tokens;  /* n_prefix < max_tokens <= SPEECH_MAX_TOKENS, with the prefix, without the end */
};

struct speech_text_found {
	uint32_t tokens[SPEECH_MAX_TOKENS]; /* [n_tokens], prefix first, without the end */
	uint32_t n_tokens;
	float log_probability; /* sum over all tokens found, and the end if there is one */
	float score;
};

struct speech_hypothesis {
	uint32_t tokens[SPEECH_MAX_TOKENS]; /* [search's n_tokens] */
	float log_probability;
};

struct speech_candidate;
struct sampler_candidate;

struct speech_search {
	const struct speech_rules *rules; /* borrowed */
	struct speech_search_params params;
	uint32_t n_prefix, n_tokens;	    /* of each hypothesis */
	uint32_t n_live;		    /* rows wanted; 0: done */
	uint32_t parents[SPEECH_MAX_BEAMS]; /* [n_live] row that each goes on from; of the first step: 0 for all */
	uint32_t draws[SPEECH_MAX_BEAMS];   /* [n_live] number of the draw that the row belongs to */
	uint32_t n_found, first_has_ended;
	struct speech_text_found best;	       /* of n_found */
	struct speech_hypothesis *live, *next; /* [SPEECH_MAX_BEAMS] each, owned */
	struct sampler_candidate *scratch;     /* [n_vocab] owned, NULL at temperature 0 */
};

/* Begins with the given `prefix` [n_prefix]. 0 or -ENOMEM. */
int speech_search_init(struct speech_search *search, const struct speech_rules *rules,
		       const struct speech_search_params *params, const uint32_t *prefix, uint32_t n_prefix);
void speech_search_fini(struct speech_search *search);

/* Takes one step with logits [n][n_vocab], which it changes: n is 1 in the first step, then n_live. */
void speech_search_feed(struct speech_search *search, float *logits);

/* The token of live row i, which comes next for it. */
static inline uint32_t speech_search_token(const struct speech_search *search, uint32_t row)
{
	return search->live[row].tokens[search->n_tokens - 1];
}

/* The best text when n_live is 0. View, valid until fini. There always is one: where every continuation was ruled out,
 * it is what there was until then. */
const struct speech_text_found *speech_search_best(const struct speech_search *search);

#endif
