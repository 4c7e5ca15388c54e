#include "src/load/adapter_gguf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/family.h"
#include "src/load/model_gguf.h"
#include "src/load/model_gguf_config.h"

/* --- keys ------------------------------------------------------------------------------------- */

static bool says(const struct gguf_string *value, const char *text)
{
	return value->n_bytes == strlen(text) && memcmp(value->bytes, text, value->n_bytes) == 0;
}

static int expect(const struct gguf *gguf, const char *key, const char *expected, struct err *err)
{
	struct gguf_string value;
	char quoted[GGUF_QUOTE_BYTES];
	int rc = gguf_get_string(gguf, key, &value, err);
	if (rc == -ENOENT)
		return err_set(err, -EINVAL, "key '%s': is missing, '%s' is needed", key, expected);
	if (rc == 0 && !says(&value, expected))
		return model_gguf_refuse(gguf, key, -EINVAL, err, "'%s', '%s' is needed", gguf_quote(&value, quoted),
					 expected);
	return rc;
}

/* Keys about adapters that change nothing in the arithmetic; any other one might. */
static int check_keys(const struct gguf *gguf, struct err *err)
{
	static const char *const known[] = {"adapter.type", "adapter.lora.alpha", "adapter.lora.task_name",
					    "adapter.lora.prompt_prefix"};
	static const char prefix[] = "adapter.";
	for (uint64_t i = 0; i < gguf->n_pairs; i++) {
		const struct gguf_string *key = &gguf->pairs[i].key;
		char quoted[GGUF_QUOTE_BYTES];
		bool is_known = key->n_bytes < strlen(prefix) || memcmp(key->bytes, prefix, strlen(prefix)) != 0;
		for (size_t j = 0; j < sizeof known / sizeof *known; j++)
			is_known |= says(key, known[j]);
		if (!is_known)
			return err_set(err, -ENOTSUP, "key '%s': is not supported", gguf_quote(key, quoted));
	}
	return 0;
}

static int read_keys(const struct gguf *gguf, const struct family *family, float *alpha, struct err *err)
{
	int rc = expect(gguf, "general.type", "adapter", err);
	if (rc == 0)
		rc = expect(gguf, "adapter.type", "lora", err);
	if (rc == 0)
		rc = expect(gguf, "general.architecture", family->name, err);
	if (rc == 0)
		rc = check_keys(gguf, err);
	if (rc == 0)
		rc = gguf_get_f32(gguf, "adapter.lora.alpha", alpha, err);
	return rc == -ENOENT ? -EINVAL : rc;
}

/* --- tensors ---------------------------------------------------------------------------------- */

enum { NAME_BYTES = FAMILY_NAME_BYTES + 8 };

static int read_factor(const struct gguf_tensor *tensor, struct adapter_factor *out, struct err *err)
{
	char quoted[GGUF_QUOTE_BYTES];
	int kind = model_gguf_pack_kind(tensor->type);
	if (tensor->dim[2] != 1 || tensor->dim[3] != 1)
		return err_set(err, -EINVAL, "tensor '%s': more than two dimensions",
			       gguf_quote(&tensor->name, quoted));
	if (kind < 0)
		return err_set(err, -ENOTSUP, "tensor '%s': type %s is not supported here",
			       gguf_quote(&tensor->name, quoted), gguf_tensor_type_name(tensor->type));
	*out = (struct adapter_factor){tensor->offset, (enum pack_kind)kind, tensor->dim[1], tensor->dim[0]};
	return 0;
}

struct reader {
	const struct gguf *gguf;
	const struct image_config *base;
	double alpha;
	bool *used; /* [n_tensors] owned */
};

static const struct gguf_tensor *find(struct reader *r, const char *name)
{
	const struct gguf_tensor *tensor = gguf_find_tensor(r->gguf, name);
	if (tensor)
		r->used[tensor - r->gguf->tensors] = true;
	return tensor;
}

static int plan_product(struct reader *r, uint32_t layer, enum adapter_product product, struct adapter_plan *plan,
			struct err *err)
{
	char name[FAMILY_NAME_BYTES], name_a[NAME_BYTES], name_b[NAME_BYTES];
	struct family_tensor base;
	struct adapter_pair pair;
	family_tensor(r->base, (uint32_t)family_tensor_index(r->base, adapter_role(product), layer), &base);
	family_tensor_name(&base, name);
	snprintf(name_a, sizeof name_a, "%s.lora_a", name);
	snprintf(name_b, sizeof name_b, "%s.lora_b", name);
	const struct gguf_tensor *a = find(r, name_a), *b = find(r, name_b);
	if (!a && !b)
		return 0;
	if (!a || !b)
		return err_set(err, -EINVAL, "tensor '%s': is missing", a ? name_b : name_a);
	int rc = read_factor(a, &pair.a, err);
	if (rc == 0)
		rc = read_factor(b, &pair.b, err);
	return rc ? rc
		  : adapter_plan_add(plan, r->base, layer, product, &pair, r->alpha / (double)pair.a.rows, name, err);
}

static int plan_tensors(struct reader *r, struct adapter_plan *plan, struct err *err)
{
	struct adapter_names left = {"", 0, 0};
	int rc = 0;
	for (uint32_t layer = 0; layer < r->base->n_layers && rc == 0; layer++)
		for (int product = 0; product < ADAPTER_N_PRODUCTS && rc == 0; product++)
			rc = plan_product(r, layer, (enum adapter_product)product, plan, err);
	for (uint64_t i = 0; i < r->gguf->n_tensors && rc == 0; i++) {
		char quoted[GGUF_QUOTE_BYTES];
		if (!r->used[i])
			adapter_names_add(&left, gguf_quote(&r->gguf->tensors[i].name, quoted));
	}
	if (rc == 0)
		rc = adapter_names_refuse(&left, err);
	if (rc == 0 && plan->n == 0)
		rc = err_set(err, -EINVAL, "the file has no tensors");
	return rc;
}

int adapter_gguf_plan(const struct gguf *gguf, const struct image_config *base, struct adapter_plan *out,
		      struct err *err)
{
	const struct family *family = family_get(base->family);
	struct reader reader = {.gguf = gguf, .base = base};
	struct adapter_plan plan;
	float alpha;
	int rc = read_keys(gguf, family, &alpha, err);
	if (rc)
		return rc;
	rc = adapter_plan_init(&plan, base, err);
	if (rc)
		return rc;
	plan.rope_pairing = family->rope_in_pairs ? IMAGE_ROPE_PAIRS : IMAGE_ROPE_HALVES;
	reader.alpha = (double)alpha;
	reader.used = calloc(gguf->n_tensors + 1, sizeof *reader.used);
	rc = reader.used ? plan_tensors(&reader, &plan, err) : err_set(err, -ENOMEM, "no memory for the tensors");
	free(reader.used);
	if (rc)
		adapter_plan_fini(&plan);
	else
		*out = plan;
	return rc;
}
