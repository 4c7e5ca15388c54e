/* io/loop over both backends: every test runs once with io_uring (skipped, and said so, where the kernel refuses it)
 * and once with epoll. */
#include "io/loop.h"

#include <check.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "src/err.h"
#include "tests/unit/refuse.h"
#include "tests/unit/suite.h"

static const enum io_backend backends[] = {IO_URING, IO_EPOLL};

/* An operation that remembers how it ended. */
struct probe {
	struct loop_op op; /* first: a probe is found from its operation */
	struct loop *loop;
	int calls, result;
	int order;		    /* which one to end this was */
	int *counter;		    /* of ends, shared by a test's probes */
	int stop_at;		    /* the loop stops when *counter gets here */
	struct probe *cancel_first; /* cancelled from within `done` */
};

static void probe_done(struct loop_op *op, int result)
{
	struct probe *probe = (struct probe *)op;
	probe->calls++;
	probe->result = result;
	probe->order = (*probe->counter)++;
	if (probe->cancel_first)
		loop_cancel(probe->loop, &probe->cancel_first->op);
	if (*probe->counter == probe->stop_at)
		loop_stop(probe->loop);
}

static void probe_init(struct probe *probe, struct loop *loop, int *counter, int stop_at)
{
	*probe = (struct probe){.op.done = probe_done, .loop = loop, .counter = counter, .stop_at = stop_at};
}

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

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* --- single operations ------------------------------------------------------------------------ */

START_TEST(timers_end_in_order)
{
	struct loop *loop = new_loop(_i, 8);
	static const uint64_t after_ms[] = {40, 5, 20, 0, 60, 30};
	static const int expected_order[] = {4, 1, 2, 0, 5, 3};
	struct probe probes[6];
	int ended = 0;
	uint64_t begin = now_ns();
	for (int i = 0; i < 6; i++) {
		probe_init(&probes[i], loop, &ended, 6);
		loop_timer(loop, &probes[i].op, after_ms[i] * 1000000);
	}
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_uint_ge(now_ns() - begin, 60000000);
	for (int i = 0; i < 6; i++) {
		ck_assert_int_eq(probes[i].calls, 1);
		ck_assert_int_eq(probes[i].result, 0);
		ck_assert_int_eq(probes[i].order, expected_order[i]);
	}
	loop_free(loop);
}
END_TEST

START_TEST(a_timer_without_end_can_be_cancelled)
{
	struct loop *loop = new_loop(_i, 8);
	struct probe forever, soon;
	int ended = 0;
	probe_init(&forever, loop, &ended, 0);
	probe_init(&soon, loop, &ended, 0);
	soon.cancel_first = &forever;
	loop_timer(loop, &forever.op, UINT64_MAX);
	loop_timer(loop, &soon.op, 1000000);
	ck_assert_int_eq(loop_run(loop), 0); /* returns because nothing is left */
	ck_assert_int_eq(forever.calls, 1);
	ck_assert_int_eq(forever.result, -ECANCELED);
	ck_assert_int_eq(soon.result, 0);
	loop_free(loop);
}
END_TEST

