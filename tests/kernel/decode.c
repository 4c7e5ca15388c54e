/* Decode products: against sums in double over the meaning of the codes, and bit for bit against themselves in other
 * widths, ranges and places.
 *
 * Tolerance. A row's sum of n products of size s has an error of at most about (n_adds + 3) half units of sum |s|,
 * where n_adds counts the roundings that a product passes through: 32 in its span at most, then one per span, and
 * another where spans have minima. vdpbf16ps treats denormal inputs as zero and flushes denormal results: each of the n
 * products may lose another 2^-126 times the other factor, in units of the code, before the scale. */
#include <math.h>
#include <string.h>

#include "src/kernel/half.h"
#include "src/kernel/unpack.h"
#include "tests/kernel/kernel_test.h"

enum { MAX_ROWS = 32, Y_PAD = 5, HALF_GROUP = PACK_GROUP / 2 };

struct inputs {
	float *values;
	struct activations x;
};

static struct inputs inputs_new(const struct subject *subject, uint32_t n_rows, uint32_t cols, enum filling filling)
{
	size_t n = (size_t)n_rows * cols;
	struct inputs in = {
		.values = guarded_new(n * sizeof(float)),
		.x = {.f32 = guarded_new(n * sizeof(float)),
		      .bf16 = guarded_new(n * sizeof(uint16_t)),
		      .group_sum = guarded_new(n / PACK_GROUP * sizeof(float)),
		      .half_sum = guarded_new(n / HALF_GROUP * sizeof(float)),
		      .n_rows = n_rows,
		      .cols = cols},
	};
	fill_values(in.values, n, filling);
	subject->kernels->prepare(&in.x, in.values, subject->numerics);
	return in;
}

static void inputs_free(struct inputs *in)
{
	size_t n = (size_t)in->x.n_rows * in->x.cols;
	expect(guarded_intact(in->x.f32, n * sizeof(float)) && guarded_intact(in->x.bf16, n * sizeof(uint16_t)) &&
		       guarded_intact(in->x.group_sum, n / PACK_GROUP * sizeof(float)) &&
		       guarded_intact(in->x.half_sum, n / HALF_GROUP * sizeof(float)),
	       "prepare wrote beside its arrays");
	guarded_free(in->values);
	guarded_free(in->x.f32);
	guarded_free(in->x.bf16);
	guarded_free(in->x.group_sum);
	guarded_free(in->x.half_sum);
}

static void check_sums(const struct inputs *in, const float *sums, size_t width, enum filling filling)
{
	size_t n = (size_t)in->x.n_rows * in->x.cols;

	for (size_t i = 0; i < n / width; i++) {
		double sum = 0.0, magnitude = 0.0;
		for (size_t k = 0; k < width; k++) {
			sum += (double)in->x.f32[i * width + k];
			magnitude += fabs((double)in->x.f32[i * width + k]);
		}
		expect(!(magnitude < 1e38) || fabs(sum - (double)sums[i]) <= (double)width * 0x1p-24 * magnitude,
		       "prepare %s: sum of %zu is %a, exactly %a", filling_name(filling), width, (double)sums[i], sum);
	}
}

static void test_prepare(const struct subject *subject, uint32_t cols, enum filling filling)
{
	enum { ROWS = 3 };
	struct inputs in = inputs_new(subject, ROWS, cols, filling);
	size_t n = (size_t)ROWS * cols;

	for (size_t i = 0; i < n; i++) {
		bool bf16 = subject->numerics == NUMERICS_BF16;
		float expected = bf16 ? f32_round_bf16(in.values[i]) : in.values[i];
		expect(same_bits(&in.x.f32[i], &expected, 1), "prepare %s: %a became %a, expected %a",
		       filling_name(filling), (double)in.values[i], (double)in.x.f32[i], (double)expected);
		expect(!bf16 || in.x.bf16[i] == bf16_from_f32(in.values[i]), "prepare %s: bf16 of %a is %04x",
		       filling_name(filling), (double)in.values[i], in.x.bf16[i]);
	}
	check_sums(&in, in.x.group_sum, PACK_GROUP, filling);
	check_sums(&in, in.x.half_sum, HALF_GROUP, filling);
	inputs_free(&in);
}

/* The exact product, how far a float32 one may be from it, and the largest number that may occur on the way. */
struct exact {
	double value, tolerance, largest;
};

static uint32_t n_adds(const struct matrix *w)
{
	const struct layout l = layout_of(w->kind);
	uint32_t span = l.span ? l.span : PACK_GROUP;

	return span + w->cols / span * (l.minimum ? 2 : 1);
}

static struct exact exact_product(const struct subject *subject, const struct matrix *w, uint32_t row, const float *x)
{
	const uint8_t *block_row = unpack_block_row_at(w, row / PACK_ROWS);
	uint32_t n_groups = w->cols / PACK_GROUP;
	double magnitude = 0.0, flushed = 0.0, unscaled = 0.0;
	struct exact exact = {0};

