/* Prefill products: C[m][n] = A[m][k] W[n][k]^T for many rows, through oneDNN's brgemm ukernel called from our own
 * pinned threads over panels of weights expanded in L2. At level `ref` plain loops take its place.
 *
 * A struct gemm is made once per worker before it is ready: it holds every ukernel that the model's matrix shapes need,
 * so that no call compiles, allocates or locks. Rows are processed in blocks of a fixed set of heights; a row's sum
 * runs over k in the same order in each of them. oneDNN's level follows ours (dnnl_set_max_cpu_isa, once per process).
 */
#ifndef WEIGHTD_KERNEL_GEMM_H
#define WEIGHTD_KERNEL_GEMM_H

#include <stdbool.h>

#include "src/err.h"
#include "src/kernel/kernel.h"

struct gemm; /* opaque, immutable after gemm_new, shared by the threads of one process */

enum { GEMM_PANEL_ROWS = 64 }; /* weight rows (outputs) per panel: the unit in which threads divide a product */

/* Makes the ukernels for all matrices of `w` [n]. Returns owned. -ENOTSUP when oneDNN lacks what the level needs,
 * -ENOMEM; `err` says which. */
int gemm_new(enum cpu_level level, enum numerics numerics, const struct matrix *w, uint32_t n, struct gemm **out,
	     struct err *err);
void gemm_free(struct gemm *gemm);

/* Private scratch that each thread brings to gemm_run, in bytes (64-byte aligned); the largest over all shapes. */
size_t gemm_scratch_bytes(const struct gemm *gemm);

uint32_t gemm_n_panels(const struct matrix *w);

/* Computes outputs of panels [begin, end) for `m` rows. `a` is [m][cols], float32 (NUMERICS_F32) or bfloat16
 * (NUMERICS_BF16), 64-byte aligned, and readable up to the next multiple of 32 rows (contents there do not matter).
 * `c` is [m][c_stride] float32; exactly rows 0..m-1 and columns of the panels below w->rows are written. */
void gemm_run(const struct gemm *gemm, const struct matrix *w, uint32_t begin, uint32_t end, const void *a, uint32_t m,
	      float *c, size_t c_stride, void *scratch);

/* What gemm_run does apart from expanding weights, for measuring its limit: `m` rows of `a`, a multiple of 32, times
 * the first panel and slab of `w`, `times` over, from where they were expanded once. `c` is [m][GEMM_PANEL_ROWS].
 * Returns the number of floating-point operations of one time. */
uint64_t gemm_run_expanded(const struct gemm *gemm, const struct matrix *w, uint32_t times, const void *a, uint32_t m,
			   float *c, void *scratch);

/* Whether oneDNN makes the products; at level ref it does not. */
bool gemm_is_library(const struct gemm *gemm);

/* Ends oneDNN's use of per-thread hardware state (AMX tiles); each thread calls it when it goes idle for long. */
void gemm_release_thread(const struct gemm *gemm);

#endif
