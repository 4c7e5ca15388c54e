/* anyOf, and oneOf where no instance can satisfy two of its schemas. */
#include "src/engine/grammar/schema.h"

int schema_any_of(struct schema *s, yyjson_val *list, const char *word, uint32_t *node)
{
	size_t mark = schema_enter(s, word);
	char index[16];
	uint32_t n = 0, one;
	if (!yyjson_is_arr(list) || !yyjson_arr_size(list))
		return schema_fault(s, "a list of schemas is expected");
	*node = grammar_choice(s->grammar);
	yyjson_arr_iter items = yyjson_arr_iter_with(list);
	for (yyjson_val *item; (item = yyjson_arr_iter_next(&items)); n++) {
		snprintf(index, sizeof index, "%u", n);
		size_t inner = schema_enter(s, index);
		int rc = schema_node(s, item, &one);
		if (rc)
			return rc;
		schema_leave(s, inner);
		grammar_append(s->grammar, *node, one);
	}
	schema_leave(s, mark);
	return 0;
}

/* Follows $ref; what it ends at, NULL: too far. */
static yyjson_val *resolve(struct schema *s, yyjson_val *value)
{
	for (int hops = 0; hops < 16; hops++) {
		yyjson_val *reference = yyjson_obj_get(value, "$ref");
		if (!reference)
			return value;
		if (schema_target(s, reference, &value))
			return NULL;
	}
	return NULL;
}

/* The types an instance can have, whatever else; an integer is a number. */
static uint32_t possible_types(yyjson_val *value)
{
	yyjson_val *type = yyjson_obj_get(value, "type");
	uint32_t types = type ? schema_types(type) : SCHEMA_ANY;
	return types & SCHEMA_INTEGER ? types | SCHEMA_NUMBER : types;
}

/* The only values an instance can have: *list, or *one; false: not known. */
static bool values_of(yyjson_val *value, yyjson_val **one, yyjson_val **list)
{
	*one = yyjson_obj_get(value, "const");
	*list = yyjson_obj_get(value, "enum");
	return *one || yyjson_is_arr(*list);
}

static bool has_value(yyjson_val *one, yyjson_val *list, yyjson_val *value)
{
	if (one)
		return yyjson_equals(one, value);
	yyjson_arr_iter items = yyjson_arr_iter_with(list);
	for (yyjson_val *item; (item = yyjson_arr_iter_next(&items));)
		if (yyjson_equals(item, value))
			return true;
	return false;
}

static bool values_differ(yyjson_val *a, yyjson_val *b)
{
	yyjson_val *one_a, *one_b, *list_a, *list_b;
	if (!values_of(a, &one_a, &list_a) || !values_of(b, &one_b, &list_b))
		return false;
	if (one_a)
		return !has_value(one_b, list_b, one_a);
	yyjson_arr_iter items = yyjson_arr_iter_with(list_a);
	for (yyjson_val *item; (item = yyjson_arr_iter_next(&items));)
		if (has_value(one_b, list_b, item))
			return false;
	return true;
}

static bool requires(yyjson_val *value, yyjson_val *name)
{
	yyjson_arr_iter items = yyjson_arr_iter_with(yyjson_obj_get(value, "required"));
	for (yyjson_val *item; (item = yyjson_arr_iter_next(&items));)
		if (yyjson_equals(item, name))
			return true;
	return false;
}

/* Both are objects with a member that both require and whose values differ. */
static bool members_differ(yyjson_val *a, yyjson_val *b)
{
	yyjson_val *of_a = yyjson_obj_get(a, "properties"), *of_b = yyjson_obj_get(b, "properties");
	if (possible_types(a) != SCHEMA_OBJECT || possible_types(b) != SCHEMA_OBJECT)
		return false;
	yyjson_obj_iter members = yyjson_obj_iter_with(of_a);
	for (yyjson_val *key; (key = yyjson_obj_iter_next(&members));) {
		yyjson_val *other = yyjson_obj_getn(of_b, yyjson_get_str(key), yyjson_get_len(key));
		if (other && requires(a, key) && requires(b, key) && values_differ(yyjson_obj_iter_get_val(key), other))
			return true;
	}
	return false;
}

int schema_disjoint(struct schema *s, yyjson_val *list)
{
	enum { ALTERNATIVES_MAX = 64 };
	yyjson_val *schemas[ALTERNATIVES_MAX];
	size_t n = yyjson_arr_size(list);
	if (n > ALTERNATIVES_MAX)
		return schema_fault(s, "'oneOf' with more than %d schemas", ALTERNATIVES_MAX);
	yyjson_arr_iter items = yyjson_arr_iter_with(list);
	for (size_t i = 0; i < n; i++) {
		schemas[i] = resolve(s, yyjson_arr_iter_next(&items));
		if (!schemas[i])
			return schema_fault(s, "'oneOf' refers to what can't be found");
	}
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < i; j++)
			if ((possible_types(schemas[i]) & possible_types(schemas[j])) &&
			    !values_differ(schemas[i], schemas[j]) && !members_differ(schemas[i], schemas[j]))
				return schema_fault(
					s,
					"'oneOf' can be enforced only where types, values or a required member tell "
					"its schemas apart, and %zu and %zu may overlap; anyOf is what is "
					"usually meant",
					j, i);
	return 0;
}