	for (uint32_t g = 0; g < n_groups; g++) {
		struct unpacked weights;

		unpack_row(w->kind, block_row, g, row % PACK_ROWS, &weights);
		for (uint32_t k = 0; k < PACK_GROUP; k++) {
			float code = weights.code[k], scale = weights.scale[k / weights.span];
			float minimum = weights.minimum[k / weights.span];
			double v = (double)x[g * PACK_GROUP + k], c;

			c = (double)(subject->numerics == NUMERICS_BF16 ? f32_round_bf16(code) : code);
			exact.value += ((double)scale * c + (double)minimum) * v;
			magnitude += (fabs((double)scale * c) + fabs((double)minimum)) * fabs(v);
			unscaled += (1.0 + fabs(c)) * fabs(v);
			flushed += 0x1p-126 * (1.0 + fabs((double)scale)) * (2.0 + fabs(c) + fabs(v));
		}
	}
	exact.tolerance = (n_adds(w) + 3) * 0x1p-24 * magnitude + flushed;
	/* Codes of 8 bits may be multiplied where they stand at the top of 32 (group_avx512.h). */
	exact.largest = magnitude + unscaled * (w->kind == PACK_Q8_0 ? 0x1p24 : 1.0);
	return exact;
}

static bool close_enough(const struct exact *exact, float y)
{
	/* With infinities or NaN among the inputs, or where a partial sum may overflow, any result will do. */
	return !(exact->largest < 1e38) || fabs((double)y - exact->value) <= exact->tolerance;
}

static void test_values(const struct subject *subject, const struct matrix *w, enum filling filling)
{
	enum { ROWS = 3 };
	struct inputs in = inputs_new(subject, ROWS, w->cols, filling);
	size_t stride = w->rows + Y_PAD, bytes = ROWS * stride * sizeof(float);
	float *y = guarded_new(bytes), *ref = guarded_new(bytes);
	uint32_t n_blocks = (w->rows + PACK_ROWS - 1) / PACK_ROWS;

	subject->kernels->decode_product(w, 0, n_blocks, &in.x, y, stride, subject->numerics);
	subject->ref->decode_product(w, 0, n_blocks, &in.x, ref, stride, subject->numerics);
	for (uint32_t r = 0; r < ROWS; r++) {
		for (uint32_t row = 0; row < w->rows; row++) {
			struct exact exact = exact_product(subject, w, row, in.x.f32 + (size_t)r * w->cols);
			size_t at = r * stride + row;
			expect(close_enough(&exact, y[at]) && close_enough(&exact, ref[at]),
			       "decode %s %s %ux%u row %u: %a, ref %a, exactly %a +- %a", pack_kind_name(w->kind),
			       filling_name(filling), w->rows, w->cols, row, (double)y[at], (double)ref[at],
			       exact.value, exact.tolerance);
		}
		expect(guarded_untouched(y + r * stride + w->rows, Y_PAD * sizeof(float)),
		       "decode %s wrote past row %u", pack_kind_name(w->kind), w->rows);
	}
	expect(guarded_intact(y, bytes), "decode %s wrote beside y", pack_kind_name(w->kind));
	guarded_free(y);
	guarded_free(ref);
	inputs_free(&in);
}

/* Rows first .. first + n of `in`, as a batch of their own. */
static struct activations some_rows(const struct inputs *in, uint32_t first, uint32_t n)
{
	struct activations x = in->x;

	x.f32 += (size_t)first * x.cols;
	x.bf16 += (size_t)first * x.cols;
	x.group_sum += (size_t)first * (x.cols / PACK_GROUP);
	x.half_sum += (size_t)first * (x.cols / HALF_GROUP);
	x.n_rows = n;
	return x;
}

static void test_order(const struct subject *subject, const struct matrix *w, enum filling filling)
{
	struct inputs in = inputs_new(subject, MAX_ROWS, w->cols, filling);
	uint32_t n_blocks = (w->rows + PACK_ROWS - 1) / PACK_ROWS;
	size_t stride = w->rows, bytes = MAX_ROWS * stride * sizeof(float);
	float *whole = guarded_new(bytes), *part = guarded_new(bytes + sizeof(float));

	subject->kernels->decode_product(w, 0, n_blocks, &in.x, whole, stride, subject->numerics);
	for (uint32_t n = 1; n < MAX_ROWS; n++)
		for (uint32_t first = 0; first + n <= MAX_ROWS; first += n == 1 ? 1 : MAX_ROWS - n) {
			struct activations x = some_rows(&in, first, n);
			float *y = part + n % 2; /* at two alignments */

			subject->kernels->decode_product(w, 0, n_blocks, &x, y, stride, subject->numerics);
			expect(same_bits(y, whole + first * stride, n * stride),
			       "decode %s %s: rows %u..%u of 32 differ alone", pack_kind_name(w->kind),
			       filling_name(filling), first, first + n - 1);
		}
	for (uint32_t block = 0; block < n_blocks; block++)
		subject->kernels->decode_product(w, block, block + 1, &in.x, part, stride, subject->numerics);
	expect(same_bits(part, whole, MAX_ROWS * stride), "decode %s %s: block rows one by one differ",
	       pack_kind_name(w->kind), filling_name(filling));
	expect(guarded_intact(whole, bytes), "decode %s wrote beside y", pack_kind_name(w->kind));
	guarded_free(whole);
	guarded_free(part);
	inputs_free(&in);
}

