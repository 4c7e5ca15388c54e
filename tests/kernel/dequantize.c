/* For test_dequantize.py, which holds the definition against PyPI's gguf:
 *
 *   dequantize KIND ROWS COLS
 *
 * reads a matrix in the file's form and a vector of COLS float32, and writes the matrix as float32, row by row
 * (expand_row), then the products of the rows with the vector (decode_product), all by level ref without rounding. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/kernel/kernel.h"

static void *allocate(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
	if (!p)
		abort();
	return p;
}

static void *read_all(size_t bytes)
{
	void *p = allocate(bytes);
	if (fread(p, 1, bytes, stdin) != bytes) {
		fprintf(stderr, "dequantize: the input ends before %zu bytes\n", bytes);
		exit(1);
	}
	return p;
}

static void write_all(const float *values, size_t n)
{
	if (fwrite(values, sizeof *values, n, stdout) != n) {
		perror("dequantize");
		exit(1);
	}
}

static struct matrix read_matrix(enum pack_kind kind, uint32_t rows, uint32_t cols)
{
	size_t row_bytes = pack_source_row_bytes(kind, cols), block_row_bytes = pack_block_row_bytes(kind, cols);
	uint8_t *source = read_all(rows * row_bytes), *packed = allocate(pack_matrix_bytes(kind, rows, cols));

	for (uint32_t row = 0; row < rows; row += PACK_ROWS)
		pack_block_row(kind, packed + row / PACK_ROWS * block_row_bytes, source + row * row_bytes,
			       rows - row < PACK_ROWS ? rows - row : PACK_ROWS, cols);
	free(source);
	return (struct matrix){packed, kind, rows, cols};
}

static void multiply(const struct kernels *kernels, const struct matrix *w)
{
	float *values = read_all(w->cols * sizeof *values), *y = allocate(w->rows * sizeof *y);
	struct activations x = {
		.f32 = allocate(w->cols * sizeof(float)),
		.group_sum = allocate(w->cols / PACK_GROUP * sizeof(float)),
		.half_sum = allocate(w->cols / (PACK_GROUP / 2) * sizeof(float)),
		.n_rows = 1,
		.cols = w->cols,
	};

	kernels->prepare(&x, values, NUMERICS_F32);
	kernels->decode_product(w, 0, (w->rows + PACK_ROWS - 1) / PACK_ROWS, &x, y, w->rows, NUMERICS_F32);
	write_all(y, w->rows);
	free(values);
	free(y);
	free(x.f32);
	free(x.group_sum);
	free(x.half_sum);
}

int main(int argc, char **argv)
{
	const struct kernels *kernels = kernels_get(CPU_LEVEL_REF, NUMERICS_F32);
	enum pack_kind kind = PACK_F32;

	while (argc == 4 && kind < PACK_N_KINDS && strcmp(argv[1], pack_kind_name(kind)) != 0)
		kind++;
	if (argc != 4 || kind == PACK_N_KINDS || atoi(argv[2]) < 1 || atoi(argv[3]) < 1 ||
	    (uint32_t)atoi(argv[3]) % pack_block_cols(kind) != 0) {
		fprintf(stderr, "usage: dequantize KIND ROWS COLS, COLS whole blocks of the kind\n");
		return 2;
	}
	struct matrix w = read_matrix(kind, (uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]));
	float *row_values = allocate(w.cols * sizeof *row_values);
	for (uint32_t row = 0; row < w.rows; row++) {
		kernels->expand_row(&w, row, row_values);
		write_all(row_values, w.cols);
	}
	multiply(kernels, &w);
	free(row_values);
	free((void *)(uintptr_t)w.data);
	return 0;
}
