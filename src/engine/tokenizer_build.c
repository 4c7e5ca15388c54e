/* Building the table from a model file's lists. Runs in the loader, once per model; nothing in the lists is trusted.
 *
 * Work is near linear in the lists' bytes even for lists made to be slow: both hash tables give up with -EINVAL when a
 * search would take more than TABLE_MAX_PROBES steps, which no honest list comes near. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/tokenizer_build.h"
#include "src/engine/tokenizer_spelling.h"

enum { MAX_TOKENS = 1 << 24, MAX_MERGES = 1 << 26 };

static enum token_type type_of(const struct tokenizer_source *source, uint32_t id)
{
	return source->types ? (enum token_type)source->types[id] : TOKEN_NORMAL;
}

/* --- the plan: header and sizes --------------------------------------------------------------- */

static int check_id(const struct tokenizer_source *source, int64_t id, const char *field, struct err *err)
{
	if (id < -1 || id >= (int64_t)source->n_tokens)
		return err_set(err, -EINVAL, "tokenizer.ggml.%s = %lld: there are %u tokens", field, (long long)id,
			       source->n_tokens);
	return 0;
}

static int check_ids(const struct tokenizer_source *source, struct err *err)
{
	const struct {
		int64_t id;
		const char *field;
	} ids[] = {
		{source->bos, "bos_token_id"},	   {source->eos, "eos_token_id"},     {source->eot, "eot_token_id"},
		{source->unk, "unknown_token_id"}, {source->pad, "padding_token_id"},
	};
	for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
		int ret = check_id(source, ids[i].id, ids[i].field, err);
		if (ret < 0)
			return ret;
	}
	if (source->n_ends > TOKENIZER_MAX_ENDS)
		return err_set(err, -ENOTSUP, "%u tokens end answers besides eos_token_id, %d at most are supported",
			       source->n_ends, TOKENIZER_MAX_ENDS);
	for (uint32_t i = 0; i < source->n_ends; i++) {
		int ret = check_id(source, source->ends[i], "eos_token_ids", err);
		if (ret < 0)
			return ret;
	}
	if (source->add_bos && source->bos < 0)
		return err_set(err, -EINVAL, "tokenizer.ggml.add_bos_token is set, but there is no bos_token_id");
	if (source->add_eos && source->eos < 0)
		return err_set(err, -EINVAL, "tokenizer.ggml.add_eos_token is set, but there is no eos_token_id");
	return 0;
}

/* Slots for `n` entries at a load of one half at most. */
static uint32_t slots_for(uint32_t n)
{
	uint32_t slots = TABLE_MIN_SLOTS;
	while (slots / 2 < n)
		slots *= 2;
	return slots;
}

static int count_tokens(const struct tokenizer_source *source, struct table_header *header, struct err *err)
{
	uint64_t text_bytes = 0;
	for (uint32_t id = 0; id < source->n_tokens; id++) {
		if (source->types && (source->types[id] < TOKEN_NORMAL || source->types[id] > TOKEN_BYTE))
			return err_set(err, -EINVAL, "tokenizer.ggml.token_type[%u] = %d: not a token type", id,
				       source->types[id]);
		int64_t n_bytes = spelling_decode(header->kind, type_of(source, id), source->tokens[id], NULL);
		if (n_bytes < 0)
			return err_set(err, -EINVAL, "tokenizer.ggml.tokens[%u]: a byte token must be spelled <0xHH>",
				       id);
		if (type_of(source, id) == TOKEN_NORMAL) {
			if ((header->kind == TABLE_PIECES || header->kind == TABLE_UNIGRAM) &&
			    n_bytes > TABLE_MAX_PIECE_BYTES)
				return err_set(err, -ENOTSUP,
					       "tokenizer.ggml.tokens[%u]: %lld bytes, up to %d are possible", id,
					       (long long)n_bytes, TABLE_MAX_PIECE_BYTES);
			if (n_bytes > header->longest_bytes)
				header->longest_bytes = (uint32_t)n_bytes;
		}
		text_bytes += (uint64_t)n_bytes;
		if (text_bytes > UINT32_MAX)
			return err_set(err, -EINVAL, "tokenizer.ggml.tokens: more than 4 GiB of text");
		header->n_specials += token_type_is_special(type_of(source, id)) && n_bytes > 0;
	}
	header->text_bytes = (uint32_t)text_bytes;
	return 0;
}

