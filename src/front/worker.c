#include "src/front/worker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/clock.h"
#include "src/front/front.h"
#include "src/front/exchange.h"
#include "src/front/speech.h"
#include "src/log.h"

enum {
	RESULT_BYTES_MAX = 64 << 20, /* of a call that makes no tokens, plus ... */
	RESULT_BYTES_PER_BYTE = 64, /* ... so much for every byte of it: ids or texts of any real vocabulary are less */
	RECORDS_PER_TURN = 512,	    /* then other connections and workers get their turn */
};

static struct front_worker *worker_of(struct peer *peer)
{
	return peer_owner(peer, struct front_worker, peer);
}

/* --- calls out -------------------------------------------------------------------------------- */

/* Its prompt is no longer something others wait for. */
static void start_call(struct front_worker *worker, struct front_call *call)
{
	if (!call->started)
		worker->waiting_bytes -= call->begin.prompt_bytes;
	call->started = true;
}

static void unlink_call(struct front_worker *worker, struct front_call *call)
{
	start_call(worker, call);
	*(call->previous ? &call->previous->next : &worker->first) = call->next;
	*(call->next ? &call->next->previous : &worker->last) = call->previous;
	worker->n_calls--;
}

/* Counts its end, of a call that was computed. */
static void count_end(struct front_worker *worker, struct front_call *call, enum metrics_end end,
		      uint32_t generated_tokens)
{
	if (call_computes(call))
		metrics_call_ended(&worker->model->metrics, &call->times, end, call->prompt_tokens, generated_tokens);
}

/* The call is over for the worker, too. */
static void forget_call(struct front_worker *worker, struct front_call *call)
{
	unlink_call(worker, call);
	call_free(&worker->front->calls, call);
}

static int send_begin(struct front_worker *worker, struct front_call *call)
{
	return channel_write(&worker->peer.channel, CALL_BEGIN, call->id, &call->begin, sizeof call->begin,
			     call->options, call->options ? sizeof *call->options : 0);
}

/* How many of the bytes at hand may go now: of speech as many as the worker wants. */
static size_t sendable(const struct front_call *call)
{
	size_t n = call->bytes.n - call->sent;
	if (!call_hears(call))
		return n;
	const struct call_speech *speech = call->options;
	uint64_t frames = call->wanted_frames < speech->n_frames ? call->wanted_frames : speech->n_frames;
	uint64_t wanted = record_speech_bytes(speech) - (speech->n_frames - frames) * speech->mel_bins * sizeof(float);
	uint64_t sent = call->sent_before + call->sent;
	return wanted - sent < n ? (size_t)(wanted - sent) : n;
}

/* All that was at hand has gone: the call is sent, or more is to come. */
static void settle_bytes(struct front_call *call)
{
	if (call->sent < call->bytes.n)
		return;
	call->sent_before += call->sent;
	call->sent = 0;
	api_json_reset(&call->bytes);
	if (call_hears(call) && call->sent_before < call->begin.prompt_bytes)
		return;
	call->phase = PHASE_SENT;
	api_json_fini(&call->bytes);
}

/* 0: all there is of it is in the ring; -EAGAIN: no room for more now; -EPROTO. Sets *written if there is something new
 * to read. */
static int send_call(struct front_worker *worker, struct front_call *call, bool *written)
{
	struct channel *channel = &worker->peer.channel;
	bool unwanted = call_hears(call) && !call_has_owner(call); /* what is left of it need not be sent */
	int rc = 0;
	if (call->phase == PHASE_QUEUED) {
		rc = send_begin(worker, call);
		if (rc)
			return rc;
		call->phase = PHASE_SENDING;
		*written = true;
	}
	for (size_t n; call->phase == PHASE_SENDING && !unwanted && (n = sendable(call)); call->sent += n) {
		if (n > CHANNEL_RECORD_MAX)
			n = CHANNEL_RECORD_MAX;
		rc = channel_write(channel, CALL_BYTES, call->id, call->bytes.bytes + call->sent, (uint32_t)n, NULL, 0);
		if (rc)
			return rc;
		*written = true;
	}
	if (call->phase == PHASE_SENDING)
		settle_bytes(call);
	if (!call_has_owner(call) && !call->cancel_sent) {
		rc = channel_write(channel, CALL_CANCEL, call->id, NULL, 0, NULL, 0);
		call->cancel_sent = rc == 0;
		*written |= call->cancel_sent;
	}
	return rc;
}

/* A worker that does not keep to the protocol, or whose channel is broken: it is given up, and the parent asked for a
 * new one. */
static void give_up(struct peer *peer, const char *why)
{
	struct front_worker *worker = worker_of(peer);
	struct front *front = worker->front;
	struct message_worker_down down = {worker->index};
	log_error("worker %u breaks the protocol (%s): its calls fail and it is to be replaced", worker->index, why);
	int rc = message_send(MESSAGE_FD, MESSAGE_WORKER_DOWN, &down, sizeof down, NULL, 0);
	if (rc)
		log_error("the parent can't be told about worker %u: %s", worker->index, strerror(-rc));
	fleet_worker_down(front, worker->index);
}

