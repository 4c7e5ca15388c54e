/* Immutable Unicode text as Python's str sees it: indexed by code point, held as UTF-8. */
#ifndef WEIGHTD_ENGINE_TEMPLATE_TEXT_H
#define WEIGHTD_ENGINE_TEMPLATE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/engine/template/heap.h"

struct text {
	const char *bytes; /* [n_bytes] valid UTF-8, no terminator */
	size_t n_bytes;
	size_t n_chars; /* code points; equals n_bytes for ASCII, which makes indexing constant time */
	bool markup;	/* made by the `safe` or `escape` filter: `+`, `%` and join escape what is put next to it */
};

/* All constructors return NULL when the heap is out of memory. */
const struct text *text_copy(struct heap *heap, const char *bytes, size_t n_bytes);
/* Borrows bytes that live as long as the heap. */
const struct text *text_view(struct heap *heap, const char *bytes, size_t n_bytes);
const struct text *text_concat(struct heap *heap, const struct text *a, const struct text *b);
/* Code points [start, stop), borrowing. */
const struct text *text_slice(struct heap *heap, const struct text *text, size_t start, size_t stop);
/* The same bytes with the markup mark set or cleared. */
const struct text *text_marked(struct heap *heap, const struct text *text, bool markup);
/* &, <, >, ' and " as HTML entities, marked as markup; a text that is already markup is returned as it is. */
const struct text *text_escape(struct heap *heap, const struct text *text);

bool text_equal(const struct text *a, const struct text *b);
bool text_is(const struct text *text, const char *literal);
/* Order of code points, which in UTF-8 is the order of bytes. */
int text_compare(const struct text *a, const struct text *b);
/* Byte offset of a code point; n_chars gives n_bytes. */
size_t text_offset(const struct text *text, size_t char_index);
/* Number of code points in bytes [n_bytes]. */
size_t text_count_chars(const char *bytes, size_t n_bytes);
/* First or last occurrence of `needle` in bytes [n_bytes]; NULL if there is none. */
const char *text_find(const char *bytes, size_t n_bytes, const struct text *needle);
const char *text_find_last(const char *bytes, size_t n_bytes, const struct text *needle);

/* The code point at *at, which moves behind it; the bytes are valid UTF-8. */
uint32_t text_next_char(const char **at);
/* The code point that ends at *at, which moves before it. */
uint32_t text_previous_char(const char **at);
/* Writes 1…4 bytes, returns how many. */
size_t text_encode_char(uint32_t code_point, char bytes[4]);
bool text_valid_utf8(const char *bytes, size_t n_bytes);

#endif
