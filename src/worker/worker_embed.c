#include "src/worker/worker_embed.h"

#include <errno.h>

int worker_embed(const struct call_begin *begin, enum pooling_kind kind, uint32_t dim, struct generation *g,
		 struct err *err)
{
	uint32_t n = begin->dimensions ? begin->dimensions : dim;
	if (n > dim)
		return err_set(err, -EINVAL, "'dimensions' is %u; this model's vectors have %u", n, dim);
	g->pooling = pooling_new(kind, dim, n, g->n_prompt);
	return g->pooling ? 0 : err_set(err, -ENOMEM, "out of memory");
}
