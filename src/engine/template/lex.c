/* The lexer.
 *
 * Jinja's lexer is a stack of regular expressions; what they amount to is this. Text runs until the next "{{", "{%" or
 * "{#". The sign behind the opening decides what happens to the white space before it: "-" drops all of it, "+" keeps
 * it, and without a sign "lstrip_blocks" drops the blanks between a line's start and a statement or comment (not
 * "{{"). The sign before a closing "%}" or "#}" works forward: "-" drops all white space, "+" keeps it, and without a
 * sign "trim_blocks" drops one newline; "-}}" drops, "}}" keeps. Inside a tag, brackets must balance before the closing
 * counts as one. Newlines become "\n" first and one newline at the end of the template is dropped.
 *
 * Strings go through Python's unicode-escape codec the way Jinja does it, including what it does to a backslash in
 * front of a character outside ASCII (see unescape). */
#include "src/engine/template/lex.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/template/unicode.h"

struct lexer {
	struct heap *heap;
	struct token_list *tokens;
	struct err *err;
	const char *at, *end;
	uint32_t line;
	bool line_starting; /* the last token ended with a newline, or this is the start */
};

static const struct {
	const char *spelling;
	enum token_kind kind;
} operators[] = {
	/* the longer first */
	{"//", TOKEN_FLOORDIV}, {"**", TOKEN_POW},   {"==", TOKEN_EQ},	    {"!=", TOKEN_NE},	   {">=", TOKEN_GE},
	{"<=", TOKEN_LE},	{"+", TOKEN_ADD},    {"-", TOKEN_SUB},	    {"/", TOKEN_DIV},	   {"*", TOKEN_MUL},
	{"%", TOKEN_MOD},	{"~", TOKEN_TILDE},  {"[", TOKEN_LBRACKET}, {"]", TOKEN_RBRACKET}, {"(", TOKEN_LPAREN},
	{")", TOKEN_RPAREN},	{"{", TOKEN_LBRACE}, {"}", TOKEN_RBRACE},   {">", TOKEN_GT},	   {"<", TOKEN_LT},
	{"=", TOKEN_ASSIGN},	{".", TOKEN_DOT},    {":", TOKEN_COLON},    {"|", TOKEN_PIPE},	   {",", TOKEN_COMMA},
	{";", TOKEN_SEMICOLON},
};

const char *token_name(enum token_kind kind)
{
	switch (kind) {
	case TOKEN_END:
		return "end of template";
	case TOKEN_DATA:
		return "template text";
	case TOKEN_STATEMENT_BEGIN:
		return "{%";
	case TOKEN_STATEMENT_END:
		return "%}";
	case TOKEN_PRINT_BEGIN:
		return "{{";
	case TOKEN_PRINT_END:
		return "}}";
	case TOKEN_NAME:
		return "a name";
	case TOKEN_STRING:
		return "a string";
	case TOKEN_INTEGER:
		return "an integer";
	case TOKEN_FLOAT:
		return "a number";
	default:
		for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
			if (operators[i].kind == kind)
				return operators[i].spelling;
		return "an operator";
	}
}

static int lex_oom(struct lexer *l)
{
	return l->heap->over_budget ? err_set(l->err, -E2BIG, "the template is too large")
				    : err_set(l->err, -ENOMEM, "out of memory");
}

static int push(struct lexer *l, struct token token)
{
	struct token_list *list = l->tokens;
	if (list->n == list->capacity) {
		size_t capacity = list->capacity ? 2 * list->capacity : 256;
		struct token *grown = reallocarray(list->tokens, capacity, sizeof *grown);
		if (!grown)
			return lex_oom(l);
		list->tokens = grown;
		list->capacity = capacity;
	}
	list->tokens[list->n++] = token;
	return 0;
}

static bool looking_at(const struct lexer *l, const char *spelling)
{
	size_t n = strlen(spelling);
	return (size_t)(l->end - l->at) >= n && memcmp(l->at, spelling, n) == 0;
}

/* Moves to `to`, counting lines. */
static void advance(struct lexer *l, const char *to)
{
	for (; l->at < to; l->at++)
		l->line += *l->at == '\n';
}

static const char *skip_spaces(const char *at, const char *end)
{
	while (at < end) {
		const char *next = at;
		if (!unicode_is_space(text_next_char(&next)))
			break;
		at = next;
	}
	return at;
}

