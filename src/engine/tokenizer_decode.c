#include <stdlib.h>

#include "src/engine/tokenizer.h"

char *tokenizer_decode(const struct tokenizer *tokenizer, const uint32_t *ids, size_t n_ids, size_t *n_bytes)
{
	size_t room = 16;
	for (size_t i = 0; i < n_ids; i++) {
		uint32_t n;
		tokenizer_piece(tokenizer, ids[i], true, &n);
		room += 3 * ((size_t)n + 3);
	}
	char *text = malloc(room);
	if (!text)
		return NULL;
	struct utf8_stream utf8 = {0};
	size_t at = 0;
	for (size_t i = 0; i < n_ids; i++) {
		uint32_t n;
		const char *piece = tokenizer_piece(tokenizer, ids[i], true, &n);
		if (i == 0 && n && *piece == ' ' && tokenizer_blank_prefix(tokenizer)) {
			piece++;
			n--;
		}
		at += utf8_stream_push(&utf8, piece, n, text + at);
	}
	*n_bytes = at + utf8_stream_finish(&utf8, text + at);
	return text;
}
