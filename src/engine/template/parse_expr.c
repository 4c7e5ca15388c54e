/* Expressions, by recursive descent with Jinja's precedence: inline if, or, and, not, comparisons, + -, ~, * / // %,
 * **, unary signs, then subscripts and calls, then filters and tests. Two of Jinja's habits differ from Python's: **
 * binds to the left and weaker than a sign, and a filter applies to a signed operand (-x|abs is abs(-x)). Operators of
 * one level become one node with a list of operands, so long sums do not nest. */
#include "src/engine/template/parse.h"

#include <string.h>

static enum operator_kind operator_of(enum token_kind kind)
{
	switch (kind) {
	case TOKEN_ADD:
		return OP_ADD;
	case TOKEN_SUB:
		return OP_SUB;
	case TOKEN_MUL:
		return OP_MUL;
	case TOKEN_DIV:
		return OP_DIV;
	case TOKEN_FLOORDIV:
		return OP_FLOORDIV;
	case TOKEN_MOD:
		return OP_MOD;
	case TOKEN_POW:
		return OP_POW;
	case TOKEN_EQ:
		return OP_EQ;
	case TOKEN_NE:
		return OP_NE;
	case TOKEN_LT:
		return OP_LT;
	case TOKEN_LE:
		return OP_LE;
	case TOKEN_GT:
		return OP_GT;
	case TOKEN_GE:
		return OP_GE;
	default:
		return OP_NONE;
	}
}

static int parse_prefix(struct parser *p, enum expr_kind kind, parse_item_fn *parse_operand, struct expr **expr)
{
	int rc = parse_enter(p);
	if (rc)
		return rc;
	struct expr *node = parse_node(p, kind, p->token->line);
	if (!node)
		return parse_oom(p);
	p->token++;
	rc = parse_operand(p, &node->access.object);
	rc = rc ? rc : parse_adopt(p, node, node->access.object);
	p->depth--;
	*expr = node;
	return rc;
}

/* A signed operand without filters. */
static int parse_signed(struct parser *p, struct expr **expr)
{
	int rc;
	if (p->token->kind == TOKEN_SUB)
		rc = parse_prefix(p, EXPR_NEGATE, parse_signed, expr);
	else if (p->token->kind == TOKEN_ADD)
		rc = parse_prefix(p, EXPR_PLUS, parse_signed, expr);
	else
		rc = parse_primary(p, expr);
	return rc ? rc : parse_postfix(p, expr);
}

static int parse_unary(struct parser *p, struct expr **expr)
{
	int rc = parse_signed(p, expr);
	return rc ? rc : parse_filters_and_tests(p, expr);
}

/* Operands of one level of precedence with the operators [first, last] between them. */
static int parse_chain(struct parser *p, enum operator_kind first, enum operator_kind last,
		       parse_item_fn *parse_operand, struct expr **expr)
{
	int rc = parse_operand(p, expr);
	enum operator_kind op = operator_of(p->token->kind);
	if (rc || op < first || op > last)
		return rc;
	struct expr *chain = parse_node(p, EXPR_ARITHMETIC, p->token->line);
	if (!chain)
		return parse_oom(p);
	struct expr **tail = &chain->list.first, *operand = *expr;
	rc = parse_append(p, chain, &tail, operand);
	while (!rc && op >= first && op <= last) {
		p->token++;
		rc = parse_operand(p, &operand);
		if (rc)
			return rc;
		operand->op = op;
		rc = parse_append(p, chain, &tail, operand);
		op = operator_of(p->token->kind);
	}
	*expr = chain;
	return rc;
}

static int parse_power(struct parser *p, struct expr **expr)
{
	return parse_chain(p, OP_POW, OP_POW, parse_unary, expr);
}

static int parse_product(struct parser *p, struct expr **expr)
{
	return parse_chain(p, OP_MUL, OP_MOD, parse_power, expr);
}

static bool at_word(const struct parser *p, const char *word)
{
	return strcmp(word, "~") == 0 ? p->token->kind == TOKEN_TILDE : parse_at_name(p, word);
}

/* Operands with "~", "and" or "or" between them. */
static int parse_words(struct parser *p, enum expr_kind kind, const char *word, parse_item_fn *parse_operand,
		       struct expr **expr)
{
	int rc = parse_operand(p, expr);
	if (rc || !at_word(p, word))
		return rc;
	struct expr *chain = parse_node(p, kind, p->token->line);
	if (!chain)
		return parse_oom(p);
	struct expr **tail = &chain->list.first, *operand = *expr;
	rc = parse_append(p, chain, &tail, operand);
	while (!rc && at_word(p, word)) {
		p->token++;
		rc = parse_operand(p, &operand);
		rc = rc ? rc : parse_append(p, chain, &tail, operand);
	}
	*expr = chain;
	return rc;
}

