/* The parts of a worker's engine, from a tokenizer to a scheduler, made in one order by one set of calls: for a worker
 * that serves, and for a process that looks at what such parts cost (src/worker/worker_needs.h). */
#ifndef WEIGHTD_WORKER_ENGINE_H
#define WEIGHTD_WORKER_ENGINE_H

#include "src/engine/grammar/constraints.h"
#include "src/engine/scheduler.h"
#include "src/engine/tokenizer.h"
#include "src/message.h"
#include "src/worker/worker_dialect.h"

struct worker_engine {
	const struct model *model; /* borrows */
	struct tokenizer *tokenizer;
	struct dialect dialect; /* how the model writes tool calls and reasoning */
	struct gemm *gemm;
	struct arena arena;
	struct kv kv;
	struct forward_setup forward_setup;
	struct forward *forward;
	struct constraints *constraints; /* what answers have to look like */
	struct scheduler_setup scheduler_setup;
	struct scheduler *scheduler;
};

/* The tokens that a call may have by the settings and the model. */
uint32_t worker_engine_context(const struct message_work *order, const struct model *model);

/* Reads what `model` (borrowed) says of texts. On failure what was made is for worker_engine_fini, as below. */
int worker_engine_attach(struct worker_engine *engine, const struct message_work *order, const struct model *model,
			 struct err *err);

/* Makes the rest, which `team` (borrowed) computes with; `copies` as in struct forward_setup. -ENOTSUP: this CPU has no
 * such kernels; -EINVAL: not even a page of keys and values fits into the order's kv_bytes; -ENOMEM. */
int worker_engine_make(struct worker_engine *engine, const struct message_work *order,
		       const struct model *const *copies, struct team *team, struct scheduler_sink sink,
		       struct err *err);

/* Frees all that was made but the team and the model. NULL in the place of a part that somebody else has freed. */
void worker_engine_fini(struct worker_engine *engine);

#endif
