/* Vectors in answers, as OpenAI's API writes them. */
#ifndef WEIGHTD_SRC_API_EMBEDDING_H
#define WEIGHTD_SRC_API_EMBEDDING_H

#include <stdbool.h>
#include <stddef.h>

#include "src/api/json.h"

/* `bytes` are float32 values. A list of numbers, each the shortest that reads back as the same value; or a string of
 * the values, least significant byte first, in base64 (RFC 4648, section 4). Both say the same to the last bit. */
void api_embedding_write(const void *bytes, size_t n_bytes, bool base64, struct api_json *out);

#endif
