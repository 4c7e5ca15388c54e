/* "…{name.attribute[item]!conversion:spec}…".format(…). Attributes and items go through the sandbox like those that
 * templates write. A spec may itself have fields, one level deep. */
#include <string.h>

#include "src/engine/template/format.h"
#include "src/engine/template/number.h"
#include "src/engine/template/render.h"

struct formatter {
	struct render *render;
	const struct call_values *values;
	const struct dict *mapping; /* format_map(): names instead of named values */
	int64_t next;		    /* the index of the next "{}" */
	enum { NUMBERS_NONE, NUMBERS_AUTO, NUMBERS_GIVEN } numbers;
};

static int write_format(struct formatter *f, const char *at, const char *end, int depth);

static bool all_digits(const char *start, const char *end)
{
	bool digits = start < end;
	for (; start < end && digits; start++)
		digits = *start >= '0' && *start <= '9';
	return digits;
}

static int positional(struct formatter *f, int64_t index, struct value *value)
{
	if (index < 0 || (uint64_t)index >= f->values->n_positional)
		return render_fail(f->render, "format() lacks its argument %lld", (long long)index);
	*value = f->values->positional[index];
	return 0;
}

static int by_name(struct formatter *f, const char *start, const char *end, struct value *value)
{
	struct render *r = f->render;
	struct value name;
	int rc = render_text_view(r, start, (size_t)(end - start), &name);
	if (rc)
		return rc;
	*value = (struct value){.kind = VALUE_MISSING};
	if (f->mapping)
		rc = dict_get(r, f->mapping, name, value);
	for (size_t k = 0; !f->mapping && k < f->values->n_named; k++)
		if (text_equal(f->values->named[k].name, name.text))
			*value = f->values->named[k].value;
	if (!rc && value->kind == VALUE_MISSING)
		return render_fail(r, "format() lacks its argument '%.*s'", (int)(end - start), start);
	return rc;
}

/* What a field's first part names: nothing for the next argument, a number, or a name. */
static int first_value(struct formatter *f, const char *start, const char *end, struct value *value)
{
	bool number = all_digits(start, end);
	int64_t index = 0;
	if (start < end && !number)
		return by_name(f, start, end, value);
	if (f->numbers == (number ? NUMBERS_AUTO : NUMBERS_GIVEN))
		return render_fail(f->render, "format() cannot mix {} with {0}");
	f->numbers = number ? NUMBERS_GIVEN : NUMBERS_AUTO;
	struct text digits = {start, (size_t)(end - start), (size_t)(end - start), false};
	if (number && number_parse_int(&digits, 10, &index) != NUMBER_OK)
		return render_fail(f->render, "a number in a format string is too large");
	return positional(f, number ? index : f->next++, value);
}

/* ".name" and "[key]" behind the first part. */
static int rest_of_field(struct formatter *f, const char *at, const char *end, struct value *value)
{
	struct render *r = f->render;
	int rc = 0;
	while (at < end && !rc) {
		struct value key;
		if (*at == '.') {
			const char *start = ++at;
			while (at < end && *at != '.' && *at != '[')
				at++;
			if (at == start)
				return render_fail(r, "a format string has an empty attribute");
			rc = render_text_view(r, start, (size_t)(at - start), &key);
			rc = rc ? rc : render_attr(r, *value, key.text, value);
			continue;
		}
		const char *close = *at == '[' ? memchr(at, ']', (size_t)(end - at)) : NULL;
		if (!close || close == at + 1)
			return render_fail(r, "a format string has a field that is not well formed");
		rc = render_text_view(r, at + 1, (size_t)(close - at - 1), &key);
		if (!rc && all_digits(at + 1, close)) {
			int64_t index;
			if (number_parse_int(key.text, 10, &index) != NUMBER_OK)
				return render_fail(r, "a number in a format string is too large");
			key = value_int(index);
		}
		rc = rc ? rc : render_item(r, *value, key, value);
		at = close + 1;
	}
	return rc;
}

