/* What the parent says of each NUMA node (src/parent/parent_figures.c), in /metrics: the weights that belong on it, and
 * what the kernel counts of it. */
#ifndef WEIGHTD_SRC_FRONT_METRICS_NODES_H
#define WEIGHTD_SRC_FRONT_METRICS_NODES_H

#include "src/api/json.h"
#include "src/message.h"

void metrics_nodes_write(const struct message_figures *figures, uint64_t now_ns, struct api_json *out);

#endif
