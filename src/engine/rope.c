#include "src/engine/rope.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

/* How many of the pairs turn at least `turns` times within the original context, as a real number: base^(-2i / dim)
 * original / 2 pi = turns, solved for i. */
static double pair_turning(const struct image_config *c, double turns)
{
	return c->rope_dim * log(c->rope_original / (turns * 2 * M_PI)) / (2 * log((double)c->rope_base));
}

static double clamp(double x, double least, double most)
{
	return x < least ? least : x > most ? most : x;
}

/* The share of the scaled frequency: 0 where a pair is kept, 1 where it is scaled. The ends are whole pairs, as in the
 * paper's program, and a step that would have no width gets a small one. */
static double yarn_share(const struct image_config *c, uint32_t pair)
{
	double last = c->rope_dim - 1;
	double begin = clamp(floor(pair_turning(c, (double)c->rope_high)), 0, last);
	double end = clamp(ceil(pair_turning(c, (double)c->rope_low)), 0, last);
	return clamp((pair - begin) / fmax(end - begin, 0.001), 0, 1);
}

static double llama3_share(const struct image_config *c, double frequency)
{
	double turns = frequency * c->rope_original / (2 * M_PI);
	return 1 - clamp((turns - (double)c->rope_low) / (double)(c->rope_high - c->rope_low), 0, 1);
}

/* The share of pair `pair` that is scaled by the factor. */
static double scaled_share(const struct image_config *c, uint32_t pair, double frequency)
{
	switch ((enum image_rope_scaling)c->rope_scaling) {
	case IMAGE_ROPE_LINEAR:
		return 1;
	case IMAGE_ROPE_YARN:
		return yarn_share(c, pair);
	case IMAGE_ROPE_LLAMA3:
		return llama3_share(c, frequency);
	case IMAGE_ROPE_UNSCALED:
	case IMAGE_ROPE_DIVISORS:
		return 0;
	}
	return 0;
}

static void init_unscaled(struct rope *rope, const struct image_config *c, double base)
{
	*rope = (struct rope){.n = c->rope_dim / 2, .pairing = c->rope_pairing, .magnitude = 1};
	assert(rope->n <= ROPE_FREQUENCIES_MAX);
	for (uint32_t i = 0; i < rope->n; i++)
		rope->frequency[i] = pow(base, -2.0 * i / c->rope_dim);
}

void rope_init(struct rope *rope, const struct image_config *c, const float *divisors)
{
	init_unscaled(rope, c, (double)c->rope_base);
	for (uint32_t i = 0; i < rope->n; i++) {
		double frequency = rope->frequency[i], share = scaled_share(c, i, frequency);
		if (share > 0)
			frequency *= (1 - share) + share / (double)c->rope_factor;
		if (divisors)
			frequency /= (double)divisors[i];
		rope->frequency[i] = frequency;
	}
	if (c->rope_scaling == IMAGE_ROPE_YARN)
		rope->magnitude = (double)c->rope_magnitude;
}

void rope_init_window(struct rope *rope, const struct image_config *c)
{
	init_unscaled(rope, c, (double)c->window_rope_base);
}

/* Angles in double: at position 8191 a float32 angle is already off by 5e-4. */
void rope_angles(const struct rope *rope, uint32_t position, float *cos_sin)
{
	bool halves = rope->pairing == IMAGE_ROPE_HALVES;
	for (uint32_t i = 0; i < rope->n; i++) {
		double theta = position * rope->frequency[i];
		cos_sin[halves ? i : 2 * i] = (float)(rope->magnitude * cos(theta));
		cos_sin[halves ? rope->n + i : 2 * i + 1] = (float)(rope->magnitude * sin(theta));
	}
}
