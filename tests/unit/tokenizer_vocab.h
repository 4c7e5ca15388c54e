/* Making small byte-level vocabularies for tests, and tables of them. Out of memory ends the test. */
#ifndef WEIGHTD_TESTS_TOKENIZER_VOCAB_H
#define WEIGHTD_TESTS_TOKENIZER_VOCAB_H

#include "src/engine/tokenizer.h"

struct vocab {
	struct tokenizer_source source; /* everything below, ready for the builder; owned */
	struct tokenizer_string *tokens;
	int32_t *types;
	struct tokenizer_string *merges;
	uint32_t (*merge_ids)[3]; /* left, right, merged, as ids */
};

/* Model "gpt2", pre-tokenizer "smollm", no special ids; the 256 bytes are tokens 0 to 255. */
void vocab_init(struct vocab *vocab);
/* Only the bytes for which keep[byte] is not 0, in their order. */
void vocab_init_bytes(struct vocab *vocab, const uint8_t keep[256]);
void vocab_fini(struct vocab *vocab);

/* Adds a token as the file would spell it and returns its id. */
uint32_t vocab_add(struct vocab *vocab, const char *spelled, uint32_t n_bytes, enum token_type type);
/* Adds the merge of two tokens, and its result if no token is spelled like that yet. Returns the result. */
uint32_t vocab_merge(struct vocab *vocab, uint32_t left, uint32_t right);
/* Merges the bytes of `text` from left to right: "abc" adds ab and abc. Returns the whole. */
uint32_t vocab_word(struct vocab *vocab, const char *text);
/* The id of the token that is spelled like this, UINT32_MAX if there is none. */
uint32_t vocab_find(const struct vocab *vocab, const char *spelled, uint32_t n_bytes);

/* Builds the table in memory of exactly its size, 64-byte aligned; *table returns owned. */
int vocab_table(const struct tokenizer_source *source, void **table, uint64_t *bytes, struct err *err);

/* A vocabulary and the tokenizer attached to its table. Zeroed to begin with; fill in `vocab`, then attach. */
struct fixture {
	struct vocab vocab;
	void *table;
	uint64_t table_bytes;
	struct tokenizer *tokenizer;
};
/* 0 or what building and attaching said. */
int fixture_attach(struct fixture *fixture, struct err *err);
void fixture_fini(struct fixture *fixture);

#endif
