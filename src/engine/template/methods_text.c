/* Methods of strings. */
#include <string.h>

#include "src/engine/template/builtin.h"
#include "src/engine/template/casing.h"
#include "src/engine/template/format.h"
#include "src/engine/template/iter.h"
#include "src/engine/template/render.h"
#include "src/engine/template/search.h"
#include "src/engine/template/unicode.h"

/* --- case and predicates ---------------------------------------------------------------------- */

#define CASING_METHOD(name, casing)                                                             \
	static int text_##name(struct render *r, struct invocation *call, struct value *result) \
	{                                                                                       \
		return casing_apply(r, call->self.text, casing, result);                        \
	}

CASING_METHOD(lower, CASING_LOWER)
CASING_METHOD(upper, CASING_UPPER)
CASING_METHOD(casefold, CASING_FOLD)
CASING_METHOD(swapcase, CASING_SWAP)
CASING_METHOD(title, CASING_TITLE)
CASING_METHOD(capitalize, CASING_CAPITALIZE)

/* Not empty and all characters have the property. */
static int all_chars(struct render *r, const struct text *text, bool (*has)(uint32_t), bool empty, struct value *result)
{
	bool all = text->n_bytes > 0 || empty;
	for (const char *at = text->bytes, *end = at + text->n_bytes; at < end && all;)
		all = has(text_next_char(&at));
	*result = value_bool(all);
	return render_charge(r, text->n_bytes / 16);
}

#define PREDICATE_METHOD(name, has, empty)                                                      \
	static int text_##name(struct render *r, struct invocation *call, struct value *result) \
	{                                                                                       \
		return all_chars(r, call->self.text, has, empty, result);                       \
	}

static bool is_ascii(uint32_t c)
{
	return c < 0x80;
}

PREDICATE_METHOD(isalpha, unicode_is_alpha, false)
PREDICATE_METHOD(isdecimal, unicode_is_decimal, false)
PREDICATE_METHOD(isdigit, unicode_is_digit, false)
PREDICATE_METHOD(isnumeric, unicode_is_numeric, false)
PREDICATE_METHOD(isalnum, unicode_is_alnum, false)
PREDICATE_METHOD(isspace, unicode_is_space, false)
PREDICATE_METHOD(isprintable, unicode_is_printable, true)
PREDICATE_METHOD(isascii, is_ascii, true)

/* islower, isupper: at least one cased character and none of another case. */
static int all_cased(struct render *r, const struct text *text, bool (*wanted)(uint32_t), struct value *result)
{
	bool any = false, all = true;
	for (const char *at = text->bytes, *end = at + text->n_bytes; at < end && all;) {
		uint32_t c = text_next_char(&at);
		any |= wanted(c);
		all = wanted(c) || !unicode_is_cased(c);
	}
	*result = value_bool(any && all);
	return render_charge(r, text->n_bytes / 16);
}

static int text_islower(struct render *r, struct invocation *call, struct value *result)
{
	return all_cased(r, call->self.text, unicode_is_lower, result);
}

static int text_isupper(struct render *r, struct invocation *call, struct value *result)
{
	return all_cased(r, call->self.text, unicode_is_upper, result);
}

static int text_istitle(struct render *r, struct invocation *call, struct value *result)
{
	const struct text *text = call->self.text;
	bool any = false, ok = true, after_cased = false;
	for (const char *at = text->bytes, *end = at + text->n_bytes; at < end && ok;) {
		uint32_t c = text_next_char(&at);
		bool upper = unicode_is_upper(c) || unicode_is_title(c), lower = unicode_is_lower(c);
		ok = !(upper && after_cased) && !(lower && !after_cased);
		after_cased = upper || lower;
		any |= after_cased;
	}
	*result = value_bool(any && ok);
	return render_charge(r, text->n_bytes / 16);
}

static int text_isidentifier(struct render *r, struct invocation *call, struct value *result)
{
	const struct text *text = call->self.text;
	const char *at = text->bytes, *end = at + text->n_bytes;
	bool ok = at < end && unicode_starts_name(text_next_char(&at));
	while (at < end && ok)
		ok = unicode_continues_name(text_next_char(&at));
	*result = value_bool(ok);
	return render_charge(r, text->n_bytes / 16);
}

/* --- stripping, replacing, padding ------------------------------------------------------------ */

static int strip(struct render *r, struct invocation *call, enum strip_side side, struct value *result)
{
	struct value chars = call->arguments[0];
	bool given = chars.kind != VALUE_MISSING && chars.kind != VALUE_NONE;
	if (given && chars.kind != VALUE_TEXT)
		return render_fail(r, "%s() takes a string or none", call->builtin->name);
	return strip_apply(r, call->self.text, given ? chars.text : NULL, side, result);
}

static int text_strip(struct render *r, struct invocation *call, struct value *result)
{
	return strip(r, call, STRIP_BOTH, result);
}

static int text_lstrip(struct render *r, struct invocation *call, struct value *result)
{
	return strip(r, call, STRIP_LEFT, result);
}

