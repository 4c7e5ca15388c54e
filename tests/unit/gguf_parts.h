/* A model of gguf_builder.h taken apart into the files of a split one, as llama.cpp's gguf-split would. */
#ifndef WEIGHTD_TESTS_GGUF_PARTS_H
#define WEIGHTD_TESTS_GGUF_PARTS_H

#include "tests/unit/gguf_builder.h"

enum { GGUF_PARTS_MAX = 8 };

/* Spreads the tensors of `whole` [data included] over parts[n], in order of their data and as evenly as can be; the
 * first part has its keys, all have those of a split. Each part is builder_fini'd by the caller. */
void gguf_parts_make(const struct gguf_builder *whole, uint32_t n, struct gguf_builder *parts);

#endif
