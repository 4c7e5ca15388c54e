/* Values of the template language: Python's, as far as templates can see them.
 *
 * A value is two words and is passed by value; what it points to lives in a heap and is never changed after it was
 * made, except namespaces, loops, iterators, cyclers and joiners, which have identity. Integers are 64 bits wide:
 * arithmetic that leaves that range is an error, not a wrong number. */
#ifndef WEIGHTD_ENGINE_TEMPLATE_VALUE_H
#define WEIGHTD_ENGINE_TEMPLATE_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/engine/template/heap.h"
#include "src/engine/template/text.h"

struct render;
struct builtin;

enum value_kind {
	VALUE_MISSING, /* an empty slot or an argument not given; never seen by a template */
	VALUE_UNDEFINED,
	VALUE_NONE,
	VALUE_BOOL,
	VALUE_INT,
	VALUE_FLOAT,
	VALUE_TEXT,
	VALUE_LIST,
	VALUE_TUPLE,
	VALUE_DICT,
	VALUE_KEYS, /* dict.keys(), .values() and .items(): views of a dict */
	VALUE_VALUES,
	VALUE_ITEMS,
	VALUE_RANGE,
	VALUE_ITER, /* a generator or reversed(): goes forward once */
	VALUE_NAMESPACE,
	VALUE_LOOP,
	VALUE_MACRO,
	VALUE_METHOD, /* a method bound to its object */
	VALUE_FUNCTION,
	VALUE_CYCLER,
	VALUE_JOINER,
};

struct value {
	enum value_kind kind;
	union {
		bool boolean;
		int64_t integer;
		double real;
		const struct text *text;
		const struct list *list; /* lists and tuples */
		struct dict *dict;	 /* dicts, their views, namespaces */
		const struct range *range;
		struct iter *iter;
		struct loop *loop;
		const struct macro *macro;
		struct cycler *cycler;
		struct joiner *joiner;
		const struct undefined *undefined;
		const struct builtin *function;
		const struct method *method;
	};
};

struct list {
	size_t n, capacity;
	struct value *items; /* [n] */
	bool group;	     /* made by groupby: has .grouper and .list */
	size_t *n_used; /* of `items`, shared by the lists that share them: the one with n == *n_used may grow in place
			 */
};

struct dict_entry {
	struct value key, value;
	uint64_t hash;
};

struct dict {
	size_t n, capacity;
	struct dict_entry *entries; /* [n] in order of insertion */
	uint32_t *index;	    /* [n_index] entry + 1, 0: free; NULL while the dict is small */
	size_t n_index;		    /* a power of two */
};

struct range {
	int64_t start, stop, step, n;
};

/* What Jinja's Undefined remembers for its message. */
struct undefined {
	const char *hint;  /* the whole message, or NULL */
	const char *owner; /* type of the object without that attribute, NULL: a variable */
	struct value name;
};

struct method {
	struct value self;
	const struct builtin *builtin;
};

static inline struct value value_none(void)
{
	return (struct value){.kind = VALUE_NONE};
}

static inline struct value value_bool(bool boolean)
{
	return (struct value){.kind = VALUE_BOOL, .boolean = boolean};
}

static inline struct value value_int(int64_t integer)
{
	return (struct value){.kind = VALUE_INT, .integer = integer};
}

static inline struct value value_float(double real)
{
	return (struct value){.kind = VALUE_FLOAT, .real = real};
}

static inline struct value value_text(const struct text *text)
{
	return (struct value){.kind = VALUE_TEXT, .text = text};
}

static inline struct value value_list(const struct list *list)
{
	return (struct value){.kind = VALUE_LIST, .list = list};
}

static inline struct value value_tuple(const struct list *list)
{
	return (struct value){.kind = VALUE_TUPLE, .list = list};
}

static inline struct value value_dict(struct dict *dict)
{
	return (struct value){.kind = VALUE_DICT, .dict = dict};
}

/* The values in a cell that holds an undefined with Jinja's message: "'name' is undefined", "'dict object' has no
 * attribute 'name'", or `hint` as it is. */
int value_undefined_name(struct render *render, const struct text *name, struct value *undefined);
int value_undefined_attribute(struct render *render, struct value owner, struct value name, struct value *undefined);
int value_undefined_hint(struct render *render, const char *hint, struct value *undefined);

/* Python's name of the type: "str", "NoneType", … */
const char *value_type_name(struct value value);

/* bool(value) */
bool value_truth(struct value value);
/* The value as an integer if Python would take it as an index (int or bool). */
bool value_index(struct value value, int64_t *index);
bool value_is_number(struct value value);
/* len(value), or -1 if the type has none. */
int64_t value_length(struct value value);

/* a == b. Walks nested values, so it charges steps and depth. */
int value_equal(struct render *render, struct value a, struct value b, bool *equal);
/* a < b, a <= b, …: `*order` is negative, zero or positive, `*unordered` is true for NaN. -EINVAL where Python raises.
 */
int value_order(struct render *render, struct value a, struct value b, int *order, bool *unordered);
/* needle in haystack */
int value_contains(struct render *render, struct value haystack, struct value needle, bool *found);
/* -EINVAL for the types Python cannot hash. */
int value_hash(struct render *render, struct value value, uint64_t *hash);

/* Appends; the list must not be visible to the template yet. */
int list_append(struct render *render, struct list *list, struct value value);
struct list *list_new(struct render *render, size_t capacity);
/* a + b; shares a's items where it can, so that adding to a list in a loop stays linear. */
int list_concat(struct render *render, const struct list *a, const struct list *b, const struct list **sum);
/* A tuple of two: what dict.items() yields. */
int value_pair(struct render *render, struct value a, struct value b, struct value *pair);

struct dict *dict_new(struct render *render);
/* Adds or replaces. */
int dict_set(struct render *render, struct dict *dict, struct value key, struct value value);
/* `*value` is VALUE_MISSING when the key is not there. */
int dict_get(struct render *render, const struct dict *dict, struct value key, struct value *value);

#endif
