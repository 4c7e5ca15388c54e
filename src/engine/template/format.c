/* text % values, Python's printf. */
#include "src/engine/template/format.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "src/engine/template/number.h"
#include "src/engine/template/render.h"

enum { MAX_WIDTH = 1 << 24, MAX_PRECISION = 1000 }; /* more than the largest output, more digits than a double has */

struct percent {
	struct render *render;
	const struct text *format;
	const char *at, *end;
	struct value values;
	size_t next;  /* value to take */
	bool mapping; /* values by %(name), and none need be used */
};

/* "%[(name)][flags][width][.precision][length]type" behind the % */
struct conversion {
	struct value value;
	bool has_value; /* from %(name) */
	bool left, plus, blank, zero, alternate;
	int64_t width, precision;
	char type;
};

static int take_value(struct percent *p, struct value *value)
{
	bool tuple = p->values.kind == VALUE_TUPLE;
	size_t n = tuple ? p->values.list->n : 1;
	if (p->next >= n)
		return render_fail(p->render, "not enough arguments for the format string");
	*value = tuple ? p->values.list->items[p->next] : p->values;
	p->next++;
	return 0;
}

static int parse_name(struct percent *p, struct conversion *c)
{
	struct render *r = p->render;
	int depth = 1;
	const char *start = ++p->at;
	for (; p->at < p->end && depth; p->at++)
		depth += *p->at == '(' ? 1 : *p->at == ')' ? -1 : 0;
	if (depth)
		return render_fail(r, "a format string has a name without its closing parenthesis");
	struct value key;
	if (p->values.kind != VALUE_DICT)
		return p->values.kind == VALUE_UNDEFINED ? render_undefined(r, p->values)
							 : render_fail(r, "a format string with names needs a mapping");
	int rc = render_text_view(r, start, (size_t)(p->at - 1 - start), &key);
	rc = rc ? rc : dict_get(r, p->values.dict, key, &c->value);
	if (!rc && c->value.kind == VALUE_MISSING)
		return render_fail(r, "a format string names '%.*s', which is not given", (int)key.text->n_bytes,
				   key.text->bytes);
	c->has_value = true;
	return rc;
}

/* A number, or * for one of the values; *number stays if there is neither. */
static int parse_number(struct percent *p, int64_t max, int64_t *number)
{
	struct render *r = p->render;
	if (p->at < p->end && *p->at == '*') {
		struct value value;
		p->at++;
		int rc = take_value(p, &value);
		if (!rc && value.kind != VALUE_INT && value.kind != VALUE_BOOL)
			return render_fail(r, "* in a format string needs an integer");
		if (!rc)
			value_index(value, number);
		return rc || (*number <= max && *number >= -max) ? rc
								 : render_fail(r, "a width in a format is too large");
	}
	for (bool first = true; p->at < p->end && *p->at >= '0' && *p->at <= '9'; first = false) {
		*number = (first ? 0 : *number) * 10 + (*p->at++ - '0');
		if (*number > max)
			return render_fail(r, "a width or precision in a format string is too large");
	}
	return 0;
}

static int parse_conversion(struct percent *p, struct conversion *c)
{
	*c = (struct conversion){.precision = -1};
	int rc = p->at < p->end && *p->at == '(' ? parse_name(p, c) : 0;
	for (bool flags = true; flags && p->at < p->end && !rc; p->at += flags) {
		switch (*p->at) {
		case '-':
			c->left = true;
			break;
		case '+':
			c->plus = true;
			break;
		case ' ':
			c->blank = true;
			break;
		case '#':
			c->alternate = true;
			break;
		case '0':
			c->zero = true;
			break;
		default:
			flags = false;
		}
	}
	rc = rc ? rc : parse_number(p, MAX_WIDTH, &c->width);
	if (c->width < 0) {
		c->left = true;
		c->width = -c->width;
	}
	if (!rc && p->at < p->end && *p->at == '.') {
		p->at++;
		c->precision = 0;
		rc = parse_number(p, MAX_PRECISION, &c->precision);
		c->precision = c->precision < 0 ? 0 : c->precision;
	}
	if (!rc && p->at < p->end && strchr("hlL", *p->at))
		p->at++;
	if (!rc && p->at == p->end)
		return render_fail(p->render, "the format string ends within a conversion");
	c->type = rc ? 0 : *p->at++;
	return rc;
}

static int write_padding(struct render *r, int64_t n)
{
	int rc = 0;
	for (int64_t i = 0; i < n && !rc; i++)
		rc = render_write(r, " ", 1);
	return rc;
}

static int write_text(struct percent *p, const struct conversion *c, const struct text *text)
{
	struct render *r = p->render;
	size_t n_chars = text->n_chars;
	if (c->precision >= 0 && (size_t)c->precision < n_chars)
		n_chars = (size_t)c->precision;
	int64_t pad = c->width - (int64_t)n_chars;
	int rc = c->left ? 0 : write_padding(r, pad);
	rc = rc ? rc : render_write(r, text->bytes, text_offset(text, n_chars));
	return rc || !c->left ? rc : write_padding(r, pad);
}

static int convert_text(struct percent *p, const struct conversion *c)
{
	struct render *r = p->render;
	const struct text *text;
	size_t mark = r->n_output;
	int rc;
	if (c->type == 'a')
		return render_unsupported(r, "%%a in a format string");
	if (c->type == 's') {
		rc = render_str(r, c->value, &text);
	} else {
		rc = render_repr(r, c->value);
		rc = rc ? rc : render_capture(r, mark, &text);
	}
	if (!rc && p->format->markup) {
		text = text_escape(&r->heap, text);
		rc = text ? 0 : render_oom(r);
	}
	return rc ? rc : write_text(p, c, text);
}

