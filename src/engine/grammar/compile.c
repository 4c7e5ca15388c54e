#include "src/engine/grammar/compile.h"

#include <errno.h>
#include <yyjson.h>

#include "src/engine/grammar/regex.h"
#include "src/engine/grammar/until.h"

static int read_regex(const char *source, size_t n_bytes, struct grammar *grammar, struct err *err)
{
	uint32_t node = 0;
	int rc = regex_read(source, n_bytes, REGEX_TEXT, REGEX_WHOLE, grammar, &node, err);
	grammar->root = grammar_rule(grammar, "the regular expression", node);
	return rc;
}

static int read_choice(const char *source, size_t n_bytes, struct grammar *grammar, struct err *err)
{
	yyjson_doc *document = yyjson_read(source, n_bytes, YYJSON_READ_NOFLAG);
	yyjson_val *list = yyjson_doc_get_root(document);
	int rc = yyjson_arr_size(list) ? 0 : err_set(err, -EINVAL, "a list of texts is expected, one at least");
	uint32_t choice = grammar_choice(grammar);
	yyjson_arr_iter items = yyjson_arr_iter_with(list);
	for (yyjson_val *item; !rc && (item = yyjson_arr_iter_next(&items));) {
		if (!yyjson_get_len(item) || !yyjson_is_str(item))
			rc = err_set(err, -EINVAL, "each choice must be a text of one byte or more");
		else
			grammar_append(grammar, choice,
				       grammar_bytes(grammar, yyjson_get_str(item), yyjson_get_len(item)));
	}
	grammar->root = grammar_rule(grammar, "the choices", choice);
	yyjson_doc_free(document);
	return rc;
}

static int read_source(const struct constraint_source *source, struct grammar *grammar, struct err *err)
{
	switch (source->kind) {
	case CONSTRAINT_GBNF:
		return gbnf_read(source->bytes, source->n_bytes, grammar, err);
	case CONSTRAINT_REGEX:
		return read_regex(source->bytes, source->n_bytes, grammar, err);
	case CONSTRAINT_SCHEMA:
		return schema_read(source->bytes, source->n_bytes, grammar, err);
	case CONSTRAINT_CHOICE:
		return read_choice(source->bytes, source->n_bytes, grammar, err);
	case CONSTRAINT_OBJECT:
		return schema_read("{\"type\":\"object\"}", 17, grammar, err);
	case CONSTRAINT_CALLS:
		return calls_read(source->bytes, source->n_bytes, source->calls, grammar, err);
	case CONSTRAINT_NONE:
		break;
	}
	return -EINVAL;
}

/* Reasoning, a few line ends, and then what was the root. */
static void put_reasoning_first(struct grammar *g, const struct constraint_source *source)
{
	static const struct charset blanks = {2, {{'\n', '\n'}, {' ', ' '}}};
	uint32_t rules[UNTIL_WORD_MAX], rest = grammar_sequence(g), root = grammar_choice(g);
	grammar_append(g, rest, grammar_repeat(g, grammar_class(g, &blanks), 0, 4));
	grammar_append(g, rest, grammar_reference(g, g->root));
	struct until until = {
		.word = source->reasoning_end,
		.said = grammar_rule(g, "what follows the reasoning", rest),
		.marked = UNTIL_NEVER,
	};
	until_rules(g, &until, rules);
	uint32_t reasoning = grammar_sequence(g);
	if (source->reasoning_begin) {
		grammar_append(g, reasoning, grammar_text(g, source->reasoning_begin));
		grammar_append(g, root, grammar_reference(g, g->root)); /* without any */
	}
	grammar_append(g, reasoning, grammar_reference(g, rules[0]));
	grammar_append(g, root, reasoning);
	g->root = grammar_rule(g, "reasoning and answer", root);
}

int constraint_compile(const struct constraint_source *source, struct program *out, struct err *err)
{
	struct grammar grammar = {0};
	if (source->n_bytes > CONSTRAINT_BYTES_MAX)
		return err_set(err, -E2BIG, "%zu bytes; at most %d are taken", source->n_bytes, CONSTRAINT_BYTES_MAX);
	int rc = read_source(source, &grammar, err);
	if (!rc && source->reasoning_end)
		put_reasoning_first(&grammar, source);
	if (grammar.fault == -ENOMEM || (!rc && grammar.fault))
		rc = grammar_fault(&grammar, err);
	if (!rc)
		rc = program_build(&grammar, out, err);
	grammar_fini(&grammar);
	return rc;
}
