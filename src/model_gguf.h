/* From a parsed GGUF header to a plan of the model's image: the one place that knows both. */
#ifndef WEIGHTD_MODEL_GGUF_H
#define WEIGHTD_MODEL_GGUF_H

#include "src/engine/family.h"
#include "src/engine/image.h"
#include "src/engine/tokenizer.h"
#include "src/format/gguf.h"

struct model_plan {
	const struct family *family; /* static */
	struct image_config config;  /* checked by the family */
	/* One for each tensor of the file and in its order: tensors[i] is packed from gguf.tensors[i]. Offsets and
	 * bytes are image_plan's to fill. [n_tensors] owned */
	struct image_tensor *tensors;
	uint32_t n_tensors;
	struct tokenizer_source tokenizer; /* its arrays are owned by the plan, their bytes are views into the header */
	struct gguf_string chat_template;  /* view; 0 bytes: none */
	char tokenizer_model[32], tokenizer_pre[32];
};

/* Plans the whole file: every tensor has its place in the family, in the right shape, and nothing is missing or left
 * over. -EINVAL and -ENOTSUP name the key or tensor and where it is; -ENOMEM. The gguf, and the bytes it views, must
 * outlive the plan. */
int model_gguf_plan(const struct gguf *gguf, struct model_plan *out, struct err *err);
void model_plan_fini(struct model_plan *plan);

#endif
