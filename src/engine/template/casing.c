#include "src/engine/template/casing.h"

#include "src/engine/template/render.h"
#include "src/engine/template/unicode.h"

enum { SIGMA = 0x3a3, SMALL_SIGMA = 0x3c3, FINAL_SIGMA = 0x3c2 };

/* Whether the sigma between `before` and `behind` ends a word in [start, end): cased characters precede it, none
 * follow, and ignorable ones do not count. */
static bool sigma_is_final(const char *start, const char *before, const char *behind, const char *end)
{
	bool cased = false;
	while (before > start && !cased) {
		uint32_t c = text_previous_char(&before);
		if (unicode_is_case_ignorable(c))
			continue;
		cased = unicode_is_cased(c);
		break;
	}
	while (cased && behind < end) {
		uint32_t c = text_next_char(&behind);
		if (unicode_is_case_ignorable(c))
			continue;
		return !unicode_is_cased(c);
	}
	return cased;
}

static int write_mapped(struct render *r, uint32_t c, enum unicode_case to)
{
	uint32_t mapped[3];
	size_t n = unicode_map(c, to, mapped);
	int rc = 0;
	for (size_t i = 0; i < n && !rc; i++)
		rc = render_write_char(r, mapped[i]);
	return rc;
}

/* The character at *at, which is in [start, end), mapped. */
static int write_next(struct render *r, const char *start, const char **at, const char *end, enum unicode_case to)
{
	const char *before = *at;
	uint32_t c = text_next_char(at);
	if (c == SIGMA && to == UNICODE_LOWER)
		return render_write_char(r, sigma_is_final(start, before, *at, end) ? FINAL_SIGMA : SMALL_SIGMA);
	return write_mapped(r, c, to);
}

/* A run of characters below 0x80, which are most of most texts: upper or lower is a bit. */
static int write_ascii(struct render *r, const char **at, const char *end, bool upper)
{
	char run[256];
	size_t n = 0;
	for (; *at < end && n < sizeof run && (unsigned char)**at < 0x80; ++*at) {
		char c = **at;
		bool changes = upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z';
		run[n++] = (char)(changes ? c ^ 0x20 : c);
	}
	return render_write(r, run, n);
}

static int write_range(struct render *r, const char *start, const char *end, enum unicode_case to)
{
	int rc = 0;
	for (const char *at = start; at < end && !rc;)
		rc = (unsigned char)*at < 0x80 ? write_ascii(r, &at, end, to == UNICODE_UPPER || to == UNICODE_TITLE)
					       : write_next(r, start, &at, end, to);
	return rc;
}

static int write_swapped(struct render *r, const char *start, const char *end)
{
	int rc = 0;
	for (const char *at = start; at < end && !rc;) {
		const char *next = at;
		uint32_t c = text_next_char(&next);
		if (unicode_is_upper(c))
			rc = write_next(r, start, &at, end, UNICODE_LOWER);
		else if (unicode_is_lower(c))
			rc = write_next(r, start, &at, end, UNICODE_UPPER);
		else
			rc = render_write(r, at, (size_t)(next - at));
		at = next;
	}
	return rc;
}

static int write_title(struct render *r, const char *start, const char *end)
{
	int rc = 0;
	bool in_word = false;
	for (const char *at = start; at < end && !rc;) {
		const char *next = at;
		bool cased = unicode_is_cased(text_next_char(&next));
		rc = write_next(r, start, &at, end, in_word ? UNICODE_LOWER : UNICODE_TITLE);
		in_word = cased;
	}
	return rc;
}

static int write_capitalized(struct render *r, const char *start, const char *end)
{
	const char *at = start;
	int rc = at < end ? write_next(r, start, &at, end, UNICODE_TITLE) : 0;
	while (at < end && !rc)
		rc = write_next(r, start, &at, end, UNICODE_LOWER);
	return rc;
}

static bool separates_words(uint32_t c)
{
	return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || unicode_is_space(c);
}

static int write_filter_title(struct render *r, const char *start, const char *end)
{
	int rc = 0;
	for (const char *at = start; at < end && !rc;) {
		const char *word = at, *word_end = at;
		while (word_end < end) {
			const char *next = word_end;
			if (separates_words(text_next_char(&next)))
				break;
			word_end = next;
		}
		if (word < word_end) {
			rc = write_next(r, word, &at, word_end, UNICODE_UPPER);
			rc = rc ? rc : write_range(r, at, word_end, UNICODE_LOWER);
			at = word_end;
		} else {
			text_next_char(&at);
			rc = render_write(r, word, (size_t)(at - word));
		}
	}
	return rc;
}

static int capture_marked(struct render *r, size_t mark, bool markup, struct value *result)
{
	const struct text *text;
	int rc = render_capture(r, mark, &text);
	return rc ? rc : render_text_made(r, text_marked(&r->heap, text, markup), result);
}

