#include "src/load/adapter_plan.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/family.h"

int adapter_plan_init(struct adapter_plan *plan, const struct image_config *base, struct err *err)
{
	size_t most = (size_t)base->n_layers * ADAPTER_N_PRODUCTS;
	*plan = (struct adapter_plan){.rope_pairing = base->rope_pairing};
	plan->entries = calloc(most, sizeof *plan->entries);
	plan->pairs = calloc(most, sizeof *plan->pairs);
	if (plan->entries && plan->pairs)
		return 0;
	adapter_plan_fini(plan);
	return err_set(err, -ENOMEM, "no memory for an adapter of %u layers", base->n_layers);
}

void adapter_plan_fini(struct adapter_plan *plan)
{
	free(plan->entries);
	free(plan->pairs);
	*plan = (struct adapter_plan){0};
}

/* Plain values stay as they are, blocks become float32. */
static uint32_t image_kind(enum pack_kind kind)
{
	return adapter_value_bytes(kind) ? kind : PACK_F32;
}

int adapter_plan_add(struct adapter_plan *plan, const struct image_config *base, uint32_t layer,
		     enum adapter_product product, const struct adapter_pair *pair, double scale, const char *name,
		     struct err *err)
{
	const struct adapter_factor *a = &pair->a, *b = &pair->b;
	struct family_tensor expected;
	family_tensor(base, (uint32_t)family_tensor_index(base, adapter_role(product), layer), &expected);
	if (a->rows != b->cols)
		return err_set(err, -EINVAL, "tensor '%s': A has a rank of %" PRIu64 ", B one of %" PRIu64, name,
			       a->rows, b->cols);
	if (a->rows < 1 || a->rows > ADAPTER_RANK_MAX)
		return err_set(err, -EINVAL, "tensor '%s': rank %" PRIu64 ", allowed are 1 to %d", name, a->rows,
			       ADAPTER_RANK_MAX);
	if (b->rows != expected.rows || a->cols != expected.cols)
		return err_set(err, -EINVAL,
			       "tensor '%s': for a matrix of %" PRIu64 " x %" PRIu64 ", the base has one of %u x %u",
			       name, b->rows, a->cols, expected.rows, expected.cols);
	if (!isfinite(scale) || fabs(scale) > 1e30)
		return err_set(err, -EINVAL, "tensor '%s': its scale of %g is out of range", name, scale);
	plan->pairs[plan->n] = *pair;
	plan->entries[plan->n++] = (struct adapter_entry){
		.role = expected.role,
		.layer = layer,
		.rows = expected.rows,
		.cols = expected.cols,
		.rank = (uint32_t)a->rows,
		.scale = (float)scale,
		.a_kind = image_kind(a->kind),
		.b_kind = image_kind(b->kind),
	};
	return 0;
}

/* What is rotated together lies side by side in one order and half a head apart in the other. */
uint32_t adapter_plan_row(const struct adapter_plan *plan, const struct image_config *base,
			  const struct adapter_entry *entry, uint32_t row)
{
	bool rotated = entry->role == IMAGE_ATTN_Q || entry->role == IMAGE_ATTN_K;
	if (!rotated || (uint32_t)plan->rope_pairing == base->rope_pairing)
		return row;
	uint32_t in_head = row % base->head_dim, half = base->head_dim / 2, head = row - in_head;
	return plan->rope_pairing == IMAGE_ROPE_HALVES ? head + 2 * (in_head % half) + in_head / half
						       : head + in_head % 2 * half + in_head / 2;
}

void adapter_names_add(struct adapter_names *names, const char *name)
{
	size_t n = strlen(names->text), room = sizeof names->text - n;
	const char *separator = names->n++ ? ", " : "";
	if (names->n_more || strlen(name) + strlen(separator) + 3 > room)
		names->n_more++;
	else
		snprintf(names->text + n, room, "%s'%s'", separator, name);
}

int adapter_names_refuse(const struct adapter_names *names, struct err *err)
{
	char more[24] = "";
	if (!names->n)
		return 0;
	if (names->n_more)
		snprintf(more, sizeof more, " and %u more", names->n_more);
	return err_set(err, -ENOTSUP, "tensors %s%s: not for a product in a layer of this model", names->text, more);
}
