#include "src/engine/template/search.h"

#include <string.h>

#include "src/engine/template/casing.h"
#include "src/engine/template/render.h"
#include "src/engine/template/unicode.h"

static int needs_text(struct render *r, const struct invocation *call, struct value value)
{
	return render_fail(r, "%s() takes a string, not '%s'", call->builtin->name, value_type_name(value));
}

/* A piece of the object, with its mark. */
static int piece(struct render *r, const struct text *text, const char *start, const char *end, struct value *value)
{
	int rc = render_text_view(r, start, (size_t)(end - start), value);
	return rc || !text->markup ? rc : render_text_made(r, text_marked(&r->heap, value->text, true), value);
}

static int add_piece(struct render *r, struct list *pieces, const struct text *text, const char *start, const char *end)
{
	struct value value;
	int rc = piece(r, text, start, end, &value);
	return rc ? rc : list_append(r, pieces, value);
}

/* --- split ------------------------------------------------------------------------------------ */

static int split_spaces(struct render *r, const struct text *text, int64_t max, struct list *pieces)
{
	const char *at = text->bytes, *end = at + text->n_bytes;
	int rc = 0;
	for (int64_t n = 0; !rc; n++) {
		const char *start = at;
		while (at < end && unicode_is_space(text_next_char(&at)))
			start = at;
		if (start == end)
			return 0;
		if (n == max)
			return add_piece(r, pieces, text, start, end);
		const char *stop = at = start;
		while (at < end) {
			stop = at;
			if (unicode_is_space(text_next_char(&at)))
				break;
			stop = at;
		}
		rc = add_piece(r, pieces, text, start, stop);
		at = stop;
	}
	return rc;
}

static int rsplit_spaces(struct render *r, const struct text *text, int64_t max, struct list *pieces)
{
	const char *start = text->bytes, *at = start + text->n_bytes;
	int rc = 0;
	for (int64_t n = 0; !rc; n++) {
		const char *end = at;
		while (at > start && unicode_is_space(text_previous_char(&at)))
			end = at;
		if (end == start)
			return 0;
		if (n == max)
			return add_piece(r, pieces, text, start, end);
		const char *begin = at = end;
		while (at > start) {
			begin = at;
			if (unicode_is_space(text_previous_char(&at)))
				break;
			begin = at;
		}
		rc = add_piece(r, pieces, text, begin, end);
		at = begin;
	}
	return rc;
}

static int split_at(struct render *r, const struct text *text, const struct text *separator, int64_t max,
		    struct list *pieces)
{
	const char *at = text->bytes, *end = at + text->n_bytes;
	for (int64_t n = 0; n != max; n++) {
		const char *found = text_find(at, (size_t)(end - at), separator);
		if (!found)
			break;
		int rc = add_piece(r, pieces, text, at, found);
		if (rc)
			return rc;
		at = found + separator->n_bytes;
	}
	return add_piece(r, pieces, text, at, end);
}

static int rsplit_at(struct render *r, const struct text *text, const struct text *separator, int64_t max,
		     struct list *pieces)
{
	const char *start = text->bytes, *end = start + text->n_bytes;
	for (int64_t n = 0; n != max; n++) {
		const char *found = text_find_last(start, (size_t)(end - start), separator);
		if (!found)
			break;
		int rc = add_piece(r, pieces, text, found + separator->n_bytes, end);
		if (rc)
			return rc;
		end = found;
	}
	return add_piece(r, pieces, text, start, end);
}

static void reverse(struct list *list)
{
	for (size_t i = 0; i < list->n / 2; i++) {
		struct value swap = list->items[i];
		list->items[i] = list->items[list->n - 1 - i];
		list->items[list->n - 1 - i] = swap;
	}
}

