/* Expansion: bit for bit as the definition, except that a level may flush denormal results to zero. */
#include <math.h>
#include <string.h>

#include "src/kernel/half.h"
#include "tests/kernel/kernel_test.h"

static bool same_number(float a, float b)
{
	return a == b || (isnan(a) && isnan(b)) || (fabsf(a) <= 0x1p-126f && fabsf(b) <= 0x1p-126f);
}

static bool same_panel(const void *a, const void *b, size_t n, enum numerics numerics)
{
	for (size_t i = 0; i < n; i++) {
		bool same = numerics == NUMERICS_BF16 ? same_number(f32_from_bf16(((const uint16_t *)a)[i]),
								    f32_from_bf16(((const uint16_t *)b)[i]))
						      : same_number(((const float *)a)[i], ((const float *)b)[i]);
		if (!same)
			return false;
	}
	return true;
}

static void test_panel(const struct subject *subject, const struct matrix *w, uint32_t begin, uint32_t end)
{
	size_t n = (size_t)PACK_ROWS * (end - begin) * w->cols;
	size_t bytes = n * (subject->numerics == NUMERICS_BF16 ? sizeof(uint16_t) : sizeof(float));
	void *panel = guarded_new(bytes), *ref = guarded_new(bytes);

	subject->kernels->expand_panel(w, begin, end, panel, subject->numerics);
	subject->ref->expand_panel(w, begin, end, ref, subject->numerics);
	expect(same_panel(panel, ref, n, subject->numerics), "expand_panel %s %ux%u blocks %u..%u differs from ref",
	       pack_kind_name(w->kind), w->rows, w->cols, begin, end);
	expect(guarded_intact(panel, bytes), "expand_panel %s wrote beside the panel", pack_kind_name(w->kind));
	guarded_free(panel);
	guarded_free(ref);
}

/* The panel's columns are the matrix's rows, in pairs of k for bfloat16; rows that only pad are zero. */
static void test_panel_layout(const struct subject *subject, const struct matrix *w)
{
	uint32_t n_blocks = (w->rows + PACK_ROWS - 1) / PACK_ROWS, n = n_blocks * PACK_ROWS;
	bool bf16 = subject->numerics == NUMERICS_BF16;
	size_t bytes = (size_t)n * w->cols * (bf16 ? sizeof(uint16_t) : sizeof(float));
	void *panel = guarded_new(bytes);
	float *row_values = guarded_new(w->cols * sizeof(float));

	subject->kernels->expand_panel(w, 0, n_blocks, panel, subject->numerics);
	for (uint32_t row = 0; row < n; row++) {
		memset(row_values, 0, w->cols * sizeof(float));
		if (row < w->rows)
			subject->kernels->expand_row(w, row, row_values);
		for (uint32_t k = 0; k < w->cols; k++) {
			float value = bf16 ? f32_from_bf16(((uint16_t *)panel)[((size_t)(k / 2) * n + row) * 2 + k % 2])
					   : ((float *)panel)[(size_t)k * n + row];
			float expected = bf16 ? f32_round_bf16(row_values[k]) : row_values[k];
			expect(same_number(value, expected), "expand_panel %s row %u column %u: %a, expected %a",
			       pack_kind_name(w->kind), row, k, (double)value, (double)expected);
		}
	}
	guarded_free(panel);
	guarded_free(row_values);
}

static void test_rows(const struct subject *subject, const struct matrix *w)
{
	size_t bytes = w->cols * sizeof(float);
	float *out = guarded_new(bytes), *ref = guarded_new(bytes);

	for (uint32_t row = 0; row < w->rows; row++) {
		subject->kernels->expand_row(w, row, out);
		subject->ref->expand_row(w, row, ref);
		expect(same_bits(out, ref, w->cols), "expand_row %s row %u differs", pack_kind_name(w->kind), row);
	}
	expect(guarded_intact(out, bytes), "expand_row %s wrote beside the row", pack_kind_name(w->kind));
	guarded_free(out);
	guarded_free(ref);
}

void test_expand(const struct subject *subject)
{
	static const uint32_t shapes[][2] = {{1, 32}, {16, 64}, {49, 96}, {70, 576}};

	for (int kind = 0; kind < PACK_N_KINDS; kind++)
		for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
			for (int filling = 0; filling < N_FILLINGS; filling++) {
				struct matrix w = matrix_new((enum pack_kind)kind, shapes[s][0], shapes[s][1],
							     (enum filling)filling);
				uint32_t n_blocks = (w.rows + PACK_ROWS - 1) / PACK_ROWS;

				for (uint32_t begin = 0; begin < n_blocks; begin++)
					for (uint32_t end = begin + 1; end <= n_blocks; end++)
						test_panel(subject, &w, begin, end);
				test_panel_layout(subject, &w);
				test_rows(subject, &w);
				matrix_free(&w);
			}
}
