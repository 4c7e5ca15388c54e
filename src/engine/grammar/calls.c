#include "src/engine/grammar/calls.h"

#include <errno.h>
#include <string.h>

#include "src/engine/grammar/pieces.h"
#include "src/engine/grammar/schema.h"
#include "src/engine/grammar/until.h"

static const struct charset blanks = {3, {{'\t', '\n'}, {'\r', '\r'}, {' ', ' '}}};

struct calls {
	struct grammar *grammar;
	struct schema schema;
	const struct call_syntax *syntax;
	uint32_t call; /* the rule of one call's object */
	bool required, one;
};

/* --- a call's object -------------------------------------------------------------------------- */

/* Whether all instances are objects, which a call's arguments have to be. */
static bool is_of_objects(struct schema *s, yyjson_val *value, uint32_t depth)
{
	static const char *const lists[] = {"anyOf", "oneOf", "allOf"};
	yyjson_val *reference = yyjson_obj_get(value, "$ref"), *target;
	if (depth == SCHEMA_DEPTH_MAX)
		return false;
	if (reference)
		return schema_target(s, reference, &target) == 0 && is_of_objects(s, target, depth + 1);
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
		yyjson_val *list = yyjson_obj_get(value, lists[i]), *item;
		yyjson_arr_iter items = yyjson_arr_iter_with(list);
		if (!list)
			continue;
		while ((item = yyjson_arr_iter_next(&items)))
			if (!is_of_objects(s, item, depth + 1))
				return false;
		return true;
	}
	return schema_value_types(value) == SCHEMA_OBJECT;
}

static void append_spaced(struct calls *c, uint32_t sequence, const char *text)
{
	if (!*text)
		return;
	grammar_append(c->grammar, sequence, grammar_text(c->grammar, text));
	grammar_append(c->grammar, sequence, schema_space(&c->schema));
}

/* One function's call from its name's text to the bracket at the end. */
static int read_function(struct calls *c, yyjson_val *function, uint32_t *node)
{
	struct grammar *g = c->grammar;
	yyjson_val *name = yyjson_obj_get(function, "name"), *parameters = yyjson_obj_get(function, "parameters");
	struct err *err = c->schema.err, why;
	uint32_t rule;
	if (!yyjson_is_str(name))
		return err_set(err, -EINVAL, "a function without a name");
	c->schema.root = parameters;
	int rc = is_of_objects(&c->schema, parameters, 0)
			 ? schema_rule(&c->schema, parameters, &rule)
			 : err_set(err, -EINVAL, "'parameters' must be a schema of objects (\"type\": \"object\")");
	if (rc) {
		why = *err;
		return err_set(err, rc, "function '%.64s': %.180s", yyjson_get_str(name), why.text);
	}
	char key[40];
	snprintf(key, sizeof key, "\"%.30s\":", c->syntax->arguments);
	*node = grammar_sequence(g);
	grammar_append(g, *node, schema_literal(&c->schema, name));
	append_spaced(c, *node, ",");
	append_spaced(c, *node, key);
	grammar_append(g, *node, grammar_reference(g, rule));
	grammar_append(g, *node, schema_space(&c->schema));
	grammar_append(g, *node, grammar_text(g, "}"));
	return 0;
}

static int read_functions(struct calls *c, yyjson_val *functions)
{
	struct grammar *g = c->grammar;
	uint32_t call = grammar_sequence(g), choice = grammar_choice(g), node = 0;
	yyjson_arr_iter items = yyjson_arr_iter_with(functions);
	int rc = yyjson_arr_size(functions) ? 0 : err_set(c->schema.err, -EINVAL, "there is no function to call");
	for (yyjson_val *item; !rc && (item = yyjson_arr_iter_next(&items));) {
		rc = read_function(c, item, &node);
		if (!rc)
			grammar_append(g, choice, node);
	}
	append_spaced(c, call, "{");
	append_spaced(c, call, "\"name\":");
	grammar_append(g, call, choice);
	c->call = grammar_rule(g, "a call", call);
	return rc;
}

/* --- calls ------------------------------------------------------------------------------------ */

/* The call, or all calls that share a mark. */
static uint32_t block_rule(struct calls *c)
{
	struct grammar *g = c->grammar;
	const struct call_syntax *x = c->syntax;
	uint32_t block = grammar_sequence(g);
	append_spaced(c, block, x->open);
	grammar_append(g, block, grammar_reference(g, c->call));
	if (x->separator && !c->one) {
		uint32_t more = grammar_sequence(g);
		grammar_append(g, more, schema_space(&c->schema));
		append_spaced(c, more, x->separator);
		grammar_append(g, more, grammar_reference(g, c->call));
		grammar_append(g, block, grammar_repeat(g, more, 0, GRAMMAR_UNBOUNDED));
	}
	if (*x->close) {
		grammar_append(g, block, schema_space(&c->schema));
		grammar_append(g, block, grammar_text(g, x->close));
	}
	return grammar_rule(g, "calls", block);
}

static uint32_t behind_mark(struct calls *c, uint32_t block)
{
	return grammar_then(c->grammar, schema_space(&c->schema), block);
}

