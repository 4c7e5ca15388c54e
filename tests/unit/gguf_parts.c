#include "tests/unit/gguf_parts.h"

#include <check.h>
#include <string.h>

static void parse(const struct gguf_builder *b, struct gguf *out)
{
	struct err err = {""};
	uint64_t need;
	ck_assert_msg(gguf_parse(b->bytes, b->n, b->n, out, &need, &err) == 0, "%s", err.text);
}

/* The pairs lie between the counts and the first tensor's entry. */
static void copy_keys(const struct gguf_builder *whole, const struct gguf *gguf, struct gguf_builder *part)
{
	uint64_t end = 24;
	for (uint64_t i = 0; i < gguf->n_pairs; i++)
		if (gguf->pairs[i].value.offset + gguf->pairs[i].value.bytes > end)
			end = gguf->pairs[i].value.offset + gguf->pairs[i].value.bytes;
	builder_raw(part, whole->bytes + 24, end - 24, FIELD_BYTES);
	part->n_pairs = gguf->n_pairs;
}

static void put_tensors(const struct gguf_builder *whole, const struct gguf_tensor *tensors, uint64_t n,
			struct gguf_builder *part)
{
	for (uint64_t i = 0; i < n; i++) {
		char name[GGUF_MAX_NAME_BYTES + 1] = "";
		memcpy(name, tensors[i].name.bytes, tensors[i].name.n_bytes);
		builder_tensor(part, name, tensors[i].type, tensors[i].n_dims, tensors[i].dim);
	}
	part->header_bytes = part->n;
	for (uint64_t i = 0; i < n; i++) {
		while (part->n % part->alignment)
			builder_raw(part, "", 1, FIELD_BYTES);
		builder_raw(part, whole->bytes + tensors[i].offset, tensors[i].bytes, FIELD_BYTES);
	}
}

void gguf_parts_make(const struct gguf_builder *whole, uint32_t n, struct gguf_builder *parts)
{
	struct gguf gguf;
	ck_assert_uint_le(n, GGUF_PARTS_MAX);
	parse(whole, &gguf);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t first = i * gguf.n_tensors / n, end = (i + 1) * gguf.n_tensors / n;
		builder_init(&parts[i], 3);
		if (i == 0)
			copy_keys(whole, &gguf, &parts[i]);
		builder_scalar(&parts[i], "split.no", GGUF_UINT16, &(uint16_t){(uint16_t)i}, 2);
		builder_scalar(&parts[i], "split.count", GGUF_UINT16, &(uint16_t){(uint16_t)n}, 2);
		builder_scalar(&parts[i], "split.tensors.count", GGUF_INT32, &(int32_t){(int32_t)gguf.n_tensors}, 4);
		put_tensors(whole, gguf.tensors + first, end - first, &parts[i]);
	}
	gguf_fini(&gguf);
}
