/* The headers of GGUF files during a load. */
#ifndef WEIGHTD_LOAD_GGUF_H
#define WEIGHTD_LOAD_GGUF_H

#include "src/format/gguf.h"
#include "src/load/load_files.h"

/* Reads as much of one file's beginning as the header takes, and parses it. The result views the file's prefix. Errors
 * as below. */
int load_gguf_header(struct load_file *file, struct gguf *out, struct err *err);

/* Reads and parses the headers of all files with weights and joins them. The result views the files' prefixes. -EINVAL,
 * -ENOTSUP and -EIO with offset and field. */
int load_gguf(struct load_files *files, struct gguf *out, struct err *err);

#endif
