/* Building the table from a model file's lists. Runs in the loader, once per model; nothing in the lists is trusted.
 *
 * Work is near linear in the lists' bytes even for lists made to be slow: both hash tables give up with -EINVAL when a
 * search would take more than TABLE_MAX_PROBES steps, which no honest list comes near. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/tokenizer_table.h"

enum { MAX_TOKENS = 1 << 24, MAX_MERGES = 1 << 26 };

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
static int64_t decode_spelling(struct tokenizer_string spelled, char *out)
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

static uint8_t type_of(const struct tokenizer_source *source, uint32_t id)
{
	return source->types ? (uint8_t)source->types[id] : TOKEN_NORMAL;
}

/* The bytes that token `id` adds to a text; writes them unless `out` is NULL. What each type is follows llama.cpp:
 * control, unknown and user-defined tokens are spelled as they are, unused ones add nothing. A normal token that is not
 * in the byte spelling is taken as it is. Returns their number; -1: not a byte token's spelling. */
static int64_t decode_token(const struct tokenizer_source *source, uint32_t id, char *out)
{
	struct tokenizer_string spelled = source->tokens[id];
	switch (type_of(source, id)) {
	case TOKEN_UNUSED:
		return 0;
	case TOKEN_BYTE: {
		int byte = decode_byte_token(spelled);
		if (byte >= 0 && out)
			*out = (char)byte;
		return byte < 0 ? -1 : 1;
	}
	case TOKEN_NORMAL: {
		int64_t n = decode_spelling(spelled, NULL);
		if (n >= 0)
			return out ? decode_spelling(spelled, out) : n;
		break;
	}
	default:
		break;
	}
	if (out && spelled.n_bytes)
		memcpy(out, spelled.bytes, spelled.n_bytes);
	return spelled.n_bytes;
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
		int64_t n_bytes = decode_token(source, id, NULL);
		if (n_bytes < 0)
			return err_set(err, -EINVAL, "tokenizer.ggml.tokens[%u]: a byte token must be spelled <0xHH>",
				       id);
		text_bytes += (uint64_t)n_bytes;
		if (text_bytes > UINT32_MAX)
			return err_set(err, -EINVAL, "tokenizer.ggml.tokens: more than 4 GiB of text");
		header->n_specials += token_type_is_special(type_of(source, id)) && n_bytes > 0;
	}
	header->text_bytes = (uint32_t)text_bytes;
	return 0;
}

static int plan(const struct tokenizer_source *source, struct table_header *out, struct err *err)
{
	if (strcmp(source->model, "gpt2") != 0)
		return err_set(err, -ENOTSUP, "tokenizer.ggml.model = \"%.64s\" is not supported", source->model);
	struct table_header header = {.magic = TABLE_MAGIC, .version = TABLE_VERSION};
	int ret = split_kind_of(source->pre, &header.pre, err);
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
	header.merge_slots = slots_for(source->n_merges);
	header.add_bos = source->add_bos;
	header.add_eos = source->add_eos;
	header.bos = (int32_t)source->bos;
	header.eos = (int32_t)source->eos;
	header.eot = (int32_t)source->eot;
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

/* The table being written. */
struct draft {
	const struct tokenizer_source *source;
	struct table_header *header;
	uint32_t *starts;
	struct table_merge *merges;
	uint32_t *specials;
	uint8_t *types;
	char *text;
	struct table view; /* the same bytes, to read */
};

static void write_pieces(struct draft *draft)
{
	uint32_t at = 0, n_specials = 0;
	for (uint32_t id = 0; id < draft->source->n_tokens; id++) {
		uint8_t type = type_of(draft->source, id);
		draft->starts[id] = at;
		draft->types[id] = type;
		uint32_t n_bytes = (uint32_t)decode_token(draft->source, id, draft->text + at);
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
		uint32_t character = byte_to_character((uint8_t)byte);
		char spelled[2] = {(char)character};
		struct tokenizer_string string = {spelled, 1};
		if (character >= 0x80) {
			spelled[0] = (char)(0xc0 | character >> 6);
			spelled[1] = (char)(0x80 | (character & 0x3f));
			string.n_bytes = 2;
		}
		draft->header->byte_ids[byte] = spelling_find(index, string, no_tail);
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
	for (uint32_t rank = 0; rank < source->n_merges; rank++) {
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
		.starts = (uint32_t *)(base + at.starts),
		.merges = (struct table_merge *)(base + at.merges),
		.specials = (uint32_t *)(base + at.specials),
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
	ret = write_byte_ids(&draft, &index, err);
	if (ret == 0)
		ret = write_merges(&draft, &index, err);
	free(index.ids);
	return ret;
}
