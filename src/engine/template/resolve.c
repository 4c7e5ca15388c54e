/* Applies the rules of template_scope.c: gives every name its slot and every scope its plan. */
#include "src/engine/template/scope.h"

#include <errno.h>

#include "src/engine/template/builtin.h"
#include "src/engine/template/walk.h"

static int resolve_statements(struct resolver *r, struct scope *scope, struct stmt *first);

static int check_builtin(struct walk *walk, const struct expr *expr)
{
	const struct text *name = expr->call.name;
	const char *what = expr->kind == EXPR_FILTER ? "filter" : "test";
	if (walk->scope->in_if || walk->n_conditions)
		return 0;
	if (!expr->call.builtin)
		return err_set(walk->resolver->err, -EINVAL, "line %u: there is no %s named '%.*s'", expr->line, what,
			       (int)name->n_bytes, name->bytes);
	if (!expr->call.builtin->run)
		return err_set(walk->resolver->err, -ENOTSUP, "line %u: the %s '%.*s' is not supported", expr->line,
			       what, (int)name->n_bytes, name->bytes);
	return 0;
}

static int resolve_name(struct walk *walk, struct expr *expr)
{
	if (expr->kind == EXPR_FILTER || expr->kind == EXPR_TEST)
		return check_builtin(walk, expr);
	if (expr->kind != EXPR_NAME && expr->kind != EXPR_ATTR_TARGET)
		return 0;
	struct scope *scope = walk->scope;
	if (!scope_find(walk->resolver, scope, expr->variable.name, scope->function_depth, &expr->variable.slot))
		return err_set(walk->resolver->err, -EINVAL, "line %u: the name '%.*s' cannot be used here", expr->line,
			       (int)expr->variable.name->n_bytes, expr->variable.name->bytes);
	return scope_charge(walk->resolver, 0);
}

static int resolve_list(struct resolver *r, struct scope *scope, struct expr *first)
{
	return walk_list(&(struct walk){.visit = resolve_name, .resolver = r, .scope = scope}, first);
}

static int resolve_expr(struct resolver *r, struct scope *scope, struct expr *expr)
{
	return walk_expr(&(struct walk){.visit = resolve_name, .resolver = r, .scope = scope}, expr);
}

static int resolve_target_name(struct walk *walk, struct expr *expr)
{
	if (expr->kind == EXPR_NAME && walk->resolver->n_loops && text_is(expr->variable.name, "loop"))
		return err_set(walk->resolver->err, -EINVAL, "line %u: `loop` cannot be set inside a for loop",
			       expr->line);
	return resolve_name(walk, expr);
}

static int resolve_target(struct resolver *r, struct scope *scope, struct expr *target)
{
	return walk_expr(&(struct walk){.visit = resolve_target_name, .resolver = r, .scope = scope}, target);
}

/* Writes down what entering the scope has to load. */
static int make_plan(struct resolver *r, const struct scope *scope, struct scope_plan *plan)
{
	plan->loads = heap_cells(r->heap, scope->n_variables, sizeof *plan->loads);
	if (!plan->loads)
		return scope_out_of_memory(r);
	for (uint32_t i = 0; i < scope->n_variables; i++) {
		struct state state = scope_state(scope, i);
		struct scope_load load = {.slot = scope->variables[i].slot, .outer = state.outer};
		if (state.start == START_NONE || state.start == START_PARAMETER)
			continue;
		load.from = state.start == START_CONTEXT ? LOAD_CONTEXT
			    : state.start == START_OUTER ? LOAD_OUTER
							 : LOAD_NOTHING;
		load.name = scope->variables[i].name;
		plan->loads[plan->n_loads++] = load;
	}
	return 0;
}

/* A body that is a scope: notes, plans and resolves it. `scope` may have parameters already. */
static int resolve_body(struct resolver *r, struct scope *scope, struct stmt *body, struct scope_plan *plan)
{
	int rc = scope_note_statements(r, scope, body);
	rc = rc ? rc : make_plan(r, scope, plan);
	return rc ? rc : resolve_statements(r, scope, body);
}

static int resolve_loop_test(struct resolver *r, const struct scope *outer, struct stmt *stmt)
{
	struct scope scope = scope_inside(outer);
	int rc = scope_note_parameters(r, &scope, stmt->loop.test_target);
	rc = rc ? rc : scope_note_read(r, &scope, stmt->loop.test);
	rc = rc ? rc : make_plan(r, &scope, &stmt->loop.test_scope);
	rc = rc ? rc : resolve_target(r, &scope, stmt->loop.test_target);
	rc = rc ? rc : resolve_expr(r, &scope, stmt->loop.test);
	scope_fini(&scope);
	return rc;
}

static int resolve_for(struct resolver *r, struct scope *outer, struct stmt *stmt)
{
	static const struct text loop_name = {"loop", 4, 4, false};
	r->n_loops++;
	int rc = resolve_expr(r, outer, stmt->loop.iterable);
	if (!rc && stmt->loop.test)
		rc = resolve_loop_test(r, outer, stmt);
	struct scope scope = scope_inside(outer);
	rc = rc ? rc : scope_declare(r, &scope, &loop_name, &stmt->loop.loop_slot);
	rc = rc ? rc : scope_note_parameters(r, &scope, stmt->loop.target);
	rc = rc ? rc : resolve_target(r, &scope, stmt->loop.target);
	rc = rc ? rc : resolve_body(r, &scope, stmt->loop.body, &stmt->loop.body_scope);
	scope_fini(&scope);
	struct scope otherwise = scope_inside(outer);
	rc = rc ? rc : resolve_body(r, &otherwise, stmt->loop.otherwise, &stmt->loop.otherwise_scope);
	scope_fini(&otherwise);
	r->n_loops--;
	return rc;
}

