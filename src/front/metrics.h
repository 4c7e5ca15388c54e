/* What the front counts, and /metrics in Prometheus' text format, version 0.0.4. */
#ifndef WEIGHTD_SRC_FRONT_METRICS_H
#define WEIGHTD_SRC_FRONT_METRICS_H

#include <stdint.h>

#include "src/api/json.h"

struct front;

enum front_route {
	ROUTE_CHAT,
	ROUTE_COMPLETIONS,
	ROUTE_EMBEDDINGS,
	ROUTE_RESPONSES,
	ROUTE_TRANSCRIPTIONS,
	ROUTE_TRANSLATIONS,
	ROUTE_TOKENIZE,
	ROUTE_DETOKENIZE,
	ROUTE_TEMPLATE,
	ROUTE_LOAD_ADAPTER,
	ROUTE_UNLOAD_ADAPTER,
	ROUTE_MODELS,
	ROUTE_MODEL,
	ROUTE_STATUS,
	ROUTE_DASHBOARD,
	ROUTE_HEALTH,
	ROUTE_METRICS,
	ROUTE_OTHER, /* no such path, or not HTTP */
	N_ROUTES
};

enum { METRICS_CODES = 24 };

struct front_metrics {
	uint64_t requests[N_ROUTES][METRICS_CODES];
	uint64_t stream_errors; /* answers that ended with an error event, after a 200 */
	uint64_t clients_gone;	/* before their answer ended */
	uint64_t queue_full;	/* requests refused because max_queue was reached */
};

void metrics_request(struct front *front, enum front_route route, int status);
void metrics_write(struct front *front, struct api_json *out);

#endif
