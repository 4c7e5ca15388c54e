/* Answers that are made at once: counted, and errors in OpenAI's form with the headers their status asks for. */
#ifndef WEIGHTD_SRC_FRONT_REPLY_H
#define WEIGHTD_SRC_FRONT_REPLY_H

#include <stdbool.h>

#include "src/api/error.h"
#include "src/front/metrics.h"

struct connection;
struct front;
struct http_request;

/* `content_type` NULL: JSON. `body` may be front->scratch; one that ran out of memory becomes a 500. */
void reply(struct front *front, struct connection *connection, enum front_route route, int status,
	   const char *content_type, const struct api_json *body);
void reply_error(struct front *front, struct connection *connection, enum front_route route,
		 const struct api_error *error);
/* A browser asks whether a page may call: 204, or 403. */
void reply_preflight(struct front *front, struct connection *connection, const struct http_request *request);
/* A 401. */
void reply_unauthorized(struct front *front, struct connection *connection, enum front_route route, bool shown);
/* A 405: `allow` is the method that would do. */
void reply_wrong_method(struct front *front, struct connection *connection, enum front_route route, const char *allow);

#endif