static const char *strip_right(const char *start, const char *end)
{
	while (end > start) {
		const char *before = end;
		if (!unicode_is_space(text_previous_char(&before)))
			break;
		end = before;
	}
	return end;
}

/* Where text before a tag ends: `sign` is the one behind the tag's opening, `lstrip` tells whether the blanks at a
 * line's start go when there is no sign. */
static const char *data_end(const struct lexer *l, const char *start, const char *end, char sign, bool lstrip)
{
	if (sign == '-')
		return strip_right(start, end);
	if (sign == '+' || !lstrip)
		return end;
	const char *newline = memrchr(start, '\n', (size_t)(end - start));
	const char *line = newline ? newline + 1 : start;
	if ((newline || l->line_starting) && line < end && skip_spaces(line, end) == end)
		return line;
	return end;
}

static int push_data(struct lexer *l, const char *start, const char *end)
{
	if (start == end)
		return 0;
	const struct text *text = text_view(l->heap, start, (size_t)(end - start));
	if (!text)
		return lex_oom(l);
	return push(l, (struct token){.kind = TOKEN_DATA, .line = l->line, .text = text});
}

/* If a closing such as "%}" or "-%}" starts at `at`, returns where the lexer goes on, else NULL. */
static const char *match_close(const struct lexer *l, const char *at, char closing, bool plus_and_newline)
{
	const char *end = l->end;
	char sign = at < end && (*at == '-' || (*at == '+' && plus_and_newline)) ? *at++ : 0;
	if (end - at < 2 || at[0] != closing || at[1] != '}')
		return NULL;
	at += 2;
	if (sign == '-')
		return skip_spaces(at, end);
	if (!sign && plus_and_newline && at < end && *at == '\n')
		at++;
	return at;
}

static int lex_comment(struct lexer *l)
{
	if (l->at == l->end) /* Jinja lets a template end right behind "{#" */
		return 0;
	for (const char *at = l->at; at < l->end; at++) {
		const char *behind = match_close(l, at, '#', true);
		if (behind) {
			advance(l, behind);
			l->line_starting = behind[-1] == '\n';
			return 0;
		}
	}
	return err_set(l->err, -EINVAL, "line %u: the comment that starts here has no end: expected \"#}\"", l->line);
}

/* "raw" and its closing behind "{%" and a sign; NULL if this is another statement. */
static const char *match_raw_begin(const struct lexer *l, const char *at)
{
	at = skip_spaces(at, l->end);
	if (l->end - at < 3 || memcmp(at, "raw", 3) != 0)
		return NULL;
	at = skip_spaces(at + 3, l->end);
	const char *behind = match_close(l, at, '%', false);
	return behind;
}

static int lex_raw(struct lexer *l)
{
	if (l->at == l->end)
		return 0;
	for (const char *tag = l->at; l->end - tag >= 2; tag++) {
		if (tag[0] != '{' || tag[1] != '%')
			continue;
		const char *at = tag + 2;
		char sign = at < l->end && (*at == '-' || *at == '+') ? *at++ : 0;
		at = skip_spaces(at, l->end);
		if (l->end - at < 6 || memcmp(at, "endraw", 6) != 0)
			continue;
		const char *behind = match_close(l, skip_spaces(at + 6, l->end), '%', true);
		if (!behind)
			continue;
		int rc = push_data(l, l->at, data_end(l, l->at, tag, sign, true));
		advance(l, behind);
		l->line_starting = behind[-1] == '\n';
		return rc;
	}
	return err_set(l->err, -EINVAL, "line %u: the raw block that starts here has no end: expected {%% endraw %%}",
		       l->line);
}

/* --- literals --------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* \xHH, \uHHHH, \UHHHHHHHH: `at` is behind the letter. */
static int unescape_hex(struct lexer *l, const char **at, const char *end, size_t n_digits, char **to)
{
	uint32_t code_point = 0;
	for (size_t i = 0; i < n_digits; i++) {
		int digit = *at < end ? hex_digit(**at) : -1;
		if (digit < 0)
			return err_set(l->err, -EINVAL, "line %u: an escape in a string lacks hexadecimal digits",
				       l->line);
		code_point = code_point << 4 | (uint32_t)digit;
		++*at;
	}
	if (code_point > 0x10ffff || (code_point >= 0xd800 && code_point < 0xe000))
		return err_set(l->err, -EINVAL, "line %u: U+%04X in a string is not a character", l->line, code_point);
	*to += text_encode_char(code_point, *to);
	return 0;
}

