#include <string.h>

#include "src/engine/tokenizer.h"
#include "src/engine/utf8.h"

static const char replacement[3] = {'\xef', '\xbf', '\xbd'}; /* U+FFFD */

static size_t put(char *out, const char *bytes, size_t n_bytes)
{
	memcpy(out, bytes, n_bytes);
	return n_bytes;
}

/* Takes bytes one by one until what was held is a whole character or is known to be malformed. Returns how many of
 * `bytes` were used; the byte that shows a held part to be malformed is not one of them. */
static size_t finish_held(struct utf8_stream *stream, const char *bytes, size_t n_bytes, char *out, size_t *n_out)
{
	size_t used = 0;
	while (used < n_bytes) {
		size_t length;
		stream->held[stream->n_held] = bytes[used];
		enum utf8_kind kind = utf8_step(stream->held, stream->n_held + 1, &length);
		if (kind == UTF8_MALFORMED) {
			*n_out += put(out + *n_out, replacement, sizeof replacement);
			stream->n_held = 0;
			break;
		}
		used++;
		if (kind == UTF8_CHARACTER) {
			*n_out += put(out + *n_out, stream->held, length);
			stream->n_held = 0;
			break;
		}
		stream->n_held++;
	}
	return used;
}

size_t utf8_stream_push(struct utf8_stream *stream, const char *bytes, size_t n_bytes, char *out)
{
	size_t n_out = 0;
	size_t at = stream->n_held ? finish_held(stream, bytes, n_bytes, out, &n_out) : 0;
	while (at < n_bytes) {
		size_t length;
		switch (utf8_step(bytes + at, n_bytes - at, &length)) {
		case UTF8_CHARACTER:
			n_out += put(out + n_out, bytes + at, length);
			break;
		case UTF8_CUT:
			memcpy(stream->held, bytes + at, length);
			stream->n_held = (uint32_t)length;
			break;
		case UTF8_MALFORMED:
			n_out += put(out + n_out, replacement, sizeof replacement);
			break;
		}
		at += length;
	}
	return n_out;
}

size_t utf8_stream_finish(struct utf8_stream *stream, char *out)
{
	if (!stream->n_held)
		return 0;
	stream->n_held = 0;
	return put(out, replacement, sizeof replacement);
}
