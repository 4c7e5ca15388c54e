/* Operands: literals, names, and what is written behind them: subscripts, calls, filters and tests. */
#include "src/engine/template/parse.h"

#include <errno.h>
#include <string.h>

#include "src/engine/template/builtin.h"

struct expr *parse_node(struct parser *p, enum expr_kind kind, uint32_t line)
{
	struct expr *expr = heap_cells(p->heap, 1, sizeof *expr);
	if (expr) {
		expr->kind = kind;
		expr->line = line;
		expr->height = 1;
	}
	return expr;
}

int parse_adopt(struct parser *p, struct expr *parent, const struct expr *child)
{
	if (child && child->height >= parent->height)
		parent->height = child->height + 1;
	if (parent->height > PARSE_MAX_DEPTH)
		return err_set(p->err, -E2BIG, "line %u: the expression is nested more than %d deep", parent->line,
			       PARSE_MAX_DEPTH);
	return 0;
}

int parse_append(struct parser *p, struct expr *parent, struct expr ***tail, struct expr *item)
{
	**tail = item;
	*tail = &item->next;
	parent->list.n++;
	return parse_adopt(p, parent, item);
}

/* --- literals --------------------------------------------------------------------------------- */

static int parse_strings(struct parser *p, struct expr *expr)
{
	const struct text *text = p->token->text;
	p->token++;
	while (p->token->kind == TOKEN_STRING) { /* neighbours are joined */
		text = text_concat(p->heap, text, p->token->text);
		if (!text)
			return parse_oom(p);
		p->token++;
	}
	expr->constant = value_text(text);
	return 0;
}

static int parse_list(struct parser *p, struct expr *expr)
{
	struct expr **tail = &expr->list.first;
	p->token++;
	while (p->token->kind != TOKEN_RBRACKET) {
		int rc = expr->list.n ? parse_expect(p, TOKEN_COMMA) : 0;
		if (rc)
			return rc;
		if (p->token->kind == TOKEN_RBRACKET)
			break;
		struct expr *item;
		rc = parse_expression(p, &item);
		rc = rc ? rc : parse_append(p, expr, &tail, item);
		if (rc)
			return rc;
	}
	p->token++;
	return 0;
}

static int parse_dict(struct parser *p, struct expr *expr)
{
	struct expr **tail = &expr->list.first;
	p->token++;
	while (p->token->kind != TOKEN_RBRACE) {
		int rc = expr->list.n ? parse_expect(p, TOKEN_COMMA) : 0;
		if (rc)
			return rc;
		if (p->token->kind == TOKEN_RBRACE)
			break;
		struct expr *key, *value;
		rc = parse_expression(p, &key);
		rc = rc ? rc : parse_expect(p, TOKEN_COLON);
		rc = rc ? rc : parse_expression(p, &value);
		rc = rc ? rc : parse_append(p, expr, &tail, key);
		rc = rc ? rc : parse_append(p, expr, &tail, value);
		if (rc)
			return rc;
	}
	p->token++;
	return 0;
}

static bool at_tuple_end(const struct parser *p, const char *end_name)
{
	enum token_kind kind = p->token->kind;
	return kind == TOKEN_PRINT_END || kind == TOKEN_STATEMENT_END || kind == TOKEN_RPAREN ||
	       (end_name && parse_at_name(p, end_name));
}

/* One item, or a tuple if there are commas; no item at all is allowed only in parentheses. */
int parse_items(struct parser *p, parse_item_fn *parse_item, const char *end_name, bool may_be_empty,
		struct expr **expr)
{
	struct expr *tuple = parse_node(p, EXPR_TUPLE, p->token->line);
	if (!tuple)
		return parse_oom(p);
	struct expr **tail = &tuple->list.first;
	bool comma = false;
	for (;;) {
		if (at_tuple_end(p, end_name))
			break;
		struct expr *item;
		int rc = parse_item(p, &item);
		rc = rc ? rc : parse_append(p, tuple, &tail, item);
		if (rc)
			return rc;
		if (!parse_skip(p, TOKEN_COMMA))
			break;
		comma = true;
	}
	if (!comma && tuple->list.n) {
		*expr = tuple->list.first;
		return 0;
	}
	if (!comma && !may_be_empty)
		return parse_expected(p, "an expression");
	*expr = tuple;
	return 0;
}