static int plan_kind(const struct tokenizer_source *source, struct table_header *header, struct err *err)
{
	if (strcmp(source->model, "gpt2") == 0) {
		header->kind = TABLE_BYTE_LEVEL;
		return split_kind_of(source->pre, &header->pre, err);
	}
	if (strcmp(source->model, "characters") == 0) {
		header->kind = TABLE_CHARACTERS;
		return 0;
	}
	if (strcmp(source->model, "unigram") == 0) {
		header->kind = TABLE_UNIGRAM;
		return 0;
	}
	if (strcmp(source->model, "llama") != 0)
		return err_set(err, -ENOTSUP, "tokenizer.ggml.model = \"%.64s\" is not supported (gpt2 and llama are)",
			       source->model);
	if (!source->scores)
		return err_set(err, -EINVAL, "tokenizer.ggml.scores is missing: a \"llama\" tokenizer merges by them");
	header->kind = TABLE_PIECES;
	return 0;
}

static bool lists_merges(uint32_t kind)
{
	return kind == TABLE_BYTE_LEVEL || kind == TABLE_CHARACTERS;
}

static int plan(const struct tokenizer_source *source, struct table_header *out, struct err *err)
{
	struct table_header header = {.magic = TABLE_MAGIC, .version = TABLE_VERSION};
	int ret = plan_kind(source, &header, err);
	if (ret < 0)
		return ret;
	if (source->n_tokens == 0 || source->n_tokens > MAX_TOKENS)
		return err_set(err, -EINVAL, "tokenizer.ggml.tokens: %u tokens, 1 to %d are possible", source->n_tokens,
			       MAX_TOKENS);
	if (source->n_merges > MAX_MERGES)
		return err_set(err, -EINVAL, "tokenizer.ggml.merges: %u merges, up to %d are possible",
			       source->n_merges, MAX_MERGES);
	ret = check_ids(source, err);
	if (ret < 0)
		return ret;
	header.n_tokens = source->n_tokens;
	header.normalizer = source->normalizer;
	header.merge_slots = slots_for(lists_merges(header.kind) ? source->n_merges : 0);
	header.n_scores = header.kind == TABLE_UNIGRAM ? source->n_tokens : 0;
	header.words_at_blanks = header.kind == TABLE_UNIGRAM && source->words_at_blanks;
	if (header.kind == TABLE_PIECES)
		header.n_ranks = source->n_tokens;
	if (header.kind != TABLE_BYTE_LEVEL) {
		header.string_slots = slots_for(source->n_tokens);
		header.n_join_bytes = TABLE_JOIN_BYTES;
		header.blank = source->blank;
	}
	if (header.kind == TABLE_BYTE_LEVEL && source->ignore_merges) {
		header.string_slots = slots_for(source->n_tokens);
		header.whole_words = true;
	}
	header.add_bos = source->add_bos;
	header.add_eos = source->add_eos;
	header.bos = (int32_t)source->bos;
	header.eos = (int32_t)source->eos;
	header.eot = (int32_t)source->eot;
	header.unk = (int32_t)source->unk;
	header.n_ends = source->n_ends;
	memcpy(header.ends, source->ends, sizeof header.ends);
	ret = count_tokens(source, &header, err);
	if (ret < 0)
		return ret;
	header.table_bytes = table_layout(&header).bytes;
	*out = header;
	return 0;
}

int tokenizer_table_bytes(const struct tokenizer_source *source, uint64_t *bytes, struct err *err)
{
	struct table_header header;
	int ret = plan(source, &header, err);
	if (ret < 0)
		return ret;
	*bytes = header.table_bytes;
	return 0;
}

/* --- ids by spelling, while building ---------------------------------------------------------- */

struct spelling_index {
	const struct tokenizer_source *source;
	uint32_t *ids; /* [mask + 1] owned, TOKEN_NONE where empty */
	uint32_t mask;
};

static uint64_t fnv1a(uint64_t hash, struct tokenizer_string string)
{
	for (uint32_t i = 0; i < string.n_bytes; i++)
		hash = (hash ^ (uint8_t)string.bytes[i]) * 0x100000001b3ull;
	return hash;
}

