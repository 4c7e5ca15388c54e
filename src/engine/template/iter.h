/* Iteration. Everything a `for` can go over becomes an iterator: stored values one by one, and the lazy results of
 * `map`, `select` and other filters, which Python makes generators. Lazy ones evaluate as they are asked, once. */
#ifndef WEIGHTD_ENGINE_TEMPLATE_ITER_H
#define WEIGHTD_ENGINE_TEMPLATE_ITER_H

#include <stdbool.h>

#include "src/engine/template/value.h"

struct iter {
	/* 1: an item, 0: the end, or -errno. */
	int (*next)(struct render *, struct iter *, struct value *item);
	struct value source; /* what it goes over */
	size_t position;     /* items (for text: bytes) done */
	bool finished;	     /* stays at the end */
};

/* An iterator over the value, itself if it is one; -EINVAL for what Python cannot iterate over. */
int iter_start(struct render *render, struct value value, struct iter **iter);
int iter_next(struct render *render, struct iter *iter, struct value *item);
/* The items that are left as a new list. */
int iter_collect(struct render *render, struct iter *iter, struct list **list);
/* All items of a value; lists and tuples are returned as they are. */
int iter_list(struct render *render, struct value value, const struct list **list);
/* reversed(value): -EINVAL for what has no order or no length; `*iter` NULL if the type is a one-way iterator. */
int iter_reversed(struct render *render, struct value value, struct iter **iter);
bool iter_possible(struct value value);

#endif
