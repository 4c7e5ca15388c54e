/* How fast the kernels are on this machine, beside a plain read of the same memory in the same run.
 *
 *   bench_kernels [LEVEL [N_THREADS [KIND]]]    for example: bench_kernels avx512 2 q4_0
 *
 * Decode: GB/s of packed weights over a matrix much larger than the caches, for 1, 4, 8 and 32 rows. Prefill: TFLOPS
 * for a long chunk and for short tails. Threads are pinned to CPUs 0, 1, ... and divide block rows or panels among
 * them. */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "src/kernel/gemm.h"
#include "src/kernel/kernel.h"

enum { COLS = 2048, MAX_THREADS = 64, REPEATS = 7, MAX_M = 512 };
static const size_t MATRIX_BYTES = (size_t)384 << 20;

struct bench {
	const struct kernels *kernels;
	enum numerics numerics;
	const struct gemm *gemm;
	const struct matrix *w;
	const struct activations *x;
	const void *a;
	uint32_t m; /* 0: plain read; of prefill products otherwise */
	float *y;
	size_t y_stride;
	uint64_t sink[MAX_THREADS];
};

struct share {
	struct bench *bench;
	void (*work)(struct bench *bench, int thread, uint32_t n_threads);
	int thread;
	uint32_t n_threads;
};

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *allocate(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	madvise(p, bytes, MADV_HUGEPAGE);
	memset(p, 0, bytes);
	return p;
}

static void read_memory(struct bench *b, int thread, uint32_t n_threads)
{
	typedef uint64_t lane8 __attribute__((vector_size(64), aligned(64)));
	size_t n = pack_matrix_bytes(b->w->kind, b->w->rows, b->w->cols) / sizeof(lane8) / n_threads / 4 * 4;
	const lane8 *p = (const lane8 *)b->w->data + (size_t)thread * n;
	lane8 sum[4] = {0};

	for (size_t i = 0; i < n; i += 4)
		for (int j = 0; j < 4; j++)
			sum[j] ^= p[i + j];
	sum[0] ^= sum[1] ^ sum[2] ^ sum[3];
	b->sink[thread] = sum[0][0] ^ sum[0][7];
}

static void decode(struct bench *b, int thread, uint32_t n_threads)
{
	uint32_t n = b->w->rows / PACK_ROWS;
	b->kernels->decode_product(b->w, n * (uint32_t)thread / n_threads, n * (uint32_t)(thread + 1) / n_threads, b->x,
				   b->y, b->y_stride, b->numerics);
}

static void prefill(struct bench *b, int thread, uint32_t n_threads)
{
	uint32_t n = gemm_n_panels(b->w);
	void *scratch = aligned_alloc(64, gemm_scratch_bytes(b->gemm));
	gemm_run(b->gemm, b->w, n * (uint32_t)thread / n_threads, n * (uint32_t)(thread + 1) / n_threads, b->a, b->m,
		 b->y, b->y_stride, scratch);
	free(scratch);
}

static void *run_share(void *arg)
{
	struct share *share = arg;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(share->thread, &cpus);
	pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus);
	share->work(share->bench, share->thread, share->n_threads);
	return NULL;
}

/* Seconds of the best of several runs. */
static double measure(struct bench *b, uint32_t n_threads, void (*work)(struct bench *, int, uint32_t))
{
	double best = INFINITY;

	for (int repeat = 0; repeat < REPEATS; repeat++) {
		pthread_t ids[MAX_THREADS];
		struct share shares[MAX_THREADS];
		double start = now(), taken;

		for (uint32_t i = 0; i < n_threads; i++) {
			shares[i] = (struct share){b, work, (int)i, n_threads};
			if (pthread_create(&ids[i], NULL, run_share, &shares[i]) != 0)
				exit(1);
		}
		for (uint32_t i = 0; i < n_threads; i++)
			pthread_join(ids[i], NULL);
		taken = now() - start;
		if (taken < best)
			best = taken;
	}
	return best;
}

static void fill(uint8_t *bytes, size_t n)
{
	uint64_t seed = 1;
	for (size_t i = 0; i + 8 <= n; i += 8) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		memcpy(bytes + i, &seed, 8);
		bytes[i + 1] &= 0x1f; /* the places of float16 and bfloat16 exponents: nothing huge, infinite or NaN */
		bytes[i + 3] &= 0x1f;
		bytes[i + 5] &= 0x1f;
		bytes[i + 7] &= 0x1f;
	}
}

