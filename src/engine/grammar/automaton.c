#include "src/engine/grammar/automaton.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	SEEN_SLOTS = 1 << 14, /* a power of two, never more than half full */
	TODO_MAX = SEEN_SLOTS / 2,
	WRITTEN_MAX = 1 << 17, /* words of a state with its stacks: their cells are a quarter of the span */
	TABLES_BYTES = 2 * AUTOMATON_BUCKETS * sizeof(uint32_t),
};

struct place {
	uint32_t op, cell;
};

struct seen {
	struct place place;
	uint32_t step; /* the step that looked at it */
};

struct scratch {
	struct seen seen[SEEN_SLOTS];
	struct place todo[TODO_MAX], found[AUTOMATON_PLACES_MAX];
	uint32_t n_seen, n_todo, n_found, n_calls, step;
	bool accepts, overflow;
};

/* What it took to find an arc. */
struct cost {
	uint16_t places; /* looked at: those of the state it begins at, and those seen */
	uint16_t cells;	 /* asked for */
};
static_assert(AUTOMATON_PLACES_MAX + TODO_MAX <= UINT16_MAX, "a cost fits");
/* When an operation begins, half of the span is free; then there are its states and cells, those of the step that was
 * one too many, and a mask. */
static_assert(AUTOMATON_TAKEN_MAX + TODO_MAX * 16 + (512 << 10) <= AUTOMATON_BYTES / 2,
	      "the span has room for an operation");

/* A call that is to return. Named by its offset in the span, as states are; 0: nothing to return to. */
struct cell {
	uint32_t op, below, depth;
	uint32_t next; /* of the same bucket */
};

struct state {
	uint32_t hash, next;
	uint32_t n_places;
	uint32_t mask; /* offset; 0: not made yet */
	uint32_t accepts;
	uint64_t operation; /* the last one that came by */
	uint32_t arcs[];    /* [n_classes] states; 0: not known yet */
			    /* uint32_t charged[n_classes bits]: arcs that were charged to that operation
			     * struct place places[n_places]
			     * uint16_t costs[n_classes]: places that were looked at to find the arc */
};
static_assert(sizeof(struct cell) == 16, "what the bounds above reckon with");

static uint32_t *cell_buckets(const struct automaton *a)
{
	return (uint32_t *)(void *)a->span;
}

static uint32_t *state_buckets(const struct automaton *a)
{
	return cell_buckets(a) + AUTOMATON_BUCKETS;
}

static struct cell *cell_at(const struct automaton *a, uint32_t at)
{
	return (struct cell *)(void *)(a->span + at);
}

static struct state *state_at(const struct automaton *a, uint32_t at)
{
	return (struct state *)(void *)(a->span + at);
}

static uint32_t *charged_of(const struct automaton *a, struct state *state)
{
	return state->arcs + a->program->n_classes;
}

static size_t charged_words(const struct automaton *a)
{
	return (a->program->n_classes + 31) / 32;
}

static struct place *places_of(const struct automaton *a, struct state *state)
{
	return (struct place *)(void *)(charged_of(a, state) + charged_words(a));
}

static struct cost *costs_of(const struct automaton *a, struct state *state)
{
	return (struct cost *)(void *)(places_of(a, state) + state->n_places);
}

static size_t state_bytes(const struct automaton *a, uint32_t n_places)
{
	return sizeof(struct state) + a->program->n_classes * (sizeof(uint32_t) + sizeof(struct cost)) +
	       charged_words(a) * sizeof(uint32_t) + n_places * sizeof(struct place);
}

/* 0: the span is full. */
static uint32_t take(struct automaton *a, size_t n_bytes)
{
	uint32_t at = (a->used + 7) & ~7u;
	if (n_bytes > AUTOMATON_BYTES - at)
		return 0;
	a->used = at + (uint32_t)n_bytes;
	return at;
}

int automaton_init(struct automaton *a, const struct program *program, const struct pieces *pieces, uint32_t n_tokens,
		   struct arena *arena)
{
	*a = (struct automaton){.program = program, .pieces = pieces, .n_tokens = n_tokens, .used = TABLES_BYTES};
	a->span = arena_alloc(arena, AUTOMATON_BYTES);
	a->scratch = arena_alloc(arena, sizeof *a->scratch);
	if (a->span && a->scratch)
		return 0;
	automaton_fini(a, arena);
	return -ENOMEM;
}

