/* What a call demands of its answer: biases and a constraint, from the call's bytes into its generation. */
#ifndef WEIGHTD_WORKER_DEMAND_H
#define WEIGHTD_WORKER_DEMAND_H

#include <stdbool.h>

#include "src/call.h"
#include "src/engine/generation.h"
#include "src/engine/grammar/constraints.h"
#include "src/worker/worker_dialect.h"

/* Ranges of the head. */
bool worker_demand_ok(const struct call_begin *begin);
/* The length of its bytes. */
uint64_t worker_demand_bytes(const struct call_begin *begin);

/* `bytes`: the constraint's source, then the biases. `reasoning`: what the answer begins with. On failure *field is the
 * request field at fault. -EINVAL, -E2BIG: the client's; -ENOMEM. */
int worker_demand(struct constraints *constraints, const struct dialect *dialect, const struct call_begin *begin,
		  const char *bytes, uint32_t vocab, enum call_reasoning reasoning, struct generation *generation,
		  const char **field, struct err *err);

#endif
