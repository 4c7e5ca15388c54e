/* Expansion of packed weights to bfloat16 panels, level avx512: pairs leave the group in the order in which the panel
 * takes them, so a pair of columns of one block row is one 64-byte store. */
#include "src/kernel/group_avx512.h"
#include "src/kernel/levels.h"

ALWAYS_INLINE void expand_group(enum pack_kind kind, const struct group *group, const struct code_table_avx512 *table,
				uint16_t *out, size_t n)
{
	const struct layout l = layout_of(kind);
	const __m512i upper = _mm512_set1_epi32((int)0xffff0000);
	__m512 scale[UNPACK_MAX_SPANS], minimum[UNPACK_MAX_SPANS];

	for (uint32_t span = 0; l.span && span < PACK_GROUP / l.span; span++) {
		scale[span] = group_scale_avx512(kind, group, span);
		minimum[span] = l.minimum ? group_minimum_avx512(kind, group, span) : _mm512_setzero_ps();
	}
	UNROLL
	for (int pair = 0; pair < GROUP_PAIRS; pair++) {
		__m512i codes = group_pair_avx512(kind, group->codes, pair, table);

		if (l.span) {
			const int span = 2 * pair / l.span;
			__m512 even = _mm512_castsi512_ps(_mm512_slli_epi32(codes, 16));
			__m512 odd = _mm512_castsi512_ps(_mm512_and_si512(codes, upper));

			codes = interleave_avx512(_mm512_fmadd_ps(even, scale[span], minimum[span]),
						  _mm512_fmadd_ps(odd, scale[span], minimum[span]));
		}
		_mm512_storeu_si512(out + 2 * n * (size_t)pair, codes);
	}
}

ALWAYS_INLINE void expand(enum pack_kind kind, const struct matrix *w, const struct slab *slab, uint16_t *panel)
{
	const size_t block_row_bytes = layout_block_row_bytes(kind, w->cols);
	struct code_table_avx512 table;

	code_table_init_avx512(&table, kind);
	for (uint32_t block = slab->block_begin; block < slab->block_end; block++) {
		const uint8_t *block_row = (const uint8_t *)w->data + block * block_row_bytes;
		uint16_t *out = panel + 2 * (size_t)PACK_ROWS * (block - slab->block_begin); /* [k / 2][n][2] */

		for (uint32_t g = slab->group_begin; g < slab->group_end; g++) {
			const struct group group = layout_group(kind, block_row, g);

			layout_prefetch(kind, block_row + block_row_bytes, g);
			expand_group(kind, &group, &table, out, slab->n);
			out += slab->n * PACK_GROUP;
		}
	}
}

void expand_slab_avx512(const struct matrix *w, const struct slab *slab, void *panel, enum numerics numerics)
{
	(void)numerics; /* this level serves BF16 only */
	switch (w->kind) {
#define CASE(kind)                            \
	case kind:                            \
		expand(kind, w, slab, panel); \
		break;
		PACK_EACH_KIND(CASE)
#undef CASE
	case PACK_N_KINDS:
		break;
	}
}

void expand_panel_avx512(const struct matrix *w, uint32_t begin, uint32_t end, void *panel, enum numerics numerics)
{
	struct slab slab = slab_of_panel(w, begin, end);
	expand_slab_avx512(w, &slab, panel, numerics);
}
