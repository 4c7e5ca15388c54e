/* From a Hugging Face folder to a plan of the model's image: the one place that knows both.
 *
 * A folder has config.json, tokenizer.json and the weights, model.safetensors or else model.safetensors.index.json and
 * the files that it names; it may have generation_config.json (which tokens end an answer), tokenizer_config.json
 * (which begin and end a text, the chat template) and chat_template.jinja. What else is in it is not looked at. */
#ifndef WEIGHTD_MODEL_HF_H
#define WEIGHTD_MODEL_HF_H

#include "src/format/hf_json.h"
#include "src/format/safetensors.h"
#include "src/load/model_plan.h"
#include "src/load/model_quantize.h"

/* A file of the folder. */
struct model_hf_file {
	const char *name;  /* without its directory */
	const void *bytes; /* [n_bytes] all of it, unless it is one with weights */
	size_t n_bytes;
	bool is_used;			   /* with weights: model_hf_open says so */
	const struct safetensors *weights; /* of those used: the caller's to parse in between */
};

struct model_hf {
	struct model_hf_file *files; /* [n] borrowed; their numbers are those of the plan's sources */
	uint32_t n;
	struct hf_json config, generation, tokenizer, index; /* owned */
};

/* Reads what isn't weights and says which files have them, in files[].is_used. -EINVAL, -ENOTSUP, -ENOMEM; one that
 * failed needs no closing. */
int model_hf_open(struct model_hf_file *files, uint32_t n, struct model_hf *out, struct err *err);
void model_hf_close(struct model_hf *folder);

/* Plans the whole folder: every tensor has its place in the family, in the right shape, and nothing is missing or left
 * over. -EINVAL and -ENOTSUP name the file, and the key or tensor; -ENOMEM. The plan owns what it views. */
int model_hf_plan(const struct model_hf *folder, enum model_quantize quantize, struct model_plan *out, struct err *err);

#endif
