/* From text to tokens, from the outside in:
 *
 *   special spellings   cut out first, leftmost, the longest of those that begin there (Hugging Face's rule; llama.cpp
 * cuts out the longest of all first, which differs only where two spellings overlap in part) malformed bytes between
 * the stretches of well-formed UTF-8, so that nothing further in meets any words               the pre-tokenizer's
 * (tokenizer_split.c) merges              within a word (tokenizer_bpe.c)
 *
 * Bytes without a token: vocabularies learnt from text often lack some, mostly control characters and bytes that UTF-8
 * never uses. In well-formed text such a byte is left out, as llama.cpp and Hugging Face do. A malformed byte that has
 * no token is written as U+FFFD, so that the model sees that something was there. Everything else comes back exactly.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/tokenizer_bpe.h"
#include "src/engine/tokenizer_private.h"
#include "src/engine/utf8.h"

/* Positions in a word are 32 bits, and a malformed byte may take three symbols. */
enum { MAX_TEXT_BYTES = 512 << 20 };

/* One encoding's own memory, given back at its end. */
struct encoding {
	const struct tokenizer *tokenizer;
	struct split *split;
	struct bpe bpe;
	struct token_list *out;
	size_t max_n; /* of out->n */
	struct err *err;
};

void token_list_fini(struct token_list *list)
{
	free(list->ids);
	*list = (struct token_list){0};
}

static int append(struct encoding *encoding, uint32_t id)
{
	struct token_list *out = encoding->out;
	if (out->n >= encoding->max_n)
		return err_set(encoding->err, -E2BIG, "the text has more tokens than the limit allows");
	if (out->n == out->capacity) {
		size_t capacity = out->capacity ? 2 * out->capacity : 256;
		uint32_t *ids = reallocarray(out->ids, capacity, sizeof *ids);
		if (!ids)
			return -ENOMEM;
		out->ids = ids;
		out->capacity = capacity;
	}
	out->ids[out->n++] = id;
	return 0;
}

/* Merges the symbols that were pushed and appends what they became. */
static int append_merged(struct encoding *encoding)
{
	struct bpe *bpe = &encoding->bpe;
	bpe_merge(bpe, &encoding->tokenizer->table);
	for (uint32_t at = bpe->n ? 0 : BPE_END; at != BPE_END; at = bpe->symbols[at].next) {
		if (bpe->symbols[at].id == TOKEN_NONE)
			continue;
		int ret = append(encoding, bpe->symbols[at].id);
		if (ret < 0)
			return ret;
	}
	return 0;
}

static int encode_word(struct encoding *encoding, const char *word, size_t n_bytes)
{
	const uint32_t *byte_ids = encoding->tokenizer->table.header->byte_ids;
	int ret = bpe_begin(&encoding->bpe, n_bytes);
	if (ret < 0)
		return ret;
	for (size_t i = 0; i < n_bytes; i++)
		bpe_push(&encoding->bpe, byte_ids[(uint8_t)word[i]]);
	return append_merged(encoding);
}

static int encode_malformed(struct encoding *encoding, const char *bytes, size_t n_bytes)
{
	const uint32_t *byte_ids = encoding->tokenizer->table.header->byte_ids;
	int ret = bpe_begin(&encoding->bpe, 3 * n_bytes);
	if (ret < 0)
		return ret;
	for (size_t i = 0; i < n_bytes; i++) {
		uint32_t id = byte_ids[(uint8_t)bytes[i]];
		if (id != TOKEN_NONE) {
			bpe_push(&encoding->bpe, id);
			continue;
		}
		bpe_push(&encoding->bpe, byte_ids[0xef]); /* EF BF BD: U+FFFD */
		bpe_push(&encoding->bpe, byte_ids[0xbf]);
		bpe_push(&encoding->bpe, byte_ids[0xbd]);
	}
	return append_merged(encoding);
}

static int encode_wellformed(struct encoding *encoding, const char *text, size_t n_bytes)
{
	split_begin(encoding->split, text, n_bytes);
	for (;;) {
		const char *word;
		size_t word_bytes;
		int ret = split_next(encoding->split, &word, &word_bytes, encoding->err);
		if (ret <= 0)
			return ret;
		ret = encode_word(encoding, word, word_bytes);
		if (ret < 0)
			return ret;
	}
}

