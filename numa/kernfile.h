/* The small text files in which the kernel tells about itself: /proc and /sys, or a recorded copy of them. */
#ifndef WEIGHTD_NUMA_KERNFILE_H
#define WEIGHTD_NUMA_KERNFILE_H

#include <stddef.h>

/* Reads "<root><path>" (`root` NULL: this machine) into `text` [size], terminated. Returns the length or -errno; a file
 * that does not fit is -EFBIG, never cut. */
int kernfile_read(const char *root, const char *path, char *text, size_t size);

#endif
