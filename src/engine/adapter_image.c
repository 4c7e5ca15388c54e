/* As in image.c, planning and checking are the same walk: every part lies where the one before it ends, rounded up, so
 * the offsets carry no freedom, and what is accepted is exactly what would have been written. */
#include "src/engine/adapter_image.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "src/engine/family.h"

static const enum image_role roles[ADAPTER_N_PRODUCTS] = {
	[ADAPTER_Q] = IMAGE_ATTN_Q,	      [ADAPTER_K] = IMAGE_ATTN_K,      [ADAPTER_V] = IMAGE_ATTN_V,
	[ADAPTER_OUTPUT] = IMAGE_ATTN_OUTPUT, [ADAPTER_GATE] = IMAGE_FFN_GATE, [ADAPTER_UP] = IMAGE_FFN_UP,
	[ADAPTER_DOWN] = IMAGE_FFN_DOWN,
};

enum image_role adapter_role(enum adapter_product product)
{
	return roles[product];
}

int adapter_product_of(uint32_t role)
{
	for (int i = 0; i < ADAPTER_N_PRODUCTS; i++)
		if ((uint32_t)roles[i] == role)
			return i;
	return -1;
}

void adapter_base_of(const struct image_config *config, struct adapter_base *out)
{
	*out = (struct adapter_base){
		.family = config->family,
		.n_layers = config->n_layers,
		.dim = config->dim,
		.n_heads = config->n_heads,
		.n_kv_heads = config->n_kv_heads,
		.head_dim = config->head_dim,
		.ffn_dim = config->ffn_dim,
		.rope_pairing = config->rope_pairing,
	};
}

uint32_t adapter_value_bytes(uint32_t kind)
{
	return kind == PACK_F32 ? 4 : kind == PACK_F16 || kind == PACK_BF16 ? 2 : 0;
}

/* --- the walk --------------------------------------------------------------------------------- */

static uint64_t round_up(uint64_t bytes)
{
	return (bytes + IMAGE_ALIGN - 1) & ~(uint64_t)(IMAGE_ALIGN - 1);
}

/* Everything about an entry but its offsets and its place in the order. Bounds keep what follows below 2^32 bytes a
 * matrix, and all of an image below 2^46. */
static int check_entry(const struct image_config *config, uint32_t i, const struct adapter_entry *e, struct err *err)
{
	int index = adapter_product_of(e->role) < 0 ? -1 : family_tensor_index(config, e->role, e->layer);
	if (index < 0)
		return err_set(err, -EINVAL, "adapter: entry %u: role %u in layer %u has no place in this model", i,
			       e->role, e->layer);
	struct family_tensor expected;
	family_tensor(config, (uint32_t)index, &expected);
	if (e->rows != expected.rows || e->cols != expected.cols)
		return err_set(err, -EINVAL, "adapter: entry %u: shape [%u][%u], the base's is [%u][%u]", i, e->rows,
			       e->cols, expected.rows, expected.cols);
	if (e->rank < 1 || e->rank > ADAPTER_RANK_MAX)
		return err_set(err, -EINVAL, "adapter: entry %u: rank %u, allowed are 1 to %d", i, e->rank,
			       ADAPTER_RANK_MAX);
	if (!isfinite(e->scale))
		return err_set(err, -EINVAL, "adapter: entry %u: the scale is no finite number", i);
	if (!adapter_value_bytes(e->a_kind) || !adapter_value_bytes(e->b_kind))
		return err_set(err, -EINVAL, "adapter: entry %u: values of kinds %u and %u", i, e->a_kind, e->b_kind);
	return 0;
}

static bool in_order(const struct adapter_entry *before, const struct adapter_entry *e)
{
	return e->layer > before->layer || (e->layer == before->layer && e->role > before->role);
}

/* Where the parts of entry `e` lie, and where the next one's begin. */
static void place_entry(const struct adapter_entry *e, uint64_t *at, uint64_t *a_offset, uint64_t *b_offset)
{
	uint64_t n_blocks = (e->rows + (uint64_t)PACK_ROWS - 1) / PACK_ROWS;
	*a_offset = *at;
	*at += round_up((uint64_t)e->rank * e->cols * adapter_value_bytes(e->a_kind));
	*b_offset = *at;
	*at += round_up(n_blocks * e->rank * PACK_ROWS * adapter_value_bytes(e->b_kind));
}

static uint64_t first_part(uint32_t n_entries)
{
	return round_up(sizeof(struct adapter_header) + n_entries * (uint64_t)sizeof(struct adapter_entry));
}

static int check_count(const struct image_config *config, uint32_t n, struct err *err)
{
	uint32_t most = config->n_layers * ADAPTER_N_PRODUCTS;
	if (n < 1 || n > most)
		return err_set(err, -EINVAL, "adapter: %u entries, a model of this shape can have 1 to %u", n, most);
	return 0;
}

