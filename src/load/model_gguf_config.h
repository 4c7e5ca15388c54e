/* Hyperparameters from a GGUF header. A part of model_gguf.h's work, with what its parts share: names of keys, and
 * refusals of what they say. */
#ifndef WEIGHTD_MODEL_GGUF_CONFIG_H
#define WEIGHTD_MODEL_GGUF_CONFIG_H

#include "src/engine/family.h"
#include "src/format/gguf.h"

enum { MODEL_GGUF_KEY_BYTES = 128 };

/* The family, and everything but `vocab` and `tied_head`, which follow from other parts of the file. What would change
 * the arithmetic in a way that this program doesn't compute is refused. -EINVAL and -ENOTSUP name the key. */
int model_gguf_config(const struct gguf *gguf, const struct family **family, struct image_config *out, struct err *err);

/* "llama.block_count". Returns `out`. */
const char *model_gguf_key(const struct family *family, const char *suffix, char out[MODEL_GGUF_KEY_BYTES]);

/* A refusal of what a key says, and where. Returns `code`. */
__attribute__((format(printf, 5, 6))) int model_gguf_refuse(const struct gguf *gguf, const char *key, int code,
							    struct err *err, const char *format, ...);

#endif
