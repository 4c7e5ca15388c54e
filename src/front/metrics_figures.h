/* What the parent measures (src/parent/parent_figures.c), in /metrics. */
#ifndef WEIGHTD_SRC_FRONT_METRICS_FIGURES_H
#define WEIGHTD_SRC_FRONT_METRICS_FIGURES_H

#include <stdbool.h>

#include "src/api/json.h"
#include "src/message.h"

/* Its counts are within its arrays. */
bool metrics_figures_valid(const struct message_figures *figures);
void metrics_figures_write(const struct message_figures *figures, uint64_t now_ns, struct api_json *out);

#endif
