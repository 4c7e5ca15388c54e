/* From the spelling of tokens in model files to the bytes that they stand for. */
#include "src/engine/tokenizer_spelling.h"

#include <string.h>

/* What GPT-2 writes for a byte, so that every token is printable: the byte's own Latin-1 character where that is
 * visible, else the next of U+0100, U+0101, … in the order of the bytes. */
static uint32_t byte_to_character(uint8_t byte)
{
	if (byte <= 0x20)
		return 0x100u + byte;
	if (byte >= 0x7f && byte <= 0xa0)
		return 0x121u + (byte - 0x7fu);
	return byte == 0xad ? 0x143u : byte;
}

/* The other way: -1 for a character that stands for no byte. */
static int character_to_byte(uint32_t character)
{
	if (character >= 0x100) {
		if (character <= 0x120)
			return (int)(character - 0x100);
		if (character <= 0x142)
			return (int)(character - 0x121 + 0x7f);
		return character == 0x143 ? 0xad : -1;
	}
	return byte_to_character((uint8_t)character) == character ? (int)character : -1;
}

/* Undoes the spelling: writes the bytes to `out` unless that is NULL. Returns their number; -1: `spelled` holds
 * something that is no byte's character. */
static int64_t decode_byte_level(struct tokenizer_string spelled, char *out)
{
	const uint8_t *p = (const uint8_t *)spelled.bytes;
	int64_t n = 0;
	for (uint32_t i = 0; i < spelled.n_bytes; i++) {
		uint32_t character = p[i];
		if (character >= 0x80) {
			/* All that can stand for a byte lies below U+0800: two bytes of UTF-8. */
			if ((character & 0xe0) != 0xc0 || i + 1 == spelled.n_bytes || (p[i + 1] & 0xc0) != 0x80)
				return -1;
			character = (character & 0x1f) << 6 | (p[++i] & 0x3f);
		}
		int byte = character_to_byte(character);
		if (byte < 0)
			return -1;
		if (out)
			out[n] = (char)byte;
		n++;
	}
	return n;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A token of type byte is spelled <0xHH>. Returns the byte or -1. */
static int decode_byte_token(struct tokenizer_string spelled)
{
	const char *p = spelled.bytes;
	if (spelled.n_bytes != 6 || memcmp(p, "<0x", 3) != 0 || p[5] != '>')
		return -1;
	int high = hex_digit(p[3]), low = hex_digit(p[4]);
	return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* A blank is spelled as U+2581, "lower one eighth block"; a blank spelled as itself is one, too. */
static uint32_t decode_blanks(struct tokenizer_string spelled, char *out)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < spelled.n_bytes; i++) {
		char byte = spelled.bytes[i];
		if (spelled.n_bytes - i >= 3 && memcmp(spelled.bytes + i, SPELLING_BLANK, 3) == 0) {
			byte = ' ';
			i += 2;
		}
		if (out)
			out[n] = byte;
		n++;
	}
	return n;
}

static uint32_t copy(struct tokenizer_string spelled, char *out)
{
	if (out && spelled.n_bytes)
		memcpy(out, spelled.bytes, spelled.n_bytes);
	return spelled.n_bytes;
}

int64_t spelling_decode(enum table_kind kind, enum token_type type, struct tokenizer_string spelled, char *out)
{
	bool pieces = kind != TABLE_BYTE_LEVEL;
	if (type == TOKEN_UNUSED)
		return 0;
	if (type == TOKEN_BYTE) {
		int byte = decode_byte_token(spelled);
		if (byte >= 0 && out)
			*out = (char)byte;
		return byte < 0 ? -1 : 1;
	}
	if (pieces && (type == TOKEN_NORMAL || type == TOKEN_USER_DEFINED))
		return decode_blanks(spelled, out);
	if (type == TOKEN_NORMAL && decode_byte_level(spelled, NULL) >= 0)
		return decode_byte_level(spelled, out);
	return copy(spelled, out);
}

struct tokenizer_string spelling_of_byte(uint8_t byte, char room[2])
{
	uint32_t character = byte_to_character(byte);
	room[0] = (char)character;
	if (character < 0x80)
		return (struct tokenizer_string){room, 1};
	room[0] = (char)(0xc0 | character >> 6);
	room[1] = (char)(0x80 | (character & 0x3f));
	return (struct tokenizer_string){room, 2};
}
