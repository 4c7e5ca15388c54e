/* Which positions of a page attention counts: those from the window's first to the row's own. */
#ifndef WEIGHTD_KERNEL_PAGE_SPAN_H
#define WEIGHTD_KERNEL_PAGE_SPAN_H

#include "src/kernel/kernel.h"

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
