#include "src/load/adapter_peft.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/load/adapter_peft_config.h"
#include "src/engine/family.h"

enum { NAME_BYTES = FAMILY_NAME_BYTES + 48 };

struct reader {
	const struct safetensors *weights;
	const struct image_config *base;
	const struct adapter_peft_config *config;
	bool *used; /* [n_tensors] owned */
};

/* "model.layers.0.self_attn.q_proj": a matrix's name in a model without its ending. */
static void module_name(const struct image_config *base, uint32_t layer, enum adapter_product product,
			char out[FAMILY_NAME_BYTES])
{
	struct family_tensor tensor;
	family_tensor(base, (uint32_t)family_tensor_index(base, adapter_role(product), layer), &tensor);
	family_tensor_hf_name(&tensor, out);
	char *ending = strstr(out, ".weight");
	if (ending)
		*ending = '\0';
}

static const struct safetensors_tensor *find(const struct reader *r, const char *module, const char *factor,
					     char name[NAME_BYTES])
{
	snprintf(name, NAME_BYTES, "base_model.model.%s.%s.weight", module, factor);
	return safetensors_find(r->weights, name);
}

static int read_factor(const struct safetensors_tensor *tensor, const char *name, struct adapter_factor *out,
		       struct err *err)
{
	static const enum pack_kind kinds[] = {
		[SAFETENSORS_F32] = PACK_F32,
		[SAFETENSORS_F16] = PACK_F16,
		[SAFETENSORS_BF16] = PACK_BF16,
	};
	if (tensor->n_dims != 2 || tensor->dim[1] > FAMILY_MAX_COLS)
		return err_set(err, -EINVAL, "tensor '%s': no matrix for a model of this shape", name);
	*out = (struct adapter_factor){tensor->offset, kinds[tensor->type], tensor->dim[0], tensor->dim[1]};
	return 0;
}

static int plan_product(struct reader *r, uint32_t layer, enum adapter_product product, struct adapter_plan *plan,
			struct err *err)
{
	char module[FAMILY_NAME_BYTES], name_a[NAME_BYTES], name_b[NAME_BYTES];
	struct adapter_pair pair;
	uint32_t rank = 0;
	double scale = 0;
	module_name(r->base, layer, product, module);
	const struct safetensors_tensor *a = find(r, module, "lora_A", name_a), *b = find(r, module, "lora_B", name_b);
	if (!a && !b)
		return 0;
	int rc = adapter_peft_config_has(r->config, module, layer, err);
	if (rc <= 0) /* stays unused: it will be refused with the others */
		return rc;
	if (!a || !b)
		return err_set(err, -EINVAL, "tensor '%s': is missing", a ? name_b : name_a);
	r->used[a - r->weights->tensors] = r->used[b - r->weights->tensors] = true;
	rc = read_factor(a, name_a, &pair.a, err);
	if (rc == 0)
		rc = read_factor(b, name_b, &pair.b, err);
	if (rc == 0)
		rc = adapter_peft_config_scale(r->config, module, &rank, &scale, err);
	if (rc == 0 && pair.a.rows != rank)
		rc = err_set(err, -EINVAL, "tensor '%s': a rank of %llu, adapter_config.json says %u", name_a,
			     (unsigned long long)pair.a.rows, rank);
	return rc ? rc : adapter_plan_add(plan, r->base, layer, product, &pair, scale, module, err);
}

static int plan_tensors(struct reader *r, struct adapter_plan *plan, struct err *err)
{
	struct adapter_names left = {"", 0, 0};
	int rc = 0;
	for (uint32_t layer = 0; layer < r->base->n_layers && rc == 0; layer++)
		for (int product = 0; product < ADAPTER_N_PRODUCTS && rc == 0; product++)
			rc = plan_product(r, layer, (enum adapter_product)product, plan, err);
	for (uint32_t i = 0; i < r->weights->n_tensors && rc == 0; i++) {
		char quoted[SAFETENSORS_QUOTE_BYTES];
		if (!r->used[i])
			adapter_names_add(&left, safetensors_quote(&r->weights->tensors[i].name, quoted));
	}
	if (rc == 0)
		rc = adapter_names_refuse(&left, err);
	if (rc == 0 && plan->n == 0)
		rc = err_set(err, -EINVAL, "adapter_model.safetensors: it has no tensors");
	return rc;
}

static int plan_weights(struct reader *r, struct adapter_plan *out, struct err *err)
{
	struct adapter_plan plan;
	int rc = adapter_plan_init(&plan, r->base, err);
	if (rc)
		return rc;
	plan.rope_pairing = IMAGE_ROPE_HALVES;
	r->used = calloc(r->weights->n_tensors + 1u, sizeof *r->used);
	rc = r->used ? plan_tensors(r, &plan, err) : err_set(err, -ENOMEM, "no memory for the tensors");
	free(r->used);
	if (rc)
		adapter_plan_fini(&plan);
	else
		*out = plan;
	return rc;
}

int adapter_peft_plan(const void *config, size_t n_config, const struct safetensors *weights,
		      const struct image_config *base, struct adapter_plan *out, struct err *err)
{
	struct reader reader = {.weights = weights, .base = base};
	struct adapter_peft_config *parsed;
	int rc = adapter_peft_config_new(config, n_config, &parsed, err);
	if (rc)
		return rc;
	reader.config = parsed;
	rc = plan_weights(&reader, out, err);
	adapter_peft_config_free(parsed);
	return rc;
}
