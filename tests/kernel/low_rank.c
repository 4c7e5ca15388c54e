/* An adapter's products: against double with a derived bound, for every kind of values, with tails, and every row bit
 * for bit the same whatever the number of rows and the range. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "src/kernel/half.h"
#include "tests/kernel/kernel_test.h"

/* Values of a factor in guarded memory. */
static void *values_new(uint32_t kind, size_t n, enum filling filling)
{
	float *floats = guarded_new(n * sizeof *floats);
	fill_values(floats, n, filling);
	if (kind == PACK_F32)
		return floats;
	uint16_t *halves = guarded_new(n * sizeof *halves);
	for (size_t i = 0; i < n; i++) /* for float16 any bits but those of infinities and NaNs will do */
		halves[i] = kind == PACK_BF16	    ? bf16_from_f32(floats[i])
			    : filling == FILL_BYTES ? (uint16_t)random_bits()
						    : (uint16_t)(random_bits() & 0xbbff);
	guarded_free(floats);
	return halves;
}

static float value_at(uint32_t kind, const void *values, size_t i)
{
	const uint16_t *halves = values;
	return kind == PACK_F32	  ? ((const float *)values)[i]
	       : kind == PACK_F16 ? f32_from_f16(halves[i])
				  : f32_from_bf16(halves[i]);
}

static size_t value_bytes(uint32_t kind)
{
	return kind == PACK_F32 ? 4 : 2;
}

struct case_of {
	struct low_rank m;
	float *x[LOW_RANK_ROWS], *t[LOW_RANK_ROWS], *y[LOW_RANK_ROWS]; /* [cols], [rank], [rows] */
	size_t n_a, n_b;
};

static void case_init(struct case_of *c, uint32_t kind, uint32_t rank, uint32_t rows, uint32_t cols,
		      enum filling filling)
{
	uint32_t b_kind = kind == PACK_F32 ? PACK_BF16 : kind == PACK_BF16 ? PACK_F16 : PACK_F32;
	c->n_a = (size_t)rank * cols;
	c->n_b = (size_t)(rows + PACK_ROWS - 1) / PACK_ROWS * PACK_ROWS * rank;
	c->m = (struct low_rank){.a = values_new(kind, c->n_a, filling),
				 .b = values_new(b_kind, c->n_b, filling),
				 .a_kind = kind,
				 .b_kind = b_kind,
				 .rank = rank,
				 .rows = rows,
				 .cols = cols,
				 .scale = random_float(2.0f)};
	for (int r = 0; r < LOW_RANK_ROWS; r++) {
		c->x[r] = guarded_new(cols * sizeof(float));
		c->t[r] = guarded_new(rank * sizeof(float));
		c->y[r] = guarded_new(rows * sizeof(float));
		fill_values(c->x[r], cols, filling);
		fill_values(c->y[r], rows, filling);
	}
}

static void case_fini(struct case_of *c)
{
	expect(guarded_intact(c->m.a, c->n_a * value_bytes(c->m.a_kind)) &&
		       guarded_intact(c->m.b, c->n_b * value_bytes(c->m.b_kind)),
	       "low_rank wrote to the matrices");
	for (int r = 0; r < LOW_RANK_ROWS; r++) {
		expect(guarded_intact(c->x[r], c->m.cols * sizeof(float)) &&
			       guarded_intact(c->t[r], c->m.rank * sizeof(float)) &&
			       guarded_intact(c->y[r], c->m.rows * sizeof(float)),
		       "low_rank rank=%u rows=%u cols=%u wrote beside its output", c->m.rank, c->m.rows, c->m.cols);
		guarded_free(c->x[r]);
		guarded_free(c->t[r]);
		guarded_free(c->y[r]);
	}
	guarded_free((void *)(uintptr_t)c->m.a);
	guarded_free((void *)(uintptr_t)c->m.b);
}

/* Sums of n products in float32, in any order: each of n additions and n products rounds once. */
static bool near(float got, double exact, double magnitude, uint32_t n)
{
	if (!(magnitude < (double)FLT_MAX / 4))
		return true; /* some partial sum may have overflowed, or an operand is no number */
	return fabs((double)got - exact) <= (n + 3) * 0x1p-24 * magnitude + n * (double)FLT_MIN;
}