static int text_rstrip(struct render *r, struct invocation *call, struct value *result)
{
	return strip(r, call, STRIP_RIGHT, result);
}

/* An argument that must be text. */
static int text_argument(struct render *r, const struct invocation *call, size_t index, const struct text **text)
{
	struct value value = call->arguments[index];
	if (value.kind != VALUE_TEXT)
		return render_fail(r, "%s() takes a string, not '%s'", call->builtin->name, value_type_name(value));
	*text = value.text;
	return 0;
}

static int text_replace(struct render *r, struct invocation *call, struct value *result)
{
	const struct text *old = NULL, *new = NULL;
	int64_t count = -1;
	int rc = text_argument(r, call, 0, &old);
	rc = rc ? rc : text_argument(r, call, 1, &new);
	if (rc)
		return rc;
	if (call->arguments[2].kind != VALUE_MISSING && !value_index(call->arguments[2], &count))
		return render_fail(r, "the count of replace() must be an integer");
	if (call->self.text->markup)
		new = text_escape(&r->heap, new);
	return new ? replace_apply(r, call->self.text, old, new, count, result) : render_oom(r);
}

static int remove_affix(struct render *r, struct invocation *call, bool prefix, struct value *result)
{
	const struct text *affix = NULL, *text = call->self.text;
	int rc = text_argument(r, call, 0, &affix);
	if (rc)
		return rc;
	*result = call->self;
	if (affix->n_bytes > text->n_bytes)
		return 0;
	size_t rest = text->n_bytes - affix->n_bytes;
	if (memcmp(prefix ? text->bytes : text->bytes + rest, affix->bytes, affix->n_bytes) != 0)
		return 0;
	rc = render_text_view(r, prefix ? text->bytes + affix->n_bytes : text->bytes, rest, result);
	return rc ? rc : render_text_made(r, text_marked(&r->heap, result->text, text->markup), result);
}

static int text_removeprefix(struct render *r, struct invocation *call, struct value *result)
{
	return remove_affix(r, call, true, result);
}

static int text_removesuffix(struct render *r, struct invocation *call, struct value *result)
{
	return remove_affix(r, call, false, result);
}

static int write_padding(struct render *r, const struct text *with, int64_t n)
{
	int rc = 0;
	for (int64_t i = 0; i < n && !rc; i++)
		rc = render_write(r, with->bytes, with->n_bytes);
	return rc;
}

/* Pads to a width: `left` of the padding goes before the text. */
static int pad(struct render *r, struct invocation *call, int64_t (*left_of)(int64_t pad, int64_t width),
	       struct value *result)
{
	static const struct text blank = {" ", 1, 1, false};
	const struct text *text = call->self.text, *with = &blank, *padded;
	int64_t width;
	if (!value_index(call->arguments[0], &width))
		return render_fail(r, "the width of %s() must be an integer", call->builtin->name);
	int rc = call->arguments[1].kind == VALUE_MISSING ? 0 : text_argument(r, call, 1, &with);
	if (!rc && with->n_chars != 1)
		return render_fail(r, "%s() pads with one character", call->builtin->name);
	int64_t n = width - (int64_t)text->n_chars;
	*result = call->self;
	if (rc || width < 0 || n <= 0)
		return rc;
	int64_t left = left_of(n, width);
	size_t mark = r->n_output;
	rc = write_padding(r, with, left);
	rc = rc ? rc : render_write(r, text->bytes, text->n_bytes);
	rc = rc ? rc : write_padding(r, with, n - left);
	rc = rc ? rc : render_capture(r, mark, &padded);
	return rc ? rc : render_text_made(r, text_marked(&r->heap, padded, text->markup), result);
}

static int64_t pad_centre(int64_t n, int64_t width)
{
	return n / 2 + (n & width & 1);
}

static int64_t pad_right(int64_t n, int64_t width)
{
	(void)n, (void)width;
	return 0;
}

static int64_t pad_left(int64_t n, int64_t width)
{
	(void)width;
	return n;
}

static int text_center(struct render *r, struct invocation *call, struct value *result)
{
	return pad(r, call, pad_centre, result);
}

static int text_ljust(struct render *r, struct invocation *call, struct value *result)
{
	return pad(r, call, pad_right, result);
}

static int text_rjust(struct render *r, struct invocation *call, struct value *result)
{
	return pad(r, call, pad_left, result);
}

static int text_zfill(struct render *r, struct invocation *call, struct value *result)
{
	static const struct text zero = {"0", 1, 1, false};
	const struct text *text = call->self.text, *filled;
	int64_t width;
	if (!value_index(call->arguments[0], &width))
		return render_fail(r, "the width of zfill() must be an integer");
	int64_t n = width < 0 ? 0 : width - (int64_t)text->n_chars;
	size_t sign = text->n_bytes && (text->bytes[0] == '+' || text->bytes[0] == '-'), mark = r->n_output;
	*result = call->self;
	if (n <= 0)
		return 0;
	int rc = render_write(r, text->bytes, sign);
	rc = rc ? rc : write_padding(r, &zero, n);
	rc = rc ? rc : render_write(r, text->bytes + sign, text->n_bytes - sign);
	rc = rc ? rc : render_capture(r, mark, &filled);
	return rc ? rc : render_text_made(r, text_marked(&r->heap, filled, text->markup), result);
}

