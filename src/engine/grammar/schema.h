/* JSON Schema (2020-12, the part that OpenAI's structured outputs have and some more) as a grammar: between the files
 * schema*.c.
 *
 * Every text of the grammar is an instance the schema allows. Not every such instance is a text of it: members come in
 * the order of `properties`, white space is at most what people write, numbers have at most 15 digits in front. What
 * can't be enforced is refused with the place in the schema; only words that describe (title, examples) are passed
 * over. */
#ifndef WEIGHTD_ENGINE_GRAMMAR_SCHEMA_H
#define WEIGHTD_ENGINE_GRAMMAR_SCHEMA_H

#include <yyjson.h>

#include "src/engine/grammar/compile.h"

enum { SCHEMA_DEPTH_MAX = 64, SCHEMA_PATH_MAX = 160 };

/* Types of JSON as a set; every integer is a number. */
enum schema_type {
	SCHEMA_NULL = 1u << 0,
	SCHEMA_BOOLEAN = 1u << 1,
	SCHEMA_INTEGER = 1u << 2,
	SCHEMA_NUMBER = 1u << 3,
	SCHEMA_STRING = 1u << 4,
	SCHEMA_ARRAY = 1u << 5,
	SCHEMA_OBJECT = 1u << 6,
	SCHEMA_ANY = 0x7F,
};

/* A place that $ref named, which is a rule; they are read one after another, not within each other. */
struct schema_target {
	yyjson_val *value;
	uint32_t rule;
	char path[SCHEMA_PATH_MAX];
};

struct schema {
	struct grammar *grammar;
	yyjson_val *root;
	struct err *err;
	char path[SCHEMA_PATH_MAX]; /* where we are, as a JSON pointer */
	size_t n_path;
	uint32_t depth;
	struct schema_target *targets; /* [n_targets] owned; those before n_read are read */
	uint32_t n_targets, n_read, targets_capacity;
	/* Rules that most schemas need. */
	uint32_t space, character, string, integer, number, value, object, array;
};

/* -EINVAL with the path in front. */
__attribute__((format(printf, 2, 3))) int schema_fault(struct schema *schema, const char *format, ...);
/* Goes down into a member or item and back: the path, cut where it is too long. */
size_t schema_enter(struct schema *schema, const char *name);
void schema_leave(struct schema *schema, size_t mark);

/* schema.c. Begins with the rules above; then any number of whole schemas, each with places of its own to name, become
 * rules. -EINVAL with the path in the schema. */
void schema_begin(struct schema *schema, struct grammar *grammar, struct err *err);
int schema_rule(struct schema *schema, yyjson_val *root, uint32_t *rule);
void schema_end(struct schema *schema);
/* Any part of a schema. */
int schema_node(struct schema *schema, yyjson_val *value, uint32_t *node);
uint32_t schema_types(yyjson_val *value);	/* of "type": a set; 0: not a type or list of types */
uint32_t schema_value_types(yyjson_val *value); /* of a schema: of its "type", or what its words speak of */
bool schema_is_note(yyjson_val *key);		/* describes and does not constrain */
uint32_t schema_literal(struct schema *schema, yyjson_val *value);		   /* as compact JSON */
int schema_target(struct schema *schema, yyjson_val *reference, yyjson_val **out); /* what $ref names */

/* schema_basic.c: the rules above; schema_string.c, schema_number.c, schema_object.c, schema_array.c, schema_choice.c.
 */
void schema_basic_rules(struct schema *schema);
int schema_string(struct schema *schema, yyjson_val *value, uint32_t *node);
int schema_number(struct schema *schema, yyjson_val *value, bool integer, uint32_t *node);
int schema_object(struct schema *schema, yyjson_val *value, uint32_t *node);
int schema_array(struct schema *schema, yyjson_val *value, uint32_t *node);
int schema_any_of(struct schema *schema, yyjson_val *list, const char *word, uint32_t *node);
int schema_disjoint(struct schema *schema, yyjson_val *list); /* whether oneOf is anyOf */

/* The space a person would put between parts, or none. */
uint32_t schema_space(struct schema *schema);
/* A count such as minLength; `missing` where there is none. -EINVAL: not a count that fits. */
int schema_count(struct schema *schema, yyjson_val *value, const char *word, uint32_t missing, uint32_t *out);

#endif
