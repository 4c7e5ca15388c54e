/* Statements. The current token of every parse function is the name of the statement, behind "{%"; they leave the token
 * behind their closing "%}" to parse_statements. */
#include "src/engine/template/parse.h"

#include <errno.h>
#include <string.h>

int parse_fail(struct parser *p, uint32_t line, const char *format, ...)
{
	char reason[200];
	va_list args;
	va_start(args, format);
	vsnprintf(reason, sizeof reason, format, args);
	va_end(args);
	return err_set(p->err, -EINVAL, "line %u: %s", line, reason);
}

int parse_expected(struct parser *p, const char *what)
{
	const struct token *token = p->token;
	if (token->kind == TOKEN_NAME)
		return parse_fail(p, token->line, "expected %s, got '%.*s'", what, (int)token->text->n_bytes,
				  token->text->bytes);
	return parse_fail(p, token->line, "expected %s, got %s", what, token_name(token->kind));
}

int parse_oom(struct parser *p)
{
	return p->heap->over_budget ? err_set(p->err, -E2BIG, "the template is too large")
				    : err_set(p->err, -ENOMEM, "out of memory");
}

int parse_enter(struct parser *p)
{
	if (++p->depth > PARSE_MAX_DEPTH)
		return err_set(p->err, -E2BIG, "line %u: nested more than %d deep", p->token->line, PARSE_MAX_DEPTH);
	return 0;
}

bool parse_at_name(const struct parser *p, const char *name)
{
	return p->token->kind == TOKEN_NAME && text_is(p->token->text, name);
}

bool parse_skip(struct parser *p, enum token_kind kind)
{
	if (p->token->kind != kind)
		return false;
	p->token++;
	return true;
}

bool parse_skip_name(struct parser *p, const char *name)
{
	if (!parse_at_name(p, name))
		return false;
	p->token++;
	return true;
}

int parse_expect(struct parser *p, enum token_kind kind)
{
	return parse_skip(p, kind) ? 0 : parse_expected(p, token_name(kind));
}

int parse_expect_name(struct parser *p, const struct text **name)
{
	if (p->token->kind != TOKEN_NAME)
		return parse_expected(p, "a name");
	*name = p->token->text;
	p->token++;
	return 0;
}

/* The names that end a body, such as "elif else endif". */
struct endings {
	const char *names[4]; /* NULL ends them */
	uint32_t line;	      /* of the statement that needs one */
};

static int parse_statements(struct parser *p, const struct endings *endings, struct stmt **body);

/* The rest of a statement's tag (a colon is allowed) and its body up to one of `endings`, whose name is the current
 * token afterwards. */
static int parse_body(struct parser *p, const struct endings *endings, struct stmt **body)
{
	parse_skip(p, TOKEN_COLON);
	int rc = parse_expect(p, TOKEN_STATEMENT_END);
	return rc ? rc : parse_statements(p, endings, body);
}

/* The same when there is one ending, which is skipped. */
static int parse_whole_body(struct parser *p, const char *ending, struct stmt **body)
{
	struct endings endings = {.names = {ending}, .line = p->token->line};
	int rc = parse_body(p, &endings, body);
	if (!rc)
		p->token++;
	return rc;
}

/* The body of a function of its own: break and continue do not reach out of it. */
static int parse_function_body(struct parser *p, const char *ending, struct function *function)
{
	uint32_t n_loops = p->n_loops;
	p->n_loops = 0;
	int rc = parse_whole_body(p, ending, &function->body);
	p->n_loops = n_loops;
	return rc;
}

/* --- statements ------------------------------------------------------------------------------- */

static int parse_for(struct parser *p, struct stmt *stmt)
{
	const struct token *target = p->token;
	int rc = parse_target(p, "in", false, &stmt->loop.target);
	if (rc)
		return rc;
	/* Parsed twice: the loop's test has variables of its own. */
	p->token = target;
	rc = parse_target(p, "in", false, &stmt->loop.test_target);
	if (rc)
		return rc;
	if (!parse_skip_name(p, "in"))
		return parse_expected(p, "\"in\"");
	rc = parse_unconditional_tuple(p, "recursive", &stmt->loop.iterable);
	if (!rc && parse_skip_name(p, "if"))
		rc = parse_expression(p, &stmt->loop.test);
	if (!rc && parse_at_name(p, "recursive"))
		return err_set(p->err, -ENOTSUP, "line %u: recursive loops are not supported", stmt->line);
	struct endings endings = {.names = {"endfor", "else"}, .line = stmt->line};
	p->n_loops++;
	rc = rc ? rc : parse_body(p, &endings, &stmt->loop.body);
	p->n_loops--;
	if (rc)
		return rc;
	if (parse_skip_name(p, "else"))
		return parse_whole_body(p, "endfor", &stmt->loop.otherwise);
	p->token++;
	return 0;
}