static int split(struct render *r, struct invocation *call, bool from_right, struct value *result)
{
	const struct text *text = call->self.text;
	struct value separator = call->arguments[0];
	int64_t max = -1;
	bool spaces = separator.kind == VALUE_MISSING || separator.kind == VALUE_NONE;
	if (!spaces && separator.kind != VALUE_TEXT)
		return needs_text(r, call, separator);
	if (!spaces && !separator.text->n_bytes)
		return render_fail(r, "split() by an empty string");
	if (call->arguments[1].kind != VALUE_MISSING && !value_index(call->arguments[1], &max))
		return render_fail(r, "the maxsplit of split() must be an integer");
	struct list *pieces = list_new(r, 0);
	if (!pieces)
		return render_oom(r);
	max = max < 0 ? -1 : max;
	int rc = render_charge(r, text->n_bytes / 64);
	if (!rc && spaces)
		rc = from_right ? rsplit_spaces(r, text, max, pieces) : split_spaces(r, text, max, pieces);
	else if (!rc)
		rc = from_right ? rsplit_at(r, text, separator.text, max, pieces)
				: split_at(r, text, separator.text, max, pieces);
	if (from_right)
		reverse(pieces);
	*result = value_list(pieces);
	return rc;
}

int search_split(struct render *r, struct invocation *call, struct value *result)
{
	return split(r, call, false, result);
}

int search_rsplit(struct render *r, struct invocation *call, struct value *result)
{
	return split(r, call, true, result);
}

int search_splitlines(struct render *r, struct invocation *call, struct value *result)
{
	const struct text *text = call->self.text;
	struct list *lines = list_new(r, 0);
	if (!lines)
		return render_oom(r);
	bool keep = value_truth(call->arguments[0]);
	int rc = render_charge(r, text->n_bytes / 64);
	for (const char *at = text->bytes, *end = at + text->n_bytes; at < end && !rc;) {
		const char *next, *stop = line_end(at, end, &next);
		rc = add_piece(r, lines, text, at, keep ? next : stop);
		at = next;
	}
	*result = value_list(lines);
	return rc;
}

/* The part before, the separator and the part behind its first or last occurrence. */
static int partition(struct render *r, struct invocation *call, bool last, struct value *result)
{
	const struct text *text = call->self.text;
	struct value separator = call->arguments[0];
	if (separator.kind != VALUE_TEXT)
		return needs_text(r, call, separator);
	if (!separator.text->n_bytes)
		return render_fail(r, "%s() by an empty string", call->builtin->name);
	struct list *parts = list_new(r, 3);
	if (!parts)
		return render_oom(r);
	const char *start = text->bytes, *end = start + text->n_bytes;
	const char *found = last ? text_find_last(start, text->n_bytes, separator.text)
				 : text_find(start, text->n_bytes, separator.text);
	const char *from = found ? found : last ? start : end;
	const char *to = found ? found + separator.text->n_bytes : from;
	int rc = render_charge(r, text->n_bytes / 64);
	rc = rc ? rc : add_piece(r, parts, text, start, from);
	rc = rc ? rc : add_piece(r, parts, text, from, to);
	rc = rc ? rc : add_piece(r, parts, text, to, end);
	*result = value_tuple(parts);
	return rc;
}

int search_partition(struct render *r, struct invocation *call, struct value *result)
{
	return partition(r, call, false, result);
}

int search_rpartition(struct render *r, struct invocation *call, struct value *result)
{
	return partition(r, call, true, result);
}

/* --- find ------------------------------------------------------------------------------------- */

/* The characters [from, to) of the object that arguments 1 and 2 choose; false in *possible if even an empty string is
 * not in them, because `from` lies behind the end. */
struct window {
	size_t from, to;
	const char *start, *end;
	bool possible;
};

static int window_bound(struct render *r, struct value bound, int64_t otherwise, int64_t length, int64_t *at)
{
	*at = otherwise;
	if (bound.kind != VALUE_MISSING && bound.kind != VALUE_NONE && !value_index(bound, at))
		return render_fail(r, "a position in a string must be an integer or none");
	if (*at < 0)
		*at = *at < -length ? 0 : *at + length;
	return 0;
}

static int window_of(struct render *r, const struct invocation *call, struct window *window)
{
	const struct text *text = call->self.text;
	int64_t length = (int64_t)text->n_chars, from, to;
	int rc = window_bound(r, call->arguments[1], 0, length, &from);
	rc = rc ? rc : window_bound(r, call->arguments[2], length, length, &to);
	rc = rc ? rc : render_charge(r, text->n_bytes / 64);
	if (rc)
		return rc;
	to = to > length ? length : to;
	window->possible = from <= to;
	window->from = (size_t)(window->possible ? from : to);
	window->to = (size_t)to;
	window->start = text->bytes + text_offset(text, window->from);
	window->end = text->bytes + text_offset(text, window->to);
	return 0;
}

