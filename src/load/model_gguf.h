/* From a parsed GGUF header to a plan of the model's image: the one place that knows both. */
#ifndef WEIGHTD_MODEL_GGUF_H
#define WEIGHTD_MODEL_GGUF_H

#include "src/format/gguf.h"
#include "src/load/model_plan.h"

/* Plans the whole model, of one file or of those that gguf_join put together: every tensor has its place in the family,
 * in the right shape, and nothing is missing or left over. -EINVAL and -ENOTSUP name the key or tensor and where it is;
 * -ENOMEM. The gguf, and the bytes it views, must outlive the plan. */
int model_gguf_plan(const struct gguf *gguf, struct model_plan *out, struct err *err);

/* enum pack_kind of a tensor type, -1: it has none. */
int model_gguf_pack_kind(uint32_t type);

#endif
