#include "src/engine/grammar/constraint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char too_many_readings[] = "the grammar has too many readings of this answer to be followed; make it less "
					"ambiguous, or its alternatives fewer";

struct constraint *constraint_new(struct program *program, const struct pieces *pieces, uint32_t n_tokens,
				  struct arena *arena)
{
	struct constraint *c = calloc(1, sizeof *c);
	if (!c) {
		program_fini(program);
		return NULL;
	}
	c->program = *program;
	c->arena = arena;
	c->references = 1;
	pthread_mutex_init(&c->lock, NULL);
	if (automaton_init(&c->automaton, &c->program, pieces, n_tokens, arena)) {
		constraint_put(c);
		return NULL;
	}
	return c;
}

void constraint_put(struct constraint *c)
{
	if (!c || --c->references)
		return;
	automaton_fini(&c->automaton, c->arena);
	program_fini(&c->program);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

int constraint_check(struct constraint *c, struct err *err)
{
	pthread_mutex_lock(&c->lock);
	automaton_begin(&c->automaton, 0);
	uint32_t start = automaton_start(&c->automaton);
	pthread_mutex_unlock(&c->lock);
	if (!start)
		return err_set(err, -E2BIG, "the grammar has too many ways to begin: more than %d",
			       AUTOMATON_PLACES_MAX);
	return 0;
}

struct matcher *matcher_new(struct constraint *c)
{
	struct matcher *m = calloc(1, sizeof *m);
	if (!m)
		return NULL;
	m->allowed = calloc(c->automaton.n_tokens / 64 + 1, sizeof *m->allowed);
	if (!m->allowed) {
		free(m);
		return NULL;
	}
	m->constraint = c;
	c->references++;
	return m;
}

void matcher_free(struct matcher *m)
{
	if (!m)
		return;
	constraint_put(m->constraint);
	free(m->allowed);
	free(m);
}

/* Brings the state up to the answer's end, the lock held: by its newest token, or from its beginning where the state
 * was forgotten. False: it can't be followed. */
static bool follow(struct matcher *m, const uint32_t *answer, uint32_t n)
{
	struct automaton *a = &m->constraint->automaton;
	bool known = m->state && m->age == a->age;
	m->state = automaton_begin(a, known ? m->state : 0);
	if (!known) {
		m->state = automaton_start(a);
		m->n_read = 0;
	}
	while (m->state > AUTOMATON_DEAD && m->n_read < n) {
		uint32_t n_bytes;
		const char *piece = pieces_bytes(a->pieces, answer[m->n_read], &n_bytes);
		m->state = automaton_step(a, m->state, piece, n_bytes);
		m->state = automaton_begin(a, m->state);
		m->n_read++;
	}
	m->age = a->age;
	return m->state > AUTOMATON_DEAD;
}

static bool is_empty(const uint64_t *bits, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (bits[i])
			return false;
	return true;
}

static const char *copy_allowed(struct matcher *m, const uint32_t *answer, uint32_t n)
{
	struct automaton *a = &m->constraint->automaton;
	if (!follow(m, answer, n))
		return too_many_readings;
	const uint64_t *mask = automaton_mask(a, m->state);
	if (!mask)
		return too_many_readings;
	uint32_t n_words = (a->n_tokens + 63) / 64;
	memcpy(m->allowed, mask, n_words * sizeof *mask);
	if (automaton_accepts(a, m->state))
		for (uint32_t i = 0; i < a->pieces->n_ends; i++)
			if (a->pieces->ends[i] < a->n_tokens)
				m->allowed[a->pieces->ends[i] / 64] |= 1ull << (a->pieces->ends[i] % 64);
	return is_empty(m->allowed, n_words) ? "no token of the model's vocabulary continues the answer as the grammar "
					       "demands: nested too deeply, or bytes the vocabulary lacks"
					     : NULL;
}

const uint64_t *matcher_allowed(struct matcher *m, const uint32_t *answer, uint32_t n, const char **fault)
{
	pthread_mutex_lock(&m->constraint->lock);
	const char *why = copy_allowed(m, answer, n);
	pthread_mutex_unlock(&m->constraint->lock);
	if (!why)
		return m->allowed;
	*fault = why;
	return NULL;
}

bool matcher_is_over(struct matcher *m, const uint32_t *answer, uint32_t n)
{
	struct automaton *a = &m->constraint->automaton;
	pthread_mutex_lock(&m->constraint->lock);
	bool over = follow(m, answer, n) && automaton_accepts(a, m->state) && !automaton_goes_on(a, m->state);
	pthread_mutex_unlock(&m->constraint->lock);
	return over;
}
