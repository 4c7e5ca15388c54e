#include "src/load_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "src/source.h"

enum { FIRST_BYTES = 1 << 20, PIECE_BYTES = 4 << 20 };

static int describe(int fd, const char *path, struct segment_source *out, struct err *err)
{
	struct stat st;
	if (fstat(fd, &st) != 0)
		return err_set(err, -errno, "fstat: %s", strerror(errno));
	int rc = source_describe(&st, path, out);
	if (rc)
		return err_set(err, rc, "%s", rc == -EINVAL ? "not a regular file" : "its path is too long");
	return 0;
}

/* Makes the prefix longer, to `want` bytes of the file. */
static int extend(struct load_file *file, uint64_t want, struct err *err)
{
	unsigned char *longer = realloc(file->prefix, want);
	if (!longer)
		return err_set(err, -ENOMEM, "no memory for a header of %" PRIu64 " bytes", want);
	file->prefix = longer;
	while (file->prefix_bytes < want) {
		uint64_t left = want - file->prefix_bytes;
		size_t n = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
		const void *bytes;
		int rc = reader_take(file->reader, n, &bytes, err);
		if (rc)
			return rc;
		memcpy(file->prefix + file->prefix_bytes, bytes, n);
		file->prefix_bytes += n;
	}
	return 0;
}

/* Doubles the prefix until the header is whole, so that all tries together parse about twice its length. */
static int read_header(struct load_file *file, struct err *err)
{
	uint64_t size = file->source.size_bytes, need = size < FIRST_BYTES ? size : FIRST_BYTES;
	int rc;
	if (size == 0)
		return err_set(err, -EINVAL, "offset 0: header, magic: the file is empty");
	do {
		uint64_t want = need > 2 * file->prefix_bytes ? need : 2 * file->prefix_bytes;
		rc = extend(file, want < size ? want : size, err);
		if (rc == 0)
			rc = gguf_parse(file->prefix, file->prefix_bytes, size, &file->gguf, &need, err);
	} while (rc == -EAGAIN);
	return rc;
}

int load_file_open(int fd, const char *path, enum io_backend backend, struct load_file *out, struct err *err)
{
	struct load_file file = {0};
	int rc = describe(fd, path, &file.source, err);
	if (rc == 0)
		rc = reader_open(fd, file.source.size_bytes, backend, &file.reader, err);
	if (rc == 0)
		rc = read_header(&file, err);
	if (rc) {
		load_file_close(&file);
		return rc;
	}
	*out = file;
	return 0;
}

void load_file_close(struct load_file *file)
{
	gguf_fini(&file->gguf);
	reader_close(file->reader);
	free(file->prefix);
	free(file->joint);
	memset(file, 0, sizeof *file);
}

/* A view whose beginning was read with the header and whose end was not. */
static int take_joint(struct load_file *file, uint64_t offset, size_t n_bytes, const void **out, struct err *err)
{
	size_t n_first = (size_t)(file->prefix_bytes - offset);
	const void *rest;
	free(file->joint);
	file->joint = malloc(n_bytes);
	if (!file->joint)
		return err_set(err, -ENOMEM, "no memory for %zu bytes of data", n_bytes);
	int rc = reader_take(file->reader, n_bytes - n_first, &rest, err);
	if (rc)
		return rc;
	memcpy(file->joint, file->prefix + offset, n_first);
	memcpy(file->joint + n_first, rest, n_bytes - n_first);
	*out = file->joint;
	return 0;
}

int load_file_take(struct load_file *file, uint64_t offset, size_t n_bytes, const void **out, struct err *err)
{
	uint64_t size = file->source.size_bytes;
	int rc = 0;
	if (offset < file->offset || offset > size || n_bytes > size - offset)
		return err_set(err, -EINVAL, "offset %" PRIu64 ": data: %zu bytes out of order or outside the file",
			       offset, n_bytes);
	if (n_bytes <= file->prefix_bytes && offset <= file->prefix_bytes - n_bytes) {
		*out = file->prefix + offset;
	} else if (offset < file->prefix_bytes) {
		rc = take_joint(file, offset, n_bytes, out, err);
	} else {
		rc = reader_skip(file->reader, offset - reader_offset(file->reader), err);
		if (rc == 0)
			rc = reader_take(file->reader, n_bytes, out, err);
	}
	if (rc == 0)
		file->offset = offset + n_bytes;
	return rc;
}

int load_file_unchanged(const struct load_file *file, int fd, struct err *err)
{
	struct segment_source now;
	int rc = describe(fd, file->source.path, &now, err);
	if (rc)
		return rc;
	if (now.size_bytes != file->source.size_bytes || now.mtime_ns != file->source.mtime_ns ||
	    now.ctime_ns != file->source.ctime_ns)
		return err_set(err, -ESTALE, "the file was changed while it was read; load it again");
	return 0;
}
