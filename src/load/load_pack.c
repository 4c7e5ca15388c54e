#include "src/load/load_pack.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/family.h"
#include "src/kernel/half.h"
#include "src/kernel/pack.h"
#include "src/kernel/quantize.h"

/* A whole block row of the widest matrix there may be comes in one view. */
static_assert(PACK_ROWS * FAMILY_MAX_COLS * sizeof(float) <= 16 << 20, "16 rows fit a view of the reader");

static void report(const struct load_files *files, const struct load_progress *progress)
{
	progress->report(progress->context, load_files_offset(files), files->source.size_bytes);
}

/* Rows as the tensor's kind has them: those of the file, or made from them in `made`, which is NULL if they are. */
static int make_rows(const struct load_files *files, const struct model_source *source, uint64_t offset,
		     const struct image_tensor *tensor, uint32_t n, unsigned char *made, const void **rows,
		     struct err *err)
{
	struct err what;
	const unsigned char *stored = *rows;
	size_t stored_bytes = pack_source_row_bytes(source->kind, tensor->cols);
	size_t made_bytes = pack_source_row_bytes(tensor->kind, tensor->cols);
	if (!made)
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		if (!quantize_row(source->kind, stored + i * stored_bytes, tensor->kind, made + i * made_bytes,
				  tensor->cols))
			continue;
		err_set(&what, -EINVAL, "offset %" PRIu64 ": data: a number is infinite, NaN or too large to quantize",
			offset + i * stored_bytes);
		return load_files_blame(files, source->file, -EINVAL, &what, err);
	}
	*rows = made;
	return 0;
}

static int pack_rows(struct load_files *files, const struct model_source *source, const struct image_tensor *tensor,
		     char *image, unsigned char *made, const struct load_progress *progress, struct err *err)
{
	enum pack_kind kind = tensor->kind;
	size_t row_bytes = pack_source_row_bytes(source->kind, tensor->cols);
	size_t block_row_bytes = pack_block_row_bytes(kind, tensor->cols);
	char *block_row = image + tensor->offset;
	uint64_t offset = source->offset;
	for (uint32_t row = 0; row < tensor->rows; row += PACK_ROWS) {
		uint32_t n = tensor->rows - row < PACK_ROWS ? tensor->rows - row : PACK_ROWS;
		const void *rows;
		int rc = load_files_take(files, source->file, offset, n * row_bytes, &rows, err);
		if (rc)
			return rc;
		rc = make_rows(files, source, offset, tensor, n, made, &rows, err);
		if (rc)
			return rc;
		pack_block_row(kind, block_row, rows, n, tensor->cols);
		block_row += block_row_bytes;
		offset += n * row_bytes;
		report(files, progress);
	}
	return 0;
}

static int pack_matrix(struct load_files *files, const struct model_source *source, const struct image_tensor *tensor,
		       char *image, const struct load_progress *progress, struct err *err)
{
	unsigned char *made = NULL;
	if (source->kind != tensor->kind) {
		made = malloc(PACK_ROWS * pack_source_row_bytes(tensor->kind, tensor->cols));
		if (!made)
			return err_set(err, -ENOMEM, "no memory for rows of %u numbers", tensor->cols);
	}
	int rc = pack_rows(files, source, tensor, image, made, progress, err);
	free(made);
	return rc;
}

/* Vectors (norm weights) become float32, exactly; what is added to them is rounded once. */
static int widen_vector(struct load_files *files, const struct model_source *source, const struct image_tensor *tensor,
			char *image, struct err *err)
{
	const unsigned char *values;
	float *out = (float *)(void *)(image + tensor->offset); /* 64-byte aligned by image_plan */
	int rc = load_files_take(files, source->file, source->offset, source->bytes, (const void **)&values, err);
	if (rc)
		return rc;
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
	return tensor->rows * (uint64_t)pack_source_row_bytes(source->kind, tensor->cols);
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

int load_pack(struct load_files *files, const struct model_plan *plan, void *image,
	      const struct load_progress *progress, struct err *err)
{
	for (uint32_t i = 0; i < plan->n_tensors; i++) {
		const struct model_source *source = &plan->sources[i];
		const struct image_tensor *tensor = &plan->tensors[i];
		int rc = check_size(files, source, tensor, err);
		if (rc == 0)
			rc = tensor->vector ? widen_vector(files, source, tensor, image, err)
					    : pack_matrix(files, source, tensor, image, progress, err);
		if (rc)
			return rc;
	}
	/* Padding behind the last tensor isn't read: the files are done. */
	progress->report(progress->context, files->source.size_bytes, files->source.size_bytes);
	return 0;
}
