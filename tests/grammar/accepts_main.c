/* What tests/grammar/test_grammar.py compares with other judges: for each line of JSON {"kind", "source", "texts"}, and
 * maybe {"reasoning_begin", "reasoning_end"} and a syntax of {"calls"}, on standard input, a line {"error"} or
 * {"verdicts"}: of each text 2: complete, 1: the beginning of one, 0: neither. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "src/engine/grammar/automaton.h"
#include "src/engine/grammar/compile.h"

static const char *const kinds[] = {"", "gbnf", "regex", "schema", "choice", "object", "calls"};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static int verdict(struct automaton *a, const char *text, size_t n)
{
	automaton_begin(a, 0);
	uint32_t state = automaton_start(a);
	for (size_t i = 0; i < n && state > AUTOMATON_DEAD; i++) {
		state = automaton_step(a, state, text + i, 1);
		state = automaton_begin(a, state);
	}
	if (!state)
		return -1;
	return automaton_accepts(a, state) ? 2 : state != AUTOMATON_DEAD;
}

static const char *text_of(yyjson_val *object, const char *name)
{
	return yyjson_get_str(yyjson_obj_get(object, name));
}

static void answer(yyjson_val *line, struct arena *arena)
{
	static const struct pieces none;
	struct program program;
	struct automaton automaton;
	struct err err = {""};
	yyjson_val *source = yyjson_obj_get(line, "source");
	int kind = 0;
	while (kind < N_KINDS && !yyjson_equals_str(yyjson_obj_get(line, "kind"), kinds[kind]))
		kind++;
	yyjson_mut_doc *out = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(out);
	yyjson_mut_doc_set_root(out, root);
	yyjson_val *syntax = yyjson_obj_get(line, "calls");
	struct call_syntax calls = {
		.mark = text_of(syntax, "mark"),
		.mark_is_token = yyjson_is_true(yyjson_obj_get(syntax, "mark_is_token")),
		.bare = yyjson_is_true(yyjson_obj_get(syntax, "bare")),
		.open = text_of(syntax, "open"),
		.close = text_of(syntax, "close"),
		.separator = text_of(syntax, "separator"),
		.arguments = text_of(syntax, "arguments"),
	};
	struct constraint_source wanted = {
		.kind = (enum constraint_kind)kind,
		.bytes = yyjson_get_str(source),
		.n_bytes = yyjson_get_len(source),
		.reasoning_begin = text_of(line, "reasoning_begin"),
		.reasoning_end = text_of(line, "reasoning_end"),
		.calls = &calls,
	};
	int rc = constraint_compile(&wanted, &program, &err);
	if (rc) {
		yyjson_mut_obj_add_strcpy(out, root, "error", err.text);
	} else {
		yyjson_mut_val *verdicts = yyjson_mut_obj_add_arr(out, root, "verdicts");
		yyjson_arr_iter texts = yyjson_arr_iter_with(yyjson_obj_get(line, "texts"));
		if (automaton_init(&automaton, &program, &none, 0, arena))
			abort();
		for (yyjson_val *text; (text = yyjson_arr_iter_next(&texts));)
			yyjson_mut_arr_add_int(out, verdicts,
					       verdict(&automaton, yyjson_get_str(text), yyjson_get_len(text)));
		automaton_fini(&automaton, arena);
		program_fini(&program);
	}
	char *text = yyjson_mut_write(out, YYJSON_WRITE_NOFLAG, NULL);
	puts(text);
	fflush(stdout);
	free(text);
	yyjson_mut_doc_free(out);
}

int main(void)
{
	struct arena arena = {0};
	char *line = NULL;
	size_t capacity = 0;
	ssize_t n;
	if (arena_init(&arena, (size_t)64 << 20, NULL))
		return 1;
	while ((n = getline(&line, &capacity, stdin)) > 0) {
		yyjson_doc *document = yyjson_read(line, (size_t)n, YYJSON_READ_NOFLAG);
		if (!document)
			return 1;
		answer(yyjson_doc_get_root(document), &arena);
		yyjson_doc_free(document);
	}
	free(line);
	arena_fini(&arena);
	return 0;
}
