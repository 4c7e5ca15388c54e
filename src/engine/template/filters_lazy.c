/* Filters that Python implements as generators: they read their input and evaluate only as their result is read, once.
 * Each is an iterator with its arguments copied to the heap; checks that the generator makes on its first step happen
 * there too. */
#include <string.h>

#include "src/engine/template/builtin.h"
#include "src/engine/template/casing.h"
#include "src/engine/template/getter.h"
#include "src/engine/template/iter.h"
#include "src/engine/template/render.h"

struct lazy {
	struct iter iter;
	struct invocation call;	  /* self is the input */
	struct call_values given; /* a copy that call.given points to */
	struct iter *items;	  /* of the input; NULL before the first step */
	struct dict *seen;	  /* unique */
};

typedef int next_fn(struct render *, struct iter *, struct value *);

static int copy_arguments(struct render *r, const struct call_values *from, struct call_values *to)
{
	struct value *positional = heap_cells(&r->heap, from->n_positional, sizeof *positional);
	struct named_value *named = heap_cells(&r->heap, from->n_named, sizeof *named);
	if (!positional || !named)
		return render_oom(r);
	if (from->n_positional)
		memcpy(positional, from->positional, from->n_positional * sizeof *positional);
	if (from->n_named)
		memcpy(named, from->named, from->n_named * sizeof *named);
	*to = (struct call_values){positional, from->n_positional, named, from->n_named};
	return 0;
}

static int make_lazy(struct render *r, const struct invocation *call, next_fn *next, struct value *result)
{
	struct lazy *lazy = heap_cells(&r->heap, 1, sizeof *lazy);
	if (!lazy)
		return render_oom(r);
	lazy->iter = (struct iter){.next = next};
	lazy->call = *call;
	lazy->call.given = &lazy->given;
	*result = (struct value){.kind = VALUE_ITER, .iter = &lazy->iter};
	return copy_arguments(r, call->given, &lazy->given);
}

/* The lazy filter whose first member `iter` is. */
static struct lazy *lazy_of(struct iter *iter)
{
	return (struct lazy *)iter;
}

static const struct value *named_argument(const struct call_values *given, const char *name)
{
	for (size_t k = 0; k < given->n_named; k++)
		if (text_is(given->named[k].name, name))
			return &given->named[k].value;
	return NULL;
}

/* The next item of the input, which a false input does not have. */
static int next_input(struct render *r, struct lazy *lazy, struct value *item)
{
	if (!lazy->items) {
		if (!value_truth(lazy->call.self))
			return 0;
		int rc = iter_start(r, lazy->call.self, &lazy->items);
		if (rc)
			return rc;
	}
	return iter_next(r, lazy->items, item);
}

/* --- map -------------------------------------------------------------------------------------- */

static int next_mapped_attribute(struct render *r, struct iter *iter, struct value *result)
{
	struct lazy *lazy = lazy_of(iter);
	const struct value *attribute = named_argument(&lazy->given, "attribute");
	const struct value *otherwise = named_argument(&lazy->given, "default");
	struct value item;
	int more = next_input(r, lazy, &item);
	if (more <= 0)
		return more;
	if (lazy->given.n_named > 1 + (otherwise != NULL))
		return render_fail(r, "map() with an attribute takes only a default besides");
	int rc = getter_get(r, item, *attribute, otherwise ? *otherwise : value_none(), result);
	return rc ? rc : 1;
}

static int next_mapped(struct render *r, struct iter *iter, struct value *result)
{
	struct lazy *lazy = lazy_of(iter);
	struct value item, name;
	int more = next_input(r, lazy, &item);
	if (more <= 0)
		return more;
	if (!lazy->given.n_positional)
		return render_fail(r, "map() needs the name of a filter or an attribute");
	name = lazy->given.positional[0];
	if (name.kind != VALUE_TEXT)
		return render_fail(r, "map() needs the name of a filter");
	struct call_values rest = lazy->given;
	rest.positional++;
	rest.n_positional--;
	int rc = render_filter(r, name.text, item, &rest, result);
	return rc ? rc : 1;
}

static int filter_map(struct render *r, struct invocation *call, struct value *result)
{
	bool attribute = !call->given->n_positional && named_argument(call->given, "attribute");
	return make_lazy(r, call, attribute ? next_mapped_attribute : next_mapped, result);
}

