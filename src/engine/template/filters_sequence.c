/* Filters on sequences and mappings that compute their result at once, and `default`. */
#include "src/engine/template/builtin.h"
#include "src/engine/template/casing.h"
#include "src/engine/template/getter.h"
#include "src/engine/template/iter.h"
#include "src/engine/template/loop.h"
#include "src/engine/template/render.h"
#include "src/engine/template/sort.h"

static int filter_default(struct render *r, struct invocation *call, struct value *result)
{
	static const struct text empty = {"", 0, 0, false};
	(void)r;
	bool replace =
		call->self.kind == VALUE_UNDEFINED || (value_truth(call->arguments[1]) && !value_truth(call->self));
	struct value otherwise = call->arguments[0];
	*result = !replace ? call->self : otherwise.kind == VALUE_MISSING ? value_text(&empty) : otherwise;
	return 0;
}

static int filter_length(struct render *r, struct invocation *call, struct value *result)
{
	int64_t length = value_length(call->self);
	int rc = call->self.kind == VALUE_LOOP ? loop_length(r, call->self.loop, &length) : 0;
	if (!rc && length < 0)
		return render_fail(r, "object of type '%s' has no length", value_type_name(call->self));
	*result = value_int(length);
	return rc;
}

static int filter_first(struct render *r, struct invocation *call, struct value *result)
{
	struct iter *iter;
	int rc = iter_start(r, call->self, &iter);
	int more = rc ? rc : iter_next(r, iter, result);
	if (more == 0)
		return value_undefined_hint(r, "no first item, the sequence was empty", result);
	return more > 0 ? 0 : more;
}

static int filter_last(struct render *r, struct invocation *call, struct value *result)
{
	struct iter *iter;
	int rc = iter_reversed(r, call->self, &iter);
	if (!rc && !iter)
		return render_fail(r, "a generator has no last item; put |list before |last");
	int more = rc ? rc : iter_next(r, iter, result);
	if (more == 0)
		return value_undefined_hint(r, "no last item, the sequence was empty", result);
	return more > 0 ? 0 : more;
}

static int filter_list(struct render *r, struct invocation *call, struct value *result)
{
	const struct list *list;
	int rc = iter_list(r, call->self, &list);
	*result = value_list(rc ? NULL : list);
	return rc;
}

static int reverse_text(struct render *r, const struct text *text, struct value *result)
{
	return render_slice(r, value_text(text), value_none(), value_none(), value_int(-1), result);
}

static int reverse_rest(struct render *r, struct value iterable, struct value *result)
{
	const struct list *list;
	int rc = iter_list(r, iterable, &list);
	return rc ? rc : render_slice(r, value_list(list), value_none(), value_none(), value_int(-1), result);
}

static int filter_reverse(struct render *r, struct invocation *call, struct value *result)
{
	if (call->self.kind == VALUE_TEXT)
		return reverse_text(r, call->self.text, result);
	struct iter *iter;
	int rc = iter_reversed(r, call->self, &iter);
	if (!rc && !iter)
		return reverse_rest(r, call->self, result);
	*result = (struct value){.kind = VALUE_ITER, .iter = iter};
	return rc;
}

/* --- sorting ---------------------------------------------------------------------------------- */

static int values_of(struct render *r, const struct sort_item *items, size_t n, struct value *result)
{
	struct list *list = list_new(r, n);
	if (!list)
		return render_oom(r);
	int rc = 0;
	for (size_t i = 0; i < n && !rc; i++)
		rc = list_append(r, list, items[i].value);
	*result = value_list(list);
	return rc;
}

static int filter_sort(struct render *r, struct invocation *call, struct value *result)
{
	const struct list *list;
	int rc = iter_list(r, call->self, &list);
	if (rc)
		return rc;
	struct sort_item *items = heap_cells(&r->heap, list->n, sizeof *items);
	if (!items)
		return render_oom(r);
	for (size_t i = 0; i < list->n && !rc; i++) {
		items[i].value = list->items[i];
		rc = getter_sort_key(r, list->items[i], call->arguments[2], value_truth(call->arguments[1]),
				     &items[i].key);
	}
	rc = rc ? rc : sort_items(r, items, list->n, value_truth(call->arguments[0]));
	return rc ? rc : values_of(r, items, list->n, result);
}

static int filter_dictsort(struct render *r, struct invocation *call, struct value *result)
{
	struct value by = call->arguments[1];
	if (call->self.kind == VALUE_UNDEFINED)
		return render_undefined(r, call->self);
	if (call->self.kind != VALUE_DICT)
		return render_fail(r, "dictsort() needs a mapping, not '%s'", value_type_name(call->self));
	bool by_value = by.kind == VALUE_TEXT && text_is(by.text, "value");
	if (by.kind != VALUE_MISSING && !by_value && !(by.kind == VALUE_TEXT && text_is(by.text, "key")))
		return render_fail(r, "dictsort() sorts by \"key\" or \"value\"");
	const struct dict *dict = call->self.dict;
	struct sort_item *items = heap_cells(&r->heap, dict->n, sizeof *items);
	if (!items)
		return render_oom(r);
	int rc = 0;
	for (size_t i = 0; i < dict->n && !rc; i++) {
		const struct dict_entry *entry = &dict->entries[i];
		items[i].key = by_value ? entry->value : entry->key;
		if (!value_truth(call->arguments[0]))
			rc = casing_ignore(r, items[i].key, &items[i].key);
		rc = rc ? rc : value_pair(r, entry->key, entry->value, &items[i].value);
	}
	rc = rc ? rc : sort_items(r, items, dict->n, value_truth(call->arguments[2]));
	return rc ? rc : values_of(r, items, dict->n, result);
}

