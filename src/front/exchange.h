/* One request that is being answered with the help of workers: its connection, its calls and the answer so far. */
#ifndef WEIGHTD_SRC_FRONT_EXCHANGE_H
#define WEIGHTD_SRC_FRONT_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "src/api/answer.h"
#include "src/api/error.h"
#include "src/front/answerer.h"
#include "src/front/call.h"
#include "src/record.h"
#include "src/front/metrics.h"

struct connection;
struct front;
struct fleet_model;

struct exchange {
	struct answerer answerer;      /* the connection's; first, so that a pointer to it is one to the exchange */
	struct front *front;	       /* borrows */
	struct connection *connection; /* borrows; its answerer is this exchange */
	struct fleet_model *model;     /* borrows from the fleet */
	struct front_adapter *adapter; /* held, as by each of its calls; NULL: the model alone */
	enum front_route route;
	struct api_answer answer;
	struct front_call **calls; /* [answer.n_choices] NULL before they are made and once ended; owned list */
	uint32_t n_open, n_made;
	struct api_request *rest; /* of which calls are still to be made; owned, NULL: all are */
	uint64_t prompt_tokens;	  /* of the calls accepted so far */
	uint64_t started_ns;
	bool head_sent; /* of a stream: from here on an error can only be an event */
	bool first_token_seen;
};

/* Starts what a checked request asks for: finds model and workers, bounds the queue, makes the calls; of many texts to
 * be embedded some, and the others as those end. May take the request (which is zeroed then). -1: not started, and
 * `error` says why. */
int exchange_start(struct front *front, struct connection *connection, enum front_route route,
		   struct api_request *request, uint64_t started_ns, struct api_error *error);
/* The model of that name, or without a name (bytes NULL) the first that could be loaded. NULL: `error` says why; one
 * whose workers are all away just now is one that exists: 503, not 404. */
struct fleet_model *exchange_find_model(struct front *front, const struct api_text *name, struct api_error *error);
/* The client is gone: cancels all calls. */
void exchange_abandon(struct exchange *exchange);

/* What workers say of a call that still has its exchange. After _done, _failed, and when something goes wrong, the
 * exchange may be gone. */
void exchange_accepted(struct front_call *call, const struct call_accepted *accepted);
void exchange_token(struct front_call *call, const struct record_token *token);
int exchange_result(struct front_call *call, const void *bytes, size_t n_bytes); /* -EPROTO */
void exchange_done(struct front_call *call, const struct record_done *done);
void exchange_failed(struct front_call *call, const struct api_error *error);

#endif
