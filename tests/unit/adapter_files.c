#include "tests/unit/adapter_files.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/engine/family.h"
#include "src/kernel/half.h"
#include "tests/unit/gguf_builder.h"

const struct image_config adapter_files_base = {
	.family = IMAGE_FAMILY_LLAMA,
	.n_layers = 2,
	.dim = 64,
	.n_heads = 4,
	.n_kv_heads = 2,
	.head_dim = 16,
	.ffn_dim = 96,
	.vocab = 100,
	.context = 128,
	.rope_dim = 16,
	.rope_base = 10000,
	.norm_eps = 1e-5f,
	.tied_head = 1,
	.embedding_scale = 1,
	.attention_scale = 0.25f,
	.rope_pairing = IMAGE_ROPE_PAIRS,
};

float adapter_files_value(uint32_t layer, enum adapter_product product, char factor, uint32_t row, uint32_t col)
{
	uint32_t x = ((layer * 8 + (uint32_t)product) * 2 + (factor == 'B')) * 1009 + row * 131 + col * 17;
	return ((float)(x * 2654435761u >> 25) - 64) / 64;
}

uint32_t adapter_files_pair_row(uint32_t row)
{
	uint32_t head = row / 16, in_head = row % 16;
	return head * 16 + (in_head < 8 ? 2 * in_head : 2 * (in_head - 8) + 1);
}

/* --- tensors ---------------------------------------------------------------------------------- */

struct tensor {
	char name[128];
	uint32_t layer, rows, cols, type;
	enum adapter_product product;
	char factor;
};

static uint32_t list(const struct adapter_spec *spec, bool gguf, struct tensor *out)
{
	uint32_t n = 0;
	for (uint32_t layer = 0; layer < adapter_files_base.n_layers; layer++)
		for (int product = 0; product < ADAPTER_N_PRODUCTS; product++) {
			struct family_tensor base;
			char name[FAMILY_NAME_BYTES];
			enum image_role role = adapter_role((enum adapter_product)product);
			if (!(spec->products & 1u << product))
				continue;
			family_tensor(&adapter_files_base,
				      (uint32_t)family_tensor_index(&adapter_files_base, role, layer), &base);
			(gguf ? family_tensor_name : family_tensor_hf_name)(&base, name);
			if (!gguf)
				*strstr(name, ".weight") = '\0';
			for (int b = 0; b < 2; b++) {
				struct tensor *t = &out[n++];
				*t = (struct tensor){.layer = layer,
						     .rows = b ? base.rows : spec->rank,
						     .cols = b ? spec->rank : base.cols,
						     .type = spec->type == GGUF_TENSOR_Q8_0 && b ? GGUF_TENSOR_F32
												 : spec->type,
						     .product = (enum adapter_product)product,
						     .factor = b ? 'B' : 'A'};
				if (gguf)
					snprintf(t->name, sizeof t->name, "%s.lora_%c", name, b ? 'b' : 'a');
				else
					snprintf(t->name, sizeof t->name, "base_model.model.%s.lora_%c.weight", name,
						 t->factor);
			}
		}
	for (uint32_t i = 0; spec->backwards && i < n / 2; i++) {
		struct tensor t = out[i];
		out[i] = out[n - 1 - i];
		out[n - 1 - i] = t;
	}
	return n;
}

static uint16_t f16_of(float value)
{
	uint32_t bits = f32_bits(value); /* values are 0 or normal numbers of few bits */
	return value == 0
		       ? 0
		       : (uint16_t)((bits >> 16 & 0x8000) | ((bits >> 23 & 0xff) - 112) << 10 | (bits >> 13 & 0x3ff));
}

/* A row's bytes; returns how many. Q8_0: blocks of 32 with a scale of 1/64. */
static size_t put_row(uint32_t type, const float *row, uint32_t cols, uint8_t *out)
{
	uint8_t *at = out;
	for (uint32_t i = 0; i < cols; i++) {
		uint16_t half = type == GGUF_TENSOR_BF16 ? bf16_from_f32(row[i]) : f16_of(row[i]);
		if (type == GGUF_TENSOR_Q8_0 && i % 32 == 0) {
			half = f16_of(1.0f / 64);
			memcpy(at, &half, 2);
			at += 2;
		}
		if (type == GGUF_TENSOR_Q8_0) {
			*at++ = (uint8_t)(int8_t)(row[i] * 64);
		} else if (type == GGUF_TENSOR_F32) {
			memcpy(at, &row[i], 4);
			at += 4;
		} else {
			memcpy(at, &half, 2);
			at += 2;
		}
	}
	return (size_t)(at - out);
}