/* --- select, reject and with attributes ------------------------------------------------------- */

/* Whether the item passes the test, which is truth if none is named. `offset` arguments come before its name. */
static int passes(struct render *r, struct lazy *lazy, struct value item, size_t offset, bool *result)
{
	const struct call_values *given = &lazy->given;
	if (offset) {
		if (!given->n_positional)
			return render_fail(r, "%s() needs the name of an attribute", lazy->call.builtin->name);
		int rc = getter_get(r, item, given->positional[0], value_none(), &item);
		if (rc)
			return rc;
	}
	if (given->n_positional <= offset) {
		*result = value_truth(item);
		return 0;
	}
	struct value name = given->positional[offset];
	if (name.kind != VALUE_TEXT)
		return render_fail(r, "%s() needs the name of a test", lazy->call.builtin->name);
	struct call_values rest = *given;
	rest.positional += offset + 1;
	rest.n_positional -= offset + 1;
	return render_test(r, name.text, item, &rest, result);
}

static int next_passing(struct render *r, struct lazy *lazy, size_t offset, bool wanted, struct value *item)
{
	bool passed;
	int more;
	while ((more = next_input(r, lazy, item)) > 0) {
		int rc = passes(r, lazy, *item, offset, &passed);
		if (rc)
			return rc;
		if (passed == wanted)
			return 1;
	}
	return more;
}

static int next_selected(struct render *r, struct iter *iter, struct value *item)
{
	return next_passing(r, lazy_of(iter), 0, true, item);
}

static int next_rejected(struct render *r, struct iter *iter, struct value *item)
{
	return next_passing(r, lazy_of(iter), 0, false, item);
}

static int next_selected_by(struct render *r, struct iter *iter, struct value *item)
{
	return next_passing(r, lazy_of(iter), 1, true, item);
}

static int next_rejected_by(struct render *r, struct iter *iter, struct value *item)
{
	return next_passing(r, lazy_of(iter), 1, false, item);
}

static int filter_select(struct render *r, struct invocation *call, struct value *result)
{
	return make_lazy(r, call, next_selected, result);
}

static int filter_reject(struct render *r, struct invocation *call, struct value *result)
{
	return make_lazy(r, call, next_rejected, result);
}

static int filter_selectattr(struct render *r, struct invocation *call, struct value *result)
{
	return make_lazy(r, call, next_selected_by, result);
}

static int filter_rejectattr(struct render *r, struct invocation *call, struct value *result)
{
	return make_lazy(r, call, next_rejected_by, result);
}

/* --- unique, items, batch, slice -------------------------------------------------------------- */

static int start_items(struct render *r, struct lazy *lazy)
{
	return lazy->items ? 0 : iter_start(r, lazy->call.self, &lazy->items);
}

static int next_unique(struct render *r, struct iter *iter, struct value *item)
{
	struct lazy *lazy = lazy_of(iter);
	int rc = start_items(r, lazy), more = 0;
	if (!lazy->seen)
		lazy->seen = dict_new(r);
	if (!lazy->seen)
		return render_oom(r);
	while (!rc && (more = iter_next(r, lazy->items, item)) > 0) {
		struct value key, before;
		rc = getter_get(r, *item, lazy->call.arguments[1], value_none(), &key);
		if (!rc && !value_truth(lazy->call.arguments[0]))
			rc = casing_ignore(r, key, &key);
		rc = rc ? rc : dict_get(r, lazy->seen, key, &before);
		if (rc || before.kind != VALUE_MISSING)
			continue;
		rc = dict_set(r, lazy->seen, key, value_none());
		return rc ? rc : 1;
	}
	return rc ? rc : more;
}

static int filter_unique(struct render *r, struct invocation *call, struct value *result)
{
	return make_lazy(r, call, next_unique, result);
}

static int next_item(struct render *r, struct iter *iter, struct value *item)
{
	struct lazy *lazy = lazy_of(iter);
	struct value items = lazy->call.self;
	if (items.kind == VALUE_UNDEFINED)
		return 0;
	if (items.kind != VALUE_DICT)
		return render_fail(r, "items() needs a mapping, not '%s'", value_type_name(items));
	items.kind = VALUE_ITEMS;
	int rc = lazy->items ? 0 : iter_start(r, items, &lazy->items);
	return rc ? rc : iter_next(r, lazy->items, item);
}

