/* io/loop carrying traffic: an echo server with clients of random messages, and a socket that is always full, over both
 * backends. */
#include "io/loop.h"

#include <check.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "src/err.h"
#include "tests/unit/refuse.h"
#include "tests/unit/suite.h"

static const enum io_backend backends[] = {IO_URING, IO_EPOLL};

static struct loop *new_loop(int i, unsigned entries)
{
	struct loop *loop = NULL;
	struct err err = {""};
	int rc = loop_new(backends[i], entries, &loop, &err);
	ck_assert_msg(rc == 0, "loop_new: %s", err.text);
	ck_assert_int_eq(loop_backend(loop), backends[i]);
	return loop;
}

static void pair(int fds[2])
{
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
}

/* --- an echo server and its clients on one loop ----------------------------------------------- */

enum { ECHO_CLIENTS = 16, ECHO_MESSAGES = 250, ECHO_MAX = 40000 };

struct echo_side {
	struct loop_op receive, send;
	int fd;
	unsigned char in[ECHO_MAX], out[ECHO_MAX];
	size_t n_out, n_sent, n_in;
	int messages;
	uint32_t seed;
	struct echo_test *test;
};

struct echo_test {
	struct loop *loop;
	struct loop_op accept;
	int listener, n_accepted, n_finished, n_closed;
	struct echo_side *clients, *servers; /* [ECHO_CLIENTS] */
};

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

#define SIDE(operation, field) ((struct echo_side *)((char *)(operation)-offsetof(struct echo_side, field)))

static void server_received(struct loop_op *op, int n)
{
	struct echo_side *side = SIDE(op, receive);
	ck_assert_msg(n >= 0, "receive: %s", strerror(-n));
	if (n == 0) {
		close(side->fd);
		if (++side->test->n_closed == ECHO_CLIENTS)
			loop_stop(side->test->loop);
		return;
	}
	side->n_out = (size_t)n;
	side->n_sent = 0;
	memcpy(side->out, side->in, side->n_out);
	loop_send(side->test->loop, &side->send, side->fd, side->out, side->n_out);
}

static void server_sent(struct loop_op *op, int n)
{
	struct echo_side *side = SIDE(op, send);
	ck_assert_msg(n > 0, "send: %s", strerror(-n));
	side->n_sent += (size_t)n;
	if (side->n_sent < side->n_out)
		loop_send(side->test->loop, op, side->fd, side->out + side->n_sent, side->n_out - side->n_sent);
	else
		loop_receive(side->test->loop, &side->receive, side->fd, side->in, sizeof side->in);
}

static void accepted(struct loop_op *op, int fd)
{
	struct echo_test *test = (struct echo_test *)((char *)op - offsetof(struct echo_test, accept));
	ck_assert_msg(fd >= 0, "accept: %s", strerror(-fd));
	struct echo_side *side = &test->servers[test->n_accepted++];
	side->test = test;
	side->fd = fd;
	side->receive.done = server_received;
	side->send.done = server_sent;
	loop_receive(test->loop, &side->receive, fd, side->in, sizeof side->in);
	if (test->n_accepted < ECHO_CLIENTS)
		loop_accept(test->loop, op, test->listener);
}

static void client_begin(struct echo_side *side)
{
	side->n_out = 1 + next_random(&side->seed) % ECHO_MAX;
	side->n_sent = side->n_in = 0;
	for (size_t i = 0; i < side->n_out; i++)
		side->out[i] = (unsigned char)next_random(&side->seed);
	loop_send(side->test->loop, &side->send, side->fd, side->out, side->n_out);
	loop_receive(side->test->loop, &side->receive, side->fd, side->in, side->n_out);
}

static void client_sent(struct loop_op *op, int n)
{
	struct echo_side *side = SIDE(op, send);
	ck_assert_msg(n > 0, "send: %s", strerror(-n));
	side->n_sent += (size_t)n;
	if (side->n_sent < side->n_out)
		loop_send(side->test->loop, op, side->fd, side->out + side->n_sent, side->n_out - side->n_sent);
}

