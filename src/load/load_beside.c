#include "src/load/load_beside.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { BESIDE_MAX_BYTES = 512 << 20 }; /* what tokenizer_json_parse takes; others take less */

int load_beside(struct load_files *files, const char *name, const void **out, size_t *n_bytes, struct err *err)
{
	for (uint32_t i = files->n_weights; i < files->n; i++) {
		struct load_file *file = &files->files[i];
		struct err what = {""};
		if (strcmp(files->names[i], name) != 0)
			continue;
		int rc = file->size_bytes > BESIDE_MAX_BYTES
				 ? err_set(&what, -EINVAL, "%" PRIu64 " bytes, at most %d are possible",
					   file->size_bytes, BESIDE_MAX_BYTES)
				 : load_file_prefix(file, file->size_bytes, &what);
		if (rc)
			return load_files_blame(files, i, rc, &what, err);
		*out = file->prefix ? (const void *)file->prefix : "";
		*n_bytes = (size_t)file->size_bytes;
		return 0;
	}
	return err_set(err, -EINVAL, "the folder has no %s", name);
}
