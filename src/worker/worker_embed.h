/* Calls that want their text's vector: from the call's head into its generation. */
#ifndef WEIGHTD_WORKER_EMBED_H
#define WEIGHTD_WORKER_EMBED_H

#include <stdbool.h>

#include "src/call.h"
#include "src/engine/generation.h"

static inline bool worker_embeds(const struct call_begin *begin)
{
	return begin->kind == CALL_KIND_EMBED || begin->kind == CALL_KIND_EMBED_IDS;
}

/* Gives the generation its pooling, over states of `dim` components. -EINVAL: the client wants more dimensions than
 * there are; -ENOMEM. */
int worker_embed(const struct call_begin *begin, enum pooling_kind kind, uint32_t dim, struct generation *generation,
		 struct err *err);

#endif
