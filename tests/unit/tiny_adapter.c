#include "tests/unit/tiny_adapter.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/family.h"
#include "src/kernel/half.h"

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

/* Values of up to 0.3 that float16 and bfloat16 hold exactly. */
static void random_values(uint32_t kind, char *at, size_t n, uint32_t *state)
{
	for (size_t i = 0; i < n; i++) {
		float value = ((float)(next_random(state) % 255) - 127) / 512;
		uint16_t half = kind == PACK_BF16 ? bf16_from_f32(value) : 0;
		if (kind == PACK_F16 && value != 0) { /* normal numbers of eight bits: as float32, with another bias */
			uint32_t bits = f32_bits(value);
			half = (uint16_t)((bits >> 16 & 0x8000) | ((bits >> 23 & 0xff) - 112) << 10 |
					  (bits >> 13 & 0x3ff));
		}
		if (kind == PACK_F32)
			memcpy(at + 4 * i, &value, 4);
		else
			memcpy(at + 2 * i, &half, 2);
	}
}

static float value_at(uint32_t kind, const void *values, size_t i)
{
	uint16_t half;
	if (kind == PACK_F32)
		return ((const float *)values)[i];
	memcpy(&half, (const char *)values + 2 * i, 2);
	return kind == PACK_F16 ? f32_from_f16(half) : f32_from_bf16(half);
}

static uint32_t plan(const struct tiny_model *tiny, const struct tiny_adapter_spec *spec, struct adapter_entry *entries)
{
	const struct image_config *c = &tiny->model.config;
	uint32_t n = 0;
	for (uint32_t layer = 0; layer < c->n_layers; layer++)
		for (unsigned of = 0; of < ADAPTER_N_PRODUCTS; of++) {
			struct family_tensor base;
			if (!(spec->products & 1u << of))
				continue;
			family_tensor(c, (uint32_t)family_tensor_index(c, adapter_role(of), layer), &base);
			entries[n++] = (struct adapter_entry){
				.role = base.role,
				.layer = layer,
				.rows = base.rows,
				.cols = base.cols,
				.rank = spec->rank + of,
				.scale = spec->scale,
				.a_kind = spec->kind,
				.b_kind = (spec->kind + 1) % 3,
			};
		}
	return n;
}

void *tiny_adapter_image(const struct tiny_model *tiny, const struct tiny_adapter_spec *spec, uint64_t *bytes)
{
	struct adapter_entry entries[8 * ADAPTER_N_PRODUCTS];
	struct adapter_header header;
	uint32_t n = plan(tiny, spec, entries), state = spec->seed;
	struct err err = {""};
	int rc = adapter_image_plan(&tiny->model.config, entries, n, &header, &err);
	if (rc)
		fprintf(stderr, "%s\n", err.text);
	assert(!rc);
	(void)rc;
	char *image = aligned_alloc(64, header.image_bytes);
	assert(image);
	memset(image, 0, header.image_bytes);
	memcpy(image, &header, sizeof header);
	memcpy(image + header.entries_offset, entries, n * sizeof *entries);
	for (uint32_t i = 0; i < n; i++) {
		const struct adapter_entry *e = &entries[i];
		/* Rows of B past the last are in the last block, and stay zero by being a whole number of blocks here.
		 */
		assert(e->rows % PACK_ROWS == 0);
		random_values(e->a_kind, image + e->a_offset, (size_t)e->rank * e->cols, &state);
		random_values(e->b_kind, image + e->b_offset, (size_t)e->rank * e->rows, &state);
	}
	adapter_image_seal(image);
	*bytes = header.image_bytes;
	return image;
}

struct adapter *tiny_adapter_new(const struct tiny_model *tiny, const struct tiny_adapter_spec *spec)
{
	struct adapter *adapter = NULL;
	struct err err = {""};
	uint64_t bytes;
	void *image = tiny_adapter_image(tiny, spec, &bytes);
	int rc = adapter_attach(&tiny->model, image, bytes, free, image, &adapter, &err);
	if (rc)
		fprintf(stderr, "%s\n", err.text);
	assert(!rc);
	(void)rc;
	return adapter;
}

static void merge(struct matrix *w, const struct low_rank *m)
{
	size_t block_row = pack_block_row_bytes(w->kind, w->cols);
	float *rows = malloc(PACK_ROWS * w->cols * sizeof *rows);
	const struct kernels *ref = kernels_get(CPU_LEVEL_REF, NUMERICS_F32);
	assert(rows && w->kind == PACK_F32);
	for (uint32_t first = 0; first < w->rows && m->rank; first += PACK_ROWS) {
		for (uint32_t i = 0; i < PACK_ROWS; i++)
			ref->expand_row(w, first + i, rows + (size_t)i * w->cols);
		for (uint32_t i = 0; i < PACK_ROWS; i++)
			for (uint32_t k = 0; k < w->cols; k++) {
				double sum = 0;
				for (uint32_t j = 0; j < m->rank; j++)
					sum += (double)value_at(m->b_kind, m->b,
								((size_t)first * m->rank + (size_t)j * PACK_ROWS) + i) *
					       (double)value_at(m->a_kind, m->a, (size_t)j * m->cols + k);
				rows[(size_t)i * w->cols + k] += (float)((double)m->scale * sum);
			}
		pack_block_row(w->kind, (char *)(uintptr_t)w->data + first / PACK_ROWS * block_row, rows, PACK_ROWS,
			       w->cols);
	}
	free(rows);
}

void tiny_adapter_merge(struct tiny_model *tiny, const struct adapter *adapter)
{
	for (uint32_t i = 0; i < tiny->model.config.n_layers; i++) {
		struct model_layer *l = &tiny->model.layers[i];
		struct matrix *const all[ADAPTER_N_PRODUCTS] = {
			&l->attn_q, &l->attn_k, &l->attn_v, &l->attn_output, &l->ffn_gate, &l->ffn_up, &l->ffn_down,
		};
		for (int of = 0; of < ADAPTER_N_PRODUCTS; of++)
			merge(all[of], &adapter->layers[i].products[of]);
	}
}
