/* Segments in pages of a node's pool (hugetlb). Private to shm/. */
#ifndef WEIGHTD_SHM_SEGMENT_POOL_H
#define WEIGHTD_SHM_SEGMENT_POOL_H

#include "shm/segment.h"

/* Opens a memfd for a segment whose total_bytes are whole pages of its pool. -ENOSPC: the node's pool is too small. */
int segment_pool_open(struct segment *segment, const char *name, struct err *err);

/* Takes all pages of a segment that is mapped and bound. -ENOSPC: others were faster. */
int segment_pool_allocate(const struct segment *segment, struct err *err);

/* The same of the object behind a descriptor. 0 or -errno. */
int segment_pool_object_page_bytes(int fd, uint64_t *out);

#endif
