/* When tokens were said: the way through the decoder's attention to the encoder's positions.
 *
 * Weights of each alignment head are normalized over the frames that have audio, then, for each frame, over tokens
 * (mean 0, deviation 1); a median filter of 7 frames takes out spikes; heads are averaged; and dynamic time warping
 * finds the monotone way of largest sum (Radford et al., 2022, and the alignment of CTranslate2, the reference). */
#ifndef WEIGHTD_ENGINE_SPEECH_ALIGN_H
#define WEIGHTD_ENGINE_SPEECH_ALIGN_H

#include <stdint.h>

struct speech_attention {
	const float *weights; /* [n_rows][n_heads][n_positions] borrowed, not negative */
	uint32_t n_rows, n_heads, n_positions;
	uint32_t n_frames; /* of positions, 0.02 s each, with audio: 1..n_positions */
};

/* For rows first_row..first_row + n - 1 the first frame of each on the way, in frames[n]; they never decrease. n >= 1,
 * and n_heads >= 1. Takes n * n_frames * 5 bytes of scratch. 0 or -ENOMEM. */
int speech_align(const struct speech_attention *attention, uint32_t first_row, uint32_t n, uint32_t *frames);

#endif
