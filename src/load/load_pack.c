/* Filling an image from its files.
 *
 *   the kernel:   | reads of the chunks behind .................................
 *   this thread:  | take stretch 1 | pack | take stretch 2 | pack | ...
 *   the others:                    | pack |                | pack |
 *
 * A file is read in its order, by one thread, for which the kernel always has reads in flight (io/reader.h). What has
 * come is packed by all threads of a team, a block row at a time and whoever comes first, a few megabytes between two
 * meetings: enough that meeting costs nothing, and so little that most of the reader's window is in flight meanwhile.
 * So a load takes the longer one of reading and packing, not their sum.
 *
 * Rejected: threads that read for themselves (a file would be read in as many places, and what goes wrong first would
 * be a matter of chance); a queue between reading and packing (the kernel has one). */
#include "src/load/load_pack.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "numa/bind.h"
#include "src/clock.h"
#include "src/engine/family.h"
#include "src/engine/team.h"
#include "src/kernel/half.h"
#include "src/kernel/kernel.h"
#include "src/load/load_row.h"

enum {
	THREADS_MAX = 8, /* together they pack faster than a file system reads */
	STRETCH_BYTES = 4 << 20,
};

/* A whole block row of the widest matrix there may be comes in one view. */
static_assert(PACK_ROWS * FAMILY_MAX_COLS * sizeof(float) <= 16 << 20, "16 rows fit a view of the reader");

/* What the threads work on: rows of one matrix that lie in one view of its file. */
struct stretch {
	const unsigned char *rows; /* as the file has them */
	uint32_t first, n;	   /* block rows of the matrix */
	atomic_uint next;	   /* the first that no thread has taken; relaxed: the team's barriers order the rest */
	atomic_uint bad_row;	   /* the first of the matrix that can't be made its kind, UINT_MAX: none */
};

struct packer {
	struct load_files *files;
	char *image;
	const struct load_progress *progress;
	struct load_pace *pace;
	struct team *team;
	const struct kernels *kernels; /* the best of this CPU: all pack alike */
	/* The matrix at hand. */
	const struct model_source *source;
	const struct image_tensor *tensor;
	size_t row_bytes;    /* in the file */
	unsigned char *made; /* [threads] rows of the tensor's kind, and scratch; NULL if they are the file's. Owned */
	size_t made_bytes;   /* of a thread's */
	struct stretch stretch;
};

static void report(const struct packer *packer)
{
	packer->progress->report(packer->progress->context, load_files_offset(packer->files),
				 packer->files->source.size_bytes);
}

/* load_files_take, which waits for the file where it has to. */
static int take(struct packer *packer, const struct model_source *source, uint64_t offset, size_t n_bytes,
		const void **out, struct err *err)
{
	uint64_t begin_ns = clock_now_ns();
	int rc = load_files_take(packer->files, source->file, offset, n_bytes, out, err);
	packer->pace->wait_ns += clock_now_ns() - begin_ns;
	return rc;
}

static uint32_t rows_of_block_row(const struct image_tensor *tensor, uint32_t block_row)
{
	uint32_t row = block_row * PACK_ROWS;
	return tensor->rows - row < PACK_ROWS ? tensor->rows - row : PACK_ROWS;
}

/* The smaller one stays. */
static void note_bad_row(struct stretch *stretch, unsigned row)
{
	unsigned was = atomic_load_explicit(&stretch->bad_row, memory_order_relaxed);
	while (row < was && !atomic_compare_exchange_weak_explicit(&stretch->bad_row, &was, row, memory_order_relaxed,
								   memory_order_relaxed))
		;
}

