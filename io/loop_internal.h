/* What the loop and its two backends share. */
#ifndef WEIGHTD_IO_LOOP_INTERNAL_H
#define WEIGHTD_IO_LOOP_INTERNAL_H

#include "io/loop.h"

enum loop_kind { LOOP_ACCEPT = 1, LOOP_RECEIVE, LOOP_LENT, LOOP_SEND, LOOP_READ, LOOP_POLL, LOOP_HANGUP, LOOP_TIMER };

struct loop_backend {
	enum io_backend id;
	/* Takes an operation that was just put in flight. Whatever happens to it is told by loop_finish, from `turn`.
	 */
	void (*start)(struct loop *loop, struct loop_op *op);
	void (*cancel)(struct loop *loop, struct loop_op *op);
	/* Waits until something can be finished, then finishes what can be, until `stopped`. */
	int (*turn)(struct loop *loop);
	void (*free)(struct loop *loop);
};

struct loop { /* the head of a backend's own struct */
	const struct loop_backend *backend;
	struct loop_op *first; /* in flight, newest first */
	bool stopped;
	bool closing; /* loop_free is at work: nothing new starts */
};

/* The end of an operation: calls `done`. The operation may be gone, or in flight again, when this returns. */
void loop_finish(struct loop *loop, struct loop_op *op, int result);

/* The poll(2) bits an operation waits for. */
short loop_interest(const struct loop_op *op);

int loop_uring_new(unsigned entries, struct loop **out, struct err *err);
int loop_epoll_new(struct loop **out, struct err *err);

#endif