/* Matrices of a model's own shapes: every number of rows, somewhere among the 32. */
static void test_counts(const struct subject *subject, const struct matrix *w)
{
	struct inputs in = inputs_new(subject, MAX_ROWS, w->cols, FILL_RANDOM);
	uint32_t n_blocks = (w->rows + PACK_ROWS - 1) / PACK_ROWS;
	size_t stride = w->rows, bytes = MAX_ROWS * stride * sizeof(float);
	float *alone = guarded_new(bytes), *part = guarded_new(bytes);

	for (uint32_t row = 0; row < MAX_ROWS; row++) {
		struct activations x = some_rows(&in, row, 1);
		subject->kernels->decode_product(w, 0, n_blocks, &x, alone + row * stride, stride, subject->numerics);
	}
	for (uint32_t n = 2; n <= MAX_ROWS; n++) {
		uint32_t first = random_bits() % (MAX_ROWS - n + 1);
		struct activations x = some_rows(&in, first, n);

		subject->kernels->decode_product(w, 0, n_blocks, &x, part, stride, subject->numerics);
		expect(same_bits(part, alone + first * stride, n * stride),
		       "decode %s %ux%u: rows %u..%u of 32 differ from each alone", pack_kind_name(w->kind), w->rows,
		       w->cols, first, first + n - 1);
	}
	expect(guarded_intact(part, bytes), "decode wrote beside y");
	guarded_free(alone);
	guarded_free(part);
	inputs_free(&in);
}

static void test_model_shapes(const struct subject *subject)
{
	static const uint32_t shapes[][2] = {{192, 576},  {576, 576},	{1536, 576},
					     {576, 1536}, {2048, 2048}, {77, 2080}};
	/* The plain loops of ref take long and know no widths. */
	size_t n = subject->level == CPU_LEVEL_REF ? 1 : sizeof shapes / sizeof shapes[0];

	for (size_t i = 0; i < n; i++)
		for (int kind = 0; kind < PACK_N_KINDS; kind++) {
			struct matrix w = matrix_new((enum pack_kind)kind, shapes[i][0], shapes[i][1], FILL_RANDOM);
			test_counts(subject, &w);
			matrix_free(&w);
		}
}

/* A NaN or an infinity in one row stays there. */
static void test_poison(const struct subject *subject, const struct matrix *w)
{
	enum { ROWS = 4 };
	struct inputs in = inputs_new(subject, ROWS, w->cols, FILL_RANDOM);
	uint32_t n_blocks = (w->rows + PACK_ROWS - 1) / PACK_ROWS;
	float *y = guarded_new(ROWS * w->rows * sizeof(float));

	in.values[w->cols + 7] = NAN;
	in.values[3 * w->cols - 1] = INFINITY;
	subject->kernels->prepare(&in.x, in.values, subject->numerics);
	subject->kernels->decode_product(w, 0, n_blocks, &in.x, y, w->rows, subject->numerics);
	for (uint32_t row = 0; row < w->rows; row++) {
		expect(isfinite(y[row]) && isfinite(y[3 * w->rows + row]), "decode %s: poison reached another row",
		       pack_kind_name(w->kind));
		expect(isnan(y[w->rows + row]) && !isfinite(y[2 * w->rows + row]), "decode %s: poison disappeared",
		       pack_kind_name(w->kind));
	}
	guarded_free(y);
	inputs_free(&in);
}

void test_decode(const struct subject *subject)
{
	static const uint32_t shapes[][2] = {{1, 32}, {15, 64}, {16, 96}, {17, 576}, {50, 160}, {130, 1536}};

	for (int filling = 0; filling < N_FILLINGS; filling++)
		test_prepare(subject, 96, (enum filling)filling);
	for (int kind = 0; kind < PACK_N_KINDS; kind++) {
		struct matrix w;

		for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
			for (int filling = 0; filling < N_FILLINGS; filling++) {
				w = matrix_new((enum pack_kind)kind, shapes[s][0], shapes[s][1], (enum filling)filling);
				test_values(subject, &w, (enum filling)filling);
				test_values(subject, &w, FILL_RANDOM);
				matrix_free(&w);
			}
		for (int filling = 0; filling < N_FILLINGS; filling++) {
			w = matrix_new((enum pack_kind)kind, 37, 224, (enum filling)filling);
			test_order(subject, &w, (enum filling)filling);
			matrix_free(&w);
		}
		w = matrix_new((enum pack_kind)kind, 37, 96, FILL_RANDOM);
		test_poison(subject, &w);
		matrix_free(&w);
	}
	test_model_shapes(subject);
}
