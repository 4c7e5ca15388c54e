/* Expressions. */
#include <errno.h>

#include "src/engine/template/builtin.h"
#include "src/engine/template/render.h"

struct value *render_slot(struct render *r, struct slot slot)
{
	struct activation *activation = r->activation;
	for (uint32_t i = 0; i < slot.hops; i++)
		activation = activation->outer;
	return &activation->slots[slot.index];
}

static int eval_name(struct render *r, const struct expr *expr, struct value *result)
{
	*result = *render_slot(r, expr->variable.slot);
	return result->kind == VALUE_MISSING ? value_undefined_name(r, expr->variable.name, result) : 0;
}

static int eval_list(struct render *r, const struct expr *expr, struct value *result)
{
	struct list *list = list_new(r, expr->list.n);
	if (!list)
		return render_oom(r);
	int rc = 0;
	for (const struct expr *item = expr->list.first; item && !rc; item = item->next) {
		struct value value;
		rc = render_expr(r, item, &value);
		rc = rc ? rc : list_append(r, list, value);
	}
	*result = expr->kind == EXPR_LIST ? value_list(list) : value_tuple(list);
	return rc;
}

static int eval_dict(struct render *r, const struct expr *expr, struct value *result)
{
	struct dict *dict = dict_new(r);
	if (!dict)
		return render_oom(r);
	int rc = 0;
	for (const struct expr *item = expr->list.first; item && !rc; item = item->next->next) {
		struct value key, value;
		rc = render_expr(r, item, &key);
		rc = rc ? rc : render_expr(r, item->next, &value);
		rc = rc ? rc : dict_set(r, dict, key, value);
	}
	*result = value_dict(dict);
	return rc;
}

static int eval_attr(struct render *r, const struct expr *expr, struct value *result)
{
	struct value object;
	int rc = render_expr(r, expr->access.object, &object);
	r->line = expr->line;
	return rc ? rc : render_attr(r, object, expr->access.name, result);
}

static int eval_item(struct render *r, const struct expr *expr, struct value *result)
{
	struct value object, key;
	int rc = render_expr(r, expr->access.object, &object);
	rc = rc ? rc : render_expr(r, expr->access.key, &key);
	r->line = expr->line;
	return rc ? rc : render_item(r, object, key, result);
}

static int eval_optional(struct render *r, const struct expr *expr, struct value *result)
{
	*result = (struct value){.kind = VALUE_MISSING};
	return expr ? render_expr(r, expr, result) : 0;
}

static int eval_slice(struct render *r, const struct expr *expr, struct value *result)
{
	struct value object, start, stop, step;
	int rc = render_expr(r, expr->slice.object, &object);
	rc = rc ? rc : eval_optional(r, expr->slice.start, &start);
	rc = rc ? rc : eval_optional(r, expr->slice.stop, &stop);
	rc = rc ? rc : eval_optional(r, expr->slice.step, &step);
	r->line = expr->line;
	return rc ? rc : render_slice(r, object, start, stop, step, result);
}

static int eval_arithmetic(struct render *r, const struct expr *expr, struct value *result)
{
	const struct expr *operand = expr->list.first;
	struct value left, right;
	int rc = render_expr(r, operand, &left);
	for (operand = operand->next; operand && !rc; operand = operand->next) {
		rc = render_expr(r, operand, &right);
		r->line = expr->line;
		rc = rc ? rc : render_binary(r, operand->op, left, right, &left);
	}
	*result = left;
	return rc;
}

static int eval_concat(struct render *r, const struct expr *expr, struct value *result)
{
	size_t mark = r->n_output;
	int rc = 0;
	for (const struct expr *item = expr->list.first; item && !rc; item = item->next) {
		struct value value;
		rc = render_expr(r, item, &value);
		rc = rc ? rc : render_value(r, value);
	}
	const struct text *text = NULL;
	rc = rc ? rc : render_capture(r, mark, &text);
	return rc ? rc : render_text_made(r, text, result);
}

/* `and` stops at the first false operand, `or` at the first true one; the value is that operand. */
static int eval_logic(struct render *r, const struct expr *expr, struct value *result)
{
	bool stop_at = expr->kind == EXPR_OR;
	int rc = 0;
	for (const struct expr *item = expr->list.first; item && !rc; item = item->next) {
		rc = render_expr(r, item, result);
		if (!rc && value_truth(*result) == stop_at)
			break;
	}
	return rc;
}

