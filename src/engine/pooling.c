#include "src/engine/pooling.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

struct pooling *pooling_new(enum pooling_kind kind, uint32_t dim, uint32_t n_vector, uint32_t n_tokens)
{
	assert(n_vector >= 1 && n_vector <= dim);
	struct pooling *p = calloc(1, sizeof *p + dim * sizeof p->sum[0] + n_vector * sizeof p->vector[0]);
	if (!p)
		return NULL;
	*p = (struct pooling){.kind = kind, .dim = dim, .n_vector = n_vector, .n_tokens = n_tokens};
	p->vector = (float *)(p->sum + dim);
	return p;
}

bool pooling_wants(const struct pooling *p, uint32_t position)
{
	if (position < p->n_passed)
		return false;
	return p->kind == POOLING_MEAN || position == (p->kind == POOLING_LAST ? p->n_tokens - 1 : 0);
}

void pooling_add(struct pooling *p, uint32_t position, const float *state)
{
	assert(pooling_wants(p, position));
	for (uint32_t i = 0; i < p->dim; i++)
		p->sum[i] += (double)state[i];
	p->n_passed = position + 1;
}

/* The number of states in the sum divides itself out: what is left of a vector is its direction. */
const float *pooling_finish(struct pooling *p)
{
	double square = 0;
	for (uint32_t i = 0; i < p->n_vector; i++)
		square += p->sum[i] * p->sum[i];
	double length = sqrt(square);
	for (uint32_t i = 0; i < p->n_vector; i++)
		p->vector[i] = length > 0 ? (float)(p->sum[i] / length) : 0;
	return isfinite(square) ? p->vector : NULL;
}
