/* The tokenizer's table inside a segment, private to tokenizer_*.c.
 *
 * The problem: a GGUF file says its tokenizer as lists of strings. Workers must not parse, every worker needs the same
 * few megabytes, and what lies in a segment is not trusted. So the loader turns the lists into this once, and a worker
 * checks it in one pass and reads it in place:
 *
 *   table_header | merges[merge_slots] | starts u32[n_tokens + 1] | specials u32[n_specials] | types u8[n_tokens] |
 * text
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
 * - `specials` are the ids whose spelling is looked for in texts, in ascending order of their bytes, so that the
 * longest one that begins at a place is found by narrowing a range.
 *
 * Rejected: an index from strings to ids in the segment (nothing reads it after the build), and merges sorted by left
 * id (no probes to bound, but ten mispredicted branches where this has one cache miss). */
#ifndef WEIGHTD_ENGINE_TOKENIZER_TABLE_H
#define WEIGHTD_ENGINE_TOKENIZER_TABLE_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/engine/tokenizer.h"
#include "src/engine/tokenizer_split.h"

#define TABLE_MAGIC 0x314b4f5444544857ull /* "WHTDTOK1" */
#define TOKEN_NONE UINT32_MAX
enum { TABLE_VERSION = 1, TABLE_MAX_PROBES = 512, TABLE_MIN_SLOTS = 16 };

struct table_header {
	uint64_t magic;
	uint32_t version;
	uint32_t pre; /* enum split_kind */
	uint64_t table_bytes;
	uint32_t n_tokens;
	uint32_t n_specials;
	uint32_t merge_slots; /* a power of two */
	uint32_t text_bytes;
	uint32_t add_bos, add_eos; /* 0 or 1 */
	int32_t bos, eos, eot;	   /* -1: none */
	uint32_t pad;
	uint32_t byte_ids[256]; /* the token of each single byte, TOKEN_NONE where the vocabulary has none */
};
static_assert(sizeof(struct table_header) == 1088, "table_header is part of the segment layout");

struct table_merge {
	uint32_t left, right; /* token ids */
	uint32_t rank;	      /* the lower is merged the earlier */
	uint32_t merged;      /* token id; TOKEN_NONE marks an empty slot */
};
static_assert(sizeof(struct table_merge) == 16, "table_merge is part of the segment layout");

/* Offsets of the sections from the table's first byte. */
struct table_layout {
	uint64_t merges, starts, specials, types, text, bytes;
};

/* No sum here can overflow: four counts of 32 bits times at most 16 bytes each. */
static inline struct table_layout table_layout(const struct table_header *header)
{
	struct table_layout at;
	at.merges = sizeof *header; /* a multiple of 64: no slot straddles a cache line */
	at.starts = at.merges + sizeof(struct table_merge) * (uint64_t)header->merge_slots;
	at.specials = at.starts + 4 * ((uint64_t)header->n_tokens + 1);
	at.types = at.specials + 4 * (uint64_t)header->n_specials;
	at.text = at.types + header->n_tokens;
	at.bytes = at.text + header->text_bytes;
	return at;
}

/* A table to read; borrows it. */
struct table {
	const struct table_header *header;
	const uint32_t *starts;		  /* [n_tokens + 1] ascending offsets in text */
	const struct table_merge *merges; /* [merge_slots] */
	const uint32_t *specials;	  /* [n_specials] ids */
	const uint8_t *types;		  /* [n_tokens] enum token_type */
	const char *text;		  /* [text_bytes] */
	uint32_t merge_mask;		  /* merge_slots - 1 */
};

static inline struct table table_view(const void *bytes, const struct table_header *header)
{
	struct table_layout at = table_layout(header);
	const char *base = bytes;
	return (struct table){
		.header = header,
		.starts = (const uint32_t *)(base + at.starts),
		.merges = (const struct table_merge *)(base + at.merges),
		.specials = (const uint32_t *)(base + at.specials),
		.types = (const uint8_t *)(base + at.types),
		.text = base + at.text,
		.merge_mask = header->merge_slots - 1,
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