static int find(struct render *r, struct invocation *call, bool last, int64_t *at)
{
	struct window window;
	*at = -1;
	if (call->arguments[0].kind != VALUE_TEXT)
		return needs_text(r, call, call->arguments[0]);
	int rc = window_of(r, call, &window);
	if (rc || !window.possible)
		return rc;
	size_t n_bytes = (size_t)(window.end - window.start);
	const struct text *needle = call->arguments[0].text;
	const char *found =
		last ? text_find_last(window.start, n_bytes, needle) : text_find(window.start, n_bytes, needle);
	if (found)
		*at = (int64_t)(window.from + text_count_chars(window.start, (size_t)(found - window.start)));
	return 0;
}

int search_find(struct render *r, struct invocation *call, struct value *result)
{
	int64_t at;
	int rc = find(r, call, false, &at);
	*result = value_int(at);
	return rc;
}

int search_rfind(struct render *r, struct invocation *call, struct value *result)
{
	int64_t at;
	int rc = find(r, call, true, &at);
	*result = value_int(at);
	return rc;
}

static int index_or_fail(struct render *r, struct invocation *call, bool last, struct value *result)
{
	int64_t at;
	int rc = find(r, call, last, &at);
	if (!rc && at < 0)
		return render_fail(r, "%s(): the substring is not there", call->builtin->name);
	*result = value_int(at);
	return rc;
}

int search_index(struct render *r, struct invocation *call, struct value *result)
{
	return index_or_fail(r, call, false, result);
}

int search_rindex(struct render *r, struct invocation *call, struct value *result)
{
	return index_or_fail(r, call, true, result);
}

int search_count(struct render *r, struct invocation *call, struct value *result)
{
	struct window window;
	if (call->arguments[0].kind != VALUE_TEXT)
		return needs_text(r, call, call->arguments[0]);
	int rc = window_of(r, call, &window);
	if (rc)
		return rc;
	const struct text *needle = call->arguments[0].text;
	int64_t n = 0;
	if (window.possible && !needle->n_bytes)
		n = (int64_t)(window.to - window.from) + 1;
	for (const char *at = window.start; window.possible && needle->n_bytes;) {
		const char *found = text_find(at, (size_t)(window.end - at), needle);
		if (!found)
			break;
		n++;
		at = found + needle->n_bytes;
	}
	*result = value_int(n);
	return 0;
}

static bool has_affix(const struct window *window, const struct text *affix, bool prefix)
{
	size_t n_bytes = (size_t)(window->end - window->start);
	if (!window->possible || affix->n_bytes > n_bytes)
		return false;
	return memcmp(prefix ? window->start : window->end - affix->n_bytes, affix->bytes, affix->n_bytes) == 0;
}

/* The affix may be a tuple of them. */
static int test_affix(struct render *r, struct invocation *call, bool prefix, struct value *result)
{
	struct value affix = call->arguments[0];
	struct window window;
	int rc = window_of(r, call, &window);
	if (rc)
		return rc;
	if (affix.kind == VALUE_TEXT) {
		*result = value_bool(has_affix(&window, affix.text, prefix));
		return 0;
	}
	if (affix.kind != VALUE_TUPLE)
		return needs_text(r, call, affix);
	*result = value_bool(false);
	for (size_t i = 0; i < affix.list->n && !result->boolean; i++) {
		struct value one = affix.list->items[i];
		if (one.kind != VALUE_TEXT)
			return needs_text(r, call, one);
		result->boolean = has_affix(&window, one.text, prefix);
	}
	return 0;
}

int search_startswith(struct render *r, struct invocation *call, struct value *result)
{
	return test_affix(r, call, true, result);
}

int search_endswith(struct render *r, struct invocation *call, struct value *result)
{
	return test_affix(r, call, false, result);
}
