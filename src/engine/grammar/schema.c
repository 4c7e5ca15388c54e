#include "src/engine/grammar/schema.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int schema_fault(struct schema *s, const char *format, ...)
{
	char text[200];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	return err_set(s->err, -EINVAL, "at '#%.100s' of the schema: %s", s->path, text);
}

size_t schema_enter(struct schema *s, const char *name)
{
	size_t mark = s->n_path;
	int n = snprintf(s->path + s->n_path, sizeof s->path - s->n_path, "/%s", name);
	s->n_path += (size_t)n < sizeof s->path - s->n_path ? (size_t)n : sizeof s->path - s->n_path - 1;
	return mark;
}

void schema_leave(struct schema *s, size_t mark)
{
	s->n_path = mark;
	s->path[mark] = '\0';
}

/* --- words ------------------------------------------------------------------------------------ */

static bool is_one_of(yyjson_val *key, const char *const *words)
{
	for (; *words; words++)
		if (yyjson_equals_str(key, *words))
			return true;
	return false;
}

bool schema_is_note(yyjson_val *key)
{
	static const char *const notes[] = {
		"title",    "description", "default",	       "examples",	  "$schema",  "$id",
		"$comment", "$defs",	   "definitions",      "deprecated",	  "readOnly", "writeOnly",
		"$anchor",  "nullable",	   "contentMediaType", "contentEncoding", NULL};
	/* nullable is OpenAPI's; false is what leaves nothing to enforce, true is looked for. */
	return is_one_of(key, notes);
}

static int check_words(struct schema *s, yyjson_val *value)
{
	static const char *const known[] = {"type",
					    "enum",
					    "const",
					    "anyOf",
					    "oneOf",
					    "allOf",
					    "$ref",
					    "properties",
					    "required",
					    "additionalProperties",
					    "items",
					    "prefixItems",
					    "minItems",
					    "maxItems",
					    "minLength",
					    "maxLength",
					    "pattern",
					    "format",
					    "minimum",
					    "maximum",
					    "exclusiveMinimum",
					    "exclusiveMaximum",
					    NULL};
	yyjson_obj_iter members = yyjson_obj_iter_with(value);
	for (yyjson_val *key; (key = yyjson_obj_iter_next(&members));) {
		yyjson_val *member = yyjson_obj_iter_get_val(key);
		bool nothing = (yyjson_equals_str(key, "uniqueItems") || yyjson_equals_str(key, "nullable")) &&
			       yyjson_is_false(member);
		if (yyjson_equals_str(key, "nullable") && !nothing)
			return schema_fault(s, "'nullable' is not JSON Schema; use a list of types with \"null\"");
		if (!nothing && !schema_is_note(key) && !is_one_of(key, known))
			return schema_fault(s, "'%.40s' can't be enforced", yyjson_get_str(key));
	}
	return 0;
}

/* A word that stands for the whole schema has only notes beside it. */
static int check_alone(struct schema *s, yyjson_val *value, const char *word)
{
	yyjson_obj_iter members = yyjson_obj_iter_with(value);
	for (yyjson_val *key; (key = yyjson_obj_iter_next(&members));)
		if (!yyjson_equals_str(key, word) && !schema_is_note(key))
			return schema_fault(s, "'%s' together with '%.40s' can't be enforced", word,
					    yyjson_get_str(key));
	return 0;
}

