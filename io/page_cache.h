/* What the kernel keeps of a file in memory. A file that was read into a place of its own is wanted there once, so what
 * is left of it in the page cache is a second copy. */
#ifndef WEIGHTD_IO_PAGE_CACHE_H
#define WEIGHTD_IO_PAGE_CACHE_H

#include <stdint.h>

/* Writes out what was not (pages that were just written stay otherwise), and lets go of all pages that nobody maps.
 * Advice: what stays is for page_cache_bytes to tell. `fd` may be read-only. */
void page_cache_drop(int fd);

/* Bytes of the file's first `size_bytes` that are in memory, whole pages; asked of cachestat(2), or of mincore(2) where
 * a kernel before 6.5 does not have it. Reads nothing. -EPERM: the kernel tells that only to the file's owner and to
 * who may write it. */
int page_cache_bytes(int fd, uint64_t size_bytes, uint64_t *out);

#endif
