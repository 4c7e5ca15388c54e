/* One client connection as a state machine over three operations: a poll for bytes, a send, and a poll for the hang-up.
 *
 *                 a whole request              connection_end            all bytes left
 *      READING ---------------------> ANSWERING -------------> SENDING ------------------> READING (keep-alive)
 *         |  ^--- not whole yet: poll      |                      |            `---------> LINGERING (last answer)
 *         |                                |                      |                            |
 *         | end of file, idle too long     | hang-up: `gone`      | error, client stalls       | end of file, 2 s
 *         '--------------------------------+----------------------+----------------------------+---> CLOSING
 *
 * Invariants. Outside of the loop's `done` functions a connection that is not CLOSING has an operation in flight: the
 * poll for bytes in READING and LINGERING, the one for the hang-up in ANSWERING, the send in SENDING. Memory goes only
 * when none is left, hence never under a caller's feet. Nothing is received while an answer is made: a client that
 * pipelines is held back by its socket. The hang-up poll stays in flight for the connection's life, so that an answer
 * costs no operation for it.
 *
 * A body that is streamed is received in ANSWERING (`streams`), while its answer is made and perhaps before that has
 * begun: then a poll for bytes is in flight, too, unless the owner has paused it.
 *
 * Bytes are waited for with a poll and then received without waiting: one more system call for a request, but a receive
 * in flight would need a buffer of its own, and it is the thousands that say nothing who would own them.
 *
 * LINGERING is there because closing a socket with unread bytes in it resets the connection, and the reset can overtake
 * the answer; so our side is shut down, and what still comes (the rest of a body refused as too large, say) is thrown
 * away until the client has closed, for a short while.
 *
 * Deadlines need no timer each: one tick per set looks at them. */
#include "src/front/connection.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "src/clock.h"
#include "src/front/connection_internal.h"

#define SECOND UINT64_C(1000000000)
#define LINGER_NS (2 * SECOND)
#define TICK_MAX_NS SECOND
#define TICK_MIN_NS (SECOND / 100)

#define GRACE_NS SECOND /* an idle connection keeps its place for so long, whoever waits */

#define CONNECTION_OF(op, field) ((struct connection *)((char *)(op)-offsetof(struct connection, field)))

/* --- the end ---------------------------------------------------------------------------------- */

static void free_when_still(struct connection *connection)
{
	struct connection_set *set = connection->set;
	if (connection->receive.in_flight || connection->send.in_flight || connection->hangup.in_flight)
		return;
	if (connection->previous)
		connection->previous->next = connection->next;
	else
		set->first = connection->next;
	if (connection->next)
		connection->next->previous = connection->previous;
	if (--set->n == 0)
		loop_cancel(set->loop, &set->tick);
	close(connection->socket);
	if (set->handler.closed)
		set->handler.closed(connection);
	http_parser_free(connection->parser);
	output_fini(&connection->output);
	free(connection);
}

static void idle_begin(struct connection *connection)
{
	struct connection_set *set = connection->set;
	if (connection->idle)
		return;
	connection->idle = true;
	connection->idle_next = NULL;
	connection->idle_previous = set->idle_last;
	*(set->idle_last ? &set->idle_last->idle_next : &set->idle_first) = connection;
	set->idle_last = connection;
}

static void idle_end(struct connection *connection)
{
	struct connection_set *set = connection->set;
	if (!connection->idle)
		return;
	connection->idle = false;
	*(connection->idle_previous ? &connection->idle_previous->idle_next : &set->idle_first) = connection->idle_next;
	*(connection->idle_next ? &connection->idle_next->idle_previous : &set->idle_last) = connection->idle_previous;
}

/* Ends what is in flight, then the connection. May end its memory when called from one of its `done` functions. */
static void wind_up(struct connection *connection)
{
	struct loop *loop = connection->set->loop;
	connection->state = CLOSING;
	connection->deadline_ns = 0;
	idle_end(connection);
	loop_cancel(loop, &connection->receive);
	loop_cancel(loop, &connection->send);
	loop_cancel(loop, &connection->hangup);
	free_when_still(connection);
}

static void close_now(struct connection *connection)
{
	if (connection->state != CLOSING)
		wind_up(connection);
}

static void await_bytes(struct connection *connection)
{
	loop_receive_lent(connection->set->loop, &connection->receive, connection->socket);
}

