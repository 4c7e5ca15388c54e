/* str() and repr() of values. */
#include <stdio.h>

#include "src/engine/template/builtin.h"
#include "src/engine/template/iter.h"
#include "src/engine/template/loop.h"
#include "src/engine/template/number.h"
#include "src/engine/template/render.h"
#include "src/engine/template/unicode.h"

static int write_int(struct render *r, int64_t integer)
{
	char text[24];
	return render_write(r, text, (size_t)snprintf(text, sizeof text, "%lld", (long long)integer));
}

static int write_float(struct render *r, double real)
{
	char text[NUMBER_TEXT_BYTES];
	return render_write(r, text, number_repr(real, text));
}

static int write_escape(struct render *r, uint32_t c)
{
	char text[12];
	const char *short_form = c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\t' ? "\\t" : c == '\\' ? "\\\\" : NULL;
	if (short_form)
		return render_write_string(r, short_form);
	snprintf(text, sizeof text, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
	return render_write_string(r, text);
}

/* Between ' unless that would need escaping and " would not. */
static int repr_text(struct render *r, const struct text *text)
{
	const char *at = text->bytes, *end = at + text->n_bytes;
	bool single = false, two = false;
	for (size_t i = 0; i < text->n_bytes; i++) {
		single |= at[i] == '\'';
		two |= at[i] == '"';
	}
	char quote = single && !two ? '"' : '\'';
	int rc = render_charge(r, text->n_bytes / 64);
	rc = rc ? rc : text->markup ? render_write_string(r, "Markup(") : 0;
	rc = rc ? rc : render_write(r, &quote, 1);
	while (at < end && !rc) {
		const char *start = at;
		uint32_t c = text_next_char(&at);
		if (c == (uint32_t)quote) {
			rc = render_write(r, "\\", 1);
			rc = rc ? rc : render_write(r, &quote, 1);
		} else if (c == '\\' || !unicode_is_printable(c)) {
			rc = write_escape(r, c);
		} else {
			rc = render_write(r, start, (size_t)(at - start));
		}
	}
	rc = rc ? rc : render_write(r, &quote, 1);
	return rc || !text->markup ? rc : render_write(r, ")", 1);
}

static int repr_items(struct render *r, const struct list *list, const char *open, const char *close)
{
	int rc = render_enter(r);
	if (rc)
		return rc;
	rc = render_write_string(r, open);
	for (size_t i = 0; i < list->n && !rc; i++) {
		rc = i ? render_write(r, ", ", 2) : 0;
		rc = rc ? rc : render_repr(r, list->items[i]);
	}
	r->depth--;
	return rc ? rc : render_write_string(r, close);
}

static int repr_dict(struct render *r, const struct dict *dict)
{
	int rc = render_enter(r);
	if (rc)
		return rc;
	rc = render_write(r, "{", 1);
	for (size_t i = 0; i < dict->n && !rc; i++) {
		rc = i ? render_write(r, ", ", 2) : 0;
		rc = rc ? rc : render_repr(r, dict->entries[i].key);
		rc = rc ? rc : render_write(r, ": ", 2);
		rc = rc ? rc : render_repr(r, dict->entries[i].value);
	}
	r->depth--;
	return rc ? rc : render_write(r, "}", 1);
}

static int repr_view(struct render *r, struct value view)
{
	const struct list *items;
	int rc = iter_list(r, view, &items);
	rc = rc ? rc : render_write_string(r, value_type_name(view));
	return rc ? rc : repr_items(r, items, "([", "])");
}

static int repr_range(struct render *r, const struct range *range)
{
	char text[96];
	if (range->step == 1)
		snprintf(text, sizeof text, "range(%lld, %lld)", (long long)range->start, (long long)range->stop);
	else
		snprintf(text, sizeof text, "range(%lld, %lld, %lld)", (long long)range->start, (long long)range->stop,
			 (long long)range->step);
	return render_write_string(r, text);
}

static int repr_namespace(struct render *r, const struct dict *dict)
{
	int rc = render_write_string(r, "<Namespace ");
	rc = rc ? rc : repr_dict(r, dict);
	return rc ? rc : render_write(r, ">", 1);
}

static int repr_loop(struct render *r, struct loop *loop)
{
	char text[64];
	int64_t length;
	int rc = loop_length(r, loop, &length);
	if (rc)
		return rc;
	snprintf(text, sizeof text, "<LoopContext %lld/%lld>", (long long)loop->index0 + 1, (long long)length);
	return render_write_string(r, text);
}

static int repr_macro(struct render *r, const struct macro *macro)
{
	if (!macro->function->name)
		return render_write_string(r, "<Macro anonymous>");
	int rc = render_write_string(r, "<Macro ");
	rc = rc ? rc : repr_text(r, macro->function->name);
	return rc ? rc : render_write(r, ">", 1);
}

int render_repr(struct render *r, struct value value)
{
	int rc = render_charge(r, 1);
	if (rc)
		return rc;
	switch (value.kind) {
	case VALUE_UNDEFINED:
		return render_write_string(r, "Undefined");
	case VALUE_MISSING:
	case VALUE_NONE:
		return render_write_string(r, "None");
	case VALUE_BOOL:
		return render_write_string(r, value.boolean ? "True" : "False");
	case VALUE_INT:
		return write_int(r, value.integer);
	case VALUE_FLOAT:
		return write_float(r, value.real);
	case VALUE_TEXT:
		return repr_text(r, value.text);
	case VALUE_LIST:
		return repr_items(r, value.list, "[", "]");
	case VALUE_TUPLE:
		return repr_items(r, value.list, "(", value.list->n == 1 ? ",)" : ")");
	case VALUE_DICT:
		return repr_dict(r, value.dict);
	case VALUE_KEYS:
	case VALUE_VALUES:
	case VALUE_ITEMS:
		return repr_view(r, value);
	case VALUE_RANGE:
		return repr_range(r, value.range);
	case VALUE_NAMESPACE:
		return repr_namespace(r, value.dict);
	case VALUE_LOOP:
		return repr_loop(r, value.loop);
	case VALUE_MACRO:
		return repr_macro(r, value.macro);
	case VALUE_ITER:
	case VALUE_METHOD:
	case VALUE_FUNCTION:
	case VALUE_CYCLER:
	case VALUE_JOINER:
		/* Python prints these with an address, which differs from run to run. */
		return render_unsupported(r, "printing a '%s'", value_type_name(value));
	}
	return 0;
}

int render_value(struct render *r, struct value value)
{
	if (value.kind == VALUE_TEXT)
		return render_write(r, value.text->bytes, value.text->n_bytes);
	return value.kind == VALUE_UNDEFINED ? 0 : render_repr(r, value);
}

int render_str(struct render *r, struct value value, const struct text **text)
{
	if (value.kind == VALUE_TEXT) {
		*text = value.text;
		return 0;
	}
	size_t mark = r->n_output;
	int rc = render_value(r, value);
	return rc ? rc : render_capture(r, mark, text);
}
