/* Objects: properties in their order, required, additionalProperties.
 *
 * Members from number i on are two rules: one where nothing has come yet and one where a comma is due. An optional
 * member is there or passed over, so both lead to the next ones and their number is linear. Behind the properties come
 * others, where they are allowed in so many words, with keys that are none of the properties' names. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/grammar/schema.h"
#include "src/engine/grammar/text.h"

enum { NAME_POINTS_MAX = 128 };

struct member {
	yyjson_val *key;
	uint32_t rule; /* the value's */
	bool required;
};

struct object {
	struct member *members; /* [n] owned */
	size_t n;
	bool others;	/* may there be others? */
	uint32_t other; /* the rule of their values */
};

static int read_others(struct schema *s, yyjson_val *value, struct object *o)
{
	yyjson_val *others = yyjson_obj_get(value, "additionalProperties");
	uint32_t node;
	o->other = s->value;
	o->others = others ? !yyjson_is_false(others) : !yyjson_obj_get(value, "properties");
	if (!others || yyjson_is_bool(others))
		return 0;
	size_t mark = schema_enter(s, "additionalProperties");
	int rc = schema_node(s, others, &node);
	if (rc)
		return rc;
	schema_leave(s, mark);
	o->other = grammar_rule(s->grammar, "an additional value", node);
	return 0;
}

static int read_members(struct schema *s, yyjson_val *properties, struct object *o)
{
	size_t mark = schema_enter(s, "properties");
	yyjson_obj_iter iter = yyjson_obj_iter_with(properties);
	for (yyjson_val *key; (key = yyjson_obj_iter_next(&iter));) {
		uint32_t node;
		size_t inner = schema_enter(s, yyjson_get_str(key));
		int rc = schema_node(s, yyjson_obj_iter_get_val(key), &node);
		if (rc)
			return rc;
		schema_leave(s, inner);
		o->members[o->n++] = (struct member){key, grammar_rule(s->grammar, yyjson_get_str(key), node), false};
	}
	schema_leave(s, mark);
	return 0;
}

/* A required name without a property of its own is one whose value is as additional ones are. */
static int read_required(struct schema *s, yyjson_val *required, bool others_forbidden, struct object *o)
{
	yyjson_arr_iter items = yyjson_arr_iter_with(required);
	for (yyjson_val *name; (name = yyjson_arr_iter_next(&items));) {
		size_t i = 0;
		if (!yyjson_is_str(name))
			return schema_fault(s, "'required' must be a list of names");
		while (i < o->n && !yyjson_equals(o->members[i].key, name))
			i++;
		if (i == o->n) {
			if (others_forbidden)
				return schema_fault(s, "'%.60s' is required and not allowed", yyjson_get_str(name));
			o->members[o->n++] = (struct member){name, o->other, true};
		}
		o->members[i].required = true;
	}
	return 0;
}

static uint32_t member_node(struct schema *s, uint32_t key, uint32_t rule)
{
	struct grammar *g = s->grammar;
	uint32_t node = grammar_sequence(g);
	grammar_append(g, node, key);
	grammar_append(g, node, grammar_text(g, ":"));
	grammar_append(g, node, schema_space(s));
	grammar_append(g, node, grammar_reference(g, rule));
	return node;
}

/* --- keys that are none of some names --------------------------------------------------------- */

static const struct charset plain = {4, {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x7E}, {0x80, CODE_POINT_MAX}}};

/* The code point of a member's name at byte `at`; SOURCE_END behind it. */
static uint32_t name_point(const struct member *member, size_t at, size_t *length)
{
	struct grammar_source name = {yyjson_get_str(member->key), yyjson_get_len(member->key), at};
	return source_peek(&name, length);
}

/* What may come behind the first `at` bytes of names[0], which all of names [n] share: anything that leaves all of
 * them, or ends where none does. The names are sorted. Escapes are left out of such keys: they could spell a name. */
static uint32_t other_key(struct schema *s, const struct member *names, size_t n, size_t at, uint32_t depth)
{
	struct grammar *g = s->grammar;
	uint32_t choice = grammar_choice(g);
	struct charset rest = plain;
	bool ends = false;
	if (depth > NAME_POINTS_MAX && !g->fault)
		g->fault = -E2BIG;
	for (size_t i = 0; i < n && !g->fault;) {
		size_t length, same = i + 1, ignored;
		uint32_t c = name_point(&names[i], at, &length);
		while (same < n && name_point(&names[same], at, &ignored) == c)
			same++;
		if (c == SOURCE_END) {
			ends = true;
		} else if (charset_has(&plain, c)) {
			struct charset one = {1, {{c, c}}};
			uint32_t way = grammar_sequence(g);
			uint32_t behind = other_key(s, names + i, same - i, at + length, depth + 1);
			grammar_append(g, way, grammar_class(g, &one));
			grammar_append(g, way, grammar_reference(g, grammar_rule(g, "an additional key", behind)));
			grammar_append(g, choice, way);
			if (charset_remove(&rest, c, c) && !g->fault)
				g->fault = -E2BIG;
		}
		i = same;
	}
	if (!ends)
		grammar_append(g, choice, grammar_text(g, "\""));
	uint32_t way = grammar_sequence(g);
	grammar_append(g, way, grammar_class(g, &rest));
	grammar_append(g, way, grammar_repeat(g, grammar_class(g, &plain), 0, GRAMMAR_UNBOUNDED));
	grammar_append(g, way, grammar_text(g, "\""));
	grammar_append(g, choice, way);
	return choice;
}

