#include "src/engine/grammar/until.h"

#include <string.h>

#include "src/engine/grammar/pieces.h"

/* How many of the word's characters a text ends with that ended with n of them and goes on with c. */
static size_t go_on(const char *word, size_t n, char c)
{
	for (size_t k = n + 1; k > 0; k--)
		if (word[k - 1] == c && memcmp(word, word + n - (k - 1), k - 1) == 0)
			return k;
	return 0;
}

static uint32_t after(struct grammar *g, const struct until *u, const uint32_t rules[], size_t n)
{
	struct charset rest = {1, {{0, CODE_POINT_MAX}}};
	size_t length = strlen(u->word);
	uint32_t choice = grammar_choice(g);
	if (u->may_end)
		grammar_append(g, choice, grammar_sequence(g));
	for (const char *c = u->word; *c; c++) {
		uint32_t code = (unsigned char)*c;
		if (!charset_has(&rest, code))
			continue; /* it was there before */
		charset_remove(&rest, code, code);
		size_t k = go_on(u->word, n, *c);
		uint32_t next = k < length ? rules[k] : u->said;
		if (next != UNTIL_NEVER)
			grammar_append(g, choice, grammar_then(g, grammar_bytes(g, c, 1), next));
	}
	grammar_append(g, choice, grammar_then(g, grammar_class(g, &rest), rules[0]));
	if (u->marked != UNTIL_NEVER)
		grammar_append(g, choice, grammar_then(g, grammar_text(g, PIECES_MARK), u->marked));
	return choice;
}

void until_rules(struct grammar *g, const struct until *u, uint32_t rules[])
{
	size_t length = strlen(u->word);
	for (size_t i = 0; i < length; i++)
		rules[i] = grammar_declare(g, u->word, length);
	for (size_t i = 0; i < length; i++)
		grammar_define(g, rules[i], after(g, u, rules, i));
}
