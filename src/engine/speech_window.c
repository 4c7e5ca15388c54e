#include "src/engine/speech_window.h"

#include <errno.h>

#include "src/kernel/kv_int8.h"
#include "src/kernel/kv_page.h"

static struct speech_window shape(const struct image_config *c, enum kv_type type)
{
	struct speech_window window = {
		.head_bytes = type == KV_INT8 ? kv_int8_bytes(c->head_dim) : kv_bf16_bytes(c->head_dim),
		.n_kv_heads = c->n_kv_heads,
		.n_pages = kv_pages_for(c->encoder_context),
		.n_positions = c->encoder_context,
	};
	window.n_bytes = (size_t)c->n_layers * window.n_kv_heads * window.n_pages * 2 * window.head_bytes;
	return window;
}

size_t speech_window_bytes(const struct image_config *config, enum kv_type type)
{
	return arena_span_bytes(shape(config, type).n_bytes);
}

int speech_window_init(struct speech_window *window, const struct image_config *config, const struct kv *kv)
{
	*window = shape(config, kv->type);
	window->data = arena_alloc(kv->arena, window->n_bytes);
	return window->data ? 0 : -ENOMEM;
}

void speech_window_release(struct speech_window *window, struct arena *arena)
{
	arena_release(arena, window->data, window->n_bytes);
	*window = (struct speech_window){0};
}
