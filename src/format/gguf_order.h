/* The order of names in a parsed header, and finding by it; private to the gguf_*.c files. */
#ifndef WEIGHTD_FORMAT_GGUF_ORDER_H
#define WEIGHTD_FORMAT_GGUF_ORDER_H

#include "src/format/gguf.h"

/* By bytes: less than, equal to or greater than 0. */
int gguf_compare(const struct gguf_string *a, const struct gguf_string *b);

/* NULL when the header has no such key. */
const struct gguf_value *gguf_find_key(const struct gguf *gguf, const struct gguf_string *key);

/* Fills by_name. -EINVAL: a tensor is there twice; -ENOMEM. */
int gguf_order(struct gguf *gguf, struct err *err);

#endif
