/* The tokens that a grammar allows: against trying each of them, and whatever the automaton remembers by then. */
#include "src/engine/grammar/automaton.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/grammar/compile.h"
#include "tests/unit/suite.h"
#include "tests/unit/tokenizer_vocab.h"

struct rig {
	struct fixture fixture;
	struct pieces pieces;
	uint32_t n_tokens;
	struct arena arena;
};

/* Words over a small alphabet: all of them up to a length, and some with more in them. */
static void add_words(struct vocab *vocab, const char *letters, unsigned length)
{
	static const char *const more[] = {"true",     "null", "\"a\"",	 ": ",	"[[",
					   "\xc3\xa9", "12",   "-1.5e3", "{\"", "},"};
	size_t n_letters = strlen(letters), n_words = 1;
	for (size_t i = 0; i < sizeof more / sizeof *more; i++)
		vocab_word(vocab, more[i]);
	for (unsigned n = 1; n <= length; n++) {
		n_words *= n_letters;
		for (size_t word = 0; word < n_words; word++) {
			char text[32] = "";
			size_t rest = word;
			for (unsigned i = 0; i < n; i++, rest /= n_letters)
				text[i] = letters[rest % n_letters];
			vocab_word(vocab, text);
		}
	}
}

static void setup(struct rig *rig, const char *letters, unsigned length)
{
	struct err err = {""};
	memset(rig, 0, sizeof *rig);
	vocab_init(&rig->fixture.vocab);
	add_words(&rig->fixture.vocab, letters, length);
	ck_assert_msg(fixture_attach(&rig->fixture, &err) == 0, "%s", err.text);
	ck_assert_int_eq(pieces_init(&rig->pieces, rig->fixture.tokenizer, -1), 0);
	rig->n_tokens = rig->fixture.vocab.source.n_tokens;
	ck_assert_int_eq(arena_init(&rig->arena, (size_t)64 << 20, &err), 0);
}

static void teardown(struct rig *rig)
{
	pieces_fini(&rig->pieces);
	fixture_fini(&rig->fixture);
	arena_fini(&rig->arena);
}

static void compile(enum constraint_kind kind, const char *source, struct program *out)
{
	struct constraint_source wanted = {.kind = kind, .bytes = source, .n_bytes = strlen(source)};
	struct err err = {""};
	ck_assert_msg(constraint_compile(&wanted, out, &err) == 0, "%s: %s", source, err.text);
}

static void begin(struct rig *rig, const struct program *program, struct automaton *out)
{
	ck_assert_int_eq(automaton_init(out, program, &rig->pieces, rig->n_tokens, &rig->arena), 0);
}

/* The state after a text, byte by byte. */
static uint32_t follow(struct automaton *a, const char *text, size_t n_bytes)
{
	automaton_begin(a, 0);
	uint32_t state = automaton_start(a);
	for (size_t i = 0; i < n_bytes && state > AUTOMATON_DEAD; i++) {
		state = automaton_step(a, state, text + i, 1);
		if (state)
			state = automaton_begin(a, state);
	}
	return state;
}

static bool allows(const uint64_t *mask, uint32_t token)
{
	return mask[token / 64] >> (token % 64) & 1;
}

START_TEST(a_mask_has_the_tokens_that_lead_on)
{
	static const struct {
		enum constraint_kind kind;
		const char *source;
	} cases[] = {
		{CONSTRAINT_REGEX, "(ab|ba)*c?"},
		{CONSTRAINT_REGEX, "[a-c]{2,5}(tr|true)?\\xe9*"},
		{CONSTRAINT_REGEX, "(a|aa|aaa)+b"},
		{CONSTRAINT_GBNF, "root ::= \"a\" root \"b\" | \"c\" | \"[\" root \"]\""},
		{CONSTRAINT_OBJECT, ""},
		{CONSTRAINT_CHOICE, "[\"abc\", \"abcabc\", \"b\", \"true\"]"},
		{CONSTRAINT_SCHEMA, "{\"type\": \"array\", \"items\": {\"enum\": [\"a\", 12, null, -1.5e3]}}"},
	};
	struct rig rig;
	struct program program;
	struct automaton a, judge;
	unsigned long n_allowed = 0, n_refused = 0;
	setup(&rig, "abc", 3);
	compile(cases[_i].kind, cases[_i].source, &program);
	begin(&rig, &program, &a);
	begin(&rig, &program, &judge);
	uint32_t random = 5;
	for (unsigned round = 0; round < 40; round++) {
		char text[512];
		size_t n = 0;
		for (unsigned depth = 0; depth < 8; depth++) {
			uint32_t state = follow(&a, text, n), n_bytes, picked = UINT32_MAX, n_seen = 0;
			ck_assert_uint_gt(state, AUTOMATON_DEAD);
			const uint64_t *mask = automaton_mask(&a, state);
			ck_assert_ptr_nonnull(mask);
			for (uint32_t token = 0; token < rig.n_tokens; token++) {
				const char *piece = pieces_bytes(&rig.pieces, token, &n_bytes);
				memcpy(text + n, piece, n_bytes);
				bool leads_on = follow(&judge, text, n + n_bytes) > AUTOMATON_DEAD;
				ck_assert_msg(leads_on == allows(mask, token), "%s: token %u after '%.*s'",
					      cases[_i].source, token, (int)n, text);
				n_allowed += leads_on;
				n_refused += !leads_on;
				random = random * 1664525u + 1013904223u;
				if (leads_on && (random >> 8) % ++n_seen == 0)
					picked = token;
			}
			if (picked == UINT32_MAX)
				break;
			const char *piece = pieces_bytes(&rig.pieces, picked, &n_bytes);
			memcpy(text + n, piece, n_bytes);
			n += n_bytes;
		}
	}
	ck_assert_uint_gt(n_allowed, 0);
	ck_assert_uint_gt(n_refused, 0);
	automaton_fini(&a, &rig.arena);
	automaton_fini(&judge, &rig.arena);
	program_fini(&program);
	teardown(&rig);
}
END_TEST

