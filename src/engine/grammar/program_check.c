/* Whether a program is sound: every rule it can reach ends, and none begins with itself.
 *
 * Ends: what leads to a return is found backwards from the returns; the same without eating gives the rules that may be
 * empty. Begins with itself: a call within a cycle of steps that eat nothing (Tarjan's strongly connected components,
 * 1972, without recursion). All of it is linear in the program's length, whatever the program. */
#include <errno.h>
#include <stdlib.h>

#include "src/engine/grammar/program.h"

/* Who leads to an operation: by_target[starts[i]] up to by_target[starts[i + 1]]. */
struct sources {
	uint32_t *starts, *by_target;
};

/* Where an operation leads to; a call to the rule and to what follows it. */
static uint32_t targets_of(const struct program *p, uint32_t op, uint32_t out[2])
{
	const struct program_op *o = &p->ops[op];
	switch ((enum program_kind)o->kind) {
	case PROGRAM_BYTE:
		out[0] = op + 1;
		return 1;
	case PROGRAM_SPLIT:
		out[0] = o->a;
		out[1] = o->b;
		return 2;
	case PROGRAM_CALL:
		out[0] = o->a;
		out[1] = op + 1;
		return 2;
	case PROGRAM_JUMP:
	case PROGRAM_TAIL:
		out[0] = o->a;
		return 1;
	case PROGRAM_RETURN:
	case PROGRAM_NEVER:
		break;
	}
	return 0;
}

static int sources_new(const struct program *p, struct sources *s)
{
	uint32_t targets[2];
	s->starts = calloc((size_t)p->n_ops + 2, sizeof *s->starts);
	s->by_target = malloc(((size_t)p->n_ops * 2 + 1) * sizeof *s->by_target);
	if (!s->starts || !s->by_target)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->n_ops; i++)
		for (uint32_t n = targets_of(p, i, targets); n > 0; n--)
			s->starts[targets[n - 1] + 2]++;
	for (uint32_t i = 2; i < p->n_ops + 2; i++)
		s->starts[i] += s->starts[i - 1];
	for (uint32_t i = 0; i < p->n_ops; i++)
		for (uint32_t n = targets_of(p, i, targets); n > 0; n--)
			s->by_target[s->starts[targets[n - 1] + 1]++] = i; /* then starts[i + 1] is the end of i */
	return 0;
}

/* Whether an operation leads to its rule's return, as far as is known; without eating where `eating` forbids it. */
static bool leads(const struct program *p, uint32_t op, const bool *known, enum program_kind forbidden)
{
	const struct program_op *o = &p->ops[op];
	uint32_t targets[2] = {0, 0};
	if (o->kind == forbidden)
		return false;
	uint32_t n = targets_of(p, op, targets);
	if (o->kind == PROGRAM_CALL)
		return known[targets[0]] && known[targets[1]];
	return (n > 0 && known[targets[0]]) || (n > 1 && known[targets[1]]);
}

/* known[op]: it leads to its rule's return without an operation of the forbidden kind. `work` [n_ops]. */
static void find_ends(const struct program *p, const struct sources *s, enum program_kind forbidden, bool *known,
		      uint32_t *work)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < p->n_ops; i++)
		if (p->ops[i].kind == PROGRAM_RETURN) {
			known[i] = true;
			work[n++] = i;
		}
	while (n) {
		uint32_t op = work[--n];
		for (uint32_t i = s->starts[op]; i < s->starts[op + 1]; i++) {
			uint32_t source = s->by_target[i];
			if (known[source] || !leads(p, source, known, forbidden))
				continue;
			known[source] = true;
			work[n++] = source;
		}
	}
}

static const char *rule_of(const struct grammar *g, const uint32_t *entries, uint32_t op)
{
	uint32_t rule = 0;
	while (rule + 1 < g->n_rules && entries[rule + 1] <= op)
		rule++;
	return g->rules[rule].name;
}

/* Every rule that can be called from the start has to have an end. */
static int check_ends(const struct program *p, const struct grammar *g, const uint32_t *entries, const bool *ends,
		      bool *seen, uint32_t *work, struct err *err)
{
	uint32_t n = 1, targets[2];
	work[0] = p->start;
	seen[p->start] = true;
	while (n) {
		uint32_t op = work[--n];
		bool calls = p->ops[op].kind == PROGRAM_CALL || p->ops[op].kind == PROGRAM_TAIL;
		if ((calls && !ends[p->ops[op].a]) || (op == p->start && !ends[op])) {
			uint32_t entry = calls && !ends[p->ops[op].a] ? p->ops[op].a : op;
			return err_set(err, -EINVAL, "no text ever completes '%s'", rule_of(g, entries, entry));
		}
		for (uint32_t m = targets_of(p, op, targets); m > 0; m--)
			if (!seen[targets[m - 1]]) {
				seen[targets[m - 1]] = true;
				work[n++] = targets[m - 1];
			}
	}
	return 0;
}

