#include "src/front/speech.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/multipart.h"
#include "src/api/speech_answer.h"
#include "src/api/stream.h"
#include "src/clock.h"
#include "src/front/answerer.h"
#include "src/front/exchange.h"
#include "src/front/front.h"
#include "src/front/reply.h"

struct speech {
	struct answerer answerer;	/* the connection's; first, so that a pointer to it is one to this */
	struct front *front;		/* borrows */
	struct connection *connection;	/* borrows; its answerer is this */
	struct speech *next, *previous; /* the front's */
	enum front_route route;
	uint64_t started_ns;

	struct multipart form;
	struct speech_request request;
	struct api_json value; /* of the field at hand; owned */
	bool in_file, has_file, form_ended;
	uint64_t file_bytes;

	struct audio_call *audio; /* NULL: none yet, or it is done */
	uint32_t mel_bins;
	uint64_t n_rows; /* of log-mel that came */
	struct audio_info info;
	bool audio_paused;

	struct fleet_model *model; /* borrows from the fleet; NULL: not known yet */
	struct front_call *call;   /* NULL before it is made and once it has ended */
	struct speech_answer answer;
	bool has_language, head_sent;
};

/* --- the end ---------------------------------------------------------------------------------- */

/* Lets go of everything; the connection goes on without us. */
static void end(struct speech *speech)
{
	struct front *front = speech->front;
	connection_set_answerer(speech->connection, NULL);
	if (speech->audio)
		audio_call_cancel(speech->audio);
	if (speech->call)
		worker_cancel_call(speech->call->worker, speech->call);
	*(speech->previous ? &speech->previous->next : &front->speeches) = speech->next;
	if (speech->next)
		speech->next->previous = speech->previous;
	speech_request_fini(&speech->request);
	speech_answer_fini(&speech->answer);
	api_json_fini(&speech->value);
	free(speech);
}

/* An HTTP status while that can still be said, an event afterwards, and then the connection closes. */
static void fail(struct speech *speech, const struct api_error *error)
{
	struct front *front = speech->front;
	if (speech->head_sent) {
		front->metrics.stream_errors++;
		api_json_reset(&front->scratch);
		api_json_text(&front->scratch, "data: ");
		api_error_write(error, &front->scratch);
		api_json_text(&front->scratch, "\n\n");
		if (!front->scratch.failed)
			connection_write(speech->connection, front->scratch.bytes, front->scratch.n);
		connection_drain(speech->connection);
		connection_end(speech->connection);
	} else {
		reply_error(front, speech->connection, speech->route, error);
	}
	if (front->scratch.failed)
		api_json_fini(&front->scratch);
	end(speech);
}

static void fail_for_memory(struct speech *speech)
{
	struct api_error error;
	api_error_set(&error, 500, NULL, NULL, "out of memory");
	fail(speech, &error);
}

static void on_gone(struct answerer *answerer)
{
	struct speech *speech = (struct speech *)answerer;
	speech->front->metrics.clients_gone++;
	end(speech);
}

void speech_fini(struct front *front)
{
	while (front->speeches)
		end(front->speeches);
}

/* --- the model -------------------------------------------------------------------------------- */

/* The one that the request names; or without a name the first that hears. NULL: error. */
static struct fleet_model *find_model(struct speech *speech, struct api_error *error)
{
	struct front *front = speech->front;
	const char *name = speech->request.model;
	struct api_text text = {name[0] ? name : NULL, strlen(name)};
	for (uint32_t i = 0; !name[0] && i < front->fleet.n_models; i++)
		if (fleet_has(&front->fleet, i) && front->fleet.model[i].mel_bins)
			return &front->fleet.model[i];
	if (name[0] && roster_find(&front->roster, name, strlen(name))) {
		api_error_set(error, 400, "unsupported_model", "model", "'%s' is an adapter, which hears no speech",
			      name);
		return NULL;
	}
	struct fleet_model *model = exchange_find_model(front, &text, error);
	if (!model || model->mel_bins)
		return model;
	api_error_set(error, 400, "unsupported_model", "model", "model '%s' hears no speech; %s", model->name,
		      name[0] ? "it answers at /v1/chat/completions and the like" : "name one that does");
	return NULL;
}