START_TEST(every_kind_is_cancelled_in_flight)
{
	struct loop *loop = new_loop(_i, 4);
	int a[2], listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), event = eventfd(0, EFD_CLOEXEC);
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	pair(a);
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof(sa_family_t)), 0);
	ck_assert_int_eq(listen(listener, 1), 0);
	static char filler[1 << 16];
	while (send(a[0], filler, sizeof filler, MSG_DONTWAIT) > 0)
		; /* fills the socket, so that the next send waits */
	char byte;
	uint64_t value;
	int ended = 0;
	struct probe probes[7], starter;
	for (int i = 0; i < 7; i++)
		probe_init(&probes[i], loop, &ended, 0);
	loop_accept(loop, &probes[0].op, listener);
	loop_receive(loop, &probes[1].op, a[0], &byte, 1);
	loop_send(loop, &probes[2].op, a[0], filler, sizeof filler);
	loop_read(loop, &probes[3].op, event, &value, sizeof value);
	loop_poll(loop, &probes[4].op, event);
	loop_hangup(loop, &probes[5].op, a[0]);
	loop_timer(loop, &probes[6].op, UINT64_C(3600000000000));
	probe_init(&starter, loop, &ended, 1);
	loop_timer(loop, &starter.op, 20000000); /* by then all seven wait in the kernel */
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_int_eq(ended, 1);
	for (int i = 0; i < 7; i++) {
		loop_cancel(loop, &probes[i].op);
		loop_cancel(loop, &probes[i].op); /* twice is once */
	}
	ck_assert_int_eq(ended, 1); /* none ends from within loop_cancel */
	ck_assert_int_eq(loop_run(loop), 0);
	for (int i = 0; i < 7; i++) {
		ck_assert_int_eq(probes[i].calls, 1);
		ck_assert_int_eq(probes[i].result, -ECANCELED);
		loop_cancel(loop, &probes[i].op); /* not in flight: nothing happens */
	}
	loop_free(loop);
	close(a[0]);
	close(a[1]);
	close(listener);
	close(event);
}
END_TEST

START_TEST(an_operation_cancelled_before_it_was_issued_ends_too)
{
	struct loop *loop = new_loop(_i, 2);
	int a[2];
	pair(a);
	char bytes[64];
	struct probe probes[64];
	int ended = 0;
	for (int i = 0; i < 64; i++) {
		probe_init(&probes[i], loop, &ended, 0);
		loop_receive(loop, &probes[i].op, a[0], &bytes[i], 1);
		if (i % 3)
			loop_cancel(loop, &probes[i].op);
	}
	for (int i = 0; i < 64; i += 3)
		loop_cancel(loop, &probes[i].op);
	ck_assert_int_eq(loop_run(loop), 0);
	for (int i = 0; i < 64; i++) {
		ck_assert_int_eq(probes[i].calls, 1);
		ck_assert_int_eq(probes[i].result, -ECANCELED);
	}
	loop_free(loop);
	close(a[0]);
	close(a[1]);
}
END_TEST

START_TEST(loop_free_ends_what_is_in_flight)
{
	struct loop *loop = new_loop(_i, 8);
	int a[2], ended = 0;
	pair(a);
	char bytes[32];
	struct probe probes[32];
	for (int i = 0; i < 32; i++) {
		probe_init(&probes[i], loop, &ended, 0);
		loop_receive(loop, &probes[i].op, a[0], &bytes[i], 1);
	}
	loop_stop(loop); /* the run returns at once, without a turn or with one */
	ck_assert_int_eq(loop_run(loop), 0);
	loop_free(loop);
	ck_assert_int_eq(ended, 32);
	for (int i = 0; i < 32; i++)
		ck_assert_int_eq(probes[i].result, -ECANCELED);
	close(a[0]);
	close(a[1]);
}
END_TEST

START_TEST(the_peers_end_is_seen)
{
	struct loop *loop = new_loop(_i, 8);
	int a[2], ended = 0;
	pair(a);
	struct probe hangup, receive, again;
	char bytes[16];
	probe_init(&hangup, loop, &ended, 0);
	probe_init(&receive, loop, &ended, 0);
	probe_init(&again, loop, &ended, 0);
	loop_hangup(loop, &hangup.op, a[0]);
	loop_receive(loop, &receive.op, a[0], bytes, sizeof bytes);
	ck_assert_int_eq(write(a[1], "hello", 5), 5);
	ck_assert_int_eq(write(a[1], "x", 1), 1);
	close(a[1]);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_int_ge(receive.result, 5);
	ck_assert_int_eq(hangup.calls, 1);
	ck_assert_int_gt(hangup.result, 0);
	ck_assert(hangup.result & (POLLRDHUP | POLLHUP));
	while (again.result >= 0) {
		loop_receive(loop, &again.op, a[0], bytes, sizeof bytes);
		ck_assert_int_eq(loop_run(loop), 0);
		if (again.result == 0)
			break;
	}
	ck_assert_int_eq(again.result, 0);
	loop_send(loop, &again.op, a[0], "x", 1); /* no SIGPIPE: it would end the test */
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_int_eq(again.result, -EPIPE);
	loop_free(loop);
	close(a[0]);
}
END_TEST

