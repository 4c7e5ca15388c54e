/* Checking a table, and the questions that need no encoding. After the check every index that any function here or in
 * the encoder follows is in range; a table whose bytes were damaged in a way the check can't see gives wrong tokens, no
 * more. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/tokenizer_private.h"

static int damaged(struct err *err, const char *what)
{
	return err_set(err, -EINVAL, "tokenizer table: %s", what);
}

static bool is_id_or_none(const struct table_header *header, int32_t id)
{
	return id >= -1 && id < (int64_t)header->n_tokens;
}

static bool is_power_of_two(uint32_t n)
{
	return n && !(n & (n - 1));
}

static int check_header(const struct table_header *header, uint64_t bytes, struct err *err)
{
	if (header->magic != TABLE_MAGIC)
		return damaged(err, "no magic");
	if (header->version != TABLE_VERSION)
		return damaged(err, "another version");
	if (header->kind < TABLE_BYTE_LEVEL || header->kind > TABLE_UNIGRAM)
		return damaged(err, "kind");
	if (header->n_tokens == 0 || header->n_tokens > INT32_MAX)
		return damaged(err, "number of tokens");
	if (header->merge_slots < TABLE_MIN_SLOTS || !is_power_of_two(header->merge_slots))
		return damaged(err, "number of merge slots");
	if (header->string_slots && (header->string_slots < TABLE_MIN_SLOTS || !is_power_of_two(header->string_slots)))
		return damaged(err, "number of string slots");
	if (header->kind == TABLE_PIECES &&
	    (header->n_ranks != header->n_tokens || header->longest_bytes > TABLE_MAX_PIECE_BYTES))
		return damaged(err, "what merging by spelling needs");
	if (header->kind != TABLE_BYTE_LEVEL && (!header->string_slots || header->n_join_bytes != TABLE_JOIN_BYTES))
		return damaged(err, "what words of characters need");
	if (header->kind == TABLE_UNIGRAM &&
	    (header->n_scores != header->n_tokens || header->longest_bytes > TABLE_MAX_PIECE_BYTES || header->unk < 0))
		return damaged(err, "what the search for the likeliest tokens needs");
	if ((header->n_scores && header->n_scores != header->n_tokens) || header->words_at_blanks > 1)
		return damaged(err, "number of scores");
	if ((header->n_ranks && header->n_ranks != header->n_tokens) ||
	    (header->n_join_bytes && header->n_join_bytes != TABLE_JOIN_BYTES))
		return damaged(err, "number of ranks or joins");
	if (header->n_specials > header->n_tokens)
		return damaged(err, "number of special tokens");
	if (header->table_bytes != bytes || table_layout(header).bytes != bytes)
		return damaged(err, "its counts do not add up to its size");
	if (header->add_bos > 1 || header->add_eos > 1 || header->blank > TOKENIZER_BLANK_EVERY_UNLESS ||
	    header->normalizer > TOKENIZER_NFC || header->whole_words > 1 ||
	    (header->whole_words && !header->string_slots))
		return damaged(err, "flags");
	if (!is_id_or_none(header, header->bos) || !is_id_or_none(header, header->eos) ||
	    !is_id_or_none(header, header->eot) || !is_id_or_none(header, header->unk))
		return damaged(err, "bos, eos, eot or unk");
	if (header->n_ends > TOKENIZER_MAX_ENDS)
		return damaged(err, "number of ends");
	for (uint32_t i = 0; i < header->n_ends; i++)
		if (header->ends[i] >= header->n_tokens)
			return damaged(err, "ends");
	if ((header->add_bos && header->bos < 0) || (header->add_eos && header->eos < 0))
		return damaged(err, "adds a token that it does not have");
	for (size_t byte = 0; byte < 256; byte++)
		if (header->byte_ids[byte] >= header->n_tokens && header->byte_ids[byte] != TOKEN_NONE)
			return damaged(err, "byte tokens");
	return 0;
}

static int check_pieces(const struct table *table, struct err *err)
{
	uint32_t n_tokens = table->header->n_tokens;
	if (table->starts[0] != 0 || table->starts[n_tokens] != table->header->text_bytes)
		return damaged(err, "the tokens' text");
	for (uint32_t id = 0; id < n_tokens; id++) {
		if (table->starts[id] > table->starts[id + 1])
			return damaged(err, "the tokens' text");
		if (table->types[id] < TOKEN_NORMAL || table->types[id] > TOKEN_BYTE)
			return damaged(err, "token types");
	}
	return 0;
}

static int check_merges(const struct table *table, struct err *err)
{
	uint32_t n_tokens = table->header->n_tokens;
	for (uint32_t slot = 0; slot <= table->merge_mask; slot++) {
		const struct table_merge *merge = &table->merges[slot];
		if (merge->merged == TOKEN_NONE)
			continue;
		if (merge->left >= n_tokens || merge->right >= n_tokens || merge->merged >= n_tokens)
			return damaged(err, "merges");
	}
	return 0;
}

static int check_strings(const struct table *table, struct err *err)
{
	for (uint32_t slot = 0; slot < table->header->string_slots; slot++) {
		uint32_t id = table->strings[slot].id;
		if (id != TOKEN_NONE && id >= table->header->n_tokens)
			return damaged(err, "strings");
	}
	return 0;
}

static int compare_bytes(struct tokenizer_string a, struct tokenizer_string b)
{
	int order = memcmp(a.bytes, b.bytes, a.n_bytes < b.n_bytes ? a.n_bytes : b.n_bytes);
	return order ? order : (a.n_bytes > b.n_bytes) - (a.n_bytes < b.n_bytes);
}

static int check_specials(const struct table *table, struct err *err)
{
	for (uint32_t i = 0; i < table->header->n_specials; i++) {
		uint32_t id = table->specials[i];
		if (id >= table->header->n_tokens || !token_type_is_special(table->types[id]))
			return damaged(err, "special tokens");
		struct tokenizer_string piece = table_piece(table, id);
		if (!piece.n_bytes)
			return damaged(err, "a special token without a spelling");
		if (i && compare_bytes(table_piece(table, table->specials[i - 1]), piece) >= 0)
			return damaged(err, "special tokens out of order");
	}
	return 0;
}

static void index_specials(struct tokenizer *tokenizer)
{
	const struct table *table = &tokenizer->table;
	uint32_t at = 0;
	for (uint32_t byte = 0; byte < 256; byte++) {
		tokenizer->first[byte] = at;
		while (at < table->header->n_specials &&
		       (uint8_t)*table_piece(table, table->specials[at]).bytes == byte)
			at++;
	}
	tokenizer->first[256] = at;
}

/* What crossing an unknown character costs: more than any token, by SentencePiece's constant. A damaged score, even one
 * that is no number, makes wrong tokens and no more. */
