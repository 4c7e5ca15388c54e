#include "tests/unit/gguf_builder.h"

#include <stdbool.h>
#include <stdio.h>
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
	static const struct {
		uint32_t type, elements, bytes;
	} blocks[] = {
		{GGUF_TENSOR_F32, 1, 4},      {GGUF_TENSOR_Q4_0, 32, 18},   {GGUF_TENSOR_Q4_1, 32, 20},
		{GGUF_TENSOR_Q5_0, 32, 22},   {GGUF_TENSOR_Q5_1, 32, 24},   {GGUF_TENSOR_Q8_0, 32, 34},
		{GGUF_TENSOR_IQ4_NL, 32, 18}, {GGUF_TENSOR_Q2_K, 256, 84},  {GGUF_TENSOR_Q3_K, 256, 110},
		{GGUF_TENSOR_Q4_K, 256, 144}, {GGUF_TENSOR_Q5_K, 256, 176}, {GGUF_TENSOR_Q6_K, 256, 210},
	};
	uint64_t elements = 1;
	for (uint32_t i = 0; i < n_dims; i++)
		elements *= dim[i];
	for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
		if (blocks[i].type == type)
			return elements / blocks[i].elements * blocks[i].bytes;
	return elements * 2;
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

/* --- a whole model ---------------------------------------------------------------------------- */

enum { LLAMA_DIM = 64, LLAMA_LAYERS = 2, LLAMA_TOKENS = 260 };

static bool is_plain(unsigned byte)
{
	return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/* GPT-2's printable character for a byte, in UTF-8. */
static void spell_byte(unsigned byte, char out[4])
{
	unsigned character = byte, n_before = 0;
	for (unsigned i = 0; i < byte; i++)
		n_before += !is_plain(i);
	if (!is_plain(byte))
		character = 0x100 + n_before;
	if (character < 0x80) {
		out[0] = (char)character;
		out[1] = '\0';
	} else {
		out[0] = (char)(0xc0 | character >> 6);
		out[1] = (char)(0x80 | (character & 0x3f));
		out[2] = '\0';
	}
}

static void put_tokenizer(struct gguf_builder *b)
{
	builder_string(b, "tokenizer.ggml.model", "gpt2");
	builder_string(b, "tokenizer.ggml.pre", "smollm");
	builder_array(b, "tokenizer.ggml.tokens", GGUF_STRING, LLAMA_TOKENS);
	builder_element(b, "<|endoftext|>");
	builder_element(b, "<|im_start|>");
	builder_element(b, "<|im_end|>");
	for (unsigned byte = 0; byte < 256; byte++) {
		char spelling[4];
		spell_byte(byte, spelling);
		builder_element(b, spelling);
	}
	builder_element(b, "he");
	builder_array(b, "tokenizer.ggml.token_type", GGUF_INT32, LLAMA_TOKENS);
	for (int i = 0; i < LLAMA_TOKENS; i++)
		builder_raw(b, &(int32_t){i < 3 ? 3 : 1}, 4, FIELD_BYTES);
	builder_array(b, "tokenizer.ggml.merges", GGUF_STRING, 1);
	builder_element(b, "h e");
	builder_u32(b, "tokenizer.ggml.bos_token_id", 1);
	builder_u32(b, "tokenizer.ggml.eos_token_id", 2);
	builder_scalar(b, "tokenizer.ggml.add_bos_token", GGUF_BOOL, &(uint8_t){0}, 1);
	builder_string(b, "tokenizer.chat_template", "{{ messages[0]['content'] }}");
}

void builder_llama_keys(struct gguf_builder *b, uint32_t ffn)
{
	builder_string(b, "general.architecture", "llama");
	builder_string(b, "general.name", "made for tests");
	builder_u32(b, "general.quantization_version", 2);
	builder_u32(b, "llama.block_count", LLAMA_LAYERS);
	builder_u32(b, "llama.context_length", 512);
	builder_u32(b, "llama.embedding_length", LLAMA_DIM);
	builder_u32(b, "llama.feed_forward_length", ffn);
	builder_u32(b, "llama.attention.head_count", 4);
	builder_u32(b, "llama.attention.head_count_kv", 2);
	builder_f32(b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
	builder_f32(b, "llama.rope.freq_base", 50000);
	builder_u32(b, "llama.rope.dimension_count", 16);
	builder_u32(b, "llama.vocab_size", LLAMA_TOKENS);
	put_tokenizer(b);
}

void builder_llama_tensors(struct gguf_builder *b, uint32_t ffn)
{
	static const struct {
		const char *name;
		uint32_t type[LLAMA_LAYERS];
		int rows; /* -1: ffn, 0: a vector */
		int cols;
	} layer[] = {
		{"attn_norm", {GGUF_TENSOR_F32, GGUF_TENSOR_F16}, 0, LLAMA_DIM},
		{"attn_q", {GGUF_TENSOR_Q5_0, GGUF_TENSOR_F16}, LLAMA_DIM, LLAMA_DIM},
		{"attn_k", {GGUF_TENSOR_Q4_1, GGUF_TENSOR_BF16}, LLAMA_DIM / 2, LLAMA_DIM},
		{"attn_v", {GGUF_TENSOR_Q8_0, GGUF_TENSOR_F32}, LLAMA_DIM / 2, LLAMA_DIM},
		{"attn_output", {GGUF_TENSOR_F16, GGUF_TENSOR_IQ4_NL}, LLAMA_DIM, LLAMA_DIM},
		{"ffn_norm", {GGUF_TENSOR_BF16, GGUF_TENSOR_F32}, 0, LLAMA_DIM},
		{"ffn_gate", {GGUF_TENSOR_BF16, GGUF_TENSOR_Q5_1}, -1, LLAMA_DIM},
		{"ffn_up", {GGUF_TENSOR_F32, GGUF_TENSOR_Q8_0}, -1, LLAMA_DIM},
		{"ffn_down", {GGUF_TENSOR_Q4_0, GGUF_TENSOR_Q4_1}, LLAMA_DIM, -1},
	};
	builder_tensor(b, "output_norm.weight", GGUF_TENSOR_F32, 1, (uint64_t[]){LLAMA_DIM});
	for (int i = 0; i < LLAMA_LAYERS; i++)
		for (size_t j = 0; j < sizeof layer / sizeof *layer; j++) {
			char name[64];
			uint64_t dim[] = {layer[j].cols < 0 ? ffn : (uint64_t)layer[j].cols,
					  layer[j].rows < 0 ? ffn : (uint64_t)layer[j].rows};
			snprintf(name, sizeof name, "blk.%d.%s.weight", i, layer[j].name);
			builder_tensor(b, name, layer[j].type[i], layer[j].rows ? 2 : 1, dim);
		}
	/* Its 260 rows leave four in the last block row. */
	builder_tensor(b, "token_embd.weight", GGUF_TENSOR_Q8_0, 2, (uint64_t[]){LLAMA_DIM, LLAMA_TOKENS});
	builder_data(b);
}

size_t builder_find(const struct gguf_builder *b, const char *key)
{
	size_t key_bytes = strlen(key);
	for (size_t at = 24; at + 12 + key_bytes < b->n; at++) {
		uint64_t n_bytes;
		memcpy(&n_bytes, b->bytes + at, sizeof n_bytes);
		if (n_bytes == key_bytes && memcmp(b->bytes + at + 8, key, key_bytes) == 0)
			return at + 8 + key_bytes + 4;
	}
	abort();
}
