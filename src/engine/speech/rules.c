#include "src/engine/speech/rules.h"

#include <math.h>
#include <string.h>

enum { LANES = 16 };

static void forbid(float *logits, uint32_t begin, uint32_t end)
{
	for (uint32_t i = begin; i < end; i++)
		logits[i] = -INFINITY;
}

static float largest(const float *logits, uint32_t n)
{
	float max[LANES], best = -INFINITY;
	uint32_t whole = n / LANES * LANES;
	for (uint32_t lane = 0; lane < LANES; lane++)
		max[lane] = -INFINITY;
	for (uint32_t i = 0; i < whole; i += LANES)
		for (uint32_t lane = 0; lane < LANES; lane++)
			max[lane] = logits[i + lane] > max[lane] ? logits[i + lane] : max[lane];
	for (uint32_t i = whole; i < n; i++)
		max[0] = logits[i] > max[0] ? logits[i] : max[0];
	for (uint32_t lane = 0; lane < LANES; lane++)
		best = max[lane] > best ? max[lane] : best;
	return best;
}

/* exp(x) for x <= 0, so plain that a compiler does several at once: a vocabulary's row is looked at for each beam and
 * step. 2^y = 2^whole * 2^part, the part in [-0.5, 0.5] by its series, whose sixth term is below 2e-6; below 2^-126 it
 * is 0. */
static float exp_negative(float x)
{
	const float round = 12582912.0f; /* 1.5 * 2^23: adding it leaves no bits behind the point */
	float y = x * 1.44269504f;
	y = y > -126.0f ? y : -126.0f; /* NaN, too */
	float whole = (y + round) - round, part = (y - whole) * 0.69314718f;
	float power = 1 + part * (1 + part * (0.5f + part * (1.0f / 6 + part * (1.0f / 24 + part * (1.0f / 120)))));
	int32_t bits = ((int32_t)whole + 127) * (1 << 23);
	float scale;
	memcpy(&scale, &bits, sizeof scale);
	return y <= -126.0f ? 0 : power * scale;
}

double speech_log_sum_exp(const float *logits, uint32_t n)
{
	float max = largest(logits, n), sum[LANES] = {0};
	uint32_t whole = n / LANES * LANES;
	if (isinf(max))
		return max;
	for (uint32_t i = 0; i < whole; i += LANES)
		for (uint32_t lane = 0; lane < LANES; lane++)
			sum[lane] += exp_negative(logits[i + lane] - max);
	for (uint32_t i = whole; i < n; i++)
		sum[0] += exp_negative(logits[i] - max);
	double total = 0;
	for (uint32_t lane = 0; lane < LANES; lane++)
		total += sum[lane];
	return max + log(total);
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
	       largest(logits, rules->first_timestamp);
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
	for (uint32_t i = 0; i < rules->n_vocab; i++)
		logits[i] = isnan(logits[i]) ? -INFINITY : logits[i];
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
