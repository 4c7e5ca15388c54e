#include "src/load/load_adapter.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/load/adapter_gguf.h"
#include "src/load/adapter_peft.h"
#include "src/kernel/half.h"
#include "src/kernel/kernel.h"
#include "io/page_cache.h"
#include "src/load/load_file.h"
#include "src/load/load_gguf.h"
#include "src/load/load_safetensors.h"

enum { CONFIG_MAX_BYTES = 16 << 20 };

/* One matrix to be read. */
struct piece {
	const struct adapter_entry *entry;
	const struct adapter_factor *factor;
	bool is_b;
};

struct load_adapter {
	struct image_config base;
	struct load_file file; /* the one with the values */
	struct adapter_plan plan;
	struct adapter_header header;
	/* While values are read: room for a row as floats, and for a block row (64-byte aligned). Owned. */
	float *row;
	void *packed;
};

/* --- opening ---------------------------------------------------------------------------------- */

static int plan_gguf(struct load_adapter *adapter, struct err *err)
{
	struct gguf gguf;
	int rc = load_gguf_header(&adapter->file, &gguf, err);
	if (rc)
		return rc;
	rc = adapter_gguf_plan(&gguf, &adapter->base, &adapter->plan, err);
	gguf_fini(&gguf);
	return rc;
}

/* All of adapter_config.json, as a file's prefix. */
static int read_config(int fd, enum io_backend backend, struct load_file *out, struct err *err)
{
	struct err what = {""};
	int rc = load_file_open(fd, backend, out, &what);
	if (rc == 0 && out->size_bytes > CONFIG_MAX_BYTES)
		rc = err_set(&what, -EINVAL, "%" PRIu64 " bytes, at most %d are possible", out->size_bytes,
			     CONFIG_MAX_BYTES);
	if (rc == 0)
		rc = load_file_prefix(out, out->size_bytes, &what);
	return rc ? err_set(err, rc, "adapter_config.json: %.220s", what.text) : 0;
}

static int read_weights(struct load_adapter *adapter, struct safetensors *out, struct err *err)
{
	struct err what = {""};
	int rc = load_safetensors_header(&adapter->file, out, &what);
	return rc ? err_set(err, rc, "adapter_model.safetensors: %.220s", what.text) : 0;
}

static int plan_peft(struct load_adapter *adapter, int config, enum io_backend backend, struct err *err)
{
	struct load_file beside = {0};
	struct safetensors weights;
	int rc = read_config(config, backend, &beside, err);
	if (rc == 0)
		rc = read_weights(adapter, &weights, err);
	if (rc == 0) {
		rc = adapter_peft_plan(beside.prefix, beside.size_bytes, &weights, &adapter->base, &adapter->plan, err);
		safetensors_fini(&weights);
	}
	load_file_close(&beside);
	return rc;
}

int load_adapter_open(const struct load_adapter_files *files, const struct image_config *base, enum io_backend backend,
		      struct load_adapter **out, struct err *err)
{
	struct load_adapter *adapter = calloc(1, sizeof *adapter);
	if (!adapter)
		return err_set(err, -ENOMEM, "no memory for an adapter");
	adapter->base = *base;
	int rc = load_file_open(files->gguf >= 0 ? files->gguf : files->weights, backend, &adapter->file, err);
	if (rc == 0)
		rc = files->gguf >= 0 ? plan_gguf(adapter, err) : plan_peft(adapter, files->config, backend, err);
	if (rc == 0)
		rc = adapter_image_plan(base, adapter->plan.entries, adapter->plan.n, &adapter->header, err);
	if (rc) {
		load_adapter_close(adapter);
		return rc;
	}
	*out = adapter;
	return 0;
}

void load_adapter_close(struct load_adapter *adapter)
{
	if (!adapter)
		return;
	load_file_close(&adapter->file);
	adapter_plan_fini(&adapter->plan);
	free(adapter->row);
	free(adapter->packed);
	free(adapter);
}

uint64_t load_adapter_bytes(const struct load_adapter *adapter)
{
	return adapter->header.image_bytes;
}

/* --- values ----------------------------------------------------------------------------------- */

static size_t row_bytes(const struct adapter_factor *factor)
{
	uint32_t plain = adapter_value_bytes(factor->kind);
	return plain ? factor->cols * plain : pack_source_row_bytes(factor->kind, (uint32_t)factor->cols);
}

/* adapter->row = a row of the file. */
static void expand(struct load_adapter *adapter, const struct adapter_factor *factor, const unsigned char *source)
{
	uint32_t cols = (uint32_t)factor->cols;
	if (factor->kind == PACK_F32) {
		memcpy(adapter->row, source, cols * sizeof *adapter->row);
	} else if (adapter_value_bytes(factor->kind)) {
		for (uint32_t i = 0; i < cols; i++) {
			uint16_t half;
			memcpy(&half, source + 2 * (size_t)i, sizeof half);
			adapter->row[i] = factor->kind == PACK_F16 ? f32_from_f16(half) : f32_from_bf16(half);
		}
	} else {
		const struct matrix w = {adapter->packed, factor->kind, PACK_ROWS, cols};
		pack_block_row(factor->kind, adapter->packed, source, 1, cols);
		kernels_get(CPU_LEVEL_REF, NUMERICS_F32)->expand_row(&w, 0, adapter->row);
	}
}

