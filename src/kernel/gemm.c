/* The prefill product: who expands what, when, and in which order sums are made.
 *
 *   for each panel of 64 outputs                     a thread's share
 *     for each slab of at most 2048 (1024) columns   expand 64 x slab weights into scratch: 256 KiB, which stays in L2
 *       for each block of 64 rows of A               one ukernel call straight into C
 *       for what is left, up to 32 rows at a time    one ukernel call into a 32 x 64 tile, tile -> C
 *
 * A row's sum is made of one partial sum per slab, in order; inside a slab it is the ukernel's, which goes over k from
 * left to right whatever its height. So a row gives the same bits alone and in any company.
 *
 * The first slab's ukernel sets what it writes, those of later slabs add to it. A's and C's strides are compiled into a
 * ukernel, so those that write into C serve matrices of one shape, laid out as gemm_new was told, and whole blocks
 * only: one or two for each shape of matrix. The tile serves the rest, any number of rows, a last panel of fewer
 * outputs, any layout of C, with ukernels for the heights that are multiples of 4 up to 32, at all of which they run at
 * full speed: a tail takes the next height up, over rows that are readable but do not matter, and leaves them in the
 * tile. Each is 20 KiB of code.
 *
 * Rejected: oneDNN's matmul primitive (allocates, locks, brings its own threads), its `transform` (a second pass over
 * what expand_slab can write in order at once), the tile for all (two more passes over 256 bytes for every 2 * 64 * k
 * operations, which at k = 576 is a twentieth of the time). */
#include "src/kernel/gemm.h"

#include <assert.h>
#include <errno.h>
#include <oneapi/dnnl/dnnl_ukernel.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "src/kernel/half.h"
#include "src/kernel/levels.h"

enum {
	BLOCK_ROWS = 64, /* of C that a ukernel writes itself */
	TILE_ROWS = 32,
	HEIGHT_STEP = 4,
	N_HEIGHTS = TILE_ROWS / HEIGHT_STEP,
	SLAB_BYTES = 256 * 1024, /* of an expanded panel: a quarter of the smallest L2 among CPUs of the avx512 level */
	ALIGNMENT = 64,		 /* of scratch and of each part of it */
};

/* Rows of ukernel `i`. */
static uint32_t height_of(uint32_t i)
{
	return (i + 1) * HEIGHT_STEP;
}

/* The ukernels of a row's slabs, for one height and one stride of C. NULL at level ref, and where there is no such
 * slab.
 */
struct chain {
	dnnl_brgemm_t first; /* sets C */
	dnnl_brgemm_t inner; /* adds a slab of slab_cols, */
	dnnl_brgemm_t last;  /* and this one of last_cols; the same object as `inner` where the widths agree */
};

/* How matrices of one width are multiplied: n_slabs - 1 slabs of slab_cols columns, then one of last_cols. */
struct shape {
	uint32_t cols;
	uint32_t n_slabs;
	uint32_t slab_cols;
	uint32_t last_cols;
	struct chain tile[N_HEIGHTS];
};

/* Blocks of C for matrices of one width and one number of rows, which is C's stride. */
struct block {
	uint32_t cols;
	uint32_t rows;
	struct chain chain;
};

typedef void expand_slab_fn(const struct matrix *w, const struct slab *slab, void *panel, enum numerics numerics);

static expand_slab_fn *const expanders[] = {
	[CPU_LEVEL_REF] = expand_slab_ref,
	[CPU_LEVEL_AVX2] = expand_slab_avx2,
	[CPU_LEVEL_AVX512] = expand_slab_avx512,
};

struct gemm {
	enum cpu_level level;
	enum numerics numerics;
	expand_slab_fn *expand_slab;
	size_t element_bytes; /* of A and of panels */
	size_t panel_bytes;   /* scratch: panel, tile, oneDNN's own */
	size_t library_bytes;
	uint32_t n_shapes, n_blocks;
	struct block *blocks;  /* behind the shapes */
	struct shape shapes[]; /* one for each distinct number of columns */
};

enum { TILE_BYTES = TILE_ROWS * GEMM_PANEL_ROWS * sizeof(float) };

/* --- making ----------------------------------------------------------------------------------- */

/* oneDNN fixes its level at its first use in a process. It may use all that the CPU has for ours (AMX, where present,
 * is how such a CPU multiplies bfloat16), except that avx2 must not become anything wider. */
