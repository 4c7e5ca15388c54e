/* Tests: what stands behind `is`. */
#include "src/engine/template/builtin.h"
#include "src/engine/template/iter.h"
#include "src/engine/template/number.h"
#include "src/engine/template/render.h"
#include "src/engine/template/unicode.h"

#define KIND_TEST(name, condition)                                                              \
	static int test_##name(struct render *r, struct invocation *call, struct value *result) \
	{                                                                                       \
		(void)r;                                                                        \
		struct value self = call->self;                                                 \
		*result = value_bool(condition);                                                \
		return 0;                                                                       \
	}

KIND_TEST(defined, self.kind != VALUE_UNDEFINED)
KIND_TEST(undefined, self.kind == VALUE_UNDEFINED)
KIND_TEST(none, self.kind == VALUE_NONE)
KIND_TEST(boolean, self.kind == VALUE_BOOL)
KIND_TEST(true, self.kind == VALUE_BOOL && self.boolean)
KIND_TEST(false, self.kind == VALUE_BOOL && !self.boolean)
KIND_TEST(integer, self.kind == VALUE_INT)
KIND_TEST(float, self.kind == VALUE_FLOAT)
KIND_TEST(number, value_is_number(self))
KIND_TEST(string, self.kind == VALUE_TEXT)
KIND_TEST(mapping, self.kind == VALUE_DICT)
KIND_TEST(iterable, iter_possible(self))
KIND_TEST(escaped, self.kind == VALUE_TEXT && self.text->markup)
KIND_TEST(sequence, self.kind == VALUE_UNDEFINED || self.kind == VALUE_TEXT || self.kind == VALUE_LIST ||
			    self.kind == VALUE_TUPLE || self.kind == VALUE_DICT || self.kind == VALUE_RANGE)
KIND_TEST(callable, self.kind == VALUE_UNDEFINED || self.kind == VALUE_FUNCTION || self.kind == VALUE_METHOD ||
			    self.kind == VALUE_MACRO || self.kind == VALUE_JOINER || self.kind == VALUE_LOOP)

/* --- comparisons ------------------------------------------------------------------------------ */

static int test_eq(struct render *r, struct invocation *call, struct value *result)
{
	bool equal = false;
	int rc = value_equal(r, call->self, call->arguments[0], &equal);
	*result = value_bool(equal);
	return rc;
}

static int test_ne(struct render *r, struct invocation *call, struct value *result)
{
	int rc = test_eq(r, call, result);
	result->boolean = !result->boolean;
	return rc;
}

/* self < argument, or with the two swapped */
static int less(struct render *r, struct value a, struct value b, bool or_equal, struct value *result)
{
	int order = 0;
	bool unordered = false;
	int rc = value_order(r, a, b, &order, &unordered);
	*result = value_bool(!unordered && (or_equal ? order <= 0 : order < 0));
	return rc;
}

static int test_lt(struct render *r, struct invocation *call, struct value *result)
{
	return less(r, call->self, call->arguments[0], false, result);
}

static int test_le(struct render *r, struct invocation *call, struct value *result)
{
	return less(r, call->self, call->arguments[0], true, result);
}

static int test_gt(struct render *r, struct invocation *call, struct value *result)
{
	return less(r, call->arguments[0], call->self, false, result);
}

static int test_ge(struct render *r, struct invocation *call, struct value *result)
{
	return less(r, call->arguments[0], call->self, true, result);
}

static int test_in(struct render *r, struct invocation *call, struct value *result)
{
	bool found = false;
	int rc = value_contains(r, call->arguments[0], call->self, &found);
	*result = value_bool(found);
	return rc;
}

/* Python's `is`, as far as it can be relied on: one None, one of each bool, small integers, the same object. */
static int test_sameas(struct render *r, struct invocation *call, struct value *result)
{
	struct value a = call->self, b = call->arguments[0];
	(void)r;
	bool same = a.kind == b.kind;
	if (a.kind == VALUE_BOOL)
		same = same && a.boolean == b.boolean;
	else if (a.kind == VALUE_INT)
		same = same && a.integer == b.integer && a.integer >= -5 && a.integer <= 256;
	else if (a.kind == VALUE_FLOAT)
		same = false;
	else if (a.kind != VALUE_NONE)
		same = same && a.dict == b.dict;
	*result = value_bool(same);
	return 0;
}

/* --- numbers and text ------------------------------------------------------------------------- */

/* value % by == rest */
static int has_remainder(struct render *r, struct value value, struct value by, int64_t rest, struct value *result)
{
	struct value remainder;
	bool equal = false;
	int rc = render_binary(r, OP_MOD, value, by, &remainder);
	rc = rc ? rc : value_equal(r, remainder, value_int(rest), &equal);
	*result = value_bool(equal);
	return rc;
}