/* --- rules that begin with themselves --------------------------------------------------------- */

struct tarjan {
	const struct program *program;
	const bool *empty;
	uint32_t *number, *low, *component; /* [n_ops]; 0: not visited, not closed */
	uint32_t *open, *path;		    /* [n_ops] stacks */
	uint8_t *next_target;		    /* [n_ops] of those on the path */
	uint32_t n_open, n_path, n_numbers, n_components;
};

/* Where an operation leads to without eating. */
static uint32_t left_targets(const struct tarjan *t, uint32_t op, uint32_t out[2])
{
	const struct program_op *o = &t->program->ops[op];
	if (o->kind == PROGRAM_BYTE)
		return 0;
	uint32_t n = targets_of(t->program, op, out);
	return o->kind == PROGRAM_CALL && !t->empty[o->a] ? 1 : n;
}

static void visit(struct tarjan *t, uint32_t op)
{
	t->number[op] = t->low[op] = ++t->n_numbers;
	t->next_target[op] = 0;
	t->open[t->n_open++] = t->path[t->n_path++] = op;
}

static void close_component(struct tarjan *t, uint32_t op)
{
	uint32_t member;
	t->n_components++;
	do {
		member = t->open[--t->n_open];
		t->component[member] = t->n_components;
	} while (member != op);
}

static void explore(struct tarjan *t, uint32_t from)
{
	uint32_t targets[2];
	visit(t, from);
	while (t->n_path) {
		uint32_t op = t->path[t->n_path - 1];
		if (t->next_target[op] < left_targets(t, op, targets)) {
			uint32_t target = targets[t->next_target[op]++];
			if (!t->number[target])
				visit(t, target);
			else if (!t->component[target] && t->number[target] < t->low[op])
				t->low[op] = t->number[target];
			continue;
		}
		if (t->low[op] == t->number[op])
			close_component(t, op);
		t->n_path--;
		if (t->n_path && t->low[op] < t->low[t->path[t->n_path - 1]])
			t->low[t->path[t->n_path - 1]] = t->low[op];
	}
}

static int check_beginnings(const struct program *p, const struct grammar *g, const uint32_t *entries,
			    const bool *empty, struct err *err)
{
	struct tarjan t = {.program = p, .empty = empty};
	uint32_t *memory = calloc((size_t)p->n_ops * 5, sizeof *memory);
	t.next_target = calloc(p->n_ops, 1);
	int rc = 0;
	if (!memory || !t.next_target)
		rc = err_set(err, -ENOMEM, "out of memory for the grammar");
	if (!rc) {
		t.number = memory;
		t.low = memory + p->n_ops;
		t.component = memory + (size_t)p->n_ops * 2;
		t.open = memory + (size_t)p->n_ops * 3;
		t.path = memory + (size_t)p->n_ops * 4;
		for (uint32_t i = 0; i < p->n_ops; i++)
			if (!t.number[i])
				explore(&t, i);
	}
	for (uint32_t i = 0; i < p->n_ops && !rc; i++) {
		const struct program_op *o = &p->ops[i];
		if ((o->kind == PROGRAM_CALL || o->kind == PROGRAM_TAIL) && t.component[i] == t.component[o->a])
			rc = err_set(err, -EINVAL,
				     "'%s' begins with itself (left recursion); write it with a repetition instead",
				     rule_of(g, entries, o->a));
	}
	free(memory);
	free(t.next_target);
	return rc;
}

int program_check(const struct program *p, const struct grammar *g, const uint32_t *entries, struct err *err)
{
	struct sources sources = {0};
	bool *ends = calloc((size_t)p->n_ops * 3, sizeof *ends);
	uint32_t *work = malloc(p->n_ops * sizeof *work);
	int rc = sources_new(p, &sources);
	if (rc || !ends || !work) {
		rc = err_set(err, -ENOMEM, "out of memory for the grammar");
	} else {
		bool *empty = ends + p->n_ops, *seen = ends + (size_t)p->n_ops * 2;
		find_ends(p, &sources, PROGRAM_NEVER, ends, work);
		find_ends(p, &sources, PROGRAM_BYTE, empty, work);
		rc = check_ends(p, g, entries, ends, seen, work, err);
		if (!rc)
			rc = check_beginnings(p, g, entries, empty, err);
	}
	free(sources.starts);
	free(sources.by_target);
	free(ends);
	free(work);
	return rc;
}
