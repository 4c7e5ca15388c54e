/* A kind (and of calls a syntax, and whether reasoning comes first, by the higher bits), a source and, behind a zero
 * byte, a text. The source is refused with words, or the text is followed byte by byte and its verdict is the same a
 * second time, when the automaton remembers; a beginning of a text always leads on or is whole. */
#include <stdlib.h>
#include <string.h>

#include "src/engine/grammar/automaton.h"
#include "src/engine/grammar/compile.h"
#include "tests/fuzz/fuzz.h"

static const struct call_syntax syntaxes[4] = {
	{.mark = "<call>", .open = "", .close = "</call>", .arguments = "arguments"},
	{.mark = "[CALLS]", .mark_is_token = true, .open = "[", .close = "]", .separator = ",", .arguments = "a"},
	{.mark = "aab", .bare = true, .open = "", .close = "", .separator = ";", .arguments = "parameters"},
	{.mark = "<call>", .mark_is_token = true, .open = "", .close = "</call>", .arguments = "arguments"},
};

static void must(bool holds)
{
	if (!holds)
		abort();
}

static int follow(struct automaton *a, const char *text, size_t n)
{
	automaton_begin(a, 0);
	uint32_t state = automaton_start(a);
	for (size_t i = 0; i < n && state > AUTOMATON_DEAD; i++) {
		must(automaton_accepts(a, state) || automaton_goes_on(a, state));
		state = automaton_step(a, state, text + i, 1);
		state = automaton_begin(a, state);
	}
	return !state ? -1 : automaton_accepts(a, state) ? 2 : state != AUTOMATON_DEAD;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	static const struct pieces none;
	static struct arena arena;
	const char *source = (const char *)bytes + 1;
	struct program program;
	struct automaton automaton;
	struct err err = {""};
	if (!n_bytes || (!arena.base && arena_init(&arena, (size_t)64 << 20, NULL)))
		return 0;
	const char *zero = n_bytes > 1 ? memchr(source, 0, n_bytes - 1) : NULL;
	size_t n_source = zero ? (size_t)(zero - source) : n_bytes - 1;
	struct constraint_source wanted = {
		.kind = (enum constraint_kind)(bytes[0] % 8),
		.bytes = source,
		.n_bytes = n_source,
		.reasoning_begin = bytes[0] & 16 ? "<think>" : NULL,
		.reasoning_end = bytes[0] & 8 ? "</think>" : NULL,
		.calls = &syntaxes[bytes[0] >> 5 & 3],
	};
	if (wanted.kind > CONSTRAINT_CALLS)
		return 0;
	int rc = constraint_compile(&wanted, &program, &err);
	must(rc <= 0 && (!rc || err.text[0] || wanted.kind == CONSTRAINT_NONE));
	if (rc)
		return 0;
	must(!automaton_init(&automaton, &program, &none, 0, &arena));
	const char *text = zero ? zero + 1 : "";
	size_t n_text = zero ? n_bytes - n_source - 2 : 0;
	int first = follow(&automaton, text, n_text);
	must(first < 0 || follow(&automaton, text, n_text) == first);
	automaton_fini(&automaton, &arena);
	program_fini(&program);
	return 0;
}