static int parse_parenthesised(struct parser *p, struct expr **expr)
{
	p->token++;
	int rc = parse_items(p, parse_expression, NULL, true, expr);
	return rc ? rc : parse_expect(p, TOKEN_RPAREN);
}

static int parse_name(struct parser *p, bool namespaces, struct expr *expr)
{
	const struct text *name = p->token->text;
	p->token++;
	bool is_true = text_is(name, "true") || text_is(name, "True");
	if (is_true || text_is(name, "false") || text_is(name, "False")) {
		expr->constant = value_bool(is_true);
	} else if (text_is(name, "none") || text_is(name, "None")) {
		expr->constant = value_none();
	} else {
		expr->kind = EXPR_NAME;
		expr->variable.name = name;
		if (namespaces && parse_skip(p, TOKEN_DOT)) {
			expr->kind = EXPR_ATTR_TARGET;
			return parse_expect_name(p, &expr->variable.attribute);
		}
	}
	return 0;
}

static int parse_primary_of(struct parser *p, bool namespaces, struct expr **expr)
{
	const struct token *token = p->token;
	struct expr *node = parse_node(p, EXPR_CONST, token->line);
	if (!node)
		return parse_oom(p);
	int rc = 0;
	switch (token->kind) {
	case TOKEN_NAME:
		rc = parse_name(p, namespaces, node);
		break;
	case TOKEN_STRING:
		rc = parse_strings(p, node);
		break;
	case TOKEN_INTEGER:
		node->constant = value_int(token->integer);
		p->token++;
		break;
	case TOKEN_FLOAT:
		node->constant = value_float(token->real);
		p->token++;
		break;
	case TOKEN_LPAREN:
		rc = parse_parenthesised(p, &node);
		break;
	case TOKEN_LBRACKET:
		node->kind = EXPR_LIST;
		rc = parse_list(p, node);
		break;
	case TOKEN_LBRACE:
		node->kind = EXPR_DICT;
		rc = parse_dict(p, node);
		break;
	default:
		rc = parse_expected(p, "an expression");
	}
	*expr = node;
	return rc;
}

int parse_primary(struct parser *p, struct expr **expr)
{
	return parse_primary_of(p, false, expr);
}

int parse_target_primary(struct parser *p, struct expr **expr)
{
	return parse_primary_of(p, true, expr);
}

/* --- subscripts and calls --------------------------------------------------------------------- */

static bool at_subscript_end(const struct parser *p)
{
	return p->token->kind == TOKEN_RBRACKET || p->token->kind == TOKEN_COMMA;
}

/* The rest of a slice behind `start` (NULL: there was none); the current token is the first ":". */
static int parse_slice(struct parser *p, struct expr *node, struct expr *start)
{
	struct expr *object = node->access.object;
	node->kind = EXPR_SLICE;
	node->slice.object = object;
	node->slice.start = start;
	node->slice.stop = node->slice.step = NULL;
	p->token++;
	int rc = 0;
	if (p->token->kind != TOKEN_COLON && !at_subscript_end(p))
		rc = parse_expression(p, &node->slice.stop);
	if (!rc && parse_skip(p, TOKEN_COLON) && !at_subscript_end(p))
		rc = parse_expression(p, &node->slice.step);
	rc = rc ? rc : parse_adopt(p, node, start);
	rc = rc ? rc : parse_adopt(p, node, node->slice.stop);
	return rc ? rc : parse_adopt(p, node, node->slice.step);
}

static int parse_brackets(struct parser *p, struct expr *node)
{
	p->token++;
	struct expr *first = NULL;
	int rc = 0;
	if (p->token->kind == TOKEN_COLON)
		rc = parse_slice(p, node, NULL);
	else if (p->token->kind != TOKEN_RBRACKET) {
		rc = parse_expression(p, &first);
		if (!rc && p->token->kind == TOKEN_COLON)
			rc = parse_slice(p, node, first);
	}
	if (rc)
		return rc;
	if (node->kind == EXPR_SLICE) {
		if (p->token->kind == TOKEN_COMMA)
			return err_set(p->err, -ENOTSUP, "line %u: slices in more than one dimension are not supported",
				       p->token->line);
		return parse_expect(p, TOKEN_RBRACKET);
	}
	if (first && p->token->kind == TOKEN_RBRACKET) {
		node->access.key = first;
	} else { /* a[], a[1, 2]: the key is a tuple */
		struct expr *tuple = parse_node(p, EXPR_TUPLE, node->line);
		if (!tuple)
			return parse_oom(p);
		struct expr **tail = &tuple->list.first;
		for (struct expr *item = first; item;) {
			rc = parse_append(p, tuple, &tail, item);
			item = NULL;
			if (!rc && p->token->kind != TOKEN_RBRACKET) {
				rc = parse_expect(p, TOKEN_COMMA);
				rc = rc ? rc : parse_expression(p, &item);
			}
			if (rc)
				return rc;
		}
		node->access.key = tuple;
	}
	rc = parse_expect(p, TOKEN_RBRACKET);
	return rc ? rc : parse_adopt(p, node, node->access.key);
}

