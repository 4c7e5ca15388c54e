/* From logits to a token: penalties, temperature, top_k, top_p, min_p, and a draw that depends on the seed and the
 * token's number alone, so that a call which is moved or replayed draws the same.
 *
 * Order: biases and penalties change the logits; tokens that are not allowed go; temperature divides them; top_k keeps
 * the k largest; top_p keeps the smallest set of most probable tokens whose share reaches p (Holtzman et al., 2020);
 * min_p drops those below min_p times the most probable. Ties go to the lower id. Temperature 0 takes the largest logit
 * after penalties. */
#ifndef WEIGHTD_ENGINE_SAMPLER_H
#define WEIGHTD_ENGINE_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

/* Added to a token's logit. */
struct sampler_bias {
	uint32_t token;
	float value;
};

struct sampler_params {
	uint64_t seed;
	float temperature;	 /* 0..; 0: greedy */
	float top_p;		 /* (0, 1]; 1: off */
	float min_p;		 /* [0, 1); 0: off */
	uint32_t top_k;		 /* 0: off */
	float presence_penalty;	 /* subtracted once from tokens already generated */
	float frequency_penalty; /* subtracted once per time a token was generated */
	float repeat_penalty; /* divides positive, multiplies negative logits of tokens in prompt or answer; 1: off */
};

/* How often a token was seen; a small open-addressing table, one per call that uses penalties. */
struct sampler_count {
	uint32_t token_plus_1; /* 0: empty */
	uint32_t in_answer;
};

struct sampler {
	struct sampler_params params;
	struct sampler_count *counts; /* [capacity] owned, a power of two; NULL without penalties */
	uint32_t n_counts, capacity;
	const struct sampler_bias *biases; /* [n_biases] borrowed; one per token at most */
	uint32_t n_biases;
};

void sampler_init(struct sampler *sampler, const struct sampler_params *params);
void sampler_fini(struct sampler *sampler);

/* Tells of a token of the prompt or of the answer. 0 or -ENOMEM; does nothing when no penalty is on. */
int sampler_see(struct sampler *sampler, uint32_t token, int in_answer);

/* A candidate while sampling. */
struct sampler_candidate {
	uint32_t id;
	float value;
};

/* Picks the token number `index` of the answer from logits [n]. `allowed`: a bit per token, one of them set at least,
 * or NULL: all. `scratch` has room for n candidates. */
uint32_t sampler_pick(const struct sampler *sampler, const float *logits, uint32_t n, uint32_t index,
		      const uint64_t *allowed, struct sampler_candidate *scratch);

/* log(sum(exp(logits))) in double; subtract it from a logit for its natural-log probability. */
double sampler_log_sum_exp(const float *logits, uint32_t n);

/* The k (at most 32) largest logits, largest first, ties to the lower id. Returns how many there are: min(k, n). */
uint32_t sampler_top(const float *logits, uint32_t n, uint32_t k, struct sampler_candidate *out);

#endif