static void linger(struct connection *connection)
{
	if (connection->hung_up || shutdown(connection->socket, SHUT_WR) != 0) {
		close_now(connection);
		return;
	}
	connection->state = LINGERING;
	connection->deadline_ns = clock_now_ns() + LINGER_NS;
	if (!connection->receive.in_flight)
		await_bytes(connection);
}

/* --- requests --------------------------------------------------------------------------------- */

static void begin_answering(struct connection *connection)
{
	connection->state = ANSWERING;
	connection->deadline_ns = 0;
	idle_end(connection);
	connection->request_begun = false;
	connection->answerer = NULL;
	connection->chunked = connection->paused = false;
	connection->lines = "";
	if (!connection->hangup.in_flight) /* ended while the request was read: it ends again at once, now as `gone` */
		loop_hangup(connection->set->loop, &connection->hangup, connection->socket);
}

static void note_request(struct connection *connection, const struct http_request *request)
{
	connection->keep_alive = request->keep_alive;
	connection->is_http_1_0 = request->is_http_1_0;
	connection->is_head = strcmp(request->method, "HEAD") == 0;
}

static void tell_request(struct connection *connection, const struct http_request *request)
{
	begin_answering(connection);
	note_request(connection, request);
	connection->set->handler.request(connection, request);
	http_next(connection->parser); /* a large body does not wait for its answer */
}

static void tell_refused(struct connection *connection, int status, const char *reason)
{
	if (!connection->streams) {
		begin_answering(connection);
		connection->is_http_1_0 = connection->is_head = false;
	}
	connection->keep_alive = false;
	connection->deadline_ns = 0;
	connection->set->handler.refused(connection, status, reason);
}

/* Is the body that is streamed still of interest? Its answer may have ended before it. */
static bool wants_body(const struct connection *connection)
{
	return connection->streams && connection->state == ANSWERING && !connection->given_up;
}

static void read_body(struct connection *connection)
{
	bool wait = wants_body(connection) && !connection->paused;
	connection->deadline_ns = wait				   ? clock_now_ns() + connection->set->limits.request_ns
				  : connection->state == ANSWERING ? 0
								   : connection->deadline_ns;
	if (wait && !connection->receive.in_flight)
		await_bytes(connection);
}

static void tell_body(struct connection *connection, const struct http_request *request)
{
	if (wants_body(connection) && request->body_bytes)
		connection->set->handler.body(connection, request->body, request->body_bytes);
}

/* All of it is here, and the parser is ready for what may follow. */
static void tell_body_end(struct connection *connection, const struct http_request *request)
{
	tell_body(connection, request);
	bool wanted = wants_body(connection);
	if (connection->state != ANSWERING) /* its answer has said that nothing follows */
		return;
	connection->streams = false;
	connection->deadline_ns = 0;
	http_next(connection->parser);
	if (wanted)
		connection->set->handler.body_end(connection);
}

static void read_on(struct connection *connection)
{
	const struct connection_limits *limits = &connection->set->limits;
	bool begun = http_is_midway(connection->parser);
	if (!begun)
		connection->deadline_ns = clock_now_ns() + limits->idle_ns;
	else if (!connection->request_begun)
		connection->deadline_ns = clock_now_ns() + limits->request_ns;
	connection->request_begun = begun;
	if (begun)
		idle_end(connection);
	else
		idle_begin(connection);
	await_bytes(connection);
}

static void invite(struct connection *connection)
{
	static const char words[] = "HTTP/1.1 100 Continue\r\n\r\n";
	if (output_append(&connection->output, words, sizeof words - 1) == 0)
		connection_flush(connection); /* else the client sends its body after a while without the invitation */
}

static void feed(struct connection *connection, const char *bytes, size_t n_bytes);

static void go_on(struct connection *connection)
{
	if (connection->streams)
		read_body(connection);
	else
		read_on(connection);
}

static void tell_head(struct connection *connection, const struct http_request *request)
{
	note_request(connection, request);
	connection->set->handler.head(connection, request);
	if (!connection->streams || wants_body(connection))
		feed(connection, NULL, 0);
}

