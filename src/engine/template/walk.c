#include "src/engine/template/walk.h"

int walk_list(struct walk *walk, struct expr *first)
{
	int rc = 0;
	for (struct expr *item = first; item && !rc; item = item->next)
		rc = walk_expr(walk, item);
	return rc;
}

static int walk_call(struct walk *walk, struct expr *expr)
{
	const struct arguments *arguments = &expr->call.arguments;
	int rc = walk_expr(walk, expr->call.target);
	rc = rc ? rc : walk_list(walk, arguments->positional);
	for (const struct keyword *k = arguments->named; k && !rc; k = k->next)
		rc = walk_expr(walk, k->value);
	rc = rc ? rc : walk_expr(walk, arguments->spread);
	return rc ? rc : walk_expr(walk, arguments->named_spread);
}

int walk_expr(struct walk *walk, struct expr *expr)
{
	int rc = expr ? walk->visit(walk, expr) : 0;
	if (rc || !expr)
		return rc;
	switch ((enum expr_kind)expr->kind) {
	case EXPR_CONST:
	case EXPR_NAME:
	case EXPR_ATTR_TARGET:
		return 0;
	case EXPR_LIST:
	case EXPR_TUPLE:
	case EXPR_DICT:
	case EXPR_ARITHMETIC:
	case EXPR_CONCAT:
	case EXPR_AND:
	case EXPR_OR:
	case EXPR_COMPARE:
		return walk_list(walk, expr->list.first);
	case EXPR_ATTR:
	case EXPR_NOT:
	case EXPR_NEGATE:
	case EXPR_PLUS:
		return walk_expr(walk, expr->access.object);
	case EXPR_ITEM:
		rc = walk_expr(walk, expr->access.object);
		return rc ? rc : walk_expr(walk, expr->access.key);
	case EXPR_SLICE:
		rc = walk_expr(walk, expr->slice.object);
		rc = rc ? rc : walk_expr(walk, expr->slice.start);
		rc = rc ? rc : walk_expr(walk, expr->slice.stop);
		return rc ? rc : walk_expr(walk, expr->slice.step);
	case EXPR_CALL:
	case EXPR_FILTER:
	case EXPR_TEST:
		return walk_call(walk, expr);
	case EXPR_CONDITION:
		walk->n_conditions++;
		rc = walk_expr(walk, expr->condition.test);
		rc = rc ? rc : walk_expr(walk, expr->condition.then);
		rc = rc ? rc : walk_expr(walk, expr->condition.otherwise);
		walk->n_conditions--;
		return rc;
	}
	return 0;
}
