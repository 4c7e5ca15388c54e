/* Which file a copy was made from: what stat(2) says of it, which changes with every change of its content. */
#ifndef WEIGHTD_SOURCE_H
#define WEIGHTD_SOURCE_H

#include <sys/stat.h>

#include "shm/layout.h"

/* -EINVAL: not a regular file; -ENAMETOOLONG. */
int source_describe(const struct stat *st, const char *path, struct segment_source *out);

#endif