static void check_in(const struct case_of *c, int row)
{
	for (uint32_t i = 0; i < c->m.rank; i++) {
		double exact = 0, magnitude = 0;
		for (uint32_t k = 0; k < c->m.cols; k++) {
			double term =
				(double)value_at(c->m.a_kind, c->m.a, (size_t)i * c->m.cols + k) * (double)c->x[row][k];
			exact += term;
			magnitude += fabs(term);
		}
		expect(near(c->t[row][i], exact, magnitude, c->m.cols), "low_rank_in cols=%u: t[%u] = %a, exactly %a",
		       c->m.cols, i, (double)c->t[row][i], exact);
	}
}

static void check_out(const struct case_of *c, int row, const float *before)
{
	for (uint32_t i = 0; i < c->m.rows; i++) {
		double exact = 0, magnitude = 0, scale = (double)c->m.scale;
		for (uint32_t j = 0; j < c->m.rank; j++) {
			size_t at = ((size_t)(i / PACK_ROWS) * c->m.rank + j) * PACK_ROWS + i % PACK_ROWS;
			double term = (double)value_at(c->m.b_kind, c->m.b, at) * (double)c->t[row][j];
			exact += term;
			magnitude += fabs(term);
		}
		if (!(magnitude < (double)FLT_MAX / 4))
			continue;
		magnitude = magnitude * fabs(scale) + fabs((double)before[i]);
		expect(near(c->y[row][i], (double)before[i] + scale * exact, magnitude, c->m.rank + 2),
		       "low_rank_out rank=%u rows=%u: y[%u] = %a, exactly %a", c->m.rank, c->m.rows, i,
		       (double)c->y[row][i], (double)before[i] + scale * exact);
	}
}

/* All rows together in one call, then each alone, part by part. */
static void test_case(const struct subject *subject, struct case_of *c, uint32_t n_rows)
{
	const struct kernels *k = subject->kernels;
	uint32_t n_blocks = (c->m.rows + PACK_ROWS - 1) / PACK_ROWS;
	float *t = guarded_new(c->m.rank * sizeof *t), *y = guarded_new(c->m.rows * sizeof *y);
	float *before[LOW_RANK_ROWS];

	for (uint32_t r = 0; r < n_rows; r++) {
		before[r] = guarded_new(c->m.rows * sizeof(float));
		memcpy(before[r], c->y[r], c->m.rows * sizeof(float));
	}
	k->low_rank_in(&c->m, 0, c->m.rank, (const float *const *)c->x, c->t, n_rows);
	k->low_rank_out(&c->m, 0, n_blocks, (const float *const *)c->t, c->y, n_rows);
	for (uint32_t r = 0; r < n_rows; r++) {
		check_in(c, (int)r);
		check_out(c, (int)r, before[r]);
		for (uint32_t i = 0; i < c->m.rank; i++)
			k->low_rank_in(&c->m, i, i + 1, &(const float *){c->x[r]}, &t, 1);
		expect(same_bits(t, c->t[r], c->m.rank), "low_rank_in: row %u of %u differs alone", r, n_rows);
		memcpy(y, before[r], c->m.rows * sizeof(float));
		for (uint32_t i = 0; i < n_blocks; i++)
			k->low_rank_out(&c->m, i, i + 1, &(const float *){c->t[r]}, &y, 1);
		expect(same_bits(y, c->y[r], c->m.rows), "low_rank_out: row %u of %u differs alone", r, n_rows);
		guarded_free(before[r]);
	}
	guarded_free(t);
	guarded_free(y);
}

void test_low_rank(const struct subject *subject)
{
	static const uint32_t kinds[] = {PACK_F32, PACK_F16, PACK_BF16}, ranks[] = {1, 3, 16, 33};
	static const uint32_t shapes[][2] = {{1, 32}, {16, 64}, {23, 96}, {200, 1024}}; /* rows, cols */

	for (int filling = 0; filling < N_FILLINGS; filling++)
		for (size_t kind = 0; kind < 3; kind++)
			for (size_t rank = 0; rank < 4; rank++)
				for (size_t shape = 0; shape < 4; shape++)
					for (uint32_t n_rows = 1; n_rows <= LOW_RANK_ROWS; n_rows++) {
						struct case_of c;
						case_init(&c, kinds[kind], ranks[rank], shapes[shape][0],
							  shapes[shape][1], (enum filling)filling);
						test_case(subject, &c, n_rows);
						case_fini(&c);
					}
}
