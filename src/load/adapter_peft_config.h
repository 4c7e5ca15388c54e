/* adapter_config.json of a PEFT folder: rank and scale of each module, and which modules there are.
 * Source: the fields of LoraConfig in the peft library, and what its LoRA layers do with them.
 *
 * A field that would change the arithmetic in a way that this program doesn't compute is refused by its name, and so is
 * one that it doesn't know and that is neither null, false nor empty. */
#ifndef WEIGHTD_ADAPTER_PEFT_CONFIG_H
#define WEIGHTD_ADAPTER_PEFT_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/err.h"

struct adapter_peft_config;

/* Parses the whole file. *out returns owned. -EINVAL, -ENOTSUP, -ENOMEM. */
int adapter_peft_config_new(const void *bytes, size_t n_bytes, struct adapter_peft_config **out, struct err *err);
void adapter_peft_config_free(struct adapter_peft_config *config); /* takes NULL */

/* Whether a module of a layer ("model.layers.0.self_attn.q_proj") is one of the adapter's: 1, 0, or -EINVAL where an
 * expression of the file takes too long on it. */
int adapter_peft_config_has(const struct adapter_peft_config *config, const char *module, uint32_t layer,
			    struct err *err);

/* What the product of B and A is multiplied by, and the rank. 0 or -EINVAL, as above. */
int adapter_peft_config_scale(const struct adapter_peft_config *config, const char *module, uint32_t *rank,
			      double *scale, struct err *err);

#endif
