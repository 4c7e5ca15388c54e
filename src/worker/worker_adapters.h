/* A worker's adapters: segments attached beside the model's, by the id that the parent gave them. One that is dropped
 * is mapped until the last call that holds it has ended (src/engine/adapter.h). */
#ifndef WEIGHTD_WORKER_ADAPTERS_H
#define WEIGHTD_WORKER_ADAPTERS_H

#include <stdbool.h>

#include "src/engine/adapter.h"

struct worker_adapters {
	struct worker_adapter *first; /* list, owned */
};

/* Attaches the segment behind `fd` (borrowed) over `base`; `lock`: into memory, too, if the limit allows. -EINVAL says
 * what does not fit, -EEXIST: the id is known, -ENOMEM. */
int worker_adapters_attach(struct worker_adapters *adapters, const struct model *base, uint32_t id, int fd, bool lock,
			   struct err *err);
/* An unknown id is none to drop. */
void worker_adapters_drop(struct worker_adapters *adapters, uint32_t id);
/* View; NULL: none. */
struct adapter *worker_adapters_find(const struct worker_adapters *adapters, uint32_t id);
void worker_adapters_fini(struct worker_adapters *adapters);

#endif
