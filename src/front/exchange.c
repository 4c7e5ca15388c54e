#include "src/front/exchange.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/api/stream.h"
#include "src/clock.h"
#include "src/front/front.h"
#include "src/front/reply.h"

/* Texts of a request that are embedded at a time: enough to fill passes, and not the queue. */
enum { EMBEDDED_AT_ONCE = 16 };

/* --- the end ---------------------------------------------------------------------------------- */

static void free_rest(struct exchange *exchange)
{
	if (exchange->rest)
		api_request_fini(exchange->rest);
	free(exchange->rest);
	exchange->rest = NULL;
}

/* Lets go of everything; calls that still run are cancelled. The connection goes on without us. */
static void end(struct exchange *exchange)
{
	connection_set_answerer(exchange->connection, NULL);
	for (uint32_t i = 0; i < exchange->answer.n_choices; i++)
		if (exchange->calls[i])
			worker_cancel_call(exchange->calls[i]->worker, exchange->calls[i]);
	free_rest(exchange);
	roster_release(exchange->adapter);
	free(exchange->calls);
	api_answer_fini(&exchange->answer);
	free(exchange);
}

static void observe_duration(struct exchange *exchange)
{
	if (exchange->route == ROUTE_CHAT || exchange->route == ROUTE_COMPLETIONS || exchange->route == ROUTE_RESPONSES)
		metrics_observe(&exchange->model->metrics.duration, METRICS_SECONDS,
				clock_now_ns() - exchange->started_ns);
}

/* Ends the exchange with an error: an HTTP status while that can still be said, an event afterwards. After the event
 * the connection closes, so that no client takes what it got for a whole answer. */
static void fail(struct exchange *exchange, const struct api_error *error)
{
	struct front *front = exchange->front;
	observe_duration(exchange);
	if (exchange->head_sent) {
		front->metrics.stream_errors++;
		api_json_reset(&front->scratch);
		api_stream_error(&exchange->answer, error, &front->scratch);
		if (!front->scratch.failed)
			connection_write(exchange->connection, front->scratch.bytes, front->scratch.n);
		connection_drain(exchange->connection);
		connection_end(exchange->connection);
	} else {
		reply_error(front, exchange->connection, exchange->route, error);
	}
	if (front->scratch.failed)
		api_json_fini(&front->scratch);
	end(exchange);
}

static void fail_for_memory(struct exchange *exchange)
{
	struct api_error error;
	api_json_fini(&exchange->front->scratch); /* what failed is given back, so that the words may find room */
	api_error_set(&error, 500, NULL, NULL, "out of memory");
	fail(exchange, &error);
}

void exchange_abandon(struct exchange *exchange)
{
	exchange->front->metrics.clients_gone++;
	end(exchange);
}

static void on_gone(struct answerer *answerer)
{
	exchange_abandon((struct exchange *)answerer);
}

/* --- a stream --------------------------------------------------------------------------------- */

/* The scratch buffer, empty, for events to come. The head goes out with the first of them: until then a call that fails
 * (a prompt that is too long) is still an HTTP error. */
static struct api_json *events(struct exchange *exchange)
{
	if (!exchange->head_sent) {
		exchange->head_sent = true;
		metrics_request(exchange->front, exchange->route, 200);
		connection_begin(exchange->connection, 200, API_STREAM_TYPE, "Cache-Control: no-store\r\n");
	}
	api_json_reset(&exchange->front->scratch);
	return &exchange->front->scratch;
}

/* Sends the events written to the scratch buffer. False: that failed, and the exchange is gone. */
static bool send_events(struct exchange *exchange)
{
	const struct api_json *scratch = &exchange->front->scratch;
	if (scratch->failed) {
		fail_for_memory(exchange);
		return false;
	}
	connection_write(exchange->connection, scratch->bytes, scratch->n);
	connection_flush(exchange->connection);
	return true;
}

void exchange_accepted(struct front_call *call, const struct call_accepted *accepted)
{
	struct exchange *exchange = call->exchange;
	api_answer_accepted(&exchange->answer, call->index, accepted);
	exchange->prompt_tokens += accepted->prompt_tokens;
	if (exchange->answer.endpoint == API_EMBEDDING && exchange->prompt_tokens > API_INPUT_TOKENS_MAX) {
		struct api_error error;
		api_error_set(&error, 400, "out_of_range", "input",
			      "'input' has more than %d tokens in all; send it in several requests",
			      API_INPUT_TOKENS_MAX);
		fail(exchange, &error);
		return;
	}
	if (!exchange->answer.stream)
		return;
	api_stream_begin(&exchange->answer, call->index, events(exchange));
	send_events(exchange);
}

