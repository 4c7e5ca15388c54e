/* Decode products, level ref: the definition. A span (the columns that share a scale: a group of 32, or half of it) is
 * summed with its codes, the sum is scaled once, and a row's spans are added from left to right:
 *
 *   y[i] = sum_s ( scale[i][s] * sum_k code[i][s][k] * x[s][k]  +  minimum[i][s] * sum_k x[s][k] )
 *
 * With BF16 numerics x is rounded by prepare, and codes are rounded where they are not small integers already. */
#include "src/kernel/levels.h"
#include "src/kernel/unpack.h"

static float sum_of(const float *values, size_t n)
{
	float sum = 0.0f;
	for (size_t k = 0; k < n; k++)
		sum += values[k];
	return sum;
}

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
		const float *values = a->f32 + group * PACK_GROUP;
		a->half_sum[2 * group] = sum_of(values, PACK_GROUP / 2);
		a->half_sum[2 * group + 1] = sum_of(values + PACK_GROUP / 2, PACK_GROUP / 2);
		a->group_sum[group] = sum_of(values, PACK_GROUP);
	}
}

/* One output: row `row` (0..15) of the block row at `block_row` times activation row `r`. */
static float dot(const struct matrix *w, const uint8_t *block_row, uint32_t row, const struct activations *x,
		 uint32_t r, enum numerics numerics)
{
	const struct layout l = layout_of(w->kind);
	const float *values = x->f32 + (size_t)r * x->cols;
	const float *span_sum =
		(l.span == 16 ? x->half_sum : x->group_sum) + (size_t)r * (x->cols / (l.span == 16 ? 16 : 32));
	float total = 0.0f;

	for (uint32_t g = 0; g < w->cols / PACK_GROUP; g++) {
		struct unpacked weights;

		unpack_row(w->kind, block_row, g, row, &weights);
		for (uint32_t begin = 0; begin < PACK_GROUP; begin += weights.span) {
			float sum = 0.0f;

			for (uint32_t k = begin; k < begin + weights.span; k++) {
				float code = weights.code[k];
				if (numerics == NUMERICS_BF16)
					code = f32_round_bf16(code);
				sum += code * values[g * PACK_GROUP + k];
			}
			total += weights.scale[begin / weights.span] * sum;
			if (l.minimum)
				total += weights.minimum[begin / weights.span] *
					 span_sum[(g * PACK_GROUP + begin) / weights.span];
		}
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
