/* Stable sorting by keys, as Python's sorted() orders. */
#ifndef WEIGHTD_ENGINE_TEMPLATE_SORT_H
#define WEIGHTD_ENGINE_TEMPLATE_SORT_H

#include "src/engine/template/value.h"

struct sort_item {
	struct value key, value;
};

/* In place; `reverse` keeps the order of equal keys. -EINVAL when two keys cannot be ordered. */
int sort_items(struct render *render, struct sort_item *items, size_t n, bool reverse);

#endif
