/* Products of int8 numerics, level ref: the definition. */
#include <math.h>
#include <string.h>

#include "src/kernel/int8.h"
#include "src/kernel/levels.h"
#include "src/kernel/unpack.h"

/* Column `k` of row `r`. */
static int8_t *code_at(struct int8_group *group, uint32_t r, uint32_t k)
{
	uint32_t at = layout_byte_at(k);
	return &group->code[at / 4][r][at % 4];
}

/* One row of one group. A group with a number that is not finite gets NaN as its scale, so it says so in every sum. */
static void round_group(struct int8_group *group, uint32_t r, const float *x)
{
	int32_t sum[INT8_PARTS] = {0};
	float largest = 0.0f, inverse;
	bool finite = true;

	for (uint32_t k = 0; k < PACK_GROUP; k++) {
		finite = finite && isfinite(x[k]);
		largest = fmaxf(largest, fabsf(x[k]));
	}
	if (!finite || largest < INT8_SMALLEST)
		largest = 0.0f;
	inverse = largest > 0.0f ? 127.0f / largest : 0.0f;
	for (uint32_t k = 0; k < PACK_GROUP; k++) {
		int8_t code = finite ? (int8_t)lrintf(x[k] * inverse) : 0;

		*code_at(group, r, k) = code;
		sum[INT8_WHOLE] += code;
		sum[INT8_HALVES + k / (PACK_GROUP / 2)] += code;
	}
	group->scale[r] = finite ? largest / 127.0f : NAN;
	for (int part = 0; part < INT8_PARTS; part++) {
		group->minus_8_sum[part][r] = -8 * sum[part];
		group->sum[part][r] = group->scale[r] * (float)sum[part];
	}
}

void int8_prepare_ref(const struct int8_rows *rows, uint32_t begin, uint32_t end, const float *x)
{
	uint32_t n_groups = rows->cols / PACK_GROUP;

	for (uint32_t r = begin; r < end; r++)
		for (uint32_t g = 0; g < n_groups; g++)
			round_group(&rows->groups[(size_t)(r / INT8_ROWS) * n_groups + g], r % INT8_ROWS,
				    x + (size_t)r * rows->cols + (size_t)g * PACK_GROUP);
}

/* Row `row` of a block row times row `r` of activations. */
static float dot(enum pack_kind kind, const uint8_t *block_row, uint32_t row, const struct int8_rows *x, uint32_t r)
{
	const uint32_t n_groups = x->cols / PACK_GROUP, lane = r % INT8_ROWS;
	struct int8_group *groups = x->groups + (size_t)(r / INT8_ROWS) * n_groups;
	float total = 0.0f;

	for (uint32_t g = 0; g < n_groups; g++) {
		struct int8_group *group = &groups[g];
		struct unpacked weights;

		unpack_row(kind, block_row, g, row, &weights);
		for (uint32_t begin = 0; begin < PACK_GROUP; begin += weights.span) {
			uint32_t span = begin / weights.span;
			int part = weights.span == PACK_GROUP ? INT8_WHOLE : INT8_HALVES + (int)span;
			int32_t sum = 0;

			for (uint32_t k = begin; k < begin + weights.span; k++)
				sum += (int32_t)weights.code[k] * *code_at(group, lane, k);
			total += weights.scale[span] * (float)sum * group->scale[lane];
			if (layout_of(kind).minimum)
				total += weights.minimum[span] * group->sum[part][lane];
		}
	}
	return total;
}

void int8_product_ref(const struct matrix *w, uint32_t begin, uint32_t end, const struct int8_rows *x, float *y,
		      size_t y_stride)
{
	for (uint32_t block = begin; block < end; block++) {
		const uint8_t *block_row = unpack_block_row_at(w, block);
		for (uint32_t row = 0; row < PACK_ROWS && block * PACK_ROWS + row < w->rows; row++)
			for (uint32_t r = 0; r < x->n_rows; r++)
				y[r * y_stride + block * PACK_ROWS + row] = dot(w->kind, block_row, row, x, r);
	}
}
