/* Mappings of segments inside this process: aligned for huge pages, populated, and looked up in smaps. Private to shm/.
 */
#ifndef WEIGHTD_SHM_SEGMENT_MAP_H
#define WEIGHTD_SHM_SEGMENT_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "shm/segment.h"

enum { SEGMENT_HUGE_BYTES = PLACEMENT_HUGE_BYTES };

/* Maps [0, bytes) of `fd` shared at an address that is a multiple of 2 MiB, or of the pool's pages; touches no page.
 * Not part of core dumps. 0 or -errno. */
int segment_map(int fd, size_t bytes, int protection, void **base);

/* How large a published segment is, as the kernel says. -EINVAL: the descriptor is of nothing that can be one. */
int segment_object_bytes(int fd, uint64_t *out, struct err *err);

/* Asks for huge pages, if need be part by part: one that cannot be had must not stop the ones after it. */
void segment_collapse(void *base, size_t bytes);

/* Fills this process' page tables for the whole mapping, so that later reads do not fault and move_pages can answer for
 * every page. Allocates the pages that the object does not have yet. */
int segment_populate(const void *base, size_t bytes);

/* The nodes that the pages of such a segment are on: one, or those it is interleaved over. */
void segment_nodes(const struct segment_spec *spec, struct idset *out);

/* Fills in how many bytes of [base, base + bytes) are mapped by pages of which size, as /proc/self/smaps counts them. 0
 * or -errno. */
int segment_count_bytes(const void *base, size_t bytes, struct segment_report *out);

/* page[0..n): which pages of an object of so many a sample asks for in that turn; 1 <= n <= pages. */
void segment_sample_pages(uint64_t pages, uint32_t n, uint64_t turn, uint64_t *page);

#endif