static void feed(struct connection *connection, const char *bytes, size_t n_bytes)
{
	struct http_request request;
	struct err err = {""};
	int status = 0;
	switch (http_feed(connection->parser, bytes, n_bytes, &request, &status, &err)) {
	case HTTP_ANNOUNCED:
		tell_head(connection, &request);
		break;
	case HTTP_PIECE:
		tell_body(connection, &request);
		read_body(connection);
		break;
	case HTTP_COMPLETE:
		if (connection->streams)
			tell_body_end(connection, &request);
		else
			tell_request(connection, &request);
		break;
	case HTTP_BAD:
		tell_refused(connection, status, err.text);
		break;
	case HTTP_CONTINUE:
		invite(connection);
		go_on(connection);
		break;
	case HTTP_NEED_MORE:
		if (connection->last && !http_is_midway(connection->parser))
			close_now(connection);
		else
			go_on(connection);
		break;
	}
}

/* More of a request, or of what comes behind the last one. */
static void read_bytes(struct connection *connection, int result)
{
	if (result > 0)
		connection->set->counts.received_bytes += (uint64_t)result;
	if (result == -ECANCELED) /* it was that of a request which took too long */
		await_bytes(connection);
	else if (result <= 0)
		close_now(connection);
	else if (connection->state == READING)
		feed(connection, connection->receive.buffer, (size_t)result);
	else
		await_bytes(connection);
}

/* The client is gone while its answer was being made. */
static void lose(struct connection *connection)
{
	connection->state = CLOSING; /* first, so that nothing `gone` calls can end the memory */
	connection->set->handler.gone(connection);
	wind_up(connection);
}

static void received(struct loop_op *op, int result)
{
	struct connection *connection = CONNECTION_OF(op, receive);
	switch (connection->state) {
	case READING:
	case LINGERING:
		read_bytes(connection, result);
		break;
	case ANSWERING:
		if (!wants_body(connection)) /* a request that took too long was refused: its rest is of no interest */
			break;
		if (result > 0) {
			connection->set->counts.received_bytes += (uint64_t)result;
			feed(connection, connection->receive.buffer, (size_t)result);
		} else {
			lose(connection);
		}
		break;
	case SENDING:
		break;
	case CLOSING:
		free_when_still(connection);
		break;
	}
}

static void hung_up(struct loop_op *op, int result)
{
	struct connection *connection = CONNECTION_OF(op, hangup);
	(void)result; /* poll bits, cancelled by give_up, or an error: the client cannot be watched any longer */
	connection->hung_up = true;
	if (connection->state == CLOSING) {
		free_when_still(connection);
	} else if (connection->state == ANSWERING) {
		lose(connection);
	} /* else the receive or the send will tell; an answer that is complete is sent to half an open connection, too
	   */
}

/* --- answers ---------------------------------------------------------------------------------- */

static void answer_left(struct connection *connection)
{
	output_fini(&connection->output);
	if (connection->keep_alive && !connection->last) {
		connection->state = READING;
		feed(connection, NULL, 0);
	} else {
		linger(connection);
	}
}

static void sent(struct loop_op *op, int result)
{
	struct connection *connection = CONNECTION_OF(op, send);
	if (connection->state == CLOSING) {
		free_when_still(connection);
		return;
	}
	if (result < 0) {
		if (connection->state == ANSWERING)
			connection_give_up(connection);
		else
			close_now(connection);
		return;
	}
	connection->set->counts.sent_bytes += (uint64_t)result;
	output_take(&connection->output, (size_t)result);
	if (connection->output.n_bytes) {
		if (connection->state == SENDING)
			connection->deadline_ns = clock_now_ns() + connection->set->limits.stall_ns;
		connection_flush(connection);
	} else if (connection->state == SENDING) {
		answer_left(connection);
	}
}

/* --- one connection --------------------------------------------------------------------------- */

static void tick(struct loop_op *op, int result);

static uint64_t tick_ns(const struct connection_limits *limits)
{
	uint64_t least = limits->idle_ns < limits->request_ns ? limits->idle_ns : limits->request_ns;
	if (limits->stall_ns < least)
		least = limits->stall_ns;
	least /= 4;
	return least > TICK_MAX_NS ? TICK_MAX_NS : least < TICK_MIN_NS ? TICK_MIN_NS : least;
}

