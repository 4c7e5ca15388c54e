/* Expansion of packed weights to bfloat16 panels, level avx512: pairs leave the group in the order in which the panel
 * takes them, so a pair of columns of one block row is one 64-byte store. */
#include "src/kernel/group_avx512.h"
#include "src/kernel/levels.h"

ALWAYS_INLINE void expand_group(enum pack_kind kind, const uint8_t *group, __m512i table, uint16_t *out, size_t n)
{
	const __m512i upper = _mm512_set1_epi32((int)0xffff0000);
	__m512 scale = unpack_has_scale(kind) ? group_scale_avx512(kind, group) : _mm512_setzero_ps();
	__m512 minimum = kind == PACK_Q4_1 ? group_minimum_avx512(group) : _mm512_setzero_ps();

	UNROLL
	for (int pair = 0; pair < GROUP_PAIRS; pair++) {
		__m512i codes = group_pair_avx512(kind, group, pair, table);

		if (unpack_has_scale(kind)) {
			__m512 even = _mm512_castsi512_ps(_mm512_slli_epi32(codes, 16));
			__m512 odd = _mm512_castsi512_ps(_mm512_and_si512(codes, upper));

			codes = interleave_avx512(_mm512_fmadd_ps(even, scale, minimum),
						  _mm512_fmadd_ps(odd, scale, minimum));
		}
		_mm512_storeu_si512(out + 2 * n * (size_t)pair, codes);
	}
}

ALWAYS_INLINE void expand(enum pack_kind kind, const struct matrix *w, const struct slab *slab, uint16_t *panel)
{
	const size_t group_bytes = pack_group_bytes(kind);
	const size_t block_row_bytes = w->cols / PACK_GROUP * group_bytes;
	const __m512i table = nibble_table_avx512(kind == PACK_Q4_0 ? -8 : 0);

	for (uint32_t block = slab->block_begin; block < slab->block_end; block++) {
		const uint8_t *group =
			(const uint8_t *)w->data + block * block_row_bytes + slab->group_begin * group_bytes;
		uint16_t *out = panel + 2 * (size_t)PACK_ROWS * (block - slab->block_begin); /* [k / 2][n][2] */

		for (uint32_t g = slab->group_begin; g < slab->group_end; g++) {
			expand_group(kind, group, table, out, slab->n);
			group += group_bytes;
			out += slab->n * PACK_GROUP;
		}
	}
}

void expand_slab_avx512(const struct matrix *w, const struct slab *slab, void *panel, enum numerics numerics)
{
	(void)numerics; /* this level serves BF16 only */
	switch (w->kind) {
	case PACK_F32:
		expand(PACK_F32, w, slab, panel);
		break;
	case PACK_F16:
		expand(PACK_F16, w, slab, panel);
		break;
	case PACK_BF16:
		expand(PACK_BF16, w, slab, panel);
		break;
	case PACK_Q8_0:
		expand(PACK_Q8_0, w, slab, panel);
		break;
	case PACK_Q4_0:
		expand(PACK_Q4_0, w, slab, panel);
		break;
	case PACK_Q4_1:
		expand(PACK_Q4_1, w, slab, panel);
		break;
	case PACK_N_KINDS:
		break;
	}
}

void expand_panel_avx512(const struct matrix *w, uint32_t begin, uint32_t end, void *panel, enum numerics numerics)
{
	struct slab slab = slab_of_panel(w, begin, end);
	expand_slab_avx512(w, &slab, panel, numerics);
}
