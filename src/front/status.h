/* What the front answers from its own knowledge: models, health, metrics. */
#ifndef WEIGHTD_SRC_FRONT_STATUS_H
#define WEIGHTD_SRC_FRONT_STATUS_H

#include "src/front/metrics.h"

struct api_json;
struct connection;
struct front;

void status_models(struct front *front, struct connection *connection, enum front_route route);
/* One model or adapter. */
void status_model(struct front *front, struct connection *connection, enum front_route route, const char *name);
/* `name` as it stands in the path, percent-encoded. */
void status_model_path(struct front *front, struct connection *connection, const char *name);
/* 200 only when every configured model is served by an engine that makes progress. */
void status_health(struct front *front, struct connection *connection, enum front_route route);
/* The same as one object, into another answer. Returns its HTTP status. */
int status_write_health(struct front *front, struct api_json *out);
void status_metrics(struct front *front, struct connection *connection, enum front_route route);

#endif
