#include "src/engine/template/value.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "src/engine/template/iter.h"
#include "src/engine/template/render.h"

static int make_undefined(struct render *r, struct undefined from, struct value *undefined)
{
	struct undefined *made = heap_cells(&r->heap, 1, sizeof *made);
	if (!made)
		return render_oom(r);
	*made = from;
	*undefined = (struct value){.kind = VALUE_UNDEFINED, .undefined = made};
	return 0;
}

int value_undefined_name(struct render *r, const struct text *name, struct value *undefined)
{
	return make_undefined(r, (struct undefined){.name = value_text(name)}, undefined);
}

int value_undefined_attribute(struct render *r, struct value owner, struct value name, struct value *undefined)
{
	return make_undefined(r, (struct undefined){.owner = value_type_name(owner), .name = name}, undefined);
}

int value_undefined_hint(struct render *r, const char *hint, struct value *undefined)
{
	return make_undefined(r, (struct undefined){.hint = hint}, undefined);
}

const char *value_type_name(struct value value)
{
	static const char *const names[] = {
		[VALUE_MISSING] = "missing",
		[VALUE_UNDEFINED] = "Undefined",
		[VALUE_NONE] = "NoneType",
		[VALUE_BOOL] = "bool",
		[VALUE_INT] = "int",
		[VALUE_FLOAT] = "float",
		[VALUE_TEXT] = "str",
		[VALUE_LIST] = "list",
		[VALUE_TUPLE] = "tuple",
		[VALUE_DICT] = "dict",
		[VALUE_KEYS] = "dict_keys",
		[VALUE_VALUES] = "dict_values",
		[VALUE_ITEMS] = "dict_items",
		[VALUE_RANGE] = "range",
		[VALUE_ITER] = "generator",
		[VALUE_NAMESPACE] = "Namespace",
		[VALUE_LOOP] = "LoopContext",
		[VALUE_MACRO] = "Macro",
		[VALUE_METHOD] = "builtin_function_or_method",
		[VALUE_FUNCTION] = "function",
		[VALUE_CYCLER] = "Cycler",
		[VALUE_JOINER] = "Joiner",
	};
	return names[value.kind];
}

bool value_is_number(struct value value)
{
	return value.kind == VALUE_BOOL || value.kind == VALUE_INT || value.kind == VALUE_FLOAT;
}

bool value_index(struct value value, int64_t *index)
{
	if (value.kind == VALUE_INT)
		*index = value.integer;
	else if (value.kind == VALUE_BOOL)
		*index = value.boolean;
	else
		return false;
	return true;
}

int64_t value_length(struct value value)
{
	switch (value.kind) {
	case VALUE_UNDEFINED:
		return 0;
	case VALUE_TEXT:
		return (int64_t)value.text->n_chars;
	case VALUE_LIST:
	case VALUE_TUPLE:
		return (int64_t)value.list->n;
	case VALUE_DICT:
	case VALUE_KEYS:
	case VALUE_VALUES:
	case VALUE_ITEMS:
		return (int64_t)value.dict->n;
	case VALUE_RANGE:
		return value.range->n;
	default:
		return -1;
	}
}

bool value_truth(struct value value)
{
	switch (value.kind) {
	case VALUE_MISSING:
	case VALUE_NONE:
		return false;
	case VALUE_BOOL:
		return value.boolean;
	case VALUE_INT:
		return value.integer != 0;
	case VALUE_FLOAT:
		return value.real != 0;
	default:
		return value_length(value) != 0; /* what has no length is true */
	}
}

/* --- equality --------------------------------------------------------------------------------- */

/* Exact, as Python compares an int with a float; d is not NaN. */
static int compare_int_float(int64_t i, double d)
{
	if (d >= 0x1p63)
		return -1;
	if (d < -0x1p63)
		return 1;
	int64_t whole = (int64_t)d;
	if (i != whole)
		return i < whole ? -1 : 1;
	double fraction = d - (double)whole;
	return fraction > 0 ? -1 : fraction < 0;
}

/* Both are numbers. */
static int compare_numbers(struct value a, struct value b, bool *unordered)
{
	int64_t i, j;
	bool a_int = value_index(a, &i), b_int = value_index(b, &j);
	*unordered = (!a_int && isnan(a.real)) || (!b_int && isnan(b.real));
	if (*unordered)
		return 1;
	if (a_int && b_int)
		return (i > j) - (i < j);
	if (a_int)
		return compare_int_float(i, b.real);
	if (b_int)
		return -compare_int_float(j, a.real);
	return (a.real > b.real) - (a.real < b.real);
}

static int equal_lists(struct render *r, const struct list *a, const struct list *b, bool *equal)
{
	*equal = a->n == b->n;
	int rc = render_enter(r);
	if (rc)
		return rc;
	for (size_t i = 0; i < a->n && *equal && !rc; i++)
		rc = value_equal(r, a->items[i], b->items[i], equal);
	r->depth--;
	return rc;
}

