#include "src/engine/template/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "src/engine/template/iter.h"
#include "src/engine/template/number.h"
#include "src/engine/template/render.h"
#include "src/engine/template/sort.h"

struct json {
	struct render *render;
	const struct text *indent; /* of one level; NULL: all on one line */
	const struct text *item_separator, *key_separator;
	bool ascii, sort_keys;
	uint32_t level;
};

static int write_value(struct json *j, struct value value);

static int write_unicode_escape(struct render *r, uint32_t c)
{
	char text[16];
	if (c >= 0x10000)
		snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
			 0xdc00 + ((c - 0x10000) & 0x3ff));
	else
		snprintf(text, sizeof text, "\\u%04x", c);
	return render_write_string(r, text);
}

static const char *short_escape(uint32_t c)
{
	switch (c) {
	case '"':
		return "\\\"";
	case '\\':
		return "\\\\";
	case '\n':
		return "\\n";
	case '\r':
		return "\\r";
	case '\t':
		return "\\t";
	case '\f':
		return "\\f";
	case '\b':
		return "\\b";
	default:
		return NULL;
	}
}

static int write_string(struct json *j, const struct text *text)
{
	struct render *r = j->render;
	const char *at = text->bytes, *end = at + text->n_bytes, *plain = at;
	int rc = render_charge(r, text->n_bytes / 64);
	rc = rc ? rc : render_write(r, "\"", 1);
	while (at < end && !rc) {
		unsigned char byte = (unsigned char)*at;
		if (byte >= 0x20 && byte != '"' && byte != '\\' && (byte < 0x7f || !j->ascii)) {
			at++;
			continue;
		}
		const char *start = at;
		uint32_t c = text_next_char(&at);
		const char *escape = short_escape(c);
		rc = render_write(r, plain, (size_t)(start - plain));
		rc = rc ? rc : escape ? render_write_string(r, escape) : write_unicode_escape(r, c);
		plain = at;
	}
	rc = rc ? rc : render_write(r, plain, (size_t)(end - plain));
	return rc ? rc : render_write(r, "\"", 1);
}

static int write_float(struct render *r, double real)
{
	char text[NUMBER_TEXT_BYTES];
	if (isfinite(real))
		return render_write(r, text, number_repr(real, text));
	return render_write_string(r, isnan(real) ? "NaN" : real < 0 ? "-Infinity" : "Infinity");
}

static int write_newline(struct json *j)
{
	if (!j->indent)
		return 0;
	int rc = render_write(j->render, "\n", 1);
	for (uint32_t i = 0; i < j->level && !rc; i++)
		rc = render_write(j->render, j->indent->bytes, j->indent->n_bytes);
	return rc;
}

/* Before an item or member. */
static int write_separator(struct json *j, bool first)
{
	int rc = first ? 0 : render_write(j->render, j->item_separator->bytes, j->item_separator->n_bytes);
	return rc ? rc : write_newline(j);
}

static int write_array(struct json *j, const struct list *list)
{
	if (!list->n)
		return render_write(j->render, "[]", 2);
	int rc = render_write(j->render, "[", 1);
	j->level++;
	for (size_t i = 0; i < list->n && !rc; i++) {
		rc = write_separator(j, i == 0);
		rc = rc ? rc : write_value(j, list->items[i]);
	}
	j->level--;
	rc = rc ? rc : write_newline(j);
	return rc ? rc : render_write(j->render, "]", 1);
}

/* Keys become strings: numbers as their JSON, None as "null". */
static int write_key(struct json *j, struct value key)
{
	struct render *r = j->render;
	if (key.kind == VALUE_TEXT)
		return write_string(j, key.text);
	if (!value_is_number(key) && key.kind != VALUE_NONE)
		return render_fail(r, "a key in JSON must be a string, a number, a bool or none, not '%s'",
				   value_type_name(key));
	int rc = render_write(r, "\"", 1);
	rc = rc ? rc : write_value(j, key);
	return rc ? rc : render_write(r, "\"", 1);
}

