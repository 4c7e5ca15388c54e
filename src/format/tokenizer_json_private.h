/* Between the parts of the reader of tokenizer.json. */
#ifndef WEIGHTD_FORMAT_TOKENIZER_JSON_PRIVATE_H
#define WEIGHTD_FORMAT_TOKENIZER_JSON_PRIVATE_H

#include <yyjson.h>

#include "src/format/tokenizer_json.h"

#define TOKENIZER_JSON_BLANK "\xe2\x96\x81" /* U+2581, what converted SentencePiece models write for a blank */

/* -ENOTSUP: `value` at `path` is well-formed, but nothing this program does. */
int tokenizer_json_refuse(struct err *err, const char *path, yyjson_val *value);
/* -EINVAL: something else is expected at `path`. */
int tokenizer_json_wrong(struct err *err, const char *path, const char *expected);
/* Whether `value` is this string; false for NULL. */
bool tokenizer_json_is(yyjson_val *value, const char *text);

/* Normalizer, pre-tokenizer and decoder: sets kind, pre and blank. */
int tokenizer_json_read_steps(yyjson_val *root, struct tokenizer_json *json, struct err *err);
/* What goes before and behind a text: sets bos and eos. The tokens are read already. */
int tokenizer_json_read_post_processor(yyjson_val *root, struct tokenizer_json *json, struct err *err);

#endif
