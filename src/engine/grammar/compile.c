#include "src/engine/grammar/compile.h"

#include <errno.h>
#include <yyjson.h>

#include "src/engine/grammar/regex.h"

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

int constraint_compile(enum constraint_kind kind, const char *source, size_t n_bytes, struct program *out,
		       struct err *err)
{
	struct grammar grammar = {0};
	int rc = -EINVAL;
	if (n_bytes > CONSTRAINT_BYTES_MAX)
		return err_set(err, -E2BIG, "%zu bytes; at most %d are taken", n_bytes, CONSTRAINT_BYTES_MAX);
	switch (kind) {
	case CONSTRAINT_GBNF:
		rc = gbnf_read(source, n_bytes, &grammar, err);
		break;
	case CONSTRAINT_REGEX:
		rc = read_regex(source, n_bytes, &grammar, err);
		break;
	case CONSTRAINT_SCHEMA:
		rc = schema_read(source, n_bytes, &grammar, err);
		break;
	case CONSTRAINT_CHOICE:
		rc = read_choice(source, n_bytes, &grammar, err);
		break;
	case CONSTRAINT_OBJECT:
		rc = schema_read("{\"type\":\"object\"}", 17, &grammar, err);
		break;
	case CONSTRAINT_NONE:
		break;
	}
	if (grammar.fault == -ENOMEM || (!rc && grammar.fault))
		rc = grammar_fault(&grammar, err);
	if (!rc)
		rc = program_build(&grammar, out, err);
	grammar_fini(&grammar);
	return rc;
}