static int fix_library_level(enum cpu_level level, struct err *err)
{
	if (dnnl_set_primitive_cache_capacity(0) != dnnl_success)
		return err_set(err, -ENOTSUP, "oneDNN refused a primitive cache of size 0");
	if (level != CPU_LEVEL_AVX2)
		return 0;
	if (dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2) != dnnl_success &&
	    dnnl_get_effective_cpu_isa() != dnnl_cpu_isa_avx2)
		return err_set(err, -ENOTSUP, "oneDNN already runs at another level than avx2 in this process");
	return 0;
}

/* C [height][64 of c_stride] = A [height][cols, of which k] x panel [k][64], or += where it adds. */
struct call {
	uint32_t height, k, cols, c_stride;
	bool adds;
};

static int ukernel_status(dnnl_status_t status, const struct call *call, struct err *err)
{
	switch (status) {
	case dnnl_success:
		return 0;
	case dnnl_out_of_memory:
		return err_set(err, -ENOMEM, "oneDNN: out of memory for the %u x %u ukernel", call->height, call->k);
	default:
		return err_set(err, -ENOTSUP,
			       "oneDNN has no %u x %u x %u ukernel (strides %u and %u) for this level: status %d",
			       call->height, GEMM_PANEL_ROWS, call->k, call->cols, call->c_stride, (int)status);
	}
}

static int ukernel_new(struct gemm *gemm, const struct call *call, dnnl_brgemm_t *out, struct err *err)
{
	dnnl_data_type_t type = gemm->numerics == NUMERICS_BF16 ? dnnl_bf16 : dnnl_f32;
	dnnl_pack_type_t expected = gemm->numerics == NUMERICS_BF16 ? dnnl_pack_type_pack32 : dnnl_pack_type_no_trans;
	dnnl_pack_type_t pack_type = dnnl_pack_type_undef;
	dnnl_brgemm_t ukernel = NULL;
	size_t scratch_bytes = 0;
	dnnl_status_t status;

	status = dnnl_brgemm_create(&ukernel, call->height, GEMM_PANEL_ROWS, call->k, 1, call->cols, GEMM_PANEL_ROWS,
				    call->c_stride, type, type, dnnl_f32);
	if (status == dnnl_success)
		status = dnnl_brgemm_set_add_C(ukernel, call->adds);
	if (status == dnnl_success)
		status = dnnl_brgemm_finalize(ukernel);
	if (status == dnnl_success)
		status = dnnl_brgemm_get_B_pack_type(ukernel, &pack_type);
	if (status == dnnl_success && pack_type != expected)
		status = dnnl_unimplemented;
	if (status == dnnl_success)
		status = dnnl_brgemm_get_scratchpad_size(ukernel, &scratch_bytes);
	if (status == dnnl_success)
		status = dnnl_brgemm_generate(ukernel);
	if (status != dnnl_success) {
		dnnl_brgemm_destroy(ukernel);
		return ukernel_status(status, call, err);
	}
	if (scratch_bytes > gemm->library_bytes)
		gemm->library_bytes = scratch_bytes;
	*out = ukernel;
	return 0;
}

static int chain_new(struct gemm *gemm, const struct shape *shape, uint32_t height, uint32_t c_stride,
		     struct chain *chain, struct err *err)
{
	struct call call = {.height = height, .k = shape->slab_cols, .cols = shape->cols, .c_stride = c_stride};
	int rc = ukernel_new(gemm, &call, &chain->first, err);

	call.adds = true;
	if (rc == 0 && (shape->n_slabs > 2 || (shape->n_slabs == 2 && shape->last_cols == shape->slab_cols)))
		rc = ukernel_new(gemm, &call, &chain->inner, err);
	if (shape->last_cols == shape->slab_cols) {
		chain->last = chain->inner;
		return rc;
	}
	call.k = shape->last_cols;
	return rc == 0 ? ukernel_new(gemm, &call, &chain->last, err) : rc;
}

static void chain_free(struct chain *chain)
{
	if (chain->last != chain->inner)
		dnnl_brgemm_destroy(chain->last);
	dnnl_brgemm_destroy(chain->inner);
	dnnl_brgemm_destroy(chain->first);
}

