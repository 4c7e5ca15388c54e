#include "tests/kernel/kernel_test.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64, PATTERN = 0xa5 };

static unsigned failures;
static uint64_t seed = 0x2545f4914f6cdd1d;

void expect(bool holds, const char *format, ...)
{
	va_list args;

	if (holds)
		return;
	if (failures++ >= 20)
		return;
	printf("FAILED: ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
}

unsigned expect_failures(void)
{
	return failures;
}

uint32_t random_bits(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 32);
}

float random_float(float magnitude)
{
	return magnitude * ((float)(random_bits() >> 8) * 0x1p-23f - 1.0f);
}

void *guarded_new(size_t bytes)
{
	size_t whole = (bytes + 2 * GUARD + 63) / 64 * 64;
	uint8_t *memory = aligned_alloc(64, whole);

	if (!memory)
		abort();
	memset(memory, PATTERN, whole);
	return memory + GUARD;
}

bool guarded_untouched(const void *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (((const uint8_t *)at)[i] != PATTERN)
			return false;
	return true;
}

bool guarded_intact(const void *inside, size_t bytes)
{
	return guarded_untouched((const uint8_t *)inside - GUARD, GUARD) &&
	       guarded_untouched((const uint8_t *)inside + bytes, GUARD);
}

void guarded_free(void *inside)
{
	if (inside)
		free((uint8_t *)inside - GUARD);
}

const char *filling_name(enum filling filling)
{
	static const char *const names[N_FILLINGS] = {"random", "zero", "extreme", "denormal", "large", "bytes"};
	return names[filling];
}

static void put_u16(uint8_t *at, uint16_t value)
{
	memcpy(at, &value, sizeof value);
}

static uint16_t scale_bits(enum filling filling)
{
	uint16_t sign = (uint16_t)(random_bits() & 0x8000);

	switch (filling) {
	case FILL_ZERO:
		return 0;
	case FILL_DENORMAL:
		return sign | (uint16_t)(random_bits() % 0x400);
	case FILL_LARGE:
		return sign | 0x7bff;
	case FILL_BYTES:
		return (uint16_t)random_bits();
	default:
		return sign | (uint16_t)(0x2000 + random_bits() % 0x1000); /* about 0.01 to 0.1 */
	}
}

static uint8_t code_byte(enum filling filling, bool nibbles)
{
	static const uint8_t extremes[] = {0x00, 0x0f, 0xf0, 0xff, 0x88, 0x7f, 0x80, 0x81};

	if (filling == FILL_ZERO)
		return nibbles ? 0x88 : 0;
	return filling == FILL_EXTREME ? extremes[random_bits() % sizeof extremes] : (uint8_t)random_bits();
}

/* Where a block in the file has its second float16 (a minimum or dmin) and its first; -1 where there is none. */
struct halves {
	int d, second;
};

static struct halves halves_of(enum pack_kind kind)
{
	switch (kind) {
	case PACK_Q4_1:
	case PACK_Q5_1:
	case PACK_Q4_K:
	case PACK_Q5_K:
		return (struct halves){0, 2};
	case PACK_Q2_K:
		return (struct halves){80, 82};
	case PACK_Q3_K:
		return (struct halves){108, -1};
	case PACK_Q6_K:
		return (struct halves){208, -1};
	default:
		return (struct halves){0, -1};
	}
}

/* One block's weights of one row as the file has them. */
static void fill_block(enum pack_kind kind, uint8_t *block, enum filling filling)
{
	size_t bytes = pack_source_row_bytes(kind, pack_block_cols(kind));
	struct halves halves = halves_of(kind);

	switch (kind) {
	case PACK_F32:
		fill_values((float *)(void *)block, PACK_GROUP, filling);
		return;
	case PACK_F16:
		for (size_t i = 0; i < bytes; i += 2)
			put_u16(block + i, scale_bits(filling));
		return;
	case PACK_BF16:
		for (size_t i = 0; i < bytes; i += 2) {
			float value;
			uint32_t bits;
			fill_values(&value, 1, filling);
			memcpy(&bits, &value, sizeof bits);
			put_u16(block + i, (uint16_t)(bits >> 16));
		}
		return;
	default:
		for (size_t i = 0; i < bytes; i++)
			block[i] = code_byte(filling, kind != PACK_Q8_0);
		put_u16(block + halves.d, scale_bits(filling));
		if (halves.second >= 0)
			put_u16(block + halves.second, scale_bits(filling));
	}
}

struct matrix matrix_new(enum pack_kind kind, uint32_t rows, uint32_t cols, enum filling filling)
{
	uint32_t block_cols = pack_block_cols(kind);
	cols = (cols + block_cols - 1) / block_cols * block_cols;
	size_t row_bytes = pack_source_row_bytes(kind, cols), block_bytes = pack_source_row_bytes(kind, block_cols);
	size_t block_row_bytes = pack_block_row_bytes(kind, cols);
	uint8_t *source = aligned_alloc(64, (PACK_ROWS * row_bytes + 63) / 64 * 64);
	uint8_t *packed = guarded_new(pack_matrix_bytes(kind, rows, cols));

	if (!source)
		abort();
	for (uint32_t row = 0; row < rows; row += PACK_ROWS) {
		uint32_t n_rows = rows - row < PACK_ROWS ? rows - row : PACK_ROWS;
		for (size_t at = 0; at < n_rows * row_bytes; at += block_bytes)
			fill_block(kind, source + at, filling);
		pack_block_row(kind, packed + row / PACK_ROWS * block_row_bytes, source, n_rows, cols);
	}
	free(source);
	return (struct matrix){packed, kind, rows, cols};
}

void matrix_free(struct matrix *w)
{
	expect(guarded_intact(w->data, pack_matrix_bytes(w->kind, w->rows, w->cols)), "bytes beside a matrix changed");
	guarded_free((void *)(uintptr_t)w->data);
}

void fill_values(float *x, size_t n, enum filling filling)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t bits = random_bits();
		switch (filling) {
		case FILL_ZERO:
			x[i] = 0.0f;
			break;
		case FILL_EXTREME:
			x[i] = bits & 1 ? 127.0f : -127.0f;
			break;
		case FILL_DENORMAL:
			x[i] = bits & 7 ? random_float(1e-30f) : random_float(FLT_MIN / 2);
			break;
		case FILL_LARGE:
			x[i] = random_float(1e15f);
			break;
		case FILL_BYTES:
			memcpy(&x[i], &bits, sizeof bits);
			break;
		default:
			x[i] = random_float(1.0f) * ldexpf(1.0f, (int)(bits % 8) - 4);
			break;
		}
	}
}

bool same_bits(const float *a, const float *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (memcmp(&a[i], &b[i], sizeof a[i]) != 0 && !(isnan(a[i]) && isnan(b[i])))
			return false;
	return true;
}
