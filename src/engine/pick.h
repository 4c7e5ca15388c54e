/* Picks and scores tokens for several logit rows at once, rows divided over the compute threads. */
#ifndef WEIGHTD_ENGINE_PICK_H
#define WEIGHTD_ENGINE_PICK_H

#include <stdbool.h>

#include "src/engine/generation.h"
#include "src/engine/team.h"

struct pick {
	struct generation *generation; /* borrowed; its sampler, answer and matcher */
	uint32_t prompt_index;	       /* not 0: this scores prompt token `given` at that index */
	int64_t given;		       /* the token to take instead of sampling; -1: sample */
	bool want_logprob;
	uint32_t want_top;
	/* results */
	const char *fault; /* not NULL: there is no token, for this reason; view, static */
	uint32_t token;
	float logprob;
	uint32_t n_top;
	struct sampler_candidate top[GENERATION_LOGPROBS_MAX]; /* log-probabilities, best first */
};

/* Row i of `logits` [n][vocab] belongs to picks[i]. `candidates` [n_threads][vocab] is scratch. */
void pick_run(struct team *team, struct sampler_candidate *candidates, uint32_t vocab, const float *logits,
	      struct pick *picks, uint32_t n);

#endif
