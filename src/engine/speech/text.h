/* Tokens' bytes as text, and what Python's str does with it: the reference decides by str.strip and `a in b`. */
#ifndef WEIGHTD_ENGINE_SPEECH_TEXT_H
#define WEIGHTD_ENGINE_SPEECH_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes that a token adds to a text; a character may be spread over several. */
struct speech_piece {
	const char *bytes; /* borrowed */
	uint32_t n_bytes;
};

/* A text that grows; zeroed to begin with. */
struct speech_text {
	char *bytes; /* [n_bytes] owned, well-formed UTF-8, not terminated */
	size_t n_bytes, capacity;
};
void speech_text_fini(struct speech_text *text);

/* Appends the characters of pieces [n]; ill-formed parts become U+FFFD. 0 or -ENOMEM; then the text is as before. */
int speech_text_append(struct speech_text *text, const struct speech_piece *pieces, uint32_t n);

/* Leaves out white space on both sides, Unicode's as Python has it. Returns view; *n_bytes becomes its length. */
const char *speech_strip(const char *text, size_t *n_bytes);

/* Whether the text is a part of `of`, a terminated string; the empty text is. */
bool speech_is_part(const char *text, size_t n_bytes, const char *of);

/* Bytes of the text over those of zlib's compression of it at its default level: above 1 the more it repeats itself.
 * 0 for the empty text. 0 or -ENOMEM. */
int speech_compression_ratio(const char *text, size_t n_bytes, double *ratio);

#endif
