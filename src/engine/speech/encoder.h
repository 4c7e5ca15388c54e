/* The encoder of a speech model: 30 seconds of log-mel become what the decoder's layers hear of them, a struct
 * speech_window. Its products and attention are the forward pass's, in the prefill phase and with its team, kernels and
 * copies of the model; a window's bits depend on its frames alone.
 *
 * It works in parts, some ten milliseconds of a small model each, so that decode passes of other calls run in between.
 * Scratch, some rows at a time and the residual stream, is taken at its begin and given back with its last part. */
#ifndef WEIGHTD_ENGINE_SPEECH_ENCODER_H
#define WEIGHTD_ENGINE_SPEECH_ENCODER_H

#include <stdbool.h>

#include "src/engine/forward.h"
#include "src/engine/speech_window.h"

struct encoder; /* one per worker */

/* Over a forward pass whose model has an encoder; borrowed. Returns owned. -ENOMEM. */
int encoder_new(struct forward *forward, struct encoder **out, struct err *err);
/* A window under way is forgotten, and is its owner's to release. Takes NULL. */
void encoder_free(struct encoder *encoder);

/* Frames of a window: 2 * encoder_context. */
uint32_t encoder_frames(const struct encoder *encoder);
/* Memory in the arena while a window is made, beside the window. */
size_t encoder_scratch_bytes(const struct encoder *encoder);

/* Begins a window from mel [n_frames][mel_bins] float32, borrowed to the last part; frames up to encoder_frames are
 * zeros. One window at a time. `window` is taken from the arena here and is the caller's to release from now on, also
 * if this fails: -ENOMEM. */
int encoder_begin(struct encoder *encoder, const float *mel, uint32_t n_frames, struct speech_window *window);
/* Runs the next part and returns whether there are more. The window may be read after the last one. */
bool encoder_advance(struct encoder *encoder);
/* Forgets a window under way. */
void encoder_stop(struct encoder *encoder);

/* All parts at once, of n windows one after the other: mel [n][encoder_frames][mel_bins]. On -ENOMEM those that were
 * made are released. */
int encoder_run(struct encoder *encoder, const float *mel, struct speech_window *windows, uint32_t n);

#endif
