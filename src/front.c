#include "src/front.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "numa/bind.h"
#include "src/clock.h"
#include "src/front/exchange.h"
#include "src/front/route.h"
#include "src/log.h"
#include "src/privilege.h"
#include "src/roles.h"

#define MS CLOCK_MS_NS

enum {
	RING_ENTRIES = 1024,
	ACCEPT_PAUSE_MS = 100, /* when the system has no descriptors or no memory to accept with */
	DRAIN_S = 30,	       /* calls in flight may take so long to end */
	DRAIN_LOOK_MS = 20,
	OTHER_DESCRIPTORS = 1024,  /* channels of workers (three each), listeners, the loop */
	MMAP_THRESHOLD = 64 << 10, /* bytes; larger blocks go back to the kernel when they are freed */
};

/* --- listeners -------------------------------------------------------------------------------- */

/* Accepts unless there are connections enough: then clients wait in the listener's backlog until one closes. */
static void accept_next(struct front_listener *listener)
{
	struct front *front = listener->front;
	if (!front->drain_until_ns && !listener->accept.in_flight && !listener->pause.in_flight &&
	    front->connections.n < front->order.max_connections)
		loop_accept(front->loop, &listener->accept, listener->fd);
}

static void on_accept(struct loop_op *op, int result)
{
	struct front_listener *listener =
		(struct front_listener *)((char *)op - offsetof(struct front_listener, accept));
	struct front *front = listener->front;
	/* Also one that came while the accept was being cancelled for the drain: it is answered like the others. */
	if (result >= 0 && connection_open(&front->connections, result))
		log_warning("no memory for a connection");
	if (result < 0 && result != -ECONNABORTED && result != -ECANCELED) {
		log_warning("accept: %s", strerror(-result));
		loop_timer(front->loop, &listener->pause, ACCEPT_PAUSE_MS * MS);
	}
	accept_next(listener);
}

static void on_pause(struct loop_op *op, int result)
{
	struct front_listener *listener =
		(struct front_listener *)((char *)op - offsetof(struct front_listener, pause));
	if (result == 0)
		accept_next(listener);
}