void automaton_fini(struct automaton *a, struct arena *arena)
{
	arena_release(arena, a->span, AUTOMATON_BYTES);
	arena_release(arena, a->scratch, sizeof *a->scratch);
	*a = (struct automaton){0};
}

/* --- places ----------------------------------------------------------------------------------- */

static uint32_t mix(uint32_t a, uint32_t b)
{
	uint64_t x = ((uint64_t)a << 32 | b) * 0x9E3779B97F4A7C15u;
	return (uint32_t)(x >> 32) ^ (uint32_t)(x >> 9);
}

static void add(struct automaton *a, uint32_t op, uint32_t cell)
{
	struct scratch *s = a->scratch;
	uint32_t slot = mix(op, cell) & (SEEN_SLOTS - 1);
	for (; s->seen[slot].step == s->step; slot = (slot + 1) & (SEEN_SLOTS - 1))
		if (s->seen[slot].place.op == op && s->seen[slot].place.cell == cell)
			return;
	if (s->n_seen == TODO_MAX) {
		s->overflow = true;
		return;
	}
	s->seen[slot] = (struct seen){{op, cell}, s->step};
	s->n_seen++;
	s->todo[s->n_todo++] = (struct place){op, cell};
}

/* The cell that returns to `op` above `below`; 0: no room. */
static uint32_t cell_of(struct automaton *a, uint32_t op, uint32_t below)
{
	uint32_t *bucket = &cell_buckets(a)[mix(op, below) & (AUTOMATON_BUCKETS - 1)];
	for (uint32_t at = *bucket; at; at = cell_at(a, at)->next)
		if (cell_at(a, at)->op == op && cell_at(a, at)->below == below)
			return at;
	uint32_t at = take(a, sizeof(struct cell));
	if (!at)
		return 0;
	*cell_at(a, at) = (struct cell){op, below, below ? cell_at(a, below)->depth + 1 : 1, *bucket};
	*bucket = at;
	return at;
}

static void add_call(struct automaton *a, uint32_t rule, uint32_t op, uint32_t below)
{
	if (below && cell_at(a, below)->depth == AUTOMATON_DEPTH_MAX)
		return;
	uint32_t cell = cell_of(a, op, below);
	a->scratch->n_calls++;
	if (cell)
		add(a, rule, cell);
	else
		a->scratch->overflow = true;
}

/* Follows everything that eats nothing. */
static void close_places(struct automaton *a)
{
	struct scratch *s = a->scratch;
	while (s->n_todo && !s->overflow) {
		struct place place = s->todo[--s->n_todo];
		const struct program_op *op = &a->program->ops[place.op];
		switch ((enum program_kind)op->kind) {
		case PROGRAM_BYTE:
			if (s->n_found == AUTOMATON_PLACES_MAX)
				s->overflow = true;
			else
				s->found[s->n_found++] = place;
			break;
		case PROGRAM_SPLIT:
			add(a, op->b, place.cell);
			add(a, op->a, place.cell);
			break;
		case PROGRAM_JUMP:
		case PROGRAM_TAIL:
			add(a, op->a, place.cell);
			break;
		case PROGRAM_CALL:
			add_call(a, op->a, place.op + 1, place.cell);
			break;
		case PROGRAM_RETURN:
			if (place.cell)
				add(a, cell_at(a, place.cell)->op, cell_at(a, place.cell)->below);
			else
				s->accepts = true;
			break;
		case PROGRAM_NEVER:
			break;
		}
	}
}

static void begin_places(struct automaton *a)
{
	struct scratch *s = a->scratch;
	if (++s->step == 0) { /* after 2^32 steps old marks would look new */
		memset(s->seen, 0, sizeof s->seen);
		s->step = 1;
	}
	s->n_seen = s->n_todo = s->n_found = s->n_calls = 0;
	s->accepts = s->overflow = false;
}

static int compare(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	if (x->op != y->op)
		return x->op < y->op ? -1 : 1;
	return (x->cell > y->cell) - (x->cell < y->cell);
}

/* --- states ----------------------------------------------------------------------------------- */

/* Words of a state that is written out. */
static size_t count_words(const struct automaton *a, const struct place *places, uint32_t n)
{
	size_t words = 0;
	for (uint32_t i = 0; i < n; i++)
		words += 2 + (places[i].cell ? cell_at(a, places[i].cell)->depth : 0);
	return words;
}

