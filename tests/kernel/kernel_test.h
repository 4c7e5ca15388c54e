/* What the kernel tests share: inputs that are random or hostile, buffers with guards, packed matrices of any kind, and
 * a count of failed expectations. */
#ifndef WEIGHTD_TESTS_KERNEL_TEST_H
#define WEIGHTD_TESTS_KERNEL_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/kernel/kernel.h"

/* The table under test. */
struct subject {
	enum cpu_level level;
	enum numerics numerics;
	const struct kernels *kernels;
	const struct kernels *ref;
};

/* Prints the first few failures and counts all. */
__attribute__((format(printf, 2, 3))) void expect(bool holds, const char *format, ...);
unsigned expect_failures(void);

uint32_t random_bits(void);
float random_float(float magnitude); /* uniform in -magnitude .. magnitude */

/* 64-byte aligned, with 64 bytes of a pattern before and after. The inside is filled with the pattern too. */
void *guarded_new(size_t bytes);
bool guarded_intact(const void *inside, size_t bytes);
bool guarded_untouched(const void *at, size_t bytes); /* still the pattern that guarded_new left inside */
void guarded_free(void *inside);

/* How weights or activations are made. */
enum filling {
	FILL_RANDOM,   /* weights and values around 1 */
	FILL_ZERO,     /* all codes and scales zero */
	FILL_EXTREME,  /* codes at both ends of their range, values of one magnitude: +-127, 0 and 15 */
	FILL_DENORMAL, /* denormal float16 scales, small values */
	FILL_LARGE,    /* the largest finite scales, values that just do not overflow */
	FILL_BYTES,    /* any bits at all: infinite and NaN scales, values and weights among them */
	N_FILLINGS,
};
const char *filling_name(enum filling filling);

/* A packed matrix in guarded memory, made from a random file form. `cols` is rounded up to whole blocks of the kind. */
struct matrix matrix_new(enum pack_kind kind, uint32_t rows, uint32_t cols, enum filling filling);
void matrix_free(struct matrix *w);

void fill_values(float *x, size_t n, enum filling filling);

bool same_bits(const float *a, const float *b, size_t n);

/* One function per source file: the tests of one part. */
void test_decode(const struct subject *subject);
void test_int8(const struct subject *subject);
void test_expand(const struct subject *subject);
void test_pack(const struct subject *subject);
void test_row(const struct subject *subject);
void test_attention(const struct subject *subject);
void test_attention_int8(const struct subject *subject);
void test_low_rank(const struct subject *subject);
void test_gemm(const struct subject *subject);

#endif
