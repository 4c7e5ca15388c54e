/* Which path does what. */
#ifndef WEIGHTD_SRC_FRONT_ROUTE_H
#define WEIGHTD_SRC_FRONT_ROUTE_H

#include "io/http.h"

struct connection;
struct front;

/* Callbacks of struct connection_handler. */
void route_head(struct connection *connection, const struct http_request *request);
void route_request(struct connection *connection, const struct http_request *request);
void route_refused(struct connection *connection, int status, const char *reason);

#endif