static int filter_items(struct render *r, struct invocation *call, struct value *result)
{
	return make_lazy(r, call, next_item, result);
}

static int fill(struct render *r, struct list *list, struct value with, int64_t length)
{
	int rc = 0;
	if (with.kind == VALUE_MISSING || with.kind == VALUE_NONE)
		return 0;
	while ((int64_t)list->n < length && !rc)
		rc = list_append(r, list, with);
	return rc;
}

static int batches(struct render *r, struct invocation *call, struct list *rows)
{
	int64_t length = -1; /* what is no integer equals no length */
	struct iter *iter;
	struct value item;
	value_index(call->arguments[0], &length);
	struct list *row = list_new(r, 0);
	int rc = row ? iter_start(r, call->self, &iter) : render_oom(r), more = 0;
	while (!rc && (more = iter_next(r, iter, &item)) > 0) {
		if ((int64_t)row->n == length) {
			rc = list_append(r, rows, value_list(row));
			row = list_new(r, 0);
			rc = rc || row ? rc : render_oom(r);
		}
		rc = rc ? rc : list_append(r, row, item);
	}
	rc = rc ? rc : more;
	if (rc || !row->n)
		return rc;
	rc = fill(r, row, call->arguments[1], length);
	return rc ? rc : list_append(r, rows, value_list(row));
}

static int slices(struct render *r, struct invocation *call, struct list *rows)
{
	int64_t n_slices;
	const struct list *list;
	int rc = iter_list(r, call->self, &list);
	if (rc)
		return rc;
	if (!value_index(call->arguments[0], &n_slices) || n_slices == 0)
		return render_fail(r, "slice() needs a number of slices that is not zero");
	int64_t per_slice = n_slices > 0 ? (int64_t)list->n / n_slices : 0;
	int64_t longer = n_slices > 0 ? (int64_t)list->n % n_slices : 0, start = 0;
	for (int64_t i = 0; i < n_slices && !rc; i++) {
		int64_t length = per_slice + (i < longer);
		struct list *row = list_new(r, (size_t)length);
		if (!row)
			return render_oom(r);
		for (int64_t k = 0; k < length && !rc; k++)
			rc = list_append(r, row, list->items[start + k]);
		start += length;
		if (!rc && i >= longer)
			rc = fill(r, row, call->arguments[1], length + 1);
		rc = rc ? rc : list_append(r, rows, value_list(row));
	}
	return rc;
}

static int next_row(struct render *r, struct lazy *lazy,
		    int (*make_rows)(struct render *, struct invocation *, struct list *), struct value *item)
{
	if (!lazy->items) {
		struct list *rows = list_new(r, 0);
		int rc = rows ? make_rows(r, &lazy->call, rows) : render_oom(r);
		rc = rc ? rc : iter_start(r, value_list(rows), &lazy->items);
		if (rc)
			return rc;
	}
	return iter_next(r, lazy->items, item);
}

static int next_batch(struct render *r, struct iter *iter, struct value *item)
{
	return next_row(r, lazy_of(iter), batches, item);
}

static int next_slice(struct render *r, struct iter *iter, struct value *item)
{
	return next_row(r, lazy_of(iter), slices, item);
}

static int filter_batch(struct render *r, struct invocation *call, struct value *result)
{
	return make_lazy(r, call, next_batch, result);
}

static int filter_slice(struct render *r, struct invocation *call, struct value *result)
{
	return make_lazy(r, call, next_slice, result);
}

static const struct builtin table[] = {
	{.name = "map", .run = filter_map, .variadic = true},
	{.name = "select", .run = filter_select, .variadic = true},
	{.name = "reject", .run = filter_reject, .variadic = true},
	{.name = "selectattr", .run = filter_selectattr, .variadic = true},
	{.name = "rejectattr", .run = filter_rejectattr, .variadic = true},
	{.name = "unique", .run = filter_unique, .parameters = {"case_sensitive", "attribute"}},
	{.name = "items", .run = filter_items},
	{.name = "batch", .run = filter_batch, .n_required = 1, .parameters = {"linecount", "fill_with"}},
	{.name = "slice", .run = filter_slice, .n_required = 1, .parameters = {"slices", "fill_with"}},
};

const struct builtin_table filters_lazy = BUILTIN_TABLE(table);