/* How many bins the file's rows are to have, if it is not said yet whose they are: those of all that hear. 0: error. */
static uint32_t find_bins(struct speech *speech, struct api_error *error)
{
	const struct fleet *fleet = &speech->front->fleet;
	uint32_t bins = 0;
	if (speech->request.model[0]) {
		const struct fleet_model *model = find_model(speech, error);
		return model ? model->mel_bins : 0;
	}
	for (uint32_t i = 0; i < fleet->n_models; i++) {
		uint32_t its = fleet_has(fleet, i) ? fleet->model[i].mel_bins : 0;
		if (its && bins && its != bins) {
			api_error_set(error, 400, "missing_field", "model", "'model' must come before 'file'");
			return 0;
		}
		bins = its ? its : bins;
	}
	if (!bins) { /* which one is at fault, or that none hears, find_model says */
		const struct fleet_model *model = find_model(speech, error);
		return model ? model->mel_bins : 0;
	}
	return bins;
}

static int queue_full(struct front *front, struct api_error *error)
{
	if (front->calls.n < front->order.max_queue)
		return 0;
	front->metrics.queue_full++;
	return api_error_set(error, 429, "queue_full", NULL, "all %u places for calls are taken; try again in a moment",
			     front->order.max_queue);
}

/* --- rows of log-mel -------------------------------------------------------------------------- */

/* The audio is decoded: a call for a worker. -1: error. */
static int make_call(struct speech *speech, struct api_error *error)
{
	struct front *front = speech->front;
	struct front_worker *worker = fleet_choose(&front->fleet, speech->model, 0);
	if (!worker)
		return api_error_set(error, 503, "model_not_ready", NULL, "no worker of model '%s' is ready; try again",
				     speech->model->name);
	if (speech->model->mel_bins != speech->mel_bins) /* another generation has taken over meanwhile */
		return api_error_set(error, 503, "model_not_ready", NULL, "model '%s' has just changed; try again",
				     speech->model->name);
	if (queue_full(front, error))
		return -1;
	struct front_call *call = call_new(&front->calls);
	if (call)
		call->options = calloc(1, sizeof *call->options);
	if (call && call->options)
		speech_request_call(&speech->request, call->id, speech->info.duration_s, speech->info.n_rows,
				    speech->mel_bins, &call->begin, call->options, &call->bytes);
	if (!call || !call->options || call->bytes.failed) {
		if (call)
			call_free(&front->calls, call);
		return api_error_set(error, 500, NULL, NULL, "out of memory");
	}
	call->speech = speech;
	call->wanted_frames = CALL_SPEECH_AHEAD;
	call->times.request_ns = speech->started_ns;
	speech->call = call;
	worker_add_call(worker, call);
	return 0;
}

static void on_info(void *owner, const struct audio_info *info)
{
	struct speech *speech = owner;
	struct api_error error;
	speech->info = *info;
	speech_answer_init(&speech->answer, &speech->request, info->duration_s);
	if (make_call(speech, &error))
		fail(speech, &error);
}

static void on_mel(void *owner, const float *rows, uint64_t first_row, uint32_t n_rows)
{
	struct speech *speech = owner;
	struct front_call *call = speech->call;
	(void)first_row; /* they come in order */
	if (!call)
		return; /* it has ended early, and so will this */
	api_json_raw(&call->bytes, rows, (size_t)n_rows * speech->mel_bins * sizeof *rows);
	if (call->bytes.failed) {
		fail_for_memory(speech);
		return;
	}
	speech->n_rows += n_rows;
	if (speech->n_rows >= call->wanted_frames && !speech->audio_paused) {
		speech->audio_paused = true;
		audio_call_pause(speech->audio);
	}
	worker_wake(call->worker);
}

static void on_audio_done(void *owner)
{
	struct speech *speech = owner;
	speech->audio = NULL;
	if (!speech->call || speech->n_rows == speech->info.n_rows)
		return;
	struct api_error error;
	api_error_set(&error, 502, "audio_broken", NULL, "of %llu rows of the audio only %llu came",
		      (unsigned long long)speech->info.n_rows, (unsigned long long)speech->n_rows);
	fail(speech, &error);
}

static void on_audio_failed(void *owner, const struct api_error *error)
{
	struct speech *speech = owner;
	struct api_error named = *error;
	speech->audio = NULL;
	if (!named.param[0] && named.status >= 400 && named.status < 500)
		snprintf(named.param, sizeof named.param, "file");
	fail(speech, &named);
}

