/* Adopting a model: from what an earlier daemon left to one copy on each node, without a look at the model's file. The
 * loader role is this and messages. */
#ifndef WEIGHTD_ADOPT_H
#define WEIGHTD_ADOPT_H

#include "src/load/load.h"

struct adopt_candidate {
	int fd;			       /* read-only; owned; -1 once it was adopted */
	char name[SEGMENT_NAME_BYTES]; /* "": it has none */
	unsigned node;
	uint32_t generation;
	struct err refusal; /* why it is not adopted; "" if it is */
};

/* Checks all candidates [n], those of different nodes at the same time, each by a thread on its node. If any copy is
 * good, the model is adopted: nodes without one get it by memory. Named candidates that are not adopted are removed,
 * and all of them have a `refusal`. On failure (-ENOENT: none is good; else what made the missing copies fail) nothing
 * is left of any candidate. */
int model_adopt(const struct message_adopt *order, struct adopt_candidate *candidates, uint32_t n, struct loaded *out,
		struct err *err);

#endif