/* Text without special spellings. */
static int encode_plain(struct encoding *encoding, const char *text, size_t n_bytes)
{
	size_t at = 0;
	while (at < n_bytes) {
		size_t start = at, length;
		while (at < n_bytes && utf8_step(text + at, n_bytes - at, &length) == UTF8_CHARACTER)
			at += length;
		int ret = at > start ? encode_wellformed(encoding, text + start, at - start) : 0;
		if (ret < 0)
			return ret;
		start = at;
		while (at < n_bytes && utf8_step(text + at, n_bytes - at, &length) != UTF8_CHARACTER)
			at += length;
		ret = at > start ? encode_malformed(encoding, text + start, at - start) : 0;
		if (ret < 0)
			return ret;
	}
	return 0;
}

/* --- special spellings ------------------------------------------------------------------------ */

/* The first special in [low, high) whose byte at `depth` is at least `byte`; all in the range are longer than depth and
 * agree before it. */
static uint32_t lower_bound(const struct table *table, uint32_t low, uint32_t high, uint32_t depth, uint32_t byte)
{
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if ((uint8_t)table_piece(table, table->specials[middle]).bytes[depth] < byte)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The longest special that `text` begins with: its id, or TOKEN_NONE. Narrows the sorted list byte by byte; a spelling
 * that ends at the current depth sorts before those that go on. */
static uint32_t special_at(const struct tokenizer *tokenizer, const char *text, size_t n_bytes, bool parse_special)
{
	const struct table *table = &tokenizer->table;
	uint32_t low = tokenizer->first[(uint8_t)text[0]], high = tokenizer->first[(uint8_t)text[0] + 1];
	uint32_t longest = TOKEN_NONE;
	for (uint32_t depth = 1; low < high; depth++) {
		uint32_t id = table->specials[low];
		if (table_piece(table, id).n_bytes == depth) {
			if (parse_special || !token_type_is_hidden(table->types[id]))
				longest = id;
			low++;
		}
		if (depth == n_bytes)
			break;
		uint32_t byte = (uint8_t)text[depth];
		low = lower_bound(table, low, high, depth, byte);
		high = lower_bound(table, low, high, depth, byte + 1);
	}
	return longest;
}

static int encode_text(struct encoding *encoding, const char *text, size_t n_bytes, bool parse_special)
{
	const struct tokenizer *tokenizer = encoding->tokenizer;
	size_t plain = 0, at = 0;
	while (at < n_bytes) {
		uint8_t byte = (uint8_t)text[at];
		uint32_t id = TOKEN_NONE;
		if (tokenizer->first[byte] < tokenizer->first[byte + 1])
			id = special_at(tokenizer, text + at, n_bytes - at, parse_special);
		if (id == TOKEN_NONE) {
			at++;
			continue;
		}
		int ret = encode_plain(encoding, text + plain, at - plain);
		if (ret == 0)
			ret = append(encoding, id);
		if (ret < 0)
			return ret;
		at += table_piece(&tokenizer->table, id).n_bytes;
		plain = at;
	}
	return plain < n_bytes ? encode_plain(encoding, text + plain, n_bytes - plain) : 0;
}

int tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t n_bytes, bool add_special,
		     bool parse_special, size_t max_tokens, struct token_list *out, struct err *err)
{
	const struct table_header *header = tokenizer->table.header;
	if (n_bytes > MAX_TEXT_BYTES)
		return err_set(err, -E2BIG, "a text of %zu bytes; at most %d are possible", n_bytes, MAX_TEXT_BYTES);
	size_t n_before = out->n;
	struct encoding encoding = {.tokenizer = tokenizer, .out = out, .err = err};
	encoding.max_n = max_tokens > SIZE_MAX - n_before ? SIZE_MAX : n_before + max_tokens;
	int ret = split_new(tokenizer->rules, &encoding.split);
	if (ret == 0 && add_special && header->add_bos)
		ret = append(&encoding, (uint32_t)header->bos);
	if (ret == 0)
		ret = encode_text(&encoding, text, n_bytes, parse_special);
	if (ret == 0 && add_special && header->add_eos)
		ret = append(&encoding, (uint32_t)header->eos);
	if (ret < 0)
		out->n = n_before;
	split_free(encoding.split);
	bpe_fini(&encoding.bpe);
	return ret;
}
