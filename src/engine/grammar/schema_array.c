/* Arrays: items, prefixItems, minItems, maxItems. */
#include "src/engine/grammar/schema.h"

enum { PREFIX_MAX = 512 };

struct array {
	uint32_t prefix[PREFIX_MAX], n_prefix; /* rules of the first items */
	uint32_t item;			       /* the rule of the others */
	bool has_item;			       /* there may be others */
	uint32_t min, max;
};

static int read_prefix(struct schema *s, yyjson_val *list, struct array *a)
{
	size_t mark = schema_enter(s, "prefixItems");
	yyjson_arr_iter items = yyjson_arr_iter_with(list);
	if (!yyjson_is_arr(list) || yyjson_arr_size(list) > PREFIX_MAX)
		return schema_fault(s, "a list of at most %d schemas is expected", PREFIX_MAX);
	for (yyjson_val *item; (item = yyjson_arr_iter_next(&items));) {
		char index[16];
		uint32_t node;
		snprintf(index, sizeof index, "%u", a->n_prefix);
		size_t inner = schema_enter(s, index);
		int rc = schema_node(s, item, &node);
		if (rc)
			return rc;
		schema_leave(s, inner);
		a->prefix[a->n_prefix++] = grammar_rule(s->grammar, "an item", node);
	}
	schema_leave(s, mark);
	return 0;
}

static int read_array(struct schema *s, yyjson_val *value, struct array *a)
{
	yyjson_val *items = yyjson_obj_get(value, "items"), *prefix = yyjson_obj_get(value, "prefixItems");
	uint32_t node;
	int rc = schema_count(s, value, "minItems", 0, &a->min);
	if (!rc)
		rc = schema_count(s, value, "maxItems", GRAMMAR_UNBOUNDED, &a->max);
	if (!rc && prefix)
		rc = read_prefix(s, prefix, a);
	if (rc)
		return rc;
	a->has_item = !yyjson_is_false(items);
	a->item = s->value;
	if (items && a->has_item) {
		size_t mark = schema_enter(s, "items");
		rc = schema_node(s, items, &node);
		if (rc)
			return rc;
		schema_leave(s, mark);
		a->item = grammar_rule(s->grammar, "an item", node);
	}
	if (!a->has_item && a->max > a->n_prefix)
		a->max = a->n_prefix;
	return a->max < a->min ? schema_fault(s, "no array has at least %u and at most %u items", a->min, a->max) : 0;
}

static uint32_t comma(struct schema *s)
{
	uint32_t node = grammar_sequence(s->grammar);
	grammar_append(s->grammar, node, grammar_text(s->grammar, ","));
	grammar_append(s->grammar, node, schema_space(s));
	return node;
}

/* Items from number `from` on, each but the first with a comma in front: a rule, in which the next one's is nested. */
static uint32_t items_from(struct schema *s, const struct array *a, uint32_t from)
{
	struct grammar *g = s->grammar;
	uint32_t rest = 0;
	bool has_rest = false;
	if (a->has_item && a->max > a->n_prefix) { /* behind the prefix: a counted repetition */
		uint32_t more = grammar_sequence(g), least = a->min > a->n_prefix ? a->min - a->n_prefix : 0;
		uint32_t most = a->max == GRAMMAR_UNBOUNDED ? a->max : a->max - a->n_prefix;
		bool first = a->n_prefix == 0; /* stands without a comma */
		grammar_append(g, more, comma(s));
		grammar_append(g, more, grammar_reference(g, a->item));
		uint32_t tail =
			grammar_repeat(g, more, least - (first && least), most - (first && most != GRAMMAR_UNBOUNDED));
		if (first) {
			uint32_t all = grammar_sequence(g);
			grammar_append(g, all, grammar_reference(g, a->item));
			grammar_append(g, all, tail);
			tail = least ? all : grammar_repeat(g, all, 0, 1);
		}
		rest = grammar_rule(g, "items", tail);
		has_rest = true;
	}
	for (uint32_t i = a->n_prefix < a->max ? a->n_prefix : a->max; i > from; i--) {
		uint32_t node = grammar_sequence(g);
		if (i > 1)
			grammar_append(g, node, comma(s));
		grammar_append(g, node, grammar_reference(g, a->prefix[i - 1]));
		if (has_rest)
			grammar_append(g, node, grammar_reference(g, rest));
		rest = grammar_rule(g, "items", i > a->min ? grammar_repeat(g, node, 0, 1) : node);
		has_rest = true;
	}
	return has_rest ? rest : grammar_rule(g, "items", grammar_sequence(g));
}

int schema_array(struct schema *s, yyjson_val *value, uint32_t *node)
{
	struct grammar *g = s->grammar;
	struct array a = {0};
	int rc = read_array(s, value, &a);
	if (rc)
		return rc;
	*node = grammar_sequence(g);
	grammar_append(g, *node, grammar_text(g, "["));
	grammar_append(g, *node, schema_space(s));
	grammar_append(g, *node, grammar_reference(g, items_from(s, &a, 0)));
	grammar_append(g, *node, schema_space(s));
	grammar_append(g, *node, grammar_text(g, "]"));
	return 0;
}
