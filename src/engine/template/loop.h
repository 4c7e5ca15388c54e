/* The `loop` variable. */
#ifndef WEIGHTD_ENGINE_TEMPLATE_LOOP_H
#define WEIGHTD_ENGINE_TEMPLATE_LOOP_H

#include "src/engine/template/value.h"

struct loop {
	struct value iterable;
	struct iter *iter;
	int64_t index0;			     /* -1 before the first item */
	int64_t length;			     /* -1: not asked yet */
	struct value before, current, after; /* `after` is what was taken early to know whether an item follows */
	bool has_after;
	struct value changed; /* the arguments of the last loop.changed(), a tuple, or missing */
};

int loop_start(struct render *render, struct value iterable, struct loop **loop);
/* 1: loop->current is the next item; 0: the end; -errno. */
int loop_next(struct render *render, struct loop *loop);
/* Reads a lazy iterable to its end. */
int loop_length(struct render *render, struct loop *loop, int64_t *length);
/* loop.index and the like; `*result` VALUE_MISSING if there is no such attribute. */
int loop_attr(struct render *render, struct loop *loop, const struct text *name, struct value *result);

#endif