enum { LONGEST = 10, BEFORE = 600 };

/* Any text over a and b. */
static void fill(char *text, size_t n_bytes)
{
	uint32_t random = 3;
	for (size_t i = 0; i < n_bytes; i++) {
		random = random * 1664525u + 1013904223u;
		text[i] = random >> 31 ? 'b' : 'a';
	}
}

/* Steps behind a text through all words up to a length, each byte an operation of its own: what a mask there needs is
 * known then. */
static void warm(struct automaton *a, unsigned length)
{
	char text[BEFORE + LONGEST];
	fill(text, BEFORE);
	for (unsigned word = 0; word < 1u << length; word++) {
		for (unsigned i = 0; i < length; i++)
			text[BEFORE + i] = word >> i & 1 ? 'b' : 'a';
		follow(a, text, BEFORE + length);
	}
}

static const uint64_t *mask_behind(struct automaton *a)
{
	char text[BEFORE];
	fill(text, BEFORE);
	uint32_t state = follow(a, text, BEFORE);
	ck_assert_uint_gt(state, AUTOMATON_DEAD);
	return automaton_mask(a, state);
}

/* Grammars around the bounds: their masks take more and more work and room, until one takes too much. */
START_TEST(bounds_do_not_depend_on_what_is_remembered)
{
	struct rig rig;
	bool passed = false, failed = false;
	setup(&rig, "ab", LONGEST);
	for (unsigned n = 20; n <= 500; n += 40) {
		char source[64];
		struct program program;
		struct automaton cold, known;
		snprintf(source, sizeof source, "[ab]*a[ab]{%u}", n);
		compile(CONSTRAINT_REGEX, source, &program);
		begin(&rig, &program, &cold);
		const uint64_t *mask = mask_behind(&cold);
		for (unsigned length = 1; length <= LONGEST; length += 3) {
			begin(&rig, &program, &known);
			warm(&known, length);
			const uint64_t *other = mask_behind(&known);
			ck_assert_msg(!mask == !other, "%s: %s cold, %s with words of %u bytes known", source,
				      mask ? "passes" : "fails", other ? "passes" : "fails", length);
			ck_assert(!mask || !memcmp(mask, other, rig.n_tokens / 64 * sizeof *mask));
			automaton_fini(&known, &rig.arena);
		}
		passed |= mask != NULL;
		failed |= mask == NULL;
		automaton_fini(&cold, &rig.arena);
		program_fini(&program);
	}
	ck_assert_msg(passed && failed, "these grammars are not around the bounds");
	teardown(&rig);
}
END_TEST

/* The same of a step over a long token. */
START_TEST(a_step_is_bounded_by_what_it_would_take_alone)
{
	struct rig rig;
	bool passed = false, failed = false;
	char text[4000];
	setup(&rig, "ab", 1);
	fill(text, sizeof text);
	for (unsigned n = 20; n <= 300; n += 40) {
		char source[64];
		struct program program;
		struct automaton a;
		snprintf(source, sizeof source, "[ab]*a[ab]{%u}", n);
		compile(CONSTRAINT_REGEX, source, &program);
		begin(&rig, &program, &a);
		automaton_begin(&a, 0);
		bool cold = automaton_step(&a, automaton_start(&a), text, sizeof text) != 0;
		for (unsigned round = 0; round < 3; round++) {
			follow(&a, text, sizeof text / 2);
			automaton_begin(&a, 0);
			ck_assert(cold == (automaton_step(&a, automaton_start(&a), text, sizeof text) != 0));
		}
		passed |= cold;
		failed |= !cold;
		automaton_fini(&a, &rig.arena);
		program_fini(&program);
	}
	ck_assert_msg(passed && failed, "these grammars are not around the bounds");
	teardown(&rig);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("automaton");
	TCase *tcase = tcase_create("masks");
	tcase_set_timeout(tcase, 120);
	tcase_add_loop_test(tcase, a_mask_has_the_tokens_that_lead_on, 0, 7);
	tcase_add_test(tcase, bounds_do_not_depend_on_what_is_remembered);
	tcase_add_test(tcase, a_step_is_bounded_by_what_it_would_take_alone);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
