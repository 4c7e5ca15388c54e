/* The tokenizer's table inside a segment, private to tokenizer_*.c.
 *
 * The problem: a GGUF file says its tokenizer as lists of strings. Workers must not parse, every worker needs the same
 * few megabytes, and what lies in a segment is not trusted. So the loader turns the lists into this once, and a worker
 * checks it in one pass and reads it in place:
 *
 *   table_header | joins u8[n_join_bytes] | merges[merge_slots] | strings[string_slots] | scores f64[n_scores] | starts
 * u32[n_tokens + 1] | specials u32[n_specials] | ranks u32[n_ranks] | types u8[n_tokens] | text
 *
 * - The header holds counts, no offsets. Where a section lies follows from the counts (table_layout), so there is
 * nothing that could disagree; the check compares one number, the sum, with the bytes there are.
 * - `text` is every token's bytes, as they appear in a text, one after another: the byte-to-unicode spelling is undone
 *   here. Token i is text[starts[i]] up to text[starts[i + 1]].
 * - `merges` is a hash table with open addressing, keyed by the ids of the left and the right part. A byte-level merge
 * list only ever joins tokens into tokens (the builder refuses others), so encoding never handles strings: a byte
 * becomes an id through header.byte_ids, two ids become one through this table.
 * - A search visits TABLE_MAX_PROBES slots at most. That bounds it whatever the bytes are, and the builder keeps the
 *   promise that every merge is within reach (at a load of one half the longest honest run is about 70 slots in a
 * million).
 * - `strings` finds a token by its bytes: a hash table, too, whose slots hold the whole hash, so that a token's text is
 *   only looked at when it is very likely the right one. Only vocabularies that need it have it.
 * - `ranks` replaces the merge list where the file has scores instead: two neighbours merge if what they spell together
 *   is a token, and the rank of that token says how early (tokenizer_bpe.h).
 * - `scores` is there in their stead where words are not made by merging but as the likeliest tokens.
 * - `joins` has one bit for every pair of bytes that follow each other within a token. No merge goes across a place in
 *   a text whose two bytes have no such bit, so a text may be cut there into words without changing any token.
 * - `specials` are the ids whose spelling is looked for in texts, in ascending order of their bytes, so that the
 * longest one that begins at a place is found by narrowing a range.
 *
 * Rejected: an index from strings to ids in the segment (nothing reads it after the build), and merges sorted by left
 * id (no probes to bound, but ten mispredicted branches where this has one cache miss). */
#ifndef WEIGHTD_ENGINE_TOKENIZER_TABLE_H
#define WEIGHTD_ENGINE_TOKENIZER_TABLE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "src/engine/tokenizer.h"
#include "src/engine/tokenizer_split.h"

#define TABLE_MAGIC 0x314b4f5444544857ull /* "WHTDTOK1" */
#define TOKEN_NONE UINT32_MAX
enum { TABLE_VERSION = 3, TABLE_MAX_PROBES = 512, TABLE_MIN_SLOTS = 16, TABLE_JOIN_BYTES = 256 * 256 / 8 };

/* Longest token that merging by spelling may look for: each step hashes that much at most. Real ones have up to 48. */
enum { TABLE_MAX_PIECE_BYTES = 1024 };

enum table_kind {			/* written to segments: never renumber */
		  TABLE_BYTE_LEVEL = 1, /* symbols are bytes, words the pre-tokenizer's, merges listed */
		  TABLE_PIECES = 2, /* symbols are characters, words follow from `joins`, merges by spelling and rank */
		  TABLE_CHARACTERS = 3, /* symbols and words as in TABLE_PIECES, merges listed */
		  TABLE_UNIGRAM = 4,	/* no merges: the likeliest tokens of a word (tokenizer_unigram.h) */
};

