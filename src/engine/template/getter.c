#include "src/engine/template/getter.h"

#include <string.h>

#include "src/engine/template/casing.h"
#include "src/engine/template/number.h"
#include "src/engine/template/render.h"
#include "src/engine/template/unicode.h"

/* A part made of digits is an index. */
static int part_value(struct render *r, const char *start, const char *end, struct value *part)
{
	bool digits = start < end;
	for (const char *at = start; at < end && digits;)
		digits = unicode_is_digit(text_next_char(&at));
	int rc = render_text_view(r, start, (size_t)(end - start), part);
	int64_t index;
	if (!rc && digits) {
		if (number_parse_int(part->text, 10, &index) != NUMBER_OK)
			return render_fail(r, "an index in an attribute does not fit 64 bits");
		*part = value_int(index);
	}
	return rc;
}

static int get_part(struct render *r, struct value part, struct value otherwise, struct value *item)
{
	int rc = render_item(r, *item, part, item);
	bool replace = otherwise.kind != VALUE_MISSING && otherwise.kind != VALUE_NONE;
	if (!rc && replace && item->kind == VALUE_UNDEFINED)
		*item = otherwise;
	return rc;
}

/* The parts between the dots of [start, end), one after the other. */
static int get_path(struct render *r, struct value item, const char *start, const char *end, struct value otherwise,
		    struct value *result)
{
	for (;;) {
		const char *dot = memchr(start, '.', (size_t)(end - start));
		struct value part;
		int rc = part_value(r, start, dot ? dot : end, &part);
		rc = rc ? rc : get_part(r, part, otherwise, &item);
		*result = item;
		if (rc || !dot)
			return rc;
		start = dot + 1;
	}
}

int getter_get(struct render *r, struct value item, struct value attribute, struct value otherwise,
	       struct value *result)
{
	*result = item;
	if (attribute.kind == VALUE_MISSING || attribute.kind == VALUE_NONE)
		return 0;
	if (attribute.kind != VALUE_TEXT)
		return get_part(r, attribute, otherwise, result);
	const struct text *path = attribute.text;
	return get_path(r, item, path->bytes, path->bytes + path->n_bytes, otherwise, result);
}

int getter_sort_key(struct render *r, struct value item, struct value attribute, bool case_sensitive,
		    struct value *result)
{
	struct list *key = list_new(r, 1);
	if (!key)
		return render_oom(r);
	const char *start = attribute.kind == VALUE_TEXT ? attribute.text->bytes : NULL;
	const char *end = start ? start + attribute.text->n_bytes : NULL;
	int rc = 0;
	for (bool more = true; more && !rc;) {
		struct value value;
		const char *comma = start ? memchr(start, ',', (size_t)(end - start)) : NULL;
		if (start)
			rc = get_path(r, item, start, comma ? comma : end, (struct value){.kind = VALUE_MISSING},
				      &value);
		else
			rc = getter_get(r, item, attribute, (struct value){.kind = VALUE_MISSING}, &value);
		if (!rc && !case_sensitive)
			rc = casing_ignore(r, value, &value);
		rc = rc ? rc : list_append(r, key, value);
		more = comma != NULL;
		start = comma ? comma + 1 : start;
	}
	*result = value_list(key);
	return rc;
}
