/* Expansion of packed weights to float32 panels, level avx2. */
#include "src/kernel/group_avx2.h"
#include "src/kernel/levels.h"

ALWAYS_INLINE void expand_group(enum pack_kind kind, const uint8_t *group, int half, float *out, size_t n)
{
	__m256 scale = unpack_has_scale(kind) ? group_scale_avx2(kind, group, half) : _mm256_setzero_ps();
	__m256 minimum = kind == PACK_Q4_1 ? group_minimum_avx2(group, half) : _mm256_setzero_ps();

	UNROLL
	for (int pair = 0; pair < GROUP_PAIRS; pair++) {
		struct pair_avx2 codes = group_pair_avx2(kind, group, pair, half);
		float *at = out + 2 * n * (size_t)pair + (size_t)half * HALF_ROWS;

		if (unpack_has_scale(kind)) {
			codes.even = _mm256_fmadd_ps(codes.even, scale, minimum);
			codes.odd = _mm256_fmadd_ps(codes.odd, scale, minimum);
		}
		_mm256_storeu_ps(at, codes.even);
		_mm256_storeu_ps(at + n, codes.odd);
	}
}

ALWAYS_INLINE void expand(enum pack_kind kind, const struct matrix *w, const struct slab *slab, float *panel)
{
	const size_t group_bytes = pack_group_bytes(kind);
	const size_t block_row_bytes = w->cols / PACK_GROUP * group_bytes;

	for (uint32_t block = slab->block_begin; block < slab->block_end; block++) {
		const uint8_t *group =
			(const uint8_t *)w->data + block * block_row_bytes + slab->group_begin * group_bytes;
		float *out = panel + (size_t)PACK_ROWS * (block - slab->block_begin); /* [k][n] */

		for (uint32_t g = slab->group_begin; g < slab->group_end; g++) {
			expand_group(kind, group, 0, out, slab->n);
			expand_group(kind, group, 1, out, slab->n);
			group += group_bytes;
			out += slab->n * PACK_GROUP;
		}
	}
}

void expand_slab_avx2(const struct matrix *w, const struct slab *slab, void *panel, enum numerics numerics)
{
	(void)numerics; /* this level serves F32 only */
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

void expand_panel_avx2(const struct matrix *w, uint32_t begin, uint32_t end, void *panel, enum numerics numerics)
{
	struct slab slab = slab_of_panel(w, begin, end);
	expand_slab_avx2(w, &slab, panel, numerics);
}
