#include "src/engine/utf8.h"

#include <stdint.h>

/* What may follow a lead byte: the number of continuation bytes, and the range of the first of them, which is where
 * table 3-7 excludes overlong forms (E0, F0), surrogates (ED) and values past U+10FFFF (F4). The others are
 * always 80..BF. */
struct lead {
	uint8_t n_more, low, high;
};

static struct lead lead_of(uint8_t byte)
{
	if (byte >= 0xc2 && byte <= 0xdf)
		return (struct lead){1, 0x80, 0xbf};
	if (byte >= 0xe0 && byte <= 0xef)
		return (struct lead){2, byte == 0xe0 ? 0xa0 : 0x80, byte == 0xed ? 0x9f : 0xbf};
	if (byte >= 0xf0 && byte <= 0xf4)
		return (struct lead){3, byte == 0xf0 ? 0x90 : 0x80, byte == 0xf4 ? 0x8f : 0xbf};
	return (struct lead){0, 0, 0};
}

enum utf8_kind utf8_step(const char *bytes, size_t n_bytes, size_t *length)
{
	const uint8_t *p = (const uint8_t *)bytes;
	*length = 1;
	if (p[0] < 0x80)
		return UTF8_CHARACTER;
	struct lead lead = lead_of(p[0]);
	if (!lead.n_more)
		return UTF8_MALFORMED;
	for (size_t i = 1; i <= lead.n_more; i++) {
		if (i == n_bytes)
			return UTF8_CUT;
		uint8_t low = i == 1 ? lead.low : 0x80, high = i == 1 ? lead.high : 0xbf;
		if (p[i] < low || p[i] > high)
			return UTF8_MALFORMED;
		*length = i + 1;
	}
	return UTF8_CHARACTER;
}

bool utf8_is_valid(const char *bytes, size_t n_bytes)
{
	size_t length;
	for (size_t i = 0; i < n_bytes; i += length)
		if (utf8_step(bytes + i, n_bytes - i, &length) != UTF8_CHARACTER)
			return false;
	return true;
}
