/* What tests/grammar/test_grammar.py compares with other judges: for each line of JSON {"kind", "source", "texts"} on
 * standard input, a line {"error"} or {"verdicts"}: of each text 2: complete, 1: the beginning of one, 0: neither. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "src/engine/grammar/automaton.h"
#include "src/engine/grammar/compile.h"

static const char *const kinds[] = {"", "gbnf", "regex", "schema", "choice", "object"};

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

static void answer(yyjson_val *line, struct arena *arena)
{
	static const struct pieces none;
	struct program program;
	struct automaton automaton;
	struct err err = {""};
	yyjson_val *source = yyjson_obj_get(line, "source");
	int kind = 0, rc;
	while (kind < 6 && !yyjson_equals_str(yyjson_obj_get(line, "kind"), kinds[kind]))
		kind++;
	yyjson_mut_doc *out = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(out);
	yyjson_mut_doc_set_root(out, root);
	rc = constraint_compile((enum constraint_kind)kind, yyjson_get_str(source), yyjson_get_len(source), &program,
				&err);
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
