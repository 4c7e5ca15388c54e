/* format(value, spec): Python's format specifications. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "src/engine/template/format.h"
#include "src/engine/template/number.h"
#include "src/engine/template/render.h"

enum { MAX_WIDTH = 1 << 24, MAX_PRECISION = 1000 };

/* --- parsing ---------------------------------------------------------------------------------- */

static bool is_align(uint32_t c)
{
	return c == '<' || c == '>' || c == '=' || c == '^';
}

static bool parse_digits(const char **at, const char *end, int64_t max, int64_t *number)
{
	if (*at == end || **at < '0' || **at > '9')
		return true;
	*number = 0;
	for (; *at < end && **at >= '0' && **at <= '9'; ++*at) {
		*number = *number * 10 + (**at - '0');
		if (*number > max)
			return false;
	}
	return true;
}

static int parse_spec(struct render *r, const struct text *text, struct format_spec *spec)
{
	const char *at = text->bytes, *end = at + text->n_bytes, *second = at;
	*spec = (struct format_spec){.fill = ' ', .sign = '-', .width = -1, .precision = -1};
	uint32_t fill = at < end ? text_next_char(&second) : 0;
	if (second < end && is_align((unsigned char)*second)) {
		spec->fill = fill;
		spec->align = *second;
		at = second + 1;
	} else if (at < end && is_align((unsigned char)*at)) {
		spec->align = *at++;
	}
	if (at < end && (*at == '+' || *at == '-' || *at == ' '))
		spec->sign = *at++;
	if (at < end && *at == '#') {
		spec->alternate = true;
		at++;
	}
	if (at < end && *at == '0' && !(spec->align && spec->fill != ' ')) {
		spec->zero = true;
		spec->fill = '0';
		at++;
	}
	bool fits = parse_digits(&at, end, MAX_WIDTH, &spec->width);
	if (at < end && (*at == ',' || *at == '_'))
		spec->grouping = *at++;
	if (at < end && *at == '.') {
		at++;
		fits = fits && parse_digits(&at, end, MAX_PRECISION, &spec->precision);
		if (spec->precision < 0)
			return render_fail(r, "a format lacks its precision");
	}
	if (at < end)
		spec->type = *at++;
	if (at < end || !fits)
		return render_fail(r, "'%.*s' is not a format", (int)text->n_bytes, text->bytes);
	return 0;
}

/* --- padding ---------------------------------------------------------------------------------- */

static int write_fill(struct render *r, uint32_t fill, int64_t n)
{
	int rc = 0;
	for (int64_t i = 0; i < n && !rc; i++)
		rc = render_write_char(r, fill);
	return rc;
}

static void split_padding(char align, int64_t pad, int64_t *before, int64_t *behind)
{
	pad = pad < 0 ? 0 : pad;
	*before = align == '<' ? 0 : align == '^' ? pad / 2 : pad;
	*behind = pad - *before;
}

int format_write_number(struct render *r, const struct format_number *number, const struct format_spec *spec)
{
	size_t n = strlen(number->sign) + strlen(number->prefix) + strlen(number->digits);
	char align = spec->align ? spec->align : spec->zero ? '=' : '>';
	int64_t before, behind;
	split_padding(align, spec->width - (int64_t)n, &before, &behind);
	int rc = align == '=' ? 0 : write_fill(r, spec->fill, before);
	rc = rc ? rc : render_write_string(r, number->sign);
	rc = rc ? rc : render_write_string(r, number->prefix);
	rc = rc || align != '=' ? rc : write_fill(r, spec->fill, before);
	rc = rc ? rc : render_write_string(r, number->digits);
	return rc ? rc : write_fill(r, spec->fill, behind);
}

/* --- numbers ---------------------------------------------------------------------------------- */

/* Copies digits with separators between groups; `width` is what zero padding has to fill, separators included. */
static void group_digits(const char *digits, char separator, int group, int64_t width, char *grouped)
{
	size_t n_whole = strspn(digits, "0123456789abcdefABCDEF");
	if (strpbrk(digits, ".eE") && strcspn(digits, ".eE") < n_whole)
		n_whole = strcspn(digits, ".eE");
	int64_t rest = (int64_t)strlen(digits + n_whole), zeros = 0;
	for (;;) { /* as many leading zeros as fit without exceeding the width by a separator that stands first */
		int64_t whole = (int64_t)n_whole + zeros;
		if (whole + (whole - 1) / group + rest >= width)
			break;
		zeros++;
	}
	int64_t whole = (int64_t)n_whole + zeros;
	for (int64_t i = 0; i < whole; i++) {
		if (i && (whole - i) % group == 0)
			*grouped++ = separator;
		*grouped++ = i < zeros ? '0' : digits[i - zeros];
	}
	strcpy(grouped, digits + n_whole);
}

static int write_grouped(struct render *r, const char *sign, const char *prefix, const char *digits, int group,
			 const struct format_spec *spec)
{
	struct format_number number = {sign, prefix, digits};
	if (!spec->grouping || !*digits || *digits < '0' || *digits > 'f')
		return format_write_number(r, &number, spec);
	int64_t taken = (int64_t)(strlen(sign) + strlen(prefix));
	bool zeros = spec->fill == '0' && (spec->align == '=' || (!spec->align && spec->zero));
	int64_t width = zeros && spec->width > taken ? spec->width - taken : 0;
	char *grouped = heap_bytes(&r->heap, 2 * strlen(digits) + 2 * (size_t)width + 8);
	if (!grouped)
		return render_oom(r);
	group_digits(digits, spec->grouping, group, width, grouped);
	number.digits = grouped;
	return format_write_number(r, &number, spec);
}