void exchange_token(struct front_call *call, const struct record_token *token)
{
	struct exchange *exchange = call->exchange;
	if (!token->is_prompt && !exchange->first_token_seen) {
		exchange->first_token_seen = true;
		metrics_observe(&exchange->model->metrics.first_token, METRICS_SECONDS,
				clock_now_ns() - exchange->started_ns);
	}
	api_choice_token(&exchange->answer.choices[call->index], &exchange->answer.shape, token);
	/* An echoed prompt goes out with the first token after it, as one event. */
	if (!exchange->answer.stream || token->is_prompt)
		return;
	api_stream_news(&exchange->answer, call->index, events(exchange));
	send_events(exchange);
}

/* --- calls ------------------------------------------------------------------------------------ */

/* Makes the next call; no worker knows of it yet. NULL: out of memory. */
static struct front_call *make_call(struct exchange *exchange, const struct api_request *request)
{
	struct front_call *call = call_new(&exchange->front->calls);
	if (!call)
		return NULL;
	call->exchange = exchange;
	call->index = exchange->n_made;
	call->times.request_ns = exchange->started_ns;
	api_request_call(request, call->index, &call->begin, &call->bytes);
	if (call->bytes.failed) {
		call_free(&exchange->front->calls, call);
		return NULL;
	}
	if (exchange->adapter) {
		call->adapter = roster_hold(exchange->adapter);
		call->begin.adapter = exchange->adapter->is.id;
		exchange->adapter->n_total++;
	}
	exchange->calls[exchange->n_made++] = call;
	return call;
}

/* One of several texts is done: the next one takes its place. A worker that is being retired keeps the texts of the
 * requests it has, because the others read other weights by now. False: that failed, and the exchange is gone. */
static bool go_on(struct exchange *exchange, struct front_worker *before)
{
	struct api_error error;
	struct front_worker *worker =
		before->duty == WORKER_RETIRED ? before : fleet_choose(&exchange->front->fleet, exchange->model, 0);
	struct front_call *call = worker ? make_call(exchange, exchange->rest) : NULL;
	if (call) {
		worker_add_call(worker, call);
		if (exchange->n_made == exchange->answer.n_choices)
			free_rest(exchange);
		return true;
	}
	api_error_set(&error, worker ? 500 : 503, worker ? "" : "model_not_ready", NULL, "%s",
		      worker ? "out of memory" : "no worker of this model is ready any more; try again");
	fail(exchange, &error);
	return false;
}

/* --- the end of calls ------------------------------------------------------------------------- */

int exchange_result(struct front_call *call, const void *bytes, size_t n_bytes)
{
	struct api_choice *choice = &call->exchange->answer.choices[call->index];
	if (call->begin.kind == CALL_KIND_TOKENIZE)
		return api_choice_ids(choice, bytes, n_bytes);
	if (call->begin.kind >= CALL_KIND_EMBED && n_bytes % sizeof(float))
		return -EPROTO;
	api_choice_text(choice, bytes, n_bytes);
	return 0;
}

static void finish_stream(struct exchange *exchange, uint32_t index)
{
	struct api_json *out = events(exchange);
	api_stream_finish(&exchange->answer, index, out);
	if (exchange->n_open == 0)
		api_stream_end(&exchange->answer, out);
	if (!send_events(exchange) || exchange->n_open)
		return;
	observe_duration(exchange);
	connection_end(exchange->connection);
	end(exchange);
}

static void finish_whole(struct exchange *exchange)
{
	struct front *front = exchange->front;
	if (exchange->n_open)
		return;
	observe_duration(exchange);
	api_json_reset(&front->scratch);
	api_answer_write(&exchange->answer, &front->scratch);
	reply(front, exchange->connection, exchange->route, 200, NULL, &front->scratch);
	end(exchange);
}

/* The call has ended at its worker, and will be freed by who reports it. */
static struct exchange *release(struct front_call *call)
{
	struct exchange *exchange = call->exchange;
	call->exchange = NULL;
	exchange->calls[call->index] = NULL;
	exchange->n_open--;
	return exchange;
}

void exchange_done(struct front_call *call, const struct record_done *done)
{
	struct exchange *exchange = release(call);
	if (done->finish == FINISH_CANCELLED) { /* and not by us */
		struct api_error error;
		api_error_set(&error, 503, "call_cancelled", NULL, "the worker has stopped this call");
		fail(exchange, &error);
		return;
	}
	api_answer_done(&exchange->answer, call->index, done);
	if (exchange->rest && !go_on(exchange, call->worker))
		return;
	if (exchange->answer.stream)
		finish_stream(exchange, call->index);
	else
		finish_whole(exchange);
}

