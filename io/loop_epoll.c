/* The loop on epoll, for kernels and containers without io_uring: the same promises kept with readiness.
 *
 *             start               would block                event on the fd
 *   (caller) -------> ready list -------------> watch of fd ------------------> ready list ...
 *                     |     ^  \                                                  |
 *                     |     |   `--> timer list --- time is up ------------------>|
 *                     v     `------- cancel (from a watch or the timers) ---------'
 *                loop_finish
 *
 * An operation is tried without blocking as soon as the turn comes to it, as io_uring does, and only if it would block
 * is its descriptor armed. Every arming is EPOLLONESHOT: registrations never outlive the wait they were made for, so a
 * descriptor number that was closed and given out again cannot inherit one. An event only puts operations back on the
 * ready list, where the attempt itself decides: a stale or foreign event costs a system call and changes nothing.
 *
 * Rejected: edge-triggered registrations kept per connection. One system call less per message, but the bookkeeping
 * has to follow every close(2) of the caller; this backend is the fallback, not the fast path. */
#include "io/loop_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS_PER_TURN = 128 };

enum phase {
	READY = 1, /* on the ready list */
	WATCHED,   /* on its descriptor's watch */
	TIMED,	   /* on the timer list */
};

struct watch {
	struct loop_op *first; /* operations waiting for this descriptor */
};

struct loop_epoll {
	struct loop loop;
	int fd;
	struct watch *watches; /* [n_watches], by descriptor */
	size_t n_watches;
	struct loop_op *ready, **ready_end; /* first in, first out */
	struct loop_op *timers;		    /* by deadline; few, so a list does */
	char lent[LOOP_LENT_BYTES];	    /* of lent receives: `done` runs right after each */
};

static struct loop_epoll *epoll_of(struct loop *loop)
{
	return (struct loop_epoll *)loop; /* `loop` is its first member */
}

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t deadline_of(const struct loop_op *op)
{
	return op->timespec[0];
}

static void make_ready(struct loop_epoll *epoll, struct loop_op *op)
{
	op->phase = READY;
	op->link = NULL;
	*epoll->ready_end = op;
	epoll->ready_end = &op->link;
}

static void unlink_from(struct loop_op **list, const struct loop_op *op)
{
	while (*list != op)
		list = &(*list)->link;
	*list = op->link;
}

static void add_timer(struct loop_epoll *epoll, struct loop_op *op)
{
	uint64_t after_ns, deadline_ns;
	if (__builtin_mul_overflow(op->timespec[0], UINT64_C(1000000000), &after_ns) ||
	    __builtin_add_overflow(after_ns, op->timespec[1], &after_ns) ||
	    __builtin_add_overflow(now_ns(), after_ns, &deadline_ns))
		deadline_ns = UINT64_MAX;
	op->timespec[0] = deadline_ns; /* from here on absolute */
	op->phase = TIMED;
	struct loop_op **place = &epoll->timers;
	while (*place && deadline_of(*place) <= deadline_ns)
		place = &(*place)->link;
	op->link = *place;
	*place = op;
}

static void epoll_start(struct loop *loop, struct loop_op *op)
{
	if (op->kind == LOOP_LENT)
		op->buffer = epoll_of(loop)->lent;
	if (op->kind == LOOP_TIMER)
		add_timer(epoll_of(loop), op);
	else
		make_ready(epoll_of(loop), op);
}

static uint32_t interest_of(const struct watch *watch)
{
	uint32_t interest = 0;
	for (const struct loop_op *op = watch->first; op; op = op->link)
		interest |= (uint32_t)loop_interest(op); /* EPOLLIN, EPOLLOUT, EPOLLRDHUP have poll(2)'s values */
	return interest;
}

