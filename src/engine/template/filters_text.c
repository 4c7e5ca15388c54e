/* Filters whose result is text. Where Python takes str(x) of the input, so do they; `escape` and `safe` mark it. */
#include "src/engine/template/builtin.h"
#include "src/engine/template/casing.h"
#include "src/engine/template/getter.h"
#include "src/engine/template/iter.h"
#include "src/engine/template/json.h"
#include "src/engine/template/number.h"
#include "src/engine/template/render.h"
#include "src/engine/template/unicode.h"

static int filter_casing(struct render *r, struct invocation *call, enum casing casing, struct value *result)
{
	const struct text *text;
	int rc = render_str(r, call->self, &text);
	return rc ? rc : casing_apply(r, text, casing, result);
}

static int filter_upper(struct render *r, struct invocation *call, struct value *result)
{
	return filter_casing(r, call, CASING_UPPER, result);
}

static int filter_lower(struct render *r, struct invocation *call, struct value *result)
{
	return filter_casing(r, call, CASING_LOWER, result);
}

static int filter_title(struct render *r, struct invocation *call, struct value *result)
{
	return filter_casing(r, call, CASING_FILTER_TITLE, result);
}

static int filter_capitalize(struct render *r, struct invocation *call, struct value *result)
{
	return filter_casing(r, call, CASING_CAPITALIZE, result);
}

static int filter_string(struct render *r, struct invocation *call, struct value *result)
{
	const struct text *text;
	int rc = render_str(r, call->self, &text);
	return rc ? rc : render_text_made(r, text, result);
}

static int filter_safe(struct render *r, struct invocation *call, struct value *result)
{
	const struct text *text;
	int rc = render_str(r, call->self, &text);
	return rc ? rc : render_text_made(r, text_marked(&r->heap, text, true), result);
}

static int filter_escape(struct render *r, struct invocation *call, struct value *result)
{
	const struct text *text;
	int rc = render_str(r, call->self, &text);
	return rc ? rc : render_text_made(r, text_escape(&r->heap, text), result);
}

/* Escapes markup again. */
static int filter_forceescape(struct render *r, struct invocation *call, struct value *result)
{
	const struct text *text;
	int rc = render_str(r, call->self, &text);
	text = rc ? NULL : text_marked(&r->heap, text, false);
	if (!rc && !text)
		rc = render_oom(r);
	return rc ? rc : render_text_made(r, text_escape(&r->heap, text), result);
}

static int filter_trim(struct render *r, struct invocation *call, struct value *result)
{
	struct value chars = call->arguments[0];
	const struct text *text;
	int rc = render_str(r, call->self, &text);
	if (rc)
		return rc;
	bool given = chars.kind != VALUE_MISSING && chars.kind != VALUE_NONE;
	if (given && chars.kind != VALUE_TEXT)
		return render_fail(r, "trim() takes a string or none");
	return strip_apply(r, text, given ? chars.text : NULL, STRIP_BOTH, result);
}

static int filter_replace(struct render *r, struct invocation *call, struct value *result)
{
	const struct text *text, *old, *new;
	int64_t count = -1;
	struct value limit = call->arguments[2];
	int rc = render_str(r, call->self, &text);
	rc = rc ? rc : render_str(r, call->arguments[0], &old);
	rc = rc ? rc : render_str(r, call->arguments[1], &new);
	if (rc)
		return rc;
	if (limit.kind != VALUE_MISSING && limit.kind != VALUE_NONE && !value_index(limit, &count))
		return render_fail(r, "the count of replace() must be an integer");
	text = text_marked(&r->heap, text, false);
	return text ? replace_apply(r, text, old, new, count, result) : render_oom(r);
}

/* --- layout ----------------------------------------------------------------------------------- */

static int write_repeated(struct render *r, const struct text *text, int64_t times)
{
	int rc = 0;
	for (int64_t i = 0; i < times && !rc; i++)
		rc = render_write(r, text->bytes, text->n_bytes);
	return rc;
}

static int indentation(struct render *r, struct value width, const struct text **text)
{
	static const struct text blank = {" ", 1, 1, false};
	struct value blanks;
	if (width.kind == VALUE_TEXT) {
		*text = width.text;
		return 0;
	}
	int rc = render_binary(r, OP_MUL, value_text(&blank), width.kind == VALUE_MISSING ? value_int(4) : width,
			       &blanks);
	if (!rc)
		*text = blanks.text;
	return rc;
}

