/* What a worker measures of itself on request: passes of its own scheduler and engine over its own copy of the weights,
 * and the limits that it compares with, by the same threads in the same moment. */
#ifndef WEIGHTD_WORKER_BENCH_H
#define WEIGHTD_WORKER_BENCH_H

#include "src/engine/scheduler.h"
#include "src/message.h"

/* Measures once; takes as long as it takes. `setup` is the worker's own, of which the sink is not used; its scheduler
 * must be idle. Faults go to out->err. */
void worker_bench(const struct scheduler_setup *setup, const struct gemm *gemm, const struct message_bench *order,
		  struct message_benched *out);

#endif
