/* GBNF, as llama.cpp's grammars are written (its grammars/README.md):
 *
 *   name ::= alternative | alternative        a rule; it goes on over lines inside ( ) and after |
 *   "text"  [a-z] [^"\\]  .  other-name  ( )   the parts of an alternative
 *   * + ? {n} {n,} {,n} {n,m}                 behind a part
 *   # comment                                 to the end of its line
 *   \n \r \t \\ \" \[ \] \xHH \uHHHH \UHHHHHHHH   in texts and classes
 *
 * The answer is a text of the rule named root. */
#include <errno.h>
#include <string.h>

#include "src/engine/grammar/compile.h"
#include "src/engine/grammar/text.h"

enum { BUCKETS = 1024 };

struct reader {
	struct grammar_source source;
	struct grammar *grammar;
	struct err *err;
	uint32_t by_name[BUCKETS]; /* rules + 1, chained */
};

static int fault(struct reader *r, const char *what)
{
	size_t line = 1, column = 1;
	for (size_t i = 0; i < r->source.at; i++) {
		column = r->source.bytes[i] == '\n' ? 1 : column + 1;
		line += r->source.bytes[i] == '\n';
	}
	return err_set(r->err, -EINVAL, "line %zu, column %zu (byte %zu): %s", line, column, r->source.at, what);
}

