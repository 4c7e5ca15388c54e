/* Expansion of packed weights to plain numbers, level ref: the definition. weight = scale * code + minimum in float32
 * (rounded once: the product of a scale, of 18 bits at most, and a small code is exact), then to bfloat16 for a BF16
 * panel. */
#include "src/kernel/levels.h"
#include "src/kernel/unpack.h"

static float value_of(const struct unpacked *weights, uint32_t k)
{
	uint32_t span = k / weights->span;
	return weights->scale[span] * weights->code[k] + weights->minimum[span];
}

void expand_slab_ref(const struct matrix *w, const struct slab *slab, void *panel, enum numerics numerics)
{
	uint32_t n_columns = PACK_ROWS * (slab->block_end - slab->block_begin); /* of the panel; rows of the matrix */
	uint16_t *pairs = panel;						/* BF16: [k / 2][n][2] */
	float *values = panel;							/* F32: [k][n] */

	for (uint32_t column = 0; column < n_columns; column++) {
		const uint8_t *block_row = unpack_block_row_at(w, slab->block_begin + column / PACK_ROWS);

		for (uint32_t g = slab->group_begin; g < slab->group_end; g++) {
			size_t k = (size_t)(g - slab->group_begin) * PACK_GROUP;
			struct unpacked weights;

			unpack_row(w->kind, block_row, g, column % PACK_ROWS, &weights);
			for (uint32_t i = 0; i < PACK_GROUP; i++, k++) {
				float value = value_of(&weights, i);
				if (numerics == NUMERICS_BF16)
					pairs[(k / 2 * slab->n + column) * 2 + k % 2] = bf16_from_f32(value);
				else
					values[k * slab->n + column] = value;
			}
		}
	}
}

void expand_panel_ref(const struct matrix *w, uint32_t begin, uint32_t end, void *panel, enum numerics numerics)
{
	struct slab slab = slab_of_panel(w, begin, end);
	expand_slab_ref(w, &slab, panel, numerics);
}

void expand_row_ref(const struct matrix *w, uint32_t row, float *out)
{
	const uint8_t *block_row = unpack_block_row_at(w, row / PACK_ROWS);

	for (uint32_t g = 0; g < w->cols / PACK_GROUP; g++) {
		struct unpacked weights;

		unpack_row(w->kind, block_row, g, row % PACK_ROWS, &weights);
		for (uint32_t k = 0; k < PACK_GROUP; k++)
			out[g * PACK_GROUP + k] = value_of(&weights, k);
	}
}
