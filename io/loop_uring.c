/* The loop on io_uring: every accept, receive, send, read, poll and timer is a submission queue entry, and user_data is
 * the address of the operation.
 *
 * One turn is one system call: everything the last turn's `done` functions started goes in with the wait for the next
 * completion.
 *
 *   start()  fills an SQE. The queue full: what is there is submitted, and if even that fails (the kernel is out of
 *            memory, or wants its completions collected first) the operation is parked: it stays in flight without an
 *            SQE until the next turn.
 *   cancel() is an SQE, too, naming user_data. The queue is executed in order, so a cancel never hits an operation that
 *            was started later at the same address.
 *   turn()   takes the completions that were ready when it began, one after the other; each leaves the queue before its
 *            `done` runs, so `done` may start anything.
 *
 * More completions than the completion queue holds are kept by the kernel (IORING_FEAT_NODROP, asked for) and handed
 * out at the next enter. A descriptor in non-blocking mode answers -EAGAIN where a blocking one would have waited (the
 * doorbell eventfds are such); then a poll takes the operation's place and the operation is issued again after it.
 *
 * Lent receives name no buffer: the kernel takes one from a ring of them when bytes are there, and gets it back when
 * `done` has returned. So few are enough for any number of connections; when all are out (-ENOBUFS), a poll takes the
 * receive's place, and by the time it is issued again those buffers are back. */
#include "io/loop_internal.h"

#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* struct loop_op carries the timer's time for as long as the kernel may look at it. */
static_assert(sizeof(struct __kernel_timespec) == sizeof(((struct loop_op *)0)->timespec), "timespec fits");

enum {
	CANCEL_TAG = 0,	   /* user_data of cancellations: no operation lives at address 0 */
	LENT_BUFFERS = 16, /* a power of two */
	LENT_GROUP = 0,
};

enum phase {
	ISSUED = 1,  /* its own SQE is with the kernel */
	POLLING,     /* a poll stands in for it, to be followed by the operation itself */
	PARKED,	     /* no SQE could be had */
	PARKED_POLL, /* the same, of the poll */
};

struct loop_uring {
	struct loop loop;
	struct io_uring ring;
	struct io_uring_buf_ring *lent; /* those that the kernel may take; owned */
	char *lent_bytes;		/* [LENT_BUFFERS][LOOP_LENT_BYTES] owned */
	unsigned n_parked;
	unsigned n_cancels_wanted; /* cancellations for which no SQE could be had */
};

static struct loop_uring *uring_of(struct loop *loop)
{
	return (struct loop_uring *)loop; /* `loop` is its first member */
}

static struct io_uring_sqe *next_sqe(struct loop_uring *uring)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&uring->ring);
	if (sqe)
		return sqe;
	if (io_uring_submit(&uring->ring) < 0)
		return NULL;
	return io_uring_get_sqe(&uring->ring);
}

static unsigned length_of(const struct loop_op *op)
{
	return op->n_bytes > INT32_MAX ? INT32_MAX : (unsigned)op->n_bytes; /* a result has to fit an int */
}

static void prepare(struct io_uring_sqe *sqe, struct loop_op *op)
{
	switch ((enum loop_kind)op->kind) {
	case LOOP_ACCEPT:
		io_uring_prep_accept(sqe, op->fd, NULL, NULL, SOCK_CLOEXEC);
		break;
	case LOOP_RECEIVE:
		io_uring_prep_recv(sqe, op->fd, op->buffer, length_of(op), 0);
		break;
	case LOOP_LENT:
		io_uring_prep_recv(sqe, op->fd, NULL, LOOP_LENT_BYTES, 0);
		sqe->flags |= IOSQE_BUFFER_SELECT;
		sqe->buf_group = LENT_GROUP;
		break;
	case LOOP_SEND:
		io_uring_prep_send(sqe, op->fd, op->buffer, length_of(op), MSG_NOSIGNAL);
		break;
	case LOOP_READ:
		io_uring_prep_read(sqe, op->fd, op->buffer, length_of(op), (uint64_t)-1); /* -1: at the file position */
		break;
	case LOOP_POLL:
	case LOOP_HANGUP:
		io_uring_prep_poll_add(sqe, op->fd, (unsigned)loop_interest(op));
		break;
	case LOOP_TIMER:
		io_uring_prep_timeout(sqe, (struct __kernel_timespec *)op->timespec, 0, 0);
		break;
	}
}

static void issue(struct loop_uring *uring, struct loop_op *op)
{
	struct io_uring_sqe *sqe = next_sqe(uring);
	if (!sqe) {
		op->phase = PARKED;
		uring->n_parked++;
		return;
	}
	prepare(sqe, op);
	io_uring_sqe_set_data(sqe, op);
	op->phase = ISSUED;
}

