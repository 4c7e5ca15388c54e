/* Tokens to syntax tree. */
#ifndef WEIGHTD_ENGINE_TEMPLATE_PARSE_H
#define WEIGHTD_ENGINE_TEMPLATE_PARSE_H

#include "src/engine/template/ast.h"
#include "src/engine/template/lex.h"
#include "src/err.h"

enum { PARSE_MAX_DEPTH = 200 };

struct parser {
	struct heap *heap;
	const struct token *token; /* the current one */
	struct err *err;
	uint32_t depth;
	uint32_t n_loops; /* around this point in this function: break and continue are allowed */
};

/* The statements of a whole template. -EINVAL, -ENOTSUP, -E2BIG, -ENOMEM. */
int parse_template(struct parser *parser, struct stmt **body);

/* --- shared by the statement and the expression parser ---------------------------------------- */

int parse_fail(struct parser *parser, uint32_t line, const char *format, ...) __attribute__((format(printf, 3, 4)));
int parse_oom(struct parser *parser);
/* Enters a level of nesting; -E2BIG when it is too deep. Every successful call needs a `parser->depth--`. */
int parse_enter(struct parser *parser);
bool parse_at_name(const struct parser *parser, const char *name);
/* Moves on if the current token is of that kind (is that name). */
bool parse_skip(struct parser *parser, enum token_kind kind);
bool parse_skip_name(struct parser *parser, const char *name);
int parse_expect(struct parser *parser, enum token_kind kind);
int parse_expect_name(struct parser *parser, const struct text **name);

/* "expected …, got …" */
int parse_expected(struct parser *parser, const char *what);

struct expr *parse_node(struct parser *parser, enum expr_kind kind, uint32_t line);

/* Makes `child`, which may be NULL, a part of `parent`. */
int parse_adopt(struct parser *parser, struct expr *parent, const struct expr *child);
/* Appends `item` to the list of `parent`; `tail` is the list's last link. */
int parse_append(struct parser *parser, struct expr *parent, struct expr ***tail, struct expr *item);

typedef int parse_item_fn(struct parser *, struct expr **);

/* One item, or a tuple if there are commas; `end_name` is a name that may follow the last comma, or NULL. */
int parse_items(struct parser *parser, parse_item_fn *parse_item, const char *end_name, bool may_be_empty,
		struct expr **expr);
int parse_primary(struct parser *parser, struct expr **expr);
int parse_target_primary(struct parser *parser, struct expr **expr);
int parse_postfix(struct parser *parser, struct expr **expr);
int parse_filters_and_tests(struct parser *parser, struct expr **expr);

int parse_expression(struct parser *parser, struct expr **expr);
/* Without the inline if: what a `for` iterates over and what an `if` tests. */
int parse_unconditional(struct parser *parser, struct expr **expr);
/* Expressions with commas between them make a tuple; `end_name` is a name that may follow the last comma, or NULL. */
int parse_tuple(struct parser *parser, struct expr **expr);
int parse_unconditional_tuple(struct parser *parser, const char *end_name, struct expr **expr);
/* What stands on the left: of a `for` (before `in`), a `set` (namespace attributes are allowed), a `with`. */
int parse_target(struct parser *parser, const char *end_name, bool namespaces, struct expr **expr);
/* Filters behind `input`, each with its "|"; `input` NULL: the text of a block. `*expr` is NULL if there are none. */
int parse_filters(struct parser *parser, struct expr *input, struct expr **expr);
/* The first filter of a filter block has no "|". */
int parse_block_filter(struct parser *parser, struct expr **expr);

#endif