static void start_listening(struct front *front)
{
	const int yes = 1;
	for (unsigned i = 0; i < front->n_listeners; i++) {
		struct front_listener *listener = &front->listener[i];
		listener->front = front;
		listener->accept.done = on_accept;
		listener->pause.done = on_pause;
		/* Events are small and each one matters; what is accepted inherits this. A Unix socket does not know
		 * it. */
		setsockopt(listener->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
		accept_next(listener);
	}
}

/* --- connections ------------------------------------------------------------------------------ */

static void on_gone(struct connection *connection)
{
	struct exchange *exchange = connection_answerer(connection);
	if (exchange)
		exchange_abandon(exchange);
}

static void on_closed(struct connection *connection)
{
	struct front *front = connection_owner(connection);
	/* Not from here: the connection may still be counted. */
	for (unsigned i = 0; i < front->n_listeners; i++)
		if (!front->listener[i].accept.in_flight && !front->listener[i].pause.in_flight)
			loop_timer(front->loop, &front->listener[i].pause, 0);
}

static const struct connection_handler handler = {
	.request = route_request,
	.refused = route_refused,
	.gone = on_gone,
	.closed = on_closed,
};

/* --- the parent ------------------------------------------------------------------------------- */

static void finish(struct front *front, int status)
{
	front->status = status;
	loop_stop(front->loop);
}

static void on_drain(struct loop_op *op, int result)
{
	struct front *front = (struct front *)((char *)op - offsetof(struct front, drain));
	bool late = clock_now_ns() > front->drain_until_ns;
	if (result < 0)
		return;
	if (late)
		log_warning("%u calls did not end in %d s; their clients are cut off", front->calls.n, DRAIN_S);
	if (late || (front->connections.n == 0 && front->calls.n == 0))
		finish(front, 0);
	else
		loop_timer(front->loop, op, DRAIN_LOOK_MS * MS);
}

static void start_drain(struct front *front)
{
	if (front->drain_until_ns)
		return;
	front->drain_until_ns = clock_now_ns() + DRAIN_S * 1000 * MS;
	for (unsigned i = 0; i < front->n_listeners; i++)
		loop_cancel(front->loop, &front->listener[i].accept);
	connection_set_drain(&front->connections);
	loop_timer(front->loop, &front->drain, 0);
}

/* Acts on one message; descriptors it does not take are the caller's to close. -EPROTO. */
static int obey(struct front *front, struct message *message)
{
	const struct message_worker_up *up = message_payload(message, sizeof *up, 3);
	const struct message_worker_down *down = message_payload(message, sizeof *down, 0);
	const struct message_state *state = message_payload(message, sizeof *state, 0);
	if (message->type == MESSAGE_WORKER_UP && up) {
		struct channel_fds fds = {message->fds[0], message->fds[1], message->fds[2]};
		message->n_fds = 0;
		fleet_worker_up(front, up, &fds);
	} else if (message->type == MESSAGE_WORKER_DOWN && down) {
		fleet_worker_down(front, down->worker);
	} else if (message->type == MESSAGE_STATE && state &&
		   state->n_nodes <= sizeof state->node / sizeof *state->node &&
		   state->n_models <= sizeof state->model / sizeof *state->model) {
		front->state = *state;
		front->has_state = true;
	} else if (message->type == MESSAGE_DRAIN) {
		start_drain(front);
	} else {
		return -EPROTO;
	}
	return 0;
}

static void on_control(struct loop_op *op, int result)
{
	struct front *front = (struct front *)((char *)op - offsetof(struct front, control));
	static struct message message; /* too large for a stack; used by one callback at a time */
	int rc = result < 0 ? result : 1;
	if (result == -ECANCELED)
		return;
	while (rc == 1 && (rc = message_receive(MESSAGE_FD, &message)) == 1) {
		int obeyed = obey(front, &message);
		for (uint32_t i = 0; i < message.n_fds; i++)
			close(message.fds[i]);
		if (obeyed) {
			log_error("the parent sent a message of type %u that can't be", message.type);
			rc = obeyed;
		}
	}
	if (rc == -EAGAIN) {
		loop_poll(front->loop, op, MESSAGE_FD);
		return;
	}
	if (rc < 0)
		log_error("the parent's socket: %s", strerror(-rc));
	finish(front,
	       1); /* without the parent there is nobody to restart workers; it is the one to start a new front */
}

/* --- pulse ------------------------------------------------------------------------------------ */

/* Shows the parent that this loop turns, also when no client comes. */
static void on_beat(struct loop_op *op, int result)
{
	struct front *front = (struct front *)((char *)op - offsetof(struct front, beat));
	if (result < 0)
		return;
	pulse_beat(front->pulse, front->metrics.n_answered);
	loop_timer(front->loop, op, PULSE_TURN_MS * MS);
}

/* --- start and stop --------------------------------------------------------------------------- */

static int receive_order(struct front *front, struct err *err)
{
	static struct message message;
	int rc = message_receive(MESSAGE_FD, &message);
	if (rc != 1)
		return err_set(err, rc ? rc : -EPIPE, "no order from the parent");
	const struct message_serve *order = message_payload(&message, sizeof *order, message.n_fds);
	if (message.type != MESSAGE_SERVE || !order || message.n_fds != 2u + (order->has_tcp != 0))
		return err_set(err, -EPROTO, "the parent's first message (type %u) is not a front's order",
			       message.type);
	front->order = *order;
	for (uint32_t i = 1; i < message.n_fds; i++)
		front->listener[front->n_listeners++].fd = message.fds[i];
	rc = pulse_attach(message.fds[0], &front->pulse, err);
	close(message.fds[0]);
	if (rc)
		return rc;
	int flags = fcntl(MESSAGE_FD, F_GETFL);
	if (flags < 0 || fcntl(MESSAGE_FD, F_SETFL, flags | O_NONBLOCK))
		return err_set(err, -errno, "the parent's socket: %s", strerror(errno));
	return 0;
}

/* One descriptor per connection: takes what the hard limit gives, and lives with fewer connections if that is too
 * little. */
static void make_room_for_connections(struct front *front)
{
	struct rlimit limit;
	rlim_t wanted = (rlim_t)front->order.max_connections + OTHER_DESCRIPTORS;
	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= wanted)
		return;
	limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
	if (!setrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur == wanted)
		return;
	getrlimit(RLIMIT_NOFILE, &limit);
	uint32_t fit = limit.rlim_cur > 2 * OTHER_DESCRIPTORS ? (uint32_t)limit.rlim_cur - OTHER_DESCRIPTORS
							      : (uint32_t)limit.rlim_cur / 2;
	if (fit < front->order.max_connections) {
		log_warning(
			"max_connections is %u, but only %llu descriptors are allowed (RLIMIT_NOFILE): %u connections",
			front->order.max_connections, (unsigned long long)limit.rlim_cur, fit);
		front->order.max_connections = fit;
	}
}

