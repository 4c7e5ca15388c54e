/* From text to tokens, a slice of work at a time, from the outside in:
 *
 *   special spellings  cut out first, leftmost, the longest of those that begin there (Hugging Face's rule; llama.cpp
 *                      cuts out the longest of all first, which differs only where two spellings overlap in part)
 *   malformed bytes    between the stretches of well-formed UTF-8, so that nothing further in meets any
 *   normalization      of such a stretch, where the vocabulary was trained on normalized text (tokenizer_nfc.c)
 *   words              the pre-tokenizer's (tokenizer_split.c), or cut where no token goes across (tokenizer_table.h)
 *   merges             within a word (tokenizer_bpe.c), or the word's likeliest tokens (tokenizer_unigram.c)
 *
 * Bytes without a token: vocabularies learnt from text often lack some, mostly control characters and bytes that UTF-8
 * never uses. In well-formed text such a byte is left out, as llama.cpp and Hugging Face do. A malformed byte that has
 * no token is written as U+FFFD, so that the model sees that something was there. Everything else comes back exactly.
 *
 * SentencePiece's vocabularies know characters, so there it is characters that may have no token: they become their
 * bytes' tokens, or where the vocabulary has none of those, the unknown token, once for a run of such characters. A
 * U+2581 in a text can't be told from a blank and comes back as one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/tokenizer_bpe.h"
#include "src/engine/tokenizer_nfc.h"
#include "src/engine/tokenizer_private.h"
#include "src/engine/tokenizer_spelling.h"
#include "src/engine/tokenizer_unigram.h"
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
	struct unigram unigram;
	struct nfc nfc;
	struct token_list *out;
	size_t n_before, max_n; /* of out->n */
	bool parse_special, add_end;
	const char *end;
	const char *at;			   /* specials are looked for from here on */
	const char *plain, *plain_end;	   /* text without specials that is not encoded yet */
	uint32_t special;		   /* comes behind it; TOKEN_NONE: none */
	bool blank_due;			   /* a blank goes before the next plain text */
	bool after_unknown;		   /* the newest token is the unknown one */
	const char *stretch, *stretch_end; /* what the table's joins have still to cut into words */
	bool normalizing;		   /* a stretch is on its way to what is cut into words */
	bool splitting;			   /* words of a stretch of well-formed text are being handed out */
	const char *word, *word_end;	   /* bytes that are not symbols yet */
	bool malformed;			   /* they are no well-formed text */
	bool merging;			   /* there is a word */
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
	encoding->after_unknown = false;
	return 0;
}

/* Appends what stands for the bytes of a character that is no token, or for a single byte that is none. */
static int append_unknown(struct tokenizer_encoding *encoding, struct tokenizer_string spelled, struct err *err)
{
	const struct table_header *header = encoding->tokenizer->table.header;
	bool have_bytes = header->kind != TABLE_BYTE_LEVEL; /* whose byte ids are the symbols themselves */
	for (uint32_t i = 0; i < spelled.n_bytes; i++)
		have_bytes = have_bytes && header->byte_ids[(uint8_t)spelled.bytes[i]] != TOKEN_NONE;
	int ret = 0;
	if (have_bytes) {
		for (uint32_t i = 0; ret == 0 && i < spelled.n_bytes; i++)
			ret = append(encoding, header->byte_ids[(uint8_t)spelled.bytes[i]], err);
		return ret;
	}
	if (header->kind == TABLE_BYTE_LEVEL || header->unk < 0 || encoding->after_unknown)
		return 0;
	ret = append(encoding, (uint32_t)header->unk, err);
	encoding->after_unknown = ret == 0;
	return ret;
}

/* --- words ------------------------------------------------------------------------------------ */

/* One character of a text as SentencePiece sees it. */
struct character {
	char bytes[4];
	uint32_t n_bytes;
	size_t length; /* in the text */
};

/* The character at `at`, where well-formed text goes on. */
static struct character character_at(const char *at, const char *end)
{
	struct character character;
	if (end - at >= 3 && memcmp(at, SPELLING_BLANK, 3) == 0)
		return (struct character){.bytes = " ", .n_bytes = 1, .length = 3};
	utf8_step(at, (size_t)(end - at), &character.length);
	character.n_bytes = (uint32_t)character.length;
	memcpy(character.bytes, at, character.length);
	return character;
}

