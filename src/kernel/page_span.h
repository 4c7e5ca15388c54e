/* What attention takes together, and what it counts: pages of a block, and positions of a page from the window's first
 * to the row's own. */
#ifndef WEIGHTD_KERNEL_PAGE_SPAN_H
#define WEIGHTD_KERNEL_PAGE_SPAN_H

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
