#include "src/load/load_safetensors.h"

#include <errno.h>

/* First the length, which tells how much that is. */
int load_safetensors_header(struct load_file *file, struct safetensors *out, struct err *err)
{
	uint64_t need = SAFETENSORS_LENGTH_BYTES;
	int rc;
	do {
		rc = load_file_prefix(file, need, err);
		if (rc == 0)
			rc = safetensors_parse(file->prefix, file->prefix_bytes, file->size_bytes, out, &need, err);
	} while (rc == -EAGAIN);
	return rc;
}
