/* From whisper.cpp's file to a plan of the model's image: the one place that knows both.
 *
 * The file has words, but no merges, no names of special tokens, and nothing of what is not to be written; all follow
 * from the order of the words and from rules that are the same for all models of the family. */
#ifndef WEIGHTD_MODEL_WHISPER_GGML_H
#define WEIGHTD_MODEL_WHISPER_GGML_H

#include "src/format/whisper_ggml.h"
#include "src/load/model_plan.h"
#include "src/load/model_quantize.h"

/* Every tensor has its place in the family, in the right shape, and nothing is missing or left over. -EINVAL and
 * -ENOTSUP name field or tensor; -ENOMEM. The plan owns what it views. */
int model_whisper_ggml_plan(const struct whisper_ggml *file, enum model_quantize quantize, struct model_plan *out,
			    struct err *err);

/* Tokenizer and speech table into the plan, whose config is checked. -EINVAL, -ENOMEM. */
int model_whisper_ggml_tokens(const struct whisper_ggml *file, struct model_plan *plan, struct err *err);

#endif
