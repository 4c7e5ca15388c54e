#include "src/format/gguf_order.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int gguf_compare(const struct gguf_string *a, const struct gguf_string *b)
{
	uint64_t shorter = a->n_bytes < b->n_bytes ? a->n_bytes : b->n_bytes;
	int order = memcmp(a->bytes, b->bytes, shorter);
	return order ? order : (a->n_bytes > b->n_bytes) - (a->n_bytes < b->n_bytes);
}

/* Equal names in order of their data. */
static int compare_tensors(const void *a, const void *b, void *tensors)
{
	const struct gguf_tensor *all = tensors, *x = &all[*(const uint32_t *)a], *y = &all[*(const uint32_t *)b];
	int order = gguf_compare(&x->name, &y->name);
	return order ? order : (x > y) - (x < y);
}

static int refuse_twice(const struct gguf *gguf, const struct gguf_tensor *first, const struct gguf_tensor *second,
			struct err *err)
{
	char quoted[GGUF_QUOTE_BYTES], place[GGUF_PLACE_BYTES];
	gguf_quote(&second->name, quoted);
	gguf_place(gguf, second, place);
	if (first->part == second->part)
		return err_set(err, -EINVAL, "%s: tensor '%s', name: is there twice", place, quoted);
	return err_set(err, -EINVAL, "%s: tensor '%s', name: is in part %" PRIu32 ", too", place, quoted,
		       first->part + 1);
}

int gguf_order(struct gguf *gguf, struct err *err)
{
	if (gguf->n_tensors == 0)
		return 0;
	gguf->by_name = reallocarray(NULL, gguf->n_tensors, sizeof *gguf->by_name);
	if (!gguf->by_name)
		return err_set(err, -ENOMEM, "no memory for the names of %" PRIu64 " tensors", gguf->n_tensors);
	for (uint32_t i = 0; i < gguf->n_tensors; i++)
		gguf->by_name[i] = i;
	qsort_r(gguf->by_name, gguf->n_tensors, sizeof *gguf->by_name, compare_tensors, gguf->tensors);
	for (uint64_t i = 1; i < gguf->n_tensors; i++) {
		const struct gguf_tensor *before = &gguf->tensors[gguf->by_name[i - 1]];
		const struct gguf_tensor *tensor = &gguf->tensors[gguf->by_name[i]];
		if (gguf_compare(&before->name, &tensor->name) == 0)
			return refuse_twice(gguf, before, tensor, err);
	}
	return 0;
}
