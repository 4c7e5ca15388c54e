#include "src/engine/grammar/regex.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "src/engine/grammar/text.h"

struct reader {
	struct grammar_source source;
	enum regex_place place;
	enum regex_match match;
	struct grammar *grammar;
	struct err *err;
};

static int fault(struct reader *r, const char *what)
{
	return err_set(r->err, -EINVAL, "at byte %zu of the regular expression: %s", r->source.at, what);
}

/* --- characters ------------------------------------------------------------------------------- */

/* The escape of a character that a JSON string can't have as it is. */
static uint32_t escaped(struct grammar *g, uint32_t c)
{
	static const char letters[] = "\bb\ff\nn\rr\tt\"\"\\\\";
	char text[8];
	for (const char *l = letters; *l; l += 2)
		if ((uint32_t)(uint8_t)*l == c) {
			snprintf(text, sizeof text, "\\%c", l[1]);
			return grammar_text(g, text);
		}
	snprintf(text, sizeof text, "\\u%04x", c & 0x1F);
	return grammar_text(g, text);
}

uint32_t regex_class(struct grammar *g, enum regex_place place, const struct charset *set)
{
	struct charset plain = *set;
	if (place == REGEX_TEXT)
		return grammar_class(g, set);
	uint32_t choice = grammar_choice(g);
	for (uint32_t c = 0; c < 0x80; c++)
		if ((c < 0x20 || c == '"' || c == '\\') && charset_has(set, c)) {
			grammar_append(g, choice, escaped(g, c));
			if (charset_remove(&plain, c, c))
				g->fault = g->fault ? g->fault : -E2BIG;
		}
	grammar_append(g, choice, grammar_class(g, &plain));
	return choice;
}

