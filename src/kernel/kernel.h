/* The numeric kernels: one table of functions, filled level by level, chosen once.
 *
 * Levels: `ref` is plain C written for the reader and is the definition of every operation; `avx2` needs AVX2, FMA and
 * F16C; `avx512` needs AVX-512 F/BW/VL/DQ, AVX512_VNNI and AVX512_BF16. A CPU with AVX-512 but without BF16 runs
 * `avx2`.
 *
 * Numerics. With NUMERICS_BF16 both operands of every weight product are rounded to bfloat16 where the hardware
 * multiplies bfloat16, and sums are float32. With NUMERICS_F32 nothing is rounded. `ref` serves both, `avx2` only F32,
 * `avx512` only BF16 (kernels_numerics says which a level takes by default). With NUMERICS_INT8 weights that have codes
 * are multiplied as int8.h says, by `ref` and by `avx512` where the CPU has VNNI and VBMI; all else is as without it
 * (kernels_plain). Conversions to bfloat16 agree bit for bit
 * between levels; products by the hardware treat denormal operands as zero.
 *
 * Order of sums. A row's result depends on the row, the matrix and the phase (decode or prefill) alone: never on how
 * many rows are computed together, on which block rows a thread takes, or on the thread count. Tests hold each level to
 * this bit for bit.
 *
 * No kernel allocates, locks or keeps state. Pointers are borrowed for the call. */
#ifndef WEIGHTD_KERNEL_KERNEL_H
#define WEIGHTD_KERNEL_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#include "src/kernel/int8.h"
#include "src/kernel/pack.h"

enum cpu_level { CPU_LEVEL_REF = 0, CPU_LEVEL_AVX2 = 1, CPU_LEVEL_AVX512 = 2 };
enum numerics { NUMERICS_F32 = 0, NUMERICS_BF16 = 1, NUMERICS_INT8 = 2 };
enum kv_type { KV_BF16 = 0, KV_INT8 = 1 }; /* how pages keep keys and values: kv_page.h, kv_int8.h */

/* Inputs of a decode product, prepared once and used for every matrix that multiplies them.
 * All arrays are 64-byte aligned; strides equal `cols`. */
struct activations {
	float *f32;	  /* [n_rows][cols]; with BF16 numerics: the rounded values */
	uint16_t *bf16;	  /* [n_rows][cols] bfloat16, set with BF16 numerics only */
	float *group_sum; /* [n_rows][cols / 32] sum of each group's (rounded) values, for formats with a minimum */
	float *half_sum;  /* [n_rows][cols / 16] the same of each half group, for formats that scale 16 columns */
	uint32_t n_rows;  /* 1..32 */
	uint32_t cols;	  /* a multiple of 32 */
};

enum { KV_PAGE_TOKENS = 32 }; /* positions per KV page; attention's order of sums is by page or by some pages */

/* Attention of one query row over one KV head. */
struct attention {
	const float *q;	      /* [n_q][head_dim]: the query heads that share this KV head, already rotated */
	float *out;	      /* [n_q][head_dim] */
	const void *const *k; /* [pages] -> this head's keys, as kv_page.h or kv_int8.h has them */
	const void *const *v; /* [pages] -> its values */
	uint32_t n_q;	      /* 1..32 */
	uint32_t head_dim;    /* a multiple of 16, at most 256 */
	uint32_t first_token; /* the window's first position; pages that end before it are not touched */
	uint32_t n_tokens;    /* end of the positions attended, above first_token; what the first and the last page hold
				 beside them is not read as values */
	float scale;	      /* of the products, mostly 1 / sqrt(head_dim) */
};

enum { LOW_RANK_ROWS = 4 }; /* activation rows that share the loads of an adapter's values */

/* A matrix of low rank that an adapter adds to a packed one: W + scale B A. */
struct low_rank {
	const void *a;		 /* [rank][cols], borrowed, read-only, 64-byte aligned, as is b */
	const void *b;		 /* [ceil(rows / 16)][rank][16]: blocks of 16 rows, the last one padded */
	uint32_t a_kind, b_kind; /* enum pack_kind: PACK_F32, PACK_F16 or PACK_BF16 */
	uint32_t rank;		 /* 0: there is none */
	uint32_t rows, cols;
	float scale;
};

struct kernels {
	enum cpu_level level;

	/* pack.h's function of this name, to the last bit. */
	void (*pack_block_row)(enum pack_kind kind, void *block_row, const void *source, uint32_t n_rows,
			       uint32_t cols);

	/* x [n_rows][cols] float32 -> what decode_product needs; `a` has its arrays, n_rows and cols set by the caller.
	 */
	void (*prepare)(struct activations *a, const float *x, enum numerics numerics);

	/* y[r][i] = sum_k W[i][k] * x[r][k] for the rows i of block rows [begin, end). y is [n_rows] with stride
	 * `y_stride` floats; rows past w->rows are not written. */
	void (*decode_product)(const struct matrix *w, uint32_t begin, uint32_t end, const struct activations *x,
			       float *y, size_t y_stride, enum numerics numerics);

	/* NUMERICS_INT8: rounds rows [begin, end) of x [n_rows][cols]; the others of their tiles stay as they are. */
	void (*int8_prepare)(const struct int8_rows *rows, uint32_t begin, uint32_t end, const float *x);

