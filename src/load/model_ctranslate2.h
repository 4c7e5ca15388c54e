/* From a CTranslate2 folder of a Whisper model to a plan of its image: the one place that knows both.
 *
 * The folder has model.bin, tokenizer.json and config.json, which lists suppressed tokens, languages and alignment
 * heads. What else is in it (a list of the vocabulary, which tokenizer.json has, too) is not looked at. */
#ifndef WEIGHTD_MODEL_CTRANSLATE2_H
#define WEIGHTD_MODEL_CTRANSLATE2_H

#include "src/format/ctranslate2.h"
#include "src/format/hf_json.h"
#include "src/load/model_plan.h"
#include "src/load/model_quantize.h"

struct model_ctranslate2 {
	const struct ctranslate2 *weights;
	struct hf_json config;
	const void *tokenizer; /* [tokenizer_bytes] tokenizer.json, view */
	size_t tokenizer_bytes;
};

/* Whether model_ctranslate2_plan needs a variable's data: scales of rows, and biases that hold those of keys, which
 * must be zeros. */
bool model_ctranslate2_needs(const struct ctranslate2_variable *variable);

/* Every variable has its place in the family, in the right shape, and nothing is missing or left over; sources are of
 * file 0. -EINVAL and -ENOTSUP name file, and variable or key; -ENOMEM. The plan's tokenizer owns what it views; its
 * sources' scales are the plan's. */
int model_ctranslate2_plan(const struct model_ctranslate2 *model, enum model_quantize quantize, struct model_plan *out,
			   struct err *err);

#endif
