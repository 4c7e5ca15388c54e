/* JSON itself: white space, strings, numbers, any value. */
#include <string.h>

#include "src/engine/grammar/schema.h"

static const struct charset
	digits = {1, {{'0', '9'}}},
	digits_1_to_9 = {1, {{'1', '9'}}}, blanks = {2, {{'\t', '\t'}, {' ', ' '}}},
	hex_digits = {3, {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}},
	hex_not_d = {5, {{'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}}},
	letter_d = {2, {{'D', 'D'}, {'d', 'd'}}}, below_8 = {1, {{'0', '7'}}},
	escapes = {8,
		   {{'"', '"'}, {'/', '/'}, {'\\', '\\'}, {'b', 'b'}, {'f', 'f'}, {'n', 'n'}, {'r', 'r'}, {'t', 't'}}},
	plain = {4, {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x7E}, {0x80, CODE_POINT_MAX}}};

static uint32_t sequence_of(struct grammar *g, uint32_t n, const uint32_t nodes[])
{
	uint32_t list = grammar_sequence(g);
	for (uint32_t i = 0; i < n; i++)
		grammar_append(g, list, nodes[i]);
	return list;
}

static uint32_t choice_of(struct grammar *g, uint32_t n, const uint32_t nodes[])
{
	uint32_t list = grammar_choice(g);
	for (uint32_t i = 0; i < n; i++)
		grammar_append(g, list, nodes[i]);
	return list;
}
#define SEQUENCE(g, ...) sequence_of(g, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), (uint32_t[]){__VA_ARGS__})
#define CHOICE(g, ...) choice_of(g, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), (uint32_t[]){__VA_ARGS__})

/* Nothing, a blank, or a line end and an indentation. */
static uint32_t space_rule(struct grammar *g)
{
	uint32_t indentation = grammar_repeat(g, grammar_class(g, &blanks), 0, 20);
	return grammar_rule(
		g, "white space",
		CHOICE(g, grammar_sequence(g), grammar_text(g, " "), SEQUENCE(g, grammar_text(g, "\n"), indentation)));
}

/* One character of a string, as it is or escaped. Surrogates have no escape here, so every character is one code point.
 */
static uint32_t character_rule(struct grammar *g)
{
	uint32_t low = SEQUENCE(g, grammar_class(g, &hex_not_d), grammar_class(g, &hex_digits));
	uint32_t high = SEQUENCE(g, grammar_class(g, &letter_d), grammar_class(g, &below_8));
	uint32_t number = SEQUENCE(g, grammar_text(g, "u"), CHOICE(g, low, high), grammar_class(g, &hex_digits),
				   grammar_class(g, &hex_digits));
	uint32_t escape = SEQUENCE(g, grammar_text(g, "\\"), CHOICE(g, grammar_class(g, &escapes), number));
	return grammar_rule(g, "a character", CHOICE(g, grammar_class(g, &plain), escape));
}

static uint32_t integer_rule(struct grammar *g)
{
	uint32_t rest = grammar_repeat(g, grammar_class(g, &digits), 0, 14);
	return grammar_rule(
		g, "an integer",
		SEQUENCE(g, grammar_repeat(g, grammar_text(g, "-"), 0, 1),
			 CHOICE(g, grammar_text(g, "0"), SEQUENCE(g, grammar_class(g, &digits_1_to_9), rest))));
}

static uint32_t number_rule(struct schema *s)
{
	static const struct charset e = {2, {{'E', 'E'}, {'e', 'e'}}}, sign = {2, {{'+', '+'}, {'-', '-'}}};
	struct grammar *g = s->grammar;
	uint32_t fraction = SEQUENCE(g, grammar_text(g, "."), grammar_repeat(g, grammar_class(g, &digits), 1, 16));
	uint32_t exponent = SEQUENCE(g, grammar_class(g, &e), grammar_repeat(g, grammar_class(g, &sign), 0, 1),
				     grammar_repeat(g, grammar_class(g, &digits), 1, 2));
	return grammar_rule(g, "a number",
			    SEQUENCE(g, grammar_reference(g, s->integer), grammar_repeat(g, fraction, 0, 1),
				     grammar_repeat(g, exponent, 0, 1)));
}

uint32_t schema_space(struct schema *s)
{
	return grammar_reference(s->grammar, s->space);
}

/* open, nothing or parts with commas between them, close. */
static uint32_t list_of(struct schema *s, const char *open, uint32_t part, const char *close)
{
	struct grammar *g = s->grammar;
	uint32_t more = SEQUENCE(g, grammar_text(g, ","), schema_space(s), grammar_reference(g, part));
	uint32_t parts =
		SEQUENCE(g, grammar_reference(g, part), grammar_repeat(g, more, 0, GRAMMAR_UNBOUNDED), schema_space(s));
	return SEQUENCE(g, grammar_text(g, open), schema_space(s), grammar_repeat(g, parts, 0, 1),
			grammar_text(g, close));
}

void schema_basic_rules(struct schema *s)
{
	struct grammar *g = s->grammar;
	s->space = space_rule(g);
	s->character = character_rule(g);
	s->string = grammar_rule(g, "a string",
				 SEQUENCE(g, grammar_text(g, "\""),
					  grammar_repeat(g, grammar_reference(g, s->character), 0, GRAMMAR_UNBOUNDED),
					  grammar_text(g, "\"")));
	s->integer = integer_rule(g);
	s->number = number_rule(s);
	s->value = grammar_declare(g, "a value", 7);
	uint32_t member = grammar_rule(g, "a member",
				       SEQUENCE(g, grammar_reference(g, s->string), grammar_text(g, ":"),
						schema_space(s), grammar_reference(g, s->value)));
	s->object = grammar_rule(g, "an object", list_of(s, "{", member, "}"));
	s->array = grammar_rule(g, "an array", list_of(s, "[", s->value, "]"));
	grammar_define(g, s->value,
		       CHOICE(g, grammar_reference(g, s->object), grammar_reference(g, s->array),
			      grammar_reference(g, s->string), grammar_reference(g, s->number), grammar_text(g, "true"),
			      grammar_text(g, "false"), grammar_text(g, "null")));
}
