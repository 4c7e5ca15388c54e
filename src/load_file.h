/* The model file during a load: its header, parsed, and its data, read once in file order. */
#ifndef WEIGHTD_LOAD_FILE_H
#define WEIGHTD_LOAD_FILE_H

#include "io/reader.h"
#include "shm/layout.h"
#include "src/format/gguf.h"

struct load_file {
	struct segment_source source; /* the file as it was when it was opened */
	struct gguf gguf;	      /* views `prefix` */
	struct reader *reader;	      /* owned */
	/* The beginning of the file: all of the header, and what was read behind it before the header's length was
	 * known. Nothing is read again, so data is served from here first. [prefix_bytes] owned */
	unsigned char *prefix;
	uint64_t prefix_bytes;
	unsigned char *joint; /* owned: a view that begins in the prefix and ends behind it */
	uint64_t offset;      /* of the next byte of data */
};

/* Reads the header of the file behind `fd` (borrowed; a regular file). `path` is for the source record. -EINVAL,
 * -ENOTSUP and -EIO with offset and field. */
int load_file_open(int fd, const char *path, enum io_backend backend, struct load_file *out, struct err *err);
void load_file_close(struct load_file *file);

/* The n_bytes at an offset that isn't before the end of the last view: *out is a view, valid until the next call. At
 * most 16 MiB. */
int load_file_take(struct load_file *file, uint64_t offset, size_t n_bytes, const void **out, struct err *err);

/* 0 if the file behind `fd` still is what it was; -ESTALE if somebody wrote to it meanwhile. */
int load_file_unchanged(const struct load_file *file, int fd, struct err *err);

#endif
