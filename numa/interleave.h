/* Where the pages of a mapping that is interleaved over nodes belong, told from where they are. */
#ifndef WEIGHTD_NUMA_INTERLEAVE_H
#define WEIGHTD_NUMA_INTERLEAVE_H

#include "numa/idset.h"

enum { INTERLEAVE_NODES_MAX = 64 };

/* MPOL_INTERLEAVE goes round the nodes page by page; memory in huge pages goes round huge page by huge page. With which
 * node it begins is the kernel's business (for tmpfs it depends on the inode), so a page is held against its
 * neighbours:
 *
 *   a huge page    of as many in a row as there are nodes, each is on another node
 *   small pages    within the room of a huge page every node has the same number, give or take one
 *
 * status [n]: each page's node, or negative: not known. huge_pages: small pages in a huge one. `nodes`: two to
 * INTERLEAVE_NODES_MAX. The range begins with a huge page's first, and n is a multiple of `huge_pages` times the number
 * of nodes unless it is the mapping's end. wanted [n]: the page's own node where that is right, else where it should
 * go, such that as few as possible have to; of a page that is not known, -1. */
void interleave_want(const int *status, size_t n, size_t huge_pages, const struct idset *nodes, int *wanted);

#endif
