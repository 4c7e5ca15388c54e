/* The variables `caller`, `varargs` and `kwargs` exist in a macro only if its body reads them before setting them, and
 * whether they exist decides which calls the macro accepts. This walks a body the way Jinja does for that question:
 * everything in it, inner functions too, in the order of the node's parts. */
#include "src/engine/template/scope.h"
#include "src/engine/template/walk.h"

enum { SPECIALS = 3 };

static const char *const special_names[SPECIALS] = {"caller", "varargs", "kwargs"};

/* Hangs below the walk that visits expressions. */
struct special {
	struct walk walk;
	bool used[SPECIALS], hidden[SPECIALS];
};

static int index_of(const struct expr *expr)
{
	for (int i = 0; i < SPECIALS; i++)
		if (text_is(expr->variable.name, special_names[i]))
			return i;
	return -1;
}

static int visit_read(struct walk *walk, struct expr *expr)
{
	struct special *special = (struct special *)walk; /* its first member */
	int i = expr->kind == EXPR_NAME ? index_of(expr) : -1;
	if (i >= 0 && !special->hidden[i])
		special->used[i] = true;
	return 0;
}

static int visit_target(struct walk *walk, struct expr *expr)
{
	struct special *special = (struct special *)walk;
	int i = expr->kind == EXPR_NAME ? index_of(expr) : -1;
	if (i >= 0)
		special->hidden[i] = true;
	return 0;
}

static void read_list(struct special *special, struct expr *first)
{
	special->walk.visit = visit_read;
	walk_list(&special->walk, first);
}

static void read_expr(struct special *special, struct expr *expr)
{
	special->walk.visit = visit_read;
	walk_expr(&special->walk, expr);
}

static void targets(struct special *special, struct expr *first)
{
	special->walk.visit = visit_target;
	walk_list(&special->walk, first);
}

static void walk_body(struct special *special, struct stmt *first);

static void walk_function(struct special *special, struct function *function)
{
	targets(special, function->parameters);
	read_list(special, function->defaults);
	walk_body(special, function->body);
}

static void walk_loop(struct special *special, struct stmt *stmt)
{
	targets(special, stmt->loop.target);
	read_expr(special, stmt->loop.iterable);
	walk_body(special, stmt->loop.body);
	walk_body(special, stmt->loop.otherwise);
	read_expr(special, stmt->loop.test);
}

static void walk_body(struct special *special, struct stmt *first)
{
	for (struct stmt *stmt = first; stmt; stmt = stmt->next) {
		switch ((enum stmt_kind)stmt->kind) {
		case STMT_PRINT:
			read_list(special, stmt->print);
			break;
		case STMT_FOR:
			walk_loop(special, stmt);
			break;
		case STMT_IF:
			for (struct branch *branch = stmt->branches; branch; branch = branch->next) {
				read_expr(special, branch->test);
				walk_body(special, branch->body);
			}
			break;
		case STMT_SET:
		case STMT_SET_BLOCK:
			targets(special, stmt->set.target);
			read_expr(special, stmt->set.value);
			walk_body(special, stmt->set.body);
			break;
		case STMT_CALL_BLOCK:
			read_expr(special, stmt->macro.call);
			walk_function(special, stmt->macro.function);
			break;
		case STMT_MACRO:
		case STMT_GENERATION:
			walk_function(special, stmt->macro.function);
			break;
		case STMT_FILTER_BLOCK:
			walk_body(special, stmt->filter_block.body);
			read_expr(special, stmt->filter_block.filter);
			break;
		case STMT_WITH:
			targets(special, stmt->with.targets);
			read_list(special, stmt->with.values);
			walk_body(special, stmt->with.body);
			break;
		case STMT_TEXT:
		case STMT_BREAK:
		case STMT_CONTINUE:
			break;
		}
	}
}

void special_find(struct function *function)
{
	struct special special = {0};
	walk_body(&special, function->body);
	function->uses_caller = special.used[0];
	function->uses_varargs = special.used[1];
	function->uses_kwargs = special.used[2];
	for (struct expr *parameter = function->parameters; parameter; parameter = parameter->next) {
		function->uses_varargs &= !text_is(parameter->variable.name, "varargs");
		function->uses_kwargs &= !text_is(parameter->variable.name, "kwargs");
	}
}
