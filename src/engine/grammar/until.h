/* Text that may be anything until a word is said in it, as a grammar: a rule for each number of the word's characters
 * that the text so far ends with (the automaton of Knuth, Morris and Pratt, 1977), so that the word is found wherever
 * it begins and in one reading. */
#ifndef WEIGHTD_ENGINE_GRAMMAR_UNTIL_H
#define WEIGHTD_ENGINE_GRAMMAR_UNTIL_H

#include <stdbool.h>

#include "src/engine/grammar/nodes.h"

enum { UNTIL_WORD_MAX = 32 };
#define UNTIL_NEVER UINT32_MAX /* instead of a rule: it may not be said */

struct until {
	const char *word; /* ASCII, 1 to UNTIL_WORD_MAX characters */
	uint32_t said;	  /* the rule of what follows the word, or UNTIL_NEVER */
	uint32_t marked;  /* the rule of what follows PIECES_MARK, which may come at any place, or UNTIL_NEVER */
	bool may_end;	  /* the text may end without the word */
};

/* rules[i]: what may come where the text so far ends with the word's first i characters; [0] is any text's beginning.
 * Room for UNTIL_WORD_MAX. */
void until_rules(struct grammar *grammar, const struct until *until, uint32_t rules[]);

#endif
