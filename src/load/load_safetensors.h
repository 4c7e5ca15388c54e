/* The header of a safetensors file during a load. */
#ifndef WEIGHTD_LOAD_SAFETENSORS_H
#define WEIGHTD_LOAD_SAFETENSORS_H

#include "src/format/safetensors.h"
#include "src/load/load_file.h"

/* Reads as much of the file's beginning as the header takes, and parses it. -EINVAL, -ENOTSUP and -EIO with offset and
 * tensor; -ENOMEM. */
int load_safetensors_header(struct load_file *file, struct safetensors *out, struct err *err);

#endif