struct table_header {
	uint64_t magic;
	uint32_t version;
	uint32_t kind; /* enum table_kind */
	uint64_t table_bytes;
	uint32_t n_tokens;
	uint32_t n_specials;
	uint32_t merge_slots; /* a power of two */
	uint32_t text_bytes;
	uint32_t add_bos, add_eos;  /* 0 or 1 */
	int32_t bos, eos, eot, unk; /* -1: none */
	uint32_t pre;		    /* enum split_kind; 0 where joins cut */
	uint32_t string_slots;	    /* a power of two, or 0 */
	uint32_t n_ranks;	    /* n_tokens, or 0 */
	uint32_t n_join_bytes;	    /* TABLE_JOIN_BYTES, or 0 */
	uint32_t blank;		    /* enum tokenizer_blank */
	uint32_t longest_bytes;	    /* of the tokens in `strings` */
	uint32_t whole_words;	    /* 0 or 1: a word that is a token is not merged */
	uint32_t n_ends;	    /* TOKENIZER_MAX_ENDS at most */
	uint32_t ends[5];	    /* [n_ends] token ids that end an answer, besides eos and eot */
	uint32_t normalizer;	    /* enum tokenizer_normalizer */
	uint32_t n_scores;	    /* n_tokens, or 0 */
	uint32_t words_at_blanks;   /* 0 or 1: in TABLE_UNIGRAM every blank begins a word */
	uint32_t byte_ids[256];	    /* the token of each single byte, TOKEN_NONE where the vocabulary has none */
};
static_assert(sizeof(struct table_header) == 1152, "table_header is part of the segment layout");
static_assert(sizeof(((struct table_header *)0)->ends) == TOKENIZER_MAX_ENDS * sizeof(uint32_t), "room for all ends");

struct table_merge {
	uint32_t left, right; /* token ids */
	uint32_t rank;	      /* the lower is merged the earlier */
	uint32_t merged;      /* token id; TOKEN_NONE marks an empty slot */
};
static_assert(sizeof(struct table_merge) == 16, "table_merge is part of the segment layout");

struct table_string {
	uint32_t hash; /* table_string_hash of the token's bytes */
	uint32_t id;   /* TOKEN_NONE marks an empty slot */
};
static_assert(sizeof(struct table_string) == 8, "table_string is part of the segment layout");

/* Offsets of the sections from the table's first byte. */
struct table_layout {
	uint64_t joins, merges, strings, scores, starts, specials, ranks, types, text, bytes;
};

/* No sum here can overflow: nine counts of 32 bits times at most 16 bytes each. */
static inline struct table_layout table_layout(const struct table_header *header)
{
	struct table_layout at;
	at.joins = sizeof *header; /* it and the joins are multiples of 64: no slot straddles a cache line */
	at.merges = at.joins + header->n_join_bytes;
	at.strings = at.merges + sizeof(struct table_merge) * (uint64_t)header->merge_slots;
	at.scores = at.strings + sizeof(struct table_string) * (uint64_t)header->string_slots;
	at.starts = at.scores + sizeof(double) * (uint64_t)header->n_scores;
	at.specials = at.starts + 4 * ((uint64_t)header->n_tokens + 1);
	at.ranks = at.specials + 4 * (uint64_t)header->n_specials;
	at.types = at.ranks + 4 * (uint64_t)header->n_ranks;
	at.text = at.types + header->n_tokens;
	at.bytes = at.text + header->text_bytes;
	return at;
}

/* A table to read; borrows it. */
struct table {
	const struct table_header *header;
	const uint8_t *joins;		    /* [n_join_bytes] */
	const struct table_merge *merges;   /* [merge_slots] */
	const struct table_string *strings; /* [string_slots] */
	const double *scores;		    /* [n_scores] logarithms of probabilities */
	const uint32_t *starts;		    /* [n_tokens + 1] ascending offsets in text */
	const uint32_t *specials;	    /* [n_specials] ids */
	const uint32_t *ranks;		    /* [n_ranks] the lower is merged the earlier */
	const uint8_t *types;		    /* [n_tokens] enum token_type */
	const char *text;		    /* [text_bytes] */
	uint32_t merge_mask;		    /* merge_slots - 1 */
	uint32_t string_mask;		    /* string_slots - 1; strings is only to be searched where there are slots */
};

