/* One vector of a whole text: what is made of its tokens' hidden states (behind the output norm).
 *
 * The states come in the order of their positions, in chunks of whatever length, and only their sum is kept. It is
 * taken in double precision, one position after the other, so that chunks, company and threads cannot be seen in it. A
 * text whose pages are taken away is computed again from its beginning; states that were counted come again with the
 * same bits, and are not asked for. */
#ifndef WEIGHTD_ENGINE_POOLING_H
#define WEIGHTD_ENGINE_POOLING_H

#include <stdbool.h>
#include <stdint.h>

enum pooling_kind {
	POOLING_MEAN, /* of all positions */
	POOLING_LAST, /* the last position's state: it has seen all others */
	POOLING_CLS,  /* the first position's */
	N_POOLINGS
};

struct pooling {
	enum pooling_kind kind;
	uint32_t dim, n_vector; /* components of a state, and of the vector: that many of the first */
	uint32_t n_tokens;	/* of the text */
	uint32_t n_passed;	/* positions that are dealt with */
	float *vector;		/* [n_vector] in the same allocation */
	double sum[];		/* [dim] */
};

/* A vector of the first n_vector components, 1..dim. Returns owned (free), or NULL. */
struct pooling *pooling_new(enum pooling_kind kind, uint32_t dim, uint32_t n_vector, uint32_t n_tokens);

/* Whether the state of a position is still wanted. */
bool pooling_wants(const struct pooling *pooling, uint32_t position);
/* The state [dim] of a position that is wanted, in order. */
void pooling_add(struct pooling *pooling, uint32_t position, const float *state);

/* Once all positions came: the vector, brought to length 1; one of zeros stays as it is. Returns view [n_vector], or
 * NULL: the states are not finite. */
const float *pooling_finish(struct pooling *pooling);

#endif