static int start(struct front *front, struct err *err)
{
	struct err warning;
	/* The C library would raise this by itself when a large block is freed, and keep such blocks from then on: one
	 * large request would be remembered for ever. */
	mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD);
	int rc = receive_order(front, err);
	if (rc)
		return rc;
	rc = privilege_drop(front->order.uid, front->order.gid, err);
	if (rc)
		return rc;
	if (idset_count(&front->order.cpus) && bind_thread(&front->order.cpus, &warning))
		log_warning("not bound to its CPUs: %s", warning.text); /* it serves all the same */
	make_room_for_connections(front);
	front->fleet.by_beginning = front->order.prefix_cache;
	rc = call_table_init(&front->calls, front->order.max_queue);
	if (rc)
		return err_set(err, rc, "no memory for the table of calls");
	rc = loop_new((enum io_backend)front->order.io, RING_ENTRIES, &front->loop, err);
	if (rc)
		return rc;
	struct connection_limits limits = {
		.max_request_bytes = front->order.max_request_bytes,
		.client_buffer_bytes = front->order.client_buffer_bytes,
	};
	connection_set_init(&front->connections, front->loop, &handler, &limits, front);
	front->drain.done = on_drain;
	front->control.done = on_control;
	front->beat.done = on_beat;
	loop_timer(front->loop, &front->beat, 0);
	loop_poll(front->loop, &front->control, MESSAGE_FD);
	start_listening(front);
	log_info("listening, io %s", loop_backend(front->loop) == IO_URING ? "uring" : "epoll");
	struct message_front_ready ready = {loop_backend(front->loop)};
	return message_send(MESSAGE_FD, MESSAGE_READY, &ready, sizeof ready, NULL, 0);
}

static struct exchange *any_exchange(const struct front *front)
{
	for (struct front_worker *w = front->fleet.workers; w; w = w->next)
		for (struct front_call *call = w->first; call; call = call->next)
			if (call->exchange)
				return call->exchange;
	return NULL;
}

/* What is left when the loop has stopped: clients are cut off, workers are let go of. */
static void stop(struct front *front)
{
	for (struct exchange *exchange; (exchange = any_exchange(front));)
		exchange_abandon(exchange);
	while (front->fleet.workers)
		fleet_worker_down(front, front->fleet.workers->index);
	if (front->loop) {
		connection_set_abort(&front->connections);
		loop_free(front->loop);
	}
	call_table_fini(&front->calls);
	api_json_fini(&front->scratch);
	pulse_detach(front->pulse);
}

int front_main(void)
{
	static struct front front; /* zeroed; one front per process */
	struct err err = {""};
	int rc = start(&front, &err);
	if (!rc)
		rc = loop_run(front.loop);
	if (rc) {
		struct message_failed failed = {err};
		if (!err.text[0])
			err_set(&failed.err, rc, "the event loop: %s", strerror(-rc));
		log_error("%s", failed.err.text);
		message_send(MESSAGE_FD, MESSAGE_FAILED, &failed, sizeof failed, NULL, 0);
		front.status = 1;
	}
	stop(&front);
	return front.status;
}