static int test_odd(struct render *r, struct invocation *call, struct value *result)
{
	return has_remainder(r, call->self, value_int(2), 1, result);
}

static int test_even(struct render *r, struct invocation *call, struct value *result)
{
	return has_remainder(r, call->self, value_int(2), 0, result);
}

static int test_divisibleby(struct render *r, struct invocation *call, struct value *result)
{
	return has_remainder(r, call->self, call->arguments[0], 0, result);
}

static int all_cased(struct render *r, struct value value, bool upper, struct value *result)
{
	const struct text *text;
	int rc = render_str(r, value, &text);
	rc = rc ? rc : render_charge(r, text->n_bytes / 16);
	if (rc)
		return rc;
	bool any = false, all = true;
	for (const char *at = text->bytes, *end = at + text->n_bytes; at < end && all;) {
		uint32_t c = text_next_char(&at);
		bool matches = upper ? unicode_is_upper(c) : unicode_is_lower(c);
		any |= matches;
		all = matches || !unicode_is_cased(c);
	}
	*result = value_bool(any && all);
	return 0;
}

static int test_lower(struct render *r, struct invocation *call, struct value *result)
{
	return all_cased(r, call->self, false, result);
}

static int test_upper(struct render *r, struct invocation *call, struct value *result)
{
	return all_cased(r, call->self, true, result);
}

/* --- what there is ---------------------------------------------------------------------------- */

static int test_filter(struct render *r, struct invocation *call, struct value *result)
{
	uint64_t hash;
	int rc = value_hash(r, call->self, &hash); /* as looking it up in a dict would */
	*result = value_bool(call->self.kind == VALUE_TEXT && builtin_filter(call->self.text));
	return rc;
}

static int test_test(struct render *r, struct invocation *call, struct value *result)
{
	uint64_t hash;
	int rc = value_hash(r, call->self, &hash);
	*result = value_bool(call->self.kind == VALUE_TEXT && builtin_test(call->self.text));
	return rc;
}

static const struct builtin table[] = {
	{.name = "defined", .run = test_defined},
	{.name = "undefined", .run = test_undefined},
	{.name = "none", .run = test_none},
	{.name = "boolean", .run = test_boolean},
	{.name = "true", .run = test_true},
	{.name = "false", .run = test_false},
	{.name = "integer", .run = test_integer},
	{.name = "float", .run = test_float},
	{.name = "number", .run = test_number},
	{.name = "string", .run = test_string},
	{.name = "mapping", .run = test_mapping},
	{.name = "iterable", .run = test_iterable},
	{.name = "sequence", .run = test_sequence},
	{.name = "callable", .run = test_callable},
	{.name = "escaped", .run = test_escaped},
	{.name = "eq", .run = test_eq, .n_required = 1, .parameters = {""}},
	{.name = "equalto", .run = test_eq, .n_required = 1, .parameters = {""}},
	{.name = "==", .run = test_eq, .n_required = 1, .parameters = {""}},
	{.name = "ne", .run = test_ne, .n_required = 1, .parameters = {""}},
	{.name = "!=", .run = test_ne, .n_required = 1, .parameters = {""}},
	{.name = "lt", .run = test_lt, .n_required = 1, .parameters = {""}},
	{.name = "lessthan", .run = test_lt, .n_required = 1, .parameters = {""}},
	{.name = "<", .run = test_lt, .n_required = 1, .parameters = {""}},
	{.name = "le", .run = test_le, .n_required = 1, .parameters = {""}},
	{.name = "<=", .run = test_le, .n_required = 1, .parameters = {""}},
	{.name = "gt", .run = test_gt, .n_required = 1, .parameters = {""}},
	{.name = "greaterthan", .run = test_gt, .n_required = 1, .parameters = {""}},
	{.name = ">", .run = test_gt, .n_required = 1, .parameters = {""}},
	{.name = "ge", .run = test_ge, .n_required = 1, .parameters = {""}},
	{.name = ">=", .run = test_ge, .n_required = 1, .parameters = {""}},
	{.name = "in", .run = test_in, .n_required = 1, .parameters = {"seq"}},
	{.name = "sameas", .run = test_sameas, .n_required = 1, .parameters = {"other"}},
	{.name = "odd", .run = test_odd},
	{.name = "even", .run = test_even},
	{.name = "divisibleby", .run = test_divisibleby, .n_required = 1, .parameters = {"num"}},
	{.name = "lower", .run = test_lower},
	{.name = "upper", .run = test_upper},
	{.name = "filter", .run = test_filter},
	{.name = "test", .run = test_test},
};

const struct builtin_table tests = BUILTIN_TABLE(table);