START_TEST(unread_bytes_are_no_hangup)
{
	struct loop *loop = new_loop(_i, 8);
	int a[2], ended = 0;
	pair(a);
	struct probe hangup, timer;
	probe_init(&hangup, loop, &ended, 0);
	probe_init(&timer, loop, &ended, 1);
	ck_assert_int_eq(write(a[1], "hello", 5), 5);
	loop_hangup(loop, &hangup.op, a[0]);
	loop_timer(loop, &timer.op, 30000000);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_int_eq(hangup.calls, 0);
	ck_assert_int_eq(shutdown(a[1], SHUT_WR), 0); /* half of the peer's closing counts */
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_int_eq(hangup.calls, 1);
	loop_free(loop);
	close(a[0]);
	close(a[1]);
}
END_TEST

struct counter_reader {
	struct loop_op op;
	struct loop *loop;
	int fd;
	uint64_t value, sum;
	int reads;
};

static void counter_read(struct loop_op *op, int result)
{
	struct counter_reader *reader = (struct counter_reader *)op;
	ck_assert_int_eq(result, sizeof reader->value);
	reader->sum += reader->value;
	if (++reader->reads < 20) {
		uint64_t three = 3;
		ck_assert_int_eq(write(reader->fd, &three, sizeof three), sizeof three);
		loop_read(reader->loop, op, reader->fd, &reader->value, sizeof reader->value);
	}
}

static void read_eventfd(int i, int flags)
{
	struct loop *loop = new_loop(i, 8);
	struct counter_reader reader = {.op.done = counter_read, .loop = loop, .fd = eventfd(0, EFD_CLOEXEC | flags)};
	int ended = 0;
	struct probe timer;
	probe_init(&timer, loop, &ended, 1);
	loop_read(loop, &reader.op, reader.fd, &reader.value, sizeof reader.value);
	loop_timer(loop, &timer.op, 20000000);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_int_eq(reader.reads, 0); /* nothing there yet: it waits, in non-blocking mode as well */
	uint64_t three = 3;
	ck_assert_int_eq(write(reader.fd, &three, sizeof three), sizeof three);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_int_eq(reader.reads, 20);
	ck_assert_uint_eq(reader.sum, 60);
	loop_free(loop);
	close(reader.fd);
}

START_TEST(eventfds_are_read_when_they_count)
{
	read_eventfd(_i, 0);
	read_eventfd(_i, EFD_NONBLOCK);
}
END_TEST

START_TEST(a_non_blocking_eventfd_read_is_cancelled_while_it_waits)
{
	struct loop *loop = new_loop(_i, 8);
	int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), ended = 0;
	uint64_t value;
	struct probe read_it, timer;
	probe_init(&read_it, loop, &ended, 0);
	probe_init(&timer, loop, &ended, 0);
	timer.cancel_first = &read_it;
	loop_read(loop, &read_it.op, event, &value, sizeof value);
	loop_timer(loop, &timer.op, 20000000);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_int_eq(read_it.calls, 1);
	ck_assert_int_eq(read_it.result, -ECANCELED);
	loop_free(loop);
	close(event);
}
END_TEST

