/* The paged KV cache: keys and values of all layers for KV_PAGE_TOKENS positions make one page; a sequence owns a list
 * of pages and gives each back to the kernel when it ends.
 *
 *   page   = [n_layers][n_kv_heads] of { K [head_dim][32], V [32][head_dim] }, bfloat16
 *
 * Keys lie transposed, so that a vector register holds one dimension of 16 positions and scores need no horizontal
 * sums.
 *
 * Pages are promised before they are used: kv_promise sets aside what a call may need at most, so that a running call
 * never finds the pool empty; kv_extend then turns promises into memory one page at a time. */
#ifndef WEIGHTD_ENGINE_KV_H
#define WEIGHTD_ENGINE_KV_H

#include <stdint.h>

#include "src/engine/arena.h"
#include "src/engine/image.h"

struct kv {
	struct arena *arena; /* borrowed */
	size_t page_bytes;
	size_t head_elements; /* elements of one head's K (or V) in a page */
	uint32_t n_kv_heads, head_dim;
	uint32_t n_pages;    /* the pool's size */
	uint32_t n_promised; /* at most n_pages */
	uint32_t n_used;
};

struct kv_sequence {
	uint16_t **pages; /* [n_promised] owned; the first n_pages are allocated */
	uint32_t n_pages, n_promised;
	uint32_t n_tokens; /* positions stored */
};

size_t kv_page_bytes(const struct image_config *config);

/* A pool of at most `n_pages` pages, taken from the arena as they are used. */
void kv_init(struct kv *kv, const struct image_config *config, struct arena *arena, uint32_t n_pages);

uint32_t kv_pages_for(uint32_t n_tokens);

/* Sets aside pages for n_tokens positions. -EAGAIN: not now, -ENOMEM. */
int kv_promise(struct kv *kv, struct kv_sequence *sequence, uint32_t n_tokens);
/* Makes room up to n_tokens positions, within the promise. -ENOMEM when the arena has no hole. */
int kv_extend(struct kv *kv, struct kv_sequence *sequence, uint32_t n_tokens);
/* Gives everything back. Takes zeroed sequences. */
void kv_release(struct kv *kv, struct kv_sequence *sequence);

static inline uint16_t *kv_keys(const struct kv *kv, uint16_t *page, uint32_t layer, uint32_t head)
{
	return page + ((size_t)layer * kv->n_kv_heads + head) * 2 * kv->head_elements;
}

static inline uint16_t *kv_values(const struct kv *kv, uint16_t *page, uint32_t layer, uint32_t head)
{
	return kv_keys(kv, page, layer, head) + kv->head_elements;
}

#endif
