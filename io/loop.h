/* One event loop per process: completions of accept, receive, send, descriptor reads and timers. With io_uring each is
 * a submission; the epoll twin does the same work with readiness and non-blocking calls behind the same interface.
 *
 * An operation is a struct embedded in the caller's object. It is in flight from loop_* until its `done` is called,
 * exactly once, from loop_run; until then neither the struct nor its buffer may move or go away. loop_cancel asks for
 * an early end; `done` still comes (-ECANCELED). */
#ifndef WEIGHTD_IO_LOOP_H
#define WEIGHTD_IO_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/err.h"

enum io_backend { IO_AUTO = 0, IO_URING = 1, IO_EPOLL = 2 };
enum { LOOP_LENT_BYTES = 16384 };

struct loop;
struct loop_op;
/* `result`: bytes, a descriptor, 0 for a timer that ran out, or -errno. */
typedef void loop_done(struct loop_op *op, int result);

struct loop_op {
	loop_done *done; /* set by the caller */
	/* the rest belongs to the loop */
	int kind, fd;
	int phase; /* where the operation stands, in the backend's terms */
	bool in_flight, cancelled;
	void *buffer;
	size_t n_bytes;
	uint64_t timespec[2];		 /* of a timer: seconds and nanoseconds */
	struct loop_op *next, *previous; /* all in flight */
	struct loop_op *link;		 /* the backend's list */
};

/* IO_URING never falls back: -ENOSYS, -EPERM and the like are the caller's to report. IO_AUTO tries io_uring first, and
 * where that is refused, for whatever reason (a sysctl, a seccomp filter, RLIMIT_MEMLOCK before Linux 5.12), takes
 * epoll and leaves the reason in `err`. A loop belongs to the thread that made it (the kernel may hold us to that);
 * make it after the last fork. */
int loop_new(enum io_backend backend, unsigned entries, struct loop **out, struct err *err);
/* Cancels what is in flight and calls `done` for each (-ECANCELED, or the result it had already); operations started
 * from there on do nothing. */
void loop_free(struct loop *loop);
enum io_backend loop_backend(const struct loop *loop); /* never IO_AUTO */

void loop_accept(struct loop *loop, struct loop_op *op, int listener); /* result: a new descriptor, owned */
void loop_receive(struct loop *loop, struct loop_op *op, int socket, void *buffer, size_t n_bytes); /* 0: peer closed */
/* The same into memory that the loop lends for the call of `done` alone: op->buffer, LOOP_LENT_BYTES at most. So a
 * connection that says nothing holds no buffer. */
void loop_receive_lent(struct loop *loop, struct loop_op *op, int socket);
void loop_send(struct loop *loop, struct loop_op *op, int socket, const void *buffer,
	       size_t n_bytes);								     /* may be short */
void loop_read(struct loop *loop, struct loop_op *op, int fd, void *buffer, size_t n_bytes); /* an eventfd or a pipe */
void loop_poll(struct loop *loop, struct loop_op *op, int fd); /* readable (result: poll bits), once */
/* The peer closed or reset the connection (result: poll bits), whatever is still unread. */
void loop_hangup(struct loop *loop, struct loop_op *op, int socket);
void loop_timer(struct loop *loop, struct loop_op *op, uint64_t after_ns);
void loop_cancel(struct loop *loop, struct loop_op *op); /* nothing happens when it is not in flight */

/* Waits for completions and calls `done` until loop_stop, or until nothing is in flight. 0, or -errno of the kernel
 * interface itself: a ring or an epoll that fails in use is not replaced, since nobody could say what became of the
 * operations in flight. Free the loop then; the process that lived by it is best started again. */
int loop_run(struct loop *loop);
void loop_stop(struct loop *loop); /* from `done`; before loop_run it makes that return at once */

#endif