/* The slot that holds `head` followed by `tail`, or would take it; NULL when neither is within reach. Two parts,
 * because what a merge makes is never written out in the file. */
static uint32_t *spelling_slot(const struct spelling_index *index, struct tokenizer_string head,
			       struct tokenizer_string tail)
{
	uint64_t hash = fnv1a(fnv1a(0xcbf29ce484222325ull, head), tail);
	uint32_t slot = (uint32_t)(hash ^ hash >> 32);
	for (uint32_t probe = 0; probe < TABLE_MAX_PROBES; probe++, slot++) {
		uint32_t *id = &index->ids[slot & index->mask];
		if (*id == TOKEN_NONE)
			return id;
		struct tokenizer_string held = index->source->tokens[*id];
		if (held.n_bytes == (uint64_t)head.n_bytes + tail.n_bytes &&
		    memcmp(held.bytes, head.bytes, head.n_bytes) == 0 &&
		    memcmp(held.bytes + head.n_bytes, tail.bytes, tail.n_bytes) == 0)
			return id;
	}
	return NULL;
}

static const struct tokenizer_string no_tail = {"", 0};

static uint32_t spelling_find(const struct spelling_index *index, struct tokenizer_string head,
			      struct tokenizer_string tail)
{
	const uint32_t *slot = spelling_slot(index, head, tail);
	return slot ? *slot : TOKEN_NONE;
}

/* Tokens without a spelling are left out: nothing can look for them, and there may be several. */
static int spelling_index_init(struct spelling_index *index, const struct tokenizer_source *source, struct err *err)
{
	uint32_t slots = slots_for(source->n_tokens);
	uint32_t *ids = malloc(slots * sizeof *ids);
	if (!ids)
		return -ENOMEM;
	memset(ids, 0xff, slots * sizeof *ids);
	*index = (struct spelling_index){.source = source, .ids = ids, .mask = slots - 1};
	for (uint32_t id = 0; id < source->n_tokens; id++) {
		if (!source->tokens[id].n_bytes)
			continue;
		uint32_t *slot = spelling_slot(index, source->tokens[id], no_tail);
		if (!slot || *slot != TOKEN_NONE) {
			int ret =
				slot ? err_set(err, -EINVAL, "tokenizer.ggml.tokens: %u and %u are the same", *slot, id)
				     : err_set(err, -EINVAL, "tokenizer.ggml.tokens: made to collide (at %u)", id);
			free(ids);
			return ret;
		}
		*slot = id;
	}
	return 0;
}

/* --- the sections ----------------------------------------------------------------------------- */

static void write_pieces(struct draft *draft)
{
	uint32_t at = 0, n_specials = 0;
	for (uint32_t id = 0; id < draft->source->n_tokens; id++) {
		enum token_type type = type_of(draft->source, id);
		draft->starts[id] = at;
		draft->types[id] = (uint8_t)type;
		uint32_t n_bytes = (uint32_t)spelling_decode(draft->header->kind, type, draft->source->tokens[id],
							     draft->text + at);
		at += n_bytes;
		if (token_type_is_special(type) && n_bytes)
			draft->specials[n_specials++] = id;
	}
	draft->starts[draft->source->n_tokens] = at;
}

static int write_byte_ids(struct draft *draft, const struct spelling_index *index, struct err *err)
{
	uint32_t n_found = 0;
	for (uint32_t byte = 0; byte < 256; byte++) {
		char room[2];
		draft->header->byte_ids[byte] = spelling_find(index, spelling_of_byte((uint8_t)byte, room), no_tail);
		n_found += draft->header->byte_ids[byte] != TOKEN_NONE;
	}
	if (!n_found)
		return err_set(err, -EINVAL,
			       "tokenizer.ggml.tokens: not a single byte is a token; this is no byte-level list");
	return 0;
}

