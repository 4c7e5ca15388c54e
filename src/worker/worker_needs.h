/* What a worker of a model takes, without having the model: its parts are made over an image without weights
 * (model_outline) in the same order and by the same calls as in a worker, so that what they cost can be looked at. */
#ifndef WEIGHTD_WORKER_NEEDS_H
#define WEIGHTD_WORKER_NEEDS_H

#include "src/message.h"

struct worker_needs {
	uint32_t context_tokens; /* that a call may have */
	uint32_t kv_page_tokens;
	uint64_t kv_page_bytes;		/* of call memory, for so many tokens of a call */
	uint64_t scratch_bytes;		/* while a prompt and one answer are computed */
	uint64_t further_scratch_bytes; /* for each further answer */
};

/* Makes them and leaves them there, idle: for a process that looks at its own memory before and after, and ends. Of the
 * order that a worker would get, n_threads takes the place of CPUs, and kv_bytes does not count. */
int worker_needs_make(const struct message_work *order, unsigned n_threads, const void *image, uint64_t bytes,
		      struct worker_needs *out, struct err *err);

#endif
