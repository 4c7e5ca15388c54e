/* Prefill products: against the definition, and a row's bits alone, in a full chunk and in every place of one. */
#include "src/kernel/gemm.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/kernel/half.h"
#include "tests/kernel/kernel_test.h"

enum { MAX_M = 512, READABLE = 32 };

static size_t element_bytes(const struct subject *subject)
{
	return subject->numerics == NUMERICS_BF16 ? sizeof(uint16_t) : sizeof(float);
}

/* [m + 32][cols] in the subject's numerics; the rows past m are NaN. */
static void *rows_new(const struct subject *subject, uint32_t m, uint32_t cols)
{
	size_t n = (size_t)m * cols, all = (size_t)(m + READABLE) * cols;
	void *a = guarded_new(all * element_bytes(subject));

	memset(a, 0xff, all * element_bytes(subject));
	for (size_t i = 0; i < n; i++) {
		float value = random_float(1.0f);
		if (subject->numerics == NUMERICS_BF16)
			((uint16_t *)a)[i] = bf16_from_f32(value);
		else
			((float *)a)[i] = value;
	}
	return a;
}

static const void *row_at(const struct subject *subject, const void *a, const struct matrix *w, uint32_t row)
{
	return (const uint8_t *)a + (size_t)row * w->cols * element_bytes(subject);
}

static float element(const struct subject *subject, const void *a, size_t i)
{
	return subject->numerics == NUMERICS_BF16 ? f32_from_bf16(((const uint16_t *)a)[i]) : ((const float *)a)[i];
}

struct run {
	const struct subject *subject;
	const struct gemm *gemm;
	void *scratch;
};

static void run_rows(const struct run *run, const struct matrix *w, const void *a, uint32_t m, float *c, size_t stride)
{
	gemm_run(run->gemm, w, 0, gemm_n_panels(w), a, m, c, stride, run->scratch);
}

/* Against sums in double of the same expanded weights. Rounding: one per addition of up to cols products. */
static void test_values(const struct run *run, const struct matrix *w, uint32_t m)
{
	size_t stride = w->rows + 3, bytes = m * stride * sizeof(float);
	void *a = rows_new(run->subject, m, w->cols);
	float *c = guarded_new(bytes), *weights = malloc(w->cols * sizeof *weights);

	run_rows(run, w, a, m, c, stride);
	for (uint32_t row = 0; row < w->rows; row++) {
		run->subject->ref->expand_row(w, row, weights);
		for (uint32_t r = 0; r < m; r++) {
			double exact = 0.0, magnitude = 0.0;
			for (uint32_t k = 0; k < w->cols; k++) {
				float weight = run->subject->numerics == NUMERICS_BF16 ? f32_round_bf16(weights[k])
										       : weights[k];
				double product =
					(double)weight * (double)element(run->subject, a, (size_t)r * w->cols + k);
				exact += product;
				magnitude += fabs(product);
			}
			expect(fabs((double)c[r * stride + row] - exact) <= (w->cols + 4) * 0x1p-24 * magnitude,
			       "gemm %s %ux%u m=%u: c[%u][%u] = %a, exactly %a", pack_kind_name(w->kind), w->rows,
			       w->cols, m, r, row, (double)c[r * stride + row], exact);
		}
	}
	for (uint32_t r = 0; r < m; r++)
		expect(guarded_untouched(c + r * stride + w->rows, 3 * sizeof(float)), "gemm m=%u wrote past column %u",
		       m, w->rows);
	expect(guarded_intact(c, bytes), "gemm m=%u wrote beside c", m);
	guarded_free(a);
	guarded_free(c);
	free(weights);
}