/* The state of the places found. 0: no room, or it could not be kept when all others are forgotten. */
static uint32_t state_of_places(struct automaton *a)
{
	struct scratch *s = a->scratch;
	close_places(a);
	if (s->overflow)
		return 0;
	if (!s->n_found && !s->accepts)
		return AUTOMATON_DEAD;
	qsort(s->found, s->n_found, sizeof *s->found, compare);
	uint32_t hash = s->accepts;
	for (uint32_t i = 0; i < s->n_found; i++)
		hash = mix(hash + s->found[i].op, s->found[i].cell);
	uint32_t *bucket = &state_buckets(a)[hash & (AUTOMATON_BUCKETS - 1)];
	size_t places_bytes = s->n_found * sizeof *s->found;
	for (uint32_t at = *bucket; at; at = state_at(a, at)->next) {
		struct state *state = state_at(a, at);
		if (state->hash == hash && state->n_places == s->n_found && state->accepts == s->accepts &&
		    (!places_bytes || !memcmp(places_of(a, state), s->found, places_bytes)))
			return at;
	}
	uint32_t at = count_words(a, s->found, s->n_found) <= WRITTEN_MAX ? take(a, state_bytes(a, s->n_found)) : 0;
	if (!at)
		return 0;
	struct state *state = state_at(a, at);
	*state = (struct state){.hash = hash, .next = *bucket, .n_places = s->n_found, .accepts = s->accepts};
	if (places_bytes)
		memcpy(places_of(a, state), s->found, places_bytes);
	*bucket = at;
	return at;
}

/* A state's places with their stacks written out: operation, depth, operations to return to from the innermost on. */
static uint32_t *write_out(const struct automaton *a, struct state *state, size_t *n)
{
	const struct place *places = places_of(a, state);
	uint32_t *out = malloc((count_words(a, places, state->n_places) + 1) * sizeof *out);
	if (!out)
		return NULL;
	*n = 0;
	for (uint32_t i = 0; i < state->n_places; i++) {
		out[(*n)++] = places[i].op;
		out[(*n)++] = places[i].cell ? cell_at(a, places[i].cell)->depth : 0;
		for (uint32_t cell = places[i].cell; cell; cell = cell_at(a, cell)->below)
			out[(*n)++] = cell_at(a, cell)->op;
	}
	return out;
}

static uint32_t read_in(struct automaton *a, const uint32_t *in, size_t n, bool accepts)
{
	struct scratch *s = a->scratch;
	begin_places(a);
	s->accepts = accepts;
	for (size_t i = 0; i < n;) {
		uint32_t op = in[i], depth = in[i + 1], cell = 0;
		i += 2;
		for (uint32_t d = depth; d > 0; d--) {
			cell = cell_of(a, in[i + d - 1], cell);
			if (!cell)
				return 0;
		}
		i += depth;
		s->found[s->n_found++] = (struct place){op, cell};
	}
	return state_of_places(a);
}

static void forget(struct automaton *a)
{
	arena_discard(a->span, AUTOMATON_BYTES); /* reads as zeros: empty tables */
	a->used = TABLES_BYTES;
	a->start = 0;
	a->age++;
}

uint32_t automaton_begin(struct automaton *a, uint32_t state)
{
	if (a->used <= AUTOMATON_BYTES / 2)
		return state;
	if (state <= AUTOMATON_DEAD) {
		forget(a);
		return state;
	}
	size_t n;
	bool accepts = state_at(a, state)->accepts;
	uint32_t *written = write_out(a, state_at(a, state), &n);
	forget(a);
	state = written ? read_in(a, written, n, accepts) : 0;
	free(written);
	return state;
}

/* --- operations ------------------------------------------------------------------------------- */

static void begin_operation(struct automaton *a)
{
	a->operation++;
	a->work = a->taken = 0;
}

/* Whether it is the first time that the operation under way comes by. */
static bool visit(const struct automaton *a, struct state *state)
{
	if (state->operation == a->operation)
		return false;
	state->operation = a->operation;
	memset(charged_of(a, state), 0, charged_words(a) * sizeof(uint32_t));
	return true;
}

/* Charges an arc to the operation under way, once, whether it had to be found or was known. False: that is more than an
 * operation may take. */