/* Rows of the tensor's kind from those of the file. The first bad one of them ends it. */
static bool make_rows(struct packer *packer, const unsigned char *stored, uint32_t block_row, unsigned char *made)
{
	const struct image_tensor *tensor = packer->tensor;
	size_t made_bytes = pack_source_row_bytes(tensor->kind, tensor->cols);
	for (uint32_t i = 0; i < rows_of_block_row(tensor, block_row); i++)
		if (load_row_make(packer->source, tensor, block_row * PACK_ROWS + i, stored + i * packer->row_bytes,
				  made, made + load_row_scratch_bytes(tensor) + i * made_bytes)) {
			note_bad_row(&packer->stretch, block_row * PACK_ROWS + i);
			return false;
		}
	return true;
}

/* A team's job: block rows of the stretch, as long as there are some. */
static void pack_some(void *arg, unsigned thread)
{
	struct packer *packer = arg;
	struct stretch *stretch = &packer->stretch;
	const struct image_tensor *tensor = packer->tensor;
	unsigned char *made = packer->made ? packer->made + thread * packer->made_bytes : NULL;
	size_t scratch_bytes = made ? load_row_scratch_bytes(tensor) : 0;
	uint32_t i;
	while ((i = atomic_fetch_add_explicit(&stretch->next, 1, memory_order_relaxed)) < stretch->n) {
		uint32_t block_row = stretch->first + i;
		const unsigned char *rows = stretch->rows + (size_t)i * PACK_ROWS * packer->row_bytes;
		if (made && !make_rows(packer, rows, block_row, made))
			continue;
		packer->kernels->pack_block_row(
			tensor->kind,
			packer->image + tensor->offset + block_row * pack_block_row_bytes(tensor->kind, tensor->cols),
			made ? made + scratch_bytes : rows, rows_of_block_row(tensor, block_row), tensor->cols);
	}
}

static int check_rows(const struct packer *packer, struct err *err)
{
	struct err what;
	unsigned row = atomic_load_explicit(&packer->stretch.bad_row, memory_order_relaxed);
	if (row == UINT_MAX)
		return 0;
	err_set(&what, -EINVAL, "offset %" PRIu64 ": data: a number is infinite, NaN or too large to quantize",
		packer->source->offset + row * (uint64_t)packer->row_bytes);
	return load_files_blame(packer->files, packer->source->file, -EINVAL, &what, err);
}

/* Stretch after stretch: while the threads pack one, the kernel reads those behind it. */
static int pack_rows(struct packer *packer, struct err *err)
{
	const struct image_tensor *tensor = packer->tensor;
	uint32_t n_block_rows = tensor->rows / PACK_ROWS + (tensor->rows % PACK_ROWS != 0);
	size_t fit = STRETCH_BYTES / (PACK_ROWS * packer->row_bytes);
	uint32_t most = fit < 1 ? 1 : fit < n_block_rows ? (uint32_t)fit : n_block_rows, n;
	int rc = 0;
	for (uint32_t first = 0; first < n_block_rows && rc == 0; first += n) {
		n = n_block_rows - first < most ? n_block_rows - first : most;
		uint32_t row = first * PACK_ROWS,
			 n_rows = (n - 1) * PACK_ROWS + rows_of_block_row(tensor, first + n - 1);
		const void *rows = NULL;
		rc = take(packer, packer->source, packer->source->offset + row * (uint64_t)packer->row_bytes,
			  n_rows * packer->row_bytes, &rows, err);
		if (rc)
			return rc;
		packer->stretch = (struct stretch){.rows = rows, .first = first, .n = n, .bad_row = UINT_MAX};
		team_run(packer->team, pack_some, packer);
		rc = check_rows(packer, err);
		report(packer);
	}
	return rc;
}

static int pack_matrix(struct packer *packer, const struct model_source *source, const struct image_tensor *tensor,
		       struct err *err)
{
	packer->source = source;
	packer->tensor = tensor;
	packer->row_bytes = model_source_row_bytes(source, tensor);
	if (load_row_is_made(source, tensor)) {
		/* A multiple of 4, for the next thread's scratch. */
		packer->made_bytes =
			load_row_scratch_bytes(tensor) + PACK_ROWS * pack_source_row_bytes(tensor->kind, tensor->cols);
		packer->made = malloc(team_n_threads(packer->team) * packer->made_bytes);
		if (!packer->made)
			return err_set(err, -ENOMEM, "no memory for %d rows of %u numbers", PACK_ROWS, tensor->cols);
	}
	int rc = pack_rows(packer, err);
	free(packer->made);
	packer->made = NULL;
	return rc;
}

