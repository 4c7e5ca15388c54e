/* Numbers as Python computes, reads and prints them. Reading and printing use the C library, so the process must not
 * have set a locale with another decimal point; nothing in this program sets one. */
#ifndef WEIGHTD_ENGINE_TEMPLATE_NUMBER_H
#define WEIGHTD_ENGINE_TEMPLATE_NUMBER_H

#include "src/engine/template/ast.h"
#include "src/engine/template/text.h"
#include "src/engine/template/value.h"

enum { NUMBER_TEXT_BYTES = 40 };

/* repr(real): the shortest decimal that reads back the same. Returns the length. */
size_t number_repr(double real, char text[NUMBER_TEXT_BYTES]);
/* a op b for numbers; -EINVAL where Python raises and where an integer leaves 64 bits. */
int number_arithmetic(struct render *render, enum operator_kind op, struct value a, struct value b,
		      struct value *result);
/* round(value, digits): an int stays one. */
int number_round(struct render *render, struct value value, int64_t digits, struct value *result);
/* float(value) for numbers. */
double number_real(struct value value);

enum number_parse { NUMBER_OK, NUMBER_BAD, NUMBER_TOO_LARGE };

/* int(text, base) and float(text), with Python's white space, signs, underscores and prefixes; base 0 or 2…36. */
enum number_parse number_parse_int(const struct text *text, int base, int64_t *integer);
enum number_parse number_parse_float(const struct text *text, double *real);

#endif
