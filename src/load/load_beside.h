/* Files of a folder that lie beside its weights. */
#ifndef WEIGHTD_LOAD_BESIDE_H
#define WEIGHTD_LOAD_BESIDE_H

#include "src/load/load_files.h"

/* Reads one whole, by its name: *out [*n_bytes] is a view, valid as long as the files. -EINVAL: there is none, or it is
 * too large; -EIO, -ENOMEM. */
int load_beside(struct load_files *files, const char *name, const void **out, size_t *n_bytes, struct err *err);

#endif