static void issue_poll(struct loop_uring *uring, struct loop_op *op)
{
	struct io_uring_sqe *sqe = next_sqe(uring);
	if (!sqe) {
		op->phase = PARKED_POLL;
		uring->n_parked++;
		return;
	}
	io_uring_prep_poll_add(sqe, op->fd, (unsigned)loop_interest(op));
	io_uring_sqe_set_data(sqe, op);
	op->phase = POLLING;
}

static bool is_parked(const struct loop_op *op)
{
	return op->phase == PARKED || op->phase == PARKED_POLL;
}

static bool issue_cancel(struct loop_uring *uring, struct loop_op *op)
{
	struct io_uring_sqe *sqe = next_sqe(uring);
	if (!sqe)
		return false;
	io_uring_prep_cancel(sqe, op, 0);
	io_uring_sqe_set_data64(sqe, CANCEL_TAG);
	return true;
}

static void uring_start(struct loop *loop, struct loop_op *op)
{
	issue(uring_of(loop), op);
}

static void uring_cancel(struct loop *loop, struct loop_op *op)
{
	struct loop_uring *uring = uring_of(loop);
	if (!is_parked(op) && !issue_cancel(uring, op))
		uring->n_cancels_wanted++;
}

/* Gives what had to wait for a free SQE another chance, and tells the parked ones that were cancelled. */
static void retry(struct loop_uring *uring)
{
	bool cancels = uring->n_cancels_wanted > 0;
	uring->n_cancels_wanted = 0;
	uring->n_parked = 0;
	struct loop_op *following = NULL;
	for (struct loop_op *op = uring->loop.first; op; op = following) {
		following = op->next; /* `done` starts new operations in front of the list, and ends none but its own */
		if (is_parked(op) && op->cancelled)
			loop_finish(&uring->loop, op, -ECANCELED);
		else if (op->phase == PARKED)
			issue(uring, op);
		else if (op->phase == PARKED_POLL)
			issue_poll(uring, op);
		else if (cancels && op->cancelled && !issue_cancel(uring, op))
			uring->n_cancels_wanted++; /* a second cancel of one operation finds nothing: harmless */
	}
}

static void complete(struct loop_uring *uring, struct loop_op *op, int result)
{
	bool polled = op->phase == POLLING;
	if (result == -ENOBUFS && op->kind == LOOP_LENT)
		result = -EAGAIN;
	if (op->cancelled && (result == -EINTR || result == -EAGAIN || (polled && result >= 0)))
		result = -ECANCELED;
	else if (polled && result >= 0) {
		issue(uring, op);
		return;
	} else if (result == -EINTR) {
		issue(uring, op);
		return;
	} else if (result == -EAGAIN && op->kind != LOOP_TIMER) {
		issue_poll(uring, op);
		return;
	} else if (op->kind == LOOP_TIMER && result == -ETIME)
		result = 0;
	loop_finish(&uring->loop, op, result);
}

/* Gives buffer `id` to the kernel. */
static void lend(struct loop_uring *uring, unsigned id)
{
	io_uring_buf_ring_add(uring->lent, uring->lent_bytes + (size_t)id * LOOP_LENT_BYTES, LOOP_LENT_BYTES,
			      (unsigned short)id, io_uring_buf_ring_mask(LENT_BUFFERS), 0);
	io_uring_buf_ring_advance(uring->lent, 1);
}

static void take(struct loop_uring *uring, const struct io_uring_cqe *seen)
{
	const struct io_uring_cqe cqe = *seen; /* its place in the queue is given back before `done` runs */
	struct loop_op *op = io_uring_cqe_get_data(&cqe);
	bool lent = cqe.flags & IORING_CQE_F_BUFFER;
	unsigned id = cqe.flags >> IORING_CQE_BUFFER_SHIFT;
	io_uring_cqe_seen(&uring->ring, (struct io_uring_cqe *)(uintptr_t)seen);
	if (lent && op)
		op->buffer = uring->lent_bytes + (size_t)id * LOOP_LENT_BYTES;
	if (op)
		complete(uring, op, cqe.res);
	if (lent)
		lend(uring, id);
}

