/* The event loop's common part: it keeps the list of what is in flight and leaves the rest to a backend.
 *
 *   loop_receive(op) --> in flight --> backend.start --> (kernel) --> backend.turn --> loop_finish --> op->done(op, n)
 *                                           ^                                                              |
 *                                           +------------------- the same op, started again ---------------+
 *
 * The one rule both backends keep: `done` is called from `turn` and from nowhere else. A caller may therefore start and
 * cancel operations in the middle of its own bookkeeping without being called back in between. */
#include "io/loop_internal.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>

int loop_new(enum io_backend backend, unsigned entries, struct loop **out, struct err *err)
{
	switch (backend) {
	case IO_URING:
		return loop_uring_new(entries, out, err);
	case IO_EPOLL:
		return loop_epoll_new(out, err);
	case IO_AUTO:
		if (loop_uring_new(entries, out, err) == 0)
			return 0;
		return loop_epoll_new(out, err);
	}
	return err_set(err, -EINVAL, "no such io backend: %d", (int)backend);
}

void loop_free(struct loop *loop)
{
	if (!loop)
		return;
	loop->closing = true;
	for (struct loop_op *op = loop->first; op; op = op->next)
		loop_cancel(loop, op);
	while (loop->first) {
		loop->stopped = false;
		if (loop->backend->turn(loop) != 0)
			break; /* no kernel interface any more; what is left is told below */
	}
	while (loop->first)
		loop_finish(loop, loop->first, -ECANCELED);
	loop->backend->free(loop);
}

enum io_backend loop_backend(const struct loop *loop)
{
	return loop->backend->id;
}

static void start(struct loop *loop, struct loop_op *op, enum loop_kind kind, int fd)
{
	assert(op->done && !op->in_flight);
	if (loop->closing)
		return;
	op->kind = kind;
	op->fd = fd;
	op->phase = 0;
	op->cancelled = false;
	op->in_flight = true;
	op->link = NULL;
	op->previous = NULL;
	op->next = loop->first;
	if (loop->first)
		loop->first->previous = op;
	loop->first = op;
	loop->backend->start(loop, op);
}

void loop_finish(struct loop *loop, struct loop_op *op, int result)
{
	if (op->previous)
		op->previous->next = op->next;
	else
		loop->first = op->next;
	if (op->next)
		op->next->previous = op->previous;
	op->next = op->previous = op->link = NULL;
	op->in_flight = false;
	op->done(op, result);
}

void loop_accept(struct loop *loop, struct loop_op *op, int listener)
{
	start(loop, op, LOOP_ACCEPT, listener);
}

void loop_receive(struct loop *loop, struct loop_op *op, int socket, void *buffer, size_t n_bytes)
{
	op->buffer = buffer;
	op->n_bytes = n_bytes;
	start(loop, op, LOOP_RECEIVE, socket);
}

void loop_receive_lent(struct loop *loop, struct loop_op *op, int socket)
{
	op->buffer = NULL; /* the backend's to fill in */
	op->n_bytes = LOOP_LENT_BYTES;
	start(loop, op, LOOP_LENT, socket);
}

void loop_send(struct loop *loop, struct loop_op *op, int socket, const void *buffer, size_t n_bytes)
{
	op->buffer = (void *)(uintptr_t)buffer; /* const goes: one field serves both directions, a send only reads it */
	op->n_bytes = n_bytes;
	start(loop, op, LOOP_SEND, socket);
}

void loop_read(struct loop *loop, struct loop_op *op, int fd, void *buffer, size_t n_bytes)
{
	op->buffer = buffer;
	op->n_bytes = n_bytes;
	start(loop, op, LOOP_READ, fd);
}

void loop_poll(struct loop *loop, struct loop_op *op, int fd)
{
	start(loop, op, LOOP_POLL, fd);
}

void loop_hangup(struct loop *loop, struct loop_op *op, int socket)
{
	start(loop, op, LOOP_HANGUP, socket);
}

void loop_timer(struct loop *loop, struct loop_op *op, uint64_t after_ns)
{
	op->timespec[0] = after_ns / 1000000000;
	op->timespec[1] = after_ns % 1000000000;
	start(loop, op, LOOP_TIMER, -1);
}

void loop_cancel(struct loop *loop, struct loop_op *op)
{
	if (!op->in_flight || op->cancelled)
		return;
	op->cancelled = true;
	loop->backend->cancel(loop, op);
}

short loop_interest(const struct loop_op *op)
{
	switch ((enum loop_kind)op->kind) {
	case LOOP_SEND:
		return POLLOUT;
	case LOOP_HANGUP:
		return POLLRDHUP; /* the kernel adds POLLERR and POLLHUP itself */
	case LOOP_ACCEPT:
	case LOOP_RECEIVE:
	case LOOP_LENT:
	case LOOP_READ:
	case LOOP_POLL:
	case LOOP_TIMER:
		break;
	}
	return POLLIN;
}

int loop_run(struct loop *loop)
{
	int rc = 0;
	while (rc == 0 && !loop->stopped && loop->first)
		rc = loop->backend->turn(loop);
	loop->stopped = false;
	return rc;
}

void loop_stop(struct loop *loop)
{
	loop->stopped = true;
}