static inline struct table table_view(const void *bytes, const struct table_header *header)
{
	struct table_layout at = table_layout(header);
	const char *base = bytes;
	return (struct table){
		.header = header,
		.joins = (const uint8_t *)(base + at.joins),
		.merges = (const struct table_merge *)(base + at.merges),
		.strings = (const struct table_string *)(base + at.strings),
		.scores = (const double *)(base + at.scores),
		.starts = (const uint32_t *)(base + at.starts),
		.specials = (const uint32_t *)(base + at.specials),
		.ranks = (const uint32_t *)(base + at.ranks),
		.types = (const uint8_t *)(base + at.types),
		.text = base + at.text,
		.merge_mask = header->merge_slots - 1,
		.string_mask = header->string_slots - 1,
	};
}

static inline struct tokenizer_string table_piece(const struct table *table, uint32_t id)
{
	return (struct tokenizer_string){table->text + table->starts[id], table->starts[id + 1] - table->starts[id]};
}

/* Spreads a pair of ids over 32 bits; both the multiplication and the shifts are needed, ids are small and dense. */
static inline uint32_t table_merge_hash(uint32_t left, uint32_t right)
{
	uint64_t x = (uint64_t)left << 32 | right;
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
	return (uint32_t)(x >> 32);
}

/* The merge of two tokens, NULL where there is none. */
static inline const struct table_merge *table_find_merge(const struct table *table, uint32_t left, uint32_t right)
{
	uint32_t slot = table_merge_hash(left, right);
	for (uint32_t probe = 0; probe < TABLE_MAX_PROBES; probe++, slot++) {
		const struct table_merge *merge = &table->merges[slot & table->merge_mask];
		if (merge->merged == TOKEN_NONE)
			return NULL;
		if (merge->left == left && merge->right == right)
			return merge;
	}
	return NULL;
}

/* FNV-1a, with the upper half folded in because slots are chosen by the lower bits. */
#define TABLE_HASH_START 0xcbf29ce484222325ull
static inline uint64_t table_hash_byte(uint64_t hash, char byte)
{
	return (hash ^ (uint8_t)byte) * 0x100000001b3ull;
}

static inline uint32_t table_hash_end(uint64_t hash)
{
	return (uint32_t)(hash ^ hash >> 32);
}

static inline uint32_t table_string_hash(const char *bytes, size_t n_bytes)
{
	uint64_t hash = TABLE_HASH_START;
	for (size_t i = 0; i < n_bytes; i++)
		hash = table_hash_byte(hash, bytes[i]);
	return table_hash_end(hash);
}

/* The token of exactly these bytes, whose hash is known; TOKEN_NONE where there is none. Only where there are strings.
 */
static inline uint32_t table_find_hashed(const struct table *table, const char *bytes, size_t n_bytes, uint32_t hash)
{
	uint32_t slot = hash;
	for (uint32_t probe = 0; probe < TABLE_MAX_PROBES; probe++, slot++) {
		const struct table_string *string = &table->strings[slot & table->string_mask];
		if (string->id == TOKEN_NONE)
			return TOKEN_NONE;
		if (string->hash != hash)
			continue;
		struct tokenizer_string piece = table_piece(table, string->id);
		if (piece.n_bytes == n_bytes && memcmp(piece.bytes, bytes, n_bytes) == 0)
			return string->id;
	}
	return TOKEN_NONE;
}

static inline uint32_t table_find_string(const struct table *table, const char *bytes, size_t n_bytes)
{
	if (n_bytes > table->header->longest_bytes)
		return TOKEN_NONE;
	return table_find_hashed(table, bytes, n_bytes, table_string_hash(bytes, n_bytes));
}

/* Whether some token has these two bytes side by side. */
static inline bool table_joins(const struct table *table, uint8_t left, uint8_t right)
{
	uint32_t pair = (uint32_t)left << 8 | right;
	return table->joins[pair / 8] >> pair % 8 & 1;
}

/* Types whose spelling is looked for in texts. */
static inline bool token_type_is_special(uint8_t type)
{
	return type == TOKEN_CONTROL || type == TOKEN_UNKNOWN || type == TOKEN_USER_DEFINED;
}

/* Types that a text shows only when asked for. */
static inline bool token_type_is_hidden(uint8_t type)
{
	return type == TOKEN_CONTROL || type == TOKEN_UNKNOWN;
}

#endif
