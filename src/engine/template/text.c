#include "src/engine/template/text.h"

#include <string.h>

size_t text_count_chars(const char *bytes, size_t n_bytes)
{
	size_t n = 0;
	for (size_t i = 0; i < n_bytes; i++)
		n += ((unsigned char)bytes[i] & 0xc0) != 0x80;
	return n;
}

const struct text *text_view(struct heap *heap, const char *bytes, size_t n_bytes)
{
	struct text *text = heap_cells(heap, 1, sizeof *text);
	if (text)
		*text = (struct text){bytes, n_bytes, text_count_chars(bytes, n_bytes), false};
	return text;
}

const struct text *text_copy(struct heap *heap, const char *bytes, size_t n_bytes)
{
	char *copy = heap_bytes(heap, n_bytes);
	if (!copy)
		return NULL;
	if (n_bytes)
		memcpy(copy, bytes, n_bytes);
	return text_view(heap, copy, n_bytes);
}

const struct text *text_concat(struct heap *heap, const struct text *a, const struct text *b)
{
	size_t n_bytes;
	if (__builtin_add_overflow(a->n_bytes, b->n_bytes, &n_bytes)) {
		heap->over_budget = true;
		return NULL;
	}
	const char *bytes = a->bytes;
	if (b->n_bytes && heap_extend(heap, a->bytes + a->n_bytes, b->n_bytes)) {
		/* The bytes behind `a` were free: `a` itself still ends where it did. */
		memcpy((char *)a->bytes + a->n_bytes, b->bytes, b->n_bytes);
	} else if (b->n_bytes) {
		char *joined = heap_bytes(heap, n_bytes);
		if (!joined)
			return NULL;
		memcpy(joined, a->bytes, a->n_bytes);
		memcpy(joined + a->n_bytes, b->bytes, b->n_bytes);
		bytes = joined;
	}
	struct text *text = heap_cells(heap, 1, sizeof *text);
	if (text)
		*text = (struct text){bytes, n_bytes, a->n_chars + b->n_chars, a->markup || b->markup};
	return text;
}

size_t text_offset(const struct text *text, size_t char_index)
{
	if (text->n_chars == text->n_bytes)
		return char_index;
	if (char_index >= text->n_chars)
		return text->n_bytes;
	size_t offset = 0;
	for (size_t i = 0; i < char_index; i++) {
		offset++;
		while (((unsigned char)text->bytes[offset] & 0xc0) == 0x80)
			offset++;
	}
	return offset;
}

const struct text *text_slice(struct heap *heap, const struct text *text, size_t start, size_t stop)
{
	size_t from = text_offset(text, start), to = text_offset(text, stop);
	struct text *slice = heap_cells(heap, 1, sizeof *slice);
	if (slice)
		*slice = (struct text){text->bytes + from, to - from, stop - start, text->markup};
	return slice;
}

const struct text *text_marked(struct heap *heap, const struct text *text, bool markup)
{
	if (text->markup == markup)
		return text;
	struct text *marked = heap_cells(heap, 1, sizeof *marked);
	if (marked) {
		*marked = *text;
		marked->markup = markup;
	}
	return marked;
}

static const char *entity_of(char byte)
{
	switch (byte) {
	case '&':
		return "&amp;";
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '\'':
		return "&#39;";
	case '"':
		return "&#34;";
	default:
		return NULL;
	}
}

const struct text *text_escape(struct heap *heap, const struct text *text)
{
	if (text->markup)
		return text;
	size_t n_bytes = 0;
	for (size_t i = 0; i < text->n_bytes; i++) {
		const char *entity = entity_of(text->bytes[i]);
		n_bytes += entity ? strlen(entity) : 1;
	}
	if (n_bytes == text->n_bytes)
		return text_marked(heap, text, true);
	char *escaped = heap_bytes(heap, n_bytes);
	if (!escaped)
		return NULL;
	char *to = escaped;
	for (size_t i = 0; i < text->n_bytes; i++) {
		const char *entity = entity_of(text->bytes[i]);
		if (entity)
			to = mempcpy(to, entity, strlen(entity));
		else
			*to++ = text->bytes[i];
	}
	const struct text *plain = text_view(heap, escaped, n_bytes);
	return plain ? text_marked(heap, plain, true) : NULL;
}

