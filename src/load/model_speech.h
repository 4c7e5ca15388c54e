/* What the readers of speech models' formats have in common: tensors that they found become a plan, and the tokens that
 * steer the model are looked up in its tokenizer. */
#ifndef WEIGHTD_MODEL_SPEECH_H
#define WEIGHTD_MODEL_SPEECH_H

#include "src/format/hf_json.h"
#include "src/load/model_plan.h"
#include "src/load/model_quantize.h"

/* What is the same in all models of the family: hyperparameters that no file says. */
void model_speech_defaults(struct image_config *config);

/* Tensors and sources of the plan, whose config is checked, in the files' order. found [family_n_tensors]: where each
 * tensor of the family is, by its index there; shapes are checked by who found them. quantize: matrices that are
 * multiplied by rows of tokens or positions are made smaller; convolutions and positions, a few percent of the bytes
 * and the first that sound meets, stay as they are, or become bf16 where all does. -ENOTSUP, -ENOMEM. */
int model_speech_place(struct model_plan *plan, enum model_quantize quantize, const struct model_source *found,
		       struct err *err);

/* tokenizer.json [n_bytes] into the plan, for a vocabulary that the config says. What it puts around texts is not: the
 * prompts of speech models are made of tokens. Also fills the ids of plan->speech.table. -EINVAL, -ENOTSUP, -ENOMEM. */
int model_speech_tokenizer(struct model_plan *plan, const void *bytes, size_t n_bytes, struct err *err);

/* The plan's languages: the tokens ids [n] of the tokenizer, or where there are none those between
 * <|startoftranscript|> and <|translate|>. -EINVAL, -ENOMEM. */
int model_speech_languages(struct model_plan *plan, const uint32_t *ids, uint32_t n, struct err *err);

/* The list of ids at a key of a JSON file: *out is owned by the caller, NULL and *n 0 where there is none. -EINVAL,
 * -ENOMEM. */
int model_speech_ids(const struct hf_json *json, const char *key, uint32_t **out, uint32_t *n, struct err *err);

/* The finished table, held to what workers will hold it to. -EINVAL, -ENOMEM. */
int model_speech_check(const struct model_plan *plan, struct err *err);

/* The plan's alignment heads, [[layer, head], ...] at a key; where there are none, those of the upper half of the
 * decoder's layers. -EINVAL, -ENOMEM. */
int model_speech_heads(struct model_plan *plan, const struct hf_json *json, const char *key, struct err *err);

#endif