static void add_spaces(struct charset *set)
{
	static const struct charset_range wide[] = {
		{0xA0, 0xA0},	  {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
		{0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}, {0x85, 0x85},	{0x1C, 0x1F}};
	for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
		charset_add(set, wide[i].first, wide[i].last);
}

/* The sets that a letter names. False: it names none. */
static bool named_set(uint32_t letter, struct charset *set)
{
	*set = (struct charset){0};
	switch (letter | 0x20) {
	case 'd':
		charset_add(set, '0', '9');
		break;
	case 'w':
		charset_add(set, '0', '9');
		charset_add(set, 'A', 'Z');
		charset_add(set, '_', '_');
		charset_add(set, 'a', 'z');
		break;
	case 's':
		charset_add(set, '\t', '\r');
		charset_add(set, ' ', ' ');
		if (letter == 'S')
			add_spaces(set);
		break;
	default:
		return false;
	}
	if (letter < 'a')
		charset_complement(set);
	return true;
}

static bool is_letter(uint32_t c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* What follows a backslash: a set, often of one. */
static int read_escape(struct reader *r, struct charset *set)
{
	struct grammar_source *s = &r->source;
	uint32_t c = source_next(s);
	bool ok = true;
	if (c == SOURCE_END)
		return fault(r, "a backslash at the end");
	if (named_set(c, set))
		return 0;
	switch (c) {
	case 't':
		c = '\t';
		break;
	case 'n':
		c = '\n';
		break;
	case 'r':
		c = '\r';
		break;
	case 'f':
		c = '\f';
		break;
	case 'v':
		c = '\v';
		break;
	case '0':
		c = 0;
		break;
	case 'x':
		ok = source_hex(s, 2, &c);
		break;
	case 'u':
		ok = source_hex(s, 4, &c) && (c < 0xD800 || c > 0xDFFF);
		break;
	default:
		if (c >= '1' && c <= '9')
			return fault(r, "a reference back to a group can't be enforced");
		if (c == 'b' || c == 'B')
			return fault(r, "a word boundary can't be enforced");
		if (is_letter(c))
			return fault(r, "this escape is not supported");
	}
	if (!ok)
		return fault(r, "an escape that is not a character's number in hexadecimal digits");
	*set = (struct charset){0};
	return charset_add(set, c, c) ? fault(r, "not a character") : 0;
}

static int read_member(struct reader *r, struct charset *set)
{
	uint32_t c = source_next(&r->source);
	if (c == SOURCE_END)
		return fault(r, "']' is missing");
	if (c == '\\') {
		if (r->source.at < r->source.n_bytes && r->source.bytes[r->source.at] == 'b') {
			r->source.at++;
			c = '\b';
		} else {
			return read_escape(r, set);
		}
	}
	*set = (struct charset){0};
	charset_add(set, c, c);
	return 0;
}

static int read_class(struct reader *r, uint32_t *node)
{
	struct grammar_source *s = &r->source;
	struct charset set = {0}, member, end;
	bool complement = source_eat(s, '^');
	while (!source_eat(s, ']')) {
		int rc = read_member(r, &member);
		if (rc)
			return rc;
		bool one = member.n == 1 && member.ranges[0].first == member.ranges[0].last;
		if (s->at + 1 < s->n_bytes && s->bytes[s->at] == '-' && s->bytes[s->at + 1] != ']') {
			s->at++;
			rc = read_member(r, &end);
			if (rc)
				return rc;
			if (!one || end.n != 1 || end.ranges[0].first != end.ranges[0].last)
				return fault(r, "a range of a class needs a character at both of its ends");
			if (end.ranges[0].first < member.ranges[0].first)
				return fault(r, "a range that ends before it begins");
			member.ranges[0].last = end.ranges[0].last;
		}
		if (charset_add_set(&set, &member))
			return fault(r, "a class of more than 256 ranges");
	}
	if (complement && charset_complement(&set))
		return fault(r, "a class of more than 256 ranges");
	*node = regex_class(r->grammar, r->place, &set);
	return 0;
}

/* --- structure -------------------------------------------------------------------------------- */

static int read_counts(struct reader *r, uint32_t *min, uint32_t *max)
{
	struct grammar_source *s = &r->source;
	static const char malformed[] = "'{' begins a repetition such as {2,5}; as a character it is written \\{";
	if (!source_number(s, min))
		return fault(r, malformed);
	*max = *min;
	if (source_eat(s, ',') && !source_number(s, max))
		*max = GRAMMAR_UNBOUNDED;
	if (!source_eat(s, '}'))
		return fault(r, malformed);
	return *max < *min ? fault(r, "a repetition whose most is less than its least") : 0;
}

static int read_repetition(struct reader *r, uint32_t *node)
{
	struct grammar_source *s = &r->source;
	uint32_t min = 0, max = GRAMMAR_UNBOUNDED;
	if (source_eat(s, '+')) {
		min = 1;
	} else if (source_eat(s, '?')) {
		max = 1;
	} else if (source_eat(s, '{')) {
		int rc = read_counts(r, &min, &max);
		if (rc)
			return rc;
	} else if (!source_eat(s, '*')) {
		return 0;
	}
	source_eat(s, '?'); /* lazy: the same texts */
	if (s->at < s->n_bytes && memchr("*+?{", s->bytes[s->at], 4))
		return fault(r, "a repetition of a repetition");
	*node = grammar_repeat(r->grammar, *node, min, max);
	return 0;
}

static int read_alternatives(struct reader *r, uint32_t depth, uint32_t *node);

static int read_group(struct reader *r, uint32_t depth, uint32_t *node)
{
	struct grammar_source *s = &r->source;
	if (source_eat(s, '?') && !source_eat(s, ':')) {
		source_eat(s, 'P');
		bool named =
			source_eat(s, '<') && s->at < s->n_bytes && s->bytes[s->at] != '=' && s->bytes[s->at] != '!';
		const char *end = named ? memchr(s->bytes + s->at, '>', s->n_bytes - s->at) : NULL;
		if (!end)
			return fault(r,
				     "groups are (…), (?:…) or (?<name>…); looking ahead or behind and flags can't be "
				     "enforced");
		s->at = (size_t)(end - s->bytes) + 1;
	}
	int rc = read_alternatives(r, depth + 1, node);
	if (rc)
		return rc;
	return source_eat(s, ')') ? 0 : fault(r, "')' is missing");
}

static int read_atom(struct reader *r, uint32_t depth, uint32_t *node)
{
	struct grammar_source *s = &r->source;
	struct charset set = {0};
	int rc = 0;
	uint32_t c = source_next(s);
	switch (c) {
	case SOURCE_END:
		return fault(r, "bytes that are not UTF-8");
	case '(':
		return read_group(r, depth, node);
	case '[':
		return read_class(r, node);
	case '*':
	case '+':
	case '?':
	case '{':
		return fault(r, "a repetition of nothing; the character itself is written with a backslash");
	case '^':
	case '$':
		return fault(r, "^ and $ are supported only at the ends of the expression and of its alternatives");
	case '.':
		charset_add(&set, '\n', '\n');
		charset_add(&set, '\r', '\r');
		charset_add(&set, 0x2028, 0x2029);
		charset_complement(&set);
		break;
	case '\\':
		rc = read_escape(r, &set);
		break;
	default:
		charset_add(&set, c, c);
	}
	if (!rc)
		*node = regex_class(r->grammar, r->place, &set);
	return rc;
}

static uint32_t anything(struct reader *r)
{
	static const struct charset any = {1, {{0, CODE_POINT_MAX}}};
	return grammar_repeat(r->grammar, regex_class(r->grammar, r->place, &any), 0, GRAMMAR_UNBOUNDED);
}

static bool at_end(const struct reader *r)
{
	const struct grammar_source *s = &r->source;
	return s->at >= s->n_bytes || s->bytes[s->at] == '|' || s->bytes[s->at] == ')';
}

static int read_alternative(struct reader *r, uint32_t depth, uint32_t *node)
{
	struct grammar_source *s = &r->source;
	bool part = depth == 0 && r->match == REGEX_PART;
	*node = grammar_sequence(r->grammar);
	if (!(depth == 0 && source_eat(s, '^')) && part)
		grammar_append(r->grammar, *node, anything(r));
	while (!at_end(r)) {
		uint32_t atom = 0;
		if (depth == 0 && s->bytes[s->at] == '$') {
			s->at++;
			if (!at_end(r))
				return fault(
					r, "$ is supported only at the end of the expression and of its alternatives");
			return 0;
		}
		int rc = read_atom(r, depth, &atom);
		if (!rc)
			rc = read_repetition(r, &atom);
		if (rc)
			return rc;
		grammar_append(r->grammar, *node, atom);
	}
	if (part)
		grammar_append(r->grammar, *node, anything(r));
	return 0;
}

static int read_alternatives(struct reader *r, uint32_t depth, uint32_t *node)
{
	if (depth > GRAMMAR_DEPTH_MAX / 4)
		return fault(r, "groups nested deeper than 50");
	*node = grammar_choice(r->grammar);
	do {
		uint32_t alternative;
		int rc = read_alternative(r, depth, &alternative);
		if (rc)
			return rc;
		grammar_append(r->grammar, *node, alternative);
	} while (source_eat(&r->source, '|'));
	return 0;
}

int regex_read(const char *source, size_t n_bytes, enum regex_place place, enum regex_match match,
	       struct grammar *grammar, uint32_t *node, struct err *err)
{
	struct reader r = {{source, n_bytes, 0}, place, match, grammar, err};
	int rc = read_alternatives(&r, 0, node);
	if (!rc && r.source.at < n_bytes)
		rc = fault(&r, "')' without '('");
	return rc;
}