static const struct audio_handler audio_handler = {
	.info = on_info, .mel = on_mel, .done = on_audio_done, .failed = on_audio_failed};

/* --- the form --------------------------------------------------------------------------------- */

static int begin_file(struct speech *speech, struct api_error *error)
{
	struct front *front = speech->front;
	if (strcmp(speech->form.name, "file") != 0)
		return api_error_set(error, 400, "unknown_field", speech->form.name, "unknown file '%.64s'",
				     speech->form.name);
	if (speech->has_file)
		return api_error_set(error, 400, "duplicate_field", "file", "'file' is there twice");
	speech->in_file = speech->has_file = true;
	speech->mel_bins = find_bins(speech, error);
	if (!speech->mel_bins || queue_full(front, error))
		return -1;
	speech->audio = audio_call_new(&front->audio, speech->mel_bins, &audio_handler, speech);
	if (speech->audio)
		return 0;
	front->metrics.queue_full++;
	return api_error_set(error, 429, "queue_full", NULL, "too many files are being heard; try again in a moment");
}

static int take_data(struct speech *speech, struct api_error *error)
{
	const struct multipart *form = &speech->form;
	if (!speech->in_file) {
		size_t room =
			SPEECH_VALUE_MAX + 1 - speech->value.n; /* one more than may be shows that it is too long */
		api_json_raw(&speech->value, form->data, form->n_data < room ? form->n_data : room);
		return speech->value.failed ? api_error_set(error, 500, NULL, NULL, "out of memory") : 0;
	}
	uint64_t most = speech->front->order.max_audio_bytes;
	if (form->n_data > most - speech->file_bytes)
		return api_error_set(error, 413, "file_too_large", "file",
				     "'file' is larger than %llu bytes (max_audio_bytes)", (unsigned long long)most);
	speech->file_bytes += form->n_data;
	if (speech->audio) /* else it has failed, and that is being told */
		audio_call_bytes(speech->audio, form->data, form->n_data);
	return 0;
}

static int end_part(struct speech *speech, struct api_error *error)
{
	if (speech->in_file) {
		speech->in_file = false;
		return 0;
	}
	return speech_request_field(&speech->request, speech->form.name, speech->value.bytes ? speech->value.bytes : "",
				    speech->value.n, error);
}

static int end_form(struct speech *speech, struct api_error *error)
{
	speech->form_ended = true;
	if (speech_request_end(&speech->request, speech->has_file, error))
		return -1;
	speech->model = find_model(speech, error);
	if (!speech->model)
		return -1;
	if (speech->model->mel_bins != speech->mel_bins)
		return api_error_set(error, 400, "invalid_value", "model", "'model' must come before 'file'");
	if (speech->audio)
		audio_call_end(speech->audio);
	return 0;
}

static int take_event(struct speech *speech, enum multipart_event event, const struct err *err, struct api_error *error)
{
	switch (event) {
	case MULTIPART_PART:
		api_json_reset(&speech->value);
		return speech->form.is_file ? begin_file(speech, error) : 0;
	case MULTIPART_DATA:
		return take_data(speech, error);
	case MULTIPART_PART_END:
		return end_part(speech, error);
	case MULTIPART_END:
		return end_form(speech, error);
	default:
		return api_error_set(error, 400, "invalid_form", NULL, "%s", err->text);
	}
}

void speech_body(struct connection *connection, const char *bytes, size_t n_bytes)
{
	struct speech *speech = connection_answerer(connection);
	struct api_error error;
	struct err err = {""};
	enum multipart_event event;
	multipart_give(&speech->form, bytes, n_bytes);
	while ((event = multipart_next(&speech->form, &err)) != MULTIPART_MORE) {
		if (take_event(speech, event, &err, &error)) {
			fail(speech, &error);
			return;
		}
	}
}

void speech_body_end(struct connection *connection)
{
	struct speech *speech = connection_answerer(connection);
	struct api_error error;
	struct err err = {""};
	if (multipart_finish(&speech->form, &err)) {
		api_error_set(&error, 400, "invalid_form", NULL, "%s", err.text);
		fail(speech, &error);
	}
}

