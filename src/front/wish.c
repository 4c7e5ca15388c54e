#include "src/front/wish.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/front/front.h"
#include "src/front/answerer.h"
#include "src/front/reply.h"
#include "src/front/status.h"

struct wish {
	struct answerer answerer; /* the connection's; first, so that a pointer to it is one to the wish */
	struct wish *next;	  /* of the front's list */
	struct front *front;	  /* borrows */
	struct connection *connection;
	enum front_route route;
	uint64_t ticket;
	bool loads;
	char name[128];
};

static void forget(struct wish *wish)
{
	struct wish **at = &wish->front->wishes;
	while (*at != wish)
		at = &(*at)->next;
	*at = wish->next;
	free(wish);
}

static void on_gone(struct answerer *answerer)
{
	struct wish *wish = (struct wish *)answerer;
	wish->front->metrics.clients_gone++;
	connection_set_answerer(wish->connection, NULL);
	forget(wish);
}

/* A text that has to fit its place in a message to the parent. */
static int put(char *out, size_t size, const char *field, const struct api_text *text, struct api_error *error)
{
	if (text->n_bytes >= size || (text->bytes && strlen(text->bytes) != text->n_bytes))
		return api_error_set(error, 400, "invalid_value", field, "'%s' may have %zu bytes and no NUL", field,
				     size - 1);
	if (text->bytes)
		memcpy(out, text->bytes, text->n_bytes);
	return 0;
}

int wish_start(struct front *front, struct connection *connection, enum front_route route,
	       const struct api_request *request, struct api_error *error)
{
	struct message_adapter_request ask;
	memset(&ask, 0, sizeof ask);
	ask.wish = request->endpoint == API_LOAD_ADAPTER ? ADAPTER_LOAD : ADAPTER_UNLOAD;
	ask.replace = request->load_inplace;
	ask.ticket = ++front->last_ticket;
	if (put(ask.name, sizeof ask.name, "lora_name", &request->lora_name, error) ||
	    put(ask.path, sizeof ask.path, "lora_path", &request->lora_path, error) ||
	    put(ask.model, sizeof ask.model, "base_model_name", &request->base_model, error))
		return -1;
	if (!front->order.http_adapters)
		return api_error_set(
			error, 403, "adapters_not_allowed", NULL,
			"adapters are loaded and unloaded over HTTP only where the key adapter_dir is set; "
			"weightctl adapter does it for the operator");
	struct wish *wish = calloc(1, sizeof *wish);
	if (!wish)
		return api_error_set(error, 500, NULL, NULL, "out of memory");
	int rc = message_send(MESSAGE_FD, MESSAGE_ADAPTER_REQUEST, &ask, sizeof ask, NULL, 0);
	if (rc) {
		free(wish);
		return api_error_set(error, 503, NULL, NULL, "the parent can't be asked: %s", strerror(-rc));
	}
	*wish = (struct wish){.answerer.gone = on_gone,
			      .next = front->wishes,
			      .front = front,
			      .connection = connection,
			      .route = route,
			      .ticket = ask.ticket,
			      .loads = ask.wish == ADAPTER_LOAD};
	memcpy(wish->name, ask.name, sizeof wish->name);
	front->wishes = wish;
	connection_set_answerer(connection, &wish->answerer);
	return 0;
}

/* The model's entry, as in the list of models; or that there is none of this name any more. */
static void grant(struct front *front, struct wish *wish)
{
	struct api_json *out = &front->scratch;
	if (wish->loads) {
		status_model(front, wish->connection, wish->route, wish->name);
		return;
	}
	api_json_reset(out);
	api_json_text(out, "{\"id\":");
	api_json_string(out, wish->name, strlen(wish->name));
	api_json_text(out, ",\"object\":\"model\",\"deleted\":true}");
	reply(front, wish->connection, wish->route, 200, NULL, out);
}

void wish_answered(struct front *front, const struct message_adapter_answer *answer)
{
	struct api_error error;
	struct wish *wish = front->wishes;
	while (wish && wish->ticket != answer->ticket)
		wish = wish->next;
	if (!wish)
		return;
	connection_set_answerer(wish->connection, NULL);
	if (answer->status == 200) {
		grant(front, wish);
	} else {
		api_error_set(&error, (int)answer->status, NULL, NULL, "%.*s", (int)sizeof answer->text, answer->text);
		snprintf(error.code, sizeof error.code, "%.*s", (int)sizeof answer->code, answer->code);
		snprintf(error.param, sizeof error.param, "%.*s", (int)sizeof answer->param, answer->param);
		reply_error(front, wish->connection, wish->route, &error);
	}
	forget(wish);
}

void wish_fini(struct front *front)
{
	while (front->wishes) {
		connection_set_answerer(front->wishes->connection, NULL);
		forget(front->wishes);
	}
}
