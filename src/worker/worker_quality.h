/* What numerics cost: a worker predicts every token of a text as it serves, prompt path and answer path, and in
 * float32, and says how far the distributions lie apart. */
#ifndef WEIGHTD_WORKER_QUALITY_H
#define WEIGHTD_WORKER_QUALITY_H

#include "src/engine/forward.h"
#include "src/message.h"

/* `own` is what the worker's `forward` was made of; its scheduler must be idle. *progress
 * grows (forward_watch). Faults go to out->err. */
void worker_quality(const struct forward_setup *own, struct forward *forward, uint64_t *progress,
		    const struct message_quality *order, struct message_judged *out);

#endif