static int equal_dicts(struct render *r, const struct dict *a, const struct dict *b, bool *equal)
{
	*equal = a->n == b->n;
	int rc = render_enter(r);
	if (rc)
		return rc;
	for (size_t i = 0; i < a->n && *equal && !rc; i++) {
		struct value other;
		rc = dict_get(r, b, a->entries[i].key, &other);
		*equal = !rc && other.kind != VALUE_MISSING;
		if (*equal)
			rc = value_equal(r, a->entries[i].value, other, equal);
	}
	r->depth--;
	return rc;
}

static int equal_keys(struct render *r, const struct dict *a, const struct dict *b, bool *equal)
{
	int rc = 0;
	*equal = a->n == b->n;
	for (size_t i = 0; i < a->n && *equal && !rc; i++) {
		struct value other;
		rc = dict_get(r, b, a->entries[i].key, &other);
		*equal = !rc && other.kind != VALUE_MISSING;
	}
	return rc;
}

static bool equal_ranges(const struct range *a, const struct range *b)
{
	return a->n == b->n && (!a->n || (a->start == b->start && (a->n == 1 || a->step == b->step)));
}

int value_equal(struct render *r, struct value a, struct value b, bool *equal)
{
	int rc = render_charge(r, 1);
	if (rc)
		return rc;
	if (value_is_number(a) && value_is_number(b)) {
		bool unordered;
		*equal = compare_numbers(a, b, &unordered) == 0;
		return 0;
	}
	*equal = false;
	if (a.kind != b.kind)
		return 0;
	switch (a.kind) {
	case VALUE_UNDEFINED:
	case VALUE_NONE:
		*equal = true;
		return 0;
	case VALUE_TEXT:
		*equal = text_equal(a.text, b.text);
		return render_charge(r, *equal ? a.text->n_bytes / 64 : 0);
	case VALUE_LIST:
	case VALUE_TUPLE:
		return equal_lists(r, a.list, b.list, equal);
	case VALUE_DICT:
	case VALUE_ITEMS: /* a set of pairs with unique keys: equal when the dicts are */
		return equal_dicts(r, a.dict, b.dict, equal);
	case VALUE_KEYS:
		return equal_keys(r, a.dict, b.dict, equal);
	case VALUE_RANGE:
		*equal = equal_ranges(a.range, b.range);
		return 0;
	default:
		*equal = a.dict == b.dict; /* identity */
		return 0;
	}
}

/* --- order ------------------------------------------------------------------------------------ */

static int order_lists(struct render *r, const struct list *a, const struct list *b, int *order, bool *unordered)
{
	int rc = render_enter(r);
	if (rc)
		return rc;
	size_t i = 0;
	bool equal = true;
	while (i < a->n && i < b->n && !rc) {
		rc = value_equal(r, a->items[i], b->items[i], &equal);
		if (rc || !equal)
			break;
		i++;
	}
	*unordered = false;
	if (!rc && equal)
		*order = (a->n > b->n) - (a->n < b->n);
	else if (!rc)
		rc = value_order(r, a->items[i], b->items[i], order, unordered);
	r->depth--;
	return rc;
}

int value_order(struct render *r, struct value a, struct value b, int *order, bool *unordered)
{
	int rc = render_charge(r, 1);
	if (rc)
		return rc;
	*unordered = false;
	if (value_is_number(a) && value_is_number(b)) {
		*order = compare_numbers(a, b, unordered);
		return 0;
	}
	if (a.kind == VALUE_TEXT && b.kind == VALUE_TEXT) {
		*order = text_compare(a.text, b.text);
		return render_charge(r, (a.text->n_bytes < b.text->n_bytes ? a.text->n_bytes : b.text->n_bytes) / 64);
	}
	if (a.kind == b.kind && (a.kind == VALUE_LIST || a.kind == VALUE_TUPLE))
		return order_lists(r, a.list, b.list, order, unordered);
	return render_type_error(r, "ordering", a, b);
}

/* --- membership ------------------------------------------------------------------------------- */

static int contains_by_iterating(struct render *r, struct value haystack, struct value needle, bool *found)
{
	struct iter *iter;
	int rc = iter_start(r, haystack, &iter);
	*found = false;
	while (!rc && !*found) {
		struct value item;
		int more = iter_next(r, iter, &item);
		if (more <= 0)
			return more;
		rc = value_equal(r, item, needle, found);
	}
	return rc;
}

static int contains_pair(struct render *r, const struct dict *dict, struct value needle, bool *found)
{
	*found = false;
	if (needle.kind != VALUE_TUPLE || needle.list->n != 2)
		return 0;
	struct value value;
	int rc = dict_get(r, dict, needle.list->items[0], &value);
	if (rc || value.kind == VALUE_MISSING)
		return rc;
	return value_equal(r, value, needle.list->items[1], found);
}