/* separator.join(strings) */
static int text_join(struct render *r, struct invocation *call, struct value *result)
{
	const struct text *separator = call->self.text, *joined;
	struct iter *iter;
	struct value item;
	size_t mark = r->n_output;
	int rc = iter_start(r, call->arguments[0], &iter), more = 0;
	for (bool first = true; !rc && (more = iter_next(r, iter, &item)) > 0; first = false) {
		if (separator->markup) { /* joins anything, escaped */
			const struct text *text;
			rc = render_str(r, item, &text);
			text = rc ? NULL : text_escape(&r->heap, text);
			rc = rc ? rc : render_text_made(r, text, &item);
		} else if (item.kind != VALUE_TEXT) {
			return render_fail(r, "join() needs strings, found '%s'", value_type_name(item));
		}
		rc = rc || first ? rc : render_write(r, separator->bytes, separator->n_bytes);
		rc = rc ? rc : render_write(r, item.text->bytes, item.text->n_bytes);
	}
	rc = rc ? rc : more;
	rc = rc ? rc : render_capture(r, mark, &joined);
	return rc ? rc : render_text_made(r, text_marked(&r->heap, joined, separator->markup), result);
}

static const struct builtin table[] = {
	{.name = "lower", .run = text_lower},
	{.name = "upper", .run = text_upper},
	{.name = "casefold", .run = text_casefold},
	{.name = "swapcase", .run = text_swapcase},
	{.name = "title", .run = text_title},
	{.name = "capitalize", .run = text_capitalize},
	{.name = "isalpha", .run = text_isalpha},
	{.name = "isdecimal", .run = text_isdecimal},
	{.name = "isdigit", .run = text_isdigit},
	{.name = "isnumeric", .run = text_isnumeric},
	{.name = "isalnum", .run = text_isalnum},
	{.name = "isspace", .run = text_isspace},
	{.name = "isprintable", .run = text_isprintable},
	{.name = "isascii", .run = text_isascii},
	{.name = "islower", .run = text_islower},
	{.name = "isupper", .run = text_isupper},
	{.name = "istitle", .run = text_istitle},
	{.name = "isidentifier", .run = text_isidentifier},
	{.name = "strip", .run = text_strip, .parameters = {""}},
	{.name = "lstrip", .run = text_lstrip, .parameters = {""}},
	{.name = "rstrip", .run = text_rstrip, .parameters = {""}},
	{.name = "replace",
	 .run = text_replace,
	 .n_required = 2,
	 .parameters = {"", "", "count"}}, /* by name: Python 3.13 */
	{.name = "removeprefix", .run = text_removeprefix, .n_required = 1, .parameters = {""}},
	{.name = "removesuffix", .run = text_removesuffix, .n_required = 1, .parameters = {""}},
	{.name = "center", .run = text_center, .n_required = 1, .parameters = {"", ""}},
	{.name = "ljust", .run = text_ljust, .n_required = 1, .parameters = {"", ""}},
	{.name = "rjust", .run = text_rjust, .n_required = 1, .parameters = {"", ""}},
	{.name = "zfill", .run = text_zfill, .n_required = 1, .parameters = {""}},
	{.name = "join", .run = text_join, .n_required = 1, .parameters = {""}},
	{.name = "format", .run = format_method, .variadic = true},
	{.name = "format_map", .run = format_map_method, .n_required = 1, .parameters = {""}},
	{.name = "split", .run = search_split, .parameters = {"sep", "maxsplit"}},
	{.name = "rsplit", .run = search_rsplit, .parameters = {"sep", "maxsplit"}},
	{.name = "splitlines", .run = search_splitlines, .parameters = {"keepends"}},
	{.name = "partition", .run = search_partition, .n_required = 1, .parameters = {""}},
	{.name = "rpartition", .run = search_rpartition, .n_required = 1, .parameters = {""}},
	{.name = "startswith", .run = search_startswith, .n_required = 1, .parameters = {"", "", ""}},
	{.name = "endswith", .run = search_endswith, .n_required = 1, .parameters = {"", "", ""}},
	{.name = "find", .run = search_find, .n_required = 1, .parameters = {"", "", ""}},
	{.name = "rfind", .run = search_rfind, .n_required = 1, .parameters = {"", "", ""}},
	{.name = "index", .run = search_index, .n_required = 1, .parameters = {"", "", ""}},
	{.name = "rindex", .run = search_rindex, .n_required = 1, .parameters = {"", "", ""}},
	{.name = "count", .run = search_count, .n_required = 1, .parameters = {"", "", ""}},
	{.name = "encode"},
	{.name = "expandtabs"},
	{.name = "maketrans"},
	{.name = "translate"},
};

const struct builtin_table methods_text = BUILTIN_TABLE(table);
