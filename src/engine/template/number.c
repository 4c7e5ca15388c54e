#include "src/engine/template/number.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/template/render.h"
#include "src/engine/template/unicode.h"

/* --- printing --------------------------------------------------------------------------------- */

/* Adds one to the last digit of "d.ddde±xx"; false if it is not so simple. */
static bool next_decimal(char *scientific)
{
	char *last = strchr(scientific, 'e') - 1;
	if (*last == '9' || *last == '.')
		return false;
	++*last;
	return true;
}

/* The shortest "[-]d.ddde±xx" that reads back the same. Rounding to n digits finds it if there is one with n digits,
 * except below a power of two: there the gap to the next smaller double is half as wide as the one above, and a decimal
 * a little above may do where the nearest, a little below, does not. */
static void shortest_scientific(double real, char *scientific, size_t size)
{
	int exponent;
	bool power_of_two = fabs(frexp(real, &exponent)) == 0.5;
	for (int digits = 0; digits <= 16; digits++) {
		snprintf(scientific, size, "%.*e", digits, real);
		if (strtod(scientific, NULL) == real)
			return;
		if (power_of_two && digits && next_decimal(scientific) && strtod(scientific, NULL) == real)
			return;
	}
}

size_t number_repr(double real, char text[NUMBER_TEXT_BYTES])
{
	if (!isfinite(real))
		return (size_t)sprintf(text, "%s", isnan(real) ? "nan" : real < 0 ? "-inf" : "inf");
	char scientific[NUMBER_TEXT_BYTES];
	shortest_scientific(real, scientific, sizeof scientific);
	/* [-]d[.ddd]e±xx to its digits and its exponent */
	const char *at = scientific;
	char *to = text;
	if (*at == '-')
		*to++ = *at++;
	char digits[20] = "0";
	int n_digits = 0;
	for (; *at != 'e'; at++)
		if (*at != '.')
			digits[n_digits++] = *at;
	int exponent = atoi(at + 1);
	if (exponent < -4 || exponent >= 16) {
		*to++ = digits[0];
		if (n_digits > 1) {
			*to++ = '.';
			to = mempcpy(to, digits + 1, (size_t)n_digits - 1);
		}
		to += sprintf(to, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
		return (size_t)(to - text);
	}
	int point = exponent + 1; /* digits before the point */
	if (point <= 0) {
		to = stpcpy(to, "0.");
		for (int i = point; i < 0; i++)
			*to++ = '0';
		to = mempcpy(to, digits, (size_t)n_digits);
	} else {
		for (int i = 0; i < point || i < n_digits; i++) {
			if (i == point)
				*to++ = '.';
			*to++ = i < n_digits ? digits[i] : '0';
		}
		if (n_digits <= point)
			to = stpcpy(to, ".0");
	}
	*to = 0;
	return (size_t)(to - text);
}

/* --- arithmetic ------------------------------------------------------------------------------- */

double number_real(struct value value)
{
	int64_t integer;
	return value_index(value, &integer) ? (double)integer : value.real;
}

static int too_large(struct render *r)
{
	return render_fail(r, "an integer does not fit 64 bits");
}

static int divide_by_zero(struct render *r)
{
	return render_fail(r, "division by zero");
}

/* Floor division and modulo of b != 0, except INT64_MIN // -1. */
static void floor_divide(int64_t a, int64_t b, int64_t *quotient, int64_t *remainder)
{
	*quotient = a / b;
	*remainder = a % b;
	if (*remainder && (*remainder < 0) != (b < 0)) {
		*remainder += b;
		--*quotient;
	}
}

static int int_power(struct render *r, int64_t base, int64_t exponent, struct value *result)
{
	int64_t power = 1;
	bool overflow = false;
	while (exponent > 0 && !overflow) {
		if (exponent & 1)
			overflow = __builtin_mul_overflow(power, base, &power);
		exponent >>= 1;
		if (exponent && !overflow)
			overflow = __builtin_mul_overflow(base, base, &base);
	}
	if (overflow)
		return too_large(r);
	*result = value_int(power);
	return 0;
}

static int int_arithmetic(struct render *r, enum operator_kind op, int64_t a, int64_t b, struct value *result)
{
	int64_t quotient = 0, remainder = 0;
	bool overflow = false;
	switch (op) {
	case OP_ADD:
		overflow = __builtin_add_overflow(a, b, &quotient);
		break;
	case OP_SUB:
		overflow = __builtin_sub_overflow(a, b, &quotient);
		break;
	case OP_MUL:
		overflow = __builtin_mul_overflow(a, b, &quotient);
		break;
	case OP_FLOORDIV:
	case OP_MOD:
		if (!b)
			return divide_by_zero(r);
		if (b == -1) /* INT64_MIN / -1 traps */
			overflow = op == OP_FLOORDIV && __builtin_sub_overflow(0, a, &quotient);
		else
			floor_divide(a, b, &quotient, &remainder);
		break;
	default:
		return int_power(r, a, b, result);
	}
	if (overflow)
		return too_large(r);
	*result = value_int(op == OP_MOD ? remainder : quotient);
	return 0;
}

/* As CPython does it, so that the last bit agrees. */
static void float_floor_divide(double a, double b, double *quotient, double *remainder)
{
	double rest = fmod(a, b), whole = (a - rest) / b;
	if (rest != 0) {
		if ((b < 0) != (rest < 0)) {
			rest += b;
			whole -= 1;
		}
	} else {
		rest = copysign(0, b);
	}
	if (whole != 0) {
		double floored = floor(whole);
		if (whole - floored > 0.5)
			floored += 1;
		whole = floored;
	} else {
		whole = copysign(0, a / b);
	}
	*quotient = whole;
	*remainder = rest;
}

static int float_power(struct render *r, double base, double exponent, struct value *result)
{
	if (base == 0 && exponent < 0)
		return render_fail(r, "zero cannot be raised to a negative power");
	if (isfinite(base) && base < 0 && isfinite(exponent) && exponent != floor(exponent))
		return render_unsupported(r, "a complex number");
	double power = pow(base, exponent);
	if (isinf(power) && isfinite(base) && isfinite(exponent))
		return render_fail(r, "the result of ** is too large");
	*result = value_float(power);
	return 0;
}

static int float_arithmetic(struct render *r, enum operator_kind op, double a, double b, struct value *result)
{
	double quotient, remainder;
	switch (op) {
	case OP_ADD:
		*result = value_float(a + b);
		return 0;
	case OP_SUB:
		*result = value_float(a - b);
		return 0;
	case OP_MUL:
		*result = value_float(a * b);
		return 0;
	case OP_POW:
		return float_power(r, a, b, result);
	default:
		if (b == 0)
			return divide_by_zero(r);
		if (op == OP_DIV) {
			*result = value_float(a / b);
			return 0;
		}
		float_floor_divide(a, b, &quotient, &remainder);
		*result = value_float(op == OP_MOD ? remainder : quotient);
		return 0;
	}
}

int number_arithmetic(struct render *r, enum operator_kind op, struct value a, struct value b, struct value *result)
{
	int64_t i, j;
	bool integers = value_index(a, &i) && value_index(b, &j);
	if (integers && op != OP_DIV && !(op == OP_POW && j < 0))
		return int_arithmetic(r, op, i, j, result);
	if (integers && op == OP_DIV && j) {
		/* 64 bits of mantissa hold both exactly: one rounding to long double, one to double. */
		*result = value_float((double)((long double)i / (long double)j));
		return 0;
	}
	return float_arithmetic(r, op, number_real(a), number_real(b), result);
}

/* --- rounding --------------------------------------------------------------------------------- */

/* Half to even at 10^places. */
static int round_int(struct render *r, int64_t value, int64_t places, struct value *result)
{
	if (places > 18) { /* 10^19 is more than twice any value */
		*result = value_int(0);
		return 0;
	}
	int64_t unit = 1, quotient, remainder;
	for (int64_t i = 0; i < places; i++)
		unit *= 10;
	floor_divide(value, unit, &quotient, &remainder);
	if (remainder > unit - remainder || (remainder == unit - remainder && (quotient & 1)))
		quotient++;
	int64_t rounded;
	if (__builtin_mul_overflow(quotient, unit, &rounded))
		return too_large(r);
	*result = value_int(rounded);
	return 0;
}

/* The C library rounds the exact binary value half to even, as Python does. */
static double round_float(double value, int64_t digits)
{
	char text[704]; /* 309 digits, a point and 323 digits */
	if (digits > 323 || !isfinite(value) || value == 0)
		return value;
	if (digits >= 0) {
		snprintf(text, sizeof text, "%.*f", (int)digits, value);
		return strtod(text, NULL);
	}
	snprintf(text, sizeof text, "%.30e", value); /* enough digits that none but 9.99… could round up */
	int exponent = atoi(strchr(text, 'e') + 1);
	int64_t keep = exponent + digits; /* digits behind the first that stay */
	if (keep >= 0) {
		snprintf(text, sizeof text, "%.*e", (int)keep, value);
		return strtod(text, NULL);
	}
	if (keep < -1)
		return copysign(0, value);
	/* The unit is one place above the first digit: more than half of it rounds up, half and less to zero. */
	snprintf(text, sizeof text, "5e%d", exponent);
	double half = strtod(text, NULL);
	if (fabs(value) <= half)
		return copysign(0, value);
	snprintf(text, sizeof text, "%s1e%d", value < 0 ? "-" : "", exponent + 1);
	return strtod(text, NULL);
}

int number_round(struct render *r, struct value value, int64_t digits, struct value *result)
{
	int64_t integer;
	if (value_index(value, &integer)) {
		*result = value_int(integer);
		return digits < 0 ? round_int(r, integer, digits < -18 ? 19 : -digits, result) : 0;
	}
	if (value.kind != VALUE_FLOAT)
		return render_type_error(r, "rounding", value, value);
	double rounded = round_float(value.real, digits < -400 ? -400 : digits);
	if (isinf(rounded) && isfinite(value.real))
		return render_fail(r, "the rounded value is too large");
	*result = value_float(rounded);
	return 0;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* The text without white space around it and with other scripts' digits as ASCII; false if it is too long or has
 * characters that no number has. */
static bool plain_number(const struct text *text, char *plain, size_t size)
{
	const char *at = text->bytes, *end = at + text->n_bytes;
	size_t n = 0, n_trimmed = 0;
	while (at < end) {
		uint32_t c = text_next_char(&at);
		int digit = unicode_decimal_value(c);
		if (unicode_is_space(c) && !n)
			continue;
		if (n + 1 >= size)
			return false;
		if (unicode_is_space(c))
			c = ' ';
		else if (digit >= 0)
			c = (uint32_t)('0' + digit);
		else if (c >= 0x80 || !c)
			return false;
		plain[n++] = (char)c;
		if (c != ' ')
			n_trimmed = n;
	}
	plain[n_trimmed] = 0;
	return n_trimmed > 0 && !strchr(plain, ' ');
}

/* Removes underscores that stand between two characters of a number; false if one stands elsewhere. */
static bool remove_underscores(char *plain)
{
	char *to = plain;
	for (const char *at = plain; *at; at++) {
		if (*at != '_') {
			*to++ = *at;
			continue;
		}
		if (at == plain || at[-1] == '_' || !at[1] || strchr("+-.", at[-1]) || strchr("+-._", at[1]))
			return false;
	}
	*to = 0;
	return true;
}

enum number_parse number_parse_int(const struct text *text, int base, int64_t *integer)
{
	char plain[256];
	if (!plain_number(text, plain, sizeof plain) || !remove_underscores(plain))
		return NUMBER_BAD;
	char *digits = plain + (*plain == '-' || *plain == '+');
	if (digits[0] == '0' && digits[1]) {
		char letter = digits[1] | 0x20;
		int prefixed = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
		if (prefixed && (base == prefixed || base == 0)) {
			base = prefixed;
			memmove(digits, digits + 2, strlen(digits + 2) + 1);
		} else if (base == 0 && strspn(digits, "0") != strlen(digits)) {
			return NUMBER_BAD; /* leading zeros */
		}
	}
	char *end;
	if (!*digits || strchr("+- ", *digits))
		return NUMBER_BAD;
	/* strtoll would skip a second 0x */
	if (base == 16 && digits[0] == '0' && (digits[1] | 0x20) == 'x')
		return NUMBER_BAD;
	errno = 0;
	long long value = strtoll(plain, &end, base ? base : 10);
	if (*end)
		return NUMBER_BAD;
	if (errno)
		return NUMBER_TOO_LARGE;
	*integer = value;
	return NUMBER_OK;
}

enum number_parse number_parse_float(const struct text *text, double *real)
{
	char plain[1024];
	if (!plain_number(text, plain, sizeof plain) || !remove_underscores(plain))
		return NUMBER_BAD;
	const char *digits = plain + (*plain == '-' || *plain == '+');
	bool word =
		strcasecmp(digits, "inf") == 0 || strcasecmp(digits, "infinity") == 0 || strcasecmp(digits, "nan") == 0;
	if (!word && (!*digits || strspn(digits, "0123456789.eE+-") != strlen(digits)))
		return NUMBER_BAD;
	char *end;
	*real = strtod(plain, &end);
	return *end ? NUMBER_BAD : NUMBER_OK;
}