static bool is_unigram(const struct tokenizer_encoding *encoding)
{
	return encoding->tokenizer->table.header->kind == TABLE_UNIGRAM;
}

/* `n_before`: symbols that are pushed before those of the word's bytes. */
static int begin_word(struct tokenizer_encoding *encoding, const char *word, size_t n_bytes, bool malformed,
		      size_t n_before)
{
	encoding->word = word;
	encoding->word_end = word + n_bytes;
	encoding->malformed = malformed;
	encoding->merging = true;
	size_t capacity = n_before + (malformed ? 3 * n_bytes : n_bytes);
	return is_unigram(encoding) ? unigram_begin(&encoding->unigram, capacity, encoding->tokenizer->unknown_score)
				    : bpe_begin(&encoding->bpe, capacity);
}

static void push_character(struct tokenizer_encoding *encoding, const struct character *character)
{
	if (is_unigram(encoding)) {
		unigram_push(&encoding->unigram, character->bytes, character->n_bytes);
		return;
	}
	uint32_t id = table_find_string(&encoding->tokenizer->table, character->bytes, character->n_bytes);
	bpe_push(&encoding->bpe, id, character->bytes, character->n_bytes);
}

/* A malformed byte in a vocabulary of characters: its own token, or what U+FFFD is. */
static void push_malformed(struct tokenizer_encoding *encoding, uint8_t byte)
{
	static const struct character replacement = {"\xef\xbf\xbd", 3, 0};
	uint32_t id = encoding->tokenizer->table.header->byte_ids[byte];
	if (id == TOKEN_NONE || is_unigram(encoding))
		push_character(encoding, &replacement);
	else
		bpe_push(&encoding->bpe, id, (const char *)&byte, 1);
}

static void push_byte(struct tokenizer_encoding *encoding, uint8_t byte)
{
	static const char replacement[] = {'\xef', '\xbf', '\xbd'}; /* U+FFFD */
	const uint32_t *byte_ids = encoding->tokenizer->table.header->byte_ids;
	if (byte_ids[byte] != TOKEN_NONE || !encoding->malformed) {
		bpe_push(&encoding->bpe, byte_ids[byte], (const char *)&byte, 1);
		return;
	}
	for (size_t i = 0; i < sizeof replacement; i++)
		bpe_push(&encoding->bpe, byte_ids[(uint8_t)replacement[i]], &replacement[i], 1);
}

/* Makes a symbol of what comes next in the word. */
static void push_symbol(struct tokenizer_encoding *encoding)
{
	const char *at = encoding->word++;
	if (encoding->tokenizer->table.header->kind == TABLE_BYTE_LEVEL) {
		push_byte(encoding, (uint8_t)*at);
	} else if (encoding->malformed) {
		push_malformed(encoding, (uint8_t)*at);
	} else {
		struct character character = character_at(at, encoding->word_end);
		push_character(encoding, &character);
		encoding->word = at + character.length;
	}
}

/* The likeliest tokens of the word; unknown characters beside each other are one unknown token. */
static int append_likeliest(struct tokenizer_encoding *encoding, struct err *err)
{
	const struct unigram *unigram = &encoding->unigram;
	uint32_t unk = (uint32_t)encoding->tokenizer->table.header->unk;
	bool after_unknown = false;
	int ret = 0;
	for (size_t at = 0; at < unigram->n_text && ret == 0; at = unigram->places[at].next) {
		uint32_t id = unigram->places[unigram->places[at].next].id;
		bool unknown = id == TOKEN_NONE || id == unk;
		if (!unknown || !after_unknown)
			ret = append(encoding, unknown ? unk : id, err);
		after_unknown = unknown;
	}
	return ret;
}