static int sorted_entries(struct json *j, const struct dict *dict, const struct dict_entry **entries)
{
	struct render *r = j->render;
	struct sort_item *items = heap_cells(&r->heap, dict->n, sizeof *items);
	struct dict_entry *sorted = heap_cells(&r->heap, dict->n, sizeof *sorted);
	if (!items || !sorted)
		return render_oom(r);
	for (size_t i = 0; i < dict->n; i++)
		items[i] = (struct sort_item){dict->entries[i].key, dict->entries[i].value};
	int rc = sort_items(r, items, dict->n, false);
	for (size_t i = 0; i < dict->n; i++)
		sorted[i] = (struct dict_entry){items[i].key, items[i].value, 0};
	*entries = sorted;
	return rc;
}

static int write_object(struct json *j, const struct dict *dict)
{
	if (!dict->n)
		return render_write(j->render, "{}", 2);
	const struct dict_entry *entries = dict->entries;
	int rc = j->sort_keys ? sorted_entries(j, dict, &entries) : 0;
	rc = rc ? rc : render_write(j->render, "{", 1);
	j->level++;
	for (size_t i = 0; i < dict->n && !rc; i++) {
		rc = write_separator(j, i == 0);
		rc = rc ? rc : write_key(j, entries[i].key);
		rc = rc ? rc : render_write(j->render, j->key_separator->bytes, j->key_separator->n_bytes);
		rc = rc ? rc : write_value(j, entries[i].value);
	}
	j->level--;
	rc = rc ? rc : write_newline(j);
	return rc ? rc : render_write(j->render, "}", 1);
}

static int write_nested(struct json *j, struct value value)
{
	int rc = render_enter(j->render);
	if (rc)
		return rc;
	rc = value.kind == VALUE_DICT ? write_object(j, value.dict) : write_array(j, value.list);
	j->render->depth--;
	return rc;
}

static int write_value(struct json *j, struct value value)
{
	struct render *r = j->render;
	int rc = render_charge(r, 1);
	if (rc)
		return rc;
	switch (value.kind) {
	case VALUE_NONE:
		return render_write(r, "null", 4);
	case VALUE_BOOL:
		return render_write_string(r, value.boolean ? "true" : "false");
	case VALUE_INT:
		return render_repr(r, value);
	case VALUE_FLOAT:
		return write_float(r, value.real);
	case VALUE_TEXT:
		return write_string(j, value.text);
	case VALUE_LIST:
	case VALUE_TUPLE:
	case VALUE_DICT:
		return write_nested(j, value);
	default:
		return render_fail(r, "an object of type '%s' is not JSON serializable", value_type_name(value));
	}
}

static int set_indent(struct json *j, struct value indent)
{
	int64_t width;
	struct value text;
	if (indent.kind == VALUE_MISSING || indent.kind == VALUE_NONE)
		return 0;
	if (indent.kind == VALUE_TEXT) {
		j->indent = indent.text;
		return 0;
	}
	static const struct text blank = {" ", 1, 1, false};
	if (!value_index(indent, &width))
		return render_fail(j->render, "the indent of JSON must be an integer or a string");
	int rc = render_binary(j->render, OP_MUL, value_text(&blank), indent, &text);
	if (!rc)
		j->indent = text.text;
	return rc;
}

static int set_separators(struct json *j, struct value separators)
{
	static const struct text comma = {",", 1, 1, false}, comma_space = {", ", 2, 2, false},
				 colon = {": ", 2, 2, false};
	j->item_separator = j->indent ? &comma : &comma_space;
	j->key_separator = &colon;
	if (separators.kind == VALUE_MISSING || separators.kind == VALUE_NONE)
		return 0;
	const struct list *pair;
	int rc = iter_list(j->render, separators, &pair);
	if (rc)
		return rc;
	if (pair->n != 2 || pair->items[0].kind != VALUE_TEXT || pair->items[1].kind != VALUE_TEXT)
		return render_fail(j->render, "the separators of JSON must be two strings");
	j->item_separator = pair->items[0].text;
	j->key_separator = pair->items[1].text;
	return 0;
}

int json_filter(struct render *r, struct invocation *call, struct value *result)
{
	struct json json = {
		.render = r,
		.ascii = value_truth(call->arguments[0]),
		.sort_keys = value_truth(call->arguments[3]),
	};
	size_t mark = r->n_output;
	int rc = set_indent(&json, call->arguments[1]);
	rc = rc ? rc : set_separators(&json, call->arguments[2]);
	rc = rc ? rc : write_value(&json, call->self);
	const struct text *text = NULL;
	rc = rc ? rc : render_capture(r, mark, &text);
	return rc ? rc : render_text_made(r, text, result);
}