/* A backslash before a character outside ASCII: Jinja turns the character into its own escape first, so the backslash
 * escapes that escape's backslash and the escape's letters stay. */
static void keep_as_escape(const char **at, char **to)
{
	uint32_t c = text_next_char(at);
	*to += sprintf(*to, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
}

static int unescape_one(struct lexer *l, const char **at, const char *end, char **to)
{
	static const char letters[] = "\\'\"abfnrtv", meanings[] = "\\'\"\a\b\f\n\r\t\v";
	if ((unsigned char)**at >= 0x80) {
		keep_as_escape(at, to);
		return 0;
	}
	char c = *(*at)++;
	const char *letter = c ? strchr(letters, c) : NULL;
	if (letter) {
		*(*to)++ = meanings[letter - letters];
	} else if (c == '\n') {
		/* continues on the next line */
	} else if (c >= '0' && c <= '7') {
		uint32_t value = (uint32_t)(c - '0');
		for (int i = 0; i < 2 && *at < end && **at >= '0' && **at <= '7'; i++)
			value = value << 3 | (uint32_t)(*(*at)++ - '0');
		*to += text_encode_char(value, *to);
	} else if (c == 'x' || c == 'u' || c == 'U') {
		return unescape_hex(l, at, end, c == 'x' ? 2 : c == 'u' ? 4 : 8, to);
	} else if (c == 'N') {
		return err_set(l->err, -ENOTSUP, "line %u: \\N{…} in a string is not supported", l->line);
	} else {
		*(*to)++ = '\\';
		*(*to)++ = c;
	}
	return 0;
}

/* The inside of a string literal without its quotes. */
static int unescape(struct lexer *l, const char *start, const char *end, const struct text **text)
{
	size_t n_bytes = (size_t)(end - start);
	if (!memchr(start, '\\', n_bytes)) {
		*text = text_view(l->heap, start, n_bytes);
		return *text ? 0 : lex_oom(l);
	}
	/* The longest growth is that of a backslash and a two-byte character: 3 bytes become 6. */
	char *buffer = heap_bytes(l->heap, 2 * n_bytes + 16);
	if (!buffer)
		return lex_oom(l);
	char *to = buffer;
	for (const char *at = start; at < end;) {
		if (*at != '\\') {
			*to++ = *at++;
			continue;
		}
		at++;
		int rc = unescape_one(l, &at, end, &to);
		if (rc)
			return rc;
	}
	*text = text_view(l->heap, buffer, (size_t)(to - buffer));
	return *text ? 0 : lex_oom(l);
}

static int lex_string(struct lexer *l)
{
	char quote = *l->at;
	const char *start = l->at + 1, *close = start;
	while (close < l->end && *close != quote)
		close += *close == '\\' ? 2 : 1;
	if (close >= l->end)
		return err_set(l->err, -EINVAL, "line %u: the string that starts with %c here has no end", l->line,
			       quote);
	struct token token = {.kind = TOKEN_STRING, .line = l->line};
	int rc = unescape(l, start, close, &token.text);
	if (rc)
		return rc;
	advance(l, close + 1);
	return push(l, token);
}

static bool is_digit_of(char c, int base)
{
	int digit = hex_digit(c);
	return digit >= 0 && digit < base;
}

/* Digits of `base` with single underscores between them; NULL if there is not one digit. */
static const char *match_digits(const char *at, const char *end, int base)
{
	if (at == end || !is_digit_of(*at, base))
		return NULL;
	while (at < end && (is_digit_of(*at, base) || (*at == '_' && end - at > 1 && is_digit_of(at[1], base))))
		at++;
	return at;
}

/* Copies a number's spelling without underscores; false if it does not fit. */
static bool plain_spelling(const char *start, const char *end, char *buffer, size_t size)
{
	size_t n = 0;
	for (; start < end; start++) {
		if (*start == '_')
			continue;
		if (n + 1 >= size)
			return false;
		buffer[n++] = *start;
	}
	buffer[n] = 0;
	return true;
}

/* Where a float ends that starts with digits, or NULL if there is neither a fraction nor an exponent. */
static const char *match_float(const char *at, const char *end)
{
	const char *whole = match_digits(at, end, 10);
	if (!whole)
		return NULL;
	const char *fraction = whole < end && *whole == '.' ? match_digits(whole + 1, end, 10) : NULL;
	const char *mantissa = fraction ? fraction : whole;
	if (mantissa < end && (*mantissa | 0x20) == 'e') {
		const char *sign = mantissa + 1;
		if (sign < end && (*sign == '+' || *sign == '-'))
			sign++;
		const char *exponent = match_digits(sign, end, 10);
		if (exponent)
			return exponent;
	}
	return fraction;
}

static int lex_float(struct lexer *l, const char *end)
{
	char spelling[512];
	if (!plain_spelling(l->at, end, spelling, sizeof spelling))
		return err_set(l->err, -EINVAL, "line %u: the number is too long", l->line);
	struct token token = {.kind = TOKEN_FLOAT, .line = l->line, .real = strtod(spelling, NULL)};
	l->at = end;
	return push(l, token);
}

static int lex_integer(struct lexer *l)
{
	const char *start = l->at, *digits = start, *end = NULL;
	int base = 10;
	if (*start == '0' && l->end - start > 2) {
		char letter = start[1] | 0x20;
		int prefixed = letter == 'b' ? 2 : letter == 'o' ? 8 : letter == 'x' ? 16 : 0;
		const char *first = start + 2 + (start[2] == '_');
		end = prefixed ? match_digits(first, l->end, prefixed) : NULL;
		if (end) {
			base = prefixed;
			digits = start + 2;
		}
	}
	if (!end && *start == '0') { /* only more zeros may follow */
		end = start + 1;
		while (end < l->end && (*end == '0' || (*end == '_' && l->end - end > 1 && end[1] == '0')))
			end++;
	}
	if (!end)
		end = match_digits(start, l->end, 10);
	char spelling[128];
	errno = 0;
	long long value = plain_spelling(digits, end, spelling, sizeof spelling) ? strtoll(spelling, NULL, base) : 0;
	if (errno || (size_t)(end - digits) >= sizeof spelling)
		return err_set(l->err, -EINVAL, "line %u: the integer does not fit 64 bits", l->line);
	l->at = end;
	return push(l, (struct token){.kind = TOKEN_INTEGER, .line = l->line, .integer = value});
}

static const char *match_name(const char *at, const char *end)
{
	while (at < end) {
		const char *next = at;
		uint32_t c = text_next_char(&next);
		if (!unicode_continues_name(c))
			break;
		at = next;
	}
	return at;
}

static int lex_name(struct lexer *l, const char *end)
{
	const char *start = l->at;
	if (!unicode_starts_name(text_next_char(&start)))
		return err_set(l->err, -EINVAL, "line %u: a name cannot start like this: '%.*s'", l->line,
			       (int)(start - l->at), l->at);
	const struct text *text = text_view(l->heap, l->at, (size_t)(end - l->at));
	if (!text)
		return lex_oom(l);
	l->at = end;
	return push(l, (struct token){.kind = TOKEN_NAME, .line = l->line, .text = text});
}

static int lex_operator(struct lexer *l, char *brackets, size_t *n_brackets, size_t max_brackets)
{
	for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
		if (!looking_at(l, operators[i].spelling))
			continue;
		char c = *l->at;
		if (strchr("([{", c)) {
			if (*n_brackets == max_brackets)
				return err_set(l->err, -E2BIG, "line %u: more than %zu open brackets", l->line,
					       max_brackets);
			brackets[(*n_brackets)++] = c == '(' ? ')' : c == '[' ? ']' : '}';
		} else if (strchr(")]}", c)) {
			if (!*n_brackets || brackets[--*n_brackets] != c)
				return err_set(l->err, -EINVAL, "line %u: unexpected '%c'", l->line, c);
		}
		l->at += strlen(operators[i].spelling);
		return push(l, (struct token){.kind = operators[i].kind, .line = l->line});
	}
	int n = 1;
	while (n < l->end - l->at && ((unsigned char)l->at[n] & 0xc0) == 0x80)
		n++;
	return err_set(l->err, -EINVAL, "line %u: unexpected character '%.*s'", l->line, n, l->at);
}