/* Values of a row of A lie side by side, those of a row of B sixteen apart (adapter_image.h). */
static void place(const struct load_adapter *adapter, const struct piece *piece, uint32_t row, const void *source,
		  char *image)
{
	const struct adapter_entry *e = piece->entry;
	uint32_t kind = piece->is_b ? e->b_kind : e->a_kind, n = adapter_value_bytes(kind);
	const char *values = adapter_value_bytes(piece->factor->kind) ? source : (const void *)adapter->row;
	if (!piece->is_b) {
		memcpy(image + e->a_offset + (size_t)row * e->cols * n, values, (size_t)e->cols * n);
		return;
	}
	uint32_t at = adapter_plan_row(&adapter->plan, &adapter->base, e, row);
	char *block = image + e->b_offset + (size_t)(at / PACK_ROWS) * e->rank * PACK_ROWS * n;
	for (uint32_t j = 0; j < e->rank; j++)
		memcpy(block + ((size_t)j * PACK_ROWS + at % PACK_ROWS) * n, values + (size_t)j * n, n);
}

static int read_piece(struct load_adapter *adapter, const struct piece *piece, char *image, struct err *err)
{
	const struct adapter_factor *factor = piece->factor;
	for (uint32_t row = 0; row < factor->rows; row++) {
		uint64_t offset = factor->offset + row * (uint64_t)row_bytes(factor);
		const void *source;
		int rc = load_file_take(&adapter->file, offset, row_bytes(factor), &source, err);
		if (rc)
			return rc;
		expand(adapter, factor, source);
		for (uint64_t i = 0; i < factor->cols; i++)
			if (!isfinite(adapter->row[i]))
				return err_set(err, -EINVAL,
					       "offset %" PRIu64 ": value %" PRIu64 " of this row is no finite number",
					       offset, i);
		place(adapter, piece, row, source, image);
	}
	return 0;
}

static int by_offset(const void *a, const void *b)
{
	uint64_t x = ((const struct piece *)a)->factor->offset, y = ((const struct piece *)b)->factor->offset;
	return (x > y) - (x < y);
}

/* The file is read from its beginning to its end, whatever the order of its tensors. */
static int read_values(struct load_adapter *adapter, char *image, struct err *err)
{
	const struct adapter_plan *plan = &adapter->plan;
	uint32_t n = 2 * plan->n;
	struct piece *pieces = calloc(n, sizeof *pieces);
	int rc = pieces ? 0 : err_set(err, -ENOMEM, "no memory for %u tensors", n);
	for (uint32_t i = 0; i < plan->n && rc == 0; i++) {
		pieces[2 * i] = (struct piece){&plan->entries[i], &plan->pairs[i].a, false};
		pieces[2 * i + 1] = (struct piece){&plan->entries[i], &plan->pairs[i].b, true};
	}
	if (rc == 0)
		qsort(pieces, n, sizeof *pieces, by_offset);
	for (uint32_t i = 0; i < n && rc == 0; i++)
		rc = read_piece(adapter, &pieces[i], image, err);
	free(pieces);
	return rc;
}

/* Room for the widest rows there are. */
static int make_room(struct load_adapter *adapter, struct err *err)
{
	size_t cols = 0, packed = 0;
	for (uint32_t i = 0; i < 2 * adapter->plan.n; i++) {
		const struct adapter_pair *pair = &adapter->plan.pairs[i / 2];
		const struct adapter_factor *factor = i % 2 ? &pair->b : &pair->a;
		size_t n = adapter_value_bytes(factor->kind)
				   ? 0
				   : pack_block_row_bytes(factor->kind, (uint32_t)factor->cols);
		cols = factor->cols > cols ? factor->cols : cols;
		packed = n > packed ? n : packed;
	}
	adapter->row = calloc(cols, sizeof *adapter->row);
	adapter->packed = aligned_alloc(64, (packed + 64) & ~(size_t)63);
	return adapter->row && adapter->packed ? 0 : err_set(err, -ENOMEM, "no memory for rows of %zu values", cols);
}

int load_adapter_write(struct load_adapter *adapter, void *image, struct err *err)
{
	const struct adapter_header *header = &adapter->header;
	int rc = make_room(adapter, err);
	if (rc == 0)
		rc = read_values(adapter, image, err);
	if (rc == 0)
		rc = load_file_unchanged(&adapter->file, err);
	page_cache_drop(adapter->file.fd);
	if (rc)
		return rc;
	memcpy(image, header, sizeof *header);
	memcpy((char *)image + header->entries_offset, adapter->plan.entries,
	       adapter->plan.n * sizeof *adapter->plan.entries);
	adapter_image_seal(image);
	return adapter_image_check(&adapter->base, image, header->image_bytes, err);
}
