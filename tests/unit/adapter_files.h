/* Writes adapters as files in memory, GGUF and PEFT, from the same values: multiples of 1/64 below 1, which all plain
 * types hold exactly. */
#ifndef WEIGHTD_TESTS_ADAPTER_FILES_H
#define WEIGHTD_TESTS_ADAPTER_FILES_H

#include "src/engine/adapter_image.h"
#include "src/format/gguf.h"
#include "src/load/load_adapter.h"

/* What is in a file. The base is of the llama family, whose GGUF files have queries and keys in pairs. */
struct adapter_spec {
	unsigned products; /* bit per enum adapter_product, in every layer */
	uint32_t rank;
	enum gguf_tensor_type type; /* F32, F16, BF16 or, in GGUF files, Q8_0 (A alone: B is float32 then) */
	const char *config; /* PEFT: all fields of adapter_config.json but r, lora_alpha, peft_type; NULL: none */
	bool backwards;	    /* tensors in reverse order */
};

extern const struct image_config adapter_files_base;

/* The value of an entry's A or B (in the order of rows that Hugging Face files have). */
float adapter_files_value(uint32_t layer, enum adapter_product product, char factor, uint32_t row, uint32_t col);
/* Where row `row` of such a file's queries or keys lies in a GGUF file. */
uint32_t adapter_files_pair_row(uint32_t row);

/* Both with an alpha of 8. Descriptors are owned: adapter_files_close. */
struct load_adapter_files adapter_files_gguf(const struct adapter_spec *spec);
struct load_adapter_files adapter_files_peft(const struct adapter_spec *spec);
void adapter_files_close(struct load_adapter_files *files);

/* A file in memory with these bytes. */
int adapter_files_put(const void *bytes, size_t n_bytes);

/* Loads: returns the image, owned (free), or NULL with `err`. */
void *adapter_files_load(const struct load_adapter_files *files, const struct image_config *base, struct err *err);

#endif
