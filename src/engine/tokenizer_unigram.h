/* The likeliest way to write a word as tokens of a unigram vocabulary (SentencePiece's other kind): each token has the
 * logarithm of a probability, and a word becomes the tokens whose sum is the highest.
 *
 * Viterbi's search: for each place in the word, the best way to get there, which is the best way to an earlier place
 * and one token from there. From left to right that takes one look for a token for each place and each length a token
 * may have, whatever the word is. A character that is no token by itself can be crossed as unknown, at a cost that
 * makes it the last resort. Sums are made in the order and precision of the `tokenizers` library, and a way replaces
 * another only if it is better, so that ties are the same, too. */
#ifndef WEIGHTD_ENGINE_TOKENIZER_UNIGRAM_H
#define WEIGHTD_ENGINE_TOKENIZER_UNIGRAM_H

#include <stdbool.h>

#include "src/engine/tokenizer_table.h"

#define UNIGRAM_UNREACHED UINT32_MAX

/* A place between two bytes of the word: the best way there. */
struct unigram_place {
	double score;	/* the sum of that way */
	uint32_t start; /* where its last token begins; UNIGRAM_UNREACHED: no way leads here */
	uint32_t id;	/* that token; TOKEN_NONE: a character crossed as unknown */
	uint32_t next;	/* once searched: where the token that begins here ends, if the best way comes through here */
};

struct unigram {
	struct unigram_place *places; /* [capacity + 1] owned */
	char *text;		      /* [capacity] owned: the word */
	size_t capacity, n_text;
	size_t at;	      /* places before it are searched */
	size_t back;	      /* places behind it know what is next */
	double unknown_score; /* of a character crossed as unknown */
};

/* Makes room for a word of `capacity` bytes, at most 2^31, and empties it. Returns 0, -ENOMEM. */
int unigram_begin(struct unigram *unigram, size_t capacity, double unknown_score);
/* Adds a character. */
void unigram_push(struct unigram *unigram, const char *bytes, size_t n_bytes);
/* Searches, once all is pushed. *work is how many tokens may be looked for and is counted down, past the last character
 * begun; false: it is used up, call again. Afterwards the word is places[0].next and so on up to n_text. */
bool unigram_search(struct unigram *unigram, const struct table *table, size_t *work);
void unigram_fini(struct unigram *unigram);

#endif