static int compare_names(const void *a, const void *b)
{
	const struct member *x = a, *y = b;
	return strcmp(yyjson_get_str(x->key), yyjson_get_str(y->key));
}

/* A rule: any number of other members, a comma in front of each. The first may go without. */
static uint32_t other_members(struct schema *s, struct object *o, uint32_t *first)
{
	struct grammar *g = s->grammar;
	struct member *sorted = malloc((o->n + 1) * sizeof *sorted);
	if (!sorted) {
		g->fault = g->fault ? g->fault : -ENOMEM;
		return 0;
	}
	if (o->n)
		memcpy(sorted, o->members, o->n * sizeof *sorted);
	qsort(sorted, o->n, sizeof *sorted, compare_names);
	uint32_t key = grammar_sequence(g);
	grammar_append(g, key, grammar_text(g, "\""));
	grammar_append(g, key, other_key(s, sorted, o->n, 0, 0));
	free(sorted);
	uint32_t member = grammar_rule(g, "an additional member", member_node(s, key, o->other));
	uint32_t more = grammar_sequence(g), all = grammar_sequence(g);
	grammar_append(g, more, grammar_text(g, ","));
	grammar_append(g, more, schema_space(s));
	grammar_append(g, more, grammar_reference(g, member));
	uint32_t tail = grammar_rule(g, "additional members", grammar_repeat(g, more, 0, GRAMMAR_UNBOUNDED));
	grammar_append(g, all, grammar_reference(g, member));
	grammar_append(g, all, grammar_reference(g, tail));
	*first = grammar_rule(g, "additional members", grammar_repeat(g, all, 0, 1));
	return tail;
}

/* --- the whole -------------------------------------------------------------------------------- */

static uint32_t members_rule(struct schema *s, struct object *o)
{
	struct grammar *g = s->grammar;
	uint32_t head = 0, tail;
	if (o->others) {
		tail = other_members(s, o, &head);
	} else {
		tail = grammar_rule(g, "no more members", grammar_sequence(g));
		head = tail;
	}
	for (size_t i = o->n; i > 0; i--) {
		const struct member *m = &o->members[i - 1];
		uint32_t member =
			grammar_rule(g, yyjson_get_str(m->key), member_node(s, schema_literal(s, m->key), m->rule));
		uint32_t first = grammar_sequence(g), next = grammar_sequence(g);
		uint32_t heads = grammar_choice(g), tails = grammar_choice(g);
		grammar_append(g, first, grammar_reference(g, member));
		grammar_append(g, first, grammar_reference(g, tail));
		grammar_append(g, next, grammar_text(g, ","));
		grammar_append(g, next, schema_space(s));
		grammar_append(g, next, grammar_reference(g, member));
		grammar_append(g, next, grammar_reference(g, tail));
		grammar_append(g, heads, first);
		grammar_append(g, tails, next);
		if (!m->required) {
			grammar_append(g, heads, grammar_reference(g, head));
			grammar_append(g, tails, grammar_reference(g, tail));
		}
		head = grammar_rule(g, yyjson_get_str(m->key), heads);
		tail = grammar_rule(g, yyjson_get_str(m->key), tails);
	}
	return head;
}

int schema_object(struct schema *s, yyjson_val *value, uint32_t *node)
{
	yyjson_val *properties = yyjson_obj_get(value, "properties"), *required = yyjson_obj_get(value, "required");
	struct object o = {0};
	struct grammar *g = s->grammar;
	if ((properties && !yyjson_is_obj(properties)) || (required && !yyjson_is_arr(required)))
		return schema_fault(s, "'properties' must be an object, 'required' a list");
	o.members = calloc(yyjson_obj_size(properties) + yyjson_arr_size(required) + 1, sizeof *o.members);
	if (!o.members)
		return err_set(s->err, -ENOMEM, "out of memory for the schema");
	int rc = read_others(s, value, &o);
	if (!rc)
		rc = read_members(s, properties, &o);
	if (!rc)
		rc = read_required(s, required, yyjson_is_false(yyjson_obj_get(value, "additionalProperties")), &o);
	if (!rc) {
		*node = grammar_sequence(g);
		grammar_append(g, *node, grammar_text(g, "{"));
		grammar_append(g, *node, schema_space(s));
		grammar_append(g, *node, grammar_reference(g, members_rule(s, &o)));
		grammar_append(g, *node, schema_space(s));
		grammar_append(g, *node, grammar_text(g, "}"));
	}
	free(o.members);
	return rc;
}
