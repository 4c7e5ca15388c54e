#include "src/engine/grammar/text.h"

#include "src/engine/utf8.h"

uint32_t source_peek(const struct grammar_source *s, size_t *length)
{
	*length = 0;
	if (s->at >= s->n_bytes || utf8_step(s->bytes + s->at, s->n_bytes - s->at, length) != UTF8_CHARACTER)
		return SOURCE_END;
	const unsigned char *c = (const unsigned char *)s->bytes + s->at;
	static const unsigned char lead_bits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
	uint32_t code_point = c[0] & lead_bits[*length];
	for (size_t i = 1; i < *length; i++)
		code_point = code_point << 6 | (c[i] & 0x3F);
	return code_point;
}

uint32_t source_next(struct grammar_source *s)
{
	size_t length;
	uint32_t c = source_peek(s, &length);
	if (c != SOURCE_END)
		s->at += length;
	return c;
}

bool source_eat(struct grammar_source *s, char c)
{
	if (s->at >= s->n_bytes || s->bytes[s->at] != c)
		return false;
	s->at++;
	return true;
}

bool source_number(struct grammar_source *s, uint32_t *out)
{
	uint64_t value = 0;
	size_t begin = s->at;
	for (; s->at < s->n_bytes && s->bytes[s->at] >= '0' && s->bytes[s->at] <= '9'; s->at++)
		if (value < UINT32_MAX)
			value = value * 10 + (uint64_t)(s->bytes[s->at] - '0');
	*out = value < UINT32_MAX ? (uint32_t)value : UINT32_MAX - 1;
	return s->at > begin;
}

bool source_hex(struct grammar_source *s, unsigned n, uint32_t *out)
{
	uint32_t value = 0;
	if (s->n_bytes - s->at < n)
		return false;
	for (unsigned i = 0; i < n; i++) {
		char c = s->bytes[s->at + i];
		unsigned digit = c >= '0' && c <= '9'	? (unsigned)(c - '0')
				 : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
				 : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
							: 16;
		if (digit == 16)
			return false;
		value = value << 4 | digit;
	}
	s->at += n;
	*out = value;
	return true;
}