static int uring_turn(struct loop *loop)
{
	struct loop_uring *uring = uring_of(loop);
	if (uring->n_parked || uring->n_cancels_wanted) {
		retry(uring);
		if (loop->stopped || !loop->first)
			return 0;
	}
	bool must_return = uring->n_parked || uring->n_cancels_wanted; /* these no completion would wake us for */
	int rc = io_uring_submit_and_wait(&uring->ring, must_return ? 0 : 1);
	/* Out of memory for requests, or completions to be collected first: both pass as operations end. */
	if (rc < 0 && rc != -EINTR && rc != -EAGAIN && rc != -EBUSY)
		return rc;
	for (unsigned n = io_uring_cq_ready(&uring->ring); n && !loop->stopped; n--) {
		struct io_uring_cqe *cqe;
		if (io_uring_peek_cqe(&uring->ring, &cqe) != 0)
			break;
		take(uring, cqe);
	}
	return 0;
}

static void uring_free(struct loop *loop)
{
	struct loop_uring *uring = uring_of(loop);
	if (uring->lent)
		io_uring_free_buf_ring(&uring->ring, uring->lent, LENT_BUFFERS, LENT_GROUP);
	io_uring_queue_exit(&uring->ring);
	free(uring->lent_bytes);
	free(uring);
}

static const struct loop_backend backend = {
	.id = IO_URING,
	.start = uring_start,
	.cancel = uring_cancel,
	.turn = uring_turn,
	.free = uring_free,
};

static int check_operations(struct io_uring *ring, struct err *err)
{
	static const int needed[] = {IORING_OP_ACCEPT,	 IORING_OP_RECV,    IORING_OP_SEND,	   IORING_OP_READ,
				     IORING_OP_POLL_ADD, IORING_OP_TIMEOUT, IORING_OP_ASYNC_CANCEL};
	struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
	if (!probe)
		return err_set(err, -ENOSYS, "io_uring: this kernel cannot say which operations it has");
	int rc = 0;
	for (unsigned i = 0; rc == 0 && i < sizeof needed / sizeof needed[0]; i++)
		if (!io_uring_opcode_supported(probe, needed[i]))
			rc = err_set(err, -ENOSYS, "io_uring: operation %d is missing in this kernel", needed[i]);
	io_uring_free_probe(probe);
	return rc;
}

/* One thread enters the ring, and completions need no interrupt of that thread: newer kernels use both facts. */
static int setup(struct io_uring *ring, unsigned entries, struct err *err)
{
	static const unsigned wishes[] = {
		IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, /* Linux 6.1 */
		IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN,				   /* Linux 5.19 */
		0,
	};
	int rc = -EINVAL;
	for (unsigned i = 0; rc == -EINVAL && i < sizeof wishes / sizeof wishes[0]; i++) {
		struct io_uring_params params = {
			.flags = wishes[i] | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP,
			.cq_entries = entries > UINT32_MAX / 4 ? UINT32_MAX : 4 * entries,
		};
		rc = io_uring_queue_init_params(entries, ring, &params);
		if (rc == 0 && !(params.features & IORING_FEAT_NODROP)) {
			io_uring_queue_exit(ring);
			return err_set(err, -ENOSYS,
				       "io_uring: this kernel may drop completions (Linux 5.5 is needed)");
		}
	}
	const char *hint = rc == -EPERM	   ? " (/proc/sys/kernel/io_uring_disabled, or a seccomp filter)"
			   : rc == -ENOMEM ? " (before Linux 5.12 also RLIMIT_MEMLOCK)"
					   : "";
	return rc ? err_set(err, rc, "io_uring: setup failed: %s%s", strerror(-rc), hint) : 0;
}

static int make_lent(struct loop_uring *uring, struct err *err)
{
	int rc = 0;
	uring->lent_bytes = malloc((size_t)LENT_BUFFERS * LOOP_LENT_BYTES);
	if (!uring->lent_bytes)
		return err_set(err, -ENOMEM, "io_uring: no memory for the buffers of receives");
	uring->lent = io_uring_setup_buf_ring(&uring->ring, LENT_BUFFERS, LENT_GROUP, 0, &rc);
	if (!uring->lent)
		return err_set(err, rc == -EINVAL ? -ENOSYS : rc,
			       "io_uring: no ring of buffers for receives (Linux 5.19 is needed): %s", strerror(-rc));
	for (unsigned id = 0; id < LENT_BUFFERS; id++)
		lend(uring, id);
	return 0;
}

int loop_uring_new(unsigned entries, struct loop **out, struct err *err)
{
	struct loop_uring *uring = calloc(1, sizeof *uring);
	if (!uring)
		return err_set(err, -ENOMEM, "io_uring: no memory for the loop");
	uring->loop.backend = &backend;
	int rc = setup(&uring->ring, entries, err);
	if (rc != 0) {
		free(uring);
		return rc;
	}
	rc = check_operations(&uring->ring, err);
	if (rc == 0)
		rc = make_lent(uring, err);
	if (rc != 0) {
		uring_free(&uring->loop);
		return rc;
	}
	*out = &uring->loop;
	return 0;
}
