/* Between the parts of the reader of Hugging Face folders. */
#ifndef WEIGHTD_MODEL_HF_PRIVATE_H
#define WEIGHTD_MODEL_HF_PRIVATE_H

#include "src/load/model_hf.h"
#include "src/load/model_hf_config.h"

/* NULL: the folder has none of this name. */
const struct model_hf_file *model_hf_find(const struct model_hf_file *files, uint32_t n, const char *name);

/* Tokenizer and chat template into the plan, whose config is there. */
int model_hf_plan_tokenizer(const struct model_hf *folder, struct model_plan *plan, struct err *err);
/* Tensors and their sources into the plan, and whether the head is tied. */
int model_hf_plan_tensors(const struct model_hf *folder, enum model_quantize quantize, enum model_hf_tie tie,
			  struct model_plan *plan, struct err *err);

#endif
