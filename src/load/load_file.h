/* One of a model's files during a load: its beginning, kept, and its data, read once in file order. */
#ifndef WEIGHTD_LOAD_FILE_H
#define WEIGHTD_LOAD_FILE_H

#include <sys/stat.h>

#include "io/reader.h"

struct load_file {
	int fd; /* borrowed */
	enum io_backend backend;
	struct stat opened; /* as it was when it was opened */
	uint64_t size_bytes;
	/* The beginning of the file: all of the header, and what was read behind it before the header's length was
	 * known. Nothing is read again, so data is served from here first. [prefix_bytes] owned */
	unsigned char *prefix;
	uint64_t prefix_bytes;
	struct reader *reader; /* owned: of what is behind the prefix; NULL until that is wanted, and once it is done */
	unsigned char *joint;  /* owned: a view that begins in the prefix and ends behind it */
	uint64_t offset;       /* of the next byte of data */
	uint64_t bytes_read;   /* without those of an open reader */
};

/* Looks at the file behind `fd`: -EINVAL unless it is a regular one. Reads nothing. */
int load_file_open(int fd, enum io_backend backend, struct load_file *out, struct err *err);
void load_file_close(struct load_file *file);

/* Makes the prefix at least n_bytes long (at most the file's size), which may move it. Before any load_file_take only.
 */
int load_file_prefix(struct load_file *file, uint64_t n_bytes, struct err *err);

/* Copies n_bytes at any offset inside the file, without regard to its order: for headers that lie between data. */
int load_file_look(struct load_file *file, uint64_t offset, size_t n_bytes, void *out, struct err *err);

/* The n_bytes at an offset that isn't before the end of the last view: *out is a view, valid until the next call. At
 * most 16 MiB. */
int load_file_take(struct load_file *file, uint64_t offset, size_t n_bytes, const void **out, struct err *err);

/* No more is taken: gives back all that reading needs but the prefix. */
void load_file_done(struct load_file *file);

uint64_t load_file_bytes_read(const struct load_file *file);

/* 0 if the file still is what it was; -ESTALE if somebody wrote to it meanwhile. */
int load_file_unchanged(const struct load_file *file, struct err *err);

#endif