/* A worker knows its call, and not which of several in a request that is. */
static void name_prompt(const struct front_call *call, struct api_error *error)
{
	const struct api_answer *answer = &call->exchange->answer;
	if (answer->endpoint == API_RESPONSE && strcmp(error->param, "messages") == 0)
		snprintf(error->param, sizeof error->param, "input");
	bool named = strcmp(error->param, "prompt") == 0 || strcmp(error->param, "input") == 0;
	if (!named || answer->n_choices == answer->n_per_prompt)
		return;
	struct api_place place = api_place("%.16s[%u]", error->param, call->index / answer->n_per_prompt);
	struct api_error told = *error;
	api_error_set(error, told.status, told.code, place.text, "'%s': %.260s", place.text, told.message);
}

void exchange_failed(struct front_call *call, const struct api_error *error)
{
	struct api_error named = *error;
	name_prompt(call, &named);
	fail(release(call), &named);
}

/* --- the start -------------------------------------------------------------------------------- */

/* The configured model of that name, or without a name the first that could be loaded; NULL. */
static const struct message_model *find_configured(const struct message_state *state, const struct api_text *name)
{
	for (uint32_t i = 0; i < state->n_models; i++) {
		const struct message_model *model = &state->model[i];
		if (name->bytes ? strnlen(model->name, sizeof model->name) == name->n_bytes &&
					  memcmp(model->name, name->bytes, name->n_bytes) == 0
				: model->standing != STANDING_FAILED)
			return model;
	}
	return NULL;
}

struct fleet_model *exchange_find_model(struct front *front, const struct api_text *name, struct api_error *error)
{
	const struct message_model *configured = find_configured(&front->state, name);
	struct fleet_model *model = configured ? fleet_find_model(&front->fleet, configured->name,
								  strnlen(configured->name, sizeof configured->name))
					       : NULL;
	if (model)
		return model;
	if (configured && configured->standing >= STANDING_FAILING)
		api_error_set(error, 503, configured->standing == STANDING_FAILED ? "model_failed" : "model_failing",
			      "model", "model '%.127s' is not served: %.200s", configured->name, configured->why);
	else if (configured || !front->has_state || front->state.adapters_come)
		api_error_set(error, 503, "model_loading", NULL, "models are still being loaded; try again");
	else if (name->bytes)
		api_error_set(error, 404, "model_not_found", "model", "there is no model '%.127s' here", name->bytes);
	else
		api_error_set(error, 503, "no_model", NULL, "no model could be loaded");
	return NULL;
}

/* How many calls of a request there are at a time. */
static uint32_t calls_at_once(const struct front *front, const struct api_request *request)
{
	uint32_t n = api_request_n_calls(request), most = front->order.max_queue;
	if (most > EMBEDDED_AT_ONCE)
		most = EMBEDDED_AT_ONCE;
	return request->endpoint == API_EMBEDDING && n > most ? most : n;
}

/* The adapter of that name; NULL and, where it is a field of its own, an error. */
static struct front_adapter *find_adapter(struct front *front, const struct api_text *name, struct api_error *error)
{
	struct front_adapter *adapter = roster_find(&front->roster, name->bytes, name->n_bytes);
	if (!adapter && front->state.adapters_come)
		api_error_set(error, 503, "adapter_loading", "adapter", "adapters are still being loaded; try again");
	else if (!adapter)
		api_error_set(error, 404, "adapter_not_found", "adapter", "there is no adapter '%.127s' here",
			      name->bytes);
	return adapter;
}

/* What a request is for: a model by its name, or an adapter, by its name in place of the model's or in a field of its
 * own, and its model. -1: not both of them are there, or not for each other. */
static int find_target(struct front *front, const struct api_request *request, struct fleet_model **model,
		       struct front_adapter **adapter, struct api_error *error)
{
	const struct api_text *name = &request->model;
	struct front_adapter *as_model = name->bytes ? roster_find(&front->roster, name->bytes, name->n_bytes) : NULL;
	*adapter = request->adapter.bytes ? find_adapter(front, &request->adapter, error) : as_model;
	if (request->adapter.bytes && !*adapter)
		return -1;
	if (as_model && *adapter != as_model)
		return api_error_set(error, 400, "invalid_value", "adapter",
				     "'model' names the adapter '%s', 'adapter' another one", as_model->is.name);
	struct api_text base = *name;
	if (*adapter && (as_model || !name->bytes))
		base = (struct api_text){(*adapter)->is.model, strlen((*adapter)->is.model)};
	*model = exchange_find_model(front, &base, error);
	if (!*model)
		return -1;
	if ((*model)->mel_bins)
		return api_error_set(error, 400, "unsupported_model", "model",
				     "model '%s' hears speech and does nothing else; ask it at "
				     "/v1/audio/transcriptions or /v1/audio/translations",
				     (*model)->name);
	if (*adapter && strcmp((*adapter)->is.model, (*model)->name))
		return api_error_set(error, 400, "invalid_value", "adapter",
				     "adapter '%s' is for model '%s', not for '%s'", (*adapter)->is.name,
				     (*adapter)->is.model, (*model)->name);
	return 0;
}

