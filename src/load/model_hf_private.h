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

/* A tensor in the files with weights; NULL: no file has it. *file is the one that does. */
const struct safetensors_tensor *model_hf_find_tensor(const struct model_hf *folder, const char *name, uint32_t *file);
/* What the index says is so, and there is no more: then no tensor is in two files, either. */
int model_hf_check_index(const struct model_hf *folder, struct err *err);
uint32_t model_hf_stored_kind(enum safetensors_type type); /* enum pack_kind */
/* Returns `code`. */
int model_hf_refuse_tensor(const struct model_hf_file *file, const struct safetensors_tensor *tensor, int code,
			   const char *what, struct err *err);

/* Speech models: whether config.json says that it is one, and the whole plan. */
bool model_hf_is_speech(const struct model_hf *folder);
int model_hf_plan_speech(const struct model_hf *folder, enum model_quantize quantize, struct model_plan *plan,
			 struct err *err);

#endif
