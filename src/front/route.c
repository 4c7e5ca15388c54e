#include "src/front/route.h"

#include <string.h>

#include "src/api/request.h"
#include "src/clock.h"
#include "src/front/front.h"
#include "src/front/dashboard.h"
#include "src/front/exchange.h"
#include "src/front/overview.h"
#include "src/front/reply.h"
#include "src/front/speech.h"
#include "src/front/status.h"
#include "src/front/wish.h"

struct path {
	const char *path;
	enum front_route route;
	enum api_endpoint
		endpoint; /* POST, answered by workers or the parent; 0: a form, or GET, answered here by ... */
	void (*get)(struct front *front, struct connection *connection, enum front_route route);
};

static const struct path paths[] = {
	{"/v1/chat/completions", ROUTE_CHAT, API_CHAT, NULL},
	{"/v1/completions", ROUTE_COMPLETIONS, API_COMPLETION, NULL},
	{"/v1/responses", ROUTE_RESPONSES, API_RESPONSE, NULL},
	{"/v1/embeddings", ROUTE_EMBEDDINGS, API_EMBEDDING, NULL},
	{"/v1/audio/transcriptions", ROUTE_TRANSCRIPTIONS, 0, NULL}, /* forms: route_head takes them */
	{"/v1/audio/translations", ROUTE_TRANSLATIONS, 0, NULL},
	{"/tokenize", ROUTE_TOKENIZE, API_TOKENIZE, NULL},
	{"/detokenize", ROUTE_DETOKENIZE, API_DETOKENIZE, NULL},
	{"/apply-template", ROUTE_TEMPLATE, API_TEMPLATE, NULL},
	{"/v1/load_lora_adapter", ROUTE_LOAD_ADAPTER, API_LOAD_ADAPTER, NULL},
	{"/v1/unload_lora_adapter", ROUTE_UNLOAD_ADAPTER, API_UNLOAD_ADAPTER, NULL},
	{"/v1/models", ROUTE_MODELS, 0, status_models},
	{"/v1/status", ROUTE_STATUS, 0, overview_answer},
	{"/health", ROUTE_HEALTH, 0, status_health},
	{"/metrics", ROUTE_METRICS, 0, status_metrics},
};

static const char model_prefix[] = "/v1/models/";

static void post(struct front *front, struct connection *connection, const struct path *path,
		 const struct http_request *http)
{
	struct api_request request;
	struct api_error error;
	uint64_t started_ns = clock_now_ns();
	/* The request is a view into the body, and needed no longer than it takes to make the calls. */
	int rc = api_request_read(&request, path->endpoint, http->body, http->body_bytes, &error);
	if (!rc && path->endpoint & (API_LOAD_ADAPTER | API_UNLOAD_ADAPTER))
		rc = wish_start(front, connection, path->route, &request, &error);
	else if (!rc)
		rc = exchange_start(front, connection, path->route, &request, started_ns, &error);
	api_request_fini(&request);
	if (rc)
		reply_error(front, connection, path->route, &error);
}

static bool is_form(const struct path *path)
{
	return path->route == ROUTE_TRANSCRIPTIONS || path->route == ROUTE_TRANSLATIONS;
}

static bool is_get(const struct http_request *http)
{
	return strcmp(http->method, "GET") == 0 || strcmp(http->method, "HEAD") == 0;
}

/* A form of no bytes: it has come whole, and without a head before it. */
static void refuse_form(struct front *front, struct connection *connection, const struct path *path)
{
	struct api_error error;
	api_error_set(&error, 400, "missing_field", "file",
		      "the body must be a form (multipart/form-data) with a 'file'");
	reply_error(front, connection, path->route, &error);
}

static void follow(struct front *front, struct connection *connection, const struct path *path,
		   const struct http_request *http)
{
	bool is_post = strcmp(http->method, "POST") == 0;
	if (path->endpoint && is_post)
		post(front, connection, path, http);
	else if (is_form(path) && is_post)
		refuse_form(front, connection, path);
	else if (path->get && is_get(http))
		path->get(front, connection, path->route);
	else
		reply_wrong_method(front, connection, path->route, path->get ? "GET, HEAD" : "POST");
}

static const struct path *find_path(const char *path)
{
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
		if (strcmp(path, paths[i].path) == 0)
			return &paths[i];
	return NULL;
}

/* Answers what needs a key and shows none. */
static bool turn_away(struct front *front, struct connection *connection, const struct http_request *http)
{
	/* Whoever watches the service needs no key to see that it lives. */
	if (!front->keys.n || strcmp(http->path, "/health") == 0 || keys_admit(&front->keys, http->authorization))
		return false;
	reply_unauthorized(front, connection, ROUTE_OTHER, http->authorization[0]);
	return true;
}

void route_head(struct connection *connection, const struct http_request *http)
{
	struct front *front = connection_owner(connection);
	const struct path *path = find_path(http->path);
	if (!path || !is_form(path) || strcmp(http->method, "POST") != 0)
		return;
	connection_stream(connection, front->order.max_audio_bytes + SPEECH_FORM_BYTES);
	connection_set_lines(connection, cors_lines(&front->cors, http->origin));
	if (!turn_away(front, connection, http))
		speech_start(front, connection, path->route, http);
}

void route_request(struct connection *connection, const struct http_request *http)
{
	struct front *front = connection_owner(connection);
	struct api_error error;
	connection_set_lines(connection, cors_lines(&front->cors, http->origin));
	if (cors_is_preflight(&front->cors, http)) { /* browsers show no key when they ask this */
		reply_preflight(front, connection, http);
		return;
	}
	/* The page holds nothing of this server, and asks for the key that its own requests need. */
	if (front->order.dashboard && strcmp(http->path, "/") == 0) {
		if (is_get(http))
			dashboard_answer(front, connection, http);
		else
			reply_wrong_method(front, connection, ROUTE_DASHBOARD, "GET, HEAD");
		return;
	}
	if (turn_away(front, connection, http))
		return;
	const struct path *path = find_path(http->path);
	if (path) {
		follow(front, connection, path, http);
		return;
	}
	if (strncmp(http->path, model_prefix, sizeof model_prefix - 1) == 0) {
		if (is_get(http))
			status_model_path(front, connection, http->path + sizeof model_prefix - 1);
		else
			reply_wrong_method(front, connection, ROUTE_MODEL, "GET, HEAD");
		return;
	}
	api_error_set(&error, 404, "not_found", NULL, "there is no path '%.200s'", http->path);
	reply_error(front, connection, ROUTE_OTHER, &error);
}

void route_refused(struct connection *connection, int status, const char *reason)
{
	struct front *front = connection_owner(connection);
	struct api_error error;
	connection_set_lines(connection, cors_lines(&front->cors, connection_origin(connection)));
	api_error_set(&error, status, NULL, NULL, "%s", reason);
	if (connection_answerer(connection)) { /* the body of a form, which is the only one that is streamed */
		speech_refused(connection, &error);
		return;
	}
	reply_error(front, connection, ROUTE_OTHER, &error);
}
