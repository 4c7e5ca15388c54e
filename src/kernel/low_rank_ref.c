/* An adapter's products, level ref: the definition. */
#include "src/kernel/half.h"
#include "src/kernel/levels.h"

static float value_at(uint32_t kind, const void *values, size_t i)
{
	const uint16_t *halves = values;
	const float *floats = values;

	if (kind == PACK_F32)
		return floats[i];
	return kind == PACK_F16 ? f32_from_f16(halves[i]) : f32_from_bf16(halves[i]);
}

void low_rank_in_ref(const struct low_rank *m, uint32_t begin, uint32_t end, const float *const *x, float *const *t,
		     uint32_t n_rows)
{
	for (uint32_t r = 0; r < n_rows; r++)
		for (uint32_t i = begin; i < end; i++) {
			float sum = 0.0f;

			for (uint32_t k = 0; k < m->cols; k++)
				sum += value_at(m->a_kind, m->a, (size_t)i * m->cols + k) * x[r][k];
			t[r][i] = sum;
		}
}

void low_rank_out_ref(const struct low_rank *m, uint32_t begin, uint32_t end, const float *const *t, float *const *y,
		      uint32_t n_rows)
{
	for (uint32_t r = 0; r < n_rows; r++)
		for (uint32_t i = begin * PACK_ROWS; i < end * PACK_ROWS && i < m->rows; i++) {
			size_t block = (size_t)(i / PACK_ROWS) * m->rank;
			float sum = 0.0f;

			for (uint32_t j = 0; j < m->rank; j++)
				sum += value_at(m->b_kind, m->b, (block + j) * PACK_ROWS + i % PACK_ROWS) * t[r][j];
			y[r][i] += m->scale * sum;
		}
}
