/* Products of int8 numerics: rounding bit for bit against the definition, sums against exact ones over the rounded
 * activations, and bit for bit against themselves in other widths, ranges and places.
 *
 * Tolerance. Integer sums are exact. A span passes through four roundings before it is added, and the total of n spans
 * through n more (twice as many where there are minima). */
#include <math.h>
#include <string.h>

#include "src/kernel/unpack.h"
#include "tests/kernel/kernel_test.h"

enum { MANY = 45, Y_PAD = 5 };

struct inputs {
	float *values;
	struct int8_rows rows;
	size_t bytes;
};

static struct inputs inputs_new(const struct kernels *kernels, uint32_t n_rows, uint32_t cols, enum filling filling)
{
	uint32_t n_tiles = (n_rows + INT8_ROWS - 1) / INT8_ROWS;
	struct inputs in = {
		.values = guarded_new((size_t)n_rows * cols * sizeof(float)),
		.bytes = n_tiles * INT8_ROWS * int8_row_bytes(cols),
	};

	in.rows = (struct int8_rows){guarded_new(in.bytes), n_rows, cols};
	memset(in.rows.groups, 0, in.bytes);
	fill_values(in.values, (size_t)n_rows * cols, filling);
	kernels->int8_prepare(&in.rows, 0, n_rows, in.values);
	return in;
}

static void inputs_free(struct inputs *in)
{
	expect(guarded_intact(in->rows.groups, in->bytes), "int8_prepare wrote beside its array");
	guarded_free(in->values);
	guarded_free(in->rows.groups);
}

static const struct int8_group *group_of(const struct int8_rows *rows, uint32_t r, uint32_t g)
{
	return &rows->groups[(size_t)(r / INT8_ROWS) * (rows->cols / PACK_GROUP) + g];
}

/* The code of column `k` of a row's group. */
static int code_of(const struct int8_group *group, uint32_t r, uint32_t k)
{
	uint32_t at = layout_byte_at(k);
	return group->code[at / 4][r % INT8_ROWS][at % 4];
}

/* What a rounded activation stands for is at most half a step away, and the sums are those of the codes. */
static void check_group(const float *x, const struct int8_group *group, uint32_t r)
{
	float largest = 0.0f, scale = group->scale[r % INT8_ROWS];
	int sum[INT8_PARTS] = {0};

	for (uint32_t k = 0; k < PACK_GROUP; k++)
		largest = isfinite(x[k]) && isfinite(largest) ? fmaxf(largest, fabsf(x[k])) : INFINITY;
	if (isinf(largest)) {
		expect(isnan(scale), "int8_prepare: scale %a where a value is not finite", (double)scale);
		return;
	}
	for (uint32_t k = 0; k < PACK_GROUP; k++) {
		int code = code_of(group, r, k);

		expect(fabs((double)scale * code - (double)x[k]) <= 0.5001 * (double)largest / 127 + 0x1p-100,
		       "int8_prepare: %a became %d times %a", (double)x[k], code, (double)scale);
		expect(code >= -127, "int8_prepare: a code of %d", code);
		sum[INT8_WHOLE] += code;
		sum[INT8_HALVES + k / 16] += code;
	}
	for (int part = 0; part < INT8_PARTS; part++)
		expect(group->minus_8_sum[part][r % INT8_ROWS] == -8 * sum[part] &&
			       group->sum[part][r % INT8_ROWS] == scale * (float)sum[part],
		       "int8_prepare: sum %d of part %d is %d", sum[part], part,
		       group->minus_8_sum[part][r % INT8_ROWS] / -8);
}

