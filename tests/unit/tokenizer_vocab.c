#include "tests/unit/tokenizer_vocab.h"

#include <stdlib.h>
#include <string.h>

static void *grow(void *array, uint32_t n, size_t element_bytes)
{
	/* A power of two is the moment to double. */
	if (n && (n & (n - 1)))
		return array;
	array = reallocarray(array, n ? 2 * (size_t)n : 1, element_bytes);
	if (!array)
		abort();
	return array;
}

static struct tokenizer_string copy(const char *head, uint32_t n_head, const char *tail, uint32_t n_tail)
{
	char *bytes = malloc((size_t)n_head + n_tail + 1);
	if (!bytes)
		abort();
	if (n_head)
		memcpy(bytes, head, n_head);
	if (n_tail)
		memcpy(bytes + n_head, tail, n_tail);
	return (struct tokenizer_string){bytes, n_head + n_tail};
}

void vocab_init_bytes(struct vocab *vocab, const uint8_t keep[256])
{
	*vocab = (struct vocab){
		.source = {.model = "gpt2", .pre = "smollm", .bos = -1, .eos = -1, .eot = -1, .unk = -1, .pad = -1}};
	/* As GPT-2's encoder.py tells it: visible Latin-1 characters stand for themselves, the other bytes for the
	 * characters from 256 on, in order. */
	uint32_t next = 256;
	for (uint32_t byte = 0; byte < 256; byte++) {
		bool visible = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
		uint32_t character = visible ? byte : next++;
		char spelled[2] = {(char)(0xc0 | character >> 6), (char)(0x80 | (character & 0x3f))};
		if (!keep[byte])
			continue;
		if (character < 0x80)
			vocab_add(vocab, (char[]){(char)character}, 1, TOKEN_NORMAL);
		else
			vocab_add(vocab, spelled, 2, TOKEN_NORMAL);
	}
}

void vocab_init(struct vocab *vocab)
{
	uint8_t keep[256];
	memset(keep, 1, sizeof keep);
	vocab_init_bytes(vocab, keep);
}

void vocab_fini(struct vocab *vocab)
{
	for (uint32_t i = 0; i < vocab->source.n_tokens; i++)
		free((char *)vocab->tokens[i].bytes);
	for (uint32_t i = 0; i < vocab->source.n_merges; i++)
		free((char *)vocab->merges[i].bytes);
	free(vocab->tokens);
	free(vocab->types);
	free(vocab->merges);
	free(vocab->merge_ids);
}

uint32_t vocab_add(struct vocab *vocab, const char *spelled, uint32_t n_bytes, enum token_type type)
{
	struct tokenizer_source *source = &vocab->source;
	vocab->tokens = grow(vocab->tokens, source->n_tokens, sizeof *vocab->tokens);
	vocab->types = grow(vocab->types, source->n_tokens, sizeof *vocab->types);
	vocab->tokens[source->n_tokens] = copy(spelled, n_bytes, NULL, 0);
	vocab->types[source->n_tokens] = (int32_t)type;
	source->tokens = vocab->tokens;
	source->types = vocab->types;
	return source->n_tokens++;
}

uint32_t vocab_find(const struct vocab *vocab, const char *spelled, uint32_t n_bytes)
{
	for (uint32_t id = 0; id < vocab->source.n_tokens; id++)
		if (vocab->tokens[id].n_bytes == n_bytes && memcmp(vocab->tokens[id].bytes, spelled, n_bytes) == 0)
			return id;
	return UINT32_MAX;
}

uint32_t vocab_merge(struct vocab *vocab, uint32_t left, uint32_t right)
{
	struct tokenizer_source *source = &vocab->source;
	struct tokenizer_string l = vocab->tokens[left], r = vocab->tokens[right];
	struct tokenizer_string joined = copy(l.bytes, l.n_bytes, r.bytes, r.n_bytes);
	uint32_t merged = vocab_find(vocab, joined.bytes, joined.n_bytes);
	if (merged == UINT32_MAX)
		merged = vocab_add(vocab, joined.bytes, joined.n_bytes, TOKEN_NORMAL);
	free((char *)joined.bytes);
	l = vocab->tokens[left];
	r = vocab->tokens[right];
	struct tokenizer_string spaced = copy(l.bytes, l.n_bytes, " ", 1);
	vocab->merges = grow(vocab->merges, source->n_merges, sizeof *vocab->merges);
	vocab->merge_ids = grow(vocab->merge_ids, source->n_merges, sizeof *vocab->merge_ids);
	vocab->merges[source->n_merges] = copy(spaced.bytes, spaced.n_bytes, r.bytes, r.n_bytes);
	vocab->merge_ids[source->n_merges][0] = left;
	vocab->merge_ids[source->n_merges][1] = right;
	vocab->merge_ids[source->n_merges][2] = merged;
	free((char *)spaced.bytes);
	source->merges = vocab->merges;
	source->n_merges++;
	return merged;
}

uint32_t vocab_word(struct vocab *vocab, const char *text)
{
	uint32_t whole = (uint8_t)text[0];
	for (const char *p = text + 1; *p; p++)
		whole = vocab_merge(vocab, whole, (uint8_t)*p);
	return whole;
}

int vocab_table(const struct tokenizer_source *source, void **table, uint64_t *bytes, struct err *err)
{
	uint64_t n_bytes;
	int ret = tokenizer_table_bytes(source, &n_bytes, err);
	if (ret < 0)
		return ret;
	/* posix_memalign takes any size: the sanitizer sees a step past the last byte. */
	void *memory;
	if (posix_memalign(&memory, 64, n_bytes) != 0)
		abort();
	memset(memory, 0, n_bytes);
	ret = tokenizer_table_build(source, memory, n_bytes, err);
	if (ret < 0) {
		free(memory);
		return ret;
	}
	*table = memory;
	*bytes = n_bytes;
	return 0;
}

int fixture_attach(struct fixture *fixture, struct err *err)
{
	int rc = vocab_table(&fixture->vocab.source, &fixture->table, &fixture->table_bytes, err);
	return rc ? rc : tokenizer_attach(fixture->table, fixture->table_bytes, &fixture->tokenizer, err);
}

void fixture_fini(struct fixture *fixture)
{
	tokenizer_detach(fixture->tokenizer);
	free(fixture->table);
	vocab_fini(&fixture->vocab);
}