START_TEST(poll_says_readable_and_leaves_the_bytes)
{
	struct loop *loop = new_loop(_i, 8);
	int a[2], ended = 0;
	char byte = 0;
	pair(a);
	struct probe poll_it;
	probe_init(&poll_it, loop, &ended, 0);
	loop_poll(loop, &poll_it.op, a[0]);
	ck_assert_int_eq(write(a[1], "z", 1), 1);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert(poll_it.result & POLLIN);
	ck_assert_int_eq(read(a[0], &byte, 1), 1);
	ck_assert_int_eq(byte, 'z');
	loop_free(loop);
	close(a[0]);
	close(a[1]);
}
END_TEST

START_TEST(a_reused_descriptor_number_is_a_new_descriptor)
{
	/* The old socket lives on in `copy`, so that nothing tells the backend that its number is free. */
	struct loop *loop = new_loop(_i, 8);
	int a[2], b[2], ended = 0;
	pair(a);
	int copy = dup(a[0]), number = a[0];
	struct probe first, timer, second;
	char byte;
	probe_init(&first, loop, &ended, 0);
	probe_init(&timer, loop, &ended, 0);
	timer.cancel_first = &first;
	loop_receive(loop, &first.op, a[0], &byte, 1);
	loop_timer(loop, &timer.op, 5000000);
	ck_assert_int_eq(loop_run(loop), 0);
	close(a[0]);
	pair(b);
	ck_assert_int_eq(b[0], number);
	probe_init(&second, loop, &ended, 0);
	probe_init(&timer, loop, &ended, ended + 1);
	loop_receive(loop, &second.op, b[0], &byte, 1);
	ck_assert_int_eq(write(a[1], "old", 3), 3);
	loop_timer(loop, &timer.op, 20000000);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_int_eq(second.calls, 0);
	ck_assert_int_eq(write(b[1], "new", 3), 3);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_int_eq(second.result, 1);
	ck_assert_int_eq(byte, 'n');
	loop_free(loop);
	close(a[1]);
	close(copy);
	close(b[0]);
	close(b[1]);
}
END_TEST

START_TEST(a_bad_descriptor_is_an_error_not_a_hang)
{
	struct loop *loop = new_loop(_i, 8);
	int a[2], ended = 0;
	char byte;
	pair(a);
	close(a[0]);
	struct probe probes[6];
	for (int i = 0; i < 6; i++)
		probe_init(&probes[i], loop, &ended, 0);
	loop_accept(loop, &probes[0].op, a[0]);
	loop_receive(loop, &probes[1].op, a[0], &byte, 1);
	loop_send(loop, &probes[2].op, a[0], "x", 1);
	loop_read(loop, &probes[3].op, a[0], &byte, 1);
	loop_poll(loop, &probes[4].op, a[0]);
	loop_hangup(loop, &probes[5].op, a[0]);
	ck_assert_int_eq(loop_run(loop), 0);
	for (int i = 0; i < 6; i++)
		ck_assert_int_eq(probes[i].result, -EBADF);
	loop_free(loop);
	close(a[1]);
}
END_TEST

enum { FLOOD = 3000 };

START_TEST(more_completions_than_the_queue_holds)
{
	/* 2 entries, 8 completions: almost all of these overflow the completion queue at once. */
	struct loop *loop = new_loop(_i, 2);
	struct probe *probes = calloc(FLOOD, sizeof *probes);
	int a[2], ended = 0;
	char *bytes = malloc(FLOOD);
	pair(a);
	for (int i = 0; i < FLOOD; i++) {
		probe_init(&probes[i], loop, &ended, 0);
		loop_receive(loop, &probes[i].op, a[0], &bytes[i], 1);
	}
	close(a[1]); /* all of them end with 0 */
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_int_eq(ended, FLOOD);
	for (int i = 0; i < FLOOD; i++) {
		ck_assert_int_eq(probes[i].calls, 1);
		ck_assert_int_eq(probes[i].result, 0);
	}
	loop_free(loop);
	close(a[0]);
	free(probes);
	free(bytes);
}
END_TEST