int casing_apply(struct render *r, const struct text *text, enum casing casing, struct value *result)
{
	const char *start = text->bytes, *end = start + text->n_bytes;
	size_t mark = r->n_output;
	bool in_runs = casing == CASING_LOWER || casing == CASING_UPPER || casing == CASING_FOLD;
	int rc = render_charge(r, text->n_bytes / (in_runs ? 64 : 16));
	if (rc)
		return rc;
	switch (casing) {
	case CASING_LOWER:
		rc = write_range(r, start, end, UNICODE_LOWER);
		break;
	case CASING_UPPER:
		rc = write_range(r, start, end, UNICODE_UPPER);
		break;
	case CASING_FOLD:
		rc = write_range(r, start, end, UNICODE_FOLD);
		break;
	case CASING_SWAP:
		rc = write_swapped(r, start, end);
		break;
	case CASING_TITLE:
		rc = write_title(r, start, end);
		break;
	case CASING_CAPITALIZE:
		rc = write_capitalized(r, start, end);
		break;
	case CASING_FILTER_TITLE:
		rc = write_filter_title(r, start, end);
		break;
	}
	return rc ? rc : capture_marked(r, mark, text->markup && casing != CASING_FILTER_TITLE, result);
}

int casing_ignore(struct render *r, struct value value, struct value *result)
{
	*result = value;
	return value.kind == VALUE_TEXT ? casing_apply(r, value.text, CASING_LOWER, result) : 0;
}

/* --- stripping, replacing, lines -------------------------------------------------------------- */

static bool strips(const struct text *chars, uint32_t c)
{
	if (!chars)
		return unicode_is_space(c);
	for (const char *at = chars->bytes, *end = at + chars->n_bytes; at < end;)
		if (text_next_char(&at) == c)
			return true;
	return false;
}

int strip_apply(struct render *r, const struct text *text, const struct text *chars, enum strip_side side,
		struct value *result)
{
	const char *start = text->bytes, *end = start + text->n_bytes;
	while ((side & STRIP_LEFT) && start < end) {
		const char *next = start;
		if (!strips(chars, text_next_char(&next)))
			break;
		start = next;
	}
	while ((side & STRIP_RIGHT) && end > start) {
		const char *before = end;
		if (!strips(chars, text_previous_char(&before)))
			break;
		end = before;
	}
	size_t n_stripped = text->n_bytes - (size_t)(end - start);
	int rc = render_charge(r, 1 + text->n_bytes / 64 + n_stripped * (chars ? chars->n_bytes : 1) / 16);
	rc = rc ? rc : render_text_view(r, start, (size_t)(end - start), result);
	return rc ? rc : render_text_made(r, text_marked(&r->heap, result->text, text->markup), result);
}

/* An empty `old` stands before every character and at the end. */
static int write_interleaved(struct render *r, const struct text *text, const struct text *new, int64_t count)
{
	const char *at = text->bytes, *end = at + text->n_bytes;
	int rc = 0;
	for (;;) {
		if (count != 0) {
			rc = render_write(r, new->bytes, new->n_bytes);
			count--;
		}
		if (rc || at == end)
			return rc;
		const char *start = at;
		text_next_char(&at);
		rc = render_write(r, start, (size_t)(at - start));
		if (rc)
			return rc;
	}
}

int replace_apply(struct render *r, const struct text *text, const struct text *old, const struct text *new,
		  int64_t count, struct value *result)
{
	size_t mark = r->n_output;
	int rc = render_charge(r, 1 + text->n_bytes / 64);
	const char *at = text->bytes, *end = at + text->n_bytes;
	if (rc)
		return rc;
	if (!old->n_bytes) {
		rc = write_interleaved(r, text, new, count);
		return rc ? rc : capture_marked(r, mark, text->markup, result);
	}
	const char *found = count ? text_find(at, text->n_bytes, old) : NULL;
	if (!found)
		return render_text_made(r, text, result);
	while (found && !rc) {
		rc = render_write(r, at, (size_t)(found - at));
		rc = rc ? rc : render_write(r, new->bytes, new->n_bytes);
		at = found + old->n_bytes;
		count--;
		rc = rc ? rc : render_charge(r, count % 4 == 0);
		found = count ? text_find(at, (size_t)(end - at), old) : NULL;
	}
	rc = rc ? rc : render_write(r, at, (size_t)(end - at));
	return rc ? rc : capture_marked(r, mark, text->markup, result);
}

const char *line_end(const char *at, const char *end, const char **next)
{
	while (at < end) {
		const char *start = at;
		uint32_t c = text_next_char(&at);
		if (c == '\r' && at < end && *at == '\n')
			at++;
		if ((c >= '\n' && c <= '\r') || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029) {
			*next = at;
			return start;
		}
	}
	*next = end;
	return end;
}
