/* Expansion of packed weights to float32 panels, level avx2. */
#include "src/kernel/group_avx2.h"
#include "src/kernel/levels.h"

ALWAYS_INLINE void expand_group(enum pack_kind kind, const struct group *group, const struct code_table_avx2 *table,
				int half, float *out, size_t n)
{
	const struct layout l = layout_of(kind);
	const uint8_t *codes = group->codes + HALF_BYTES * half;
	__m256 scale[UNPACK_MAX_SPANS], minimum[UNPACK_MAX_SPANS];

	for (uint32_t span = 0; l.span && span < PACK_GROUP / l.span; span++) {
		scale[span] = group_scale_avx2(kind, group, span, half);
		minimum[span] = l.minimum ? group_minimum_avx2(kind, group, span, half) : _mm256_setzero_ps();
	}
	UNROLL
	for (int pair = 0; pair < GROUP_PAIRS; pair++) {
		__m256 even_quarter = group_pair_avx2(kind, codes, table, pair, 0);
		__m256 odd_quarter = group_pair_avx2(kind, codes, table, pair, 1);
		UNROLL
		for (int odd = 0; odd < 2; odd++) {
			__m256 column = column_avx2(even_quarter, odd_quarter, odd);
			if (l.span)
				column = _mm256_fmadd_ps(column, scale[2 * pair / l.span], minimum[2 * pair / l.span]);
			_mm256_storeu_ps(out + n * (size_t)(2 * pair + odd) + (size_t)half * HALF_ROWS, column);
		}
	}
}

ALWAYS_INLINE void expand(enum pack_kind kind, const struct matrix *w, const struct slab *slab, float *panel)
{
	const size_t block_row_bytes = layout_block_row_bytes(kind, w->cols);
	const struct code_table_avx2 table = code_table_avx2(kind);

	for (uint32_t block = slab->block_begin; block < slab->block_end; block++) {
		const uint8_t *block_row = (const uint8_t *)w->data + block * block_row_bytes;
		float *out = panel + (size_t)PACK_ROWS * (block - slab->block_begin); /* [k][n] */

		for (uint32_t g = slab->group_begin; g < slab->group_end; g++) {
			const struct group group = layout_group(kind, block_row, g);

			layout_prefetch(kind, block_row + block_row_bytes, g);
			expand_group(kind, &group, &table, 0, out, slab->n);
			expand_group(kind, &group, &table, 1, out, slab->n);
			out += slab->n * PACK_GROUP;
		}
	}
}

void expand_slab_avx2(const struct matrix *w, const struct slab *slab, void *panel, enum numerics numerics)
{
	(void)numerics; /* this level serves F32 only */
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

void expand_panel_avx2(const struct matrix *w, uint32_t begin, uint32_t end, void *panel, enum numerics numerics)
{
	struct slab slab = slab_of_panel(w, begin, end);
	expand_slab_avx2(w, &slab, panel, numerics);
}
