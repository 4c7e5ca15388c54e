#include "src/engine/tokenizer_unigram.h"

#include <errno.h>
#include <stdlib.h>

#include "src/engine/utf8.h"

int unigram_begin(struct unigram *unigram, size_t capacity, double unknown_score)
{
	unigram->n_text = unigram->at = unigram->back = 0;
	unigram->unknown_score = unknown_score;
	if (capacity <= unigram->capacity && unigram->places)
		return 0;
	size_t grown = capacity < 64 ? 64 : capacity;
	unigram_fini(unigram);
	unigram->places = reallocarray(NULL, grown + 1, sizeof *unigram->places);
	unigram->text = malloc(grown);
	if (!unigram->places || !unigram->text) {
		unigram_fini(unigram);
		return -ENOMEM;
	}
	unigram->capacity = grown;
	unigram->unknown_score = unknown_score;
	return 0;
}

void unigram_fini(struct unigram *unigram)
{
	free(unigram->places);
	free(unigram->text);
	*unigram = (struct unigram){0};
}

void unigram_push(struct unigram *unigram, const char *bytes, size_t n_bytes)
{
	memcpy(unigram->text + unigram->n_text, bytes, n_bytes);
	for (size_t i = 0; i < n_bytes; i++)
		unigram->places[++unigram->n_text].start = UNIGRAM_UNREACHED;
}

static void reach(struct unigram *unigram, size_t start, size_t end, uint32_t id, double score)
{
	struct unigram_place *place = &unigram->places[end];
	double sum = score + unigram->places[start].score;
	if (place->start != UNIGRAM_UNREACHED && sum <= place->score)
		return;
	place->score = sum;
	place->start = (uint32_t)start;
	place->id = id;
}

/* Goes from one place along every token that begins there. Returns how many were looked for. */
static size_t go_on(struct unigram *unigram, const struct table *table)
{
	size_t start = unigram->at, n_left = unigram->n_text - start, length, n_looked = 0;
	const char *text = unigram->text + start;
	uint64_t hash = TABLE_HASH_START;
	bool alone = false;
	utf8_step(text, n_left, &length);
	size_t longest = n_left < table->header->longest_bytes ? n_left : table->header->longest_bytes;
	for (size_t n = 1; n <= longest; n++) {
		if (n > 1 && !table_joins(table, (uint8_t)text[n - 2], (uint8_t)text[n - 1]))
			break; /* no token goes on */
		hash = table_hash_byte(hash, text[n - 1]);
		if (n < length)
			continue;
		n_looked++;
		uint32_t id = table_find_hashed(table, text, n, table_hash_end(hash));
		if (id == TOKEN_NONE)
			continue;
		reach(unigram, start, start + n, id, table->scores[id]);
		alone |= n == length;
	}
	if (!alone)
		reach(unigram, start, start + length, TOKEN_NONE, unigram->unknown_score);
	unigram->at += length;
	return n_looked + 1;
}

bool unigram_search(struct unigram *unigram, const struct table *table, size_t *work)
{
	if (unigram->at == 0)
		unigram->places[0] = (struct unigram_place){.start = 0, .id = TOKEN_NONE};
	while (*work && unigram->at < unigram->n_text) {
		size_t used = go_on(unigram, table);
		*work -= used < *work ? used : *work;
		unigram->back = unigram->n_text;
	}
	if (unigram->at < unigram->n_text)
		return false;
	for (; *work && unigram->back; --*work) {
		uint32_t start = unigram->places[unigram->back].start;
		unigram->places[start].next = (uint32_t)unigram->back;
		unigram->back = start;
	}
	return !unigram->back;
}
