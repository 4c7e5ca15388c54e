/* Which variable a name means.
 *
 * Jinja decides this when it compiles, and the result differs from what looking names up at run time would give: a name
 * that is set anywhere at a scope's own level belongs to that scope from its start, so it is undefined before the `set`
 * even where an outer variable has the same name; unless it was read before, or the set stands inside an `if`. This
 * file follows the same rules:
 *
 *  - A scope is the template, a macro, a loop's body, test or else part, the body of a set, filter, call, with or
 *    generation block. An `if` is not one.
 *  - The statements of a scope are walked in order without entering inner scopes. Reading a name that neither this
 * scope nor an outer one knows makes it known here, loaded from the context (the caller's variables, then the globals).
 *    Setting a name makes it known here too: its start is a copy of the outer variable, or nothing.
 *  - The branches of an `if` are walked each from the state before it, then merged: names that only branches set start
 *    as the outer variable or come from the context.
 *
 * After that every name in the scope has its slot, and the inner scopes are resolved with this one as their parent.
 * A slot belongs to the function around the scope; macros reach outer functions' slots by the number of hops. */
#include "src/engine/template/scope.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/template/walk.h"

enum { MAX_WORK = 50 * 1000 * 1000 }; /* name comparisons; a template of 100 KB needs less than a hundredth */

int scope_out_of_memory(struct resolver *r)
{
	return r->heap->over_budget ? err_set(r->err, -E2BIG, "the template is too large")
				    : err_set(r->err, -ENOMEM, "out of memory");
}

int scope_charge(struct resolver *r, uint64_t work)
{
	r->work += work;
	return r->work > MAX_WORK ? err_set(r->err, -E2BIG, "the template has too many variables and branches") : 0;
}

struct scope scope_inside(const struct scope *parent)
{
	return (struct scope){.parent = parent, .function = parent->function, .function_depth = parent->function_depth};
}

void scope_fini(struct scope *scope)
{
	free(scope->variables);
	free(scope->states.of);
}

struct state scope_state(const struct scope *scope, uint32_t variable)
{
	return variable < scope->states.n ? scope->states.of[variable] : (struct state){0};
}

/* The state to change; grows the states to all variables. */
static int state_at(struct resolver *r, struct scope *scope, uint32_t variable, struct state **state)
{
	if (variable >= scope->states.n) {
		struct state *of = reallocarray(scope->states.of, scope->capacity, sizeof *of);
		if (!of)
			return scope_out_of_memory(r);
		memset(of + scope->states.n, 0, (scope->capacity - scope->states.n) * sizeof *of);
		scope->states = (struct states){of, scope->capacity};
	}
	*state = &scope->states.of[variable];
	return 0;
}

/* The index of a variable of this scope or n_variables; charges for the search. */
static uint32_t find_variable(struct resolver *r, const struct scope *scope, const struct text *name)
{
	uint32_t i = 0;
	while (i < scope->n_variables && !text_equal(scope->variables[i].name, name))
		i++;
	r->work += i + 1;
	return i;
}

static int add_variable(struct resolver *r, struct scope *scope, const struct text *name, uint32_t *variable)
{
	*variable = find_variable(r, scope, name);
	if (*variable < scope->n_variables)
		return scope_charge(r, 0);
	if (scope->n_variables == scope->capacity) {
		uint32_t capacity = scope->capacity ? 2 * scope->capacity : 16;
		struct variable *grown = reallocarray(scope->variables, capacity, sizeof *grown);
		if (!grown)
			return scope_out_of_memory(r);
		scope->variables = grown;
		scope->capacity = capacity;
	}
	scope->variables[scope->n_variables++] = (struct variable){name, scope->function->n_slots++};
	return scope_charge(r, 0);
}

bool scope_find(struct resolver *r, const struct scope *scope, const struct text *name, uint32_t from_depth,
		struct slot *slot)
{
	for (; scope; scope = scope->parent) {
		uint32_t i = find_variable(r, scope, name);
		if (i == scope->n_variables || !scope_state(scope, i).known)
			continue;
		*slot = (struct slot){from_depth - scope->function_depth, scope->variables[i].slot};
		return true;
	}
	return false;
}

