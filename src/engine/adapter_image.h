/* The adapter image: a low-rank adapter as a worker needs it, position independent like the model's image
 * (src/engine/image.h), which it stands beside in a segment of its own. The loader writes it, the engine reads it
 * there. Offsets count from the image's first byte and are multiples of 64.
 *
 *   adapter_header | adapter_entry[n_entries] | A and B of entry 0, A and B of entry 1, ...
 *
 * An entry belongs to one product y = W x of one layer and makes it y = W x + scale B (A x). A [rank][cols] lies row
 * after row; B [rows][rank] lies in blocks of 16 rows, [ceil(rows / 16)][rank][16], the last one padded with zeros.
 * Values stay in the precision of the file: float32, float16 or bfloat16; blocks of a quantized file are expanded to
 * float32. Rows of B are in the order of the base's rows, whatever the file's.
 *
 * The digest is that of the contents: everything in the image but the digest itself. Entries are in order of layer and
 * role, so the same adapter gives the same image from whatever file it came. */
#ifndef WEIGHTD_ENGINE_ADAPTER_IMAGE_H
#define WEIGHTD_ENGINE_ADAPTER_IMAGE_H

#include <assert.h>
#include <stdint.h>

#include "src/engine/image.h"
#include "src/err.h"

#define ADAPTER_IMAGE_MAGIC 0x3150444144544857ull /* "WHTDADP1" */
enum { ADAPTER_IMAGE_VERSION = 1, ADAPTER_RANK_MAX = 512 };

/* The products of a layer that an adapter can be for, in the order of their roles. */
enum adapter_product {
	ADAPTER_Q,
	ADAPTER_K,
	ADAPTER_V,
	ADAPTER_OUTPUT,
	ADAPTER_GATE,
	ADAPTER_UP,
	ADAPTER_DOWN,
	ADAPTER_N_PRODUCTS,
};

/* Stands for an adapter's contents. XXH3-128 in canonical form. */
struct adapter_digest {
	uint8_t bytes[16];
};

/* What the base model has to be like. */
struct adapter_base {
	uint32_t family; /* enum image_family */
	uint32_t n_layers, dim, n_heads, n_kv_heads, head_dim, ffn_dim;
	uint32_t rope_pairing; /* enum image_rope_pairing: the order of rows in queries and keys */
};

struct adapter_entry {
	uint32_t role; /* enum image_role, of a matrix in a layer */
	uint32_t layer;
	uint32_t rows, cols;	 /* of the base's matrix */
	uint32_t rank;		 /* 1..ADAPTER_RANK_MAX */
	float scale;		 /* finite; 0: the entry changes nothing, to the last bit */
	uint32_t a_kind, b_kind; /* enum pack_kind: PACK_F32, PACK_F16 or PACK_BF16 */
	uint64_t a_offset, b_offset;
};
static_assert(sizeof(struct adapter_entry) == 48, "adapter_entry is part of the segment layout");

struct adapter_header {
	uint64_t magic;
	uint32_t version;
	uint32_t n_entries;
	uint64_t image_bytes;
	uint64_t entries_offset;
	struct adapter_digest digest;
	struct adapter_base base;
	uint64_t pad[6];
};
static_assert(sizeof(struct adapter_header) == 128, "adapter_header is part of the segment layout");

/* The role of a product, and the product of a role; -1: none. */
enum image_role adapter_role(enum adapter_product product);
int adapter_product_of(uint32_t role);

void adapter_base_of(const struct image_config *config, struct adapter_base *out);

/* Bytes of one value, 0 for kinds that adapters don't have. */
uint32_t adapter_value_bytes(uint32_t kind);

/* Lays out `entries` [n] (all but the offsets set by the caller, in order of layer and role): fills the offsets and the
 * header, its digest excepted. -EINVAL where they don't fit the base, -EOVERFLOW. */
int adapter_image_plan(const struct image_config *config, struct adapter_entry *entries, uint32_t n,
		       struct adapter_header *out, struct err *err);

/* Fills in the digest of an image that is complete otherwise. */
void adapter_image_seal(void *image);

/* Checks a whole image at `image` of `bytes` readable bytes against the base: magic, version, every shape, offset, size
 * and alignment. Trusts nothing but that the digest is that of the contents, which the segment's own digest covers.
 * Returns 0 or -EINVAL. */
int adapter_image_check(const struct image_config *config, const void *image, uint64_t bytes, struct err *err);

#endif
