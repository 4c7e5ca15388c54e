#include "tests/unit/tokenizer_reference.h"

#include <string.h>

static size_t run(const struct character *const *chars, size_t at, size_t end, char kind)
{
	size_t n = 0;
	while (at + n < end && chars[at + n]->kind == kind)
		n++;
	return n;
}

static bool spells(const struct character *const *chars, size_t at, size_t end, const char *text)
{
	for (; *text; text++, at++)
		if (at == end || strncmp(chars[at]->utf8, text, 1) != 0 || chars[at]->utf8[1])
			return false;
	return true;
}

/* How many characters the first alternative takes that matches at chars[at]:
 * 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static size_t word_length(const struct character *const *chars, size_t at, size_t end)
{
	static const char *const contractions[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
	for (size_t i = 0; i < sizeof contractions / sizeof contractions[0]; i++)
		if (spells(chars, at, end, contractions[i]))
			return strlen(contractions[i]);
	for (const char *kind = "LNO"; *kind; kind++) {
		size_t blank = spells(chars, at, end, " ");
		size_t n = run(chars, at + blank, end, *kind);
		if (n)
			return blank + n;
	}
	size_t spaces = run(chars, at, end, 'S');
	return at + spaces == end || spaces == 1 ? spaces : spaces - 1;
}

/* Merges one word's symbols in place; returns how many are left. */
static size_t merge(const struct vocab *vocab, uint32_t *ids, size_t n)
{
	for (uint32_t rank = 0; rank < vocab->source.n_merges; rank++) {
		const uint32_t *pair = vocab->merge_ids[rank];
		for (size_t i = 0; i + 1 < n; i++) {
			if (ids[i] != pair[0] || ids[i + 1] != pair[1])
				continue;
			ids[i] = pair[2];
			memmove(ids + i + 1, ids + i + 2, (n - i - 2) * sizeof *ids);
			n--;
			/* What it became may take part in a merge of a lower rank. */
			return merge(vocab, ids, n);
		}
	}
	return n;
}

static size_t encode_piece(const struct vocab *vocab, const struct character *const *chars, size_t at, size_t end,
			   uint32_t *ids)
{
	size_t n_ids = 0;
	while (at < end) {
		size_t length = word_length(chars, at, end), n = 0;
		for (size_t i = at; i < at + length; i++)
			for (const char *p = chars[i]->utf8; *p; p++)
				ids[n_ids + n++] = (uint8_t)*p;
		n_ids += merge(vocab, ids + n_ids, n);
		at += length;
	}
	return n_ids;
}

size_t reference_encode(const struct vocab *vocab, const struct character *const *chars, size_t n, uint32_t *ids)
{
	size_t n_ids = 0, at = 0;
	while (at < n) {
		/* The first pass: every number is a piece, and so is everything between two. */
		size_t end = at;
		while (end < n && chars[end]->kind != 'N')
			end++;
		if (end == at)
			end++;
		n_ids += encode_piece(vocab, chars, at, end, ids + n_ids);
		at = end;
	}
	return n_ids;
}
