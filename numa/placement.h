/* Where a mapping's pages really are. The only source is the kernel's answer to move_pages(2), page by page. */
#ifndef WEIGHTD_NUMA_PLACEMENT_H
#define WEIGHTD_NUMA_PLACEMENT_H

#include "numa/idset.h"

struct placement {
	uint64_t pages;	    /* base pages (4 KiB; a huge page counts as its parts) in the range: all are asked about */
	uint64_t on_node;   /* on the wanted node */
	uint64_t misplaced; /* on another node */
	uint64_t absent;    /* not present (never touched, or swapped out) */
	uint64_t unknown;   /* the kernel gave an error for the page */
	int refused; /* 0, or the -errno with which the kernel refused to answer at all: placement is unverified */
};

/* Asks about every page of [base, base + bytes) (page aligned; the caller has populated its page tables, else pages
 * count as absent). Fills *out also when refused. Returns 0 or -errno of a failed allocation. */
int placement_check(const void *base, size_t bytes, unsigned node, struct placement *out);

/* True when every page was confirmed on its node. */
bool placement_verified(const struct placement *placement);

/* Moves the misplaced pages of a mapping that this process wrote (before it is published). Returns 0 or -errno. */
int placement_repair(void *base, size_t bytes, unsigned node);

#endif
