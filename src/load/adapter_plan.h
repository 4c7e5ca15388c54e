/* What an adapter's files hold, checked against the base: readers of formats (adapter_gguf.h, adapter_peft.h) fill it
 * in, load_adapter.c writes an image by it. */
#ifndef WEIGHTD_ADAPTER_PLAN_H
#define WEIGHTD_ADAPTER_PLAN_H

#include <stdbool.h>

#include "src/engine/adapter_image.h"
#include "src/kernel/pack.h"

/* A matrix in a file, row after row: A [rank][cols of the base's] or B [rows of the base's][rank]. */
struct adapter_factor {
	uint64_t offset; /* in the file */
	enum pack_kind kind;
	uint64_t rows, cols;
};

struct adapter_pair {
	struct adapter_factor a, b;
};

struct adapter_plan {
	/* In order of layer and role; offsets are adapter_image_plan's to fill. [n] owned, as is pairs [n] */
	struct adapter_entry *entries;
	struct adapter_pair *pairs;
	uint32_t n;
	enum image_rope_pairing rope_pairing; /* the file's order of rows in queries and keys */
};

/* Room for all that a base of this shape can have. -ENOMEM. */
int adapter_plan_init(struct adapter_plan *plan, const struct image_config *base, struct err *err);
void adapter_plan_fini(struct adapter_plan *plan);

/* The next entry. -EINVAL where the shapes don't fit each other or the base; `name` is the pair's for the message. */
int adapter_plan_add(struct adapter_plan *plan, const struct image_config *base, uint32_t layer,
		     enum adapter_product product, const struct adapter_pair *pair, double scale, const char *name,
		     struct err *err);

/* The row of the base's matrix that row `row` of the file's B belongs to. */
uint32_t adapter_plan_row(const struct adapter_plan *plan, const struct image_config *base,
			  const struct adapter_entry *entry, uint32_t row);

/* Names of tensors that have no place, for one message: the first few, and how many more. */
struct adapter_names {
	char text[150];
	uint32_t n, n_more;
};
void adapter_names_add(struct adapter_names *names, const char *name);
/* 0 if there are none, or -ENOTSUP. */
int adapter_names_refuse(const struct adapter_names *names, struct err *err);

#endif
