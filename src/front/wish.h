/* Clients' wishes to load and to unload adapters: handed to the parent, which answers every one
 * (src/parent/parent_adapters.c). Until then the connection waits. A client that goes away takes its wait with it, not
 * the load. */
#ifndef WEIGHTD_SRC_FRONT_WISH_H
#define WEIGHTD_SRC_FRONT_WISH_H

#include "src/api/request.h"
#include "src/front/metrics.h"
#include "src/message.h"

struct connection;
struct front;
struct wish;

/* Hands on a checked request. -1: `error` says why not. */
int wish_start(struct front *front, struct connection *connection, enum front_route route,
	       const struct api_request *request, struct api_error *error);
/* The parent's answer. One that nobody waits for is passed over. */
void wish_answered(struct front *front, const struct message_adapter_answer *answer);
/* At the end: lets go of all. */
void wish_fini(struct front *front);

#endif