static void client_received(struct loop_op *op, int n)
{
	struct echo_side *side = SIDE(op, receive);
	ck_assert_msg(n > 0, "receive: %s", strerror(-n));
	side->n_in += (size_t)n;
	if (side->n_in < side->n_out) {
		loop_receive(side->test->loop, op, side->fd, side->in + side->n_in, side->n_out - side->n_in);
		return;
	}
	ck_assert_mem_eq(side->in, side->out, side->n_out);
	if (++side->messages < ECHO_MESSAGES) {
		client_begin(side);
	} else {
		side->test->n_finished++;
		close(side->fd);
	}
}

static void run_echo(int backend)
{
	/* 4 entries for 16 clients: the submission queue is full most of the time. */
	struct echo_test test = {.loop = new_loop(backend, backend == 0 ? 4 : 64)};
	test.clients = calloc(ECHO_CLIENTS, sizeof *test.clients);
	test.servers = calloc(ECHO_CLIENTS, sizeof *test.servers);
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socklen_t length = sizeof(sa_family_t); /* autobind: an abstract name of the kernel's choice */
	test.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(test.listener, (struct sockaddr *)&address, length), 0);
	length = sizeof address;
	ck_assert_int_eq(getsockname(test.listener, (struct sockaddr *)&address, &length), 0);
	ck_assert_int_eq(listen(test.listener, ECHO_CLIENTS), 0);
	test.accept.done = accepted;
	loop_accept(test.loop, &test.accept, test.listener);
	for (int i = 0; i < ECHO_CLIENTS; i++) {
		struct echo_side *side = &test.clients[i];
		*side = (struct echo_side){.test = &test, .seed = (uint32_t)i};
		side->receive.done = client_received;
		side->send.done = client_sent;
		side->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		ck_assert_int_eq(connect(side->fd, (struct sockaddr *)&address, length), 0);
		client_begin(side);
	}
	ck_assert_int_eq(loop_run(test.loop), 0);
	ck_assert_int_eq(test.n_finished, ECHO_CLIENTS);
	ck_assert_int_eq(test.n_closed, ECHO_CLIENTS);
	loop_free(test.loop);
	close(test.listener);
	free(test.clients);
	free(test.servers);
}

START_TEST(echo)
{
	run_echo(_i);
}
END_TEST

START_TEST(io_uring_needs_no_socket_calls)
{
	static const unsigned calls[] = {SYS_accept, SYS_accept4, SYS_recvfrom,	   SYS_recvmsg,
					 SYS_sendto, SYS_sendmsg, SYS_epoll_wait,  SYS_epoll_pwait,
					 SYS_poll,   SYS_ppoll,	  SYS_epoll_pwait2};
	for (unsigned i = 0; i < sizeof calls / sizeof calls[0]; i++)
		ck_assert_int_eq(refuse_call(calls[i], ENOSYS), 0);
	ck_assert_int_eq(accept(-1, NULL, NULL), -1);
	ck_assert_int_eq(errno, ENOSYS);
	run_echo(_i);
}
END_TEST

struct drip {
	struct loop_op send, timer;
	struct loop *loop;
	int from, to;
	const unsigned char *bytes; /* [n_bytes] */
	size_t n_bytes, n_sent, n_read;
	int n_short;
};

static void drip_sent(struct loop_op *op, int n)
{
	struct drip *drip = (struct drip *)op;
	ck_assert_msg(n > 0, "send: %s", strerror(-n));
	drip->n_sent += (size_t)n;
	if (drip->n_sent < drip->n_bytes) {
		drip->n_short++;
		loop_send(drip->loop, op, drip->from, drip->bytes + drip->n_sent, drip->n_bytes - drip->n_sent);
	}
}

static void drip_read(struct loop_op *op, int result)
{
	struct drip *drip = (struct drip *)((char *)op - offsetof(struct drip, timer));
	ck_assert_int_eq(result, 0);
	unsigned char bytes[50000];
	ssize_t n = recv(drip->to, bytes, sizeof bytes, MSG_DONTWAIT);
	if (n > 0) {
		ck_assert_mem_eq(bytes, drip->bytes + drip->n_read, (size_t)n);
		drip->n_read += (size_t)n;
	}
	if (drip->n_read < drip->n_bytes)
		loop_timer(drip->loop, op, 100000);
}

