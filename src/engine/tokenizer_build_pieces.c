/* The sections of a SentencePiece vocabulary (GGUF tokenizer.ggml.model "llama"), or one that was converted from it.
 *
 * Scores become ranks: only their order counts, equal scores are equal ranks, and ranks are small integers that the
 * merging heap can hold beside a position. Only normal tokens are merged into: SentencePiece keeps control, unknown and
 * byte tokens out of its search, and user-defined ones are cut out of the text before. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "src/engine/tokenizer_build.h"
#include "src/engine/tokenizer_spelling.h"

/* SentencePiece writes every blank of a text as U+2581 before it searches, so a token spelled with a blank itself is
 * never found. */
static bool is_searched(const struct draft *draft, uint32_t id)
{
	struct tokenizer_string spelled = draft->source->tokens[id];
	return draft->types[id] == TOKEN_NORMAL && spelled.n_bytes && !memchr(spelled.bytes, ' ', spelled.n_bytes);
}

int draft_strings(struct draft *draft, struct err *err)
{
	memset(draft->strings, 0xff, draft->header->string_slots * sizeof *draft->strings);
	for (uint32_t id = 0; id < draft->header->n_tokens; id++) {
		if (!is_searched(draft, id))
			continue;
		struct tokenizer_string piece = table_piece(&draft->view, id);
		uint32_t hash = table_string_hash(piece.bytes, piece.n_bytes), slot = hash, probe = 0;
		while (draft->strings[slot & draft->view.string_mask].id != TOKEN_NONE) {
			if (++probe == TABLE_MAX_PROBES)
				return err_set(err, -EINVAL, "tokenizer.ggml.tokens: made to collide (at %u)", id);
			slot++;
		}
		draft->strings[slot & draft->view.string_mask] = (struct table_string){hash, id};
	}
	return 0;
}

/* Merging by spelling finds what is searched; a list of merges may lead to any token but one that stands for a byte. */
static bool is_joined(const struct draft *draft, uint32_t id)
{
	return draft->header->kind != TABLE_CHARACTERS ? is_searched(draft, id) : draft->types[id] != TOKEN_BYTE;
}

static void write_joins(struct draft *draft)
{
	for (uint32_t id = 0; id < draft->header->n_tokens; id++) {
		struct tokenizer_string piece = table_piece(&draft->view, id);
		if (!is_joined(draft, id))
			continue;
		for (uint32_t i = 1; i < piece.n_bytes; i++) {
			uint32_t pair = (uint32_t)(uint8_t)piece.bytes[i - 1] << 8 | (uint8_t)piece.bytes[i];
			draft->joins[pair / 8] |= (uint8_t)(1u << pair % 8);
		}
	}
}

static int compare_scores(const void *a, const void *b, void *context)
{
	const float *scores = context;
	float left = scores[*(const uint32_t *)a], right = scores[*(const uint32_t *)b];
	return (left < right) - (left > right);
}

static int write_ranks(struct draft *draft, struct err *err)
{
	const float *scores = draft->source->scores;
	uint32_t n = draft->header->n_tokens, rank = 0;
	for (uint32_t id = 0; id < n; id++)
		if (!isfinite(scores[id]))
			return err_set(err, -EINVAL, "tokenizer.ggml.scores[%u] = %g: not a finite number", id,
				       (double)scores[id]);
	uint32_t *order = malloc(n * sizeof *order);
	if (!order)
		return -ENOMEM;
	for (uint32_t id = 0; id < n; id++)
		order[id] = id;
	qsort_r(order, n, sizeof *order, compare_scores, (void *)(uintptr_t)scores);
	for (uint32_t i = 0; i < n; i++) {
		rank += i && scores[order[i]] < scores[order[i - 1]];
		draft->ranks[order[i]] = rank;
	}
	free(order);
	return 0;
}

static int write_byte_tokens(struct draft *draft, struct err *err)
{
	uint32_t *byte_ids = draft->header->byte_ids, n_found = 0;
	memset(byte_ids, 0xff, sizeof draft->header->byte_ids);
	for (uint32_t id = 0; id < draft->header->n_tokens; id++) {
		if (draft->types[id] != TOKEN_BYTE)
			continue;
		uint8_t byte = (uint8_t)*table_piece(&draft->view, id).bytes;
		if (byte_ids[byte] == TOKEN_NONE) /* the first one counts where two differ in the case of a digit */
			byte_ids[byte] = id;
		n_found++;
	}
	if (!n_found && draft->header->unk < 0)
		return err_set(
			err, -EINVAL,
			"tokenizer.ggml.tokens: neither byte tokens nor an unknown_token_id: characters that are no "
			"tokens would be lost");
	return 0;
}

static int write_scores(struct draft *draft, struct err *err)
{
	const double *scores = draft->source->log_probabilities;
	for (uint32_t id = 0; id < draft->header->n_scores; id++) {
		if (!isfinite(scores[id]))
			return err_set(err, -EINVAL, "the score of token %u is %g: not a finite number", id,
				       scores[id]);
		draft->scores[id] = scores[id];
	}
	return 0;
}

int draft_pieces(struct draft *draft, struct err *err)
{
	int ret = write_byte_tokens(draft, err);
	if (ret == 0)
		ret = draft_strings(draft, err);
	if (ret == 0 && draft->header->kind == TABLE_PIECES)
		ret = write_ranks(draft, err);
	if (ret == 0)
		ret = write_scores(draft, err);
	if (ret == 0)
		write_joins(draft);
	return ret;
}
