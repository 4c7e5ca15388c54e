/* From a parsed tokenizer.json to what the tokenizer's table is built from: the one place that knows both. */
#ifndef WEIGHTD_MODEL_TOKENIZER_H
#define WEIGHTD_MODEL_TOKENIZER_H

#include "src/engine/tokenizer.h"
#include "src/format/tokenizer_json.h"

/* bos and eos are those that the file puts around texts; tokenizer_config.json may name more and is the caller's to
 * read, and so are eot and pad (-1 here). The arrays are owned by the source, the types and all bytes are views into
 * the json, which must outlive it. 0, -ENOMEM. */
int model_tokenizer_init(const struct tokenizer_json *json, struct tokenizer_source *out);
void model_tokenizer_fini(struct tokenizer_source *source);

#endif
