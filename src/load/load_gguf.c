#include "src/load/load_gguf.h"

#include <errno.h>
#include <stdlib.h>

enum { FIRST_BYTES = 1 << 20 };

/* Doubles the prefix until the header is whole, so that all tries together parse about twice its length. */
int load_gguf_header(struct load_file *file, struct gguf *out, struct err *err)
{
	uint64_t need = FIRST_BYTES;
	int rc;
	if (file->size_bytes == 0)
		return err_set(err, -EINVAL, "offset 0: header, magic: the file is empty");
	do {
		uint64_t want = need > 2 * file->prefix_bytes ? need : 2 * file->prefix_bytes;
		rc = load_file_prefix(file, want, err);
		if (rc == 0)
			rc = gguf_parse(file->prefix, file->prefix_bytes, file->size_bytes, out, &need, err);
	} while (rc == -EAGAIN);
	return rc;
}

int load_gguf(struct load_files *files, struct gguf *out, struct err *err)
{
	uint32_t n = files->n_weights;
	struct gguf *parts = calloc(n, sizeof *parts);
	struct err what = {""};
	int rc = parts ? 0 : err_set(err, -ENOMEM, "no memory for the headers of %u files", n);
	for (uint32_t i = 0; i < n && rc == 0; i++) {
		rc = load_gguf_header(&files->files[i], &parts[i], &what);
		if (rc)
			load_files_blame(files, i, rc, &what, err);
	}
	if (rc == 0)
		rc = gguf_join(parts, files->names, n, out, err);
	for (uint32_t i = 0; parts && i < n; i++)
		gguf_fini(&parts[i]);
	free(parts);
	return rc;
}
