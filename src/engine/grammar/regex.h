/* Regular expressions as ECMAScript and JSON Schema write them, less what no automaton can do: no references back, no
 * looking ahead or behind, no word boundaries.
 *
 * Alternatives, groups (capturing, named or not: the same here), classes, . \d \D \w \W \s \S, escapes, * + ? {n} {n,}
 * {n,m} and their lazy forms. ^ and $ only at the ends of the whole expression or of its alternatives. \d and \w are
 * ASCII, as in ECMAScript; \s is ASCII and what \S leaves out is all that Unicode calls white space. */
#ifndef WEIGHTD_ENGINE_GRAMMAR_REGEX_H
#define WEIGHTD_ENGINE_GRAMMAR_REGEX_H

#include "src/engine/grammar/nodes.h"

/* Where the text stands: as it is, or between the quotes of a JSON string, where some characters are escaped. */
enum regex_place { REGEX_TEXT, REGEX_JSON };
/* What is to match: the whole text, as anchors at both ends would have it, or any part of it. */
enum regex_match { REGEX_WHOLE, REGEX_PART };

/* -EINVAL with the byte at fault. */
int regex_read(const char *source, size_t n_bytes, enum regex_place place, enum regex_match match,
	       struct grammar *grammar, uint32_t *node, struct err *err);

/* One code point of a set, as it is spelled in this place. */
uint32_t regex_class(struct grammar *grammar, enum regex_place place, const struct charset *set);

#endif