static uint32_t type_of_name(yyjson_val *name)
{
	static const char *const names[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
	for (uint32_t i = 0; i < 7; i++)
		if (yyjson_equals_str(name, names[i]))
			return 1u << i;
	return 0;
}

uint32_t schema_types(yyjson_val *type)
{
	if (yyjson_is_str(type))
		return type_of_name(type);
	uint32_t types = 0;
	yyjson_arr_iter items = yyjson_arr_iter_with(type);
	for (yyjson_val *item; (item = yyjson_arr_iter_next(&items));) {
		if (!type_of_name(item))
			return 0;
		types |= type_of_name(item);
	}
	return types;
}

int schema_count(struct schema *s, yyjson_val *value, const char *word, uint32_t missing, uint32_t *out)
{
	yyjson_val *count = yyjson_obj_get(value, word);
	*out = missing;
	if (!count)
		return 0;
	if (!yyjson_is_uint(count) || yyjson_get_uint(count) >= UINT32_MAX)
		return schema_fault(s, "'%s' must be a count", word);
	*out = (uint32_t)yyjson_get_uint(count);
	return 0;
}

uint32_t schema_literal(struct schema *s, yyjson_val *value)
{
	size_t n;
	char *text = yyjson_val_write(value, YYJSON_WRITE_NOFLAG, &n);
	uint32_t node = grammar_bytes(s->grammar, text ? text : "", n * !!text);
	if (!text && !s->grammar->fault)
		s->grammar->fault = -ENOMEM;
	free(text);
	return node;
}

/* --- $ref ------------------------------------------------------------------------------------- */

int schema_target(struct schema *s, yyjson_val *reference, yyjson_val **out)
{
	const char *text = yyjson_get_str(reference);
	if (!text || text[0] != '#' || (text[1] && text[1] != '/'))
		return schema_fault(s, "'$ref' must name a place in this schema, as '#/$defs/name' does");
	*out = text[1] ? yyjson_ptr_getn(s->root, text + 1, yyjson_get_len(reference) - 1) : s->root;
	return *out ? 0 : schema_fault(s, "there is no '%.80s' in this schema", text);
}

static int reference(struct schema *s, yyjson_val *name, uint32_t *node)
{
	yyjson_val *value;
	int rc = schema_target(s, name, &value);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < s->n_targets; i++)
		if (s->targets[i].value == value) {
			*node = grammar_reference(s->grammar, s->targets[i].rule);
			return 0;
		}
	if (s->n_targets == s->targets_capacity) {
		uint32_t capacity = s->targets_capacity ? 2 * s->targets_capacity : 16;
		struct schema_target *targets = realloc(s->targets, capacity * sizeof *targets);
		if (!targets)
			return err_set(s->err, -ENOMEM, "out of memory for the schema");
		s->targets = targets;
		s->targets_capacity = capacity;
	}
	const char *text = yyjson_get_str(name);
	struct schema_target *target = &s->targets[s->n_targets++];
	*target = (struct schema_target){.value = value, .rule = grammar_declare(s->grammar, text, strlen(text))};
	snprintf(target->path, sizeof target->path, "%s", text + 1);
	*node = grammar_reference(s->grammar, target->rule);
	return 0;
}

/* --- any schema ------------------------------------------------------------------------------- */

static bool has_type(uint32_t types, yyjson_val *value)
{
	if (yyjson_is_int(value) ||
	    (yyjson_is_real(value) && yyjson_get_real(value) == (double)(int64_t)yyjson_get_real(value)))
		return types & (SCHEMA_INTEGER | SCHEMA_NUMBER);
	return types & (yyjson_is_null(value)	? SCHEMA_NULL
			: yyjson_is_bool(value) ? SCHEMA_BOOLEAN
			: yyjson_is_num(value)	? SCHEMA_NUMBER
			: yyjson_is_str(value)	? SCHEMA_STRING
			: yyjson_is_arr(value)	? SCHEMA_ARRAY
						: SCHEMA_OBJECT);
}

