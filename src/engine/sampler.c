#include "src/engine/sampler.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void sampler_init(struct sampler *sampler, const struct sampler_params *params)
{
	*sampler = (struct sampler){.params = *params};
}

void sampler_fini(struct sampler *sampler)
{
	free(sampler->counts);
	*sampler = (struct sampler){0};
}

/* --- penalties -------------------------------------------------------------------------------- */

static int penalises(const struct sampler_params *p)
{
	return p->presence_penalty != 0 || p->frequency_penalty != 0 || p->repeat_penalty != 1;
}

/* SplitMix64's finaliser (Steele, Lea and Flood, 2014). */
static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static struct sampler_count *find_count(struct sampler_count *counts, uint32_t capacity, uint32_t token)
{
	uint32_t i = (uint32_t)mix(token) & (capacity - 1);
	while (counts[i].token_plus_1 && counts[i].token_plus_1 != token + 1)
		i = (i + 1) & (capacity - 1);
	return &counts[i];
}

static int grow(struct sampler *sampler)
{
	uint32_t capacity = sampler->capacity ? 2 * sampler->capacity : 64;
	struct sampler_count *counts = calloc(capacity, sizeof *counts);
	if (!counts)
		return -ENOMEM;
	for (uint32_t i = 0; i < sampler->capacity; i++)
		if (sampler->counts[i].token_plus_1)
			*find_count(counts, capacity, sampler->counts[i].token_plus_1 - 1) = sampler->counts[i];
	free(sampler->counts);
	sampler->counts = counts;
	sampler->capacity = capacity;
	return 0;
}

int sampler_see(struct sampler *sampler, uint32_t token, int in_answer)
{
	if (!penalises(&sampler->params))
		return 0;
	if (2 * sampler->n_counts >= sampler->capacity && grow(sampler))
		return -ENOMEM;
	struct sampler_count *count = find_count(sampler->counts, sampler->capacity, token);
	if (!count->token_plus_1) {
		count->token_plus_1 = token + 1;
		sampler->n_counts++;
	}
	count->in_answer += in_answer != 0;
	return 0;
}

static void penalise(const struct sampler *sampler, struct sampler_candidate *c, uint32_t n)
{
	const struct sampler_params *p = &sampler->params;
	for (uint32_t i = 0; i < sampler->capacity; i++) {
		const struct sampler_count *count = &sampler->counts[i];
		if (!count->token_plus_1 || count->token_plus_1 > n)
			continue;
		float *value = &c[count->token_plus_1 - 1].value;
		*value = *value > 0 ? *value / p->repeat_penalty : *value * p->repeat_penalty;
		if (count->in_answer)
			*value -= p->presence_penalty + p->frequency_penalty * (float)count->in_answer;
	}
}

static void add_biases(const struct sampler *sampler, struct sampler_candidate *c, uint32_t n)
{
	for (uint32_t i = 0; i < sampler->n_biases; i++)
		if (sampler->biases[i].token < n)
			c[sampler->biases[i].token].value += sampler->biases[i].value;
}

/* Keeps the allowed ones, in their order, and returns their number. */
static uint32_t keep_allowed(struct sampler_candidate *c, uint32_t n, const uint64_t *allowed)
{
	uint32_t m = 0;
	for (uint32_t i = 0; i < n; i++)
		if (allowed[i / 64] >> (i % 64) & 1)
			c[m++] = c[i];
	return m;
}

/* --- choosing --------------------------------------------------------------------------------- */

/* True when a is to be taken before b. */
static int before(struct sampler_candidate a, struct sampler_candidate b)
{
	return a.value > b.value || (a.value == b.value && a.id < b.id);
}

static int compare(const void *a, const void *b)
{
	const struct sampler_candidate *x = a, *y = b;
	return before(*x, *y) ? -1 : before(*y, *x);
}

/* NaN counts as the smallest value, so that a broken row still gives some token and never an endless search. */
static float tame(float logit)
{
	return isnan(logit) ? -INFINITY : logit;
}

uint32_t sampler_top(const float *logits, uint32_t n, uint32_t k, struct sampler_candidate *out)
{
	uint32_t have = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct sampler_candidate c = {i, tame(logits[i])};
		if (have == k && (!k || !before(c, out[have - 1])))
			continue;
		uint32_t at = have < k ? have++ : have - 1;
		while (at > 0 && before(c, out[at - 1])) {
			out[at] = out[at - 1];
			at--;
		}
		out[at] = c;
	}
	return have;
}

double sampler_log_sum_exp(const float *logits, uint32_t n)
{
	float max = -INFINITY;
	for (uint32_t i = 0; i < n; i++)
		max = tame(logits[i]) > max ? logits[i] : max;
	if (isinf(max))
		return max;
	double sum = 0;
	for (uint32_t i = 0; i < n; i++)
		sum += exp((double)tame(logits[i]) - max);
	return max + log(sum);
}

static uint32_t largest(const struct sampler_candidate *c, uint32_t n)
{
	uint32_t best = 0;
	for (uint32_t i = 1; i < n; i++)
		if (before(c[i], c[best]))
			best = i;
	return c[best].id;
}

/* The same of logits as they are. A vocabulary is larger than the cache it competes for, so nothing is written, and the
 * lanes of a block let the compiler compare many at a time; only the block with the largest is looked through. */
