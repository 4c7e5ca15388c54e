#include "src/front/reply.h"

#include <stdio.h>

#include "src/front/front.h"

static const char json_type[] = "application/json";

/* A client that is told to come back is also told when. */
static const char *retry(int status)
{
	return status == 429 || status == 503 ? "Retry-After: 1\r\n" : "";
}

static void send_error(struct front *front, struct connection *connection, enum front_route route,
		       const struct api_error *error, const char *extra)
{
	struct api_json *out = &front->scratch;
	api_json_reset(out);
	api_error_write(error, out);
	metrics_request(front, route, error->status);
	/* Without memory for the words, the status alone still says it. What a client that went away does not get,
	 * `gone` reports; so the result is not looked at here nor below. */
	connection_answer(connection, error->status, json_type, out->bytes, out->failed ? 0 : out->n, extra);
	if (out->failed)
		api_json_fini(out);
}

void reply_error(struct front *front, struct connection *connection, enum front_route route,
		 const struct api_error *error)
{
	send_error(front, connection, route, error, retry(error->status));
}

void reply_unauthorized(struct front *front, struct connection *connection, enum front_route route, bool shown)
{
	struct api_error error;
	api_error_set(&error, 401, "invalid_api_key", NULL, "%s",
		      shown ? "the key in Authorization is none of this server's"
			    : "this server wants a key: Authorization: Bearer KEY");
	send_error(front, connection, route, &error, "WWW-Authenticate: Bearer\r\n");
}

void reply_preflight(struct front *front, struct connection *connection, const struct http_request *request)
{
	char extra[CORS_PREFLIGHT_BYTES];
	struct api_error error;
	if (!cors_allows(&front->cors, request->origin)) {
		api_error_set(&error, 403, "origin_not_allowed", NULL,
			      "pages of the origin '%.120s' may not call here (cors_origins)", request->origin);
		reply_error(front, connection, ROUTE_OTHER, &error);
		return;
	}
	metrics_request(front, ROUTE_OTHER, 204);
	connection_answer(connection, 204, NULL, "", 0, cors_preflight(request, extra));
}

void reply_wrong_method(struct front *front, struct connection *connection, enum front_route route, const char *allow)
{
	struct api_error error;
	char extra[64];
	api_error_set(&error, 405, "method_not_allowed", NULL, "this path wants the method %s", allow);
	snprintf(extra, sizeof extra, "Allow: %s\r\n", allow);
	send_error(front, connection, route, &error, extra);
}

void reply(struct front *front, struct connection *connection, enum front_route route, int status,
	   const char *content_type, const struct api_json *body)
{
	if (body->failed) {
		struct api_error error;
		api_error_set(&error, 500, NULL, NULL, "out of memory");
		api_json_fini(&front->scratch);
		reply_error(front, connection, route, &error);
		return;
	}
	metrics_request(front, route, status);
	connection_answer(connection, status, content_type ? content_type : json_type, body->bytes, body->n,
			  retry(status));
}