static int arm(struct loop_epoll *epoll, int fd)
{
	uint32_t interest = interest_of(&epoll->watches[fd]);
	if (interest == 0) {
		epoll_ctl(epoll->fd, EPOLL_CTL_DEL, fd, NULL); /* not there (closed meanwhile): as good */
		return 0;
	}
	struct epoll_event event = {.events = interest | EPOLLONESHOT, .data.fd = fd};
	if (epoll_ctl(epoll->fd, EPOLL_CTL_MOD, fd, &event) == 0)
		return 0;
	if (errno == ENOENT && epoll_ctl(epoll->fd, EPOLL_CTL_ADD, fd, &event) == 0)
		return 0;
	return -errno;
}

static void epoll_cancel(struct loop *loop, struct loop_op *op)
{
	struct loop_epoll *epoll = epoll_of(loop);
	switch ((enum phase)op->phase) {
	case READY:
		return; /* the turn sees `cancelled` */
	case TIMED:
		unlink_from(&epoll->timers, op);
		break;
	case WATCHED:
		unlink_from(&epoll->watches[op->fd].first, op);
		arm(epoll, op->fd); /* only narrows what is armed: nothing is lost if it fails */
		break;
	}
	make_ready(epoll, op);
}

/* Room for `fd`'s watch. */
static int cover(struct loop_epoll *epoll, int fd)
{
	size_t n = epoll->n_watches;
	if ((size_t)fd < n)
		return 0;
	size_t wanted = n ? n : 64;
	while (wanted <= (size_t)fd)
		wanted *= 2;
	struct watch *watches = realloc(epoll->watches, wanted * sizeof *watches);
	if (!watches)
		return -ENOMEM;
	memset(watches + n, 0, (wanted - n) * sizeof *watches);
	epoll->watches = watches;
	epoll->n_watches = wanted;
	return 0;
}

static int watch(struct loop_epoll *epoll, struct loop_op *op)
{
	int rc = cover(epoll, op->fd);
	if (rc != 0)
		return rc;
	struct watch *mine = &epoll->watches[op->fd];
	op->link = mine->first;
	mine->first = op;
	op->phase = WATCHED;
	rc = arm(epoll, op->fd);
	if (rc != 0)
		unlink_from(&mine->first, op);
	return rc;
}

static int poll_now(const struct loop_op *op)
{
	struct pollfd entry = {.fd = op->fd, .events = loop_interest(op)};
	int n = poll(&entry, 1, 0);
	if (n < 0)
		return -errno;
	if (n == 0)
		return -EAGAIN;
	return entry.revents & POLLNVAL ? -EBADF : entry.revents;
}