START_TEST(a_full_socket_takes_bytes_as_the_peer_reads)
{
	struct loop *loop = new_loop(_i, 8);
	int a[2], small = 8192;
	pair(a);
	setsockopt(a[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
	unsigned char *bytes = malloc(1 << 20);
	uint32_t seed = 7;
	for (int i = 0; i < 1 << 20; i++)
		bytes[i] = (unsigned char)next_random(&seed);
	struct drip drip = {.loop = loop, .from = a[0], .to = a[1], .bytes = bytes, .n_bytes = 1 << 20};
	drip.send.done = drip_sent;
	drip.timer.done = drip_read;
	loop_send(loop, &drip.send, a[0], bytes, drip.n_bytes);
	loop_timer(loop, &drip.timer, 100000);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_uint_eq(drip.n_sent, drip.n_bytes);
	ck_assert_uint_eq(drip.n_read, drip.n_bytes);
	ck_assert_int_gt(drip.n_short, 0);
	loop_free(loop);
	close(a[0]);
	close(a[1]);
	free(bytes);
}
END_TEST

/* --- lent buffers ----------------------------------------------------------------------------- */

enum { LENT_SOCKETS = 100, LENT_ROUNDS = 3 };

struct lent {
	struct loop_op op;
	struct loop *loop;
	int socket, round, *n_done;
	unsigned char mark;
};

static void write_marks(int fd, unsigned char mark, int round)
{
	unsigned char bytes[64];
	memset(bytes, mark, sizeof bytes);
	ck_assert_int_eq(send(fd, bytes, (size_t)(10 + mark % 40 + round), 0), 10 + mark % 40 + round);
}

static void on_lent(struct loop_op *op, int result)
{
	struct lent *lent = (struct lent *)((char *)op - offsetof(struct lent, op));
	const unsigned char *bytes = op->buffer;
	ck_assert_int_eq(result, 10 + lent->mark % 40 + lent->round);
	for (int i = 0; i < result; i++)
		if (bytes[i] != lent->mark)
			ck_abort_msg("socket %d got a byte of another", lent->mark);
	memset(op->buffer, 0xee, LOOP_LENT_BYTES); /* it is this call's alone */
	if (++lent->round < LENT_ROUNDS)
		loop_receive_lent(lent->loop, op, lent->socket);
	if (++*lent->n_done % LENT_SOCKETS == 0)
		loop_stop(lent->loop);
}

/* All have bytes at once, many times what the loop has buffers for; then they come again. */
START_TEST(a_lent_buffer_is_one_receives_alone)
{
	struct loop *loop = new_loop(_i, 8);
	struct lent lent[LENT_SOCKETS];
	int peer[LENT_SOCKETS], n_done = 0;
	for (int i = 0; i < LENT_SOCKETS; i++) {
		int fds[2];
		pair(fds);
		peer[i] = fds[1];
		lent[i] = (struct lent){.op = {.done = on_lent},
					.loop = loop,
					.socket = fds[0],
					.n_done = &n_done,
					.mark = (unsigned char)i};
		write_marks(peer[i], (unsigned char)i, 0);
		loop_receive_lent(loop, &lent[i].op, fds[0]);
	}
	for (int round = 1; round <= LENT_ROUNDS; round++) {
		ck_assert_int_eq(loop_run(loop), 0);
		ck_assert_int_eq(n_done, round * LENT_SOCKETS);
		for (int i = 0; i < LENT_SOCKETS && round < LENT_ROUNDS; i++)
			write_marks(peer[i], (unsigned char)i, round);
	}
	for (int i = 0; i < LENT_SOCKETS; i++) {
		ck_assert_int_eq(lent[i].round, LENT_ROUNDS);
		close(peer[i]);
		close(lent[i].socket);
	}
	loop_free(loop);
}
END_TEST

int main(void)
{
	struct loop *loop = NULL;
	struct err err = {""};
	int first = 0;
	if (loop_new(IO_URING, 8, &loop, &err) != 0) {
		printf("io_uring: not tested here: %s\n", err.text);
		first = 1;
	}
	loop_free(loop);
	Suite *suite = suite_create("loop_echo");
	TCase *tcase = tcase_create("both backends");
	tcase_add_loop_test(tcase, echo, first, 2);
	tcase_add_loop_test(tcase, io_uring_needs_no_socket_calls, first, 1);
	tcase_add_loop_test(tcase, a_full_socket_takes_bytes_as_the_peer_reads, first, 2);
	tcase_add_loop_test(tcase, a_lent_buffer_is_one_receives_alone, first, 2);
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
