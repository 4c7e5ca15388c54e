#include "src/engine/kv.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/kernel/kv_int8.h"
#include "src/kernel/kv_page.h"

static size_t head_bytes(const struct image_config *config, enum kv_type type)
{
	return type == KV_INT8 ? kv_int8_bytes(config->head_dim) : kv_bf16_bytes(config->head_dim);
}

size_t kv_page_bytes(const struct image_config *config, enum kv_type type)
{
	return arena_span_bytes((size_t)config->n_layers * config->n_kv_heads * 2 * head_bytes(config, type));
}

void kv_init(struct kv *kv, const struct image_config *config, enum kv_type type, struct arena *arena, uint32_t n_pages)
{
	*kv = (struct kv){
		.arena = arena,
		.type = type,
		.page_bytes = kv_page_bytes(config, type),
		.head_bytes = head_bytes(config, type),
		.n_kv_heads = config->n_kv_heads,
		.head_dim = config->head_dim,
		.n_pages = n_pages,
	};
}

uint32_t kv_pages_for(uint32_t n_tokens)
{
	return n_tokens / KV_PAGE_TOKENS + (n_tokens % KV_PAGE_TOKENS != 0);
}

/* --- owners ----------------------------------------------------------------------------------- */

static bool is_full_prefill(const struct kv_page *page)
{
	return page->n_prefill == KV_PAGE_TOKENS;
}

static int new_page(struct kv *kv, struct kv_page **out)
{
	if (kv->n_used == kv->n_pages)
		return -EAGAIN;
	struct kv_page *page = calloc(1, sizeof *page);
	if (page)
		page->data = arena_alloc(kv->arena, kv->page_bytes);
	if (!page || !page->data) {
		free(page);
		return -ENOMEM;
	}
	page->n_owners = 1;
	kv->n_used++;
	*out = page;
	return 0;
}

static void get(struct kv *kv, struct kv_page *page)
{
	if (page->cached && page->n_owners == 1)
		kv->n_idle--;
	page->n_owners++;
}

static void put(struct kv *kv, struct kv_page *page)
{
	assert(page->n_owners > 0);
	page->n_owners--;
	if (page->n_owners == 1 && page->cached)
		kv->n_idle++;
	if (page->n_owners)
		return;
	arena_release(kv->arena, page->data, kv->page_bytes);
	kv->n_used--;
	free(page);
}

void kv_cache(struct kv_page *page)
{
	assert(!page->cached && page->n_owners > 0 && is_full_prefill(page));
	page->cached = true;
	page->n_owners++;
}

void kv_uncache(struct kv *kv, struct kv_page *page)
{
	assert(page->cached);
	if (page->n_owners == 1)
		kv->n_idle--;
	page->cached = false;
	put(kv, page);
}

/* --- sequences -------------------------------------------------------------------------------- */

static int reserve(struct kv_sequence *sequence, uint32_t n)
{
	if (n <= sequence->capacity)
		return 0;
	uint32_t capacity = n < 8 ? 8 : n + n / 2; /* n is a number of pages: far from 2^31 */
	struct kv_page **pages = realloc(sequence->pages, capacity * sizeof *pages);
	if (!pages)
		return -ENOMEM;
	sequence->pages = pages;
	sequence->capacity = capacity;
	return 0;
}

int kv_extend(struct kv *kv, struct kv_sequence *sequence, uint32_t n_tokens)
{
	uint32_t n = kv_pages_for(n_tokens);
	int rc = reserve(sequence, n);
	while (!rc && sequence->n_pages < n) {
		rc = new_page(kv, &sequence->pages[sequence->n_pages]);
		sequence->n_pages += !rc;
	}
	return rc;
}

void kv_advance(struct kv_sequence *sequence, uint32_t n, enum phase phase)
{
	assert(kv_pages_for(sequence->n_tokens + n) <= sequence->n_pages);
	for (; n > 0; n--) {
		struct kv_page *page = sequence->pages[sequence->n_tokens / KV_PAGE_TOKENS];
		assert(kv_may_store(page, sequence->n_tokens % KV_PAGE_TOKENS, phase));
		if (phase == PHASE_PREFILL)
			page->n_prefill++;
		else
			page->n_decode++;
		sequence->n_tokens++;
	}
}

/* A page of its own with what another one has. */
static int copy_page(struct kv *kv, const struct kv_page *page, struct kv_page **out)
{
	int rc = new_page(kv, out);
	if (rc)
		return rc;
	memcpy((*out)->data, page->data, kv->page_bytes);
	(*out)->n_prefill = page->n_prefill;
	(*out)->n_decode = page->n_decode;
	return 0;
}

int kv_fork(struct kv *kv, const struct kv_sequence *sequence, struct kv_sequence *out)
{
	uint32_t n = kv_pages_for(sequence->n_tokens), n_full = sequence->n_tokens / KV_PAGE_TOKENS;
	int rc = reserve(out, n);
	for (; !rc && out->n_pages < n_full; out->n_pages++) {
		get(kv, sequence->pages[out->n_pages]);
		out->pages[out->n_pages] = sequence->pages[out->n_pages];
	}
	if (!rc && n > n_full) {
		rc = copy_page(kv, sequence->pages[n_full], &out->pages[n_full]);
		out->n_pages += !rc;
	}
	out->n_tokens = sequence->n_tokens;
	if (rc)
		kv_release(kv, out);
	return rc;
}

void kv_release(struct kv *kv, struct kv_sequence *sequence)
{
	for (uint32_t i = 0; i < sequence->n_pages; i++)
		put(kv, sequence->pages[i]);
	free(sequence->pages);
	*sequence = (struct kv_sequence){0};
}

int kv_adopt(struct kv *kv, struct kv_sequence *sequence, struct kv_page *page)
{
	assert(is_full_prefill(page) && sequence->n_tokens == sequence->n_pages * KV_PAGE_TOKENS);
	int rc = reserve(sequence, sequence->n_pages + 1);
	if (rc)
		return rc;
	get(kv, page);
	sequence->pages[sequence->n_pages++] = page;
	sequence->n_tokens += KV_PAGE_TOKENS;
	return 0;
}

void kv_replace(struct kv *kv, struct kv_sequence *sequence, uint32_t index, struct kv_page *page)
{
	assert(index < sequence->n_pages && is_full_prefill(page) && is_full_prefill(sequence->pages[index]));
	get(kv, page); /* first: it may be the very page */
	put(kv, sequence->pages[index]);
	sequence->pages[index] = page;
}