/* Every row of a chunk of 512 alone, and every chunk height at several places. */
static void test_order(const struct run *run, const struct matrix *w)
{
	size_t stride = w->rows;
	void *a = rows_new(run->subject, MAX_M, w->cols);
	float *whole = guarded_new(MAX_M * stride * sizeof(float)), *part = guarded_new(MAX_M * stride * sizeof(float));

	run_rows(run, w, a, MAX_M, whole, stride);
	for (uint32_t row = 0; row < MAX_M; row++) {
		run_rows(run, w, row_at(run->subject, a, w, row), 1, part, stride);
		expect(same_bits(part, whole + row * stride, stride), "gemm %ux%u: row %u of 512 differs alone",
		       w->rows, w->cols, row);
	}
	for (uint32_t m = 2; m <= 100; m++) {
		uint32_t row = random_bits() % (MAX_M - m);
		run_rows(run, w, row_at(run->subject, a, w, row), m, part, stride);
		expect(same_bits(part, whole + row * stride, m * stride), "gemm %ux%u: rows %u..%u of 512 differ alone",
		       w->rows, w->cols, row, row + m - 1);
	}
	for (uint32_t panel = 0; panel < gemm_n_panels(w); panel++)
		gemm_run(run->gemm, w, panel, panel + 1, a, MAX_M, part, stride, run->scratch);
	expect(same_bits(part, whole, MAX_M * stride), "gemm %ux%u: panels one by one differ", w->rows, w->cols);
	guarded_free(a);
	guarded_free(whole);
	guarded_free(part);
}

/* Matrices of a model's own shapes: products of 1, 2, ... 64 rows, each at both ends of the 512 and somewhere between.
 */
static void test_counts(const struct run *run, const struct matrix *w)
{
	enum { MAX_COUNT = 64 };
	size_t stride = w->rows;
	void *a = rows_new(run->subject, MAX_M, w->cols);
	float *whole = guarded_new(MAX_M * stride * sizeof(float)),
	      *part = guarded_new(MAX_COUNT * stride * sizeof(float));

	run_rows(run, w, a, MAX_M, whole, stride);
	for (uint32_t m = 1; m <= MAX_COUNT; m++) {
		uint32_t rows[] = {0, 1 + random_bits() % (MAX_M - m - 1), MAX_M - m};
		for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
			run_rows(run, w, row_at(run->subject, a, w, rows[i]), m, part, stride);
			expect(same_bits(part, whole + rows[i] * stride, m * stride),
			       "gemm %s %ux%u: rows %u..%u of 512 differ alone", pack_kind_name(w->kind), w->rows,
			       w->cols, rows[i], rows[i] + m - 1);
		}
	}
	expect(guarded_intact(part, MAX_COUNT * stride * sizeof(float)), "gemm wrote beside c");
	guarded_free(a);
	guarded_free(whole);
	guarded_free(part);
}

/* A row among others that are infinite, NaN or huge gives what it gives among tame ones. */
static void test_bad_company(const struct run *run, const struct matrix *w)
{
	enum { M = 33 };
	size_t stride = w->rows, row_bytes = w->cols * element_bytes(run->subject);
	float *tame = guarded_new(M * stride * sizeof(float)), *wild = guarded_new(M * stride * sizeof(float));
	void *a = rows_new(run->subject, M, w->cols);

	run_rows(run, w, a, M, tame, stride);
	for (uint32_t row = 0; row < M; row += 2) {
		uint8_t *bytes = (uint8_t *)a + row * row_bytes;
		/* 0xff..: NaN; 0x7f7f7f7f and 0x7f7f: about 3.4e38 in either format */
		memset(bytes, row % 4 ? 0xff : 0x7f, row_bytes);
	}
	run_rows(run, w, a, M, wild, stride);
	for (uint32_t row = 1; row < M; row += 2)
		expect(same_bits(tame + row * stride, wild + row * stride, stride),
		       "gemm %s %ux%u: row %u depends on its neighbours", pack_kind_name(w->kind), w->rows, w->cols,
		       row);
	guarded_free(a);
	guarded_free(tame);
	guarded_free(wild);
}