/* "left right" -> their ids and the id of both together. */
static int parse_merge(const struct spelling_index *index, struct tokenizer_string line, struct table_merge *out)
{
	/* A left part of one blank would be spelled as a blank; the separator is the first one after the first byte. */
	const char *blank = line.n_bytes > 1 ? memchr(line.bytes + 1, ' ', line.n_bytes - 1) : NULL;
	if (!blank)
		return -EINVAL;
	uint32_t n_left = (uint32_t)(blank - line.bytes);
	struct tokenizer_string left = {line.bytes, n_left}, right = {blank + 1, line.n_bytes - n_left - 1};
	if (!right.n_bytes)
		return -EINVAL;
	out->left = spelling_find(index, left, no_tail);
	out->right = spelling_find(index, right, no_tail);
	out->merged = spelling_find(index, left, right);
	return out->left == TOKEN_NONE || out->right == TOKEN_NONE || out->merged == TOKEN_NONE ? -EINVAL : 0;
}

static int write_merges(struct draft *draft, const struct spelling_index *index, struct err *err)
{
	const struct tokenizer_source *source = draft->source;
	memset(draft->merges, 0xff, draft->header->merge_slots * sizeof draft->merges[0]);
	uint32_t n_merges = lists_merges(draft->header->kind) ? source->n_merges : 0;
	for (uint32_t rank = 0; rank < n_merges; rank++) {
		struct table_merge merge = {.rank = rank};
		if (parse_merge(index, source->merges[rank], &merge) < 0)
			return err_set(err, -EINVAL, "tokenizer.ggml.merges[%u]: not two tokens that join into a third",
				       rank);
		if (table_find_merge(&draft->view, merge.left, merge.right))
			continue; /* listed twice: the first one counts, as in llama.cpp */
		uint32_t slot = table_merge_hash(merge.left, merge.right), probe = 0;
		while (draft->merges[slot & draft->view.merge_mask].merged != TOKEN_NONE) {
			if (++probe == TABLE_MAX_PROBES)
				return err_set(err, -EINVAL, "tokenizer.ggml.merges: made to collide (at %u)", rank);
			slot++;
		}
		draft->merges[slot & draft->view.merge_mask] = merge;
	}
	return 0;
}

static int compare_specials(const void *a, const void *b, void *context)
{
	const struct table *table = context;
	struct tokenizer_string left = table_piece(table, *(const uint32_t *)a),
				right = table_piece(table, *(const uint32_t *)b);
	int order = memcmp(left.bytes, right.bytes, left.n_bytes < right.n_bytes ? left.n_bytes : right.n_bytes);
	return order ? order : (left.n_bytes > right.n_bytes) - (left.n_bytes < right.n_bytes);
}

int tokenizer_table_build(const struct tokenizer_source *source, void *dst, uint64_t bytes, struct err *err)
{
	struct table_header header;
	int ret = plan(source, &header, err);
	if (ret < 0)
		return ret;
	if (bytes != header.table_bytes)
		return err_set(err, -EINVAL, "tokenizer table: %llu bytes of room, %llu are needed",
			       (unsigned long long)bytes, (unsigned long long)header.table_bytes);
	struct table_layout at = table_layout(&header);
	memcpy(dst, &header, sizeof header);
	char *base = dst;
	struct draft draft = {
		.source = source,
		.header = dst,
		.joins = (uint8_t *)(base + at.joins),
		.merges = (struct table_merge *)(base + at.merges),
		.strings = (struct table_string *)(base + at.strings),
		.scores = (double *)(base + at.scores),
		.starts = (uint32_t *)(base + at.starts),
		.specials = (uint32_t *)(base + at.specials),
		.ranks = (uint32_t *)(base + at.ranks),
		.types = (uint8_t *)(base + at.types),
		.text = base + at.text,
		.view = table_view(dst, dst),
	};
	struct spelling_index index;
	ret = spelling_index_init(&index, source, err);
	if (ret < 0)
		return ret;
	write_pieces(&draft);
	qsort_r(draft.specials, header.n_specials, sizeof draft.specials[0], compare_specials, &draft.view);
	if (header.kind != TABLE_BYTE_LEVEL) {
		ret = draft_pieces(&draft, err);
	} else {
		ret = write_byte_ids(&draft, &index, err);
		if (ret == 0 && header.whole_words)
			ret = draft_strings(&draft, err);
	}
	if (ret == 0)
		ret = write_merges(&draft, &index, err);
	free(index.ids);
	return ret;
}
