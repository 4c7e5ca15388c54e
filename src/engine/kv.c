#include "src/engine/kv.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "src/kernel/kernel.h"

size_t kv_page_bytes(const struct image_config *config)
{
	return (size_t)config->n_layers * config->n_kv_heads * config->head_dim * KV_PAGE_TOKENS * 2 * sizeof(uint16_t);
}

void kv_init(struct kv *kv, const struct image_config *config, struct arena *arena, uint32_t n_pages)
{
	*kv = (struct kv){
		.arena = arena,
		.page_bytes = kv_page_bytes(config),
		.head_elements = (size_t)config->head_dim * KV_PAGE_TOKENS,
		.n_kv_heads = config->n_kv_heads,
		.head_dim = config->head_dim,
		.n_pages = n_pages,
	};
}

uint32_t kv_pages_for(uint32_t n_tokens)
{
	return n_tokens / KV_PAGE_TOKENS + (n_tokens % KV_PAGE_TOKENS != 0);
}

int kv_promise(struct kv *kv, struct kv_sequence *sequence, uint32_t n_tokens)
{
	assert(!sequence->pages);
	uint32_t n = kv_pages_for(n_tokens);
	if (n > kv->n_pages - kv->n_promised)
		return -EAGAIN;
	sequence->pages = calloc(n ? n : 1, sizeof *sequence->pages);
	if (!sequence->pages)
		return -ENOMEM;
	sequence->n_promised = n;
	kv->n_promised += n;
	return 0;
}

int kv_extend(struct kv *kv, struct kv_sequence *sequence, uint32_t n_tokens)
{
	uint32_t n = kv_pages_for(n_tokens);
	assert(n <= sequence->n_promised);
	while (sequence->n_pages < n) {
		uint16_t *page = arena_alloc(kv->arena, kv->page_bytes);
		if (!page)
			return -ENOMEM;
		sequence->pages[sequence->n_pages++] = page;
		kv->n_used++;
	}
	return 0;
}

void kv_release(struct kv *kv, struct kv_sequence *sequence)
{
	for (uint32_t i = 0; i < sequence->n_pages; i++)
		arena_release(kv->arena, sequence->pages[i], kv->page_bytes);
	kv->n_used -= sequence->n_pages;
	kv->n_promised -= sequence->n_promised;
	free(sequence->pages);
	*sequence = (struct kv_sequence){0};
}
