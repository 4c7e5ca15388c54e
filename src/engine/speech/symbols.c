#include "src/engine/speech/symbols.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Suppressed where they are one token. */
static const char *const symbols[] = {
	"\"",  "#",  "(",  ")",	 "*",	"+",  "/",  ":",   ";",	  "<",	"=",  ">",  "@",  "[",	 "\\",	"]",
	"^",   "_",  "`",  "{",	 "|",	"}",  "~",  "「",  "」",  "『", "』", "<<", ">>", "<<<", ">>>", "--",
	"---", "-(", "-[", "('", "(\"", "((", "))", "(((", ")))", "[[", "]]", "{{", "}}", "♪♪",	 "♪♪♪",
};
/* Suppressed by their first token, which they share with other signs of U+2640 to U+267F and with nothing that is said.
 */
static const char *const signs[] = {"♩", "♪", "♫", "♬", "♭", "♮", "♯"};
/* Suppressed by their first token, too: only at the beginning of a word. */
static const char *const marks[] = {" -", " '"};

/* Leaves of the tokens of a text the first, if it is the only one or `first` asks for it. */
static int add(const struct tokenizer *tokenizer, const char *text, bool first, struct token_list *out, struct err *err)
{
	size_t before = out->n;
	int failed = tokenizer_encode(tokenizer, text, strlen(text), false, false, 64, out, err);
	if (failed)
		return failed;
	out->n = out->n > before && (first || out->n == before + 1) ? before + 1 : before;
	return 0;
}

static int add_both(const struct tokenizer *tokenizer, const char *symbol, bool first, struct token_list *out,
		    struct err *err)
{
	char behind_blank[16];
	snprintf(behind_blank, sizeof behind_blank, " %s", symbol);
	int failed = add(tokenizer, symbol, first, out, err);
	return failed ? failed : add(tokenizer, behind_blank, first, out, err);
}

int speech_symbols(const struct tokenizer *tokenizer, struct token_list *out, struct err *err)
{
	int failed = 0;
	for (size_t i = 0; !failed && i < sizeof symbols / sizeof *symbols; i++)
		failed = add_both(tokenizer, symbols[i], false, out, err);
	for (size_t i = 0; !failed && i < sizeof signs / sizeof *signs; i++)
		failed = add_both(tokenizer, signs[i], true, out, err);
	for (size_t i = 0; !failed && i < sizeof marks / sizeof *marks; i++)
		failed = add(tokenizer, marks[i], true, out, err);
	return failed;
}