static int parse_if(struct parser *p, struct stmt *stmt)
{
	struct branch **tail = &stmt->branches;
	struct endings endings = {.names = {"elif", "else", "endif"}, .line = stmt->line};
	for (bool last = false; !last;) {
		struct branch *branch = heap_cells(p->heap, 1, sizeof *branch);
		if (!branch)
			return parse_oom(p);
		*tail = branch;
		tail = &branch->next;
		int rc = parse_unconditional_tuple(p, NULL, &branch->test);
		rc = rc ? rc : parse_body(p, &endings, &branch->body);
		if (rc)
			return rc;
		last = !parse_at_name(p, "elif");
		if (!last)
			p->token++;
	}
	if (!parse_skip_name(p, "else")) {
		p->token++;
		return 0;
	}
	struct branch *branch = heap_cells(p->heap, 1, sizeof *branch);
	if (!branch)
		return parse_oom(p);
	*tail = branch;
	return parse_whole_body(p, "endif", &branch->body);
}

static int parse_set(struct parser *p, struct stmt *stmt)
{
	int rc = parse_target(p, NULL, true, &stmt->set.target);
	if (rc)
		return rc;
	if (parse_skip(p, TOKEN_ASSIGN))
		return parse_tuple(p, &stmt->set.value);
	stmt->kind = STMT_SET_BLOCK;
	rc = parse_filters(p, NULL, &stmt->set.value);
	return rc ? rc : parse_whole_body(p, "endset", &stmt->set.body);
}

/* "(a, b=1)" */
static int parse_parameters(struct parser *p, struct function *function)
{
	struct expr **tail = &function->parameters, **default_tail = &function->defaults;
	int rc = parse_expect(p, TOKEN_LPAREN);
	while (!rc && p->token->kind != TOKEN_RPAREN) {
		rc = function->n_parameters ? parse_expect(p, TOKEN_COMMA) : 0;
		if (rc)
			return rc;
		struct expr *parameter = parse_node(p, EXPR_NAME, p->token->line);
		if (!parameter)
			return parse_oom(p);
		rc = parse_expect_name(p, &parameter->variable.name);
		if (rc)
			return rc;
		for (const struct expr *other = function->parameters; other; other = other->next)
			if (text_equal(other->variable.name, parameter->variable.name))
				return parse_fail(p, parameter->line, "two parameters have the same name");
		*tail = parameter;
		tail = &parameter->next;
		function->n_parameters++;
		function->has_caller_parameter |= text_is(parameter->variable.name, "caller");
		if (parse_skip(p, TOKEN_ASSIGN)) {
			rc = parse_expression(p, default_tail);
			if (rc)
				return rc;
			default_tail = &(*default_tail)->next;
			function->n_defaults++;
		} else if (function->n_defaults) {
			return parse_fail(p, parameter->line,
					  "a parameter without a default follows one with a default");
		}
	}
	return rc ? rc : parse_expect(p, TOKEN_RPAREN);
}

static int parse_macro(struct parser *p, struct stmt *stmt)
{
	struct function *function = heap_cells(p->heap, 1, sizeof *function);
	if (!function)
		return parse_oom(p);
	stmt->macro.function = function;
	int rc = parse_expect_name(p, &function->name);
	rc = rc ? rc : parse_parameters(p, function);
	return rc ? rc : parse_function_body(p, "endmacro", function);
}

static int parse_call_block(struct parser *p, struct stmt *stmt)
{
	struct function *function = heap_cells(p->heap, 1, sizeof *function);
	if (!function)
		return parse_oom(p);
	stmt->macro.function = function;
	int rc = p->token->kind == TOKEN_LPAREN ? parse_parameters(p, function) : 0;
	rc = rc ? rc : parse_expression(p, &stmt->macro.call);
	if (!rc && stmt->macro.call->kind != EXPR_CALL)
		return parse_fail(p, stmt->line, "expected a call");
	return rc ? rc : parse_function_body(p, "endcall", function);
}

static int parse_filter_block(struct parser *p, struct stmt *stmt)
{
	int rc = parse_block_filter(p, &stmt->filter_block.filter);
	return rc ? rc : parse_whole_body(p, "endfilter", &stmt->filter_block.body);
}

static int parse_with(struct parser *p, struct stmt *stmt)
{
	struct expr **targets = &stmt->with.targets, **values = &stmt->with.values;
	while (p->token->kind != TOKEN_STATEMENT_END) {
		int rc = stmt->with.targets ? parse_expect(p, TOKEN_COMMA) : 0;
		rc = rc ? rc : parse_target(p, NULL, false, targets);
		rc = rc ? rc : parse_expect(p, TOKEN_ASSIGN);
		rc = rc ? rc : parse_expression(p, values);
		if (rc)
			return rc;
		targets = &(*targets)->next;
		values = &(*values)->next;
	}
	return parse_whole_body(p, "endwith", &stmt->with.body);
}