/* Writes what waits. In order: a call that comes later does not overtake one that found the ring full. */
static void send_waiting(struct front_worker *worker)
{
	int rc = 0;
	bool written = false;
	for (struct front_call *call = worker->first; call && !rc; call = call->next)
		rc = send_call(worker, call, &written);
	if (written)
		channel_ring(&worker->peer.channel);
	peer_sent(&worker->peer, rc);
}

void worker_add_call(struct front_worker *worker, struct front_call *call)
{
	call->worker = worker;
	call->previous = worker->last;
	*(worker->last ? &worker->last->next : &worker->first) = call;
	worker->last = call;
	if (worker->n_calls++ == 0)
		worker->busy_since_ns = clock_now_ns();
	worker->waiting_bytes += call->begin.prompt_bytes;
	worker->n_routed++;
	/* Sent from the loop, not from here: should the channel turn out broken, the exchange being made must not end
	 * under its maker. */
	peer_wake(&worker->peer, 0);
}

void worker_wake(struct front_worker *worker)
{
	peer_wake(&worker->peer, 0);
}

void worker_cancel_call(struct front_worker *worker, struct front_call *call)
{
	call->exchange = NULL;
	call->speech = NULL;
	if (call->phase == PHASE_QUEUED) {
		count_end(worker, call, METRICS_END_ABORT, 0);
		forget_call(worker, call);
	} else {
		peer_wake(&worker->peer, 0);
	}
}

/* --- records in ------------------------------------------------------------------------------- */

static enum metrics_end end_of(enum finish_reason finish)
{
	return finish == FINISH_STOP	 ? METRICS_END_STOP
	       : finish == FINISH_LENGTH ? METRICS_END_LENGTH
					 : METRICS_END_ABORT;
}

static int read_done(struct front_worker *worker, struct front_call *call, const void *payload, size_t n_bytes)
{
	struct record_done done;
	int rc = record_read_done(payload, n_bytes, &done);
	if (rc)
		return rc;
	call->prompt_tokens = done.prompt_tokens;
	count_end(worker, call, end_of(done.finish), done.generated_tokens);
	if (call->exchange)
		exchange_done(call, &done);
	else if (call->speech)
		speech_done(call, &done);
	forget_call(worker, call);
	return 0;
}

static void tell_failed(struct front_call *call, const struct api_error *error)
{
	if (call->exchange)
		exchange_failed(call, error);
	else if (call->speech)
		speech_failed(call, error);
}

static int read_failed(struct front_worker *worker, struct front_call *call, const void *payload, size_t n_bytes)
{
	struct record_failed failed;
	int rc = record_read_failed(payload, n_bytes, &failed);
	if (rc)
		return rc;
	struct api_error error;
	api_error_set(&error, failed.status, failed.code, failed.param, "%.*s", (int)failed.text_bytes, failed.text);
	count_end(worker, call, METRICS_END_ERROR, 0);
	tell_failed(call, &error);
	forget_call(worker, call);
	return 0;
}

static int read_token(struct front_worker *worker, struct front_call *call, const void *payload, size_t n_bytes)
{
	struct record_token token;
	int rc = call_generates(call) ? record_read_token(payload, n_bytes, &token) : -EPROTO;
	if (rc)
		return rc;
	uint64_t most = (uint64_t)worker->context_tokens + 1; /* the last one need not have a place in it */
	if (++call->n_tokens > most)
		return -EPROTO;
	if (!token.is_prompt) {
		start_call(worker, call);
		metrics_call_token(&worker->model->metrics, &call->times, call->prompt_tokens, clock_now_ns());
	}
	if (call->exchange)
		exchange_token(call, &token);
	return 0;
}

static int read_accepted(struct front_call *call, const void *payload, size_t n_bytes)
{
	struct call_accepted accepted;
	int rc = call_computes(call) && !call->accepted ? record_read_accepted(payload, n_bytes, &accepted) : -EPROTO;
	call->accepted = true;
	if (!rc)
		call->prompt_tokens = accepted.prompt_tokens;
	if (!rc && call->exchange)
		exchange_accepted(call, &accepted);
	return rc;
}

static int read_started(struct front_worker *worker, struct front_call *call, size_t n_bytes)
{
	if (n_bytes || !call->accepted || call->times.computing_ns || call->n_tokens)
		return -EPROTO;
	metrics_call_computing(&worker->model->metrics, &call->times, clock_now_ns());
	return 0;
}

static int read_result(struct front_call *call, const void *payload, size_t n_bytes)
{
	call->result_bytes += n_bytes;
	if (call_generates(call) || call_hears(call) ||
	    call->result_bytes > RESULT_BYTES_MAX + RESULT_BYTES_PER_BYTE * call->begin.prompt_bytes)
		return -EPROTO;
	return call->exchange ? exchange_result(call, payload, n_bytes) : 0;
}