static int parse_concat(struct parser *p, struct expr **expr)
{
	return parse_words(p, EXPR_CONCAT, "~", parse_product, expr);
}

static int parse_sum(struct parser *p, struct expr **expr)
{
	return parse_chain(p, OP_ADD, OP_SUB, parse_concat, expr);
}

/* The comparison at this point, which is skipped, or OP_NONE. */
static enum operator_kind parse_comparison(struct parser *p)
{
	enum operator_kind op = operator_of(p->token->kind);
	if (op >= OP_EQ && op <= OP_GE) {
		p->token++;
		return op;
	}
	if (parse_skip_name(p, "in"))
		return OP_IN;
	const struct token *next = p->token + 1;
	if (parse_at_name(p, "not") && next->kind == TOKEN_NAME && text_is(next->text, "in")) {
		p->token += 2;
		return OP_NOT_IN;
	}
	return OP_NONE;
}

static int parse_compare(struct parser *p, struct expr **expr)
{
	int rc = parse_sum(p, expr);
	uint32_t line = p->token->line;
	enum operator_kind op = rc ? OP_NONE : parse_comparison(p);
	if (op == OP_NONE)
		return rc;
	struct expr *chain = parse_node(p, EXPR_COMPARE, line);
	if (!chain)
		return parse_oom(p);
	struct expr **tail = &chain->list.first, *operand = *expr;
	rc = parse_append(p, chain, &tail, operand);
	while (!rc && op != OP_NONE) {
		rc = parse_sum(p, &operand);
		if (rc)
			return rc;
		operand->op = op;
		rc = parse_append(p, chain, &tail, operand);
		op = parse_comparison(p);
	}
	*expr = chain;
	return rc;
}

static int parse_not(struct parser *p, struct expr **expr)
{
	return parse_at_name(p, "not") ? parse_prefix(p, EXPR_NOT, parse_not, expr) : parse_compare(p, expr);
}

static int parse_and(struct parser *p, struct expr **expr)
{
	return parse_words(p, EXPR_AND, "and", parse_not, expr);
}

int parse_unconditional(struct parser *p, struct expr **expr)
{
	return parse_words(p, EXPR_OR, "or", parse_and, expr);
}

int parse_expression(struct parser *p, struct expr **expr)
{
	int rc = parse_enter(p);
	if (rc)
		return rc;
	rc = parse_unconditional(p, expr);
	while (!rc && parse_at_name(p, "if")) {
		struct expr *node = parse_node(p, EXPR_CONDITION, p->token->line);
		if (!node)
			return parse_oom(p);
		p->token++;
		node->condition.then = *expr;
		rc = parse_unconditional(p, &node->condition.test);
		if (!rc && parse_skip_name(p, "else"))
			rc = parse_expression(p, &node->condition.otherwise);
		rc = rc ? rc : parse_adopt(p, node, node->condition.test);
		rc = rc ? rc : parse_adopt(p, node, node->condition.then);
		rc = rc ? rc : parse_adopt(p, node, node->condition.otherwise);
		*expr = node;
	}
	p->depth--;
	return rc;
}

int parse_tuple(struct parser *p, struct expr **expr)
{
	return parse_items(p, parse_expression, NULL, false, expr);
}

int parse_unconditional_tuple(struct parser *p, const char *end_name, struct expr **expr)
{
	return parse_items(p, parse_unconditional, end_name, false, expr);
}

/* --- targets ---------------------------------------------------------------------------------- */

static int check_target(struct parser *p, const struct expr *expr)
{
	if (expr->kind == EXPR_NAME || expr->kind == EXPR_ATTR_TARGET)
		return 0;
	if (expr->kind != EXPR_TUPLE)
		return parse_fail(p, expr->line, "only names can be assigned to");
	int rc = 0;
	for (const struct expr *item = expr->list.first; item && !rc; item = item->next)
		rc = check_target(p, item);
	return rc;
}

int parse_target(struct parser *p, const char *end_name, bool namespaces, struct expr **expr)
{
	int rc = parse_items(p, namespaces ? parse_target_primary : parse_primary, end_name, false, expr);
	return rc ? rc : check_target(p, *expr);
}
