/* Model families: which tensors a model of a family has, how they are called in GGUF and in Hugging Face files, what
 * shapes its hyperparameters give them, and which hyperparameters this program computes with. The loader plans an image
 * by it, and image_check holds every image to it.
 *
 * A family is a table, and there is no arithmetic of a family: forward.c runs the steps that a model has tensors or
 * hyperparameters for, whoever's they are. Adding a family that combines known steps is adding a file with its table.
 *
 * A speech family has a second table, of its encoder's layers, whose roles have IMAGE_OF_ENCODER.
 */
#ifndef WEIGHTD_ENGINE_FAMILY_H
#define WEIGHTD_ENGINE_FAMILY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/engine/image.h"
#include "src/err.h"

enum {
	FAMILY_MAX_LAYERS = 1024,
	FAMILY_MAX_TENSORS = 48 * (FAMILY_MAX_LAYERS + 1),
	FAMILY_NAME_BYTES = 64, /* of a tensor in the file, terminator included */
	FAMILY_MAX_COLS = 1 << 18,
};

struct family_tensor {
	uint32_t role;	/* enum image_role */
	uint32_t layer; /* 0 for the model's own */
	bool per_layer;
	bool vector; /* rows = 1 */
	uint32_t rows, cols;
	/* Its names in GGUF files, "blk.%.attn_q.weight", or for a speech model in whisper.cpp's, and in Hugging
	 * Face's, "model.layers.%.self_attn.q_proj.weight":
	 * '%' stands for the layer. Static; hf_pattern is NULL where those have no such tensor. */
	const char *pattern, *hf_pattern;
};

/* Lengths that tensors have, as the hyperparameters give them. */
enum family_extent {
	FAMILY_ONE,
	FAMILY_DIM,
	FAMILY_VOCAB,
	FAMILY_QUERY,	  /* n_heads * head_dim */
	FAMILY_KEY_VALUE, /* n_kv_heads * head_dim */
	FAMILY_HEAD,	  /* head_dim */
	FAMILY_FFN,
	FAMILY_ROPE, /* rope_dim / 2 */
	FAMILY_CONTEXT,
	FAMILY_ENCODER_CONTEXT,
	FAMILY_CONV1, /* 3 * mel_bins, rounded up to a multiple of 32 */
	FAMILY_CONV2, /* 3 * dim */
};

struct family_shape {
	enum image_role role;
	const char *pattern, *hf_pattern; /* as in struct family_tensor */
	enum family_extent rows, cols;	  /* rows FAMILY_ONE: a vector */
};

struct family {
	enum image_family id;
	const char *name;		  /* as general.architecture spells it */
	const struct family_shape *layer; /* [n_of_layer]: what each layer has */
	uint32_t n_of_layer;
	/* What the model itself has; NULL: what the families that write texts have, which is in family.c. */
	const struct family_shape *model; /* [n_of_model] */
	uint32_t n_of_model;
	/* What each layer of the encoder has, with IMAGE_OF_ENCODER in its roles; NULL: there is no encoder. */
	const struct family_shape *encoder_layer; /* [n_of_encoder_layer] */
	uint32_t n_of_encoder_layer;

	/* Hyperparameters that may have other values than 0 (or 1, for a scale) only where the family has a use for
	 * them. */
	enum image_activation activation;
	bool learns_positions; /* it has a table of them, and rotates nothing */
	bool rope_in_pairs;    /* its GGUF files rotate pairs; the others halves, as Hugging Face files always do */
	bool scales_embedding;
	bool may_have_window;
	bool alternates_window; /* window_period and window_rope_base */
	/* What the weights of RMS norms lack in Hugging Face files: Gemma's are stored as w of (1 + w). GGUF files
	 * have it added. */
	float norm_offset;
};

extern const struct family family_llama, family_qwen2, family_qwen3, family_gemma3, family_whisper;

/* NULL: no such family. */
const struct family *family_get(uint32_t id);
/* One that writes texts, by its name in GGUF files; NULL. */
const struct family *family_find(const char *name, size_t name_bytes);
/* "llama, qwen2 and …": those that family_find knows, for messages. Returns `out`. */
const char *family_names(char out[64]);

/* 0, or -EINVAL for hyperparameters outside the bounds or of another family; *key is then the GGUF key at fault without
 * the architecture ("block_count", static) and `err` says what was found and what is allowed. config->family is one of
 * ours. */
int family_check(const struct image_config *config, const char **key, struct err *err);

/* For a checked config: the number of tensors, at most FAMILY_MAX_TENSORS; the one with an index below that; and the
 * index of a role in a layer, -1 where the model has none. */
uint32_t family_n_tensors(const struct image_config *config);
void family_tensor(const struct image_config *config, uint32_t index, struct family_tensor *out);
int family_tensor_index(const struct image_config *config, uint32_t role, uint32_t layer);

/* The pattern, which must be there, with its layer filled in. Returns `out`. */
const char *family_tensor_name(const struct family_tensor *tensor, char out[FAMILY_NAME_BYTES]);
const char *family_tensor_hf_name(const struct family_tensor *tensor, char out[FAMILY_NAME_BYTES]);

#endif