static void test_prepare(const struct subject *subject, enum filling filling)
{
	enum { ROWS = 6, COLS = 96 };
	struct inputs in = inputs_new(subject->kernels, ROWS, COLS, filling);
	struct inputs ref = inputs_new(subject->ref, ROWS, COLS, FILL_ZERO);

	subject->ref->int8_prepare(&ref.rows, 0, ROWS, in.values);
	expect(!memcmp(in.rows.groups, ref.rows.groups, in.bytes) || filling == FILL_BYTES,
	       "int8_prepare %s differs from ref", filling_name(filling));
	for (uint32_t r = 0; r < ROWS; r++)
		for (uint32_t g = 0; g < COLS / PACK_GROUP; g++)
			check_group(in.values + (size_t)r * COLS + (size_t)g * PACK_GROUP, group_of(&in.rows, r, g), r);
	inputs_free(&in);
	inputs_free(&ref);
}

/* A row of weights times a row of rounded activations; *magnitude is the sum of what is added, *largest what may occur
 * on the way. */
static double exact_product(const struct matrix *w, uint32_t row, const struct int8_rows *x, uint32_t r,
			    double *magnitude, double *largest)
{
	double total = 0.0;

	*magnitude = *largest = 0.0;
	for (uint32_t g = 0; g < w->cols / PACK_GROUP; g++) {
		const struct int8_group *group = group_of(x, r, g);
		struct unpacked weights;

		unpack_row(w->kind, unpack_block_row_at(w, row / PACK_ROWS), g, row % PACK_ROWS, &weights);
		for (uint32_t begin = 0; begin < PACK_GROUP; begin += weights.span) {
			double sum = 0.0, codes = 0.0, scale = (double)group->scale[r % INT8_ROWS];
			double scaled, offset;

			for (uint32_t k = begin; k < begin + weights.span; k++) {
				sum += (double)weights.code[k] * code_of(group, r, k);
				codes += code_of(group, r, k);
			}
			scaled = (double)weights.scale[begin / weights.span] * scale * sum;
			offset = (double)weights.minimum[begin / weights.span] * scale * codes;
			total += scaled + offset;
			*magnitude += fabs(scaled) + fabs(offset);
			*largest += fabs(scaled) + fabs(offset) + fabs(scale * codes) +
				    fabs((double)weights.scale[begin / weights.span] * sum);
		}
	}
	return total;
}

static void test_values(const struct subject *subject, const struct matrix *w, enum filling filling)
{
	enum { ROWS = 3 };
	struct inputs in = inputs_new(subject->kernels, ROWS, w->cols, filling);
	size_t stride = w->rows + Y_PAD, bytes = ROWS * stride * sizeof(float);
	float *y = guarded_new(bytes), *ref = guarded_new(bytes);
	uint32_t n_blocks = (w->rows + PACK_ROWS - 1) / PACK_ROWS;

	subject->kernels->int8_product(w, 0, n_blocks, &in.rows, y, stride);
	subject->ref->int8_product(w, 0, n_blocks, &in.rows, ref, stride);
	for (uint32_t r = 0; r < ROWS; r++) {
		for (uint32_t row = 0; row < w->rows; row++) {
			size_t at = r * stride + row;
			double magnitude, largest, exact = exact_product(w, row, &in.rows, r, &magnitude, &largest);
			double tolerance = (w->cols / 8.0 + 8) * 0x1p-24 * magnitude + w->cols * 0x1p-126;
			bool bounded = largest < 1e38;

			expect(!bounded || (fabs((double)y[at] - exact) <= tolerance &&
					    fabs((double)ref[at] - exact) <= tolerance),
			       "int8 %s %s %ux%u row %u: %a, ref %a, exactly %a +- %a", pack_kind_name(w->kind),
			       filling_name(filling), w->rows, w->cols, row, (double)y[at], (double)ref[at], exact,
			       tolerance);
		}
		expect(guarded_untouched(y + r * stride + w->rows, Y_PAD * sizeof(float)), "int8 %s wrote past row %u",
		       pack_kind_name(w->kind), w->rows);
	}
	expect(guarded_intact(y, bytes), "int8 %s wrote beside y", pack_kind_name(w->kind));
	guarded_free(y);
	guarded_free(ref);
	inputs_free(&in);
}