static int compare(struct render *r, enum operator_kind op, struct value a, struct value b, bool *holds)
{
	int order = 0, rc;
	bool unordered = false;
	switch (op) {
	case OP_EQ:
	case OP_NE:
		rc = value_equal(r, a, b, holds);
		*holds ^= op == OP_NE;
		return rc;
	case OP_IN:
	case OP_NOT_IN:
		rc = value_contains(r, b, a, holds);
		*holds ^= op == OP_NOT_IN;
		return rc;
	default:
		rc = value_order(r, a, b, &order, &unordered);
		*holds = op == OP_LT ? order < 0 : op == OP_LE ? order <= 0 : op == OP_GT ? order > 0 : order >= 0;
		*holds &= !unordered;
		return rc;
	}
}

static int eval_compare(struct render *r, const struct expr *expr, struct value *result)
{
	const struct expr *operand = expr->list.first;
	struct value left, right;
	bool holds = true;
	int rc = render_expr(r, operand, &left);
	for (operand = operand->next; operand && holds && !rc; operand = operand->next) {
		rc = render_expr(r, operand, &right);
		r->line = expr->line;
		holds = false;
		rc = rc ? rc : compare(r, operand->op, left, right, &holds);
		left = right;
	}
	*result = value_bool(holds);
	return rc;
}

static int eval_condition(struct render *r, const struct expr *expr, struct value *result)
{
	struct value test;
	int rc = render_expr(r, expr->condition.test, &test);
	if (rc)
		return rc;
	if (value_truth(test))
		return render_expr(r, expr->condition.then, result);
	if (expr->condition.otherwise)
		return render_expr(r, expr->condition.otherwise, result);
	return value_undefined_hint(r, "an inline if without else was false", result);
}

static int eval_prefix(struct render *r, const struct expr *expr, struct value *result)
{
	struct value value;
	int rc = render_expr(r, expr->access.object, &value);
	r->line = expr->line;
	if (rc)
		return rc;
	if (expr->kind == EXPR_NEGATE)
		return render_negate(r, value, result);
	if (expr->kind == EXPR_PLUS)
		return render_plus(r, value, result);
	*result = value_bool(!value_truth(value));
	return 0;
}

static int eval(struct render *r, const struct expr *expr, struct value *result)
{
	switch ((enum expr_kind)expr->kind) {
	case EXPR_CONST:
		*result = expr->constant;
		return 0;
	case EXPR_NAME:
		return eval_name(r, expr, result);
	case EXPR_LIST:
	case EXPR_TUPLE:
		return eval_list(r, expr, result);
	case EXPR_DICT:
		return eval_dict(r, expr, result);
	case EXPR_ATTR:
		return eval_attr(r, expr, result);
	case EXPR_ITEM:
		return eval_item(r, expr, result);
	case EXPR_SLICE:
		return eval_slice(r, expr, result);
	case EXPR_CALL:
	case EXPR_FILTER:
	case EXPR_TEST:
		return render_call_expr(r, expr, NULL, result);
	case EXPR_NOT:
	case EXPR_NEGATE:
	case EXPR_PLUS:
		return eval_prefix(r, expr, result);
	case EXPR_ARITHMETIC:
		return eval_arithmetic(r, expr, result);
	case EXPR_CONCAT:
		return eval_concat(r, expr, result);
	case EXPR_AND:
	case EXPR_OR:
		return eval_logic(r, expr, result);
	case EXPR_COMPARE:
		return eval_compare(r, expr, result);
	case EXPR_CONDITION:
		return eval_condition(r, expr, result);
	case EXPR_ATTR_TARGET:
		break; /* only on the left of a set */
	}
	return render_fail(r, "this cannot be evaluated");
}

int render_expr(struct render *r, const struct expr *expr, struct value *result)
{
	r->line = expr->line;
	int rc = render_charge(r, 1);
	rc = rc ? rc : render_enter(r);
	if (rc)
		return rc;
	rc = eval(r, expr, result);
	r->depth--;
	return rc;
}
