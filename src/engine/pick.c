#include "src/engine/pick.h"

struct pick_job {
	struct team *team;
	struct sampler_candidate *candidates;
	uint32_t vocab, n;
	const float *logits;
	struct pick *picks;
};

static void pick_one(struct pick *pick, const float *logits, uint32_t vocab, struct sampler_candidate *candidates)
{
	const struct generation *g = pick->generation;
	const uint64_t *allowed = NULL;
	if (pick->given < 0 && g->matcher) {
		allowed = matcher_allowed(g->matcher, g->answer, g->n_answer, &pick->fault);
		if (!allowed)
			return;
	}
	pick->token = pick->given >= 0 ? (uint32_t)pick->given
				       : sampler_pick(&g->sampler, logits, vocab, g->n_answer, allowed, candidates);
	if (!pick->want_logprob)
		return;
	double norm = sampler_log_sum_exp(logits, vocab);
	pick->logprob = (float)(logits[pick->token] - norm);
	pick->n_top = sampler_top(logits, vocab, pick->want_top, pick->top);
	for (uint32_t i = 0; i < pick->n_top; i++)
		pick->top[i].value = (float)(pick->top[i].value - norm);
}

static void job(void *arg, unsigned thread)
{
	struct pick_job *j = arg;
	uint32_t begin, end;
	team_share(j->n, thread, team_n_threads(j->team), &begin, &end);
	for (uint32_t i = begin; i < end; i++)
		pick_one(&j->picks[i], j->logits + (size_t)i * j->vocab, j->vocab,
			 j->candidates + (size_t)thread * j->vocab);
}

void pick_run(struct team *team, struct sampler_candidate *candidates, uint32_t vocab, const float *logits,
	      struct pick *picks, uint32_t n)
{
	struct pick_job j = {team, candidates, vocab, n, logits, picks};
	team_run(team, job, &j);
}