/* Each row alone, in the first place of a tile of its own, gives the bits that it gives among others. */
static void test_order(const struct subject *subject, const struct matrix *w, enum filling filling)
{
	struct inputs in = inputs_new(subject->kernels, MANY, w->cols, filling);
	uint32_t n_blocks = (w->rows + PACK_ROWS - 1) / PACK_ROWS;
	size_t bytes = MANY * w->rows * sizeof(float);
	float *alone = guarded_new(bytes), *some = guarded_new(bytes);

	for (uint32_t r = 0; r < MANY; r++) {
		struct inputs one = inputs_new(subject->kernels, 1, w->cols, FILL_ZERO);

		subject->kernels->int8_prepare(&one.rows, 0, 1, in.values + (size_t)r * w->cols);
		subject->kernels->int8_product(w, 0, n_blocks, &one.rows, alone + r * w->rows, w->rows);
		inputs_free(&one);
	}
	for (uint32_t n = 1; n <= MANY; n++) {
		struct int8_rows few = in.rows;

		few.n_rows = n;
		memset(some, 0, bytes);
		subject->kernels->int8_product(w, 0, n_blocks / 2, &few, some, w->rows);
		subject->kernels->int8_product(w, n_blocks / 2, n_blocks, &few, some, w->rows);
		expect(same_bits(some, alone, (size_t)n * w->rows), "int8 %s %s: %u rows differ from each alone",
		       pack_kind_name(w->kind), filling_name(filling), n);
	}
	expect(guarded_intact(some, bytes), "int8 %s wrote beside y", pack_kind_name(w->kind));
	guarded_free(alone);
	guarded_free(some);
	inputs_free(&in);
}

/* A NaN or an infinity in one row stays there. */
static void test_poison(const struct subject *subject, const struct matrix *w)
{
	enum { ROWS = 4 };
	struct inputs in = inputs_new(subject->kernels, ROWS, w->cols, FILL_RANDOM);
	float *y = guarded_new(ROWS * w->rows * sizeof(float));

	in.values[w->cols + 7] = NAN;
	in.values[3 * w->cols - 1] = INFINITY;
	subject->kernels->int8_prepare(&in.rows, 0, ROWS, in.values);
	subject->kernels->int8_product(w, 0, (w->rows + PACK_ROWS - 1) / PACK_ROWS, &in.rows, y, w->rows);
	for (uint32_t row = 0; row < w->rows; row++)
		expect(isfinite(y[row]) && isnan(y[w->rows + row]) && isnan(y[2 * w->rows + row]) &&
			       isfinite(y[3 * w->rows + row]),
		       "int8 %s: poison moved or disappeared", pack_kind_name(w->kind));
	guarded_free(y);
	inputs_free(&in);
}

void test_int8(const struct subject *subject)
{
	static const uint32_t shapes[][2] = {{1, 32}, {15, 64}, {17, 576}, {50, 160}, {130, 1536}};

	for (int filling = 0; filling < N_FILLINGS; filling++)
		test_prepare(subject, (enum filling)filling);
	for (int kind = 0; kind < PACK_N_KINDS; kind++) {
		struct matrix w;

		if (!int8_takes((enum pack_kind)kind))
			continue;
		for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
			for (int filling = 0; filling < N_FILLINGS; filling++) {
				w = matrix_new((enum pack_kind)kind, shapes[s][0], shapes[s][1], (enum filling)filling);
				test_values(subject, &w, (enum filling)filling);
				test_values(subject, &w, FILL_RANDOM);
				matrix_free(&w);
			}
		w = matrix_new((enum pack_kind)kind, 100, 288, FILL_RANDOM);
		test_order(subject, &w, FILL_RANDOM);
		test_poison(subject, &w);
		matrix_free(&w);
	}
}