static uint32_t marked(struct calls *c, uint32_t block)
{
	struct grammar *g = c->grammar;
	uint32_t sequence = grammar_sequence(g);
	grammar_append(g, sequence, grammar_text(g, c->syntax->mark_is_token ? PIECES_MARK : c->syntax->mark));
	grammar_append(g, sequence, behind_mark(c, block));
	return sequence;
}

/* Calls and nothing else. White space behind them may end the answer as well as lead to another call: who has written
 * some is not held to a call more. */
static uint32_t only_calls(struct calls *c, uint32_t block)
{
	struct grammar *g = c->grammar;
	uint32_t all = grammar_sequence(g);
	grammar_append(g, all, c->syntax->bare ? grammar_reference(g, block) : marked(c, block));
	if (c->one)
		return all;
	if (!c->syntax->separator) {
		uint32_t more = grammar_sequence(g);
		grammar_append(g, more, schema_space(&c->schema));
		grammar_append(g, more, marked(c, block));
		grammar_append(g, all, grammar_repeat(g, more, 0, GRAMMAR_UNBOUNDED));
	}
	grammar_append(g, all, schema_space(&c->schema));
	return all;
}

/* The beginning of an answer that may begin with a call that has no mark: white space; then that call, or text that
 * does not look like one and goes on as `rules` say. */
static uint32_t bare_beginning(struct calls *c, const struct until *u, const uint32_t rules[], uint32_t block_and_on)
{
	struct grammar *g = c->grammar;
	struct charset others = {1, {{0, CODE_POINT_MAX}}};
	uint32_t start = grammar_declare(g, "an answer", 9), choice = grammar_choice(g);
	const uint32_t mark_begins = (unsigned char)*u->word;
	for (uint32_t i = 0; i < blanks.n; i++)
		for (uint32_t code = blanks.ranges[i].first; code <= blanks.ranges[i].last; code++)
			charset_remove(&others, code, code);
	charset_remove(&others, '{', '{');
	charset_remove(&others, mark_begins, mark_begins);
	grammar_append(g, choice, grammar_sequence(g));
	grammar_append(g, choice, grammar_reference(g, block_and_on));
	grammar_append(g, choice, grammar_then(g, grammar_class(g, &blanks), start));
	grammar_append(g, choice, grammar_then(g, grammar_bytes(g, u->word, 1), rules[1]));
	grammar_append(g, choice, grammar_then(g, grammar_class(g, &others), rules[0]));
	if (u->marked != UNTIL_NEVER)
		grammar_append(g, choice, grammar_then(g, grammar_text(g, PIECES_MARK), u->marked));
	grammar_define(g, start, choice);
	return start;
}

/* Any text, but what looks like calls is calls. */
static uint32_t text_and_calls(struct calls *c, uint32_t block)
{
	struct grammar *g = c->grammar;
	uint32_t rules[UNTIL_WORD_MAX], calls = grammar_declare(g, "calls, and on", 13);
	bool is_token = c->syntax->mark_is_token;
	struct until until = {c->syntax->mark, is_token ? UNTIL_NEVER : calls, is_token ? calls : UNTIL_NEVER, true};
	until_rules(g, &until, rules);
	uint32_t all = behind_mark(c, block), bare = grammar_sequence(g);
	grammar_append(g, bare, grammar_reference(g, block));
	if (!c->one) {
		grammar_append(g, all, grammar_reference(g, rules[0]));
		grammar_append(g, bare, grammar_reference(g, rules[0]));
	}
	grammar_define(g, calls, all);
	uint32_t first = c->syntax->bare ? bare_beginning(c, &until, rules, grammar_rule(g, "bare calls, and on", bare))
					 : rules[0];
	return grammar_reference(g, first);
}

static int read_answer(struct calls *c, yyjson_val *answer, uint32_t *node)
{
	uint32_t block = block_rule(c), instance;
	if (!answer) {
		*node = c->required ? only_calls(c, block) : text_and_calls(c, block);
		return 0;
	}
	int rc = schema_rule(&c->schema, answer, &instance);
	*node = grammar_choice(c->grammar);
	grammar_append(c->grammar, *node, only_calls(c, block));
	grammar_append(c->grammar, *node, grammar_reference(c->grammar, instance));
	return rc;
}

int calls_read(const char *source, size_t n_bytes, const struct call_syntax *syntax, struct grammar *grammar,
	       struct err *err)
{
	struct calls c = {.grammar = grammar, .syntax = syntax};
	yyjson_doc *document = yyjson_read(source, n_bytes, YYJSON_READ_NOFLAG);
	yyjson_val *root = yyjson_doc_get_root(document);
	c.required = yyjson_is_true(yyjson_obj_get(root, "required"));
	c.one = yyjson_is_true(yyjson_obj_get(root, "one"));
	schema_begin(&c.schema, grammar, err);
	uint32_t node = 0;
	int rc = read_functions(&c, yyjson_obj_get(root, "functions"));
	if (!rc)
		rc = read_answer(&c, yyjson_obj_get(root, "answer"), &node);
	grammar->root = grammar_rule(grammar, "an answer with calls", node);
	schema_end(&c.schema);
	yyjson_doc_free(document);
	return rc;
}