static int parse_generation(struct parser *p, struct stmt *stmt)
{
	stmt->macro.function = heap_cells(p->heap, 1, sizeof *stmt->macro.function);
	if (!stmt->macro.function)
		return parse_oom(p);
	return parse_function_body(p, "endgeneration", stmt->macro.function);
}

static int parse_print(struct parser *p, struct stmt *stmt)
{
	struct expr **tail = &stmt->print;
	while (p->token->kind != TOKEN_STATEMENT_END) {
		int rc = stmt->print ? parse_expect(p, TOKEN_COMMA) : 0;
		rc = rc ? rc : parse_expression(p, tail);
		if (rc)
			return rc;
		tail = &(*tail)->next;
	}
	return 0;
}

static int parse_jump(struct parser *p, struct stmt *stmt)
{
	if (!p->n_loops)
		return parse_fail(p, stmt->line, "%s outside of a loop",
				  stmt->kind == STMT_BREAK ? "break" : "continue");
	return 0;
}

static const struct {
	const char *name;
	enum stmt_kind kind;
	int (*parse)(struct parser *, struct stmt *); /* NULL: Jinja has it, this interpreter does not */
} statements[] = {
	{"for", STMT_FOR, parse_for},
	{"if", STMT_IF, parse_if},
	{"set", STMT_SET, parse_set},
	{"macro", STMT_MACRO, parse_macro},
	{"call", STMT_CALL_BLOCK, parse_call_block},
	{"filter", STMT_FILTER_BLOCK, parse_filter_block},
	{"with", STMT_WITH, parse_with},
	{"generation", STMT_GENERATION, parse_generation},
	{"print", STMT_PRINT, parse_print},
	{"break", STMT_BREAK, parse_jump},
	{"continue", STMT_CONTINUE, parse_jump},
	{"block", 0, NULL},
	{"extends", 0, NULL},
	{"include", 0, NULL},
	{"import", 0, NULL},
	{"from", 0, NULL},
	{"autoescape", 0, NULL},
};

static int parse_statement(struct parser *p, struct stmt *stmt)
{
	if (p->token->kind != TOKEN_NAME)
		return parse_expected(p, "the name of a statement");
	const struct text *name = p->token->text;
	for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
		if (!text_is(name, statements[i].name))
			continue;
		if (!statements[i].parse)
			return err_set(p->err, -ENOTSUP, "line %u: the statement '%s' is not supported", stmt->line,
				       statements[i].name);
		p->token++;
		stmt->kind = statements[i].kind;
		return statements[i].parse(p, stmt);
	}
	return parse_fail(p, stmt->line, "there is no statement '%.*s'", (int)name->n_bytes, name->bytes);
}

static bool at_ending(const struct parser *p, const struct endings *endings)
{
	for (size_t i = 0; endings && endings->names[i]; i++)
		if (parse_at_name(p, endings->names[i]))
			return true;
	return false;
}

/* "{{ … }}" */
static int parse_output(struct parser *p, struct stmt *stmt)
{
	p->token++;
	stmt->kind = STMT_PRINT;
	int rc = parse_tuple(p, &stmt->print);
	return rc ? rc : parse_expect(p, TOKEN_PRINT_END);
}

/* Up to a "{%" with one of `endings` (NULL: up to the end of the template). */
static int parse_statements(struct parser *p, const struct endings *endings, struct stmt **body)
{
	int rc = parse_enter(p);
	while (!rc) {
		if (p->token->kind == TOKEN_END) {
			if (endings)
				return parse_fail(p, p->token->line, "the template ends, but line %u needs {%% %s %%}",
						  endings->line, endings->names[0]);
			break;
		}
		struct stmt *stmt = heap_cells(p->heap, 1, sizeof *stmt);
		if (!stmt)
			return parse_oom(p);
		stmt->line = p->token->line;
		if (p->token->kind == TOKEN_DATA) {
			stmt->kind = STMT_TEXT;
			stmt->text = p->token->text;
			p->token++;
		} else if (p->token->kind == TOKEN_PRINT_BEGIN) {
			rc = parse_output(p, stmt);
		} else {
			p->token++; /* "{%": the lexer makes no other token here */
			if (at_ending(p, endings))
				break;
			rc = parse_statement(p, stmt);
			rc = rc ? rc : parse_expect(p, TOKEN_STATEMENT_END);
		}
		*body = stmt;
		body = &stmt->next;
	}
	p->depth--;
	return rc;
}

int parse_template(struct parser *p, struct stmt **body)
{
	return parse_statements(p, NULL, body);
}
