/* Log-mel rows of audio at 16 kHz, as Whisper models are trained on them (Radford et al., "Robust Speech Recognition
 * via Large-Scale Weak Supervision", 2022, 2.2), over a whole file: the model's windows of 30 seconds are slices of it.
 *
 * 160 zeros are appended and 200 samples mirrored at either end; each 160 samples a row begins: 400 samples under a
 * Hann window, the power of their 201 frequencies, gathered by 80 or 128 triangular filters on Slaney's mel scale,
 * log10. The last row is left out. Values less than the file's largest minus 8 become that; then (x + 4) / 4.
 *
 * Samples come as they are decoded, and only their last 400 are kept. Rows are made in blocks of MEL_BLOCK, always at
 * the same places in the file, so a file's rows are the same bytes however its samples came in. */
#ifndef WEIGHTD_AUDIO_MEL_H
#define WEIGHTD_AUDIO_MEL_H

#include <stddef.h>
#include <stdint.h>

#include "src/err.h"

enum { MEL_FFT = 400, MEL_BLOCK = 64 };

struct mel; /* filters and tables for one number of bins */

/* 80 or 128 bins; -EINVAL, -ENOMEM. Has the library's code for the products made as well: mel_end and mel_add make
 * none.
 */
int mel_new(uint32_t n_bins, struct mel **out, struct err *err);
void mel_free(struct mel *mel); /* takes NULL */
uint32_t mel_bins(const struct mel *mel);
/* [n_bins][MEL_FFT / 2 + 1] the filters; view. */
const float *mel_filters(const struct mel *mel);

/* Rows of so many samples: n / AUDIO_HOP + 1. */
uint64_t mel_rows(uint64_t n_samples);

/* Begins a file. `rows`: [max_rows][n_bins] f32, borrowed until mel_end. One file at a time. */
void mel_begin(struct mel *mel, float *rows, uint64_t max_rows);
/* [n] its next samples. -ENOSPC: more than there is room for. */
int mel_add(struct mel *mel, const float *samples, size_t n);
/* The file is over: all of its rows are there. -ENODATA: not one sample came. -ENOSPC. */
int mel_end(struct mel *mel, uint64_t *n_rows);

#endif
