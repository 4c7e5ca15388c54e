/* The safetensors parser on any bytes: what it accepts must be walkable to the last tensor and tile the file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/format/safetensors.h"
#include "tests/fuzz/fuzz.h"

static void require(int condition)
{
	if (!condition)
		abort();
}

/* Reads every byte that a view promises. */
static void touch(const struct safetensors_string *string)
{
	const volatile char *byte = string->bytes; /* volatile: the reads are the point, nobody uses the values */
	for (uint32_t i = 0; i < string->n_bytes; i++)
		(void)byte[i];
}

static void walk(const struct safetensors *file, uint64_t file_bytes)
{
	uint64_t next = file->data_offset;
	for (uint32_t i = 0; i < file->n_tensors; i++) {
		const struct safetensors_tensor *tensor = &file->tensors[i];
		uint64_t values = 1;
		touch(&tensor->name);
		for (uint32_t j = 0; j < tensor->n_dims; j++)
			values *= tensor->dim[j];
		require(tensor->offset == next && tensor->bytes == values * safetensors_type_bytes(tensor->type));
		/* What can be looked for with a C string is found. */
		if (!memchr(tensor->name.bytes, '\0', tensor->name.n_bytes))
			require(safetensors_find(file, tensor->name.bytes) == tensor);
		next += tensor->bytes;
	}
	require(next == file_bytes);
	for (uint32_t i = 0; i < file->n_metadata; i++) {
		touch(&file->metadata[i].key);
		touch(&file->metadata[i].value);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	/* Once as the whole file, once as the beginning of a long one. */
	const uint64_t file_bytes[] = {n_bytes, n_bytes + (1ull << 40)};
	for (size_t i = 0; i < 2; i++) {
		struct safetensors file;
		struct err err = {""};
		uint64_t need = 0;
		int rc = safetensors_parse(bytes, n_bytes, file_bytes[i], &file, &need, &err);
		require(rc != -EAGAIN || need > n_bytes);
		require(rc == 0 || rc == -EAGAIN || *err.text);
		if (rc == 0) {
			walk(&file, file_bytes[i]);
			safetensors_fini(&file);
		}
	}
	return 0;
}