static bool charge(struct automaton *a, struct state *state, uint32_t class)
{
	uint32_t *charged = &charged_of(a, state)[class / 32], bit = 1u << class % 32;
	const struct cost *cost = &costs_of(a, state)[class];
	uint32_t next = state->arcs[class];
	if (*charged & bit)
		return true;
	*charged |= bit;
	a->work += cost->places;
	a->taken += cost->cells * (uint32_t)sizeof(struct cell);
	if (next > AUTOMATON_DEAD && visit(a, state_at(a, next)))
		a->taken += (uint32_t)state_bytes(a, state_at(a, next)->n_places);
	return a->work <= AUTOMATON_WORK_MAX && a->taken <= AUTOMATON_TAKEN_MAX;
}

uint32_t automaton_start(struct automaton *a)
{
	if (!a->start) {
		begin_places(a);
		add(a, a->program->start, 0);
		a->start = state_of_places(a);
	}
	return a->start;
}

static void find_arc(struct automaton *a, struct state *state, uint8_t byte)
{
	uint32_t class = a->program->class_of[byte];
	const struct place *places = places_of(a, state);
	begin_places(a);
	for (uint32_t i = 0; i < state->n_places && !a->scratch->overflow; i++) {
		const struct program_op *op = &a->program->ops[places[i].op];
		if (byte >= op->first && byte <= op->last)
			add(a, places[i].op + 1, places[i].cell);
	}
	state->arcs[class] = state_of_places(a);
	costs_of(a, state)[class] =
		(struct cost){(uint16_t)(state->n_places + a->scratch->n_seen), (uint16_t)a->scratch->n_calls};
}

static uint32_t step(struct automaton *a, uint32_t at, uint8_t byte)
{
	uint32_t class = a->program->class_of[byte];
	struct state *state = state_at(a, at);
	visit(a, state);
	if (!state->arcs[class])
		find_arc(a, state, byte);
	return state->arcs[class] && charge(a, state, class) ? state->arcs[class] : 0;
}

uint32_t automaton_step(struct automaton *a, uint32_t state, const char *bytes, uint32_t n_bytes)
{
	begin_operation(a);
	for (uint32_t i = 0; i < n_bytes && state > AUTOMATON_DEAD; i++)
		state = step(a, state, (uint8_t)bytes[i]);
	return state;
}

bool automaton_accepts(const struct automaton *a, uint32_t state)
{
	return state > AUTOMATON_DEAD && state_at(a, state)->accepts;
}

bool automaton_goes_on(const struct automaton *a, uint32_t state)
{
	return state > AUTOMATON_DEAD && state_at(a, state)->n_places;
}

/* Walks the pieces as the tree they are: path[d] is the state after d bytes of the piece at hand. */
static bool fill_mask(struct automaton *a, uint32_t state, uint64_t *mask)
{
	const struct pieces *pieces = a->pieces;
	uint32_t path[PIECE_BYTES_MAX + 1], n;
	uint32_t alive = PIECE_BYTES_MAX; /* bytes of the last piece looked at that lead on */
	path[0] = state;
	for (uint32_t i = 0; i < pieces->n; i++) {
		uint32_t depth = pieces->shared[i];
		if (depth > alive)
			continue;
		const char *piece = pieces_bytes(pieces, pieces->ids[i], &n);
		while (depth < n) {
			uint32_t next = step(a, path[depth], (uint8_t)piece[depth]);
			if (!next)
				return false;
			if (next == AUTOMATON_DEAD)
				break;
			path[++depth] = next;
		}
		alive = depth == n ? PIECE_BYTES_MAX : depth;
		if (depth == n && pieces->ids[i] < a->n_tokens)
			mask[pieces->ids[i] / 64] |= 1ull << (pieces->ids[i] % 64);
	}
	return true;
}

const uint64_t *automaton_mask(struct automaton *a, uint32_t state)
{
	size_t n_bytes = ((size_t)a->n_tokens + 63) / 64 * sizeof(uint64_t);
	if (!state_at(a, state)->mask) {
		uint32_t at = take(a, n_bytes);
		begin_operation(a);
		if (!at || !fill_mask(a, state, (uint64_t *)(void *)(a->span + at)))
			return NULL;
		state_at(a, state)->mask = at;
	}
	return (const uint64_t *)(const void *)(a->span + state_at(a, state)->mask);
}
