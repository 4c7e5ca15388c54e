/* What a speech model's decoder hears of a window of sound: keys and values of each of its layers at the encoder's
 * positions, as pages of KV have them, in the call arena. Made by encoder_run (src/engine/speech/encoder.h), read by
 * any number of rows, given back when its call is done with it.
 *
 *   data = [n_layers][n_kv_heads][n_pages] of { keys, values }, each head_bytes */
#ifndef WEIGHTD_ENGINE_SPEECH_WINDOW_H
#define WEIGHTD_ENGINE_SPEECH_WINDOW_H

#include "src/engine/kv.h"

struct speech_window {
	char *data; /* NULL: there is none */
	size_t n_bytes, head_bytes;
	uint32_t n_kv_heads, n_pages, n_positions;
};

/* What windows take in the arena. */
size_t speech_window_bytes(const struct image_config *config, enum kv_type type);
/* Takes memory for one, zeroed. -ENOMEM. */
int speech_window_init(struct speech_window *window, const struct image_config *config, const struct kv *kv);
void speech_window_release(struct speech_window *window, struct arena *arena); /* takes a zeroed one */

static inline void *speech_window_keys(const struct speech_window *window, uint32_t layer, uint32_t head, uint32_t page)
{
	size_t at = ((size_t)layer * window->n_kv_heads + head) * window->n_pages + page;
	return window->data + at * 2 * window->head_bytes;
}

static inline void *speech_window_values(const struct speech_window *window, uint32_t layer, uint32_t head,
					 uint32_t page)
{
	return (char *)speech_window_keys(window, layer, head, page) + window->head_bytes;
}

#endif
