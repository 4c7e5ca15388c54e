/* From the parsed header of a GGUF adapter to a plan of its image: the one place that knows both. */
#ifndef WEIGHTD_ADAPTER_GGUF_H
#define WEIGHTD_ADAPTER_GGUF_H

#include "src/load/adapter_plan.h"
#include "src/format/gguf.h"

/* Plans the whole file over a base: general.type "adapter", adapter.type "lora", the base's architecture, one alpha for
 * all, and pairs of tensors X.lora_a, X.lora_b for matrices X of the base's layers; nothing else. An alpha of 0 is a
 * scale of 0. -EINVAL and -ENOTSUP name the key or the tensor; -ENOMEM. */
int adapter_gguf_plan(const struct gguf *gguf, const struct image_config *base, struct adapter_plan *out,
		      struct err *err);

#endif
