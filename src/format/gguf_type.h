/* The tensor types of GGUF files, private to the gguf_*.c files. Source: enum ggml_type and the block structs of ggml.
 */
#ifndef WEIGHTD_FORMAT_GGUF_TYPE_H
#define WEIGHTD_FORMAT_GGUF_TYPE_H

#include <stdint.h>

struct gguf_type {
	const char *name;
	uint16_t block_elements; /* 0: known by name only, this program doesn't read it */
	uint16_t block_bytes;
};

/* NULL for a number that is no tensor type. */
const struct gguf_type *gguf_type(uint32_t type);

#endif