static int resolve_if(struct resolver *r, struct scope *scope, struct stmt *stmt)
{
	bool in_if = scope->in_if;
	scope->in_if = true;
	int rc = 0;
	for (struct branch *branch = stmt->branches; branch && !rc; branch = branch->next) {
		rc = resolve_expr(r, scope, branch->test);
		rc = rc ? rc : resolve_statements(r, scope, branch->body);
	}
	scope->in_if = in_if;
	return rc;
}

static int resolve_set_block(struct resolver *r, struct scope *outer, struct stmt *stmt)
{
	struct scope scope = scope_inside(outer);
	/* Jinja does not look for names in the filters of a block set: they must be known for another reason. */
	int rc = resolve_body(r, &scope, stmt->set.body, &stmt->set.scope);
	rc = rc ? rc : resolve_expr(r, &scope, stmt->set.value);
	scope_fini(&scope);
	return rc ? rc : resolve_target(r, outer, stmt->set.target);
}

static int resolve_filter_block(struct resolver *r, struct scope *outer, struct stmt *stmt)
{
	struct scope scope = scope_inside(outer);
	int rc = resolve_body(r, &scope, stmt->filter_block.body, &stmt->filter_block.scope);
	/* The filter's names are known: the outer scope reads them. */
	rc = rc ? rc : resolve_expr(r, &scope, stmt->filter_block.filter);
	scope_fini(&scope);
	return rc;
}

static int resolve_with(struct resolver *r, struct scope *outer, struct stmt *stmt)
{
	struct scope scope = scope_inside(outer);
	int rc = resolve_list(r, outer, stmt->with.values);
	rc = rc ? rc : scope_note_parameters(r, &scope, stmt->with.targets);
	rc = rc ? rc : resolve_list(r, &scope, stmt->with.targets);
	rc = rc ? rc : resolve_body(r, &scope, stmt->with.body, &stmt->with.scope);
	scope_fini(&scope);
	return rc;
}

static bool caller_has_default(const struct function *function)
{
	uint32_t index = 0, without = function->n_parameters - function->n_defaults;
	for (const struct expr *p = function->parameters; p; p = p->next, index++)
		if (text_is(p->variable.name, "caller"))
			return index >= without;
	return true;
}

static int resolve_function(struct resolver *r, const struct scope *outer, struct function *function)
{
	static const struct text caller = {"caller", 6, 6, false}, varargs = {"varargs", 7, 7, false},
				 kwargs = {"kwargs", 6, 6, false};
	struct scope scope = {
		.parent = outer, .function = function, .function_depth = outer ? outer->function_depth + 1 : 0};
	special_find(function);
	if (function->uses_caller && function->has_caller_parameter && !caller_has_default(function))
		return err_set(r->err, -EINVAL, "a macro's parameter `caller` needs a default");
	int rc = scope_note_parameters(r, &scope, function->parameters);
	if (!rc && function->uses_caller && !function->has_caller_parameter)
		rc = scope_declare(r, &scope, &caller, &function->caller_slot);
	if (!rc && function->uses_kwargs)
		rc = scope_declare(r, &scope, &kwargs, &function->kwargs_slot);
	if (!rc && function->uses_varargs)
		rc = scope_declare(r, &scope, &varargs, &function->varargs_slot);
	rc = rc ? rc : scope_note_reads(r, &scope, function->defaults);
	rc = rc ? rc : resolve_list(r, &scope, function->parameters);
	rc = rc ? rc : resolve_body(r, &scope, function->body, &function->scope);
	rc = rc ? rc : resolve_list(r, &scope, function->defaults);
	scope_fini(&scope);
	return rc;
}

static int resolve_statement(struct resolver *r, struct scope *scope, struct stmt *stmt)
{
	int rc;
	struct function *function = stmt->macro.function;
	switch ((enum stmt_kind)stmt->kind) {
	case STMT_PRINT:
		return resolve_list(r, scope, stmt->print);
	case STMT_FOR:
		return resolve_for(r, scope, stmt);
	case STMT_IF:
		return resolve_if(r, scope, stmt);
	case STMT_SET:
		rc = resolve_expr(r, scope, stmt->set.value);
		return rc ? rc : resolve_target(r, scope, stmt->set.target);
	case STMT_SET_BLOCK:
		return resolve_set_block(r, scope, stmt);
	case STMT_MACRO:
		rc = scope_find(r, scope, function->name, scope->function_depth, &stmt->macro.slot) ? 0 : -EINVAL;
		return rc ? rc : resolve_function(r, scope, function);
	case STMT_CALL_BLOCK:
		rc = resolve_expr(r, scope, stmt->macro.call);
		return rc ? rc : resolve_function(r, scope, function);
	case STMT_GENERATION:
		return resolve_function(r, scope, function);
	case STMT_FILTER_BLOCK:
		return resolve_filter_block(r, scope, stmt);
	case STMT_WITH:
		return resolve_with(r, scope, stmt);
	case STMT_TEXT:
	case STMT_BREAK:
	case STMT_CONTINUE:
		return 0;
	}
	return 0;
}

static int resolve_statements(struct resolver *r, struct scope *scope, struct stmt *first)
{
	int rc = 0;
	for (struct stmt *stmt = first; stmt && !rc; stmt = stmt->next)
		rc = resolve_statement(r, scope, stmt);
	return rc;
}

int scope_resolve(struct heap *heap, struct function *program, struct err *err)
{
	struct resolver resolver = {.heap = heap, .err = err};
	return resolve_function(&resolver, NULL, program);
}
