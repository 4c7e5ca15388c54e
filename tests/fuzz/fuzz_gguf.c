/* The GGUF parser on any bytes: what it accepts must be walkable to the last element. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "src/format/gguf.h"
#include "tests/fuzz/fuzz.h"

/* Reads every byte that a view promises. */
static void touch(const void *bytes, uint64_t n)
{
	const volatile unsigned char *byte = bytes; /* volatile: the reads are the point, nobody uses the values */
	for (uint64_t i = 0; i < n; i++)
		(void)byte[i];
}

static void walk_value(const struct gguf *gguf, const char *key)
{
	uint32_t u32;
	float f32;
	bool yes;
	struct gguf_string string, *strings;
	int32_t *integers;
	uint64_t n;
	struct err err;
	gguf_get_u32(gguf, key, &u32, &err);
	gguf_get_f32(gguf, key, &f32, &err);
	gguf_get_bool(gguf, key, &yes, &err);
	if (gguf_get_string(gguf, key, &string, &err) == 0)
		touch(string.bytes, string.n_bytes);
	if (gguf_get_strings(gguf, key, &strings, &n, &err) == 0) {
		for (uint64_t i = 0; i < n; i++)
			touch(strings[i].bytes, strings[i].n_bytes);
		free(strings);
	}
	if (gguf_get_i32s(gguf, key, &integers, &n, &err) == 0) {
		touch(integers, n * sizeof *integers);
		free(integers);
	}
}

static void walk(const struct gguf *gguf, uint64_t file_bytes)
{
	for (uint64_t i = 0; i < gguf->n_pairs; i++) {
		char key[256];
		size_t n = gguf->pairs[i].key.n_bytes < sizeof key ? gguf->pairs[i].key.n_bytes : sizeof key - 1;
		memcpy(key, gguf->pairs[i].key.bytes, n);
		key[n] = '\0';
		walk_value(gguf, key);
	}
	for (uint64_t i = 0; i < gguf->n_tensors; i++) {
		const struct gguf_tensor *tensor = &gguf->tensors[i];
		touch(tensor->name.bytes, tensor->name.n_bytes);
		if (tensor->offset > file_bytes || tensor->bytes > file_bytes - tensor->offset)
			abort();
		if (i > 0 && tensor[-1].offset + tensor[-1].bytes > tensor->offset)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	/* Once as the whole file, once as the beginning of a long one. */
	const uint64_t file_bytes[] = {n_bytes, n_bytes + (1ull << 40)};
	for (size_t i = 0; i < 2; i++) {
		struct gguf gguf;
		struct err err;
		uint64_t need = 0;
		int rc = gguf_parse(bytes, n_bytes, file_bytes[i], &gguf, &need, &err);
		if (rc == -EAGAIN && need <= n_bytes)
			abort();
		if (rc == 0) {
			walk(&gguf, file_bytes[i]);
			gguf_fini(&gguf);
		}
	}
	return 0;
}
