#include "src/front/front.h"

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
#include "src/front/answerer.h"
#include "src/front/exchange.h"
#include "src/front/metrics_figures.h"
#include "src/front/overview.h"
#include "src/front/route.h"
#include "src/front/speech.h"
#include "src/front/wish.h"
#include "src/log.h"
#include "src/privilege.h"
#include "src/roles.h"

#define MS CLOCK_MS_NS

enum {
	RING_ENTRIES = 1024,
	ACCEPT_PAUSE_MS = 100, /* a client waits and there is no place for it: before the next look */
	DRAIN_S = 30,	       /* calls in flight may take so long to end */
	DRAIN_LOOK_MS = 20,
	OWN_DESCRIPTORS = 16,	   /* standard ones, parent, listeners, loop, those of one message, and one over */
	WORKER_DESCRIPTORS = 6,	   /* a channel has three; it and that of a successor may meet for a moment */
	CROWD = 256,		   /* connections whose going is worth giving memory back */
	MMAP_THRESHOLD = 64 << 10, /* bytes; larger blocks go back to the kernel when they are freed */
};

/* --- listeners -------------------------------------------------------------------------------- */

/* Accepts; when there are connections enough, waits for a client that waits for a place. */
static void accept_next(struct front_listener *listener)
{
	struct front *front = listener->front;
	if (front->drain_until_ns || listener->accept.in_flight || listener->queue.in_flight ||
	    listener->pause.in_flight)
		return;
	if (front->connections.n < front->order.max_connections)
		loop_accept(front->loop, &listener->accept, listener->fd);
	else
		loop_poll(front->loop, &listener->queue, listener->fd);
}

/* A client waits and can't be taken: an idle connection makes room, or else we look again a little later. */
static void make_room(struct front_listener *listener)
{
	struct front *front = listener->front;
	connection_set_make_room(&front->connections); /* if it does, on_closed goes on at once */
	loop_timer(front->loop, &listener->pause, ACCEPT_PAUSE_MS * MS);
}

static void on_accept(struct loop_op *op, int result)
{
	struct front_listener *listener =
		(struct front_listener *)((char *)op - offsetof(struct front_listener, accept));
	struct front *front = listener->front;
	/* Also one that came while the accept was being cancelled for the drain: it is answered like the others. */
	if (result >= 0 && connection_open(&front->connections, result))
		log_warning("no memory for a connection");
	if (result >= 0 && front->accept_fails)
		log_info("accepting connections again");
	if (result >= 0)
		front->accept_fails = false;
	if (front->connections.n > front->most_connections)
		front->most_connections = front->connections.n;
	if (result < 0 && result != -ECONNABORTED && result != -ECANCELED) {
		if (!front->accept_fails)
			log_warning("accept: %s; clients wait until it works again", strerror(-result));
		front->accept_fails = true;
		make_room(listener);
	}
	accept_next(listener);
}

static void on_queue(struct loop_op *op, int result)
{
	struct front_listener *listener =
		(struct front_listener *)((char *)op - offsetof(struct front_listener, queue));
	struct front *front = listener->front;
	if (result != -ECANCELED && front->connections.n >= front->order.max_connections)
		make_room(listener);
	accept_next(listener);
}

static void on_pause(struct loop_op *op, int result)
{
	struct front_listener *listener =
		(struct front_listener *)((char *)op - offsetof(struct front_listener, pause));
	(void)result; /* cancelled: there is a place now */
	accept_next(listener);
}

