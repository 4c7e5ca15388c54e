/* The beginning is read with pread, because how much of it is wanted is known only after a look at it; the rest, nearly
 * all of a large file, by the reader. A reader has tens of megabytes in flight, so there is one only while its file's
 * data is being taken: a model may have hundreds of files. */
#include "src/load/load_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/source.h"

static int look(int fd, struct stat *out, struct err *err)
{
	if (fstat(fd, out) != 0)
		return err_set(err, -errno, "fstat: %s", strerror(errno));
	return S_ISREG(out->st_mode) ? 0 : err_set(err, -EINVAL, "not a regular file");
}

int load_file_open(int fd, enum io_backend backend, struct load_file *out, struct err *err)
{
	struct load_file file = {.fd = fd, .backend = backend};
	int rc = look(fd, &file.opened, err);
	if (rc)
		return rc;
	file.size_bytes = (uint64_t)file.opened.st_size;
	*out = file;
	return 0;
}

void load_file_close(struct load_file *file)
{
	reader_close(file->reader);
	free(file->prefix);
	free(file->joint);
	memset(file, 0, sizeof *file);
}

/* Reads on to the end of the prefix. */
static int fill(struct load_file *file, uint64_t from, struct err *err)
{
	for (uint64_t at = from; at < file->prefix_bytes;) {
		ssize_t n = pread(file->fd, file->prefix + at, file->prefix_bytes - at, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, -EIO, "offset %" PRIu64 ": reading: %s", at, strerror(errno));
		if (n == 0)
			return err_set(err, -EIO,
				       "offset %" PRIu64 ": the file ends here, it had %" PRIu64
				       " bytes when it was opened",
				       at, file->size_bytes);
		at += (uint64_t)n;
		file->bytes_read += (uint64_t)n;
	}
	/* It isn't wanted twice. Advice only. */
	(void)posix_fadvise(file->fd, (off_t)from, (off_t)(file->prefix_bytes - from), POSIX_FADV_DONTNEED);
	return 0;
}

int load_file_prefix(struct load_file *file, uint64_t n_bytes, struct err *err)
{
	uint64_t from = file->prefix_bytes, want = n_bytes < file->size_bytes ? n_bytes : file->size_bytes;
	if (want <= from)
		return 0;
	/* Whole blocks, so that a reader can begin behind them. */
	uint64_t partial = want % READER_BLOCK_BYTES, rest = file->size_bytes - want;
	if (partial)
		want += READER_BLOCK_BYTES - partial < rest ? READER_BLOCK_BYTES - partial : rest;
	unsigned char *longer = realloc(file->prefix, want);
	if (!longer)
		return err_set(err, -ENOMEM, "no memory for a header of %" PRIu64 " bytes", want);
	file->prefix = longer;
	file->prefix_bytes = want;
	return fill(file, from, err);
}

int load_file_look(struct load_file *file, uint64_t offset, size_t n_bytes, void *out, struct err *err)
{
	unsigned char *to = out;
	if (offset > file->size_bytes || n_bytes > file->size_bytes - offset)
		return err_set(err, -EINVAL, "offset %" PRIu64 ": %zu bytes that are outside the file", offset,
			       n_bytes);
	for (size_t at = 0; at < n_bytes;) {
		ssize_t n = pread(file->fd, to + at, n_bytes - at, (off_t)(offset + at));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_set(err, -EIO, "offset %" PRIu64 ": reading: %s", offset + at,
				       n ? strerror(errno) : "the file ends here now");
		at += (size_t)n;
		file->bytes_read += (uint64_t)n;
	}
	return 0;
}

/* The next bytes behind the prefix. */
static int take_behind(struct load_file *file, uint64_t offset, size_t n_bytes, const void **out, struct err *err)
{
	int rc = 0;
	if (!file->reader)
		rc = reader_open(file->fd, file->prefix_bytes, file->size_bytes, file->backend, &file->reader, err);
	if (rc == 0)
		rc = reader_skip(file->reader, offset - reader_offset(file->reader), err);
	return rc ? rc : reader_take(file->reader, n_bytes, out, err);
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
	int rc = take_behind(file, file->prefix_bytes, n_bytes - n_first, &rest, err);
	if (rc)
		return rc;
	memcpy(file->joint, file->prefix + offset, n_first);
	memcpy(file->joint + n_first, rest, n_bytes - n_first);
	*out = file->joint;
	return 0;
}

int load_file_take(struct load_file *file, uint64_t offset, size_t n_bytes, const void **out, struct err *err)
{
	uint64_t size = file->size_bytes;
	int rc = 0;
	if (offset < file->offset || offset > size || n_bytes > size - offset)
		return err_set(err, -EINVAL, "offset %" PRIu64 ": data: %zu bytes out of order or outside the file",
			       offset, n_bytes);
	if (n_bytes <= file->prefix_bytes && offset <= file->prefix_bytes - n_bytes)
		*out = file->prefix + offset;
	else if (offset < file->prefix_bytes)
		rc = take_joint(file, offset, n_bytes, out, err);
	else
		rc = take_behind(file, offset, n_bytes, out, err);
	if (rc == 0)
		file->offset = offset + n_bytes;
	return rc;
}

void load_file_done(struct load_file *file)
{
	file->bytes_read = load_file_bytes_read(file);
	reader_close(file->reader);
	free(file->joint);
	file->reader = NULL;
	file->joint = NULL;
}

uint64_t load_file_bytes_read(const struct load_file *file)
{
	return file->bytes_read + (file->reader ? reader_bytes_read(file->reader) : 0);
}

int load_file_unchanged(const struct load_file *file, struct err *err)
{
	struct stat now;
	int rc = look(file->fd, &now, err);
	if (rc == 0 && !source_same(&file->opened, &now))
		rc = err_set(err, -ESTALE, "the file was changed while it was read; load it again");
	return rc;
}