static double unknown_score(const struct table *table)
{
	double least = 0;
	for (uint32_t id = 0; id < table->header->n_scores; id++)
		least = id == 0 || table->scores[id] < least ? table->scores[id] : least;
	return least - 10;
}

int tokenizer_attach(const void *table, uint64_t bytes, struct tokenizer **out, struct err *err)
{
	const struct table_header *header = table;
	if (bytes < sizeof *header || (uintptr_t)table % _Alignof(struct table_header))
		return damaged(err, "shorter than its header");
	int ret = check_header(header, bytes, err);
	if (ret < 0)
		return ret;
	struct table view = table_view(table, header);
	ret = check_pieces(&view, err);
	if (ret == 0)
		ret = check_merges(&view, err);
	if (ret == 0)
		ret = check_strings(&view, err);
	if (ret == 0)
		ret = check_specials(&view, err);
	if (ret < 0)
		return ret;
	struct tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
	if (!tokenizer)
		return -ENOMEM;
	if (header->kind == TABLE_BYTE_LEVEL)
		ret = split_rules_new(header->pre, &tokenizer->rules, err);
	if (ret < 0) {
		tokenizer_detach(tokenizer);
		return ret;
	}
	tokenizer->table = view;
	tokenizer->unknown_score = unknown_score(&view);
	index_specials(tokenizer);
	*out = tokenizer;
	return 0;
}

void tokenizer_detach(struct tokenizer *tokenizer)
{
	if (!tokenizer)
		return;
	split_rules_free(tokenizer->rules);
	free(tokenizer);
}

uint32_t tokenizer_n_tokens(const struct tokenizer *tokenizer)
{
	return tokenizer->table.header->n_tokens;
}

int64_t tokenizer_bos(const struct tokenizer *tokenizer)
{
	return tokenizer->table.header->bos;
}

int64_t tokenizer_eos(const struct tokenizer *tokenizer)
{
	return tokenizer->table.header->eos;
}

bool tokenizer_blank_prefix(const struct tokenizer *tokenizer)
{
	return tokenizer->table.header->blank != TOKENIZER_BLANK_NONE;
}

bool tokenizer_is_end(const struct tokenizer *tokenizer, uint32_t id)
{
	const struct table_header *header = tokenizer->table.header;
	bool end = (int64_t)id == header->eos || (int64_t)id == header->eot;
	for (uint32_t i = 0; i < header->n_ends; i++)
		end |= id == header->ends[i];
	return end;
}

const char *tokenizer_piece(const struct tokenizer *tokenizer, uint32_t id, bool special, uint32_t *n_bytes)
{
	const struct table *table = &tokenizer->table;
	*n_bytes = 0;
	if (id >= table->header->n_tokens || (!special && token_type_is_hidden(table->types[id])))
		return "";
	struct tokenizer_string piece = table_piece(table, id);
	*n_bytes = piece.n_bytes;
	return piece.bytes;
}
