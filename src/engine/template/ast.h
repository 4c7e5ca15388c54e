/* The syntax tree of a template. Nodes live in the template's heap and do not change after compiling.
 *
 * Variables are slots: the scope analysis (template_scope.c) turns each name into how many functions out (`hops`) and
 * which slot there, the way Jinja's compiler turns names into Python locals and closures. */
#ifndef WEIGHTD_ENGINE_TEMPLATE_AST_H
#define WEIGHTD_ENGINE_TEMPLATE_AST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/engine/template/heap.h"
#include "src/engine/template/text.h"
#include "src/engine/template/value.h"

enum expr_kind {
	EXPR_CONST,
	EXPR_NAME,
	EXPR_ATTR_TARGET, /* ns.attr on the left of a set */
	EXPR_LIST,
	EXPR_TUPLE,
	EXPR_DICT,
	EXPR_ATTR,  /* a.name */
	EXPR_ITEM,  /* a[key] */
	EXPR_SLICE, /* a[start:stop:step] */
	EXPR_CALL,
	EXPR_FILTER,
	EXPR_TEST,
	EXPR_NOT,
	EXPR_NEGATE,
	EXPR_PLUS,
	EXPR_ARITHMETIC, /* a + b - c: operands from left to right, each with the operator before it */
	EXPR_CONCAT,	 /* a ~ b ~ c */
	EXPR_AND,
	EXPR_OR,
	EXPR_COMPARE, /* a < b <= c */
	EXPR_CONDITION,
};

enum operator_kind {
	OP_NONE,
	OP_ADD,
	OP_SUB,
	OP_MUL,
	OP_DIV,
	OP_FLOORDIV,
	OP_MOD,
	OP_POW,
	OP_EQ,
	OP_NE,
	OP_LT,
	OP_LE,
	OP_GT,
	OP_GE,
	OP_IN,
	OP_NOT_IN,
};

struct slot {
	uint32_t hops; /* functions outwards */
	uint32_t index;
};

struct keyword {
	struct keyword *next;
	const struct text *name;
	struct expr *value;
};

struct arguments {
	struct expr *positional; /* linked by next */
	struct keyword *named;
	struct expr *spread, *named_spread; /* *args, **kwargs or NULL */
	uint32_t n_positional, n_named;
};

struct expr {
	uint8_t kind;	 /* enum expr_kind */
	uint8_t op;	 /* enum operator_kind: the one before this operand */
	uint16_t height; /* of the tree below, so that nesting is bounded */
	uint32_t line;
	struct expr *next; /* in the list this expression belongs to */
	union {
		struct value constant;
		struct {
			const struct text *name, *attribute; /* attribute: EXPR_ATTR_TARGET */
			struct slot slot;
		} variable;
		struct {
			struct expr *first;
			uint32_t n;
		} list; /* LIST, TUPLE, DICT (key, value, key, …), ARITHMETIC, CONCAT, AND, OR, COMPARE */
		struct {
			struct expr *object, *key; /* ITEM; NOT, NEGATE and PLUS use object */
			const struct text *name;   /* ATTR */
		} access;
		struct {
			struct expr *object, *start, *stop, *step; /* the last three may be NULL */
		} slice;
		struct {
			struct expr *target;	       /* callee; input of a filter or test, NULL: the block's text */
			const struct builtin *builtin; /* filter or test; NULL: not known, an error when reached */
			const struct text *name;
			struct arguments arguments;
		} call;
		struct {
			struct expr *test, *then, *otherwise; /* otherwise may be NULL */
		} condition;
	};
};

enum stmt_kind {
	STMT_TEXT,
	STMT_PRINT,
	STMT_FOR,
	STMT_IF,
	STMT_SET,
	STMT_SET_BLOCK,
	STMT_MACRO,
	STMT_CALL_BLOCK,
	STMT_FILTER_BLOCK,
	STMT_WITH,
	STMT_GENERATION,
	STMT_BREAK,
	STMT_CONTINUE,
};

/* What happens to a scope's variables when it is entered. */
struct scope_load {
	enum { LOAD_CONTEXT, LOAD_OUTER, LOAD_NOTHING } from;
	uint32_t slot;
	struct slot outer;	 /* LOAD_OUTER */
	const struct text *name; /* LOAD_CONTEXT */
};

struct scope_plan {
	struct scope_load *loads; /* [n_loads] */
	uint32_t n_loads;
};

/* Code with its own slots: the template, a macro, a call block or a generation block. */
struct function {
	const struct text *name; /* NULL: not a macro */
	struct expr *parameters; /* EXPR_NAME, linked */
	struct expr *defaults;	 /* of the last parameters */
	struct stmt *body;
	struct scope_plan scope;
	uint32_t n_parameters, n_defaults, n_slots;
	bool uses_caller, uses_varargs, uses_kwargs; /* the special variables, if the body reads them */
	bool has_caller_parameter;		     /* `caller` is among the parameters */
	uint32_t caller_slot, varargs_slot, kwargs_slot;
};

struct branch {
	struct branch *next;
	struct expr *test; /* NULL: else */
	struct stmt *body;
};

struct stmt {
	uint8_t kind; /* enum stmt_kind */
	uint32_t line;
	struct stmt *next;
	union {
		const struct text *text;
		struct expr *print; /* linked */
		struct {
			struct expr *target, *iterable, *test;
			struct expr *test_target; /* the target again, for the scope of the test */
			struct stmt *body, *otherwise;
			struct scope_plan body_scope, test_scope, otherwise_scope;
			uint32_t loop_slot;
		} loop;
		struct branch *branches;
		struct {
			struct expr *target, *value; /* STMT_SET: the value; STMT_SET_BLOCK: a filter or NULL */
			struct stmt *body;
			struct scope_plan scope;
		} set;
		struct {
			struct function *function;
			struct expr *call; /* STMT_CALL_BLOCK */
			struct slot slot;  /* STMT_MACRO: where its value goes */
		} macro;
		struct {
			struct expr *filter;
			struct stmt *body;
			struct scope_plan scope;
		} filter_block;
		struct {
			struct expr *targets, *values; /* linked, as many of each */
			struct stmt *body;
			struct scope_plan scope;
		} with;
	};
};

struct template
{
	struct heap heap;
	struct function *program;
};

#endif