int scope_declare(struct resolver *r, struct scope *scope, const struct text *name, uint32_t *slot)
{
	uint32_t variable;
	struct state *state = NULL;
	int rc = add_variable(r, scope, name, &variable);
	rc = rc ? rc : state_at(r, scope, variable, &state);
	if (rc)
		return rc;
	*state = (struct state){.known = true, .stored = true, .start = START_PARAMETER};
	*slot = scope->variables[variable].slot;
	return 0;
}

static int note_store(struct resolver *r, struct scope *scope, const struct text *name)
{
	uint32_t variable;
	struct state *state = NULL;
	int rc = add_variable(r, scope, name, &variable);
	rc = rc ? rc : state_at(r, scope, variable, &state);
	if (rc)
		return rc;
	state->stored = true;
	if (state->known)
		return 0;
	state->known = true;
	state->start =
		scope_find(r, scope->parent, name, scope->function_depth, &state->outer) ? START_OUTER : START_NOTHING;
	return 0;
}

static int note_load(struct resolver *r, struct scope *scope, const struct text *name)
{
	struct slot slot;
	if (scope_find(r, scope, name, scope->function_depth, &slot))
		return scope_charge(r, 0);
	uint32_t variable;
	struct state *state = NULL;
	int rc = add_variable(r, scope, name, &variable);
	rc = rc ? rc : state_at(r, scope, variable, &state);
	if (rc)
		return rc;
	state->known = true;
	state->start = START_CONTEXT;
	return 0;
}

/* --- what a scope reads and sets -------------------------------------------------------------- */

static int note_name(struct walk *walk, struct expr *expr)
{
	if (expr->kind == EXPR_NAME || expr->kind == EXPR_ATTR_TARGET)
		return note_load(walk->resolver, walk->scope, expr->variable.name);
	return 0;
}

int scope_note_reads(struct resolver *r, struct scope *scope, struct expr *first)
{
	return walk_list(&(struct walk){.visit = note_name, .resolver = r, .scope = scope}, first);
}

int scope_note_read(struct resolver *r, struct scope *scope, struct expr *expr)
{
	return walk_expr(&(struct walk){.visit = note_name, .resolver = r, .scope = scope}, expr);
}

static int note_target_name(struct walk *walk, struct expr *expr)
{
	if (expr->kind == EXPR_ATTR_TARGET)
		return note_load(walk->resolver, walk->scope, expr->variable.name);
	return expr->kind == EXPR_NAME ? note_store(walk->resolver, walk->scope, expr->variable.name) : 0;
}

static int note_target(struct resolver *r, struct scope *scope, struct expr *target)
{
	return walk_expr(&(struct walk){.visit = note_target_name, .resolver = r, .scope = scope}, target);
}

static int note_parameter_name(struct walk *walk, struct expr *expr)
{
	uint32_t slot;
	return expr->kind == EXPR_NAME ? scope_declare(walk->resolver, walk->scope, expr->variable.name, &slot) : 0;
}

int scope_note_parameters(struct resolver *r, struct scope *scope, struct expr *first)
{
	return walk_list(&(struct walk){.visit = note_parameter_name, .resolver = r, .scope = scope}, first);
}

static int merge_branch(struct resolver *r, struct scope *scope, const struct states *branch)
{
	int rc = scope_charge(r, branch->n);
	for (uint32_t i = 0; i < branch->n && i < scope->n_variables && !rc; i++) {
		struct state *state = NULL;
		rc = state_at(r, scope, i, &state);
		if (rc)
			return rc;
		const struct state *from = &branch->of[i];
		state->known |= from->known;
		if (from->start != START_NONE) {
			state->start = from->start;
			state->outer = from->outer;
		}
		state->set_in_branch |= from->stored && !state->stored;
	}
	return rc;
}

static void settle_branch_stores(struct resolver *r, struct scope *scope)
{
	for (uint32_t i = 0; i < scope->states.n && i < scope->n_variables; i++) {
		struct state *state = &scope->states.of[i];
		if (!state->set_in_branch)
			continue;
		state->set_in_branch = false;
		state->stored = true;
		bool outer =
			scope_find(r, scope->parent, scope->variables[i].name, scope->function_depth, &state->outer);
		state->start = outer ? START_OUTER : START_CONTEXT;
	}
}