static int read_language(struct front_worker *worker, struct front_call *call, const void *payload, size_t n_bytes)
{
	struct call_language language;
	int rc = call_hears(call) && call->accepted ? record_read_language(payload, n_bytes, &language) : -EPROTO;
	if (rc)
		return rc;
	start_call(worker, call);
	return call->speech ? speech_language(call, &language) : 0;
}

static int read_segment(struct front_call *call, const void *payload, size_t n_bytes)
{
	static struct record_segment segment; /* too large for a stack; one loop reads */
	call->result_bytes += n_bytes;
	int rc = call_hears(call) && call->started && call->result_bytes <= RESULT_BYTES_MAX
			 ? record_read_segment(payload, n_bytes, &segment)
			 : -EPROTO;
	if (rc)
		return rc;
	return call->speech ? speech_segment(call, &segment) : 0;
}

static int read_want(struct front_worker *worker, struct front_call *call, const void *payload, size_t n_bytes)
{
	struct call_want want;
	int rc = call_hears(call) && call->accepted ? record_read_want(payload, n_bytes, &want) : -EPROTO;
	if (rc || want.frames <= call->wanted_frames)
		return -EPROTO; /* each wants more than the one before */
	call->wanted_frames = want.frames;
	if (call->speech)
		speech_want(call);
	peer_wake(&worker->peer, 0);
	return 0;
}

static int handle(struct peer *peer, const struct channel_record *record)
{
	struct front_worker *worker = worker_of(peer);
	struct front_call *call = call_find(&worker->front->calls, record->call);
	const void *payload = record->payload;
	size_t n_bytes = record->n_bytes;
	/* Whoever answers a call that was never sent to it, or not yet, is guessing. */
	if (!call || call->worker != worker || call->phase == PHASE_QUEUED)
		return -EPROTO;
	switch (record->type) {
	case CALL_ACCEPTED:
		return read_accepted(call, payload, n_bytes);
	case CALL_STARTED:
		return read_started(worker, call, n_bytes);
	case CALL_TOKEN:
		return read_token(worker, call, payload, n_bytes);
	case CALL_RESULT:
		return read_result(call, payload, n_bytes);
	case CALL_LANGUAGE:
		return read_language(worker, call, payload, n_bytes);
	case CALL_SEGMENT:
		return read_segment(call, payload, n_bytes);
	case CALL_WANT:
		return read_want(worker, call, payload, n_bytes);
	case CALL_DONE:
		return read_done(worker, call, payload, n_bytes);
	case CALL_FAILED:
		return read_failed(worker, call, payload, n_bytes);
	default:
		return -EPROTO;
	}
}

static void turn(struct peer *peer)
{
	struct front_worker *worker = worker_of(peer);
	if (!peer_receive(peer))
		return;
	worker_settle(worker);
	send_waiting(worker);
}

static void free_worker(struct peer *peer)
{
	free(worker_of(peer));
}

static const struct peer_kind kind = {
	.records_per_turn = RECORDS_PER_TURN,
	.handle = handle,
	.turn = turn,
	.give_up = give_up,
	.free = free_worker,
};

/* --- life ------------------------------------------------------------------------------------- */

int worker_open(struct front *front, const struct channel_fds *fds, struct front_worker **out, struct err *err)
{
	struct front_worker *worker = calloc(1, sizeof *worker);
	if (!worker) {
		struct channel_fds taken = *fds;
		channel_close(&taken);
		return err_set(err, -ENOMEM, "no memory for a worker");
	}
	worker->front = front;
	int rc = peer_open(&worker->peer, &kind, front->loop, fds, err);
	if (rc) {
		free(worker);
		return rc;
	}
	*out = worker;
	return 0;
}

void worker_close(struct front_worker *worker, const char *reason)
{
	struct api_error error;
	api_error_set(&error, 502, "worker_died", NULL, "%s", reason);
	while (worker->first) {
		struct front_call *call = worker->first;
		count_end(worker, call, METRICS_END_ERROR, 0);
		tell_failed(call, &error); /* cancels its other calls, here or elsewhere */
		forget_call(worker, call);
	}
	peer_close(&worker->peer);
}

void worker_settle(struct front_worker *worker)
{
	const struct message_worker_idle idle = {worker->index};
	if (worker->duty == WORKER_RETIRED && !worker->n_calls && !worker->idle_told)
		worker->idle_told = !message_send(MESSAGE_FD, MESSAGE_WORKER_IDLE, &idle, sizeof idle, NULL, 0);
}

bool worker_is_ready(struct front_worker *worker)
{
	return !worker->peer.closed && worker->duty == WORKER_SERVES &&
	       worker_count(&channel_counters(&worker->peer.channel)->ready);
}
