#include "src/engine/template/loop.h"

#include "src/engine/template/builtin.h"
#include "src/engine/template/iter.h"
#include "src/engine/template/render.h"

int loop_start(struct render *r, struct value iterable, struct loop **loop)
{
	struct loop *made = heap_cells(&r->heap, 1, sizeof *made);
	if (!made)
		return render_oom(r);
	*made = (struct loop){.iterable = iterable, .index0 = -1, .length = -1};
	int rc = iter_start(r, iterable, &made->iter);
	if (!rc)
		*loop = made;
	return rc;
}

int loop_next(struct render *r, struct loop *loop)
{
	struct value item = loop->after;
	int more = 1;
	if (loop->has_after)
		loop->has_after = false;
	else
		more = iter_next(r, loop->iter, &item);
	if (more <= 0)
		return more;
	loop->index0++;
	loop->before = loop->current;
	loop->current = item;
	return 1;
}

/* Whether another item follows; takes it early. */
static int peek(struct render *r, struct loop *loop, bool *more)
{
	int rc = loop->has_after ? 1 : iter_next(r, loop->iter, &loop->after);
	if (rc < 0)
		return rc;
	loop->has_after = rc;
	*more = rc;
	return 0;
}

int loop_length(struct render *r, struct loop *loop, int64_t *length)
{
	if (loop->length < 0)
		loop->length = value_length(loop->iterable);
	if (loop->length < 0) {
		struct list *rest;
		int rc = iter_collect(r, loop->iter, &rest);
		rc = rc ? rc : iter_start(r, value_list(rest), &loop->iter);
		if (rc)
			return rc;
		loop->length = (int64_t)rest->n + loop->index0 + 1 + loop->has_after;
	}
	*length = loop->length;
	return 0;
}

static int attr_from_end(struct render *r, struct loop *loop, int64_t offset, struct value *result)
{
	int64_t length;
	int rc = loop_length(r, loop, &length);
	if (!rc)
		*result = value_int(length - loop->index0 - 1 + offset);
	return rc;
}

/* loop.cycle(a, b, …) */
static int loop_cycle(struct render *r, struct invocation *call, struct value *result)
{
	if (!call->given->n_positional)
		return render_fail(r, "loop.cycle() needs at least one argument");
	int64_t index = call->self.loop->index0 % (int64_t)call->given->n_positional;
	*result = call->given->positional[index];
	return 0;
}

/* loop.changed(a, …): whether the arguments differ from those of the last call. */
static int loop_changed(struct render *r, struct invocation *call, struct value *result)
{
	struct loop *loop = call->self.loop;
	struct list *now = list_new(r, call->given->n_positional);
	if (!now)
		return render_oom(r);
	int rc = 0;
	for (size_t i = 0; i < call->given->n_positional && !rc; i++)
		rc = list_append(r, now, call->given->positional[i]);
	bool equal = false;
	if (!rc && loop->changed.kind != VALUE_MISSING)
		rc = value_equal(r, loop->changed, value_tuple(now), &equal);
	loop->changed = value_tuple(now);
	*result = value_bool(!equal);
	return rc;
}

static int bind(struct render *r, struct loop *loop, const struct builtin *builtin, struct value *result)
{
	struct method *method = heap_cells(&r->heap, 1, sizeof *method);
	if (!method)
		return render_oom(r);
	*method = (struct method){{.kind = VALUE_LOOP, .loop = loop}, builtin};
	*result = (struct value){.kind = VALUE_METHOD, .method = method};
	return 0;
}

static int attr_of_neighbour(struct render *r, struct loop *loop, bool next, struct value *result)
{
	bool there = loop->index0 > 0;
	int rc = next ? peek(r, loop, &there) : 0;
	if (rc)
		return rc;
	if (!there)
		return value_undefined_hint(r, next ? "there is no next item" : "there is no previous item", result);
	*result = next ? loop->after : loop->before;
	return 0;
}

int loop_attr(struct render *r, struct loop *loop, const struct text *name, struct value *result)
{
	static const struct builtin cycle = {.name = "cycle", .run = loop_cycle, .variadic = true},
				    changed = {.name = "changed", .run = loop_changed, .variadic = true};
	bool more = false;
	int rc = 0;
	int64_t length = 0;
	if (text_is(name, "index"))
		*result = value_int(loop->index0 + 1);
	else if (text_is(name, "index0"))
		*result = value_int(loop->index0);
	else if (text_is(name, "first"))
		*result = value_bool(loop->index0 == 0);
	else if (text_is(name, "last")) {
		rc = peek(r, loop, &more);
		*result = value_bool(!rc && !more);
	} else if (text_is(name, "length")) {
		rc = loop_length(r, loop, &length);
		*result = value_int(rc ? 0 : length);
	} else if (text_is(name, "revindex"))
		return attr_from_end(r, loop, 1, result);
	else if (text_is(name, "revindex0"))
		return attr_from_end(r, loop, 0, result);
	else if (text_is(name, "previtem") || text_is(name, "nextitem"))
		return attr_of_neighbour(r, loop, text_is(name, "nextitem"), result);
	else if (text_is(name, "depth"))
		*result = value_int(1);
	else if (text_is(name, "depth0"))
		*result = value_int(0);
	else if (text_is(name, "cycle"))
		return bind(r, loop, &cycle, result);
	else if (text_is(name, "changed"))
		return bind(r, loop, &changed, result);
	else
		*result = (struct value){.kind = VALUE_MISSING};
	return rc;
}