static const char *sign_text(const struct format_spec *spec, bool negative)
{
	return negative ? "-" : spec->sign == '+' ? "+" : spec->sign == ' ' ? " " : "";
}

static int bad_type(struct render *r, const struct format_spec *spec, struct value value)
{
	return render_fail(r, "the format type '%c' does not work on '%s'", spec->type, value_type_name(value));
}

static int format_int(struct render *r, int64_t integer, const struct format_spec *spec)
{
	uint64_t magnitude = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
	char digits[72], *to = digits;
	const char *prefix = "";
	if (spec->precision >= 0)
		return render_fail(r, "an integer takes no precision in a format");
	switch (spec->type) {
	case 'b':
		for (int bit = 63; bit >= 0; bit--)
			if (magnitude >> bit || !bit)
				*to++ = (char)('0' + (magnitude >> bit & 1));
		*to = 0;
		prefix = "0b";
		break;
	case 'o':
		snprintf(digits, sizeof digits, "%llo", (unsigned long long)magnitude);
		prefix = "0o";
		break;
	case 'x':
	case 'X':
		snprintf(digits, sizeof digits, spec->type == 'x' ? "%llx" : "%llX", (unsigned long long)magnitude);
		prefix = spec->type == 'x' ? "0x" : "0X";
		break;
	case 0:
	case 'd':
	case 'n':
		snprintf(digits, sizeof digits, "%llu", (unsigned long long)magnitude);
		break;
	default:
		return bad_type(r, spec, value_int(integer));
	}
	bool decimal = !spec->type || spec->type == 'd' || spec->type == 'n';
	if (spec->grouping == ',' && !decimal)
		return render_fail(r, "',' in a format works on decimal numbers only");
	return write_grouped(r, sign_text(spec, integer < 0), spec->alternate ? prefix : "", digits, decimal ? 3 : 4,
			     spec);
}

/* Without a type: repr, or `precision` significant digits with at least one behind the point. */
static void general_digits(double real, int64_t precision, char *digits, size_t size)
{
	if (precision < 0) {
		digits[number_repr(real, digits)] = 0;
		return;
	}
	snprintf(digits, size, "%.*g", precision ? (int)precision : 1, real);
	if (strpbrk(digits, ".e"))
		return;
	/* Python switches to an exponent one digit earlier here than for 'g', because of the ".0". */
	if ((int64_t)strlen(digits) >= (precision ? precision : 1) && real != 0) {
		char *at = digits;
		snprintf(digits, size, "%.*e", precision ? (int)precision - 1 : 0, real);
		char *exponent = strchr(at, 'e');
		char *last = exponent - 1;
		while (strchr(at, '.') && last > at && (*last == '0' || *last == '.')) {
			bool point = *last == '.';
			last--;
			if (point)
				break;
		}
		memmove(last + 1, exponent, strlen(exponent) + 1);
		return;
	}
	strcat(digits, ".0");
}

static int format_float(struct render *r, double real, const struct format_spec *spec)
{
	char digits[MAX_PRECISION + 340], format[8];
	char type = spec->type == 'n' ? 'g' : spec->type == '%' ? 'f' : spec->type;
	double magnitude = fabs(real) * (spec->type == '%' ? 100 : 1);
	if (type && !strchr("eEfFgG", type))
		return bad_type(r, spec, value_float(real));
	bool upper = type == 'E' || type == 'F' || type == 'G';
	if (!isfinite(magnitude)) {
		strcpy(digits, isnan(real) ? (upper ? "NAN" : "nan") : (upper ? "INF" : "inf"));
	} else if (!type) {
		general_digits(magnitude, spec->precision, digits, sizeof digits);
	} else {
		snprintf(format, sizeof format, "%%%s.*%c", spec->alternate ? "#" : "", type);
		snprintf(digits, sizeof digits - 1, format, spec->precision < 0 ? 6 : (int)spec->precision, magnitude);
	}
	if (spec->type == '%')
		strcat(digits, "%");
	return write_grouped(r, sign_text(spec, signbit(real) && !isnan(real)), "", digits, 3, spec);
}

/* --- text and the rest ------------------------------------------------------------------------ */

static int format_text(struct render *r, const struct text *text, const struct format_spec *spec)
{
	if ((spec->type && spec->type != 's') || spec->sign != '-' || spec->alternate || spec->grouping ||
	    spec->align == '=')
		return render_fail(r, "this format does not work on a string");
	size_t n_chars = text->n_chars;
	if (spec->precision >= 0 && (size_t)spec->precision < n_chars)
		n_chars = (size_t)spec->precision;
	int64_t before, behind;
	split_padding(spec->align ? spec->align : '<', spec->width - (int64_t)n_chars, &before, &behind);
	int rc = write_fill(r, spec->fill, before);
	rc = rc ? rc : render_write(r, text->bytes, text_offset(text, n_chars));
	return rc ? rc : write_fill(r, spec->fill, behind);
}

int format_value(struct render *r, struct value value, const struct text *spec_text)
{
	struct format_spec spec;
	int64_t integer;
	if (!spec_text->n_bytes)
		return render_value(r, value);
	if (!value_is_number(value) && value.kind != VALUE_TEXT)
		return render_fail(r, "'%s' cannot be formatted with '%.*s'", value_type_name(value),
				   (int)spec_text->n_bytes, spec_text->bytes);
	int rc = parse_spec(r, spec_text, &spec);
	if (rc)
		return rc;
	if (value.kind == VALUE_TEXT)
		return format_text(r, value.text, &spec);
	if (value_index(value, &integer) && !(spec.type && strchr("eEfFgG%", spec.type))) {
		if (spec.type != 'c')
			return format_int(r, integer, &spec);
		return render_unsupported(r, "the format type 'c'");
	}
	return format_float(r, number_real(value), &spec);
}
