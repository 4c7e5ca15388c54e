#include "src/load/load_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/page_cache.h"
#include "src/message.h"
#include "src/source.h"

enum { NAME_SHOWN_BYTES = 64 };

/* The end of a name tells the parts of a model apart. */
static const char *shown(const char *name)
{
	size_t n = strlen(name);
	return n > NAME_SHOWN_BYTES ? name + n - NAME_SHOWN_BYTES : name;
}

int load_files_blame(const struct load_files *files, uint32_t file, int code, const struct err *what, struct err *err)
{
	if (file == 0 && files->n_weights == 1 && !files->is_folder)
		return err_set(err, code, "%s", what->text);
	return err_set(err, code, "%s: %s", files->names[file], what->text);
}

static int open_one(struct load_files *files, uint32_t i, const struct load_input *input, enum io_backend backend,
		    struct err *err)
{
	struct err what = {""};
	files->names[i] = shown(input->name);
	int rc = load_file_open(input->fd, backend, &files->files[i], &what);
	if (rc)
		return load_files_blame(files, i, rc, &what, err);
	files->n = i + 1;
	source_add(&files->source, input->name, input->role, &files->files[i].opened); /* regular, and not too many */
	return 0;
}

static int fill(struct load_files *files, const struct load_input *inputs, uint32_t n, const char *path,
		enum io_backend backend, struct err *err)
{
	int rc = source_begin(path, &files->source);
	if (rc)
		return err_set(err, rc, "its path is too long");
	while (files->n_weights < n && inputs[files->n_weights].role == FILE_WEIGHTS)
		files->n_weights++;
	for (uint32_t i = 0; i < n; i++)
		files->is_folder |= inputs[i].role == FILE_BESIDE;
	files->files = calloc(n, sizeof *files->files);
	files->names = calloc(n, sizeof *files->names);
	if (!files->files || !files->names)
		return err_set(err, -ENOMEM, "no memory for %u files", n);
	for (uint32_t i = 0; i < n && rc == 0; i++)
		rc = open_one(files, i, &inputs[i], backend, err);
	return rc;
}

int load_files_open(const struct load_input *inputs, uint32_t n, const char *path, enum io_backend backend,
		    struct load_files *out, struct err *err)
{
	struct load_files files = {.n = 0};
	if (n < 1 || n > SEGMENT_FILES_MAX || inputs[0].role != FILE_WEIGHTS)
		return err_set(err, -EINVAL,
			       "the order to load names %u files, possible are 1 to %d, with weights first", n,
			       SEGMENT_FILES_MAX);
	int rc = fill(&files, inputs, n, path, backend, err);
	if (rc) {
		load_files_close(&files);
		return rc;
	}
	*out = files;
	return 0;
}

void load_files_close(struct load_files *files)
{
	for (uint32_t i = 0; i < files->n; i++)
		load_file_close(&files->files[i]);
	free(files->files);
	free(files->names);
	memset(files, 0, sizeof *files);
}

int load_files_take(struct load_files *files, uint32_t file, uint64_t offset, size_t n_bytes, const void **out,
		    struct err *err)
{
	struct err what = {""};
	if (file < files->current || file >= files->n)
		return err_set(err, -EINVAL, "file %u is out of order", file);
	while (files->current < file)
		load_file_done(&files->files[files->current++]);
	int rc = load_file_take(&files->files[file], offset, n_bytes, out, &what);
	return rc ? load_files_blame(files, file, rc, &what, err) : 0;
}

uint64_t load_files_offset(const struct load_files *files)
{
	uint64_t offset = files->files[files->current].offset;
	for (uint32_t i = 0; i < files->current; i++)
		offset += files->files[i].size_bytes;
	return offset;
}

uint64_t load_files_bytes_read(const struct load_files *files)
{
	uint64_t n = 0;
	for (uint32_t i = 0; i < files->n; i++)
		n += load_file_bytes_read(&files->files[i]);
	return n;
}

void load_files_uncache(const struct load_files *files, uint64_t *cached_bytes)
{
	uint64_t total = 0, n_bytes;
	for (uint32_t i = 0; i < files->n; i++) {
		const struct load_file *file = &files->files[i];
		page_cache_drop(file->fd);
		if (page_cache_bytes(file->fd, file->size_bytes, &n_bytes))
			total = UINT64_MAX;
		else if (total != UINT64_MAX)
			total += n_bytes;
	}
	*cached_bytes = total;
}

int load_files_unchanged(const struct load_files *files, struct err *err)
{
	struct err what = {""};
	int rc = 0;
	for (uint32_t i = 0; i < files->n && rc == 0; i++) {
		rc = load_file_unchanged(&files->files[i], &what);
		if (rc)
			load_files_blame(files, i, rc, &what, err);
	}
	return rc;
}