static void bench_decode(struct bench *b, uint32_t n_threads)
{
	static const uint32_t widths[] = {1, 2, 4, 8, 32};
	float *values = allocate((size_t)32 * COLS * sizeof *values);
	struct activations x = {
		.f32 = allocate((size_t)32 * COLS * sizeof(float)),
		.bf16 = allocate((size_t)32 * COLS * sizeof(uint16_t)),
		.group_sum = allocate((size_t)32 * COLS / PACK_GROUP * sizeof(float)),
		.half_sum = allocate((size_t)32 * COLS / 16 * sizeof(float)),
		.cols = COLS,
	};
	double bytes = (double)pack_matrix_bytes(b->w->kind, b->w->rows, b->w->cols);

	for (int i = 0; i < 32 * COLS; i++)
		values[i] = (float)(i * 37 % 255 - 127) * 0.01f;
	b->x = &x;
	printf("%-6s read %6.1f GB/s | decode", pack_kind_name(b->w->kind),
	       bytes / measure(b, n_threads, read_memory) / 1e9);
	for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
		x.n_rows = widths[i];
		b->kernels->prepare(&x, values, b->numerics);
		printf("  %u rows %5.1f", x.n_rows, bytes / measure(b, n_threads, decode) / 1e9);
	}
	printf(" GB/s\n");
	fflush(stdout);
	munmap(values, (size_t)32 * COLS * sizeof *values);
	munmap(x.f32, (size_t)32 * COLS * sizeof(float));
	munmap(x.bf16, (size_t)32 * COLS * sizeof(uint16_t));
	munmap(x.group_sum, (size_t)32 * COLS / PACK_GROUP * sizeof(float));
	munmap(x.half_sum, (size_t)32 * COLS / 16 * sizeof(float));
}

static void bench_prefill(struct bench *b, uint32_t n_threads)
{
	static const uint32_t heights[] = {1, 4, 8, 16, 24, 32, 64, 128, 512};
	double flops = 2.0 * b->w->rows * b->w->cols;

	printf("%-6s prefill TFLOPS:", pack_kind_name(b->w->kind));
	for (size_t i = 0; i < sizeof heights / sizeof heights[0]; i++) {
		b->m = heights[i];
		printf("  m=%u %.3f", b->m, flops * b->m / measure(b, n_threads, prefill) / 1e12);
		fflush(stdout);
	}
	printf("\n");
}

int main(int argc, char **argv)
{
	const char *level_name = argc > 1 ? argv[1] : cpu_level_name(kernels_detect());
	uint32_t n_threads = argc > 2 ? (uint32_t)atoi(argv[2]) : 1;
	struct bench b = {0};
	struct err err = {""};
	uint8_t *weights = allocate(MATRIX_BYTES);
	void *a = allocate((size_t)MAX_M * COLS * sizeof(float));
	enum cpu_level level = CPU_LEVEL_AVX512;

	while (level != CPU_LEVEL_REF && strcmp(cpu_level_name(level), level_name) != 0)
		level--;
	b.numerics = kernels_numerics(level);
	b.kernels = kernels_get(level, b.numerics);
	if (!b.kernels || n_threads < 1 || n_threads > MAX_THREADS) {
		fprintf(stderr, "usage: bench_kernels [LEVEL [N_THREADS [KIND]]], on a CPU that has the level\n");
		return 1;
	}
	fill(weights, MATRIX_BYTES);
	fill(a, (size_t)MAX_M * COLS * sizeof(float));
	for (int k = 0; k < PACK_N_KINDS; k++) {
		enum pack_kind kind = (enum pack_kind)k;
		uint32_t rows = (uint32_t)(MATRIX_BYTES / pack_block_row_bytes(kind, COLS) * PACK_ROWS);
		struct matrix w = {weights, kind, rows, COLS}, small = {weights, kind, 8192, COLS};
		struct gemm *gemm;

		if (argc > 3 && strcmp(argv[3], pack_kind_name(kind)) != 0)
			continue;
		b.w = &w;
		b.y_stride = rows;
		b.y = allocate((size_t)32 * rows * sizeof(float));
		bench_decode(&b, n_threads);
		munmap(b.y, (size_t)32 * rows * sizeof(float));
		if (gemm_new(level, b.numerics, &small, 1, &gemm, &err) < 0) {
			fprintf(stderr, "%s\n", err.text);
			return 1;
		}
		b.gemm = gemm;
		b.w = &small;
		b.a = a;
		b.y_stride = small.rows;
		b.y = allocate((size_t)MAX_M * small.rows * sizeof(float));
		bench_prefill(&b, n_threads);
		munmap(b.y, (size_t)MAX_M * small.rows * sizeof(float));
		gemm_free(gemm);
	}
	return 0;
}