static int parse_subscript(struct parser *p, struct expr *object, struct expr **expr)
{
	struct expr *node = parse_node(p, EXPR_ITEM, p->token->line);
	if (!node)
		return parse_oom(p);
	node->access.object = object;
	int rc = parse_adopt(p, node, object);
	if (rc)
		return rc;
	*expr = node;
	if (p->token->kind == TOKEN_LBRACKET)
		return parse_brackets(p, node);
	p->token++;
	if (p->token->kind == TOKEN_NAME) {
		node->kind = EXPR_ATTR;
		node->access.name = p->token->text;
	} else if (p->token->kind == TOKEN_INTEGER) {
		node->access.key = parse_node(p, EXPR_CONST, p->token->line);
		if (!node->access.key)
			return parse_oom(p);
		node->access.key->constant = value_int(p->token->integer);
	} else {
		return parse_expected(p, "a name or a number behind \".\"");
	}
	p->token++;
	return 0;
}

static int parse_named_argument(struct parser *p, struct arguments *arguments, struct keyword ***tail)
{
	struct keyword *keyword = heap_cells(p->heap, 1, sizeof *keyword);
	if (!keyword)
		return parse_oom(p);
	keyword->name = p->token->text;
	for (const struct keyword *k = arguments->named; k; k = k->next)
		if (text_equal(k->name, keyword->name))
			return parse_fail(p, p->token->line, "the argument '%.*s' is given twice",
					  (int)k->name->n_bytes, k->name->bytes);
	p->token += 2;
	int rc = parse_expression(p, &keyword->value);
	**tail = keyword;
	*tail = &keyword->next;
	arguments->n_named++;
	return rc;
}

/* "(" … ")" into the arguments of `node`, a call, filter or test. */
static int parse_arguments(struct parser *p, struct expr *node)
{
	struct arguments *arguments = &node->call.arguments;
	struct expr **tail = &arguments->positional;
	struct keyword **named_tail = &arguments->named;
	uint32_t line = p->token->line;
	int rc = parse_expect(p, TOKEN_LPAREN);
	for (bool first = true; !rc && p->token->kind != TOKEN_RPAREN; first = false) {
		rc = first ? 0 : parse_expect(p, TOKEN_COMMA);
		if (rc)
			return rc;
		if (p->token->kind == TOKEN_RPAREN)
			break;
		struct expr *value = NULL;
		bool named = p->token->kind == TOKEN_NAME && p->token[1].kind == TOKEN_ASSIGN;
		bool late = arguments->spread || arguments->named_spread;
		if (arguments->named_spread || (late && !named && p->token->kind != TOKEN_POW) ||
		    (arguments->named && !named && p->token->kind != TOKEN_MUL && p->token->kind != TOKEN_POW))
			return parse_fail(p, line, "the arguments of this call are in the wrong order");
		if (parse_skip(p, TOKEN_MUL)) {
			rc = parse_expression(p, &value);
			arguments->spread = value;
		} else if (parse_skip(p, TOKEN_POW)) {
			rc = parse_expression(p, &value);
			arguments->named_spread = value;
		} else if (named) {
			rc = parse_named_argument(p, arguments, &named_tail);
		} else {
			rc = parse_expression(p, &value);
			if (!rc) {
				*tail = value;
				tail = &value->next;
				arguments->n_positional++;
			}
		}
		rc = rc ? rc : parse_adopt(p, node, value);
	}
	for (struct keyword *k = arguments->named; k && !rc; k = k->next)
		rc = parse_adopt(p, node, k->value);
	return rc ? rc : parse_expect(p, TOKEN_RPAREN);
}

static int parse_call(struct parser *p, struct expr *callee, struct expr **expr)
{
	struct expr *node = parse_node(p, EXPR_CALL, p->token->line);
	if (!node)
		return parse_oom(p);
	node->call.target = callee;
	*expr = node;
	int rc = parse_adopt(p, node, callee);
	return rc ? rc : parse_arguments(p, node);
}

