/* What attention takes together, what it asks for meanwhile, and what it counts: pages of a block, pages of the block
 * after it, and positions of a page from the window's first to the row's own.
 *
 * A page is some KiB of one head and the next one lies elsewhere, so the hardware never looks ahead far enough: beside
 * each load of a block goes a request for the same place in the block after it. Where products keep the CPU busy
 * (prefill, whose pages are in a cache) that costs nothing. */
#ifndef WEIGHTD_KERNEL_PAGE_SPAN_H
#define WEIGHTD_KERNEL_PAGE_SPAN_H

#include "src/kernel/inline.h"
#include "src/kernel/kernel.h"

enum {
	KV_BLOCK_PAGES = 4, /* what the running maximum moves by; blocks begin at multiples of 128 positions */
	KV_BLOCK_TOKENS = KV_BLOCK_PAGES * KV_PAGE_TOKENS,
};

/* Pages from `page` on that belong to its block and lie below `end`. */
static inline uint32_t block_pages(uint32_t page, uint32_t end)
{
	uint32_t block_end = (page / KV_BLOCK_PAGES + 1) * KV_BLOCK_PAGES;

	return (block_end < end ? block_end : end) - page;
}

/* The pages of the block after one; in the last block, which has none after it, a page stands for itself. */
struct next_pages {
	const char *k[KV_BLOCK_PAGES], *v[KV_BLOCK_PAGES];
};

static inline struct next_pages next_pages(const struct attention *a, uint32_t page, uint32_t n_pages, uint32_t end)
{
	struct next_pages next = {0};

	for (uint32_t p = 0; p < n_pages; p++) {
		uint32_t at = page + n_pages + p < end ? page + n_pages + p : page + p;

		next.k[p] = a->k[at];
		next.v[p] = a->v[at];
	}
	return next;
}

/* Asks for the lines of [at, at + bytes), to be in L2. */
ALWAYS_INLINE void prefetch_lines(const char *at, int bytes)
{
	UNROLL
	for (int line = 0; line < bytes; line += 64)
		__builtin_prefetch(at + line, 0, 2);
}

struct page_span {
	uint32_t begin, end; /* within the page, begin < end */
};

/* Of a page that has some. */
static inline struct page_span page_span(const struct attention *a, uint32_t page)
{
	uint32_t start = page * KV_PAGE_TOKENS, left = a->n_tokens - start;

	return (struct page_span){
		.begin = a->first_token > start ? a->first_token - start : 0,
		.end = left < KV_PAGE_TOKENS ? left : KV_PAGE_TOKENS,
	};
}

#endif