static int filter_indent(struct render *r, struct invocation *call, struct value *result)
{
	const struct text *indent;
	int rc = indentation(r, call->arguments[0], &indent);
	if (rc)
		return rc;
	if (call->self.kind != VALUE_TEXT)
		return render_type_error(r, "indent", call->self, call->self);
	const struct text *text = call->self.text;
	bool first = value_truth(call->arguments[1]), blank = value_truth(call->arguments[2]);
	const char *at = text->bytes, *end = at + text->n_bytes;
	size_t mark = r->n_output;
	rc = first ? render_write(r, indent->bytes, indent->n_bytes) : 0;
	/* Jinja appends a newline before it splits: one that is there already ends an empty line of its own. */
	for (bool more = true, is_first = true; more && !rc; is_first = false) {
		const char *next, *stop = line_end(at, end, &next);
		rc = is_first ? 0 : render_write(r, "\n", 1);
		if (!rc && !is_first && (blank || stop > at))
			rc = render_write(r, indent->bytes, indent->n_bytes);
		rc = rc ? rc : render_write(r, at, (size_t)(stop - at));
		more = stop < end;
		at = next;
	}
	const struct text *indented;
	rc = rc ? rc : render_capture(r, mark, &indented);
	return rc ? rc : render_text_made(r, text_marked(&r->heap, indented, text->markup), result);
}

static int filter_center(struct render *r, struct invocation *call, struct value *result)
{
	static const struct text blank = {" ", 1, 1, false};
	const struct text *text;
	int64_t width = 80;
	int rc = render_str(r, call->self, &text);
	if (rc)
		return rc;
	if (call->arguments[0].kind != VALUE_MISSING && !value_index(call->arguments[0], &width))
		return render_fail(r, "the width of center() must be an integer");
	int64_t pad = width - (int64_t)text->n_chars;
	if (pad <= 0)
		return render_text_made(r, text, result);
	int64_t left = pad / 2 + (pad & width & 1);
	const struct text *centred = NULL;
	size_t mark = r->n_output;
	rc = write_repeated(r, &blank, left);
	rc = rc ? rc : render_write(r, text->bytes, text->n_bytes);
	rc = rc ? rc : write_repeated(r, &blank, pad - left);
	rc = rc ? rc : render_capture(r, mark, &centred);
	return rc ? rc : render_text_made(r, text_marked(&r->heap, centred, text->markup), result);
}

static int integer_or(struct render *r, struct value value, int64_t otherwise, const char *what, int64_t *integer)
{
	*integer = otherwise;
	if (value.kind == VALUE_MISSING || value.kind == VALUE_NONE || value_index(value, integer))
		return 0;
	return render_fail(r, "%s must be an integer", what);
}

static int filter_truncate(struct render *r, struct invocation *call, struct value *result)
{
	static const struct text dots = {"...", 3, 3, false};
	int64_t length, leeway;
	int rc = integer_or(r, call->arguments[0], 255, "the length of truncate()", &length);
	rc = rc ? rc : integer_or(r, call->arguments[3], 5, "the leeway of truncate()", &leeway);
	if (rc)
		return rc;
	struct value end = call->arguments[2].kind == VALUE_MISSING ? value_text(&dots) : call->arguments[2];
	int64_t n = value_length(call->self);
	if (n < 0 || end.kind != VALUE_TEXT)
		return render_type_error(r, "truncate", call->self, end);
	if (length < (int64_t)end.text->n_chars || leeway < 0)
		return render_fail(r, "truncate() needs room for its end and a leeway that is not negative");
	*result = call->self;
	if (leeway > INT64_MAX - length || n <= length + leeway)
		return 0; /* whatever has a length stays as it is */
	if (call->self.kind != VALUE_TEXT)
		return render_type_error(r, "truncate", call->self, end);
	const struct text *text = call->self.text;
	const struct text *kept = text_slice(&r->heap, text, 0, (size_t)(length - (int64_t)end.text->n_chars));
	if (!kept)
		return render_oom(r);
	if (!value_truth(call->arguments[1])) { /* up to the last whole word */
		static const struct text space = {" ", 1, 1, false};
		const char *last = text_find_last(kept->bytes, kept->n_bytes, &space);
		const struct text *words = last ? text_view(&r->heap, kept->bytes, (size_t)(last - kept->bytes)) : kept;
		kept = words ? text_marked(&r->heap, words, text->markup) : NULL;
		if (!kept)
			return render_oom(r);
	}
	return render_binary(r, OP_ADD, value_text(kept), end, result);
}