/* enum, const: literals, those that have the type. */
static int literals(struct schema *s, yyjson_val *value, uint32_t *node)
{
	yyjson_val *list = yyjson_obj_get(value, "enum"), *one = yyjson_obj_get(value, "const"),
		   *type = yyjson_obj_get(value, "type");
	const char *word = list ? "enum" : "const";
	uint32_t types = type ? schema_types(type) : SCHEMA_ANY, n = 0;
	yyjson_obj_iter members = yyjson_obj_iter_with(value);
	for (yyjson_val *key; (key = yyjson_obj_iter_next(&members));)
		if (!yyjson_equals_str(key, word) && !yyjson_equals_str(key, "type") && !schema_is_note(key))
			return schema_fault(s, "'%s' together with '%.40s' can't be enforced", word,
					    yyjson_get_str(key));
	if (!types)
		return schema_fault(s, "'type' must be a type's name or a list of them");
	if (list && !yyjson_is_arr(list))
		return schema_fault(s, "'enum' must be a list");
	*node = grammar_choice(s->grammar);
	size_t n_values = list ? yyjson_arr_size(list) : 1;
	yyjson_arr_iter items = yyjson_arr_iter_with(list);
	for (size_t i = 0; i < n_values; i++) {
		yyjson_val *item = list ? yyjson_arr_iter_next(&items) : one;
		if (!has_type(types, item))
			continue;
		grammar_append(s->grammar, *node, schema_literal(s, item));
		n++;
	}
	return n ? 0 : schema_fault(s, "no value of '%s' is allowed", word);
}

/* Without "type": those that the words speak of. An instance of another type would be allowed, too, and is not offered.
 */
static uint32_t implied_types(yyjson_val *value)
{
	static const struct {
		const char *word;
		uint32_t type;
	} words[] = {{"properties", SCHEMA_OBJECT},
		     {"required", SCHEMA_OBJECT},
		     {"additionalProperties", SCHEMA_OBJECT},
		     {"items", SCHEMA_ARRAY},
		     {"prefixItems", SCHEMA_ARRAY},
		     {"minItems", SCHEMA_ARRAY},
		     {"maxItems", SCHEMA_ARRAY},
		     {"minLength", SCHEMA_STRING},
		     {"maxLength", SCHEMA_STRING},
		     {"pattern", SCHEMA_STRING},
		     {"format", SCHEMA_STRING},
		     {"minimum", SCHEMA_NUMBER},
		     {"maximum", SCHEMA_NUMBER},
		     {"exclusiveMinimum", SCHEMA_NUMBER},
		     {"exclusiveMaximum", SCHEMA_NUMBER}};
	uint32_t types = 0;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (yyjson_obj_get(value, words[i].word))
			types |= words[i].type;
	return types ? types : SCHEMA_ANY;
}

static int typed(struct schema *s, yyjson_val *value, uint32_t type, uint32_t *node)
{
	switch ((enum schema_type)type) {
	case SCHEMA_NULL:
		*node = grammar_text(s->grammar, "null");
		return 0;
	case SCHEMA_BOOLEAN:
		*node = grammar_choice(s->grammar);
		grammar_append(s->grammar, *node, grammar_text(s->grammar, "true"));
		grammar_append(s->grammar, *node, grammar_text(s->grammar, "false"));
		return 0;
	case SCHEMA_INTEGER:
		return schema_number(s, value, true, node);
	case SCHEMA_NUMBER:
		return schema_number(s, value, false, node);
	case SCHEMA_STRING:
		return schema_string(s, value, node);
	case SCHEMA_ARRAY:
		return schema_array(s, value, node);
	case SCHEMA_OBJECT:
	case SCHEMA_ANY:
		break;
	}
	return schema_object(s, value, node);
}

uint32_t schema_value_types(yyjson_val *value)
{
	yyjson_val *type = yyjson_obj_get(value, "type");
	return type ? schema_types(type) : implied_types(value);
}

static int by_types(struct schema *s, yyjson_val *value, uint32_t *node)
{
	uint32_t types = schema_value_types(value);
	if (!types)
		return schema_fault(s, "'type' must be a type's name or a list of them");
	if (types == SCHEMA_ANY && !yyjson_obj_get(value, "type")) {
		*node = grammar_reference(s->grammar, s->value);
		return 0;
	}
	if (types & SCHEMA_NUMBER)
		types &= ~(uint32_t)SCHEMA_INTEGER;
	*node = grammar_choice(s->grammar);
	for (uint32_t i = 0; i < 7; i++) {
		uint32_t one;
		if (!(types & 1u << i))
			continue;
		int rc = typed(s, value, 1u << i, &one);
		if (rc)
			return rc;
		grammar_append(s->grammar, *node, one);
	}
	return 0;
}

