/* From a PEFT folder, adapter_config.json and the parsed header of adapter_model.safetensors, to a plan of an adapter's
 * image: the one place that knows both. */
#ifndef WEIGHTD_ADAPTER_PEFT_H
#define WEIGHTD_ADAPTER_PEFT_H

#include "src/load/adapter_plan.h"
#include "src/format/safetensors.h"

/* Plans the whole folder over a base: pairs of tensors base_model.model.X.lora_A.weight and lora_B.weight for modules X
 * of the base's layers that adapter_config.json means; nothing else. -EINVAL and -ENOTSUP name the file, and the field
 * or the tensor; -ENOMEM. */
int adapter_peft_plan(const void *config, size_t n_config, const struct safetensors *weights,
		      const struct image_config *base, struct adapter_plan *out, struct err *err);

#endif
