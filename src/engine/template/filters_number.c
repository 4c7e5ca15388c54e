/* Filters on numbers. */
#include <math.h>

#include "src/engine/template/builtin.h"
#include "src/engine/template/number.h"
#include "src/engine/template/render.h"

static int out_of_range(struct render *r)
{
	return render_fail(r, "the number does not fit a 64-bit integer");
}

/* int(real), or `otherwise` for NaN. */
static int truncate_real(struct render *r, double real, struct value otherwise, struct value *result)
{
	*result = otherwise;
	if (isnan(real))
		return 0;
	if (!(real >= -0x1p63 && real < 0x1p63))
		return out_of_range(r);
	*result = value_int((int64_t)real);
	return 0;
}

static int int_of_text(struct render *r, const struct text *text, struct value base_value, struct value otherwise,
		       struct value *result)
{
	int64_t integer, base = 10;
	double real;
	bool base_ok = base_value.kind == VALUE_MISSING || value_index(base_value, &base);
	base_ok = base_ok && (base == 0 || (base >= 2 && base <= 36));
	enum number_parse parsed = base_ok ? number_parse_int(text, (int)base, &integer) : NUMBER_BAD;
	if (parsed == NUMBER_TOO_LARGE)
		return out_of_range(r);
	*result = parsed == NUMBER_OK ? value_int(integer) : otherwise;
	if (parsed == NUMBER_OK || number_parse_float(text, &real) != NUMBER_OK || !isfinite(real))
		return 0;
	return truncate_real(r, real, otherwise, result);
}

static int filter_int(struct render *r, struct invocation *call, struct value *result)
{
	struct value self = call->self, otherwise = call->arguments[0];
	int64_t integer;
	if (otherwise.kind == VALUE_MISSING)
		otherwise = value_int(0);
	if (self.kind == VALUE_UNDEFINED)
		return render_undefined(r, self);
	if (self.kind == VALUE_TEXT)
		return int_of_text(r, self.text, call->arguments[1], otherwise, result);
	if (self.kind == VALUE_FLOAT)
		return truncate_real(r, self.real, otherwise, result);
	*result = value_index(self, &integer) ? value_int(integer) : otherwise;
	return 0;
}

static int filter_float(struct render *r, struct invocation *call, struct value *result)
{
	struct value self = call->self;
	double real = 0;
	if (self.kind == VALUE_UNDEFINED)
		return render_undefined(r, self);
	*result = call->arguments[0].kind == VALUE_MISSING ? value_float(0) : call->arguments[0];
	if (value_is_number(self))
		*result = value_float(number_real(self));
	else if (self.kind == VALUE_TEXT && number_parse_float(self.text, &real) == NUMBER_OK)
		*result = value_float(real);
	return 0;
}

static int filter_abs(struct render *r, struct invocation *call, struct value *result)
{
	int64_t integer;
	if (call->self.kind == VALUE_FLOAT) {
		*result = value_float(fabs(call->self.real));
		return 0;
	}
	if (!value_index(call->self, &integer))
		return render_fail(r, "abs() does not work on '%s'", value_type_name(call->self));
	*result = value_int(integer);
	return integer < 0 ? render_negate(r, call->self, result) : 0;
}

/* ceil or floor of value * 10**precision, divided by it again. */
static int round_towards(struct render *r, struct value value, struct value precision, bool up, struct value *result)
{
	struct value scale, scaled;
	int rc = render_binary(r, OP_POW, value_int(10), precision, &scale);
	rc = rc ? rc : render_binary(r, OP_MUL, value, scale, &scaled);
	if (rc)
		return rc;
	if (!value_is_number(scaled))
		return render_type_error(r, "rounding", value, value);
	if (scaled.kind == VALUE_FLOAT) {
		if (!isfinite(scaled.real))
			return out_of_range(r);
		scaled.real = up ? ceil(scaled.real) : floor(scaled.real);
		if (scaled.real == 0)
			scaled.real = 0; /* Python's ceil gives an integer, which has no -0 */
	}
	return render_binary(r, OP_DIV, scaled, scale, result);
}

static int filter_round(struct render *r, struct invocation *call, struct value *result)
{
	struct value precision = call->arguments[0], method = call->arguments[1];
	int64_t digits = 0;
	bool to_integer = precision.kind == VALUE_NONE;
	if (precision.kind == VALUE_MISSING || to_integer)
		precision = value_int(0);
	if (!value_index(precision, &digits))
		return render_fail(r, "the precision of round() must be an integer");
	if (method.kind != VALUE_MISSING && method.kind != VALUE_TEXT)
		return render_fail(r, "the method of round() must be common, ceil or floor");
	if (method.kind == VALUE_MISSING || text_is(method.text, "common")) {
		int rc = number_round(r, call->self, digits, result);
		if (rc || !to_integer || result->kind != VALUE_FLOAT)
			return rc;
		return isnan(result->real) ? out_of_range(r) : truncate_real(r, result->real, value_none(), result);
	}
	if (to_integer)
		return render_fail(r, "the precision of round() must be an integer");
	if (!text_is(method.text, "ceil") && !text_is(method.text, "floor"))
		return render_fail(r, "the method of round() must be common, ceil or floor");
	return round_towards(r, call->self, precision, text_is(method.text, "ceil"), result);
}

static const struct builtin table[] = {
	{.name = "int", .run = filter_int, .parameters = {"default", "base"}},
	{.name = "float", .run = filter_float, .parameters = {"default"}},
	{.name = "abs", .run = filter_abs},
	{.name = "round", .run = filter_round, .parameters = {"precision", "method"}},
};

const struct builtin_table filters_number = BUILTIN_TABLE(table);