static int note_if(struct resolver *r, struct scope *scope, struct expr *test, struct stmt *body, struct branch *elifs,
		   struct branch *otherwise);

/* What one part of an if does: its body, or the elif branches [elifs, end), which are ifs one after the other. */
struct if_part {
	struct stmt *body;
	struct branch *elifs, *end;
};

/* Walks a part from the present state, which is kept; its result goes to `after`, which the caller frees. */
static int note_part(struct resolver *r, struct scope *scope, const struct if_part *part, struct states *after)
{
	struct states before = scope->states;
	int rc = scope_charge(r, before.n);
	if (rc)
		return rc;
	scope->states = (struct states){0};
	if (before.n) {
		scope->states.of = reallocarray(NULL, before.n, sizeof *before.of);
		rc = scope->states.of ? 0 : scope_out_of_memory(r);
	}
	if (!rc && before.n) {
		memcpy(scope->states.of, before.of, before.n * sizeof *before.of);
		scope->states.n = before.n;
	}
	rc = rc ? rc : scope_note_statements(r, scope, part->body);
	for (struct branch *elif = part->elifs; elif != part->end && !rc; elif = elif->next)
		rc = note_if(r, scope, elif->test, elif->body, NULL, NULL);
	*after = scope->states;
	scope->states = before;
	return rc;
}

/* `elifs` are the branches from the second to `otherwise`, which is the else branch or NULL. */
static int note_if(struct resolver *r, struct scope *scope, struct expr *test, struct stmt *body, struct branch *elifs,
		   struct branch *otherwise)
{
	const struct if_part parts[] = {
		{.body = body},
		{.elifs = elifs, .end = otherwise},
		{.body = otherwise ? otherwise->body : NULL},
	};
	struct states after[3] = {{0}};
	int rc = scope_note_read(r, scope, test);
	for (int i = 0; i < 3 && !rc; i++)
		if (parts[i].body || parts[i].elifs != parts[i].end)
			rc = note_part(r, scope, &parts[i], &after[i]);
	for (int i = 0; i < 3; i++) {
		rc = rc ? rc : merge_branch(r, scope, &after[i]);
		free(after[i].of);
	}
	settle_branch_stores(r, scope);
	return rc;
}

static int note_branches(struct resolver *r, struct scope *scope, struct branch *first)
{
	struct branch *otherwise = first->next;
	while (otherwise && otherwise->test)
		otherwise = otherwise->next;
	return note_if(r, scope, first->test, first->body, first->next, otherwise);
}

static int note_statement(struct resolver *r, struct scope *scope, struct stmt *stmt)
{
	int rc;
	switch ((enum stmt_kind)stmt->kind) {
	case STMT_PRINT:
		return scope_note_reads(r, scope, stmt->print);
	case STMT_FOR:
		return scope_note_read(r, scope, stmt->loop.iterable);
	case STMT_IF:
		return note_branches(r, scope, stmt->branches);
	case STMT_SET:
		rc = scope_note_read(r, scope, stmt->set.value);
		return rc ? rc : note_target(r, scope, stmt->set.target);
	case STMT_SET_BLOCK:
		return note_target(r, scope, stmt->set.target);
	case STMT_MACRO:
		return note_store(r, scope, stmt->macro.function->name);
	case STMT_CALL_BLOCK:
		return scope_note_read(r, scope, stmt->macro.call);
	case STMT_FILTER_BLOCK:
		return scope_note_read(r, scope, stmt->filter_block.filter);
	case STMT_WITH:
		return scope_note_reads(r, scope, stmt->with.values);
	case STMT_TEXT:
	case STMT_GENERATION:
	case STMT_BREAK:
	case STMT_CONTINUE:
		return 0;
	}
	return 0;
}

int scope_note_statements(struct resolver *r, struct scope *scope, struct stmt *first)
{
	int rc = 0;
	for (struct stmt *stmt = first; stmt && !rc; stmt = stmt->next)
		rc = note_statement(r, scope, stmt);
	return rc;
}
