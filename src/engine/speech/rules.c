#include "src/engine/speech/rules.h"

#include <math.h>
#include <string.h>

/* A row of a vocabulary is looked through several times for each beam and step, so these passes are written four
 * numbers at a time, four times side by side, in the compilers' own vectors: they need no more than the base
 * instruction set. */
typedef float float4 __attribute__((vector_size(16)));
typedef int32_t int4 __attribute__((vector_size(16)));
enum { LANES = 16 };

static inline float4 load(const float *x)
{
	float4 v;
	memcpy(&v, x, sizeof v);
	return v;
}

static inline float4 all(float x)
{
	return (float4){x, x, x, x};
}

/* Where the mask is set a, else b. */
static inline float4 choose(int4 mask, float4 a, float4 b)
{
	return (float4)((mask & (int4)a) | (~mask & (int4)b));
}

static void forbid(float *logits, uint32_t begin, uint32_t end)
{
	for (uint32_t i = begin; i < end; i++)
		logits[i] = -INFINITY;
}

float speech_largest(const float *logits, uint32_t n)
{
	float4 max[4] = {all(-INFINITY), all(-INFINITY), all(-INFINITY), all(-INFINITY)};
	uint32_t i = 0;
	for (; i + LANES <= n; i += LANES)
		for (uint32_t k = 0; k < 4; k++) {
			float4 x = load(logits + i + 4 * k);
			max[k] = choose(x > max[k], x, max[k]);
		}
	float best = -INFINITY;
	for (uint32_t k = 0; k < LANES; k++)
		best = max[k / 4][k % 4] > best ? max[k / 4][k % 4] : best;
	for (; i < n; i++)
		best = logits[i] > best ? logits[i] : best;
	return best;
}

/* exp(x) for x <= 0 and NaN, which gives 0. 2^y = 2^whole * 2^part, the part in [-0.5, 0.5] by its series, whose sixth
 * term is below 2e-6; below 2^-126 it is 0. */
static inline float4 exp_negative(float4 x)
{
	const float4 round = all(12582912.0f); /* 1.5 * 2^23: adding it leaves no bits behind the point */
	float4 y = x * 1.44269504f;
	int4 counts = y > all(-126.0f);
	y = choose(counts, y, all(-126.0f));
	float4 whole = (y + round) - round, part = (y - whole) * 0.69314718f;
	float4 power = 1 + part * (1 + part * (0.5f + part * (1.0f / 6 + part * (1.0f / 24 + part * (1.0f / 120)))));
	int4 scale = (__builtin_convertvector(whole, int4) + 127) << 23;
	return choose(counts, power * (float4)scale, all(0));
}

double speech_log_sum_exp(const float *logits, uint32_t n)
{
	float max = speech_largest(logits, n), rest[LANES];
	float4 sum[4] = {all(0), all(0), all(0), all(0)};
	uint32_t i = 0;
	if (isinf(max))
		return max;
	for (; i + LANES <= n; i += LANES)
		for (uint32_t k = 0; k < 4; k++)
			sum[k] += exp_negative(load(logits + i + 4 * k) - max);
	for (uint32_t k = 0; k < LANES; k++)
		rest[k] = i + k < n ? logits[i + k] : -INFINITY;
	for (uint32_t k = 0; k < 4; k++)
		sum[k] += exp_negative(load(rest + 4 * k) - max);
	double total = 0;
	for (uint32_t k = 0; k < LANES; k++)
		total += sum[k / 4][k % 4];
	return max + log(total);
}

/* NaN becomes -INFINITY. */
static void tame(float *logits, uint32_t n)
{
	uint32_t i = 0;
	for (; i + 4 <= n; i += 4) {
		float4 x = load(logits + i);
		x = choose(x == x, x, all(-INFINITY));
		memcpy(logits + i, &x, sizeof x);
	}
	for (; i < n; i++)
		logits[i] = isnan(logits[i]) ? -INFINITY : logits[i];
}

static void penalise_repetition(const struct speech_rules *rules, const uint32_t *tokens, uint32_t n, float *logits)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t earlier = 0; /* a token that came twice is penalised once */
		while (tokens[earlier] != tokens[i])
			earlier++;
		float *logit = &logits[tokens[i]];
		if (earlier == i)
			*logit = *logit < 0 ? *logit * rules->repetition_penalty : *logit / rules->repetition_penalty;
	}
}

static void forbid_ngrams(uint32_t size, const uint32_t *tokens, uint32_t n, float *logits)
{
	const uint32_t *last = tokens + (n - (size - 1)); /* the n-gram that the next token would end */
	for (uint32_t i = 0; i + size <= n; i++)
		if (size == 1 || !memcmp(tokens + i, last, (size - 1) * sizeof *tokens))
			logits[tokens[i + size - 1]] = -INFINITY;
}

static bool timestamps_win(const struct speech_rules *rules, const float *logits)
{
	/* Both have the same denominator, so logits are as good as log-probabilities here. */
	return speech_log_sum_exp(logits + rules->first_timestamp, rules->n_vocab - rules->first_timestamp) >
	       speech_largest(logits, rules->first_timestamp);
}

static void apply_timestamps(const struct speech_rules *rules, const uint32_t *tokens, uint32_t n, uint32_t n_prefix,
			     float *logits)
{
	uint32_t first = rules->first_timestamp;
	logits[rules->no_timestamps] = -INFINITY;
	if (n == n_prefix) {
		forbid(logits, 0, first);
		if (rules->max_initial_timestamp < rules->n_vocab - first)
			forbid(logits, first + rules->max_initial_timestamp + 1, rules->n_vocab);
		return;
	}
	bool weigh = true;
	if (tokens[n - 1] >= first) {
		/* The very first timestamp has no partner: it counts as a pair. */
		weigh = n - 1 > n_prefix && tokens[n - 2] < first;
		if (weigh)
			forbid(logits, 0, rules->eot);
		else
			forbid(logits, first, rules->n_vocab);
	}
	for (uint32_t i = n; i-- > n_prefix;)
		if (tokens[i] >= first) {
			forbid(logits, first, tokens[i]);
			break;
		}
	if (weigh && timestamps_win(rules, logits))
		forbid(logits, 0, first);
}

void speech_rules_apply(const struct speech_rules *rules, const uint32_t *tokens, uint32_t n_tokens, uint32_t n_prefix,
			float *logits)
{
	tame(logits, rules->n_vocab);
	if (rules->repetition_penalty != 1)
		penalise_repetition(rules, tokens, n_tokens, logits);
	if (rules->no_repeat_ngram && n_tokens >= rules->no_repeat_ngram)
		forbid_ngrams(rules->no_repeat_ngram, tokens, n_tokens, logits);
	for (uint32_t i = 0; i < rules->n_suppressed; i++)
		logits[rules->suppressed[i]] = -INFINITY;
	for (uint32_t i = 0; n_tokens == n_prefix && i < rules->n_suppressed_begin; i++)
		logits[rules->suppressed_begin[i]] = -INFINITY;
	if (rules->timestamps)
		apply_timestamps(rules, tokens, n_tokens, n_prefix, logits);
}