int value_contains(struct render *r, struct value haystack, struct value needle, bool *found)
{
	struct value value;
	int rc;
	switch (haystack.kind) {
	case VALUE_TEXT:
		if (needle.kind != VALUE_TEXT)
			return render_fail(r, "'in' a string needs a string, not '%s'", value_type_name(needle));
		*found = text_find(haystack.text->bytes, haystack.text->n_bytes, needle.text) != NULL;
		return render_charge(r, haystack.text->n_bytes / 64);
	case VALUE_DICT:
	case VALUE_KEYS:
		rc = dict_get(r, haystack.dict, needle, &value);
		*found = !rc && value.kind != VALUE_MISSING;
		return rc;
	case VALUE_ITEMS:
		return contains_pair(r, haystack.dict, needle, found);
	case VALUE_UNDEFINED:
	case VALUE_LIST:
	case VALUE_TUPLE:
	case VALUE_VALUES:
	case VALUE_RANGE:
	case VALUE_ITER:
		return contains_by_iterating(r, haystack, needle, found);
	default:
		return render_fail(r, "'in' does not work on '%s'", value_type_name(haystack));
	}
}

/* --- hashing ---------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t bits)
{
	return XXH3_64bits(&bits, sizeof bits);
}

static int hash_tuple(struct render *r, const struct list *tuple, uint64_t *hash)
{
	uint64_t all = tuple->n;
	int rc = render_enter(r);
	if (rc)
		return rc;
	for (size_t i = 0; i < tuple->n && !rc; i++) {
		uint64_t one = 0;
		rc = value_hash(r, tuple->items[i], &one);
		all = mix(all ^ one);
	}
	r->depth--;
	*hash = all;
	return rc;
}

int value_hash(struct render *r, struct value value, uint64_t *hash)
{
	int64_t integer;
	switch (value.kind) {
	case VALUE_BOOL:
	case VALUE_INT:
		value_index(value, &integer);
		*hash = mix((uint64_t)integer);
		return 0;
	case VALUE_FLOAT: /* equal numbers hash alike */
		if (value.real >= -0x1p63 && value.real < 0x1p63 && value.real == floor(value.real))
			*hash = mix((uint64_t)(int64_t)value.real);
		else
			*hash = XXH3_64bits(&value.real, sizeof value.real);
		return 0;
	case VALUE_TEXT:
		/* The seed is a heap address, so that nobody can prepare keys that collide. */
		*hash = XXH3_64bits_withSeed(value.text->bytes, value.text->n_bytes, (uintptr_t)r->context);
		return 0;
	case VALUE_TUPLE:
		return hash_tuple(r, value.list, hash);
	case VALUE_MISSING:
	case VALUE_UNDEFINED:
	case VALUE_NONE:
		*hash = mix(value.kind);
		return 0;
	case VALUE_LIST:
	case VALUE_DICT:
	case VALUE_KEYS:
	case VALUE_ITEMS:
		return render_fail(r, "unhashable type: '%s'", value_type_name(value));
	case VALUE_RANGE:
		*hash = mix((uint64_t)value.range->n) ^ mix((uint64_t)(value.range->n ? value.range->start : 0));
		return 0;
	default:
		*hash = mix((uintptr_t)value.dict);
		return 0;
	}
}

/* --- lists ------------------------------------------------------------------------------------ */

struct list *list_new(struct render *r, size_t capacity)
{
	struct list *list = heap_cells(&r->heap, 1, sizeof *list);
	if (!list)
		return NULL;
	list->items = heap_cells(&r->heap, capacity, sizeof *list->items);
	list->capacity = capacity;
	return list->items ? list : NULL;
}

static int list_grow(struct render *r, struct list *list, size_t capacity)
{
	struct value *items = heap_cells(&r->heap, capacity, sizeof *items);
	if (!items)
		return render_oom(r);
	if (list->n)
		memcpy(items, list->items, list->n * sizeof *items);
	list->items = items;
	list->capacity = capacity;
	return 0;
}

int list_append(struct render *r, struct list *list, struct value value)
{
	int rc = render_charge(r, 1);
	if (!rc && list->n == list->capacity)
		rc = list_grow(r, list, list->capacity ? 2 * list->capacity : 8);
	if (rc)
		return rc;
	list->items[list->n++] = value;
	return 0;
}

int list_concat(struct render *r, const struct list *a, const struct list *b, const struct list **sum)
{
	int rc = render_charge(r, b->n);
	size_t n = a->n + b->n;
	struct list *list = heap_cells(&r->heap, 1, sizeof *list);
	if (rc || !list)
		return rc ? rc : render_oom(r);
	*list = *a;
	if (!a->n_used || *a->n_used != a->n || a->capacity < n) {
		rc = render_charge(r, a->n);
		rc = rc ? rc : list_grow(r, list, n < 8 ? 8 : n + n / 2);
		if (rc)
			return rc;
		list->n_used = heap_cells(&r->heap, 1, sizeof *list->n_used);
		if (!list->n_used)
			return render_oom(r);
	}
	if (b->n)
		memcpy(list->items + a->n, b->items, b->n * sizeof *b->items);
	list->n = n;
	*list->n_used = n;
	*sum = list;
	return 0;
}

int value_pair(struct render *r, struct value a, struct value b, struct value *pair)
{
	struct list *list = list_new(r, 2);
	if (!list)
		return render_oom(r);
	list->items[0] = a;
	list->items[1] = b;
	list->n = 2;
	*pair = value_tuple(list);
	return 0;
}