/* All of a tensor's bytes; returns how many. */
static size_t put_tensor(const struct tensor *t, bool pairs, uint8_t *out)
{
	float row[128];
	size_t row_bytes = put_row(t->type, memset(row, 0, sizeof row), t->cols, out);
	bool rotated = pairs && t->factor == 'B' && (t->product == ADAPTER_Q || t->product == ADAPTER_K);
	for (uint32_t i = 0; i < t->rows; i++) {
		for (uint32_t j = 0; j < t->cols; j++)
			row[j] = adapter_files_value(t->layer, t->product, t->factor, i, j);
		put_row(t->type, row, t->cols, out + row_bytes * (rotated ? adapter_files_pair_row(i) : i));
	}
	return row_bytes * t->rows;
}

/* --- files ------------------------------------------------------------------------------------ */

int adapter_files_put(const void *bytes, size_t n_bytes)
{
	int fd = memfd_create("adapter", MFD_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, bytes, n_bytes), (ssize_t)n_bytes);
	return fd;
}

struct load_adapter_files adapter_files_gguf(const struct adapter_spec *spec)
{
	static struct tensor tensors[4 * ADAPTER_N_PRODUCTS];
	static struct gguf_builder b;
	uint32_t n = list(spec, true, tensors);
	builder_init(&b, 3);
	builder_string(&b, "general.type", "adapter");
	builder_string(&b, "adapter.type", "lora");
	builder_string(&b, "general.architecture", "llama");
	builder_f32(&b, "adapter.lora.alpha", 8);
	for (uint32_t i = 0; i < n; i++)
		builder_tensor(&b, tensors[i].name, tensors[i].type, 2, (uint64_t[]){tensors[i].cols, tensors[i].rows});
	builder_data(&b);
	size_t at = (b.header_bytes + 31) & ~(size_t)31; /* the default alignment */
	for (uint32_t i = 0; i < n; i++)
		at = (at + put_tensor(&tensors[i], true, b.bytes + at) + 31) & ~(size_t)31;
	struct load_adapter_files files = {adapter_files_put(b.bytes, b.n), -1, -1};
	builder_fini(&b);
	return files;
}

struct load_adapter_files adapter_files_peft(const struct adapter_spec *spec)
{
	static struct tensor tensors[4 * ADAPTER_N_PRODUCTS];
	static uint8_t data[1 << 20];
	static char header[1 << 16];
	static const char *const types[] = {[GGUF_TENSOR_F32] = "F32", [GGUF_TENSOR_F16] = "F16", [30] = "BF16"};
	char config[2048];
	uint32_t n = list(spec, false, tensors);
	size_t at = 0, n_header = 8;
	for (uint32_t i = 0; i < n; i++) {
		const struct tensor *t = &tensors[i];
		size_t end = at + put_tensor(t, false, data + at);
		n_header += (size_t)snprintf(header + n_header, sizeof header - n_header,
					     "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%u,%u],\"data_offsets\":[%zu,%zu]}",
					     i ? "," : "{", t->name, types[t->type], t->rows, t->cols, at, end);
		at = end;
	}
	header[n_header++] = '}';
	memcpy(header, &(uint64_t){n_header - 8}, 8);
	int weights = adapter_files_put(header, n_header);
	ck_assert_int_eq(write(weights, data, at), (ssize_t)at);
	int n_config = snprintf(config, sizeof config, "{\"peft_type\":\"LORA\",\"r\":%u,\"lora_alpha\":8%s%s}",
				spec->rank, spec->config ? "," : "", spec->config ? spec->config : "");
	return (struct load_adapter_files){-1, adapter_files_put(config, (size_t)n_config), weights};
}

void adapter_files_close(struct load_adapter_files *files)
{
	const int fds[] = {files->gguf, files->config, files->weights};
	for (size_t i = 0; i < 3; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

void *adapter_files_load(const struct load_adapter_files *files, const struct image_config *base, struct err *err)
{
	struct load_adapter *adapter;
	void *image = NULL;
	if (load_adapter_open(files, base, IO_AUTO, &adapter, err) == 0) {
		uint64_t n_bytes = load_adapter_bytes(adapter);
		image = aligned_alloc(64, n_bytes);
		ck_assert_ptr_nonnull(image);
		memset(image, 0, n_bytes);
		if (load_adapter_write(adapter, image, err)) {
			free(image);
			image = NULL;
		}
		load_adapter_close(adapter);
	}
	return image;
}
