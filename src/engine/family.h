/* Model families: which tensors a model of a family has, how they are called in a GGUF file, what shapes its
 * hyperparameters give them, and which hyperparameters this program computes with. The loader plans an image by it, and
 * image_check holds every image to it. The arithmetic of a family is in forward.c. */
#ifndef WEIGHTD_ENGINE_FAMILY_H
#define WEIGHTD_ENGINE_FAMILY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/engine/image.h"
#include "src/err.h"

enum {
	FAMILY_MAX_LAYERS = 1024,
	FAMILY_MAX_TENSORS = 16 * (FAMILY_MAX_LAYERS + 1),
	FAMILY_NAME_BYTES = 64, /* of a tensor in the file, terminator included */
	FAMILY_MAX_COLS = 1 << 18,
};

struct family_tensor {
	uint32_t role;	/* enum image_role */
	uint32_t layer; /* 0 for the model's own */
	bool per_layer;
	bool vector; /* rows = 1 */
	uint32_t rows, cols;
	const char *pattern; /* its name in a GGUF file, "blk.%.attn_q.weight": '%' stands for the layer. Static. */
};

struct family {
	enum image_family id;
	const char *name; /* as general.architecture spells it */

	/* 0, or -EINVAL for hyperparameters outside the bounds; *key is then the GGUF key at fault without the
	 * architecture ("block_count", static) and `err` says what was found and what is allowed. */
	int (*check)(const struct image_config *config, const char **key, struct err *err);

	/* For a checked config: the number of tensors, at most FAMILY_MAX_TENSORS; the one with an index below that;
	 * and the index of a role in a layer, -1 where the model has none. */
	uint32_t (*n_tensors)(const struct image_config *config);
	void (*tensor)(const struct image_config *config, uint32_t index, struct family_tensor *out);
	int (*find)(const struct image_config *config, uint32_t role, uint32_t layer);
};

extern const struct family family_llama;

/* NULL: no such family. */
const struct family *family_get(uint32_t id);
const struct family *family_find(const char *name, size_t name_bytes);

/* The pattern with its layer filled in. Returns `out`. */
const char *family_tensor_name(const struct family_tensor *tensor, char out[FAMILY_NAME_BYTES]);

#endif
