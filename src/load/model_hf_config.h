/* Hyperparameters from the config.json of a Hugging Face folder. */
#ifndef WEIGHTD_MODEL_HF_CONFIG_H
#define WEIGHTD_MODEL_HF_CONFIG_H

#include "src/engine/family.h"
#include "src/format/hf_json.h"

/* Whether the output matrix is the embedding's, as far as config.json says. */
enum model_hf_tie { MODEL_HF_TIE_UNSAID, MODEL_HF_TIED, MODEL_HF_UNTIED };

/* The family, and everything but `tied_head`, which follows from `tie` and from the tensors that there are. What would
 * change the arithmetic in a way that this program doesn't compute is refused. -EINVAL and -ENOTSUP name the key.
 * Bounds are not checked yet: model_hf_config_check does it once the head is known. */
int model_hf_config(const struct hf_json *json, const struct family **family, struct image_config *out,
		    enum model_hf_tie *tie, struct err *err);

/* family_check, with its findings told in terms of config.json. */
int model_hf_config_check(const struct hf_json *json, const struct image_config *config, struct err *err);

#endif
