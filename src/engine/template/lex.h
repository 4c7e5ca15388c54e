/* Tokens of a template, with Jinja's rules for what white space around tags is dropped. */
#ifndef WEIGHTD_ENGINE_TEMPLATE_LEX_H
#define WEIGHTD_ENGINE_TEMPLATE_LEX_H

#include <stddef.h>
#include <stdint.h>

#include "src/engine/template/heap.h"
#include "src/engine/template/text.h"
#include "src/err.h"

enum token_kind {
	TOKEN_END,
	TOKEN_DATA,
	TOKEN_STATEMENT_BEGIN, /* {% */
	TOKEN_STATEMENT_END,
	TOKEN_PRINT_BEGIN, /* {{ */
	TOKEN_PRINT_END,
	TOKEN_NAME,
	TOKEN_STRING,
	TOKEN_INTEGER,
	TOKEN_FLOAT,
	/* operators */
	TOKEN_ADD,
	TOKEN_SUB,
	TOKEN_MUL,
	TOKEN_DIV,
	TOKEN_FLOORDIV,
	TOKEN_MOD,
	TOKEN_POW,
	TOKEN_TILDE,
	TOKEN_LBRACKET,
	TOKEN_RBRACKET,
	TOKEN_LPAREN,
	TOKEN_RPAREN,
	TOKEN_LBRACE,
	TOKEN_RBRACE,
	TOKEN_EQ,
	TOKEN_NE,
	TOKEN_GT,
	TOKEN_GE,
	TOKEN_LT,
	TOKEN_LE,
	TOKEN_ASSIGN,
	TOKEN_DOT,
	TOKEN_COLON,
	TOKEN_PIPE,
	TOKEN_COMMA,
	TOKEN_SEMICOLON,
};

struct token {
	enum token_kind kind;
	uint32_t line;
	union {
		const struct text *text; /* data, names (raw spelling), strings (unescaped) */
		int64_t integer;
		double real;
	};
};

struct token_list {
	struct token *tokens; /* [n], the last one is TOKEN_END; free with free() */
	size_t n, capacity;
};

/* `source` is valid UTF-8; texts go to `heap`. -EINVAL with the line, -E2BIG, -ENOMEM; `tokens` needs freeing in every
 * case. */
int lex(struct heap *heap, const struct text *source, struct token_list *tokens, struct err *err);

/* What a person calls the token, such as "end of statement block" or "=". */
const char *token_name(enum token_kind kind);

#endif