/* Makes symbols of the word's bytes, merges them or looks for the likeliest tokens, and appends what they became. */
static int encode_word(struct tokenizer_encoding *encoding, size_t *work, struct err *err)
{
	const struct table *table = &encoding->tokenizer->table;
	struct bpe *bpe = &encoding->bpe;
	for (; *work && encoding->word < encoding->word_end; --*work)
		push_symbol(encoding);
	if (encoding->word < encoding->word_end)
		return 0;
	if (!(is_unigram(encoding) ? unigram_search(&encoding->unigram, table, work) : bpe_merge(bpe, table, work)))
		return 0;
	encoding->merging = false;
	if (is_unigram(encoding))
		return append_likeliest(encoding, err);
	for (uint32_t at = bpe->n ? 0 : BPE_END; at != BPE_END; at = bpe->symbols[at].next) {
		uint32_t id = bpe->symbols[at].id;
		int ret = id == TOKEN_NONE ? append_unknown(encoding, bpe_spelled(bpe, at), err)
					   : append(encoding, id, err);
		if (ret < 0)
			return ret;
	}
	return 0;
}

static int next_split_word(struct tokenizer_encoding *encoding, struct err *err)
{
	const char *word;
	size_t n_bytes;
	int ret = split_next(encoding->split, &word, &n_bytes, err);
	encoding->splitting = ret > 0;
	if (ret <= 0)
		return ret;
	const struct table *table = &encoding->tokenizer->table;
	uint32_t whole = table->header->whole_words ? table_find_string(table, word, n_bytes) : TOKEN_NONE;
	if (whole != TOKEN_NONE)
		return append(encoding, whole, err);
	return begin_word(encoding, word, n_bytes, false, 0);
}

/* A blank that is due before a text is the first character of its first word, or a word of its own. */
static int begin_joined_word(struct tokenizer_encoding *encoding, const char *end, bool malformed)
{
	static const struct character blank = {" ", 1, 0};
	const char *start = encoding->stretch;
	bool due = encoding->blank_due;
	int ret = begin_word(encoding, start, (size_t)(end - start), malformed, due);
	if (ret < 0)
		return ret;
	if (due)
		push_character(encoding, &blank);
	encoding->blank_due = false;
	encoding->stretch = end;
	return 0;
}

/* The next word is as long as there is a token that goes on across each of its characters' ends. */
static int next_joined_word(struct tokenizer_encoding *encoding)
{
	const struct table *table = &encoding->tokenizer->table;
	const char *at = encoding->stretch, *end = encoding->stretch_end;
	bool within = encoding->blank_due;
	char last = ' ';
	while (at < end) {
		struct character character = character_at(at, end);
		if (within && !table_joins(table, (uint8_t)last, (uint8_t)character.bytes[0]))
			break;
		last = character.bytes[character.n_bytes - 1];
		within = true;
		at += character.length;
	}
	encoding->splitting = at < end;
	return begin_joined_word(encoding, at, false);
}

/* The whole stretch, or up to the next blank: what the `tokenizers` library takes for a word, because there sums and
 * ties depend on it. */
static int next_unigram_word(struct tokenizer_encoding *encoding)
{
	const char *at = encoding->stretch, *end = encoding->stretch_end;
	bool within = encoding->blank_due;
	if (!encoding->tokenizer->table.header->words_at_blanks)
		at = end;
	while (at < end) {
		struct character character = character_at(at, end);
		if (within && character.n_bytes == 1 && *character.bytes == ' ')
			break;
		within = true;
		at += character.length;
	}
	encoding->splitting = at < end;
	return begin_joined_word(encoding, at, false);
}

static int next_word(struct tokenizer_encoding *encoding, struct err *err)
{
	if (is_unigram(encoding))
		return next_unigram_word(encoding);
	return encoding->split ? next_split_word(encoding, err) : next_joined_word(encoding);
}

/* Where the characters, or the bytes that are none, that begin at `at` end. */
static const char *stretch_end(const char *at, const char *end, bool wellformed)
{
	size_t length;
	while (at < end && (utf8_step(at, (size_t)(end - at), &length) == UTF8_CHARACTER) == wellformed)
		at += length;
	return at;
}

