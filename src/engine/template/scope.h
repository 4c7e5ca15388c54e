/* Names to slots: what a scope knows. The rules are in template_scope.c, template_resolve.c applies them. */
#ifndef WEIGHTD_ENGINE_TEMPLATE_SCOPE_H
#define WEIGHTD_ENGINE_TEMPLATE_SCOPE_H

#include "src/engine/template/ast.h"
#include "src/err.h"

struct state {
	bool known, stored, set_in_branch;
	enum { START_NONE, START_PARAMETER, START_CONTEXT, START_OUTER, START_NOTHING } start;
	struct slot outer;
};

struct states {
	struct state *of; /* [n], by variable; variables behind n are in the zero state */
	uint32_t n;
};

struct variable {
	const struct text *name;
	uint32_t slot;
};

struct scope {
	const struct scope *parent;
	struct function *function;
	uint32_t function_depth;
	struct variable *variables; /* [n_variables] */
	uint32_t n_variables, capacity;
	struct states states;
	bool in_if; /* an unknown filter is an error only when it is reached */
};

struct resolver {
	struct heap *heap;
	struct err *err;
	uint64_t work;
	uint32_t n_loops; /* for statements around */
};

/* Fills in the slots and scope plans of `program` and of all functions in it, and checks what can be checked only with
 * scopes known. -EINVAL, -ENOTSUP (a filter or test that is not supported), -E2BIG, -ENOMEM. (template_resolve.c) */
int scope_resolve(struct heap *heap, struct function *program, struct err *err);

/* --- one scope (template_scope.c) ------------------------------------------------------------- */

int scope_out_of_memory(struct resolver *resolver);
/* -E2BIG when the work of the analysis is more than any template needs. */
int scope_charge(struct resolver *resolver, uint64_t work);
struct scope scope_inside(const struct scope *parent);
void scope_fini(struct scope *scope);
struct state scope_state(const struct scope *scope, uint32_t variable);
/* Finds the scope outwards of `scope` (itself included) that knows the name; hops count from `from_depth`. */
bool scope_find(struct resolver *resolver, const struct scope *scope, const struct text *name, uint32_t from_depth,
		struct slot *slot);
/* A variable that is set before the scope's statements run. */
int scope_declare(struct resolver *resolver, struct scope *scope, const struct text *name, uint32_t *slot);
/* The names that these expressions read, are targets for, or are parameters; the names that statements use. */
int scope_note_read(struct resolver *resolver, struct scope *scope, struct expr *expr);
int scope_note_reads(struct resolver *resolver, struct scope *scope, struct expr *first);
int scope_note_parameters(struct resolver *resolver, struct scope *scope, struct expr *first);
int scope_note_statements(struct resolver *resolver, struct scope *scope, struct stmt *first);

/* Sets uses_caller, uses_varargs and uses_kwargs. (template_special.c) */
void special_find(struct function *function);

#endif
