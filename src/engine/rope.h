/* Rotary position embeddings: which angle each pair of a head's values is turned by at a position. (Su et al., 2021)
 *
 * Pair i turns by base^(-2i / rope_dim) a position. Models that were extended to longer contexts turn slower:
 *
 *   linear     all frequencies by the factor (Chen et al., 2023)
 *   yarn       those that turn less than `low` times within the original context by the factor, those that turn more
 *              than `high` times not at all, and those between by a mixture that is linear in the pair's number; and
 *              all cosines and sines are larger by a magnitude (Peng et al., 2023)
 *   llama3     the same idea, with a mixture that is linear in the number of turns (Llama 3.1)
 *   divisors   each by a number of its own, which the model file brings: GGUF's form of llama3
 */
#ifndef WEIGHTD_ENGINE_ROPE_H
#define WEIGHTD_ENGINE_ROPE_H

#include "src/engine/image.h"

enum { ROPE_FREQUENCIES_MAX = 128 }; /* the family bounds head_dim by 256 */

struct rope {
	uint32_t n; /* of pairs */
	enum image_rope_pairing pairing;
	double frequency[ROPE_FREQUENCIES_MAX]; /* [n] */
	double magnitude;
};

/* The rotation of layers without a window; `divisors` [rope_dim / 2] with IMAGE_ROPE_DIVISORS, else NULL. */
void rope_init(struct rope *rope, const struct image_config *config, const float *divisors);
/* That of layers with one, for models that have a base of its own for them: unscaled. */
void rope_init_window(struct rope *rope, const struct image_config *config);

/* Cosines and sines of a position as the kernel of the pairing takes them, [2 * n] floats. */
void rope_angles(const struct rope *rope, uint32_t position, float *cos_sin);

#endif