/* May the request's calls of this model be made now? `ready`: a worker that could take them, or NULL. */
static int admit(struct front *front, const struct fleet_model *model, const struct front_worker *ready,
		 const struct api_request *request, struct api_error *error)
{
	uint32_t n = calls_at_once(front, request), n_choices = request->n_choices;
	uint32_t max = front->order.max_queue;
	if (n > max)
		return api_error_set(error, 400, "out_of_range", n_choices > 1 ? "n" : "prompt",
				     "%u answers (%u for each prompt) in one request; max_queue allows %u", n,
				     n_choices, max);
	if (!ready)
		return api_error_set(error, 503, "model_not_ready", NULL, "no worker of model '%s' is ready; try again",
				     model->name);
	if (front->calls.n <= max - n)
		return 0;
	front->metrics.queue_full++;
	return api_error_set(error, 429, "queue_full", NULL, "all %u places for calls are taken; try again in a moment",
			     max);
}

/* `name`: of what answers. */
static struct exchange *exchange_new(struct front *front, const struct api_request *request, const char *name)
{
	struct exchange *exchange = calloc(1, sizeof *exchange);
	if (!exchange)
		return NULL;
	exchange->answerer.gone = on_gone;
	exchange->front = front;
	exchange->calls = calloc(api_request_n_calls(request), sizeof(struct front_call *));
	if (!exchange->calls || api_answer_init(&exchange->answer, request, name, (uint64_t)time(NULL))) {
		free(exchange->calls);
		api_answer_fini(&exchange->answer);
		free(exchange);
		return NULL;
	}
	return exchange;
}

/* What never got to a worker. */
static void discard(struct exchange *exchange)
{
	for (uint32_t i = 0; i < exchange->n_made; i++)
		call_free(&exchange->front->calls, exchange->calls[i]);
	free_rest(exchange);
	roster_release(exchange->adapter);
	free(exchange->calls);
	api_answer_fini(&exchange->answer);
	free(exchange);
}

/* Makes the request's first calls, and keeps it if there are more to be made. False: out of memory. */
static bool make_calls(struct exchange *exchange, struct api_request *request)
{
	uint32_t n = calls_at_once(exchange->front, request);
	while (exchange->n_made < n)
		if (!make_call(exchange, request))
			return false;
	if (n == exchange->answer.n_choices)
		return true;
	exchange->rest = malloc(sizeof *exchange->rest);
	if (!exchange->rest)
		return false;
	*exchange->rest = *request;
	*request = (struct api_request){0};
	return true;
}

int exchange_start(struct front *front, struct connection *connection, enum front_route route,
		   struct api_request *request, uint64_t started_ns, struct api_error *error)
{
	struct front_adapter *adapter = NULL;
	struct fleet_model *model = NULL;
	if (find_target(front, request, &model, &adapter, error))
		return -1;
	struct front_worker *ready = fleet_choose(&front->fleet, model, 0);
	if (admit(front, model, ready, request, error))
		return -1;
	struct exchange *exchange = exchange_new(front, request, adapter ? adapter->is.name : model->name);
	if (!exchange)
		return api_error_set(error, 500, NULL, NULL, "out of memory");
	exchange->adapter = roster_hold(adapter);
	exchange->connection = connection;
	exchange->model = model;
	exchange->route = route;
	exchange->started_ns = started_ns;
	exchange->n_open = exchange->answer.n_choices;
	if (!make_calls(exchange, request)) {
		discard(exchange);
		return api_error_set(error, 500, NULL, NULL, "out of memory");
	}
	connection_set_answerer(connection, &exchange->answerer);
	for (uint32_t i = 0; i < exchange->n_made; i++) {
		struct front_call *call = exchange->calls[i];
		/* Whether a worker is ready is its own word in shared memory: it may take it back at any moment. */
		struct front_worker *worker = fleet_choose(&front->fleet, model, fleet_beginning(&front->fleet, call));
		worker_add_call(worker ? worker : ready, call);
	}
	return 0;
}
