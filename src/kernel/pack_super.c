/* The k-quants' super-blocks: 256 columns of a row in the file -> a row of pack.h's picture. (GGUF: ggml's block_q2_K
 * to block_q6_K.)
 *
 * In the file the codes of 128 (q4_k, q5_k: 64) columns lie folded: byte i has column i in its lowest bits, column
 * 32 + i in the next ones, and so on, so that 32 bytes shifted are 32 columns that follow each other: a group. Planes
 * of one bit fold all 256 columns over 32 bytes. Sub-scales of 6 bits are squeezed into 12 bytes; here each gets a
 * byte. */
#include "src/kernel/pack_super.h"

#include "src/kernel/pack_plane.h"

/* The codes of group `g` (0..7). */
ALWAYS_INLINE struct codes group_codes(enum pack_kind kind, const uint8_t *source, uint32_t g)
{
	const struct super_fields at = super_fields(kind);
	struct codes codes = {{0}};

	switch (kind) {
	case PACK_Q2_K:
		codes_add(&codes, 0, PACK_GROUP, source + at.low + g / 4 * 32, g % 4 * 2, 2, 0);
		break;
	case PACK_Q3_K:
		codes_add(&codes, 0, PACK_GROUP, source + at.low + g / 4 * 32, g % 4 * 2, 2, 0);
		codes_add(&codes, 0, PACK_GROUP, source + at.high, g, 1, 2);
		break;
	case PACK_Q5_K:
		codes_add(&codes, 0, PACK_GROUP, source + at.high, g, 1, 4);
		codes_add(&codes, 0, PACK_GROUP, source + at.low + g / 2 * 32, g % 2 * 4, 4, 0);
		break;
	case PACK_Q4_K:
		codes_add(&codes, 0, PACK_GROUP, source + at.low + g / 2 * 32, g % 2 * 4, 4, 0);
		break;
	case PACK_Q6_K: /* its nibbles fold 128 columns over 64 bytes */
		codes_add(&codes, 0, PACK_GROUP, source + at.low + g / 4 * 64 + g % 2 * 32, g % 4 / 2 * 4, 4, 0);
		codes_add(&codes, 0, PACK_GROUP, source + at.high + g / 4 * 32, g % 4 * 2, 2, 4);
		break;
	default:
		break;
	}
	return codes;
}

ALWAYS_INLINE void pack_rows(enum pack_kind kind, uint8_t *block, const uint8_t *source, size_t row_bytes,
			     uint32_t n_rows)
{
	const struct layout l = layout_of(kind);

	if (!l.minimum)
		memset(block + LAYOUT_HALVES_BYTES, 0, LAYOUT_HALVES_BYTES);
	for (uint32_t row = 0; row < n_rows; row++, source += row_bytes) {
		super_put_scales(kind, block, row, source);
		for (uint32_t g = 0; g < LAYOUT_SUPER_GROUPS; g++) {
			struct codes codes = group_codes(kind, source, g);
			planes_put(kind, block + LAYOUT_HEAD_BYTES + g * (size_t)l.group_bytes, row, &codes);
		}
	}
}

void pack_super_block(enum pack_kind kind, uint8_t *block, const uint8_t *source, size_t row_bytes, uint32_t n_rows)
{
	switch (kind) {
	case PACK_Q2_K:
		pack_rows(PACK_Q2_K, block, source, row_bytes, n_rows);
		break;
	case PACK_Q3_K:
		pack_rows(PACK_Q3_K, block, source, row_bytes, n_rows);
		break;
	case PACK_Q4_K:
		pack_rows(PACK_Q4_K, block, source, row_bytes, n_rows);
		break;
	case PACK_Q5_K:
		pack_rows(PACK_Q5_K, block, source, row_bytes, n_rows);
		break;
	case PACK_Q6_K:
		pack_rows(PACK_Q6_K, block, source, row_bytes, n_rows);
		break;
	default:
		break;
	}
}