static uint32_t largest_logit(const float *logits, uint32_t n)
{
	enum { BLOCK = 512, LANES = 16 };
	float best = -INFINITY;
	uint32_t best_begin = 0;
	for (uint32_t begin = 0; begin < n; begin += BLOCK) {
		uint32_t end = n - begin < BLOCK ? n : begin + BLOCK, whole = begin + (end - begin) / LANES * LANES;
		float max[LANES], of_block = -INFINITY;
		for (uint32_t lane = 0; lane < LANES; lane++)
			max[lane] = -INFINITY;
		for (uint32_t i = begin; i < whole; i += LANES)
			for (uint32_t lane = 0; lane < LANES; lane++) /* NaN is larger than nothing */
				max[lane] = logits[i + lane] > max[lane] ? logits[i + lane] : max[lane];
		for (uint32_t i = whole; i < end; i++)
			max[0] = logits[i] > max[0] ? logits[i] : max[0];
		for (uint32_t lane = 0; lane < LANES; lane++)
			of_block = max[lane] > of_block ? max[lane] : of_block;
		if (of_block > best) {
			best = of_block;
			best_begin = begin;
		}
	}
	for (uint32_t i = best_begin; i < n && best > -INFINITY; i++)
		if (logits[i] == best)
			return i;
	return 0;
}

/* Moves candidates with value >= limit to the front and returns their number. */
static uint32_t partition(struct sampler_candidate *c, uint32_t n, float limit)
{
	uint32_t m = 0;
	for (uint32_t i = 0; i < n; i++)
		if (c[i].value >= limit) {
			struct sampler_candidate t = c[m];
			c[m++] = c[i];
			c[i] = t;
		}
	return m;
}

/* Keeps the k best, sorted. A vocabulary is never sorted whole: first those near the best, wider until enough. */
static uint32_t keep_top_k(struct sampler_candidate *c, uint32_t n, uint32_t k, float best)
{
	uint32_t m = n;
	for (float width = 4; width < 64 && k < n; width *= 2) {
		m = partition(c, n, best - width);
		if (m >= k)
			break;
		m = n;
	}
	qsort(c, m, sizeof *c, compare);
	return m < k ? m : k;
}

static double weight(float value, float best)
{
	return exp((double)value - best);
}

/* Keeps the smallest set of most probable candidates whose share reaches p, sorted. */
static uint32_t keep_top_p(struct sampler_candidate *c, uint32_t n, float p, float best)
{
	double total = 0;
	for (uint32_t i = 0; i < n; i++)
		total += weight(c[i].value, best);
	uint32_t m = n;
	for (float width = 4; width < 64; width *= 2) {
		double sum = 0;
		m = partition(c, n, best - width);
		for (uint32_t i = 0; i < m; i++)
			sum += weight(c[i].value, best);
		if (sum >= p * total)
			break;
		m = n;
	}
	qsort(c, m, sizeof *c, compare);
	double sum = 0;
	for (uint32_t i = 0; i < m; i++) {
		sum += weight(c[i].value, best);
		if (sum >= p * total)
			return i + 1;
	}
	return m;
}

/* Uniform in [0, 1), 53 bits, from seed and index alone. */
static double uniform(uint64_t seed, uint32_t index)
{
	return (double)(mix(mix(seed + 0x9e3779b97f4a7c15u) ^ ((uint64_t)index + 1) * 0x9e3779b97f4a7c15u) >> 11) *
	       0x1p-53;
}

static uint32_t draw(const struct sampler_candidate *c, uint32_t n, float best, double u)
{
	double total = 0;
	for (uint32_t i = 0; i < n; i++)
		total += weight(c[i].value, best);
	double rest = u * total;
	for (uint32_t i = 0; i < n; i++) {
		rest -= weight(c[i].value, best);
		if (rest < 0)
			return c[i].id;
	}
	return largest(c, n); /* only when rounding left a crumb */
}

uint32_t sampler_pick(const struct sampler *sampler, const float *logits, uint32_t n, uint32_t index,
		      const uint64_t *allowed, struct sampler_candidate *c)
{
	const struct sampler_params *p = &sampler->params;
	if (p->temperature == 0 && !allowed && !sampler->n_biases && !sampler->n_counts)
		return largest_logit(logits, n);
	for (uint32_t i = 0; i < n; i++)
		c[i] = (struct sampler_candidate){i, tame(logits[i])};
	add_biases(sampler, c, n);
	penalise(sampler, c, n);
	if (allowed)
		n = keep_allowed(c, n, allowed);
	if (p->temperature == 0)
		return largest(c, n);
	float best = -INFINITY;
	for (uint32_t i = 0; i < n; i++) {
		c[i].value /= p->temperature;
		best = c[i].value > best ? c[i].value : best;
	}
	if (isinf(best)) /* no finite weight to draw by: an overflow, or nothing but -inf */
		return largest(c, n);
	uint32_t kept = n;
	if (p->top_k && p->top_k < kept)
		kept = keep_top_k(c, kept, p->top_k, best);
	if (p->top_p < 1)
		kept = keep_top_p(c, kept, p->top_p, best);
	if (p->min_p > 0)
		kept = partition(c, kept, best + logf(p->min_p));
	return draw(c, kept, best, uniform(p->seed, index));
}