bool text_equal(const struct text *a, const struct text *b)
{
	return a->n_bytes == b->n_bytes && (a->bytes == b->bytes || memcmp(a->bytes, b->bytes, a->n_bytes) == 0);
}

bool text_is(const struct text *text, const char *literal)
{
	return text->n_bytes == strlen(literal) && memcmp(text->bytes, literal, text->n_bytes) == 0;
}

int text_compare(const struct text *a, const struct text *b)
{
	size_t n = a->n_bytes < b->n_bytes ? a->n_bytes : b->n_bytes;
	int order = n ? memcmp(a->bytes, b->bytes, n) : 0;
	if (order)
		return order;
	return (a->n_bytes > b->n_bytes) - (a->n_bytes < b->n_bytes);
}

const char *text_find(const char *bytes, size_t n_bytes, const struct text *needle)
{
	if (!needle->n_bytes)
		return bytes;
	return n_bytes ? memmem(bytes, n_bytes, needle->bytes, needle->n_bytes) : NULL;
}

const char *text_find_last(const char *bytes, size_t n_bytes, const struct text *needle)
{
	if (needle->n_bytes > n_bytes)
		return NULL;
	for (const char *at = bytes + (n_bytes - needle->n_bytes);; at--) {
		if (memcmp(at, needle->bytes, needle->n_bytes) == 0)
			return at;
		if (at == bytes)
			return NULL;
	}
}

uint32_t text_next_char(const char **at)
{
	const unsigned char *p = (const unsigned char *)*at;
	if (p[0] < 0x80) {
		*at += 1;
		return p[0];
	}
	if (p[0] < 0xe0) {
		*at += 2;
		return (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
	}
	if (p[0] < 0xf0) {
		*at += 3;
		return (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
	}
	*at += 4;
	return (p[0] & 0x07u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
}

uint32_t text_previous_char(const char **at)
{
	do
		--*at;
	while (((unsigned char)**at & 0xc0) == 0x80);
	const char *start = *at;
	return text_next_char(&start);
}

size_t text_encode_char(uint32_t code_point, char bytes[4])
{
	if (code_point < 0x80) {
		bytes[0] = (char)code_point;
		return 1;
	}
	if (code_point < 0x800) {
		bytes[0] = (char)(0xc0 | code_point >> 6);
		bytes[1] = (char)(0x80 | (code_point & 0x3f));
		return 2;
	}
	if (code_point < 0x10000) {
		bytes[0] = (char)(0xe0 | code_point >> 12);
		bytes[1] = (char)(0x80 | (code_point >> 6 & 0x3f));
		bytes[2] = (char)(0x80 | (code_point & 0x3f));
		return 3;
	}
	bytes[0] = (char)(0xf0 | code_point >> 18);
	bytes[1] = (char)(0x80 | (code_point >> 12 & 0x3f));
	bytes[2] = (char)(0x80 | (code_point >> 6 & 0x3f));
	bytes[3] = (char)(0x80 | (code_point & 0x3f));
	return 4;
}

bool text_valid_utf8(const char *bytes, size_t n_bytes)
{
	const unsigned char *p = (const unsigned char *)bytes, *end = p + n_bytes;
	while (p < end) {
		if (*p < 0x80) {
			p++;
			continue;
		}
		size_t n = *p >= 0xc2 && *p < 0xe0 ? 2 : *p >= 0xe0 && *p < 0xf0 ? 3 : *p >= 0xf0 && *p < 0xf5 ? 4 : 0;
		if (!n || (size_t)(end - p) < n)
			return false;
		for (size_t i = 1; i < n; i++)
			if ((p[i] & 0xc0) != 0x80)
				return false;
		/* Overlong forms, surrogates and code points past U+10FFFF show in the second byte. */
		if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
		    (p[0] == 0xf4 && p[1] > 0x8f))
			return false;
		p += n;
	}
	return true;
}