static struct format_spec spec_of(const struct conversion *c)
{
	return (struct format_spec){
		.fill = c->zero && !c->left ? '0' : ' ',
		.align = c->left   ? '<'
			 : c->zero ? '='
				   : '>',
		.width = c->width,
	};
}

static const char *sign_of(const struct conversion *c, bool negative)
{
	return negative ? "-" : c->plus ? "+" : c->blank ? " " : "";
}

static int convert_int(struct percent *p, const struct conversion *c)
{
	struct render *r = p->render;
	int64_t integer;
	bool decimal = strchr("diu", c->type) != NULL;
	if (decimal && c->value.kind == VALUE_FLOAT) {
		if (!(c->value.real >= -0x1p63 && c->value.real < 0x1p63))
			return render_fail(r, "the number does not fit a 64-bit integer");
		integer = (int64_t)c->value.real;
	} else if (!value_index(c->value, &integer)) {
		return render_type_error(r, "an integer in a format string", c->value, c->value);
	}
	uint64_t magnitude = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
	char digits[MAX_PRECISION + 32];
	const char *format = decimal ? "%.*llu" : c->type == 'o' ? "%.*llo" : c->type == 'x' ? "%.*llx" : "%.*llX";
	int precision = c->precision < 0 ? 1 : (int)c->precision;
	snprintf(digits, sizeof digits, format, precision, (unsigned long long)magnitude);
	if (!*digits)
		strcpy(digits, "0"); /* Python has no empty zero */
	const char *prefix = decimal || !c->alternate ? "" : c->type == 'o' ? "0o" : c->type == 'x' ? "0x" : "0X";
	struct format_number number = {sign_of(c, integer < 0), prefix, digits};
	struct format_spec spec = spec_of(c);
	return format_write_number(r, &number, &spec);
}

static int convert_float(struct percent *p, const struct conversion *c)
{
	struct render *r = p->render;
	if (!value_is_number(c->value))
		return render_type_error(r, "a number in a format string", c->value, c->value);
	double real = number_real(c->value);
	char digits[MAX_PRECISION + 330], format[8];
	int precision = c->precision < 0 ? 6 : (int)c->precision;
	snprintf(format, sizeof format, "%%%s.*%c", c->alternate ? "#" : "", c->type);
	if (isfinite(real))
		snprintf(digits, sizeof digits, format, precision, fabs(real));
	else
		snprintf(digits, sizeof digits, "%s",
			 isnan(real) ? (c->type < 'a' ? "NAN" : "nan") : (c->type < 'a' ? "INF" : "inf"));
	struct format_number number = {sign_of(c, signbit(real) && !isnan(real)), "", digits};
	struct format_spec spec = spec_of(c);
	return format_write_number(r, &number, &spec);
}

static int convert_char(struct percent *p, const struct conversion *c)
{
	struct render *r = p->render;
	int64_t code_point;
	struct value one = c->value;
	if (value_index(c->value, &code_point)) {
		char bytes[4];
		if (code_point < 0 || code_point > 0x10ffff || (code_point >= 0xd800 && code_point < 0xe000))
			return render_fail(r, "%%c needs a character's number");
		int rc = render_text(r, bytes, text_encode_char((uint32_t)code_point, bytes), &one);
		if (rc)
			return rc;
	}
	if (one.kind != VALUE_TEXT || one.text->n_chars != 1)
		return render_fail(r, "%%c needs one character or its number");
	struct conversion whole = *c;
	whole.precision = -1;
	return write_text(p, &whole, one.text);
}

static int convert(struct percent *p)
{
	struct conversion c;
	if (p->at < p->end && *p->at == '%') {
		p->at++;
		return render_write(p->render, "%", 1);
	}
	int rc = parse_conversion(p, &c);
	if (rc)
		return rc;
	if (!strchr("srauidoxXeEfFgGc", c.type) || !c.type)
		return render_fail(p->render, "a format string has an unknown conversion");
	if (!c.has_value)
		rc = take_value(p, &c.value);
	if (rc)
		return rc;
	if (strchr("sra", c.type))
		return convert_text(p, &c);
	if (strchr("diuoxX", c.type))
		return convert_int(p, &c);
	return c.type == 'c' ? convert_char(p, &c) : convert_float(p, &c);
}

int render_percent(struct render *r, const struct text *format, struct value values, struct value *result)
{
	struct percent p = {.render = r,
			    .format = format,
			    .at = format->bytes,
			    .end = format->bytes + format->n_bytes,
			    .values = values};
	/* Whatever has __getitem__ is a mapping here, except tuples and strings. */
	p.mapping = values.kind == VALUE_DICT || values.kind == VALUE_LIST || values.kind == VALUE_UNDEFINED ||
		    values.kind == VALUE_RANGE;
	size_t mark = r->n_output;
	int rc = render_charge(r, format->n_bytes / 16);
	while (p.at < p.end && !rc) {
		const char *percent = memchr(p.at, '%', (size_t)(p.end - p.at));
		const char *stop = percent ? percent : p.end;
		rc = render_write(r, p.at, (size_t)(stop - p.at));
		p.at = percent ? percent + 1 : p.end;
		if (!rc && percent)
			rc = convert(&p);
	}
	size_t n_values = values.kind == VALUE_TUPLE ? values.list->n : 1;
	if (!rc && !p.mapping && p.next < n_values)
		return render_fail(r, "not all arguments were used by the format string");
	const struct text *text;
	rc = rc ? rc : render_capture(r, mark, &text);
	return rc ? rc : render_text_made(r, text_marked(&r->heap, text, format->markup), result);
}
