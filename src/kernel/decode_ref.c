/* Decode products, level ref: the definition. A group of 32 columns is summed with its codes, the sum is scaled once,
 * and a row's groups are added from left to right:
 *
 *   y[i] = sum_g ( scale[i][g] * sum_k code[i][g][k] * x[g][k]  +  minimum[i][g] * sum_k x[g][k] )
 *
 * With BF16 numerics x is rounded by prepare, and codes are rounded where they are not small integers already. */
#include "src/kernel/levels.h"
#include "src/kernel/unpack.h"

void prepare_ref(struct activations *a, const float *x, enum numerics numerics)
{
	size_t n = (size_t)a->n_rows * a->cols;

	for (size_t i = 0; i < n; i++) {
		a->f32[i] = x[i];
		if (numerics == NUMERICS_BF16) {
			a->bf16[i] = bf16_from_f32(x[i]);
			a->f32[i] = f32_from_bf16(a->bf16[i]);
		}
	}
	for (size_t group = 0; group < n / PACK_GROUP; group++) {
		float sum = 0.0f;
		for (size_t k = 0; k < PACK_GROUP; k++)
			sum += a->f32[group * PACK_GROUP + k];
		a->group_sum[group] = sum;
	}
}

/* One output: row `row` (0..15) of the block row at `block_row` times activation row `r`. */
static float dot(const struct matrix *w, const uint8_t *block_row, uint32_t row, const struct activations *x,
		 uint32_t r, enum numerics numerics)
{
	const float *values = x->f32 + (size_t)r * x->cols;
	const float *group_sum = x->group_sum + (size_t)r * (x->cols / PACK_GROUP);
	size_t group_bytes = pack_group_bytes(w->kind);
	float total = 0.0f;

	for (uint32_t g = 0; g < w->cols / PACK_GROUP; g++) {
		struct unpacked weights;
		float sum = 0.0f;

		unpack_row(w->kind, block_row + g * group_bytes, row, &weights);
		for (uint32_t k = 0; k < PACK_GROUP; k++) {
			float code = numerics == NUMERICS_BF16 ? f32_round_bf16(weights.code[k]) : weights.code[k];
			sum += code * values[g * PACK_GROUP + k];
		}
		total += weights.scale * sum;
		if (w->kind == PACK_Q4_1)
			total += weights.minimum * group_sum[g];
	}
	return total;
}

void decode_product_ref(const struct matrix *w, uint32_t begin, uint32_t end, const struct activations *x, float *y,
			size_t y_stride, enum numerics numerics)
{
	for (uint32_t block = begin; block < end; block++) {
		const uint8_t *block_row = unpack_block_row_at(w, block);
		for (uint32_t row = 0; row < PACK_ROWS && block * PACK_ROWS + row < w->rows; row++)
			for (uint32_t r = 0; r < x->n_rows; r++)
				y[r * y_stride + block * PACK_ROWS + row] = dot(w, block_row, row, x, r, numerics);
	}
}
