/* GET /v1/status: one look at everything, for a person's page: models, nodes and their copies, workers, queues. Made of
 * what the parent tells once a second (struct message_figures, struct message_overview) and of what the front counts.
 */
#ifndef WEIGHTD_SRC_FRONT_OVERVIEW_H
#define WEIGHTD_SRC_FRONT_OVERVIEW_H

#include <stdbool.h>

#include "src/front/metrics.h"
#include "src/message.h"

struct connection;
struct front;

/* Every number in it that is an index is one. */
bool overview_valid(const struct message_overview *overview);

void overview_answer(struct front *front, struct connection *connection, enum front_route route);

#endif