/* Equal slabs where the width allows it without making them much smaller: then one set of ukernels serves them all. */
static void shape_divide(struct shape *shape, uint32_t largest_slab_cols)
{
	uint32_t n_groups = shape->cols / PACK_GROUP;
	uint32_t fewest = (shape->cols + largest_slab_cols - 1) / largest_slab_cols;
	uint32_t n_slabs = fewest;
	uint32_t groups_per_slab;

	while (n_groups % n_slabs != 0 && n_slabs < 2 * fewest)
		n_slabs++;
	if (n_groups % n_slabs != 0)
		n_slabs = fewest;
	groups_per_slab = (n_groups + n_slabs - 1) / n_slabs;
	shape->slab_cols = groups_per_slab * PACK_GROUP;
	shape->n_slabs = (n_groups + groups_per_slab - 1) / groups_per_slab;
	shape->last_cols = shape->cols - (shape->n_slabs - 1) * shape->slab_cols;
}

static const struct shape *find_shape(const struct gemm *gemm, uint32_t cols)
{
	for (uint32_t i = 0; i < gemm->n_shapes; i++)
		if (gemm->shapes[i].cols == cols)
			return &gemm->shapes[i];
	return NULL;
}

static const struct block *find_block(const struct gemm *gemm, uint32_t cols, uint32_t rows)
{
	for (uint32_t i = 0; i < gemm->n_blocks; i++)
		if (gemm->blocks[i].cols == cols && gemm->blocks[i].rows == rows)
			return &gemm->blocks[i];
	return NULL;
}

static int add_shape(struct gemm *gemm, uint32_t cols, struct err *err)
{
	uint32_t largest_slab_cols = (uint32_t)(SLAB_BYTES / GEMM_PANEL_ROWS / gemm->element_bytes);
	struct shape *shape = &gemm->shapes[gemm->n_shapes];
	size_t panel_bytes;
	int rc = 0;

	shape->cols = cols;
	shape_divide(shape, largest_slab_cols);
	gemm->n_shapes++; /* from here on gemm_free knows it */
	panel_bytes = (size_t)shape->slab_cols * GEMM_PANEL_ROWS * gemm->element_bytes;
	if (panel_bytes > gemm->panel_bytes)
		gemm->panel_bytes = panel_bytes;
	for (uint32_t i = 0; i < N_HEIGHTS && rc == 0 && gemm->level != CPU_LEVEL_REF; i++)
		rc = chain_new(gemm, shape, height_of(i), GEMM_PANEL_ROWS, &shape->tile[i], err);
	return rc;
}

static int add_block(struct gemm *gemm, uint32_t cols, uint32_t rows, struct err *err)
{
	struct block *block = &gemm->blocks[gemm->n_blocks++];

	block->cols = cols;
	block->rows = rows;
	return chain_new(gemm, find_shape(gemm, cols), BLOCK_ROWS, rows, &block->chain, err);
}

static int add_matrix(struct gemm *gemm, const struct matrix *w, struct err *err)
{
	int rc = 0;

	if (w->cols == 0 || w->cols % pack_block_cols(w->kind) != 0 || pack_block_row_bytes(w->kind, w->cols) == 0)
		return err_set(err, -EINVAL, "a matrix of kind %d with %u columns has no packed form", (int)w->kind,
			       w->cols);
	if (!find_shape(gemm, w->cols))
		rc = add_shape(gemm, w->cols, err);
	if (rc == 0 && gemm->level != CPU_LEVEL_REF && w->rows >= GEMM_PANEL_ROWS &&
	    !find_block(gemm, w->cols, w->rows))
		rc = add_block(gemm, w->cols, w->rows, err);
	return rc;
}

int gemm_new(enum cpu_level level, enum numerics numerics, const struct matrix *w, uint32_t n, struct gemm **out,
	     struct err *err)
{
	struct gemm *gemm;
	int rc = 0;

	if (!kernels_get(level, numerics))
		return err_set(err, -ENOTSUP, "this CPU and build have no %s kernels with %s numerics",
			       cpu_level_name(level), numerics == NUMERICS_BF16 ? "bf16" : "f32");
	gemm = calloc(1, sizeof *gemm + n * (sizeof gemm->shapes[0] + sizeof gemm->blocks[0]));
	if (!gemm)
		return err_set(err, -ENOMEM, "out of memory for the prefill kernels of %u matrices", n);
	gemm->blocks = (struct block *)&gemm->shapes[n];
	gemm->level = level;
	gemm->numerics = numerics;
	gemm->expand_slab = expanders[level];
	gemm->element_bytes = numerics == NUMERICS_BF16 ? sizeof(uint16_t) : sizeof(float);
	if (level != CPU_LEVEL_REF)
		rc = fix_library_level(level, err);
	for (uint32_t i = 0; i < n && rc == 0; i++)
		rc = add_matrix(gemm, &w[i], err);
	if (rc < 0) {
		gemm_free(gemm);
		return rc;
	}
	*out = gemm;
	return 0;
}

