/* a.b, a[b] and a[b:c:d] as the sandbox allows them: an attribute wins over an item with a dot, an item over an
 * attribute with brackets, and what is missing is undefined. */
#include <errno.h>

#include "src/engine/template/builtin.h"
#include "src/engine/template/iter.h"
#include "src/engine/template/loop.h"
#include "src/engine/template/render.h"

static int missing(struct render *r, struct value object, struct value name, struct value *result)
{
	return value_undefined_attribute(r, object, name, result);
}

/* --- attributes ------------------------------------------------------------------------------- */

static struct builtin_table methods_of(struct value object)
{
	switch (object.kind) {
	case VALUE_TEXT:
		return methods_text;
	case VALUE_DICT:
		return methods_dict;
	case VALUE_LIST:
		return methods_list;
	case VALUE_TUPLE:
	case VALUE_RANGE:
		return methods_tuple;
	case VALUE_INT:
	case VALUE_BOOL:
		return methods_int;
	case VALUE_FLOAT:
		return methods_float;
	case VALUE_CYCLER:
		return methods_cycler;
	default:
		return (struct builtin_table){0};
	}
}

/* Methods that would change a list or dict: the sandbox gives an undefined value instead. */
static bool is_mutator(struct value object, const struct text *name)
{
	static const char *const of_list[] = {"append", "clear",  "pop",    "reverse", "insert",
					      "sort",	"extend", "remove", NULL};
	static const char *const of_dict[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
	const char *const *names = object.kind == VALUE_LIST ? of_list : object.kind == VALUE_DICT ? of_dict : NULL;
	for (; names && *names; names++)
		if (text_is(name, *names))
			return true;
	return false;
}

static int bind_method(struct render *r, struct value object, const struct builtin *builtin, struct value *result)
{
	struct method *method = heap_cells(&r->heap, 1, sizeof *method);
	if (!method)
		return render_oom(r);
	*method = (struct method){object, builtin};
	*result = (struct value){.kind = VALUE_METHOD, .method = method};
	return 0;
}

static int attr_of_range(const struct range *range, const struct text *name, struct value *result)
{
	if (text_is(name, "start"))
		*result = value_int(range->start);
	else if (text_is(name, "stop"))
		*result = value_int(range->stop);
	else if (text_is(name, "step"))
		*result = value_int(range->step);
	return 0;
}

static void attr_of_number(struct value number, const struct text *name, struct value *result)
{
	int64_t integer;
	bool is_int = value_index(number, &integer);
	if (text_is(name, "real") || (is_int && text_is(name, "numerator")))
		*result = is_int ? value_int(integer) : number;
	else if (text_is(name, "imag"))
		*result = is_int ? value_int(0) : value_float(0);
	else if (is_int && text_is(name, "denominator"))
		*result = value_int(1);
}

/* Attributes that are no methods; `*result` VALUE_MISSING if there is none. */
static int own_attr(struct render *r, struct value object, const struct text *name, struct value *result)
{
	*result = (struct value){.kind = VALUE_MISSING};
	switch (object.kind) {
	case VALUE_NAMESPACE:
		return name->n_bytes && name->bytes[0] == '_' ? 0 : dict_get(r, object.dict, value_text(name), result);
	case VALUE_LOOP:
		return loop_attr(r, object.loop, name, result);
	case VALUE_RANGE:
		return attr_of_range(object.range, name, result);
	case VALUE_BOOL:
	case VALUE_INT:
	case VALUE_FLOAT:
		attr_of_number(object, name, result);
		return 0;
	case VALUE_CYCLER:
		if (text_is(name, "current"))
			*result = cycler_current(object.cycler);
		return 0;
	case VALUE_MACRO:
		if (text_is(name, "name") && object.macro->function->name)
			*result = value_text(object.macro->function->name);
		return 0;
	case VALUE_TUPLE:
		if (object.list->group && text_is(name, "grouper"))
			*result = object.list->items[0];
		else if (object.list->group && text_is(name, "list"))
			*result = object.list->items[1];
		return 0;
	default:
		return 0;
	}
}

/* getattr(object, name): a value, an undefined one for what the sandbox hides, or VALUE_MISSING. */
static int find_attr(struct render *r, struct value object, const struct text *name, struct value *result)
{
	if (object.kind == VALUE_UNDEFINED)
		return render_undefined(r, object);
	int rc = own_attr(r, object, name, result);
	if (rc || result->kind != VALUE_MISSING)
		return rc;
	if (is_mutator(object, name))
		return value_undefined_hint(r, "access to a method that changes its object is unsafe", result);
	const struct builtin *builtin = builtin_in(methods_of(object), name);
	return builtin ? bind_method(r, object, builtin, result) : 0;
}

/* --- items ------------------------------------------------------------------------------------ */

static int item_at(struct render *r, struct value object, int64_t index, struct value *result)
{
	int64_t length = value_length(object);
	if (index < 0)
		index += length;
	if (index < 0 || index >= length)
		return 0;
	if (object.kind == VALUE_RANGE) {
		const struct range *range = object.range;
		*result = value_int((int64_t)((uint64_t)range->start + (uint64_t)index * (uint64_t)range->step));
		return 0;
	}
	if (object.kind != VALUE_TEXT) {
		*result = object.list->items[index];
		return 0;
	}
	const struct text *text = object.text;
	int rc = text->n_chars == text->n_bytes ? 0 : render_charge(r, text->n_bytes / 64);
	return rc ? rc : render_text_made(r, text_slice(&r->heap, text, (size_t)index, (size_t)index + 1), result);
}

/* object[key]; VALUE_MISSING where Python raises a LookupError or TypeError. */
static int find_item(struct render *r, struct value object, struct value key, struct value *result)
{
	*result = (struct value){.kind = VALUE_MISSING};
	int64_t index;
	if (object.kind == VALUE_UNDEFINED)
		return render_undefined(r, object);
	if (object.kind == VALUE_DICT) {
		int rc = dict_get(r, object.dict, key, result);
		return rc == -EINVAL ? 0 : rc; /* a key that cannot be hashed is not there */
	}
	bool indexed = object.kind == VALUE_TEXT || object.kind == VALUE_LIST || object.kind == VALUE_TUPLE ||
		       object.kind == VALUE_RANGE;
	return indexed && value_index(key, &index) ? item_at(r, object, index, result) : 0;
}

int render_attr(struct render *r, struct value object, const struct text *name, struct value *result)
{
	int rc = find_attr(r, object, name, result);
	if (!rc && result->kind == VALUE_MISSING)
		rc = find_item(r, object, value_text(name), result);
	if (!rc && result->kind == VALUE_MISSING)
		rc = missing(r, object, value_text(name), result);
	return rc;
}

int render_attr_only(struct render *r, struct value object, const struct text *name, struct value *result)
{
	int rc = find_attr(r, object, name, result);
	if (!rc && result->kind == VALUE_MISSING)
		rc = missing(r, object, value_text(name), result);
	return rc;
}

int render_item(struct render *r, struct value object, struct value key, struct value *result)
{
	int rc = find_item(r, object, key, result);
	if (!rc && result->kind == VALUE_MISSING && key.kind == VALUE_TEXT)
		rc = find_attr(r, object, key.text, result);
	if (!rc && result->kind == VALUE_MISSING)
		rc = missing(r, object, key, result);
	return rc;
}

/* --- slices ----------------------------------------------------------------------------------- */

/* Python's slice.indices(): items start, start + step, …, n of them. */
struct slice {
	int64_t start, step, n;
};

static int slice_bound(struct render *r, struct value bound, int64_t otherwise, int64_t length, bool backwards,
		       int64_t *at)
{
	*at = otherwise;
	if (bound.kind == VALUE_NONE || bound.kind == VALUE_MISSING)
		return 0;
	if (!value_index(bound, at))
		return bound.kind == VALUE_UNDEFINED ? render_undefined(r, bound)
						     : render_fail(r, "slice indices must be integers or none");
	if (*at < 0) {
		*at = *at < -length ? -1 : *at + length;
		if (*at < 0)
			*at = backwards ? -1 : 0;
	} else if (*at >= length) {
		*at = backwards ? length - 1 : length;
	}
	return 0;
}

static int slice_indices(struct render *r, struct value start, struct value stop, struct value step, int64_t length,
			 struct slice *slice)
{
	int64_t by = 1, from, to;
	bool given = step.kind != VALUE_NONE && step.kind != VALUE_MISSING;
	if (given && !value_index(step, &by))
		return step.kind == VALUE_UNDEFINED ? render_undefined(r, step)
						    : render_fail(r, "slice indices must be integers or none");
	if (by == 0)
		return render_fail(r, "the step of a slice cannot be zero");
	if (by == INT64_MIN)
		by++;
	bool backwards = by < 0;
	int rc = slice_bound(r, start, backwards ? length - 1 : 0, length, backwards, &from);
	rc = rc ? rc : slice_bound(r, stop, backwards ? -1 : length, length, backwards, &to);
	if (rc)
		return rc;
	int64_t distance = backwards ? from - to : to - from, stride = backwards ? -by : by;
	*slice = (struct slice){from, by, distance > 0 ? (distance - 1) / stride + 1 : 0};
	return 0;
}

static int slice_text(struct render *r, const struct text *text, const struct slice *slice, struct value *result)
{
	int rc = render_charge(r, text->n_bytes / 64 + (uint64_t)slice->n / 16);
	if (rc)
		return rc;
	if (slice->step == 1 || !slice->n) {
		size_t start = slice->n ? (size_t)slice->start : 0;
		return render_text_made(r, text_slice(&r->heap, text, start, start + (size_t)slice->n), result);
	}
	/* Walks all characters in the direction of the step and keeps every |step|-th. */
	size_t mark = r->n_output;
	const char *at = text->bytes + text_offset(text, (size_t)slice->start);
	for (int64_t i = 0; i < slice->n && !rc; i++) {
		const char *start = at;
		text_next_char(&at);
		rc = render_write(r, start, (size_t)(at - start));
		for (int64_t k = 1; k < slice->step && i + 1 < slice->n; k++)
			text_next_char(&at);
		if (slice->step < 0) {
			at = start;
			for (int64_t k = 0; k > slice->step && i + 1 < slice->n; k--)
				text_previous_char(&at);
		}
	}
	const struct text *kept = NULL;
	rc = rc ? rc : render_capture(r, mark, &kept);
	if (!rc)
		rc = render_text_made(r, text_marked(&r->heap, kept, text->markup), result);
	return rc;
}

static int slice_list(struct render *r, struct value object, const struct slice *slice, struct value *result)
{
	struct list *list = list_new(r, slice->step == 1 ? 0 : (size_t)slice->n);
	if (!list)
		return render_oom(r);
	if (slice->step == 1 && slice->n) { /* shares the items */
		list->items = object.list->items + slice->start;
		list->n = list->capacity = (size_t)slice->n;
	}
	for (int64_t i = 0; slice->step != 1 && i < slice->n; i++)
		list->items[list->n++] = object.list->items[slice->start + i * slice->step];
	*result = (struct value){.kind = object.kind, .list = list};
	return render_charge(r, slice->step == 1 ? 1 : (uint64_t)slice->n);
}

static int slice_range(struct render *r, const struct range *range, const struct slice *slice, struct value *result)
{
	struct range *part = heap_cells(&r->heap, 1, sizeof *part);
	if (!part)
		return render_oom(r);
	part->n = slice->n;
	if (__builtin_mul_overflow(range->step, slice->step, &part->step) ||
	    __builtin_add_overflow(range->start, slice->start * range->step, &part->start) ||
	    __builtin_add_overflow(part->start, slice->n * part->step, &part->stop))
		return render_fail(r, "the slice of a range does not fit 64 bits");
	*result = (struct value){.kind = VALUE_RANGE, .range = part};
	return 0;
}

int render_slice(struct render *r, struct value object, struct value start, struct value stop, struct value step,
		 struct value *result)
{
	if (object.kind == VALUE_UNDEFINED)
		return render_undefined(r, object);
	bool sliceable = object.kind == VALUE_TEXT || object.kind == VALUE_LIST || object.kind == VALUE_TUPLE ||
			 object.kind == VALUE_RANGE;
	if (!sliceable)
		return render_fail(r, "'%s' object cannot be sliced", value_type_name(object));
	struct slice slice = {0};
	int rc = slice_indices(r, start, stop, step, value_length(object), &slice);
	if (rc)
		return rc;
	if (object.kind == VALUE_TEXT)
		return slice_text(r, object.text, &slice, result);
	return object.kind == VALUE_RANGE ? slice_range(r, object.range, &slice, result)
					  : slice_list(r, object, &slice, result);
}