static bool is_name(uint32_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* Blanks and comments; line ends, too, where the rule goes on over them. */
static void skip(struct reader *r, bool lines)
{
	struct grammar_source *s = &r->source;
	for (; s->at < s->n_bytes; s->at++) {
		char c = s->bytes[s->at];
		if (c == '#') {
			const char *end = memchr(s->bytes + s->at, '\n', s->n_bytes - s->at);
			s->at = end ? (size_t)(end - s->bytes) : s->n_bytes;
			if (!end || !lines)
				return;
		} else if (c != ' ' && c != '\t' && !(lines && (c == '\n' || c == '\r'))) {
			return;
		}
	}
}

static size_t name_length(const struct reader *r)
{
	size_t n = 0;
	while (r->source.at + n < r->source.n_bytes && is_name((uint8_t)r->source.bytes[r->source.at + n]))
		n++;
	return n;
}

/* The rule of this name; declared when it is first seen. */
static uint32_t rule_of(struct reader *r, const char *name, size_t n)
{
	struct grammar *g = r->grammar;
	uint32_t hash = 0;
	for (size_t i = 0; i < n; i++)
		hash = hash * 31 + (uint8_t)name[i];
	uint32_t *bucket = &r->by_name[hash % BUCKETS];
	for (uint32_t i = *bucket; i; i = g->rules[i - 1].next)
		if (strlen(g->rules[i - 1].name) == n && !memcmp(g->rules[i - 1].name, name, n))
			return i - 1;
	uint32_t rule = grammar_declare(g, name, n);
	if (!g->fault) {
		g->rules[rule].next = *bucket;
		*bucket = rule + 1;
	}
	return rule;
}

/* A character of a text or class. */
static int read_character(struct reader *r, uint32_t *out)
{
	struct grammar_source *s = &r->source;
	uint32_t c = source_next(s), code;
	if (c == SOURCE_END)
		return fault(r, "a text or class does not end, or has bytes that are not UTF-8");
	if (c != '\\') {
		*out = c;
		return 0;
	}
	c = source_next(s);
	bool ok = true;
	switch (c) {
	case 'n':
		code = '\n';
		break;
	case 'r':
		code = '\r';
		break;
	case 't':
		code = '\t';
		break;
	case 'x':
		ok = source_hex(s, 2, &code);
		break;
	case 'u':
		ok = source_hex(s, 4, &code);
		break;
	case 'U':
		ok = source_hex(s, 8, &code);
		break;
	case '\\':
	case '"':
	case '[':
	case ']':
	case '-':
	case '^':
		code = c;
		break;
	default:
		return fault(r, "an unknown escape; known are \\n \\r \\t \\\\ \\\" \\[ \\] \\xHH \\uHHHH \\UHHHHHHHH");
	}
	if (!ok || code > CODE_POINT_MAX || (code >= 0xD800 && code <= 0xDFFF))
		return fault(r, "an escape that is not a character's number in hexadecimal digits");
	*out = code;
	return 0;
}

static int read_text(struct reader *r, uint32_t *node)
{
	uint32_t list = grammar_sequence(r->grammar), c;
	while (!source_eat(&r->source, '"')) {
		struct charset one = {0};
		int rc = read_character(r, &c);
		if (rc)
			return rc;
		charset_add(&one, c, c);
		char byte = (char)c;
		grammar_append(r->grammar, list,
			       c < 0x80 ? grammar_bytes(r->grammar, &byte, 1) : grammar_class(r->grammar, &one));
	}
	*node = list;
	return 0;
}

static int read_class(struct reader *r, uint32_t *node)
{
	struct charset set = {0};
	bool complement = source_eat(&r->source, '^');
	while (!source_eat(&r->source, ']')) {
		uint32_t first, last;
		int rc = read_character(r, &first);
		if (rc)
			return rc;
		last = first;
		if (r->source.at + 1 < r->source.n_bytes && r->source.bytes[r->source.at] == '-' &&
		    r->source.bytes[r->source.at + 1] != ']') {
			r->source.at++;
			rc = read_character(r, &last);
			if (rc)
				return rc;
		}
		rc = charset_add(&set, first, last);
		if (rc)
			return fault(r, rc == -E2BIG ? "a class of more than 256 ranges"
						     : "a range that ends before it begins");
	}
	if (complement && charset_complement(&set))
		return fault(r, "a class of more than 256 ranges");
	*node = grammar_class(r->grammar, &set);
	return 0;
}

static int read_counts(struct reader *r, uint32_t *min, uint32_t *max)
{
	struct grammar_source *s = &r->source;
	bool has_min;
	skip(r, true);
	has_min = source_number(s, min);
	if (!has_min)
		*min = 0;
	skip(r, true);
	*max = *min;
	if (source_eat(s, ',')) {
		skip(r, true);
		if (!source_number(s, max)) {
			if (!has_min)
				return fault(r, "a repetition without a number");
			*max = GRAMMAR_UNBOUNDED;
		}
		skip(r, true);
	} else if (!has_min) {
		return fault(r, "a repetition without a number");
	}
	if (!source_eat(s, '}'))
		return fault(r, "a repetition that does not end with '}'");
	return *max < *min ? fault(r, "a repetition whose most is less than its least") : 0;
}

/* What may follow a part, any number of times. */
static int read_repetitions(struct reader *r, bool lines, uint32_t *node)
{
	for (uint32_t n = 0;; n++) {
		uint32_t min = 0, max = GRAMMAR_UNBOUNDED;
		skip(r, lines);
		if (source_eat(&r->source, '+')) {
			min = 1;
		} else if (source_eat(&r->source, '?')) {
			max = 1;
		} else if (source_eat(&r->source, '{')) {
			int rc = read_counts(r, &min, &max);
			if (rc)
				return rc;
		} else if (!source_eat(&r->source, '*')) {
			return 0;
		}
		if (n == GRAMMAR_DEPTH_MAX / 2)
			return fault(r, "more than 100 repetitions of repetitions");
		*node = grammar_repeat(r->grammar, *node, min, max);
	}
}

static int read_alternatives(struct reader *r, uint32_t depth, uint32_t *node);

/* *node stays GRAMMAR_NO_NODE where no part begins. */
static int read_part(struct reader *r, uint32_t depth, uint32_t *node)
{
	struct grammar_source *s = &r->source;
	size_t n = name_length(r);
	int rc = 0;
	if (source_eat(s, '"')) {
		rc = read_text(r, node);
	} else if (source_eat(s, '[')) {
		rc = read_class(r, node);
	} else if (source_eat(s, '.')) {
		struct charset any = {1, {{0, CODE_POINT_MAX}}};
		*node = grammar_class(r->grammar, &any);
	} else if (source_eat(s, '(')) {
		rc = read_alternatives(r, depth + 1, node);
		if (!rc && !source_eat(s, ')'))
			rc = fault(r, "')' is missing");
	} else if (n >= GRAMMAR_NAME_MAX) {
		rc = fault(r, "a rule's name has more than 47 letters");
	} else if (n) {
		*node = grammar_reference(r->grammar, rule_of(r, s->bytes + s->at, n));
		s->at += n;
	}
	return rc;
}

static int read_sequence(struct reader *r, uint32_t depth, uint32_t *node)
{
	*node = grammar_sequence(r->grammar);
	for (;;) {
		uint32_t part = GRAMMAR_NO_NODE;
		skip(r, depth > 0);
		int rc = read_part(r, depth, &part);
		if (rc || part == GRAMMAR_NO_NODE)
			return rc;
		rc = read_repetitions(r, depth > 0, &part);
		if (rc)
			return rc;
		grammar_append(r->grammar, *node, part);
	}
}

static int read_alternatives(struct reader *r, uint32_t depth, uint32_t *node)
{
	if (depth > GRAMMAR_DEPTH_MAX / 2)
		return fault(r, "parentheses nested deeper than 100");
	*node = grammar_choice(r->grammar);
	do {
		uint32_t sequence;
		skip(r, true);
		int rc = read_sequence(r, depth, &sequence);
		if (rc)
			return rc;
		grammar_append(r->grammar, *node, sequence);
	} while (source_eat(&r->source, '|'));
	return 0;
}

static int read_rule(struct reader *r)
{
	struct grammar_source *s = &r->source;
	size_t n = name_length(r);
	uint32_t node;
	if (!n)
		return fault(r, "a rule's name is expected");
	if (n >= GRAMMAR_NAME_MAX)
		return fault(r, "a rule's name has more than 47 letters");
	uint32_t rule = rule_of(r, s->bytes + s->at, n);
	if (!r->grammar->fault && r->grammar->rules[rule].node != GRAMMAR_NO_NODE)
		return fault(r, "this rule is defined twice");
	s->at += n;
	skip(r, false);
	if (s->n_bytes - s->at < 3 || memcmp(s->bytes + s->at, "::=", 3))
		return fault(r, "'::=' is expected after the rule's name");
	s->at += 3;
	int rc = read_alternatives(r, 0, &node);
	if (rc)
		return rc;
	if (s->at < s->n_bytes && s->bytes[s->at] != '\n' && s->bytes[s->at] != '\r')
		return fault(r, "unexpected here; a rule ends with its line");
	grammar_define(r->grammar, rule, node);
	return 0;
}

int gbnf_read(const char *source, size_t n_bytes, struct grammar *grammar, struct err *err)
{
	struct reader r = {.source = {source, n_bytes, 0}, .grammar = grammar, .err = err};
	uint32_t root = rule_of(&r, "root", 4);
	for (skip(&r, true); r.source.at < n_bytes && !grammar->fault; skip(&r, true)) {
		int rc = read_rule(&r);
		if (rc)
			return rc;
	}
	grammar->root = root;
	return 0;
}
