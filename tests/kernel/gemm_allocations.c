/* A prefill product takes nothing from the heap that it does not give back, and nothing of ours at all: what remains is
 * what oneDNN's execute allocates for a call of a ukernel and frees before it returns. Counted by standing in for
 * malloc and free, so not under a sanitizer, which does the same. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/kernel/gemm.h"

#ifdef __has_feature /* clang's way of saying it */
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(SANITIZED)
int main(void)
{
	printf("SKIPPED: malloc cannot be counted under a sanitizer\n");
	return 77;
}
#else

/* The C library's own names for what this program takes the place of. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *p, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);
extern void __libc_free(void *p);

static bool counting;
static size_t n_allocations, n_frees;

void *malloc(size_t bytes)
{
	n_allocations += counting;
	return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
	n_allocations += counting;
	return __libc_calloc(n, bytes);
}

void *realloc(void *p, size_t bytes)
{
	n_allocations += counting;
	n_frees += counting && p;
	return __libc_realloc(p, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
	n_allocations += counting;
	return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
	n_allocations += counting;
	*out = __libc_memalign(alignment, bytes);
	return *out ? 0 : 12;
}

void free(void *p)
{
	n_frees += counting && p;
	__libc_free(p);
}

int main(void)
{
	enum { M = 100, ROWS = 200, COLS = 4096 };
	enum cpu_level level = kernels_detect();
	enum numerics numerics = kernels_numerics(level);
	struct matrix w = {.kind = PACK_Q4_0, .rows = ROWS, .cols = COLS};
	void *data = calloc(1, pack_matrix_bytes(w.kind, ROWS, COLS));
	void *a = aligned_alloc(64, (size_t)(M + 32) * COLS * sizeof(float));
	float *c = malloc((size_t)M * ROWS * sizeof *c);
	size_t n_calls = (size_t)4 * (M / 32 + 1) * (COLS / 1024); /* panels, blocks of rows, slabs: at most */
	struct gemm *gemm;
	struct err err;
	void *scratch;

	w.data = data;
	memset(a, 0, (size_t)(M + 32) * COLS * sizeof(float));
	if (gemm_new(level, numerics, &w, 1, &gemm, &err) < 0) {
		printf("%s\n", err.text);
		return 1;
	}
	scratch = aligned_alloc(64, gemm_scratch_bytes(gemm));
	counting = true;
	gemm_run(gemm, &w, 0, gemm_n_panels(&w), a, M, c, ROWS, scratch);
	counting = false;
	printf("%s: %zu allocations and %zu frees in at most %zu ukernel calls\n", cpu_level_name(level), n_allocations,
	       n_frees, n_calls);
	gemm_free(gemm);
	free(scratch);
	free(c);
	free(a);
	free(data);
	return n_allocations == n_frees && n_allocations <= (level == CPU_LEVEL_REF ? 0 : n_calls) ? 0 : 1;
}
#endif
