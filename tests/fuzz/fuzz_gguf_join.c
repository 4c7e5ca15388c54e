/* Two files that say they are parts of one model, whatever is in them: a length of 32 bits, that many bytes of the
 * first, and the second. What they make together must be walkable, each tensor within its own file. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "src/format/gguf.h"
#include "tests/fuzz/fuzz.h"

static void walk(const struct gguf *gguf, const uint64_t file_bytes[2])
{
	char place[GGUF_PLACE_BYTES], name[GGUF_MAX_NAME_BYTES + 1];
	for (uint64_t i = 0; i < gguf->n_tensors; i++) {
		const struct gguf_tensor *tensor = &gguf->tensors[i];
		if (tensor->part > 1 || tensor->offset > file_bytes[tensor->part] ||
		    tensor->bytes > file_bytes[tensor->part] - tensor->offset)
			abort();
		gguf_place(gguf, tensor, place);
		memcpy(name, tensor->name.bytes, tensor->name.n_bytes);
		name[tensor->name.n_bytes] = '\0';
		if (!memchr(tensor->name.bytes, '\0', tensor->name.n_bytes) && gguf_find_tensor(gguf, name) != tensor)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	static const char *const names[] = {"first", "second"};
	struct gguf parts[2] = {{0}, {0}}, joined;
	struct err err;
	uint64_t need;
	uint32_t first;
	if (n_bytes < sizeof first)
		return 0;
	memcpy(&first, bytes, sizeof first);
	first = le32toh(first);
	bytes += sizeof first;
	n_bytes -= sizeof first;
	if (first > n_bytes)
		return 0;
	const uint64_t file_bytes[] = {first, n_bytes - first};
	if (gguf_parse(bytes, first, first, &parts[0], &need, &err) == 0 &&
	    gguf_parse(bytes + first, n_bytes - first, n_bytes - first, &parts[1], &need, &err) == 0 &&
	    gguf_join(parts, names, 2, &joined, &err) == 0) {
		walk(&joined, file_bytes);
		gguf_fini(&joined);
	}
	gguf_fini(&parts[0]);
	gguf_fini(&parts[1]);
	return 0;
}
