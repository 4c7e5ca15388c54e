/* Where a mapping's pages really are. The only source is the kernel's answer to move_pages(2), page by page. */
#ifndef WEIGHTD_NUMA_PLACEMENT_H
#define WEIGHTD_NUMA_PLACEMENT_H

#include "numa/idset.h"
#include "numa/refusal.h"

enum { PLACEMENT_HUGE_BYTES = 2 << 20 }; /* a huge page */

struct placement {
	uint64_t pages;	    /* base pages (4 KiB; a huge page counts as its parts) in the range: all are asked about */
	uint64_t on_node;   /* where they belong */
	uint64_t misplaced; /* elsewhere */
	uint64_t absent;    /* not present (never touched, swapped out, or not even mapped) */
	uint64_t unknown;   /* the kernel gave an error for the page */
	struct refusals refused; /* of the calls that bind the pages and tell where they are: placement is unverified */
};

/* Asks about every page of [base, base + bytes) (page aligned; the caller has populated its page tables, else pages
 * count as absent). Fills *out also when move_pages is refused. Returns 0, or -errno when there is no answer for
 * another reason. */
int placement_check(const void *base, size_t bytes, unsigned node, struct placement *out);

/* The same for a mapping that is interleaved over `nodes`: where its pages belong, numa/interleave.h says; of one node
 * it is the above. -EINVAL: none, or more than INTERLEAVE_NODES_MAX. */
int placement_check_spread(const void *base, size_t bytes, const struct idset *nodes, struct placement *out);

/* Some pages of a mapping alone, those with the numbers page[0..n): whether each is on one of `nodes`. -EINVAL: more
 * than PLACEMENT_SOME_MAX. */
enum { PLACEMENT_SOME_MAX = 4096 };
int placement_check_some(const void *base, const uint64_t *page, size_t n, const struct idset *nodes,
			 struct placement *out);

/* Whether it is known that pages are not where they belong: the kernel has answered, and not with the node for each. */
bool placement_wrong(const struct placement *placement);

/* True when every page was confirmed on its node, and nothing that keeps it there was refused. */
bool placement_verified(const struct placement *placement);

/* Moves the misplaced pages of a mapping that this process wrote (before it is published). Returns 0 or -errno. */
int placement_repair(void *base, size_t bytes, unsigned node);
int placement_repair_spread(void *base, size_t bytes, const struct idset *nodes);

#endif