int connection_open(struct connection_set *set, int socket)
{
	struct connection *connection = calloc(1, sizeof *connection);
	if (!connection || http_parser_new(set->limits.max_request_bytes, &connection->parser) != 0) {
		free(connection);
		close(socket);
		return -ENOMEM;
	}
	if (set->handler.head)
		http_announce(connection->parser);
	connection->set = set;
	connection->socket = socket;
	connection->last = set->draining;
	connection->receive.done = received;
	connection->send.done = sent;
	connection->hangup.done = hung_up;
	connection->next = set->first;
	if (set->first)
		set->first->previous = connection;
	set->first = connection;
	set->counts.opened++;
	set->crowded = false; /* there was a place */
	if (set->n++ == 0 && !set->tick.in_flight)
		loop_timer(set->loop, &set->tick, tick_ns(&set->limits));
	loop_hangup(set->loop, &connection->hangup, socket);
	read_on(connection);
	return 0;
}

void *connection_owner(const struct connection *connection)
{
	return connection->set->owner;
}

void *connection_answerer(const struct connection *connection)
{
	return connection->answerer;
}

void connection_set_answerer(struct connection *connection, void *answerer)
{
	connection->answerer = answerer;
}

void connection_set_lines(struct connection *connection, const char *lines)
{
	connection->lines = lines;
}

void connection_stream(struct connection *connection, uint64_t max_body_bytes)
{
	begin_answering(connection);
	connection->streams = true;
	http_stream(connection->parser, max_body_bytes);
}

void connection_pause(struct connection *connection)
{
	connection->paused = true;
	if (wants_body(connection))
		connection->deadline_ns = 0;
}

void connection_resume(struct connection *connection)
{
	connection->paused = false;
	if (wants_body(connection))
		read_body(connection);
}

const char *connection_origin(const struct connection *connection)
{
	return http_origin(connection->parser);
}

void connection_drain(struct connection *connection)
{
	connection->last = true;
	if (connection->state == READING && !http_is_midway(connection->parser))
		close_now(connection);
}

void connection_abort(struct connection *connection)
{
	close_now(connection);
}

uint64_t connection_queued(const struct connection *connection)
{
	return connection->output.n_bytes;
}

/* --- all of them ------------------------------------------------------------------------------ */

static void expire(struct connection *connection)
{
	struct connection_counts *counts = &connection->set->counts;
	if ((connection->state == READING && http_is_midway(connection->parser)) || wants_body(connection)) {
		counts->slow_request++;
		loop_cancel(connection->set->loop, &connection->receive);
		tell_refused(connection, 408, "the request did not arrive in time");
		return;
	}
	counts->idle += connection->state == READING;
	counts->slow_reader += connection->state == SENDING;
	close_now(connection);
}

static void tick(struct loop_op *op, int result)
{
	struct connection_set *set = (struct connection_set *)((char *)op - offsetof(struct connection_set, tick));
	uint64_t now = clock_now_ns();
	(void)result;
	for (struct connection *connection = set->first, *next; connection; connection = next) {
		next = connection->next; /* whatever `expire` leads to, no connection's memory goes before its own
					    `done` */
		if (connection->deadline_ns && connection->deadline_ns <= now)
			expire(connection);
	}
	if (set->n)
		loop_timer(set->loop, op, tick_ns(&set->limits));
}

void connection_set_init(struct connection_set *set, struct loop *loop, const struct connection_handler *handler,
			 const struct connection_limits *limits, void *owner)
{
	*set = (struct connection_set){
		.loop = loop,
		.handler = *handler,
		.limits = *limits,
		.owner = owner,
		.tick.done = tick,
	};
	if (!set->limits.idle_ns)
		set->limits.idle_ns = 75 * SECOND;
	if (!set->limits.request_ns)
		set->limits.request_ns = 30 * SECOND;
	if (!set->limits.stall_ns)
		set->limits.stall_ns = 30 * SECOND;
}

void connection_set_drain(struct connection_set *set)
{
	set->draining = true;
	for (struct connection *connection = set->first, *next; connection; connection = next) {
		next = connection->next;
		connection_drain(connection);
	}
}

bool connection_set_make_room(struct connection_set *set)
{
	struct connection *longest = set->idle_first;
	set->crowded = true;
	/* An idle connection's deadline says since when it is one. */
	if (!longest || clock_now_ns() + set->limits.idle_ns < longest->deadline_ns + GRACE_NS)
		return false;
	set->counts.made_room++;
	close_now(longest);
	return true;
}

void connection_set_abort(struct connection_set *set)
{
	for (struct connection *connection = set->first, *next; connection; connection = next) {
		next = connection->next;
		connection_abort(connection);
	}
}
