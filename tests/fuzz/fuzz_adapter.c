/* Any bytes as an adapter's files, up to where values would be read, and as an adapter image in a segment. The first
 * byte says which. What a reader plans has to be what an image can hold.
 *
 *   0: the header of a GGUF file
 *   1: u16 length of adapter_config.json, u32 bytes of values, little-endian | that file | the header of
 *      adapter_model.safetensors
 *   2: an image */
#include <stdlib.h>
#include <string.h>

#include "src/load/adapter_gguf.h"
#include "src/load/adapter_peft.h"
#include "tests/fuzz/fuzz.h"

static const struct image_config base = {
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
};

static void use(struct adapter_plan *plan)
{
	struct adapter_header header;
	struct err err;
	if (adapter_image_plan(&base, plan->entries, plan->n, &header, &err) != 0)
		abort();
	for (uint32_t i = 0; i < plan->n; i++)
		if (adapter_plan_row(plan, &base, &plan->entries[i], plan->entries[i].rows - 1) >=
		    plan->entries[i].rows)
			abort();
	adapter_plan_fini(plan);
}

static void as_gguf(const uint8_t *bytes, size_t n_bytes)
{
	struct gguf gguf;
	struct adapter_plan plan;
	struct err err;
	uint64_t need;
	/* The values are left out of the corpus: a file that is long enough is claimed. */
	if (gguf_parse(bytes, n_bytes, n_bytes + (1 << 20), &gguf, &need, &err) != 0)
		return;
	if (adapter_gguf_plan(&gguf, &base, &plan, &err) == 0)
		use(&plan);
	gguf_fini(&gguf);
}

/* Tensors tile a safetensors file, so its length is an input, too. */
static void as_peft(const uint8_t *bytes, size_t n_bytes)
{
	struct safetensors weights;
	struct adapter_plan plan;
	struct err err;
	uint64_t need;
	size_t n_config;
	uint32_t n_data;
	if (n_bytes < 6)
		return;
	n_config = bytes[0] | (size_t)bytes[1] << 8;
	memcpy(&n_data, bytes + 2, sizeof n_data);
	bytes += 6;
	n_bytes -= 6;
	if (n_config > n_bytes ||
	    safetensors_parse(bytes + n_config, n_bytes - n_config, n_bytes - n_config + n_data, &weights, &need, &err))
		return;
	if (adapter_peft_plan(bytes, n_config, &weights, &base, &plan, &err) == 0)
		use(&plan);
	safetensors_fini(&weights);
}

static void as_image(const uint8_t *bytes, size_t n_bytes)
{
	struct err err;
	void *image = aligned_alloc(64, n_bytes + 64 - n_bytes % 64);
	if (!image)
		abort();
	memcpy(image, bytes, n_bytes);
	adapter_image_check(&base, image, n_bytes, &err);
	free(image);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	if (n_bytes == 0)
		return 0;
	if (bytes[0] == 0)
		as_gguf(bytes + 1, n_bytes - 1);
	else if (bytes[0] == 1)
		as_peft(bytes + 1, n_bytes - 1);
	else
		as_image(bytes + 1, n_bytes - 1);
	return 0;
}
