/* The paged KV cache: keys and values of all layers for KV_PAGE_TOKENS positions make one page; a sequence holds a list
 * of pages and lets go of all of them when it ends or has to make room.
 *
 *   page   = [n_layers][n_kv_heads] of { keys, values }, bfloat16 or int8, each as src/kernel/kv_page.h or
 *            src/kernel/kv_int8.h has them, and as many bytes as fill the arena's pages
 *
 * One pool. n_pages bounds all pages there are, whoever holds them, and a page counts once in n_used however many hold
 * it. Pages are taken as positions are stored, not before; who gets one when none is left is the scheduler's matter.
 * A page held by the prefix cache alone is idle: used, but to be had at once (src/engine/prefix.h).
 *
 * Numerics class. Every position was computed in one of two phases, whose results differ in their last bits, and an
 * answer's bytes depend on which. So a page knows how many of its leading positions are of prefill class and how many
 * of decode class after them. A prompt's rows see prefill class alone, a page with positions of an answer takes no more
 * of the prompt, and only pages that are prefill class throughout are shared between calls. (Answers of one call that
 * begin alike, the hypotheses of a search, share all their full pages: kv_fork.) The bits of such a page depend on
 * the tokens up to its end and on nothing else, which is why one may stand for another.
 *
 * A page is written by its sequence while it has one owner, by compute threads at slots that are not yet counted; it is
 * read-only from its last position on. */
#ifndef WEIGHTD_ENGINE_KV_H
#define WEIGHTD_ENGINE_KV_H

#include <stdbool.h>
#include <stdint.h>

#include "src/engine/arena.h"
#include "src/engine/image.h"
#include "src/kernel/kernel.h"

enum phase { PHASE_PREFILL = 0, PHASE_DECODE = 1 };

struct kv_page {
	void *data;	   /* as above, in the arena */
	uint32_t n_owners; /* sequences, and the prefix cache as one */
	bool cached;	   /* the prefix cache is one of them */
	uint8_t n_prefill; /* positions [0, n_prefill) are of prefill class */
	uint8_t n_decode;  /* positions [n_prefill, n_prefill + n_decode) of decode class; the rest is empty */
};

struct kv {
	struct arena *arena; /* borrowed */
	enum kv_type type;
	size_t page_bytes;
	size_t head_bytes; /* of one head's K (or V) in a page */
	uint32_t n_kv_heads, head_dim;
	uint32_t n_pages; /* the pool's size */
	uint32_t n_used;  /* pages there are, at most n_pages */
	uint32_t n_idle;  /* of those, held by the prefix cache alone */
};

struct kv_sequence {
	struct kv_page **pages; /* [capacity] owned list of pages held, [n_pages] */
	uint32_t n_pages, capacity;
	uint32_t n_tokens; /* positions stored */
};

size_t kv_page_bytes(const struct image_config *config, enum kv_type type);

/* A pool of at most `n_pages` pages, taken from the arena as they are used. */
void kv_init(struct kv *kv, const struct image_config *config, enum kv_type type, struct arena *arena,
	     uint32_t n_pages);

uint32_t kv_pages_for(uint32_t n_tokens);

/* Pages that are free or could be at once. */
static inline uint32_t kv_available(const struct kv *kv)
{
	return kv->n_pages - kv->n_used + kv->n_idle;
}

/* Takes pages until there is room for n_tokens positions. -EAGAIN: the pool is empty, -ENOMEM: the arena has no hole;
 * pages taken before that stay. */
int kv_extend(struct kv *kv, struct kv_sequence *sequence, uint32_t n_tokens);
/* `n` more positions have been stored, computed in `phase`. */
void kv_advance(struct kv_sequence *sequence, uint32_t n, enum phase phase);
/* `out`, zeroed, becomes a sequence with the same positions: full pages are shared, a last one that is not full is
 * copied. 0, or -EAGAIN and -ENOMEM as kv_extend, then `out` holds nothing. */
int kv_fork(struct kv *kv, const struct kv_sequence *sequence, struct kv_sequence *out);
/* Lets go of everything. Takes zeroed sequences. */
void kv_release(struct kv *kv, struct kv_sequence *sequence);

/* Another's page becomes this sequence's next one. The page is full and of prefill class, and so is all that the
 * sequence has. 0 or -ENOMEM. */
int kv_adopt(struct kv *kv, struct kv_sequence *sequence, struct kv_page *page);
/* Page number `index` is given up for one with the same tokens up to its end. */
void kv_replace(struct kv *kv, struct kv_sequence *sequence, uint32_t index, struct kv_page *page);

/* The prefix cache becomes an owner of a full page of prefill class, or ceases to be. */
void kv_cache(struct kv_page *page);
void kv_uncache(struct kv *kv, struct kv_page *page);

/* Whether a row of `phase` may be stored at `slot`: asserted by whoever stores. */
static inline bool kv_may_store(const struct kv_page *page, uint32_t slot, enum phase phase)
{
	return page->n_owners == 1 && slot >= (uint32_t)page->n_prefill + page->n_decode &&
	       (phase == PHASE_DECODE || !page->n_decode);
}

/* Whether a row of `phase` may attend to the page: asserted by whoever reads. */
static inline bool kv_may_read(const struct kv_page *page, enum phase phase)
{
	return phase == PHASE_DECODE || !page->n_decode;
}

static inline void *kv_keys(const struct kv *kv, const struct kv_page *page, uint32_t layer, uint32_t head)
{
	return (char *)page->data + ((size_t)layer * kv->n_kv_heads + head) * 2 * kv->head_bytes;
}

static inline void *kv_values(const struct kv *kv, const struct kv_page *page, uint32_t layer, uint32_t head)
{
	return (char *)kv_keys(kv, page, layer, head) + kv->head_bytes;
}

#endif