static const int refusals[] = {EPERM, ENOSYS, ENOMEM};

START_TEST(without_io_uring_auto_is_epoll_and_uring_an_error)
{
	struct loop *loop = NULL;
	struct err err = {""};
	ck_assert_int_eq(refuse_call(SYS_io_uring_setup, (unsigned)refusals[_i]), 0);
	ck_assert_int_eq(loop_new(IO_URING, 8, &loop, &err), -refusals[_i]);
	ck_assert_ptr_nonnull(strstr(err.text, "io_uring"));
	err.text[0] = '\0';
	ck_assert_int_eq(loop_new(IO_AUTO, 8, &loop, &err), 0);
	ck_assert_int_eq(loop_backend(loop), IO_EPOLL);
	ck_assert_ptr_nonnull(strstr(err.text, strerror(refusals[_i]))); /* why it is */
	loop_free(loop);
}
END_TEST

/* The kernel's side of the only loop of this process goes away. */
static void break_interface(void)
{
	char path[64], target[64];
	for (int fd = 3; fd < 256; fd++) {
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		ssize_t n = readlink(path, target, sizeof target - 1);
		target[n > 0 ? n : 0] = '\0';
		if (!strcmp(target, "anon_inode:[io_uring]") || !strcmp(target, "anon_inode:[eventpoll]"))
			close(fd);
	}
}

static void break_it(struct loop_op *op, int result)
{
	(void)op;
	(void)result;
	break_interface();
}

START_TEST(an_interface_that_fails_in_use_ends_the_loop_and_every_operation)
{
	struct loop *loop = new_loop(_i, 8);
	struct probe waiting;
	struct loop_op timer = {.done = break_it};
	int a[2], ended = 0;
	char byte;
	pair(a);
	probe_init(&waiting, loop, &ended, 0);
	loop_receive(loop, &waiting.op, a[0], &byte, 1);
	loop_timer(loop, &timer, 1000000);
	ck_assert_int_eq(loop_run(loop), -EBADF);
	ck_assert_int_eq(ended, 0);
	loop_free(loop);
	ck_assert_int_eq(ended, 1);
	ck_assert_int_eq(waiting.result, -ECANCELED);
	close(a[0]);
	close(a[1]);
}
END_TEST

START_TEST(auto_is_io_uring_where_it_works)
{
	struct loop *loop = NULL;
	ck_assert_int_eq(loop_new(IO_AUTO, 8, &loop, NULL), 0);
	ck_assert_int_eq(loop_backend(loop), IO_URING);
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
	Suite *suite = suite_create("loop");
	TCase *tcase = tcase_create("both backends");
	static const TTest *const *const tests[] = {
		&timers_end_in_order,
		&a_timer_without_end_can_be_cancelled,
		&every_kind_is_cancelled_in_flight,
		&an_operation_cancelled_before_it_was_issued_ends_too,
		&loop_free_ends_what_is_in_flight,
		&the_peers_end_is_seen,
		&unread_bytes_are_no_hangup,
		&eventfds_are_read_when_they_count,
		&a_non_blocking_eventfd_read_is_cancelled_while_it_waits,
		&poll_says_readable_and_leaves_the_bytes,
		&a_reused_descriptor_number_is_a_new_descriptor,
		&a_bad_descriptor_is_an_error_not_a_hang,
		&more_completions_than_the_queue_holds,
		&an_interface_that_fails_in_use_ends_the_loop_and_every_operation,
	};
	for (unsigned i = 0; i < sizeof tests / sizeof tests[0]; i++)
		tcase_add_loop_test(tcase, *tests[i], first, 2);
	tcase_add_loop_test(tcase, without_io_uring_auto_is_epoll_and_uring_an_error, 0,
			    sizeof refusals / sizeof refusals[0]);
	tcase_add_loop_test(tcase, auto_is_io_uring_where_it_works, first, 1);
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