	/* NUMERICS_INT8: what decode_product does, for any number of rows and kinds that int8_takes. */
	void (*int8_product)(const struct matrix *w, uint32_t begin, uint32_t end, const struct int8_rows *x, float *y,
			     size_t y_stride);

	/* Expands block rows [begin, end) for a prefill product. BF16: panel is [cols / 2][n][2] bfloat16 with
	 * n = 16 * (end - begin) (VNNI pairs, as oneDNN's bf16 ukernel takes B); F32: [cols][n] float32. Padding rows
	 * give zeros. 64-byte aligned. */
	void (*expand_panel)(const struct matrix *w, uint32_t begin, uint32_t end, void *panel, enum numerics numerics);

	/* One row of the matrix as float32 [cols], exact: the embedding look-up. */
	void (*expand_row)(const struct matrix *w, uint32_t row, float *out);

	/* y[i] = x[i] / sqrt(mean(x^2) + eps) * weight[i]. y may be x. (Zhang and Sennrich, 2019) */
	void (*rms_norm)(float *y, const float *x, const float *weight, uint32_t n, float eps);

	/* y[i] = (x[i] - m) / sqrt(mean((x - m)^2) + eps) * weight[i] + bias[i], m = mean(x). y may be x. (Ba et al.,
	 * 2016) */
	void (*layer_norm)(float *y, const float *x, const float *weight, const float *bias, uint32_t n, float eps);

	/* Rotates pairs (2i, 2i + 1) of each head [n_heads][head_dim] in place by cos_sin [rope_dim / 2][2]; dimensions
	 * from rope_dim on are left alone. (Su et al., 2021; GGUF's llama order) */
	void (*rope_pairs)(float *x, const float *cos_sin, uint32_t n_heads, uint32_t head_dim, uint32_t rope_dim);

	/* Rotates (i, i + rope_dim / 2) instead, by cos_sin [2][rope_dim / 2]: all cosines, then all sines. (Wolf et
	 * al., 2020: the order of Hugging Face's files) */
	void (*rope_halves)(float *x, const float *cos_sin, uint32_t n_heads, uint32_t head_dim, uint32_t rope_dim);

	/* y[i] = silu(gate[i]) * up[i]. y may be gate. (Shazeer, 2020) */
	void (*swiglu)(float *y, const float *gate, const float *up, uint32_t n);

	/* y[i] = gelu(gate[i]) * up[i] with the tanh approximation of the normal distribution. y may be gate.
	 * (Hendrycks and Gimpel, 2016; Shazeer, 2020) */
	void (*geglu)(float *y, const float *gate, const float *up, uint32_t n);

	/* y[i] = x[i] times the share of the normal distribution below it, exactly. y may be x. (Hendrycks and Gimpel,
	 * 2016) */
	void (*gelu)(float *y, const float *x, uint32_t n);

	/* x[i] += y[i] */
	void (*add)(float *x, const float *y, uint32_t n);

	/* Round to nearest even; NaN stays NaN. */
	void (*to_bf16)(uint16_t *y, const float *x, uint32_t n);

	/* A key or value of one head as pages of int8 have it, y = H x / scale, -127 .. 127; returns the scale as
	 * bfloat16. n is a multiple of 16, at most 256. Every level gives the same bits. (kv_int8.h) */
	uint16_t (*to_int8)(int8_t *y, const float *x, uint32_t n);

	/* An adapter's two products, each for 1..LOW_RANK_ROWS rows given by pointers. Activations are float32 whatever
	 * the numerics, in both phases; a row's sums have one order, whatever the number of rows and the range.
	 *
	 * t[r][i] = sum_k A[i][k] * x[r][k] for i of [begin, end) */
	void (*low_rank_in)(const struct low_rank *m, uint32_t begin, uint32_t end, const float *const *x,
			    float *const *t, uint32_t n_rows);
	/* y[r][i] += scale * sum_j B[i][j] * t[r][j] for the rows i of block rows [begin, end) */
	void (*low_rank_out)(const struct low_rank *m, uint32_t begin, uint32_t end, const float *const *t,
			     float *const *y, uint32_t n_rows);

	/* softmax(scale * q k^T) v with a running maximum. BF16 where the hardware multiplies it: q and the softmax's
	 * weights are rounded, too. */
	void (*attention)(const struct attention *a);

	/* The same over pages of int8, which hold H k and H v. Queries and weights are rounded to 16 bits, whatever the
	 * numerics; what is multiplied are whole numbers, whose sums are exact. */
	void (*attention_int8)(const struct attention *a);
};

/* The highest level that this CPU and the operating system offer. */
enum cpu_level kernels_detect(void);

/* "ref", "avx2", "avx512". */
const char *cpu_level_name(enum cpu_level level);
/* "f32", "bf16", "int8". */
const char *numerics_name(enum numerics numerics);

/* The numerics a level serves when the operator says `auto`. */
enum numerics kernels_numerics(enum cpu_level level);

/* What weights without codes are multiplied in: `numerics`, or instead of NUMERICS_INT8 the level's own. */
enum numerics kernels_plain(enum cpu_level level, enum numerics numerics);

/* The table of a level: a static, immutable object. NULL where this CPU lacks the level, or where the level does not
 * serve `numerics`. */
const struct kernels *kernels_get(enum cpu_level level, enum numerics numerics);

#endif