/* Vectors (norm weights) become float32, exactly; what is added to them is rounded once. */
static int widen_vector(struct packer *packer, const struct model_source *source, const struct image_tensor *tensor,
			struct err *err)
{
	const void *view = NULL;
	float *out = (float *)(void *)(packer->image + tensor->offset); /* 64-byte aligned by image_plan */
	int rc = take(packer, source, source->offset, source->bytes, &view, err);
	if (rc)
		return rc;
	const unsigned char *values = view;
	if (source->kind == PACK_F32)
		memcpy(out, values, source->bytes);
	for (uint32_t i = 0; i < tensor->cols && source->kind != PACK_F32; i++) {
		uint16_t half;
		memcpy(&half, values + 2 * (size_t)i, sizeof half);
		out[i] = source->kind == PACK_F16 ? f32_from_f16(half) : f32_from_bf16(half);
	}
	for (uint32_t i = 0; i < tensor->cols && source->add != 0; i++)
		out[i] += source->add;
	return 0;
}

/* What a tensor takes in the file, from the plan's side; the header's side was checked when it was parsed. */
static uint64_t expected_bytes(const struct model_source *source, const struct image_tensor *tensor)
{
	if (tensor->vector)
		return tensor->cols * (uint64_t)(source->kind == PACK_F32 ? 4 : 2);
	return tensor->rows * (uint64_t)model_source_row_bytes(source, tensor);
}

static int check_size(const struct load_files *files, const struct model_source *source,
		      const struct image_tensor *tensor, struct err *err)
{
	struct err what;
	uint64_t expected = expected_bytes(source, tensor);
	if (source->bytes == expected)
		return 0;
	err_set(&what, -EINVAL, "offset %" PRIu64 ": data: %" PRIu64 " bytes, expected %" PRIu64, source->offset,
		source->bytes, expected);
	return load_files_blame(files, source->file, -EINVAL, &what, err);
}

static int pack_all(struct packer *packer, const struct model_plan *plan, struct err *err)
{
	int rc = 0;
	for (uint32_t i = 0; i < plan->n_tensors && rc == 0; i++) {
		const struct model_source *source = &plan->sources[i];
		const struct image_tensor *tensor = &plan->tensors[i];
		rc = check_size(packer->files, source, tensor, err);
		if (rc == 0)
			rc = tensor->vector ? widen_vector(packer, source, tensor, err)
					    : pack_matrix(packer, source, tensor, err);
	}
	return rc;
}

/* A thread for each CPU that this one may run on, and on the same CPUs. */
static int start_team(struct team **out, struct err *err)
{
	struct idset cpus;
	int rc = bind_thread_read(&cpus, err);
	if (rc)
		return rc;
	unsigned n = idset_count(&cpus);
	return team_new(n < THREADS_MAX ? n : THREADS_MAX, 0, NULL, NULL, out, err);
}

int load_pack(struct load_files *files, const struct model_plan *plan, void *image,
	      const struct load_progress *progress, struct load_pace *pace, struct err *err)
{
	enum cpu_level level = kernels_detect();
	struct packer packer = {
		.files = files,
		.image = image,
		.progress = progress,
		.pace = pace,
		.kernels = kernels_get(level, kernels_numerics(level)),
	};
	int rc = start_team(&packer.team, err);
	if (rc)
		return rc;
	pace->n_threads = team_n_threads(packer.team);
	rc = pack_all(&packer, plan, err);
	team_free(packer.team);
	/* Padding behind the last tensor isn't read: the files are done. */
	if (rc == 0)
		progress->report(progress->context, files->source.size_bytes, files->source.size_bytes);
	return rc;
}