void speech_refused(struct connection *connection, const struct api_error *error)
{
	fail(connection_answerer(connection), error);
}

void speech_start(struct front *front, struct connection *connection, enum front_route route,
		  const struct http_request *http)
{
	struct api_error error;
	struct err err = {""};
	struct speech *speech = calloc(1, sizeof *speech);
	int rc = speech ? multipart_init(&speech->form, http->content_type, &err) : -ENOMEM;
	if (rc) {
		api_error_set(&error, speech ? 400 : 500, speech ? "invalid_form" : NULL, NULL, "%s",
			      speech ? err.text : "out of memory");
		free(speech);
		reply_error(front, connection, route, &error);
		return;
	}
	speech->answerer.gone = on_gone;
	speech->front = front;
	speech->connection = connection;
	speech->route = route;
	speech->started_ns = clock_now_ns();
	speech_request_init(&speech->request, route == ROUTE_TRANSLATIONS);
	speech->next = front->speeches;
	if (speech->next)
		speech->next->previous = speech;
	front->speeches = speech;
	connection_set_answerer(connection, &speech->answerer);
}

/* --- what the worker says --------------------------------------------------------------------- */

int speech_language(struct front_call *call, const struct call_language *language)
{
	struct speech *speech = call->speech;
	if (speech->has_language)
		return -EPROTO;
	speech->has_language = true;
	speech_answer_language(&speech->answer, language);
	return 0;
}

/* Sends the events written to the scratch buffer; the head goes out with the first of them. False: that failed, and the
 * speech is gone. */
static bool send_events(struct speech *speech)
{
	struct front *front = speech->front;
	if (front->scratch.failed) {
		api_json_fini(&front->scratch);
		fail_for_memory(speech);
		return false;
	}
	if (!speech->head_sent) {
		speech->head_sent = true;
		metrics_request(front, speech->route, 200);
		connection_begin(speech->connection, 200, API_STREAM_TYPE, "Cache-Control: no-store\r\n");
	}
	connection_write(speech->connection, front->scratch.bytes, front->scratch.n);
	connection_flush(speech->connection);
	return true;
}

int speech_segment(struct front_call *call, const struct record_segment *segment)
{
	struct speech *speech = call->speech;
	size_t before = speech->answer.text.n;
	if (!speech->has_language || segment->head.id != speech->answer.n_segments)
		return -EPROTO;
	if (speech->answer.n_segments == 0)
		metrics_observe(&speech->model->metrics.first_token, METRICS_SECONDS,
				clock_now_ns() - speech->started_ns);
	speech_answer_segment(&speech->answer, segment);
	if (!speech->request.stream)
		return 0;
	api_json_reset(&speech->front->scratch);
	speech_answer_write_delta(&speech->answer, before, &speech->front->scratch);
	if (speech->front->scratch.n || speech->front->scratch.failed)
		send_events(speech);
	return 0;
}

void speech_want(struct front_call *call)
{
	struct speech *speech = call->speech;
	if (speech->audio_paused && speech->audio && speech->n_rows < call->wanted_frames) {
		speech->audio_paused = false;
		audio_call_resume(speech->audio);
	}
}

void speech_done(struct front_call *call, const struct record_done *done)
{
	struct speech *speech = call->speech;
	struct front *front = speech->front;
	struct api_error error;
	call->speech = NULL;
	speech->call = NULL;
	if (done->finish == FINISH_CANCELLED) { /* and not by us */
		api_error_set(&error, 503, "call_cancelled", NULL, "the worker has stopped this call");
		fail(speech, &error);
		return;
	}
	metrics_observe(&speech->model->metrics.duration, METRICS_SECONDS, clock_now_ns() - speech->started_ns);
	api_json_reset(&front->scratch);
	if (speech->request.stream) {
		speech_answer_write_end(&speech->answer, &front->scratch);
		if (!send_events(speech))
			return;
		connection_end(speech->connection);
	} else {
		speech_answer_write(&speech->answer, &front->scratch);
		reply(front, speech->connection, speech->route, 200, speech_answer_type(&speech->answer),
		      &front->scratch);
	}
	end(speech);
}

void speech_failed(struct front_call *call, const struct api_error *error)
{
	struct speech *speech = call->speech;
	call->speech = NULL;
	speech->call = NULL;
	fail(speech, error);
}
