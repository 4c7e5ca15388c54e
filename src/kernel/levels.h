/* The functions of each level, for the tables in kernel.c and for the gemm. See kernel.h for what they compute. */
#ifndef WEIGHTD_KERNEL_LEVELS_H
#define WEIGHTD_KERNEL_LEVELS_H

#include "src/kernel/int8.h"
#include "src/kernel/kernel.h"

/* A part of a matrix that is expanded at once: block rows [block_begin, block_end) and groups [group_begin, group_end)
 * of columns, into a panel that is `n` columns wide (n >= 16 * the block rows; what is beyond them stays untouched). */
struct slab {
	uint32_t block_begin, block_end;
	uint32_t group_begin, group_end;
	size_t n;
};

static inline struct slab slab_of_panel(const struct matrix *w, uint32_t begin, uint32_t end)
{
	return (struct slab){begin, end, 0, w->cols / PACK_GROUP, (size_t)PACK_ROWS * (end - begin)};
}

/* expand_slab is expand_panel for a part of the columns: panel [k][n] or [k / 2][n][2], k counted from group_begin. */
#define KERNEL_LEVEL(level)                                                                                            \
	void prepare_##level(struct activations *a, const float *x, enum numerics numerics);                           \
	void decode_product_##level(const struct matrix *w, uint32_t begin, uint32_t end, const struct activations *x, \
				    float *y, size_t y_stride, enum numerics numerics);                                \
	void expand_slab_##level(const struct matrix *w, const struct slab *slab, void *panel,                         \
				 enum numerics numerics);                                                              \
	void expand_panel_##level(const struct matrix *w, uint32_t begin, uint32_t end, void *panel,                   \
				  enum numerics numerics);                                                             \
	void rms_norm_##level(float *y, const float *x, const float *weight, uint32_t n, float eps);                   \
	void layer_norm_##level(float *y, const float *x, const float *weight, const float *bias, uint32_t n,          \
				float eps);                                                                            \
	void rope_pairs_##level(float *x, const float *cos_sin, uint32_t n_heads, uint32_t head_dim,                   \
				uint32_t rope_dim);                                                                    \
	void rope_halves_##level(float *x, const float *cos_sin, uint32_t n_heads, uint32_t head_dim,                  \
				 uint32_t rope_dim);                                                                   \
	void swiglu_##level(float *y, const float *gate, const float *up, uint32_t n);                                 \
	void geglu_##level(float *y, const float *gate, const float *up, uint32_t n);                                  \
	void gelu_##level(float *y, const float *x, uint32_t n);                                                       \
	void add_##level(float *x, const float *y, uint32_t n);                                                        \
	void to_bf16_##level(uint16_t *y, const float *x, uint32_t n);                                                 \
	uint16_t to_int8_##level(int8_t *y, const float *x, uint32_t n);                                               \
	void low_rank_in_##level(const struct low_rank *m, uint32_t begin, uint32_t end, const float *const *x,        \
				 float *const *t, uint32_t n_rows);                                                    \
	void low_rank_out_##level(const struct low_rank *m, uint32_t begin, uint32_t end, const float *const *t,       \
				  float *const *y, uint32_t n_rows);                                                   \
	void attention_##level(const struct attention *a);                                                             \
	void attention_int8_##level(const struct attention *a)

void pack_block_row_avx2(enum pack_kind kind, void *block_row, const void *source, uint32_t n_rows, uint32_t cols);
void expand_row_ref(const struct matrix *w, uint32_t row, float *out); /* serves every level */

KERNEL_LEVEL(ref);
KERNEL_LEVEL(avx2);
KERNEL_LEVEL(avx512);

/* Of int8 numerics, which not every level has. */
#define KERNEL_INT8(level)                                                                                         \
	void int8_prepare_##level(const struct int8_rows *rows, uint32_t begin, uint32_t end, const float *x);     \
	void int8_product_##level(const struct matrix *w, uint32_t begin, uint32_t end, const struct int8_rows *x, \
				  float *y, size_t y_stride)

KERNEL_INT8(ref);
KERNEL_INT8(avx512);

#endif
