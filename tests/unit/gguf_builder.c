#include "tests/unit/gguf_builder.h"

#include <stdlib.h>
#include <string.h>

enum { TENSOR_COUNT_AT = 8, PAIR_COUNT_AT = 16 };

/* A write that may be spoilt later. */
void builder_raw(struct gguf_builder *b, const void *bytes, size_t n_bytes, enum builder_kind kind)
{
	if (b->n + n_bytes > b->capacity) {
		b->capacity = 2 * (b->n + n_bytes);
		b->bytes = realloc(b->bytes, b->capacity);
		if (!b->bytes)
			abort();
	}
	if (n_bytes)
		memcpy(b->bytes + b->n, bytes, n_bytes);
	if (kind != FIELD_BYTES && b->n_fields < BUILDER_MAX_FIELDS)
		b->fields[b->n_fields++] = (struct builder_field){b->n, (unsigned)n_bytes, kind};
	b->n += n_bytes;
}

static void put_u32(struct gguf_builder *b, uint32_t value, enum builder_kind kind)
{
	builder_raw(b, &value, sizeof value, kind);
}

static void put_u64(struct gguf_builder *b, uint64_t value, enum builder_kind kind)
{
	builder_raw(b, &value, sizeof value, kind);
}

void builder_element(struct gguf_builder *b, const char *string)
{
	put_u64(b, strlen(string), FIELD_LENGTH);
	builder_raw(b, string, strlen(string), FIELD_BYTES);
}

void builder_poke(struct gguf_builder *b, size_t at, uint64_t value, unsigned width)
{
	memcpy(b->bytes + at, &value, width);
}

void builder_init(struct gguf_builder *b, uint32_t version)
{
	*b = (struct gguf_builder){.alignment = 32};
	builder_raw(b, "GGUF", 4, FIELD_BYTES);
	put_u32(b, version, FIELD_TYPE);
	put_u64(b, 0, FIELD_COUNT);
	put_u64(b, 0, FIELD_COUNT);
}

void builder_fini(struct gguf_builder *b)
{
	free(b->bytes);
	b->bytes = NULL;
}

static void begin_pair(struct gguf_builder *b, const char *key, uint32_t type)
{
	builder_element(b, key);
	put_u32(b, type, FIELD_TYPE);
	builder_poke(b, PAIR_COUNT_AT, ++b->n_pairs, 8);
}

void builder_scalar(struct gguf_builder *b, const char *key, enum gguf_value_type type, const void *value,
		    unsigned width)
{
	begin_pair(b, key, type);
	builder_raw(b, value, width, FIELD_VALUE);
	if (type == GGUF_UINT32 && strcmp(key, "general.alignment") == 0)
		memcpy(&b->alignment, value, width);
}

void builder_u32(struct gguf_builder *b, const char *key, uint32_t value)
{
	builder_scalar(b, key, GGUF_UINT32, &value, sizeof value);
}

void builder_f32(struct gguf_builder *b, const char *key, float value)
{
	builder_scalar(b, key, GGUF_FLOAT32, &value, sizeof value);
}

void builder_string(struct gguf_builder *b, const char *key, const char *value)
{
	begin_pair(b, key, GGUF_STRING);
	builder_element(b, value);
}

void builder_array(struct gguf_builder *b, const char *key, enum gguf_value_type type, uint64_t n)
{
	begin_pair(b, key, GGUF_ARRAY);
	put_u32(b, type, FIELD_TYPE);
	put_u64(b, n, FIELD_COUNT);
}

uint64_t builder_tensor_bytes(uint32_t type, uint32_t n_dims, const uint64_t *dim)
{
	uint64_t elements = 1;
	for (uint32_t i = 0; i < n_dims; i++)
		elements *= dim[i];
	switch (type) {
	case GGUF_TENSOR_Q4_0:
		return elements / 32 * 18;
	case GGUF_TENSOR_Q4_1:
		return elements / 32 * 20;
	case GGUF_TENSOR_Q8_0:
		return elements / 32 * 34;
	case GGUF_TENSOR_F32:
		return elements * 4;
	default:
		return elements * 2;
	}
}

void builder_tensor(struct gguf_builder *b, const char *name, uint32_t type, uint32_t n_dims, const uint64_t *dim)
{
	builder_element(b, name);
	put_u32(b, n_dims, FIELD_COUNT);
	for (uint32_t i = 0; i < n_dims; i++)
		put_u64(b, dim[i], FIELD_DIMENSION);
	put_u32(b, type, FIELD_TYPE);
	put_u64(b, b->data_bytes, FIELD_OFFSET);
	b->data_bytes += builder_tensor_bytes(type, n_dims, dim);
	b->data_bytes = (b->data_bytes + b->alignment - 1) / b->alignment * b->alignment;
	builder_poke(b, TENSOR_COUNT_AT, ++b->n_tensors, 8);
}

void builder_data(struct gguf_builder *b)
{
	b->header_bytes = b->n;
	while (b->n % b->alignment)
		builder_raw(b, "", 1, FIELD_BYTES);
	uint32_t state = 1;
	for (uint64_t i = 0; i < b->data_bytes; i++) {
		state = state * 1664525u + 1013904223u;
		/* Never 0x7c or more in the high bits: float16 and float32 fields stay finite and small. */
		uint8_t byte = (uint8_t)(state >> 24) & 0xbb;
		builder_raw(b, &byte, 1, FIELD_BYTES);
	}
}
