/* The same figures under the names of llama-server (llamacpp:...) and of vLLM (vllm:...), for dashboards and scalers
 * made for those. */
#ifndef WEIGHTD_SRC_FRONT_METRICS_ALIASES_H
#define WEIGHTD_SRC_FRONT_METRICS_ALIASES_H

#include "src/api/json.h"

struct fleet;

void metrics_aliases_write(struct fleet *fleet, struct api_json *out);

#endif