/* The inside of "{{ … }}" (closing '}') or "{% … %}" (closing '%'). */
static int lex_tag(struct lexer *l, char closing)
{
	enum { MAX_BRACKETS = 1000 };
	char brackets[MAX_BRACKETS];
	size_t n_brackets = 0;
	while (l->at < l->end) {
		const char *behind = n_brackets ? NULL : match_close(l, l->at, closing, closing == '%');
		if (behind) {
			enum token_kind kind = closing == '%' ? TOKEN_STATEMENT_END : TOKEN_PRINT_END;
			int rc = push(l, (struct token){.kind = kind, .line = l->line});
			advance(l, behind);
			l->line_starting = behind[-1] == '\n';
			return rc;
		}
		const char *spaces = skip_spaces(l->at, l->end);
		if (spaces > l->at) {
			advance(l, spaces);
			continue;
		}
		bool behind_dot = l->at[-1] == '.';
		const char *end = behind_dot ? NULL : match_float(l->at, l->end);
		int rc;
		if (end)
			rc = lex_float(l, end);
		else if (*l->at >= '0' && *l->at <= '9')
			rc = lex_integer(l);
		else if ((end = match_name(l->at, l->end)) > l->at)
			rc = lex_name(l, end);
		else if (*l->at == '\'' || *l->at == '"')
			rc = lex_string(l);
		else
			rc = lex_operator(l, brackets, &n_brackets, MAX_BRACKETS);
		if (rc)
			return rc;
	}
	return 0; /* the parser misses the closing */
}