static void start_listening(struct front *front)
{
	const int yes = 1;
	for (unsigned i = 0; i < front->n_listeners; i++) {
		struct front_listener *listener = &front->listener[i];
		listener->front = front;
		listener->accept.done = on_accept;
		listener->queue.done = on_queue;
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
	struct answerer *answerer = connection_answerer(connection);
	if (answerer)
		answerer->gone(answerer);
}

/* A place is free. Memory of a crowd that has gone lies between what is still in use, where the C library keeps it. */
static void on_closed(struct connection *connection)
{
	struct front *front = connection_owner(connection);
	for (unsigned i = 0; i < front->n_listeners; i++) {
		struct front_listener *listener = &front->listener[i];
		loop_cancel(front->loop, &listener->queue);
		loop_cancel(front->loop, &listener->pause);
		accept_next(listener); /* if neither was under way */
	}
	if (front->most_connections >= CROWD && front->connections.n <= front->most_connections / 2) {
		malloc_trim(0);
		front->most_connections = front->connections.n;
	}
}

static const struct connection_handler handler = {
	.request = route_request,
	.head = route_head,
	.body = speech_body,
	.body_end = speech_body_end,
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
	for (unsigned i = 0; i < front->n_listeners; i++) {
		loop_cancel(front->loop, &front->listener[i].accept);
		loop_cancel(front->loop, &front->listener[i].queue);
	}
	connection_set_drain(&front->connections);
	loop_timer(front->loop, &front->drain, 0);
}

/* What the parent says of adapters. */
static int obey_adapters(struct front *front, struct message *message)
{
	const struct message_adapter_up *up = message_payload(message, sizeof *up, 0);
	const struct message_adapter *down = message_payload(message, sizeof *down, 0);
	const struct message_adapter_answer *answer = message_payload(message, sizeof *answer, 0);
	if (message->type == MESSAGE_ADAPTER_UP && up)
		return roster_up(&front->roster, up);
	if (message->type == MESSAGE_ADAPTER_DOWN && down)
		roster_down(&front->roster, down->id);
	else if (message->type == MESSAGE_ADAPTER_ANSWER && answer)
		wish_answered(front, answer);
	else
		return -EPROTO;
	return 0;
}

static void tell_audio_broken(uint32_t index)
{
	const struct message_audio_up down = {index};
	int rc = message_send(MESSAGE_FD, MESSAGE_AUDIO_DOWN, &down, sizeof down, NULL, 0);
	if (rc)
		log_error("the parent can't be told about audio process %u: %s", index, strerror(-rc));
}

/* What it says of processes that decode audio. */
static int obey_audio(struct front *front, struct message *message)
{
	struct err err;
	const struct message_audio_up *up = message_payload(message, sizeof *up, 3);
	const struct message_audio_up *down = message_payload(message, sizeof *down, 0);
	if (message->type == MESSAGE_AUDIO_UP && up) {
		struct channel_fds fds = {message->fds[0], message->fds[1], message->fds[2]};
		message->n_fds = 0;
		if (audio_pool_up(&front->audio, up->index, &fds, &err)) {
			log_error("audio process %u: %s", up->index, err.text);
			tell_audio_broken(up->index); /* so that there is another one */
		}
	} else if (message->type == MESSAGE_AUDIO_DOWN && down) {
		audio_pool_down(&front->audio, down->index);
	} else {
		return -EPROTO;
	}
	return 0;
}

static bool tell_idle(uint32_t id)
{
	const struct message_adapter idle = {id};
	return !message_send(MESSAGE_FD, MESSAGE_ADAPTER_IDLE, &idle, sizeof idle, NULL, 0);
}

/* Acts on one message; descriptors it does not take are the caller's to close. -EPROTO. */
static int obey(struct front *front, struct message *message)
{
	const struct message_worker_up *up = message_payload(message, sizeof *up, 3);
	const struct message_worker_down *down = message_payload(message, sizeof *down, 0);
	const struct message_flip *flip = message_payload(message, sizeof *flip, 0);
	const struct message_worker_copy *copy = message_payload(message, sizeof *copy, 0);
	const struct message_state *state = message_payload(message, sizeof *state, 0);
	const struct message_figures *figures = message_payload(message, sizeof *figures, 0);
	const struct message_overview *overview = message_payload(message, sizeof *overview, 0);
	if (message->type == MESSAGE_AUDIO_UP || message->type == MESSAGE_AUDIO_DOWN)
		return obey_audio(front, message);
	if (message->type == MESSAGE_WORKER_UP && up) {
		struct channel_fds fds = {message->fds[0], message->fds[1], message->fds[2]};
		message->n_fds = 0;
		fleet_worker_up(front, up, &fds);
	} else if (message->type == MESSAGE_WORKER_DOWN && down) {
		fleet_worker_down(front, down->worker);
	} else if (message->type == MESSAGE_FLIP && flip) {
		return fleet_flip(&front->fleet, flip);
	} else if (message->type == MESSAGE_WORKER_COPY && copy) {
		fleet_worker_copy(&front->fleet, copy);
	} else if (message->type == MESSAGE_STATE && state &&
		   state->n_nodes <= sizeof state->node / sizeof *state->node &&
		   state->n_models <= sizeof state->model / sizeof *state->model) {
		front->state = *state;
		front->has_state = true;
		fleet_forget(&front->fleet, state);
	} else if (message->type == MESSAGE_FIGURES && figures && metrics_figures_valid(figures)) {
		front->figures = *figures;
		front->has_figures = true;
	} else if (message->type == MESSAGE_OVERVIEW && overview && overview_valid(overview)) {
		front->overview = *overview;
		front->has_overview = true;
		front->told_ns = clock_now_ns();
	} else if (message->type == MESSAGE_DRAIN) {
		start_drain(front);
	} else {
		return obey_adapters(front, message);
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
	pulse_beat(front->pulse);
	roster_sweep(&front->roster);
	fleet_settle(&front->fleet);
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
	if (message.type != MESSAGE_SERVE || !order ||
	    message.n_fds != 2u + (order->has_tcp != 0) + (order->has_keys != 0))
		return err_set(err, -EPROTO, "the parent's first message (type %u) is not a front's order",
			       message.type);
	front->order = *order;
	for (uint32_t i = 1; i < 2u + (order->has_tcp != 0); i++)
		front->listener[front->n_listeners++].fd = message.fds[i];
	rc = pulse_attach(message.fds[0], &front->pulse, err);
	close(message.fds[0]);
	if (!rc && order->has_keys)
		rc = keys_read(message.fds[message.n_fds - 1], &front->keys, err);
	if (order->has_keys)
		close(message.fds[message.n_fds - 1]);
	if (rc)
		return rc;
	int flags = fcntl(MESSAGE_FD, F_GETFL);
	if (flags < 0 || fcntl(MESSAGE_FD, F_SETFL, flags | O_NONBLOCK))
		return err_set(err, -errno, "the parent's socket: %s", strerror(errno));
	return 0;
}

/* One descriptor per connection: takes what the hard limit gives, and lives with fewer connections if that is too
 * little. The descriptors of workers are set aside: a front that can't take their channels would serve nobody. */
static int make_room_for_connections(struct front *front, struct err *err)
{
	struct rlimit limit;
	rlim_t others = OWN_DESCRIPTORS + (rlim_t)WORKER_DESCRIPTORS * front->order.max_workers;
	rlim_t wanted = front->order.max_connections + others;
	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= wanted)
		return 0;
	limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur >= wanted)
		return 0;
	if (limit.rlim_cur <= others)
		return err_set(
			err, -EMFILE,
			"%llu descriptors are allowed (RLIMIT_NOFILE): too few for the channels of %u workers and "
			"audio processes and a connection, which take %llu",
			(unsigned long long)limit.rlim_cur, front->order.max_workers, (unsigned long long)others + 1);
	front->order.max_connections = (uint32_t)(limit.rlim_cur - others);
	log_warning("only %u connections at a time instead of %llu: %llu descriptors are allowed (RLIMIT_NOFILE)",
		    front->order.max_connections, (unsigned long long)(wanted - others),
		    (unsigned long long)limit.rlim_cur);
	return 0;
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
	rc = make_room_for_connections(front, err);
	if (rc)
		return rc;
	front->fleet.by_beginning = front->order.prefix_cache;
	front->fleet.max_running = front->order.max_running;
	if (!memchr(front->order.cors_origins, 0, sizeof front->order.cors_origins))
		return err_set(err, -EPROTO, "the parent's list of origins does not end");
	rc = cors_init(&front->cors, front->order.cors_origins);
	if (rc)
		return err_set(err, rc, "no memory for the list of origins");
	front->roster.idle = tell_idle;
	rc = call_table_init(&front->calls, front->order.max_queue);
	if (rc)
		return err_set(err, rc, "no memory for the table of calls");
	rc = loop_new((enum io_backend)front->order.io, RING_ENTRIES, &front->loop, err);
	if (rc)
		return rc;
	if (front->order.io == IO_AUTO && loop_backend(front->loop) == IO_EPOLL)
		log_warning("%s; epoll is used instead", err->text);
	audio_pool_init(&front->audio, front->loop, front->order.max_queue, front->order.max_audio_bytes,
			tell_audio_broken);
	struct connection_limits limits = {
		.max_request_bytes = front->order.max_request_bytes,
		.client_buffer_bytes = front->order.client_buffer_bytes,
		.idle_ns = front->order.idle_seconds * 1000 * MS,
		.request_ns = front->order.request_seconds * 1000 * MS,
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
	speech_fini(front);
	wish_fini(front);
	while (front->fleet.workers)
		fleet_worker_down(front, front->fleet.workers->index);
	audio_pool_fini(&front->audio);
	roster_fini(&front->roster);
	if (front->loop) {
		connection_set_abort(&front->connections);
		loop_free(front->loop);
	}
	call_table_fini(&front->calls);
	api_json_fini(&front->scratch);
	keys_free(&front->keys);
	cors_fini(&front->cors);
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
		struct message_failed failed = {.err = err};
		if (!err.text[0])
			err_set(&failed.err, rc, "the event loop: %s", strerror(-rc));
		log_error("%s", failed.err.text);
		message_send(MESSAGE_FD, MESSAGE_FAILED, &failed, sizeof failed, NULL, 0);
		front.status = 1;
	}
	stop(&front);
	return front.status;
}