static int field_value(struct formatter *f, const char *start, const char *end, struct value *value)
{
	const char *first = start;
	while (first < end && *first != '.' && *first != '[')
		first++;
	int rc = first_value(f, start, first, value);
	return rc ? rc : rest_of_field(f, first, end, value);
}

static int convert(struct formatter *f, char conversion, struct value *value)
{
	struct render *r = f->render;
	const struct text *text;
	size_t mark = r->n_output;
	int rc;
	if (conversion == 's') {
		rc = render_str(r, *value, &text);
	} else if (conversion == 'r') {
		rc = render_repr(r, *value);
		rc = rc ? rc : render_capture(r, mark, &text);
	} else {
		return conversion == 'a' ? render_unsupported(r, "!a in a format string")
					 : render_fail(r, "a format string has an unknown conversion");
	}
	return rc ? rc : render_text_made(r, text, value);
}

/* The field between "{" and its "}". */
static int write_field(struct formatter *f, const char *start, const char *end, int depth)
{
	struct render *r = f->render;
	const char *name_end = start, *at;
	struct value value;
	for (bool in_brackets = false; name_end < end && (in_brackets || (*name_end != '!' && *name_end != ':'));
	     name_end++)
		in_brackets = in_brackets ? *name_end != ']' : *name_end == '[';
	int rc = field_value(f, start, name_end, &value);
	at = name_end;
	if (!rc && at < end && *at == '!') {
		if (end - at < 2 || (end - at > 2 && at[2] != ':'))
			return render_fail(r, "a format string has a conversion that is not well formed");
		rc = convert(f, at[1], &value);
		at += 2;
	}
	if (rc)
		return rc;
	at += at < end; /* the colon */
	const struct text *spec;
	size_t mark = r->n_output;
	rc = write_format(f, at, end, depth + 1);
	rc = rc ? rc : render_capture(r, mark, &spec);
	return rc ? rc : format_value(r, value, spec);
}

/* The "}" that closes the field which starts at `at`. */
static const char *field_end(const char *at, const char *end)
{
	int depth = 1;
	for (; at < end; at++) {
		depth += *at == '{' ? 1 : *at == '}' ? -1 : 0;
		if (!depth)
			return at;
	}
	return NULL;
}

static int write_format(struct formatter *f, const char *at, const char *end, int depth)
{
	struct render *r = f->render;
	int rc = 0;
	if (depth > 2)
		return render_fail(r, "a format string nests its fields too deep");
	while (at < end && !rc) {
		const char *plain = at;
		while (at < end && *at != '{' && *at != '}')
			at++;
		rc = render_write(r, plain, (size_t)(at - plain));
		if (rc || at == end)
			return rc;
		if (end - at > 1 && at[1] == *at) { /* {{ and }} */
			rc = render_write(r, at, 1);
			at += 2;
			continue;
		}
		const char *close = *at == '{' ? field_end(at + 1, end) : NULL;
		if (!close)
			return render_fail(r, "a format string has a single '%c'", *at);
		rc = write_field(f, at + 1, close, depth);
		at = close + 1;
	}
	return rc;
}

static int format(struct formatter *f, const struct text *text, struct value *result)
{
	struct render *r = f->render;
	const struct text *formatted;
	size_t mark = r->n_output;
	if (text->markup)
		return render_unsupported(r, "format() of escaped text");
	int rc = render_charge(r, text->n_bytes / 16);
	rc = rc ? rc : write_format(f, text->bytes, text->bytes + text->n_bytes, 0);
	rc = rc ? rc : render_capture(r, mark, &formatted);
	return rc ? rc : render_text_made(r, formatted, result);
}

int format_method(struct render *r, struct invocation *call, struct value *result)
{
	struct formatter f = {.render = r, .values = call->given};
	return format(&f, call->self.text, result);
}

int format_map_method(struct render *r, struct invocation *call, struct value *result)
{
	struct formatter f = {.render = r, .values = &(struct call_values){0}};
	if (call->arguments[0].kind != VALUE_DICT)
		return render_fail(r, "format_map() needs a mapping, not '%s'", value_type_name(call->arguments[0]));
	f.mapping = call->arguments[0].dict;
	return format(&f, call->self.text, result);
}