int adapter_image_plan(const struct image_config *config, struct adapter_entry *entries, uint32_t n,
		       struct adapter_header *out, struct err *err)
{
	struct adapter_header header = {
		.magic = ADAPTER_IMAGE_MAGIC,
		.version = ADAPTER_IMAGE_VERSION,
		.n_entries = n,
		.entries_offset = sizeof header,
	};
	int rc = check_count(config, n, err);
	if (rc)
		return rc;
	uint64_t at = first_part(n);
	for (uint32_t i = 0; i < n; i++) {
		rc = check_entry(config, i, &entries[i], err);
		if (rc == 0 && i > 0 && !in_order(&entries[i - 1], &entries[i]))
			rc = err_set(err, -EINVAL, "adapter: entry %u is out of order", i);
		if (rc)
			return rc;
		place_entry(&entries[i], &at, &entries[i].a_offset, &entries[i].b_offset);
	}
	adapter_base_of(config, &header.base);
	header.image_bytes = at;
	*out = header;
	return 0;
}

void adapter_image_seal(void *image)
{
	struct adapter_header *header = image;
	XXH128_canonical_t digest;
	memset(&header->digest, 0, sizeof header->digest);
	XXH128_canonicalFromHash(&digest, XXH3_128bits(image, header->image_bytes));
	static_assert(sizeof digest == sizeof header->digest, "an XXH3-128 digest is 16 bytes");
	memcpy(&header->digest, &digest, sizeof digest);
}

/* --- checking --------------------------------------------------------------------------------- */

static int check_header(const struct image_config *config, const struct adapter_header *header, uint64_t bytes,
			struct err *err)
{
	static const uint64_t no_pad[sizeof header->pad / sizeof *header->pad];
	struct adapter_base base;
	adapter_base_of(config, &base);
	if (header->magic != ADAPTER_IMAGE_MAGIC || header->version != ADAPTER_IMAGE_VERSION)
		return err_set(err, -EINVAL, "adapter: magic %016" PRIx64 ", version %u, expected %016llx and %d",
			       header->magic, header->version, ADAPTER_IMAGE_MAGIC, ADAPTER_IMAGE_VERSION);
	if (header->image_bytes > bytes)
		return err_set(err, -EINVAL, "adapter: image_bytes %" PRIu64 ", but there are %" PRIu64,
			       header->image_bytes, bytes);
	if (memcmp(&header->base, &base, sizeof base) != 0)
		return err_set(err, -EINVAL, "adapter: it was made for a base of another shape");
	if (header->entries_offset != sizeof *header || memcmp(header->pad, no_pad, sizeof no_pad) != 0)
		return err_set(err, -EINVAL, "adapter: the header's unused fields are not as expected");
	return check_count(config, header->n_entries, err);
}

int adapter_image_check(const struct image_config *config, const void *image, uint64_t bytes, struct err *err)
{
	struct adapter_header header;
	if ((uintptr_t)image % IMAGE_ALIGN)
		return err_set(err, -EINVAL, "adapter: not on a boundary of %d bytes", IMAGE_ALIGN);
	if (bytes < sizeof header)
		return err_set(err, -EINVAL, "adapter: %" PRIu64 " bytes are no header", bytes);
	memcpy(&header, image, sizeof header);
	int rc = check_header(config, &header, bytes, err);
	if (rc)
		return rc;
	uint64_t at = first_part(header.n_entries), a_offset, b_offset;
	if (at > header.image_bytes)
		return err_set(err, -EINVAL, "adapter: %u entries do not fit into %" PRIu64 " bytes", header.n_entries,
			       header.image_bytes);
	const struct adapter_entry *entries = (const void *)((const char *)image + header.entries_offset);
	for (uint32_t i = 0; i < header.n_entries; i++) {
		rc = check_entry(config, i, &entries[i], err);
		if (rc)
			return rc;
		place_entry(&entries[i], &at, &a_offset, &b_offset);
		if (i > 0 && !in_order(&entries[i - 1], &entries[i]))
			return err_set(err, -EINVAL, "adapter: entry %u is out of order", i);
		if (entries[i].a_offset != a_offset || entries[i].b_offset != b_offset)
			return err_set(err, -EINVAL,
				       "adapter: entry %u: offsets %" PRIu64 " and %" PRIu64 ", expected %" PRIu64
				       " and %" PRIu64,
				       i, entries[i].a_offset, entries[i].b_offset, a_offset, b_offset);
	}
	if (at != header.image_bytes)
		return err_set(err, -EINVAL, "adapter: its parts have %" PRIu64 " bytes, the image %" PRIu64, at,
			       header.image_bytes);
	return 0;
}