static int filter_wordcount(struct render *r, struct invocation *call, struct value *result)
{
	const struct text *text;
	int rc = render_str(r, call->self, &text);
	rc = rc ? rc : render_charge(r, text->n_bytes / 16);
	if (rc)
		return rc;
	int64_t n_words = 0;
	bool in_word = false;
	for (const char *at = text->bytes, *end = at + text->n_bytes; at < end;) {
		bool word = unicode_is_word(text_next_char(&at));
		n_words += word && !in_word;
		in_word = word;
	}
	*result = value_int(n_words);
	return 0;
}

/* "…"|format(a, b) or "…"|format(name=a): the % operator. */
static int filter_format(struct render *r, struct invocation *call, struct value *result)
{
	const struct call_values *given = call->given;
	const struct text *format;
	int rc = render_str(r, call->self, &format);
	if (rc)
		return rc;
	if (given->n_positional && given->n_named)
		return render_fail(r, "format() takes arguments by position or by name, not both");
	if (given->n_named) {
		struct dict *named = dict_new(r);
		if (!named)
			return render_oom(r);
		for (size_t k = 0; k < given->n_named && !rc; k++)
			rc = dict_set(r, named, value_text(given->named[k].name), given->named[k].value);
		return rc ? rc : render_percent(r, format, value_dict(named), result);
	}
	struct list *positional = list_new(r, given->n_positional);
	if (!positional)
		return render_oom(r);
	for (size_t i = 0; i < given->n_positional && !rc; i++)
		rc = list_append(r, positional, given->positional[i]);
	return rc ? rc : render_percent(r, format, value_tuple(positional), result);
}

static int filter_join(struct render *r, struct invocation *call, struct value *result)
{
	static const struct text empty = {"", 0, 0, false};
	const struct text *separator = &empty, *joined;
	struct value none = {.kind = VALUE_MISSING}, item;
	struct iter *iter;
	int rc = call->arguments[0].kind == VALUE_MISSING ? 0 : render_str(r, call->arguments[0], &separator);
	rc = rc ? rc : iter_start(r, call->self, &iter);
	if (rc)
		return rc;
	/* Items may render text themselves (lazy filters calling macros do), but leave nothing behind in the output. */
	size_t mark = r->n_output;
	int more = 0;
	for (bool first = true; !rc && (more = iter_next(r, iter, &item)) > 0; first = false) {
		rc = first ? 0 : render_write(r, separator->bytes, separator->n_bytes);
		rc = rc ? rc : getter_get(r, item, call->arguments[1], none, &item);
		rc = rc ? rc : render_value(r, item);
	}
	rc = rc ? rc : more;
	rc = rc ? rc : render_capture(r, mark, &joined);
	return rc ? rc : render_text_made(r, joined, result);
}

static const struct builtin table[] = {
	{.name = "upper", .run = filter_upper},
	{.name = "lower", .run = filter_lower},
	{.name = "title", .run = filter_title},
	{.name = "capitalize", .run = filter_capitalize},
	{.name = "string", .run = filter_string},
	{.name = "safe", .run = filter_safe},
	{.name = "escape", .run = filter_escape},
	{.name = "e", .run = filter_escape},
	{.name = "forceescape", .run = filter_forceescape},
	{.name = "trim", .run = filter_trim, .parameters = {"chars"}},
	{.name = "replace", .run = filter_replace, .n_required = 2, .parameters = {"old", "new", "count"}},
	{.name = "indent", .run = filter_indent, .parameters = {"width", "first", "blank"}},
	{.name = "center", .run = filter_center, .parameters = {"width"}},
	{.name = "truncate", .run = filter_truncate, .parameters = {"length", "killwords", "end", "leeway"}},
	{.name = "wordcount", .run = filter_wordcount},
	{.name = "format", .run = filter_format, .variadic = true},
	{.name = "join", .run = filter_join, .parameters = {"d", "attribute"}},
	{.name = "tojson", .run = json_filter, .parameters = {"ensure_ascii", "indent", "separators", "sort_keys"}},
	{.name = "filesizeformat"},
	{.name = "pprint"},
	{.name = "striptags"},
	{.name = "urlencode"},
	{.name = "urlize"},
	{.name = "wordwrap"},
	{.name = "xmlattr"},
};

const struct builtin_table filters_text = BUILTIN_TABLE(table);