static void test_model_shapes(const struct subject *subject)
{
	/* SmolLM2's, one of a larger model, and odd ones: no multiple of a panel, of a block, of a slab; and whole
	 * panels of two equal slabs, and of four with a shorter last one (193 groups). */
	static const uint32_t shapes[][2] = {{192, 576},  {576, 576}, {1536, 576}, {576, 1536}, {2048, 2048},
					     {100, 1056}, {77, 2080}, {1, 4064},   {130, 4096}, {64, 6176}};
	enum { N = sizeof shapes / sizeof shapes[0] };
	/* The plain loops of ref take long and have one height for all: a small shape shows as much. */
	size_t n = subject->level == CPU_LEVEL_REF ? 1 : N;
	struct matrix w[N];
	struct gemm *gemm = NULL;
	struct err err = {""};

	for (size_t i = 0; i < n; i++)
		w[i] = matrix_new(i % 2 ? PACK_Q4_0 : PACK_Q4_1, shapes[i][0], shapes[i][1], FILL_RANDOM);
	expect(gemm_new(subject->level, subject->numerics, w, (uint32_t)n, &gemm, &err) == 0, "gemm_new: %s", err.text);
	for (size_t i = 0; i < n && gemm; i++) {
		struct run run = {subject, gemm, guarded_new(gemm_scratch_bytes(gemm))};
		test_counts(&run, &w[i]);
		test_bad_company(&run, &w[i]);
		guarded_free(run.scratch);
	}
	if (gemm)
		gemm_release_thread(gemm);
	gemm_free(gemm);
	for (size_t i = 0; i < n; i++)
		matrix_free(&w[i]);
}

static void test_kind(const struct subject *subject, enum pack_kind kind)
{
	/* One slab; two equal ones; slabs with a shorter last one (4064 / 32 is a prime number);
	 * slabs that end within a super-block (2304 is nine). */
	static const uint32_t shapes[][2] = {{64, 32}, {1, 64}, {130, 576}, {40, 4096}, {17, 4064}, {33, 2304}};
	enum { N = sizeof shapes / sizeof shapes[0] };
	struct matrix w[N];
	struct gemm *gemm = NULL;
	struct err err = {""};
	struct run run = {.subject = subject};
	size_t scratch_bytes;

	for (size_t i = 0; i < N; i++)
		w[i] = matrix_new(kind, shapes[i][0], shapes[i][1], FILL_RANDOM);
	expect(gemm_new(subject->level, subject->numerics, w, N, &gemm, &err) == 0, "gemm_new: %s", err.text);
	for (size_t i = 0; i < N && gemm; i++) {
		scratch_bytes = gemm_scratch_bytes(gemm);
		run.gemm = gemm;
		run.scratch = guarded_new(scratch_bytes);
		test_values(&run, &w[i], 1);
		test_values(&run, &w[i], 35);
		if (kind == PACK_Q4_1 &&
		    (subject->level != CPU_LEVEL_REF || w[i].cols <= 64)) /* plain loops take long */
			test_order(&run, &w[i]);
		expect(guarded_intact(run.scratch, scratch_bytes), "gemm wrote beside its scratch");
		guarded_free(run.scratch);
	}
	if (gemm)
		gemm_release_thread(gemm);
	gemm_free(gemm);
	for (size_t i = 0; i < N; i++)
		matrix_free(&w[i]);
}

static void test_refusals(const struct subject *subject)
{
	struct matrix odd = {NULL, PACK_Q4_0, 64, 48}, no_block = {NULL, PACK_Q4_K, 64, 288};
	struct gemm *gemm = NULL;
	struct err err = {""};

	expect(gemm_new(subject->level, subject->numerics, &odd, 1, &gemm, &err) == -EINVAL && err.text[0] && !gemm,
	       "gemm_new took 48 columns");
	expect(gemm_new(subject->level, subject->numerics, &no_block, 1, &gemm, &err) == -EINVAL && !gemm,
	       "gemm_new took 288 columns of q4_k");
	if (subject->level != CPU_LEVEL_REF)
		expect(gemm_new(subject->level, subject->numerics == NUMERICS_BF16 ? NUMERICS_F32 : NUMERICS_BF16, &odd,
				0, &gemm, &err) == -ENOTSUP &&
			       !gemm,
		       "gemm_new took numerics that its level does not serve");
	gemm_free(NULL);
}

void test_gemm(const struct subject *subject)
{
	for (int kind = 0; kind < PACK_N_KINDS; kind++)
		test_kind(subject, (enum pack_kind)kind);
	test_model_shapes(subject);
	test_refusals(subject);
}
