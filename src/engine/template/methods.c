/* Methods of dicts, lists, tuples, ranges and numbers. Those that would change their object are not here: the sandbox
 * hides them. */
#include <math.h>

#include "src/engine/template/builtin.h"
#include "src/engine/template/render.h"

/* --- dict ------------------------------------------------------------------------------------- */

static int dict_get_method(struct render *r, struct invocation *call, struct value *result)
{
	int rc = dict_get(r, call->self.dict, call->arguments[0], result);
	if (!rc && result->kind == VALUE_MISSING)
		*result = call->arguments[1].kind == VALUE_MISSING ? value_none() : call->arguments[1];
	return rc;
}

static int dict_keys(struct render *r, struct invocation *call, struct value *result)
{
	(void)r;
	*result = (struct value){.kind = VALUE_KEYS, .dict = call->self.dict};
	return 0;
}

static int dict_values(struct render *r, struct invocation *call, struct value *result)
{
	(void)r;
	*result = (struct value){.kind = VALUE_VALUES, .dict = call->self.dict};
	return 0;
}

static int dict_items(struct render *r, struct invocation *call, struct value *result)
{
	(void)r;
	*result = (struct value){.kind = VALUE_ITEMS, .dict = call->self.dict};
	return 0;
}

/* Nothing can change a dict or list, so it is its own copy. */
static int self_copy(struct render *r, struct invocation *call, struct value *result)
{
	(void)r;
	*result = call->self;
	return 0;
}

static const struct builtin dict_table[] = {
	{.name = "get", .run = dict_get_method, .n_required = 1, .parameters = {"", ""}},
	{.name = "keys", .run = dict_keys},
	{.name = "values", .run = dict_values},
	{.name = "items", .run = dict_items},
	{.name = "copy", .run = self_copy},
	{.name = "fromkeys"},
};

const struct builtin_table methods_dict = BUILTIN_TABLE(dict_table);

/* --- sequences -------------------------------------------------------------------------------- */

static int sequence_item(struct render *r, struct value sequence, int64_t index, struct value *item)
{
	return render_item(r, sequence, value_int(index), item);
}

static int sequence_count(struct render *r, struct invocation *call, struct value *result)
{
	int64_t length = value_length(call->self), n = 0;
	int rc = 0;
	for (int64_t i = 0; i < length && !rc; i++) {
		struct value item;
		bool equal = false;
		rc = sequence_item(r, call->self, i, &item);
		rc = rc ? rc : value_equal(r, item, call->arguments[0], &equal);
		n += equal;
	}
	*result = value_int(n);
	return rc;
}

/* A bound of index(): an integer, counted from the end when negative. */
static int search_bound(struct render *r, struct value bound, int64_t otherwise, int64_t length, int64_t *at)
{
	*at = otherwise;
	if (bound.kind != VALUE_MISSING && !value_index(bound, at))
		return render_fail(r, "the bounds of index() must be integers");
	if (*at < 0)
		*at = *at < -length ? 0 : *at + length;
	return 0;
}

static int sequence_index(struct render *r, struct invocation *call, struct value *result)
{
	int64_t length = value_length(call->self), start, stop;
	int rc = search_bound(r, call->arguments[1], 0, length, &start);
	rc = rc ? rc : search_bound(r, call->arguments[2], length, length, &stop);
	for (int64_t i = rc ? length : start; i < length && i < stop; i++) {
		struct value item;
		bool equal = false;
		rc = sequence_item(r, call->self, i, &item);
		rc = rc ? rc : value_equal(r, item, call->arguments[0], &equal);
		if (rc || equal) {
			*result = value_int(i);
			return rc;
		}
	}
	return rc ? rc : render_fail(r, "index(): the value is not in the %s", value_type_name(call->self));
}

static const struct builtin list_table[] = {
	{.name = "count", .run = sequence_count, .n_required = 1, .parameters = {""}},
	{.name = "index", .run = sequence_index, .n_required = 1, .parameters = {"", "", ""}},
	{.name = "copy", .run = self_copy},
};

static const struct builtin tuple_table[] = {
	{.name = "count", .run = sequence_count, .n_required = 1, .parameters = {""}},
	{.name = "index", .run = sequence_index, .n_required = 1, .parameters = {"", "", ""}},
};

const struct builtin_table methods_list = BUILTIN_TABLE(list_table);
const struct builtin_table methods_tuple = BUILTIN_TABLE(tuple_table);

/* --- numbers ---------------------------------------------------------------------------------- */

static int float_is_integer(struct render *r, struct invocation *call, struct value *result)
{
	(void)r;
	*result = value_bool(isfinite(call->self.real) && floor(call->self.real) == call->self.real);
	return 0;
}

static int int_bit_length(struct render *r, struct invocation *call, struct value *result)
{
	int64_t integer = 0, n_bits = 0;
	(void)r;
	value_index(call->self, &integer);
	for (uint64_t rest = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer; rest; rest >>= 1)
		n_bits++;
	*result = value_int(n_bits);
	return 0;
}

static const struct builtin int_table[] = {
	{.name = "bit_length", .run = int_bit_length},
	{.name = "as_integer_ratio"},
	{.name = "bit_count"},
	{.name = "conjugate"},
	{.name = "from_bytes"},
	{.name = "to_bytes"},
};

static const struct builtin float_table[] = {
	{.name = "is_integer", .run = float_is_integer},
	{.name = "as_integer_ratio"},
	{.name = "conjugate"},
	{.name = "fromhex"},
	{.name = "hex"},
};

const struct builtin_table methods_int = BUILTIN_TABLE(int_table);
const struct builtin_table methods_float = BUILTIN_TABLE(float_table);
