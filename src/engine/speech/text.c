#include "src/engine/speech/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "src/engine/tokenizer.h"
#include "src/engine/utf8.h"

void speech_text_fini(struct speech_text *text)
{
	free(text->bytes);
	*text = (struct speech_text){0};
}

static int reserve(struct speech_text *text, size_t more)
{
	size_t capacity = text->capacity ? text->capacity : 256;
	while (capacity - text->n_bytes < more)
		capacity *= 2;
	char *bytes = realloc(text->bytes, capacity);
	if (!bytes)
		return -ENOMEM;
	text->bytes = bytes;
	text->capacity = capacity;
	return 0;
}

int speech_text_append(struct speech_text *text, const struct speech_piece *pieces, uint32_t n)
{
	struct utf8_stream stream = {.n_held = 0};
	size_t before = text->n_bytes;
	for (uint32_t i = 0; i < n; i++) {
		if (reserve(text, 3 * ((size_t)pieces[i].n_bytes + 3))) {
			text->n_bytes = before;
			return -ENOMEM;
		}
		text->n_bytes +=
			utf8_stream_push(&stream, pieces[i].bytes, pieces[i].n_bytes, text->bytes + text->n_bytes);
	}
	if (reserve(text, 3 * 4)) {
		text->n_bytes = before;
		return -ENOMEM;
	}
	text->n_bytes += utf8_stream_finish(&stream, text->bytes + text->n_bytes);
	return 0;
}

/* Bytes of the white space that the text [n] begins with: U+0009..000D, 001C..0020, 0085, 00A0, 1680, 2000..200A, 2028,
 * 2029, 202F, 205F, 3000. 0 if it is none. */
static size_t blank_at(const char *text, size_t n)
{
	const unsigned char *b = (const unsigned char *)text;
	if (n >= 1 && ((b[0] >= 0x09 && b[0] <= 0x0d) || (b[0] >= 0x1c && b[0] <= 0x20)))
		return 1;
	if (n >= 2 && b[0] == 0xc2 && (b[1] == 0x85 || b[1] == 0xa0))
		return 2;
	if (n < 3)
		return 0;
	bool is_blank = (b[0] == 0xe1 && b[1] == 0x9a && b[2] == 0x80) ||
			(b[0] == 0xe2 && b[1] == 0x80 &&
			 ((b[2] >= 0x80 && b[2] <= 0x8a) || b[2] == 0xa8 || b[2] == 0xa9 || b[2] == 0xaf)) ||
			(b[0] == 0xe2 && b[1] == 0x81 && b[2] == 0x9f) ||
			(b[0] == 0xe3 && b[1] == 0x80 && b[2] == 0x80);
	return is_blank ? 3 : 0;
}

const char *speech_strip(const char *text, size_t *n_bytes)
{
	size_t begin = 0, end = *n_bytes;
	for (size_t blank; begin < end && (blank = blank_at(text + begin, end - begin)); begin += blank)
		;
	while (begin < end) {
		size_t last = end - 1;
		while (last > begin && ((unsigned char)text[last] & 0xc0) == 0x80)
			last--;
		if (blank_at(text + last, end - last) != end - last)
			break;
		end = last;
	}
	*n_bytes = end - begin;
	return text + begin;
}

bool speech_is_part(const char *text, size_t n_bytes, const char *of)
{
	return !n_bytes || memmem(of, strlen(of), text, n_bytes);
}

int speech_compression_ratio(const char *text, size_t n_bytes, double *ratio)
{
	if (!n_bytes) {
		*ratio = 0;
		return 0;
	}
	uLongf n_compressed = compressBound(n_bytes);
	Bytef *compressed = malloc(n_compressed);
	if (!compressed)
		return -ENOMEM;
	int failed = compress2(compressed, &n_compressed, (const Bytef *)text, n_bytes, Z_DEFAULT_COMPRESSION);
	free(compressed);
	if (failed)
		return -ENOMEM; /* with room for any outcome it is the only failure */
	*ratio = (double)n_bytes / (double)n_compressed;
	return 0;
}
