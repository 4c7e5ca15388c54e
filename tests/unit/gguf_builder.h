/* Writes small GGUF files in memory, field by field, and remembers where each field lies, so that a test can spoil one.
 *
 * Nothing is checked: wrong files are what most tests want. */
#ifndef WEIGHTD_TESTS_GGUF_BUILDER_H
#define WEIGHTD_TESTS_GGUF_BUILDER_H

#include <stddef.h>
#include <stdint.h>

#include "src/format/gguf.h"

enum { BUILDER_MAX_FIELDS = 4096 };

enum builder_kind { FIELD_COUNT, FIELD_LENGTH, FIELD_TYPE, FIELD_OFFSET, FIELD_DIMENSION, FIELD_VALUE, FIELD_BYTES };

struct builder_field {
	size_t at;
	unsigned width; /* bytes */
	enum builder_kind kind;
};

struct gguf_builder {
	uint8_t *bytes; /* [n] owned */
	size_t n, capacity;
	size_t header_bytes; /* set by builder_data */
	struct builder_field fields[BUILDER_MAX_FIELDS];
	size_t n_fields;
	uint64_t alignment, n_pairs, n_tensors, data_bytes;
};

/* Magic, version and the two counts, which later calls keep up to date. */
void builder_init(struct gguf_builder *b, uint32_t version);
void builder_fini(struct gguf_builder *b);

void builder_u32(struct gguf_builder *b, const char *key, uint32_t value);
void builder_f32(struct gguf_builder *b, const char *key, float value);
void builder_string(struct gguf_builder *b, const char *key, const char *value);
/* Any scalar: `value` [width] raw. */
void builder_scalar(struct gguf_builder *b, const char *key, enum gguf_value_type type, const void *value,
		    unsigned width);
/* An array's head; the elements follow with builder_raw or builder_element. */
void builder_array(struct gguf_builder *b, const char *key, enum gguf_value_type type, uint64_t n);
void builder_element(struct gguf_builder *b, const char *string);
void builder_raw(struct gguf_builder *b, const void *bytes, size_t n_bytes, enum builder_kind kind);

/* A tensor entry; its data is placed behind that of the tensors before. n_dims dimensions of dim. */
void builder_tensor(struct gguf_builder *b, const char *name, uint32_t type, uint32_t n_dims, const uint64_t *dim);
/* After the last entry: padding, then data bytes from a simple fixed sequence. */
void builder_data(struct gguf_builder *b);

/* The bytes of a tensor in its file form. */
uint64_t builder_tensor_bytes(uint32_t type, uint32_t n_dims, const uint64_t *dim);

/* A whole model of the llama family: its keys, tokenizer and chat template; then, after any keys of the test's own, its
 * tensors and data. 64 wide, 2 layers, matrices of every type; ffn wide in the middle (a multiple of 32). */
void builder_llama_keys(struct gguf_builder *b, uint32_t ffn);
void builder_llama_tensors(struct gguf_builder *b, uint32_t ffn);

/* Where the first value of a key begins (behind its type, for strings and arrays at the length or element type). */
size_t builder_find(const struct gguf_builder *b, const char *key);

/* Overwrites a field. */
void builder_poke(struct gguf_builder *b, size_t at, uint64_t value, unsigned width);

#endif