/* The key of an item for min, max, unique and groupby. */
static int item_key(struct render *r, struct value item, struct value attribute, struct value otherwise,
		    bool case_sensitive, struct value *key)
{
	int rc = getter_get(r, item, attribute, otherwise, key);
	return rc || case_sensitive ? rc : casing_ignore(r, *key, key);
}

static int add_group(struct render *r, struct list *groups, struct value grouper, struct list *members)
{
	struct value group;
	int rc = value_pair(r, grouper, value_list(members), &group);
	if (rc)
		return rc;
	((struct list *)group.list)->group = true; /* just made here */
	return list_append(r, groups, group);
}

/* Sorted by the attribute, neighbours with equal keys make a group; it is called what its first member has. */
static int filter_groupby(struct render *r, struct invocation *call, struct value *result)
{
	struct value attribute = call->arguments[0], otherwise = call->arguments[1];
	bool case_sensitive = value_truth(call->arguments[2]);
	const struct list *list;
	int rc = iter_list(r, call->self, &list);
	if (rc)
		return rc;
	struct sort_item *items = heap_cells(&r->heap, list->n, sizeof *items);
	struct list *groups = list_new(r, 0), *members = NULL;
	if (!items || !groups)
		return render_oom(r);
	for (size_t i = 0; i < list->n && !rc; i++) {
		items[i].value = list->items[i];
		rc = item_key(r, list->items[i], attribute, otherwise, case_sensitive, &items[i].key);
	}
	rc = rc ? rc : sort_items(r, items, list->n, false);
	for (size_t i = 0; i < list->n && !rc; i++) {
		bool same = false;
		if (i)
			rc = value_equal(r, items[i].key, items[i - 1].key, &same);
		if (!rc && !same) {
			struct value grouper;
			members = list_new(r, 1);
			rc = members ? getter_get(r, items[i].value, attribute, otherwise, &grouper) : render_oom(r);
			rc = rc ? rc : add_group(r, groups, grouper, members);
		}
		rc = rc ? rc : list_append(r, members, items[i].value);
	}
	*result = value_list(groups);
	return rc;
}

/* --- folding ---------------------------------------------------------------------------------- */

static int extreme(struct render *r, struct invocation *call, int sign, struct value *result)
{
	struct value item, key, best_key = {.kind = VALUE_MISSING}, none = {.kind = VALUE_MISSING};
	struct iter *iter;
	int rc = iter_start(r, call->self, &iter), more = 0;
	while (!rc && (more = iter_next(r, iter, &item)) > 0) {
		int order = -1;
		bool unordered = false;
		rc = item_key(r, item, call->arguments[1], none, value_truth(call->arguments[0]), &key);
		if (!rc && best_key.kind != VALUE_MISSING)
			rc = sign < 0 ? value_order(r, key, best_key, &order, &unordered)
				      : value_order(r, best_key, key, &order, &unordered);
		if (rc || unordered || order >= 0)
			continue;
		best_key = key;
		*result = item;
	}
	if (rc || more)
		return rc ? rc : more;
	return best_key.kind == VALUE_MISSING
		       ? value_undefined_hint(r, "no aggregated item, the sequence was empty", result)
		       : 0;
}

static int filter_min(struct render *r, struct invocation *call, struct value *result)
{
	return extreme(r, call, -1, result);
}

static int filter_max(struct render *r, struct invocation *call, struct value *result)
{
	return extreme(r, call, 1, result);
}

static int filter_sum(struct render *r, struct invocation *call, struct value *result)
{
	struct value item, none = {.kind = VALUE_MISSING}, sum = call->arguments[1];
	struct iter *iter;
	if (sum.kind == VALUE_MISSING)
		sum = value_int(0);
	if (sum.kind == VALUE_TEXT)
		return render_fail(r, "sum() does not add strings");
	int rc = iter_start(r, call->self, &iter), more = 0;
	while (!rc && (more = iter_next(r, iter, &item)) > 0) {
		rc = getter_get(r, item, call->arguments[0], none, &item);
		rc = rc ? rc : render_binary(r, OP_ADD, sum, item, &sum);
	}
	*result = sum;
	return rc ? rc : more;
}

static int filter_attr(struct render *r, struct invocation *call, struct value *result)
{
	if (call->arguments[0].kind != VALUE_TEXT)
		return render_fail(r, "attr() needs the name of an attribute");
	return render_attr_only(r, call->self, call->arguments[0].text, result);
}

static const struct builtin table[] = {
	{.name = "default", .run = filter_default, .parameters = {"default_value", "boolean"}},
	{.name = "d", .run = filter_default, .parameters = {"default_value", "boolean"}},
	{.name = "length", .run = filter_length},
	{.name = "count", .run = filter_length},
	{.name = "first", .run = filter_first},
	{.name = "last", .run = filter_last},
	{.name = "list", .run = filter_list},
	{.name = "reverse", .run = filter_reverse},
	{.name = "sort", .run = filter_sort, .parameters = {"reverse", "case_sensitive", "attribute"}},
	{.name = "dictsort", .run = filter_dictsort, .parameters = {"case_sensitive", "by", "reverse"}},
	{.name = "groupby",
	 .run = filter_groupby,
	 .n_required = 1,
	 .parameters = {"attribute", "default", "case_sensitive"}},
	{.name = "min", .run = filter_min, .parameters = {"case_sensitive", "attribute"}},
	{.name = "max", .run = filter_max, .parameters = {"case_sensitive", "attribute"}},
	{.name = "sum", .run = filter_sum, .parameters = {"attribute", "start"}},
	{.name = "attr", .run = filter_attr, .n_required = 1, .parameters = {"name"}},
	{.name = "random"},
};

const struct builtin_table filters_sequence = BUILTIN_TABLE(table);
