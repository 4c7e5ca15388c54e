/* Adapters with random values over a tiny model, made in memory without a file, and the same as plain weights. */
#ifndef WEIGHTD_TESTS_TINY_ADAPTER_H
#define WEIGHTD_TESTS_TINY_ADAPTER_H

#include "src/engine/adapter.h"
#include "tests/unit/tiny_model.h"

struct tiny_adapter_spec {
	unsigned seed;
	unsigned products; /* bit per enum adapter_product: which every layer has */
	uint32_t rank;	   /* of the first product; each further one's is one more */
	uint32_t kind;	   /* PACK_F32, PACK_F16 or PACK_BF16, of A; B's is the next of them */
	float scale;
};

enum { TINY_ALL_PRODUCTS = (1 << ADAPTER_N_PRODUCTS) - 1 };

/* The image: returns owned (free), *bytes of it. */
void *tiny_adapter_image(const struct tiny_model *tiny, const struct tiny_adapter_spec *spec, uint64_t *bytes);
/* An adapter over such an image; the image is freed with the last reference. */
struct adapter *tiny_adapter_new(const struct tiny_model *tiny, const struct tiny_adapter_spec *spec);

/* Replaces the model's weights, packed as float32, by those of W + scale B A. */
void tiny_adapter_merge(struct tiny_model *tiny, const struct adapter *adapter);

#endif