void gemm_free(struct gemm *gemm)
{
	if (!gemm)
		return;
	for (uint32_t i = 0; i < gemm->n_shapes * N_HEIGHTS; i++)
		chain_free(&gemm->shapes[i / N_HEIGHTS].tile[i % N_HEIGHTS]);
	for (uint32_t i = 0; i < gemm->n_blocks; i++)
		chain_free(&gemm->blocks[i].chain);
	free(gemm);
}

/* --- running ---------------------------------------------------------------------------------- */

size_t gemm_scratch_bytes(const struct gemm *gemm)
{
	return gemm->panel_bytes + TILE_BYTES + (gemm->library_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

uint32_t gemm_n_panels(const struct matrix *w)
{
	return w->rows / GEMM_PANEL_ROWS + (w->rows % GEMM_PANEL_ROWS != 0);
}

/* What one slab sets or adds to some rows of a panel of C. */
struct step {
	const struct gemm *gemm;
	const struct shape *shape;
	const struct chain *block; /* NULL: C is not what the blocks' ukernels take */
	const uint8_t *a;	   /* row 0 at the slab's first column */
	size_t a_stride;	   /* elements */
	uint32_t slab;
	uint32_t k; /* its columns */
	void *panel;
	float *tile; /* [TILE_ROWS][GEMM_PANEL_ROWS] */
	void *library_scratch;
	float *c; /* row 0 at the panel's first column */
	size_t c_stride;
	uint32_t n_columns; /* of C in this panel, 1..64 */
};

static const void *a_row(const struct step *step, uint32_t row)
{
	return step->a + row * step->a_stride * step->gemm->element_bytes;
}

/* The ukernels of level ref. */
static void multiply_ref(const struct step *step, uint32_t m)
{
	const uint16_t *pairs = step->panel;
	const float *values = step->panel;

	for (uint32_t row = 0; row < m; row++)
		for (uint32_t column = 0; column < step->n_columns; column++) {
			const uint16_t *a_half = a_row(step, row);
			const float *a_f32 = a_row(step, row);
			float *c = step->c + row * step->c_stride + column, sum = 0.0f;
			for (size_t i = 0; i < step->k; i++) {
				if (step->gemm->numerics == NUMERICS_BF16)
					sum += f32_from_bf16(a_half[i]) *
					       f32_from_bf16(pairs[(i / 2 * GEMM_PANEL_ROWS + column) * 2 + i % 2]);
				else
					sum += a_f32[i] * values[i * GEMM_PANEL_ROWS + column];
			}
			*c = step->slab == 0 ? sum : *c + sum;
		}
}

static void multiply(const struct step *step, const struct chain *chain, uint32_t row, float *c)
{
	static const dnnl_dim_t offsets[2] = {0, 0}; /* one batch element: A's and B's offset */
	dnnl_brgemm_t ukernel = step->slab == 0				 ? chain->first
				: step->slab + 1 == step->shape->n_slabs ? chain->last
									 : chain->inner;
	dnnl_status_t status;

	/* With AMX this loads the ukernel's tile configuration, unless it is there already. Elsewhere it does nothing.
	 */
	status = dnnl_brgemm_set_hw_context(ukernel);
	assert(status == dnnl_success);
	status = dnnl_brgemm_execute(ukernel, a_row(step, row), step->panel, offsets, c, step->library_scratch);
	assert(status == dnnl_success); /* fails only on arguments that are not ours to get wrong */
	(void)status;
}

/* Up to TILE_ROWS rows by way of the tile. */
static void step_run_tile(const struct step *step, uint32_t row, uint32_t n_rows)
{
	size_t c_row_bytes = step->n_columns * sizeof(float);
	float *c = step->c + row * step->c_stride;

	for (uint32_t i = 0; i < n_rows && step->slab > 0; i++)
		memcpy(step->tile + i * GEMM_PANEL_ROWS, c + i * step->c_stride, c_row_bytes);
	multiply(step, &step->shape->tile[(n_rows - 1) / HEIGHT_STEP], row, step->tile);
	for (uint32_t i = 0; i < n_rows; i++)
		memcpy(c + i * step->c_stride, step->tile + i * GEMM_PANEL_ROWS, c_row_bytes);
}

static void step_run(const struct step *step, uint32_t m)
{
	uint32_t row = 0;

	if (step->gemm->level == CPU_LEVEL_REF) {
		multiply_ref(step, m);
		return;
	}
	if (step->block && step->n_columns == GEMM_PANEL_ROWS)
		for (; m - row >= BLOCK_ROWS; row += BLOCK_ROWS)
			multiply(step, step->block, row, step->c + row * step->c_stride);
	for (; row < m; row += TILE_ROWS)
		step_run_tile(step, row, m - row < TILE_ROWS ? m - row : TILE_ROWS);
}

/* The part of a step that is the same for all of a product's. */
static struct step step_of(const struct gemm *gemm, const struct matrix *w, float *c, size_t c_stride, void *scratch)
{
	uint8_t *panel = scratch, *tile = panel + gemm->panel_bytes; /* panel_bytes is a multiple of 64 */
	const struct block *block = c_stride == w->rows ? find_block(gemm, w->cols, w->rows) : NULL;
	const struct shape *shape = find_shape(gemm, w->cols);

	assert(shape); /* gemm_new was given all matrices */
	return (struct step){
		.gemm = gemm,
		.shape = shape,
		.block = block ? &block->chain : NULL,
		.a_stride = w->cols,
		.c = c,
		.c_stride = c_stride,
		.panel = panel,
		.tile = (float *)tile,
		.library_scratch = tile + TILE_BYTES,
	};
}

/* Expands slab `s` of panel `p` into scratch, and makes the step one over it. */
static void step_expand(struct step *step, const struct matrix *w, uint32_t p, uint32_t s, const void *a)
{
	enum { BLOCKS_PER_PANEL = GEMM_PANEL_ROWS / PACK_ROWS };
	const struct gemm *gemm = step->gemm;
	const struct shape *shape = step->shape;
	uint32_t n_blocks = w->rows / PACK_ROWS + (w->rows % PACK_ROWS != 0);
	uint32_t block_end = (p + 1) * BLOCKS_PER_PANEL, rows_left = w->rows - p * GEMM_PANEL_ROWS;
	uint32_t last = s + 1 == shape->n_slabs, k_begin = s * shape->slab_cols;
	struct slab slab = {
		.block_begin = p * BLOCKS_PER_PANEL,
		.block_end = block_end < n_blocks ? block_end : n_blocks,
		.group_begin = k_begin / PACK_GROUP,
		.n = GEMM_PANEL_ROWS,
	};

	step->n_columns = rows_left < GEMM_PANEL_ROWS ? rows_left : GEMM_PANEL_ROWS;
	step->k = last ? shape->last_cols : shape->slab_cols;
	step->a = (const uint8_t *)a + k_begin * gemm->element_bytes;
	step->slab = s;
	slab.group_end = slab.group_begin + step->k / PACK_GROUP;
	gemm->expand_slab(w, &slab, step->panel, gemm->numerics);
}

void gemm_run(const struct gemm *gemm, const struct matrix *w, uint32_t begin, uint32_t end, const void *a, uint32_t m,
	      float *c, size_t c_stride, void *scratch)
{
	struct step step = step_of(gemm, w, c, c_stride, scratch);

	for (uint32_t p = begin; p < end; p++) {
		step.c = c + p * GEMM_PANEL_ROWS;
		for (uint32_t s = 0; s < step.shape->n_slabs; s++) {
			step_expand(&step, w, p, s, a);
			step_run(&step, m);
		}
	}
}

uint64_t gemm_run_expanded(const struct gemm *gemm, const struct matrix *w, uint32_t times, const void *a, uint32_t m,
			   float *c, void *scratch)
{
	struct step step = step_of(gemm, w, c, GEMM_PANEL_ROWS, scratch);

	step_expand(&step, w, 0, 0, a);
	/* c lies as the tile does. */
	for (uint32_t i = 0; i < times && gemm->level != CPU_LEVEL_REF; i++)
		for (uint32_t row = 0; row < m; row += TILE_ROWS)
			multiply(&step, &step.shape->tile[N_HEIGHTS - 1], row, c + row * GEMM_PANEL_ROWS);
	for (uint32_t i = 0; i < times && gemm->level == CPU_LEVEL_REF; i++)
		multiply_ref(&step, m);
	return 2 * (uint64_t)m * step.n_columns * step.k;
}

bool gemm_is_library(const struct gemm *gemm)
{
	return gemm->level != CPU_LEVEL_REF;
}

void gemm_release_thread(const struct gemm *gemm)
{
	if (gemm->level != CPU_LEVEL_REF)
		dnnl_brgemm_release_hw_context();
}