/* The next "{{", "{%" or "{#", or the end. */
static const char *find_tag(const char *at, const char *end)
{
	while (end - at >= 2) {
		const char *brace = memchr(at, '{', (size_t)(end - at - 1));
		if (!brace)
			return end;
		if (brace[1] == '{' || brace[1] == '%' || brace[1] == '#')
			return brace;
		at = brace + 1;
	}
	return end;
}

static int lex_root(struct lexer *l)
{
	const char *start = l->at, *tag = find_tag(l->at, l->end);
	if (tag == l->end) {
		int rc = push_data(l, start, tag);
		advance(l, tag);
		return rc;
	}
	const char *at = tag + 2;
	char sign = at < l->end && (*at == '-' || *at == '+') ? *at++ : 0;
	int rc = push_data(l, start, data_end(l, start, tag, sign, tag[1] != '{'));
	if (rc)
		return rc;
	const char *raw = tag[1] == '%' ? match_raw_begin(l, at) : NULL;
	advance(l, raw ? raw : at);
	l->line_starting = raw && raw[-1] == '\n';
	if (raw)
		return lex_raw(l);
	if (tag[1] == '#')
		return lex_comment(l);
	rc = push(l,
		  (struct token){.kind = tag[1] == '{' ? TOKEN_PRINT_BEGIN : TOKEN_STATEMENT_BEGIN, .line = l->line});
	return rc ? rc : lex_tag(l, tag[1] == '{' ? '}' : '%');
}

/* "\r\n" and "\r" become "\n", and one newline at the end goes. */
static const struct text *normalise_newlines(struct heap *heap, const struct text *source)
{
	char *bytes = heap_bytes(heap, source->n_bytes);
	if (!bytes)
		return NULL;
	size_t n = 0;
	for (size_t i = 0; i < source->n_bytes; i++) {
		char c = source->bytes[i];
		if (c == '\r') {
			c = '\n';
			if (i + 1 < source->n_bytes && source->bytes[i + 1] == '\n')
				i++;
		}
		bytes[n++] = c;
	}
	if (n && bytes[n - 1] == '\n')
		n--;
	return text_view(heap, bytes, n);
}

int lex(struct heap *heap, const struct text *source, struct token_list *tokens, struct err *err)
{
	struct lexer lexer = {.heap = heap, .tokens = tokens, .err = err, .line = 1, .line_starting = true};
	const struct text *normal = normalise_newlines(heap, source);
	if (!normal)
		return lex_oom(&lexer);
	lexer.at = normal->bytes;
	lexer.end = normal->bytes + normal->n_bytes;
	while (lexer.at < lexer.end) {
		int rc = lex_root(&lexer);
		if (rc)
			return rc;
	}
	return push(&lexer, (struct token){.kind = TOKEN_END, .line = lexer.line});
}
