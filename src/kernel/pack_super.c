/* The k-quants' super-blocks: 256 columns of a row in the file -> a row of pack.h's picture. (GGUF: ggml's block_q2_K
 * to block_q6_K.)
 *
 * In the file the codes of 128 (q4_k, q5_k: 64) columns lie folded: byte i has column i in its lowest bits, column
 * 32 + i in the next ones, and so on, so that 32 bytes shifted are 32 columns that follow each other: a group. Planes
 * of one bit fold all 256 columns over 32 bytes. Sub-scales of 6 bits are squeezed into 12 bytes; here each gets a
 * byte. */
#include "src/kernel/pack_super.h"

#include <string.h>

#include "src/kernel/pack_plane.h"

/* Byte offsets of the fields of a block in the file, and its bytes. `m` is dmin's; the scales of q2_k to q6_k are at
 * `scales`, `low` and `high` are the codes' two planes. */
struct fields {
	uint8_t d, m, scales, low, high;
};

ALWAYS_INLINE struct fields fields_of(enum pack_kind kind)
{
	switch (kind) {
	case PACK_Q2_K:
		return (struct fields){.d = 80, .m = 82, .scales = 0, .low = 16};
	case PACK_Q3_K:
		return (struct fields){.d = 108, .scales = 96, .low = 32, .high = 0};
	case PACK_Q4_K:
		return (struct fields){.d = 0, .m = 2, .scales = 4, .low = 16};
	case PACK_Q5_K:
		return (struct fields){.d = 0, .m = 2, .scales = 4, .low = 48, .high = 16};
	case PACK_Q6_K:
		return (struct fields){.d = 208, .scales = 192, .low = 0, .high = 128};
	default:
		return (struct fields){0};
	}
}

/* The codes of group `g` (0..7). */
ALWAYS_INLINE struct codes group_codes(enum pack_kind kind, const uint8_t *source, uint32_t g)
{
	const struct fields at = fields_of(kind);
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

/* q4_k's and q5_k's 12 bytes: the low 6 bits of the first four are sc of groups 0..3, of the next four m of groups
 * 0..3; the last four have the low halves of sc (low nibble) and m (high nibble) of groups 4..7, whose upper two bits
 * fill up the first eight. */
static void unsqueeze_k4(const uint8_t *from, uint8_t sc[8], uint8_t m[8])
{
	for (uint32_t g = 0; g < 4; g++) {
		sc[g] = from[g] & 63;
		m[g] = from[g + 4] & 63;
		sc[g + 4] = (uint8_t)((from[g + 8] & 15) | from[g] >> 6 << 4);
		m[g + 4] = (uint8_t)(from[g + 8] >> 4 | from[g + 4] >> 6 << 4);
	}
}

/* q3_k's 12 bytes: the low 4 bits of 16 numbers folded over 8 bytes, then the high 2 bits folded over 4; 32 is taken
 * off. */
static void unsqueeze_k3(const uint8_t *from, uint8_t sc[16])
{
	for (uint32_t span = 0; span < 16; span++) {
		unsigned low = from[span % 8] >> span / 8 * 4 & 15, high = from[8 + span % 4] >> span / 4 * 2 & 3;
		sc[span] = (uint8_t)((low | high << 4) - 32);
	}
}

/* The 16 bytes of scales that each row of a super-block has, in the order in which they follow each other. */
ALWAYS_INLINE void row_scales(enum pack_kind kind, const uint8_t *from, uint8_t out[16])
{
	switch (kind) {
	case PACK_Q4_K:
	case PACK_Q5_K:
		unsqueeze_k4(from, out, out + 8);
		break;
	case PACK_Q3_K:
		unsqueeze_k3(from, out);
		break;
	default:
		memcpy(out, from, 16);
		break;
	}
}

ALWAYS_INLINE void pack_rows(enum pack_kind kind, uint8_t *block, const uint8_t *source, size_t row_bytes,
			     uint32_t n_rows)
{
	const struct layout l = layout_of(kind);
	const struct fields at = fields_of(kind);

	if (!l.minimum)
		memset(block + LAYOUT_HALVES_BYTES, 0, LAYOUT_HALVES_BYTES);
	for (uint32_t row = 0; row < n_rows; row++, source += row_bytes) {
		uint8_t scales[16];

		memcpy(block + 2 * (size_t)row, source + at.d, 2);
		if (l.minimum)
			memcpy(block + LAYOUT_HALVES_BYTES + 2 * (size_t)row, source + at.m, 2);
		row_scales(kind, source + at.scales, scales);
		for (uint32_t i = 0; i < 16; i++)
			block[2 * LAYOUT_HALVES_BYTES + i * PACK_ROWS + row] = scales[i];
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
