/* The model image: everything a worker needs of a model, packed and position independent, so that attaching is mapping
 * and checking. The loader writes it into a segment behind the segment's header page (shm/layout.h); the engine reads
 * it there. Offsets count from the image's first byte and are multiples of 64.
 *
 *   image_header | image_tensor[n_tensors] | packed matrices and float32 vectors ... | tokenizer table | chat template
 */
#ifndef WEIGHTD_ENGINE_IMAGE_H
#define WEIGHTD_ENGINE_IMAGE_H

#include <assert.h>
#include <stdint.h>

#include "src/err.h"
#include "src/kernel/pack.h"

#define IMAGE_MAGIC 0x31474d4944544857ull /* "WHTDIMG1" */
enum { IMAGE_VERSION = 1, IMAGE_ALIGN = 64 };

enum image_family { IMAGE_FAMILY_LLAMA = 1 };

/* Hyperparameters, checked by the family before they are written here. */
struct image_config {
	uint32_t family; /* enum image_family */
	uint32_t n_layers;
	uint32_t dim;
	uint32_t n_heads;
	uint32_t n_kv_heads;
	uint32_t head_dim;
	uint32_t ffn_dim;
	uint32_t vocab;
	uint32_t context; /* positions the model was trained for */
	uint32_t rope_dim;
	float rope_base;
	float norm_eps;
	uint32_t tied_head; /* 1: the head is the embedding matrix */
	uint32_t pad[3];
};
static_assert(sizeof(struct image_config) == 64, "image_config is part of the segment layout");

enum image_role {			/* written to segments: never renumber */
		  IMAGE_TOKEN_EMBD = 1, /* matrix [vocab][dim] */
		  IMAGE_OUTPUT_NORM,	/* vector [dim] */
		  IMAGE_OUTPUT,		/* matrix [vocab][dim], absent when tied */
		  IMAGE_ATTN_NORM,	/* vector [dim], per layer, as all below */
		  IMAGE_ATTN_Q,		/* matrix [n_heads * head_dim][dim] */
		  IMAGE_ATTN_K,		/* matrix [n_kv_heads * head_dim][dim] */
		  IMAGE_ATTN_V,		/* matrix [n_kv_heads * head_dim][dim] */
		  IMAGE_ATTN_OUTPUT,	/* matrix [dim][n_heads * head_dim] */
		  IMAGE_FFN_NORM,	/* vector [dim] */
		  IMAGE_FFN_GATE,	/* matrix [ffn_dim][dim] */
		  IMAGE_FFN_UP,		/* matrix [ffn_dim][dim] */
		  IMAGE_FFN_DOWN,	/* matrix [dim][ffn_dim] */
};

struct image_tensor {
	uint32_t role;	 /* enum image_role */
	uint32_t layer;	 /* 0 for the model's own tensors */
	uint32_t kind;	 /* enum pack_kind; vectors are PACK_F32 with vector = 1 */
	uint32_t vector; /* 1: plain float32 [cols], rows = 1 */
	uint32_t rows;
	uint32_t cols;
	uint64_t offset; /* from the image's first byte, 64-byte aligned */
	uint64_t bytes;
};
static_assert(sizeof(struct image_tensor) == 40, "image_tensor is part of the segment layout");

struct image_header {
	uint64_t magic;
	uint32_t version;
	uint32_t n_tensors;
	uint64_t image_bytes;
	uint64_t tensors_offset;
	uint64_t tokenizer_offset, tokenizer_bytes;
	uint64_t template_offset, template_bytes; /* Jinja source, not terminated; 0 bytes: the model has none */
	struct image_config config;
};
static_assert(sizeof(struct image_header) == 128, "image_header is part of the segment layout");

/* Lays out `tensors` [n] (role, layer, kind, vector, rows, cols set by the caller): fills offset and bytes of each, in
 * the given order, and the header. Returns 0, -EOVERFLOW. */
int image_plan(const struct image_config *config, struct image_tensor *tensors, uint32_t n, uint64_t tokenizer_bytes,
	       uint64_t template_bytes, struct image_header *out, struct err *err);

/* Checks a whole image at `image` of `bytes` readable bytes: magic, version, every offset, size, alignment and
 * hyperparameter. Trusts nothing. Returns 0 or -EINVAL. */
int image_check(const void *image, uint64_t bytes, struct err *err);

#endif