/* Whether the stretch needs no blank because there is one. */
static bool has_its_blank(const struct tokenizer_encoding *encoding)
{
	const char *at = encoding->stretch, *end = encoding->stretch_end;
	if (encoding->tokenizer->table.header->blank == TOKENIZER_BLANK_EVERY)
		return false;
	return *at == ' ' || (end - at >= 3 && memcmp(at, SPELLING_BLANK, 3) == 0);
}

/* The stretch is what will be cut into words. */
static void begin_words(struct tokenizer_encoding *encoding)
{
	encoding->splitting = true;
	if (encoding->split)
		split_begin(encoding->split, encoding->stretch, (size_t)(encoding->stretch_end - encoding->stretch));
}

static int normalize(struct tokenizer_encoding *encoding, size_t *work)
{
	size_t n_bytes;
	int ret = nfc_advance(&encoding->nfc, work);
	if (ret != 0)
		return ret;
	encoding->normalizing = false;
	encoding->stretch = nfc_result(&encoding->nfc, &n_bytes);
	encoding->stretch_end = encoding->stretch + n_bytes;
	begin_words(encoding);
	return 0;
}

/* The next stretch of plain text that is well-formed or malformed throughout. */
static int next_stretch(struct tokenizer_encoding *encoding)
{
	const char *start = encoding->plain, *end = stretch_end(start, encoding->plain_end, true);
	bool wellformed = end > start;
	if (!wellformed)
		end = stretch_end(start, encoding->plain_end, false);
	encoding->plain = end;
	encoding->stretch = start;
	encoding->stretch_end = end;
	if (encoding->blank_due && has_its_blank(encoding))
		encoding->blank_due = false;
	if (!wellformed)
		return begin_joined_word(encoding, end, true);
	if (encoding->tokenizer->table.header->normalizer == TOKENIZER_NFC) {
		nfc_begin(&encoding->nfc, start, (size_t)(end - start));
		encoding->normalizing = true;
	} else {
		begin_words(encoding);
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

static bool blank_behind_special(const struct table_header *header)
{
	return header->blank == TOKENIZER_BLANK_EVERY || header->blank == TOKENIZER_BLANK_EVERY_UNLESS;
}

/* One step of the innermost thing there is to do. Returns 1, 0: all is done, or an error. */
static int encode_some(struct tokenizer_encoding *encoding, size_t *work, struct err *err)
{
	int ret = 0;
	--*work;
	if (encoding->merging) {
		++*work;
		ret = encode_word(encoding, work, err);
	} else if (encoding->normalizing) {
		++*work;
		ret = normalize(encoding, work);
	} else if (encoding->splitting) {
		ret = next_word(encoding, err);
	} else if (encoding->plain < encoding->plain_end) {
		ret = next_stretch(encoding);
	} else if (encoding->special != TOKEN_NONE) {
		ret = append(encoding, encoding->special, err);
		encoding->special = TOKEN_NONE;
		encoding->blank_due = blank_behind_special(encoding->tokenizer->table.header);
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

/* Chat templates often write the begin token themselves; a second one is something no model was trained on. */
static bool begins_with_bos(const struct tokenizer *tokenizer, const char *text, size_t n_bytes)
{
	return n_bytes && (int64_t)special_at(tokenizer, text, n_bytes, true) == tokenizer->table.header->bos;
}

int tokenizer_encoding_begin(const struct tokenizer *tokenizer, const char *text, size_t n_bytes, bool add_special,
			     bool parse_special, size_t max_tokens, struct token_list *out,
			     struct tokenizer_encoding **encoding_out, struct err *err)
{
	const struct table_header *header = tokenizer->table.header;
	if (n_bytes > MAX_TEXT_BYTES)
		return err_set(err, -E2BIG, "a text of %zu bytes; at most %d are possible", n_bytes, MAX_TEXT_BYTES);
	text = text ? text : ""; /* no bytes need no address, but counting from it does */
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
		.blank_due = header->blank != TOKENIZER_BLANK_NONE,
	};
	int ret = tokenizer->rules ? split_new(tokenizer->rules, &encoding->split) : 0;
	if (ret == 0 && add_special && header->add_bos && !(parse_special && begins_with_bos(tokenizer, text, n_bytes)))
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
	unigram_fini(&encoding->unigram);
	nfc_fini(&encoding->nfc);
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