static int accept_now(const struct loop_op *op)
{
	/* A connection that was there may be gone again, and accept would wait for the next. The flag lies in the open
	 * file description, shared with whoever handed us the listener; nobody there accepts in a blocking way. */
	int flags = fcntl(op->fd, F_GETFL);
	if (flags < 0 || (!(flags & O_NONBLOCK) && fcntl(op->fd, F_SETFL, flags | O_NONBLOCK) != 0))
		return -errno;
	int fd = accept4(op->fd, NULL, NULL, SOCK_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* One attempt that does not wait. Bytes, a descriptor, poll bits or -errno, -EAGAIN when it would have waited. */
static int attempt(const struct loop_op *op)
{
	size_t n_bytes = op->n_bytes > INT32_MAX ? INT32_MAX : op->n_bytes; /* a result has to fit an int */
	ssize_t n = -1;
	switch ((enum loop_kind)op->kind) {
	case LOOP_ACCEPT:
		return accept_now(op);
	case LOOP_POLL:
	case LOOP_HANGUP:
		return poll_now(op);
	case LOOP_RECEIVE:
	case LOOP_LENT:
		n = recv(op->fd, op->buffer, n_bytes, MSG_DONTWAIT);
		break;
	case LOOP_SEND:
		n = send(op->fd, op->buffer, n_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
		break;
	case LOOP_READ: {
		int readable = poll_now(op); /* the descriptor may be a blocking one, and is ours alone to read */
		if (readable < 0)
			return readable;
		n = read(op->fd, op->buffer, n_bytes);
		break;
	}
	case LOOP_TIMER:
		return 0; /* on the ready list only once it is due */
	}
	return n < 0 ? -errno : (int)n;
}

/* Tries what was ready when the turn began; what gets ready meanwhile waits for the next turn. */
static void try_ready(struct loop_epoll *epoll)
{
	struct loop_op *batch = epoll->ready, **batch_end = epoll->ready_end;
	epoll->ready = NULL;
	epoll->ready_end = &epoll->ready;
	while (batch && !epoll->loop.stopped) {
		struct loop_op *op = batch;
		batch = op->link;
		int result = op->cancelled ? -ECANCELED : attempt(op);
		if (result == -EINTR) {
			make_ready(epoll, op);
			continue;
		}
		if (result == -EAGAIN) {
			result = watch(epoll, op);
			if (result == 0)
				continue;
		}
		loop_finish(&epoll->loop, op, result);
	}
	if (batch) { /* stopped: the rest goes back in front */
		*batch_end = epoll->ready;
		if (epoll->ready_end == &epoll->ready)
			epoll->ready_end = batch_end;
		epoll->ready = batch;
	}
}

static void wake(struct loop_epoll *epoll, int fd, uint32_t events)
{
	if ((size_t)fd >= epoll->n_watches)
		return;
	struct loop_op **list = &epoll->watches[fd].first;
	while (*list) {
		struct loop_op *op = *list;
		if (events & ((uint32_t)loop_interest(op) | EPOLLERR | EPOLLHUP)) {
			*list = op->link;
			make_ready(epoll, op);
		} else {
			list = &op->link;
		}
	}
	if (epoll->watches[fd].first && arm(epoll, fd) != 0) /* ONESHOT took the others' arming, too */
		while (epoll->watches[fd].first) {	     /* cannot wait: let the attempts tell why */
			struct loop_op *op = epoll->watches[fd].first;
			epoll->watches[fd].first = op->link;
			make_ready(epoll, op);
		}
}

static void wake_timers(struct loop_epoll *epoll)
{
	uint64_t now = epoll->timers ? now_ns() : 0;
	while (epoll->timers && deadline_of(epoll->timers) <= now) {
		struct loop_op *op = epoll->timers;
		epoll->timers = op->link;
		make_ready(epoll, op);
	}
}

/* Milliseconds epoll_wait may sleep, rounded up so that a timer is due when it returns. */
static int sleep_ms(const struct loop_epoll *epoll)
{
	if (epoll->ready)
		return 0;
	if (!epoll->timers)
		return -1;
	uint64_t now = now_ns(), deadline = deadline_of(epoll->timers);
	if (deadline <= now)
		return 0;
	uint64_t ms = (deadline - now - 1) / 1000000 + 1;
	return ms > INT32_MAX ? INT32_MAX : (int)ms;
}

static int epoll_turn(struct loop *loop)
{
	struct loop_epoll *epoll = epoll_of(loop);
	try_ready(epoll);
	if (loop->stopped || !loop->first)
		return 0;
	struct epoll_event events[EVENTS_PER_TURN];
	int n = epoll_wait(epoll->fd, events, EVENTS_PER_TURN, sleep_ms(epoll));
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	for (int i = 0; i < n; i++)
		wake(epoll, events[i].data.fd, events[i].events);
	wake_timers(epoll);
	return 0;
}

static void epoll_free(struct loop *loop)
{
	struct loop_epoll *epoll = epoll_of(loop);
	close(epoll->fd);
	free(epoll->watches);
	free(epoll);
}

static const struct loop_backend backend = {
	.id = IO_EPOLL,
	.start = epoll_start,
	.cancel = epoll_cancel,
	.turn = epoll_turn,
	.free = epoll_free,
};

int loop_epoll_new(struct loop **out, struct err *err)
{
	struct loop_epoll *epoll = calloc(1, sizeof *epoll);
	if (!epoll)
		return err_set(err, -ENOMEM, "epoll: no memory for the loop");
	epoll->loop.backend = &backend;
	epoll->ready_end = &epoll->ready;
	epoll->fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll->fd < 0) {
		int code = -errno;
		free(epoll);
		return err_set(err, code, "epoll: %s", strerror(-code));
	}
	*out = &epoll->loop;
	return 0;
}
