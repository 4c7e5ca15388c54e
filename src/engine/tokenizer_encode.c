/* From text to tokens, a slice of work at a time, from the outside in:
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

/* Where a text stands. What is nearest to the tokens is finished first:
 *
 *   text      [ ... encoded ... | plain: [ ... | stretch: [ ... | word | ... ] ... ] | special | not looked at ... ]
 *                                                                                              at
 */
struct tokenizer_encoding {
	const struct tokenizer *tokenizer;
	struct split *split;
	struct bpe bpe;
	struct token_list *out;
	size_t n_before, max_n; /* of out->n */
	bool parse_special, add_end;
	const char *end;
	const char *at;		       /* specials are looked for from here on */
	const char *plain, *plain_end; /* text without specials that is not encoded yet */
	uint32_t special;	       /* comes behind it; TOKEN_NONE: none */
	bool splitting;		       /* words of a stretch of well-formed text are being handed out */
	const char *word, *word_end;   /* bytes that are not symbols yet */
	bool malformed;		       /* they are no well-formed text */
	bool merging;		       /* there is a word */
};

void token_list_fini(struct token_list *list)
{
	free(list->ids);
	*list = (struct token_list){0};
}

static int append(struct tokenizer_encoding *encoding, uint32_t id, struct err *err)
{
	struct token_list *out = encoding->out;
	if (out->n >= encoding->max_n)
		return err_set(err, -E2BIG, "the text has more tokens than the limit allows");
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

/* --- words ------------------------------------------------------------------------------------ */

static int begin_word(struct tokenizer_encoding *encoding, const char *word, size_t n_bytes, bool malformed)
{
	encoding->word = word;
	encoding->word_end = word + n_bytes;
	encoding->malformed = malformed;
	encoding->merging = true;
	return bpe_begin(&encoding->bpe, malformed ? 3 * n_bytes : n_bytes);
}

static void push_byte(struct tokenizer_encoding *encoding, uint8_t byte)
{
	const uint32_t *byte_ids = encoding->tokenizer->table.header->byte_ids;
	if (byte_ids[byte] != TOKEN_NONE || !encoding->malformed) {
		bpe_push(&encoding->bpe, byte_ids[byte]);
		return;
	}
	bpe_push(&encoding->bpe, byte_ids[0xef]); /* EF BF BD: U+FFFD */
	bpe_push(&encoding->bpe, byte_ids[0xbf]);
	bpe_push(&encoding->bpe, byte_ids[0xbd]);
}

/* Makes symbols of the word's bytes, merges them, and appends what they became. */
static int encode_word(struct tokenizer_encoding *encoding, size_t *work, struct err *err)
{
	struct bpe *bpe = &encoding->bpe;
	for (; *work && encoding->word < encoding->word_end; --*work)
		push_byte(encoding, (uint8_t)*encoding->word++);
	if (encoding->word < encoding->word_end || !bpe_merge(bpe, &encoding->tokenizer->table, work))
		return 0;
	encoding->merging = false;
	for (uint32_t at = bpe->n ? 0 : BPE_END; at != BPE_END; at = bpe->symbols[at].next) {
		if (bpe->symbols[at].id == TOKEN_NONE)
			continue;
		int ret = append(encoding, bpe->symbols[at].id, err);
		if (ret < 0)
			return ret;
	}
	return 0;
}

static int next_word(struct tokenizer_encoding *encoding, struct err *err)
{
	const char *word;
	size_t n_bytes;
	int ret = split_next(encoding->split, &word, &n_bytes, err);
	encoding->splitting = ret > 0;
	return ret > 0 ? begin_word(encoding, word, n_bytes, false) : ret;
}

/* Where the characters, or the bytes that are none, that begin at `at` end. */
static const char *stretch_end(const char *at, const char *end, bool wellformed)
{
	size_t length;
	while (at < end && (utf8_step(at, (size_t)(end - at), &length) == UTF8_CHARACTER) == wellformed)
		at += length;
	return at;
}

/* The next stretch of plain text that is well-formed or malformed throughout. */
static int next_stretch(struct tokenizer_encoding *encoding)
{
	const char *start = encoding->plain, *end = stretch_end(start, encoding->plain_end, true);
	encoding->splitting = end > start;
	if (!encoding->splitting)
		end = stretch_end(start, encoding->plain_end, false);
	encoding->plain = end;
	if (!encoding->splitting)
		return begin_word(encoding, start, (size_t)(end - start), true);
	split_begin(encoding->split, start, (size_t)(end - start));
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

/* Plain text up to the next special spelling, or to the end. */
static void next_plain(struct tokenizer_encoding *encoding)
{
	const struct tokenizer *tokenizer = encoding->tokenizer;
	const char *at = encoding->at;
	encoding->plain = at;
	for (; at < encoding->end; at++) {
		uint8_t byte = (uint8_t)*at;
		if (tokenizer->first[byte] == tokenizer->first[byte + 1])
			continue;
		encoding->special = special_at(tokenizer, at, (size_t)(encoding->end - at), encoding->parse_special);
		if (encoding->special != TOKEN_NONE)
			break;
	}
	encoding->plain_end = at;
	encoding->at = at;
	if (encoding->special != TOKEN_NONE)
		encoding->at += table_piece(&tokenizer->table, encoding->special).n_bytes;
}

/* --- a text from beginning to end ------------------------------------------------------------- */

/* One step of the innermost thing there is to do. Returns 1, 0: all is done, or an error. */
static int encode_some(struct tokenizer_encoding *encoding, size_t *work, struct err *err)
{
	int ret = 0;
	--*work;
	if (encoding->merging) {
		++*work;
		ret = encode_word(encoding, work, err);
	} else if (encoding->splitting) {
		ret = next_word(encoding, err);
	} else if (encoding->plain < encoding->plain_end) {
		ret = next_stretch(encoding);
	} else if (encoding->special != TOKEN_NONE) {
		ret = append(encoding, encoding->special, err);
		encoding->special = TOKEN_NONE;
	} else if (encoding->at < encoding->end) {
		next_plain(encoding);
	} else if (encoding->add_end) {
		ret = append(encoding, (uint32_t)encoding->tokenizer->table.header->eos, err);
		encoding->add_end = false;
	} else {
		return 0;
	}
	return ret < 0 ? ret : 1;
}

int tokenizer_encoding_begin(const struct tokenizer *tokenizer, const char *text, size_t n_bytes, bool add_special,
			     bool parse_special, size_t max_tokens, struct token_list *out,
			     struct tokenizer_encoding **encoding_out, struct err *err)
{
	const struct table_header *header = tokenizer->table.header;
	if (n_bytes > MAX_TEXT_BYTES)
		return err_set(err, -E2BIG, "a text of %zu bytes; at most %d are possible", n_bytes, MAX_TEXT_BYTES);
	struct tokenizer_encoding *encoding = malloc(sizeof *encoding);
	if (!encoding)
		return -ENOMEM;
	*encoding = (struct tokenizer_encoding){
		.tokenizer = tokenizer,
		.out = out,
		.n_before = out->n,
		.max_n = max_tokens > SIZE_MAX - out->n ? SIZE_MAX : out->n + max_tokens,
		.parse_special = parse_special,
		.add_end = add_special && header->add_eos,
		.end = text + n_bytes,
		.at = text,
		.special = TOKEN_NONE,
	};
	int ret = split_new(tokenizer->rules, &encoding->split);
	if (ret == 0 && add_special && header->add_bos)
		ret = append(encoding, (uint32_t)header->bos, err);
	if (ret < 0) {
		tokenizer_encoding_end(encoding);
		return ret;
	}
	*encoding_out = encoding;
	return 0;
}

int tokenizer_encoding_advance(struct tokenizer_encoding *encoding, size_t work, struct err *err)
{
	int ret = 1;
	while (work && ret > 0)
		ret = encode_some(encoding, &work, err);
	if (ret < 0)
		encoding->out->n = encoding->n_before;
	return ret;
}

void tokenizer_encoding_end(struct tokenizer_encoding *encoding)
{
	if (!encoding)
		return;
	split_free(encoding->split);
	bpe_fini(&encoding->bpe);
	free(encoding);
}

int tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t n_bytes, bool add_special,
		     bool parse_special, size_t max_tokens, struct token_list *out, struct err *err)
{
	struct tokenizer_encoding *encoding;
	int ret = tokenizer_encoding_begin(tokenizer, text, n_bytes, add_special, parse_special, max_tokens, out,
					   &encoding, err);
	if (ret < 0)
		return ret;
	do
		ret = tokenizer_encoding_advance(encoding, SIZE_MAX, err);
	while (ret > 0);
	tokenizer_encoding_end(encoding);
	return ret;
}
