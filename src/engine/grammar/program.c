#include "src/engine/grammar/program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* One way to spell some of the code points of a class. */
struct spelling {
	uint32_t n;
	uint8_t first[4], last[4];
};

struct builder {
	const struct grammar *grammar;
	struct program *program;
	uint32_t *entries; /* [n_rules] */
	uint32_t capacity;
	int fault;
};

static uint32_t emit(struct builder *b, enum program_kind kind, uint32_t a, uint32_t second)
{
	struct program *p = b->program;
	if (b->fault)
		return 0;
	if (p->n_ops == PROGRAM_OPS_MAX) {
		b->fault = -E2BIG;
		return 0;
	}
	if (p->n_ops == b->capacity) {
		uint32_t capacity = b->capacity ? 2 * b->capacity : 256;
		struct program_op *ops = realloc(p->ops, capacity * sizeof *ops);
		if (!ops) {
			b->fault = -ENOMEM;
			return 0;
		}
		p->ops = ops;
		b->capacity = capacity;
	}
	p->ops[p->n_ops] = (struct program_op){.kind = (uint8_t)kind, .a = a, .b = second};
	return p->n_ops++;
}

static uint32_t here(const struct builder *b)
{
	return b->program->n_ops;
}

static void emit_byte(struct builder *b, uint8_t first, uint8_t last)
{
	uint32_t at = emit(b, PROGRAM_BYTE, 0, 0);
	if (b->fault)
		return;
	b->program->ops[at].first = first;
	b->program->ops[at].last = last;
}

/* --- code points ------------------------------------------------------------------------------ */

static uint32_t encode(uint32_t c, uint8_t out[4])
{
	if (c < 0x80) {
		out[0] = (uint8_t)c;
		return 1;
	}
	uint32_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const uint8_t lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
	for (uint32_t i = n - 1; i > 0; i--, c >>= 6)
		out[i] = (uint8_t)(0x80 | (c & 0x3F));
	out[0] = (uint8_t)(lead[n] | c);
	return n;
}

/* The first range of code points from `first` on whose encodings are all combinations of their bytes' ranges; *last
 * comes down to its end. */
static struct spelling spell(uint32_t first, uint32_t *last)
{
	static const uint32_t ends[] = {0x7F, 0x7FF, 0xD7FF, 0xFFFF, CODE_POINT_MAX};
	struct spelling s;
	for (uint32_t i = 0; i < 5; i++)
		if (first <= ends[i] && *last > ends[i]) {
			*last = ends[i];
			break;
		}
	s.n = encode(first, s.first);
	for (uint32_t i = 1; i < s.n; i++) {
		uint32_t low = (1u << (6 * i)) - 1; /* the bits of the last i bytes */
		if ((first & ~low) == (*last & ~low))
			continue;
		if (first & low)
			*last = first | low;
		else if ((*last & low) != low)
			*last = (*last & ~low) - 1;
	}
	encode(*last, s.last);
	return s;
}

/* A choice, one alternative at a time: `split` of the one before goes on here. */
static void emit_spelling(struct builder *b, const struct spelling *s, bool is_last, uint32_t *jumps)
{
	uint32_t split = is_last ? 0 : emit(b, PROGRAM_SPLIT, here(b) + 1, 0);
	for (uint32_t i = 0; i < s->n; i++)
		emit_byte(b, s->first[i], s->last[i]);
	if (is_last || b->fault)
		return;
	*jumps = emit(b, PROGRAM_JUMP, *jumps, 0); /* a chain through the jumps, until their end is known */
	if (!b->fault)
		b->program->ops[split].b = here(b);
}

/* Lets every jump of a chain go on here. */
static void land(struct builder *b, uint32_t chain)
{
	while (chain != UINT32_MAX && !b->fault) {
		uint32_t next = b->program->ops[chain].a;
		b->program->ops[chain].a = here(b);
		chain = next;
	}
}

static void emit_class(struct builder *b, const struct charset_range *ranges, uint32_t n)
{
	struct spelling pending;
	bool any = false;
	uint32_t jumps = UINT32_MAX;
	for (uint32_t i = 0; i < n && !b->fault; i++)
		for (uint32_t first = ranges[i].first; first <= ranges[i].last;) {
			if (first >= 0xD800 && first <= 0xDFFF) { /* surrogates are no characters */
				first = 0xE000;
				continue;
			}
			uint32_t last = ranges[i].last;
			struct spelling s = spell(first, &last);
			if (any)
				emit_spelling(b, &pending, false, &jumps);
			pending = s;
			any = true;
			first = last + 1;
		}
	if (any)
		emit_spelling(b, &pending, true, &jumps);
	else
		emit(b, PROGRAM_NEVER, 0, 0);
	land(b, jumps);
}

/* --- nodes ------------------------------------------------------------------------------------ */

static void emit_node(struct builder *b, uint32_t node, uint32_t depth);

static void emit_choice(struct builder *b, const struct grammar_node *node, uint32_t depth)
{
	const struct grammar_node *nodes = b->grammar->nodes;
	uint32_t jumps = UINT32_MAX;
	if (node->first == GRAMMAR_NO_NODE)
		emit(b, PROGRAM_NEVER, 0, 0);
	for (uint32_t child = node->first; child != GRAMMAR_NO_NODE && !b->fault; child = nodes[child].next) {
		bool is_last = nodes[child].next == GRAMMAR_NO_NODE;
		uint32_t split = is_last ? 0 : emit(b, PROGRAM_SPLIT, here(b) + 1, 0);
		emit_node(b, child, depth);
		if (is_last)
			break;
		jumps = emit(b, PROGRAM_JUMP, jumps, 0);
		if (!b->fault)
			b->program->ops[split].b = here(b);
	}
	land(b, jumps);
}

