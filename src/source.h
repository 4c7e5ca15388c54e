/* Which files a copy was made from: for each what stat(2) says of it, which changes with every change of its content.
 */
#ifndef WEIGHTD_SOURCE_H
#define WEIGHTD_SOURCE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "shm/layout.h"

/* A source without files yet. -ENAMETOOLONG. */
int source_begin(const char *path, struct segment_source *out);

/* Its next file: `name` without a directory, `role` of enum file_role. -EINVAL: not a regular file; -E2BIG: too many
 * files. */
int source_add(struct segment_source *source, const char *name, uint32_t role, const struct stat *st);

/* Whether two looks at a file saw the same one with the same content. */
bool source_same(const struct stat *a, const struct stat *b);

#endif