static int read_object(struct schema *s, yyjson_val *value, uint32_t *node)
{
	yyjson_val *list;
	int rc = check_words(s, value);
	if (rc)
		return rc;
	if ((list = yyjson_obj_get(value, "$ref"))) {
		rc = check_alone(s, value, "$ref");
		return rc ? rc : reference(s, list, node);
	}
	if (yyjson_obj_get(value, "enum") || yyjson_obj_get(value, "const"))
		return literals(s, value, node);
	if ((list = yyjson_obj_get(value, "anyOf"))) {
		rc = check_alone(s, value, "anyOf");
		return rc ? rc : schema_any_of(s, list, "anyOf", node);
	}
	if ((list = yyjson_obj_get(value, "oneOf"))) {
		rc = check_alone(s, value, "oneOf");
		if (!rc)
			rc = schema_disjoint(s, list);
		return rc ? rc : schema_any_of(s, list, "oneOf", node);
	}
	if ((list = yyjson_obj_get(value, "allOf"))) {
		rc = check_alone(s, value, "allOf");
		if (!rc && yyjson_arr_size(list) != 1)
			rc = schema_fault(s, "'allOf' with more than one schema can't be enforced; merge them");
		return rc ? rc : schema_any_of(s, list, "allOf", node);
	}
	return by_types(s, value, node);
}

int schema_node(struct schema *s, yyjson_val *value, uint32_t *node)
{
	*node = 0;
	if (yyjson_is_true(value)) {
		*node = grammar_reference(s->grammar, s->value);
		return 0;
	}
	if (yyjson_is_false(value))
		return schema_fault(s, "false allows nothing");
	if (!yyjson_is_obj(value))
		return schema_fault(s, "a schema is an object, true or false");
	if (s->depth == SCHEMA_DEPTH_MAX)
		return schema_fault(s, "nested deeper than %d", SCHEMA_DEPTH_MAX);
	s->depth++;
	int rc = read_object(s, value, node);
	s->depth--;
	/* A rule of its own: trees of nodes stay shallow. */
	if (!rc)
		*node = grammar_reference(s->grammar, grammar_rule(s->grammar, s->n_path ? s->path : "#", *node));
	return rc;
}

static int read_targets(struct schema *s)
{
	int rc = 0;
	for (; s->n_read < s->n_targets && !rc && !s->grammar->fault; s->n_read++) {
		struct schema_target target = s->targets[s->n_read];
		uint32_t node;
		memcpy(s->path, target.path, sizeof s->path);
		s->n_path = strlen(s->path);
		rc = schema_node(s, target.value, &node);
		grammar_define(s->grammar, target.rule, node);
	}
	return rc;
}

void schema_begin(struct schema *s, struct grammar *grammar, struct err *err)
{
	*s = (struct schema){.grammar = grammar, .err = err};
	schema_basic_rules(s);
}

int schema_rule(struct schema *s, yyjson_val *root, uint32_t *rule)
{
	uint32_t node = 0;
	s->root = root;
	schema_leave(s, 0);
	int rc = schema_node(s, root, &node);
	*rule = grammar_rule(s->grammar, "#", node);
	return rc ? rc : read_targets(s);
}

void schema_end(struct schema *s)
{
	free(s->targets);
}

int schema_read(const char *source, size_t n_bytes, struct grammar *grammar, struct err *err)
{
	yyjson_read_err fault = {0};
	struct schema s;
	/* Not in place: the reader then promises not to write to the source, hence the cast. */
	yyjson_doc *document = yyjson_read_opts((char *)(uintptr_t)source, n_bytes, YYJSON_READ_NOFLAG, NULL, &fault);
	if (!document)
		return err_set(err, fault.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION ? -ENOMEM : -EINVAL,
			       "the schema is not valid JSON: %s at byte %zu", fault.msg, fault.pos);
	schema_begin(&s, grammar, err);
	int rc = schema_rule(&s, yyjson_doc_get_root(document), &grammar->root);
	schema_end(&s);
	yyjson_doc_free(document);
	return rc;
}