int parse_postfix(struct parser *p, struct expr **expr)
{
	for (;;) {
		int rc;
		if (p->token->kind == TOKEN_DOT || p->token->kind == TOKEN_LBRACKET)
			rc = parse_subscript(p, *expr, expr);
		else if (p->token->kind == TOKEN_LPAREN)
			rc = parse_call(p, *expr, expr);
		else
			return 0;
		if (rc)
			return rc;
	}
}

/* --- filters and tests ------------------------------------------------------------------------ */

/* The name of a filter or test, which may have dots, and what it stands for. */
static int parse_builtin_name(struct parser *p, bool filter, struct expr *node)
{
	int rc = parse_expect_name(p, &node->call.name);
	if (rc)
		return rc;
	if (p->token->kind == TOKEN_DOT)
		return parse_fail(p, node->line, "there is no %s with a dot in its name", filter ? "filter" : "test");
	node->call.builtin = filter ? builtin_filter(node->call.name) : builtin_test(node->call.name);
	return 0;
}

static int parse_filter(struct parser *p, struct expr *input, struct expr **expr)
{
	struct expr *node = parse_node(p, EXPR_FILTER, p->token->line);
	if (!node)
		return parse_oom(p);
	node->call.target = input;
	*expr = node;
	int rc = parse_adopt(p, node, input);
	rc = rc ? rc : parse_builtin_name(p, true, node);
	if (!rc && p->token->kind == TOKEN_LPAREN)
		rc = parse_arguments(p, node);
	return rc;
}

int parse_filters(struct parser *p, struct expr *input, struct expr **expr)
{
	int rc = 0;
	while (!rc && parse_skip(p, TOKEN_PIPE))
		rc = parse_filter(p, input, &input);
	*expr = input;
	return rc;
}

int parse_block_filter(struct parser *p, struct expr **expr)
{
	int rc = parse_filter(p, NULL, expr);
	return rc ? rc : parse_filters(p, *expr, expr);
}

/* `x is divisibleby 3`: an argument without parentheses. */
static bool at_bare_argument(const struct parser *p)
{
	switch (p->token->kind) {
	case TOKEN_NAME:
		return !parse_at_name(p, "else") && !parse_at_name(p, "or") && !parse_at_name(p, "and");
	case TOKEN_STRING:
	case TOKEN_INTEGER:
	case TOKEN_FLOAT:
	case TOKEN_LBRACKET:
	case TOKEN_LBRACE:
		return true;
	default:
		return false;
	}
}

static int parse_test(struct parser *p, struct expr *input, struct expr **expr)
{
	struct expr *node = parse_node(p, EXPR_TEST, p->token->line);
	if (!node)
		return parse_oom(p);
	p->token++;
	bool negated = parse_skip_name(p, "not");
	node->call.target = input;
	int rc = parse_adopt(p, node, input);
	rc = rc ? rc : parse_builtin_name(p, false, node);
	if (rc)
		return rc;
	if (p->token->kind == TOKEN_LPAREN) {
		rc = parse_arguments(p, node);
	} else if (at_bare_argument(p)) {
		if (parse_at_name(p, "is"))
			return parse_fail(p, p->token->line, "tests cannot be chained with \"is\"");
		struct expr **argument = &node->call.arguments.positional;
		rc = parse_primary(p, argument);
		rc = rc ? rc : parse_postfix(p, argument);
		rc = rc ? rc : parse_adopt(p, node, *argument);
		node->call.arguments.n_positional = 1;
	}
	if (rc || !negated) {
		*expr = node;
		return rc;
	}
	struct expr *not_node = parse_node(p, EXPR_NOT, node->line);
	if (!not_node)
		return parse_oom(p);
	not_node->access.object = node;
	*expr = not_node;
	return parse_adopt(p, not_node, node);
}

int parse_filters_and_tests(struct parser *p, struct expr **expr)
{
	for (;;) {
		int rc;
		if (p->token->kind == TOKEN_PIPE)
			rc = parse_filters(p, *expr, expr);
		else if (parse_at_name(p, "is"))
			rc = parse_test(p, *expr, expr);
		else if (p->token->kind == TOKEN_LPAREN)
			rc = parse_call(p, *expr, expr);
		else
			return 0;
		if (rc)
			return rc;
	}
}