static void emit_repeat(struct builder *b, const struct grammar_node *node, uint32_t depth)
{
	uint32_t child = node->first;
	for (uint32_t i = 0; i < node->a && !b->fault; i++)
		emit_node(b, child, depth);
	if (node->b == GRAMMAR_UNBOUNDED) {
		uint32_t split = emit(b, PROGRAM_SPLIT, here(b) + 1, 0);
		emit_node(b, child, depth);
		emit(b, PROGRAM_JUMP, split, 0);
		if (!b->fault)
			b->program->ops[split].b = here(b);
		return;
	}
	uint32_t chain = UINT32_MAX; /* through the second ways of the splits, all of which end the repetition */
	for (uint32_t i = node->a; i < node->b && !b->fault; i++) {
		chain = emit(b, PROGRAM_SPLIT, here(b) + 1, chain);
		emit_node(b, child, depth);
	}
	while (chain != UINT32_MAX && !b->fault) {
		uint32_t next = b->program->ops[chain].b;
		b->program->ops[chain].b = here(b);
		chain = next;
	}
}

static void emit_node(struct builder *b, uint32_t index, uint32_t depth)
{
	const struct grammar *g = b->grammar;
	const struct grammar_node *node = &g->nodes[index];
	if (b->fault)
		return;
	if (depth > 2 * GRAMMAR_DEPTH_MAX) {
		b->fault = -E2BIG;
		return;
	}
	switch (node->kind) {
	case GRAMMAR_SEQUENCE:
		for (uint32_t child = node->first; child != GRAMMAR_NO_NODE && !b->fault; child = g->nodes[child].next)
			emit_node(b, child, depth + 1);
		break;
	case GRAMMAR_CHOICE:
		emit_choice(b, node, depth + 1);
		break;
	case GRAMMAR_BYTES:
		for (uint32_t i = 0; i < node->b; i++)
			emit_byte(b, (uint8_t)g->bytes[node->a + i], (uint8_t)g->bytes[node->a + i]);
		break;
	case GRAMMAR_CLASS:
		emit_class(b, g->ranges + node->a, node->b);
		break;
	case GRAMMAR_RULE:
		emit(b, PROGRAM_CALL, node->a, 0); /* becomes an address in the end */
		break;
	case GRAMMAR_REPEAT:
		emit_repeat(b, node, depth + 1);
		break;
	}
}

/* --- the whole -------------------------------------------------------------------------------- */

/* Calls get their addresses, and those after which nothing is left of the rule need not be returned from: without that,
 * a list written by recursion would need a stack as deep as the list is long. */
static void link_calls(struct program *p, const uint32_t *entries)
{
	for (uint32_t i = 0; i < p->n_ops; i++)
		if (p->ops[i].kind == PROGRAM_CALL)
			p->ops[i].a = entries[p->ops[i].a];
	for (uint32_t i = 0; i < p->n_ops; i++) {
		if (p->ops[i].kind != PROGRAM_CALL)
			continue;
		uint32_t next = i + 1;
		for (uint32_t hops = 0; hops < 64 && p->ops[next].kind == PROGRAM_JUMP; hops++)
			next = p->ops[next].a;
		if (p->ops[next].kind == PROGRAM_RETURN)
			p->ops[i].kind = PROGRAM_TAIL;
	}
}

static void classify(struct program *p)
{
	bool begins[257] = {[0] = true}; /* a class begins with this byte */
	for (uint32_t i = 0; i < p->n_ops; i++)
		if (p->ops[i].kind == PROGRAM_BYTE) {
			begins[p->ops[i].first] = true;
			begins[p->ops[i].last + 1] = true;
		}
	for (uint32_t byte = 0; byte < 256; byte++) {
		if (begins[byte])
			p->byte_of[p->n_classes++] = (uint8_t)byte;
		p->class_of[byte] = (uint8_t)(p->n_classes - 1);
	}
}

int program_build(const struct grammar *g, struct program *out, struct err *err)
{
	struct program program = {0};
	struct builder b = {.grammar = g, .program = &program};
	int rc = grammar_fault(g, err);
	if (rc)
		return rc;
	b.entries = calloc(g->n_rules ? g->n_rules : 1, sizeof *b.entries);
	if (!b.entries)
		return err_set(err, -ENOMEM, "out of memory for the grammar");
	for (uint32_t i = 0; i < g->n_rules && !b.fault; i++) {
		b.entries[i] = here(&b);
		if (g->rules[i].node == GRAMMAR_NO_NODE)
			rc = err_set(err, -EINVAL, "the rule '%s' is used and not defined", g->rules[i].name);
		else
			emit_node(&b, g->rules[i].node, 0);
		emit(&b, PROGRAM_RETURN, 0, 0);
	}
	if (b.fault == -E2BIG)
		rc = err_set(err, -E2BIG,
			     "the grammar is too large: it unfolds to more than %d steps; large repetition "
			     "counts are the usual reason",
			     PROGRAM_OPS_MAX);
	else if (b.fault)
		rc = err_set(err, b.fault, "out of memory for the grammar");
	if (!rc) {
		link_calls(&program, b.entries);
		classify(&program);
		program.start = b.entries[g->root];
		rc = program_check(&program, g, b.entries, err);
	}
	free(b.entries);
	if (rc)
		program_fini(&program);
	else
		*out = program;
	return rc;
}

void program_fini(struct program *program)
{
	free(program->ops);
	*program = (struct program){0};
}
