/* src/front/connection over both loop backends. */
#include "src/front/connection.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/clock.h"
#include "src/err.h"
#include "tests/unit/connection_rig.h"
#include "tests/unit/suite.h"

/* --- answers ---------------------------------------------------------------------------------- */

static void answer_path(struct rig *rig, struct connection *connection)
{
	rig->asking = NULL;
	ck_assert_int_eq(connection_answer(connection, 200, "text/plain", "done", 4, "X: y\r\n"), 0);
	ck_assert_int_eq(connection_end(connection), -EPIPE); /* an answer ends once */
}

START_TEST(pipelined_requests_are_answered_in_turn)
{
	struct rig rig;
	rig_init(&rig, _i, NULL);
	rig.answer = answer_path;
	say(&rig, "GET /1 HTTP/1.1\r\n" HOST "\r\nGET /2 HTTP/1.1\r\n" HOST "\r\nGET /3 HTTP/1.1\r\n" HOST "\r\n");
	ck_assert_msg(run_until(&rig, heard_three_answers, 5000), "%s", rig.text);
	ck_assert_int_eq(rig.n_requests, 3);
	ck_assert_str_eq(rig.path, "/3");
	ck_assert_ptr_nonnull(strstr(rig.text, "Content-Length: 4\r\n"));
	ck_assert_ptr_nonnull(strstr(rig.text, "\r\nX: y\r\n"));
	ck_assert_ptr_nonnull(strstr(rig.text, "\r\nDate: "));
	ck_assert_ptr_nonnull(strstr(rig.text, "\r\nConnection: keep-alive\r\n"));
	ck_assert(!rig.at_end);
	ck_assert_int_eq(rig.n_closed, 0);
	rig_fini(&rig);
	ck_assert_int_eq(rig.n_gone, 0);
	ck_assert_int_eq(rig.n_closed, 1);
}
END_TEST

START_TEST(the_next_request_waits_for_the_answer)
{
	struct rig rig;
	rig_init(&rig, _i, NULL);
	say(&rig, "GET /1 HTTP/1.1\r\n" HOST "\r\nGET /2 HTTP/1.1\r\n" HOST "\r\n");
	ck_assert(run_until(&rig, asked, 5000));
	run_until(&rig, never, 30);
	ck_assert_int_eq(rig.n_requests, 1);
	struct connection *connection = rig.asking;
	rig.asking = NULL;
	ck_assert_int_eq(connection_begin(connection, 200, "text/plain", ""), 0);
	ck_assert_int_eq(connection_write(connection, "part", 4), 0);
	connection_flush(connection);
	ck_assert(run_until(&rig, heard_something, 5000));
	ck_assert_str_eq(body_of(&rig), "4\r\npart\r\n");
	ck_assert_int_eq(rig.n_requests, 1);
	ck_assert_int_eq(connection_end(connection), 0);
	ck_assert_int_eq(rig.n_requests, 1); /* not from within the call */
	ck_assert(run_until(&rig, asked, 5000));
	ck_assert_str_eq(rig.path, "/2");
	rig_fini(&rig);
}
END_TEST

static void answer_in_pieces(struct rig *rig, struct connection *connection)
{
	rig->asking = NULL;
	ck_assert_int_eq(connection_begin(connection, 200, "text/plain", ""), 0);
	ck_assert_int_eq(connection_write(connection, "one", 3), 0);
	ck_assert_int_eq(connection_write(connection, "", 0), 0);
	ck_assert_int_eq(connection_write(connection, "twelve bytes", 12), 0);
	connection_drain(connection);
	ck_assert_int_eq(connection_end(connection), 0);
}

static const struct {
	const char *request, *body, *head;
} framings[] = {
	{"GET / HTTP/1.1\r\n" HOST "\r\n", "3\r\none\r\nc\r\ntwelve bytes\r\n0\r\n\r\n",
	 "Transfer-Encoding: chunked\r\n"},
	{"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "onetwelve bytes", "Connection: close\r\n"},
	{"HEAD / HTTP/1.1\r\n" HOST "\r\n", "", "Transfer-Encoding: chunked\r\n"},
};

START_TEST(an_answer_in_pieces_is_framed_as_the_client_can_read_it)
{
	struct rig rig;
	rig_init(&rig, _i % 2, NULL);
	rig.answer = answer_in_pieces;
	say(&rig, framings[_i / 2].request);
	ck_assert(run_until(&rig, heard_end, 5000));
	ck_assert_str_eq(body_of(&rig), framings[_i / 2].body);
	ck_assert_ptr_nonnull(strstr(rig.text, framings[_i / 2].head));
	close(rig.client);
	rig.client = -1;
	ck_assert(run_until(&rig, closed, 5000));
	ck_assert_int_eq(rig.n_gone, 0);
	rig_fini(&rig);
}
END_TEST

START_TEST(a_head_request_gets_the_length_alone_and_the_connection_goes_on)
{
	struct rig rig;
	rig_init(&rig, _i, NULL);
	rig.answer = answer_path;
	say(&rig, "HEAD /1 HTTP/1.1\r\n" HOST "\r\nGET /2 HTTP/1.1\r\n" HOST "\r\n"
		  "GET /3 HTTP/1.1\r\n" HOST "\r\n");
	ck_assert_msg(run_until(&rig, heard_three_answers, 5000), "%s", rig.text);
	ck_assert_ptr_nonnull(strstr(rig.text, "Content-Length: 4\r\n"));
	ck_assert_int_eq(strncmp(body_of(&rig), "HTTP/1.1 200 OK\r\n", 17), 0);
	rig_fini(&rig);
}
END_TEST

static void answer_body_size(struct rig *rig, struct connection *connection)
{
	char words[64];
	int n = snprintf(words, sizeof words, "%zu", rig->body_bytes);
	rig->asking = NULL;
	connection_drain(connection);
	ck_assert_int_eq(connection_answer(connection, 200, "text/plain", words, (size_t)n, ""), 0);
}

START_TEST(a_waiting_client_is_invited)
{
	struct rig rig;
	rig_init(&rig, _i, NULL);
	rig.answer = answer_body_size;
	say(&rig, "POST / HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n");
	ck_assert(run_until(&rig, heard_something, 5000));
	ck_assert_str_eq(rig.text, "HTTP/1.1 100 Continue\r\n\r\n");
	ck_assert_int_eq(rig.n_requests, 0);
	say(&rig, "hello");
	rig.n_text = 0;
	ck_assert(run_until(&rig, heard_end, 5000));
	ck_assert_str_eq(body_of(&rig), "5");
	rig_fini(&rig);
}
END_TEST

/* --- clients that leave, or do not read ------------------------------------------------------- */

START_TEST(a_client_that_leaves_is_noticed_once)
{
	struct rig rig;
	rig_init(&rig, _i % 2, NULL);
	say(&rig, "POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc");
	if (_i >= 2) /* with bytes that nobody reads yet */
		say(&rig, "GET /next HTTP/1.1\r\n" HOST "\r\n");
	ck_assert(run_until(&rig, asked, 5000));
	connection_begin(rig.asking, 200, "text/plain", "");
	connection_write(rig.asking, "a", 1);
	connection_flush(rig.asking);
	run_until(&rig, never, 20);
	ck_assert_int_eq(rig.n_gone, 0);
	close(rig.client);
	rig.client = -1;
	ck_assert(run_until(&rig, closed, 5000));
	ck_assert_int_eq(rig.n_gone, 1);
	ck_assert_int_eq(rig.n_closed, 1);
	ck_assert_int_eq(rig.n_requests, 1);
	ck_assert_uint_eq(rig.set.n, 0);
	rig_fini(&rig);
}
END_TEST

START_TEST(a_reset_is_noticed_once)
{
	struct rig rig;
	struct linger at_once = {.l_onoff = 1, .l_linger = 0};
	rig_init_tcp(&rig, _i);
	say(&rig, "GET / HTTP/1.1\r\n" HOST "\r\n");
	ck_assert(run_until(&rig, asked, 5000));
	ck_assert_int_eq(setsockopt(rig.client, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
	close(rig.client);
	rig.client = -1;
	ck_assert(run_until(&rig, closed, 5000));
	ck_assert_int_eq(rig.n_gone, 1);
	rig_fini(&rig);
}
END_TEST

START_TEST(a_client_that_only_stops_sending_gets_the_answer_that_is_there)
{
	struct rig rig;
	rig_init(&rig, _i, NULL);
	rig.answer = answer_path;
	say(&rig, "GET /1 HTTP/1.1\r\n" HOST "\r\n");
	ck_assert_int_eq(shutdown(rig.client, SHUT_WR), 0);
	ck_assert(run_until(&rig, heard_end, 5000));
	ck_assert_str_eq(body_of(&rig), "done");
	ck_assert_int_eq(rig.n_gone, 0);
	rig_fini(&rig);
}
END_TEST

START_TEST(a_client_that_does_not_read_is_dropped)
{
	struct rig rig;
	rig_init(&rig, _i, NULL);
	static char piece[1000];
	say(&rig, "GET / HTTP/1.1\r\n" HOST "\r\n");
	ck_assert(run_until(&rig, asked, 5000));
	struct connection *connection = rig.asking;
	ck_assert_int_eq(connection_begin(connection, 200, "text/plain", ""), 0);
	int rc = 0, n_writes = 0;
	for (; rc == 0 && n_writes < 10000; n_writes++) {
		rc = connection_write(connection, piece, sizeof piece);
		connection_flush(connection);
		if (n_writes % 20 == 0)
			run_until(&rig, never, 2);
		ck_assert_uint_le(connection_queued(connection), 50000 + 2 * sizeof piece);
		ck_assert_int_eq(rig.n_gone, 0); /* not before the write that fails */
	}
	ck_assert_int_eq(rc, -EPIPE);
	ck_assert_int_gt(n_writes, 100); /* the socket's buffer took some */
	ck_assert_int_eq(connection_write(connection, piece, sizeof piece), -EPIPE);
	ck_assert_int_eq(connection_end(connection), -EPIPE);
	ck_assert(run_until(&rig, closed, 5000));
	ck_assert_int_eq(rig.n_gone, 1);
	ck_assert_uint_eq(rig.set.counts.slow_reader, 1);
	ck_assert(heard_end(&rig)); /* and the client can tell: its body has no end */
	ck_assert_ptr_null(strstr(rig.text, "\r\n0\r\n\r\n"));
	rig_fini(&rig);
}
END_TEST

enum { LARGE = 3000000 };

static void answer_large(struct rig *rig, struct connection *connection)
{
	char *body = malloc(LARGE);
	for (int i = 0; i < LARGE; i++)
		body[i] = (char)(i * 7 + i / 1000);
	rig->asking = NULL;
	connection_drain(connection);
	ck_assert_int_eq(connection_answer(connection, 200, "text/plain", body, LARGE, ""), 0);
	free(body);
}

START_TEST(a_large_answer_leaves_as_the_client_reads)
{
	struct rig rig;
	rig_init(&rig, _i, NULL);
	rig.answer = answer_large;
	say(&rig, "GET / HTTP/1.1\r\n" HOST "\r\n");
	ck_assert(run_until(&rig, heard_end, 20000));
	const char *body = body_of(&rig);
	ck_assert_uint_eq(rig.n_text - (size_t)(body - rig.text), LARGE);
	for (int i = 0; i < LARGE; i++)
		if (body[i] != (char)(i * 7 + i / 1000))
			ck_abort_msg("byte %d is wrong", i);
	ck_assert_int_eq(rig.n_gone, 0);
	rig_fini(&rig);
}
END_TEST

START_TEST(a_refused_client_still_sending_reads_the_refusal)
{
	struct rig rig;
	if (_i < 2)
		rig_init(&rig, _i, NULL);
	else
		rig_init_tcp(&rig, _i % 2);
	say(&rig, "POST / HTTP/1.1\r\n" HOST "Content-Length: 100001\r\n\r\n");
	static char body[100001];
	fcntl(rig.client, F_SETFL, O_NONBLOCK);
	ssize_t n_sent = send(rig.client, body, sizeof body, MSG_NOSIGNAL);
	ck_assert_int_gt(n_sent, 0);
	ck_assert(run_until(&rig, heard_end, 5000));
	ck_assert_int_eq(rig.n_refused, 1);
	ck_assert_int_eq(rig.status, 413);
	ck_assert_ptr_nonnull(strstr(rig.text, "HTTP/1.1 413 Content Too Large\r\n"));
	ck_assert_ptr_nonnull(strstr(rig.text, "Connection: close\r\n"));
	ck_assert_str_eq(body_of(&rig), "no\n");
	ck_assert_int_eq(rig.n_closed, 0);
	ck_assert_int_ge(send(rig.client, body, 1000, MSG_NOSIGNAL), 0); /* it goes on sending, to nobody */
	close(rig.client);
	rig.client = -1;
	ck_assert(run_until(&rig, closed, 1000)); /* as soon as the client has closed */
	ck_assert_int_eq(rig.n_gone, 0);
	rig_fini(&rig);
}
END_TEST

/* --- time ------------------------------------------------------------------------------------- */

static const struct connection_limits hasty = {.max_request_bytes = 1000,
					       .client_buffer_bytes = 1000,
					       .idle_ns = 60 * MS,
					       .request_ns = 120 * MS,
					       .stall_ns = 80 * MS};

START_TEST(an_idle_connection_is_closed_without_a_word)
{
	struct rig rig;
	rig_init(&rig, _i, &hasty);
	rig.answer = answer_path;
	say(&rig, "GET /1 HTTP/1.1\r\n" HOST "\r\n");
	uint64_t begin = clock_now_ns();
	ck_assert(run_until(&rig, heard_end, 5000));
	ck_assert_uint_ge(clock_now_ns() - begin, 60 * MS);
	ck_assert_str_eq(body_of(&rig), "done");
	ck_assert_int_eq(rig.n_closed, 1);
	ck_assert_uint_eq(rig.set.counts.idle, 1);
	ck_assert_uint_eq(rig.set.counts.received_bytes, strlen("GET /1 HTTP/1.1\r\n" HOST "\r\n"));
	ck_assert_uint_eq(rig.set.counts.sent_bytes, rig.n_text);
	rig_fini(&rig);
}
END_TEST

START_TEST(a_request_that_drips_in_is_refused)
{
	struct rig rig;
	rig_init(&rig, _i, &hasty);
	uint64_t begin = clock_now_ns();
	for (int i = 0; rig.n_refused == 0 && i < 200; i++) {
		say(&rig, i ? "a" : "GET /");
		run_until(&rig, never, 10); /* each byte sooner than the idle limit */
	}
	ck_assert_uint_ge(clock_now_ns() - begin, 120 * MS);
	ck_assert_int_eq(rig.status, 408);
	ck_assert(run_until(&rig, heard_end, 5000));
	ck_assert_ptr_nonnull(strstr(rig.text, "HTTP/1.1 408 Request Timeout\r\n"));
	ck_assert_uint_eq(rig.set.counts.slow_request, 1);
	ck_assert_uint_eq(rig.set.counts.idle, 0);
	rig_fini(&rig);
}
END_TEST

START_TEST(a_client_that_stalls_on_a_complete_answer_is_dropped)
{
	struct rig rig;
	rig_init(&rig, _i, &hasty);
	rig.answer = answer_large;
	say(&rig, "GET / HTTP/1.1\r\n" HOST "\r\n");
	ck_assert(run_until(&rig, closed, 5000));
	ck_assert_int_eq(rig.n_gone, 0); /* its maker had finished */
	ck_assert_uint_eq(rig.set.counts.slow_reader, 1);
	rig_fini(&rig);
}
END_TEST

START_TEST(an_answer_may_take_its_time)
{
	struct rig rig;
	rig_init(&rig, _i, &hasty);
	say(&rig, "GET / HTTP/1.1\r\n" HOST "\r\n");
	ck_assert(run_until(&rig, asked, 5000));
	run_until(&rig, never, 400);
	ck_assert_int_eq(rig.n_closed + rig.n_gone, 0);
	connection_drain(rig.asking);
	ck_assert_int_eq(connection_answer(rig.asking, 200, NULL, "late", 4, ""), 0);
	ck_assert(run_until(&rig, heard_end, 5000));
	ck_assert_str_eq(body_of(&rig), "late");
	rig_fini(&rig);
}
END_TEST

static bool room_was_made(struct rig *rig)
{
	return connection_set_make_room(&rig->set) || rig->set.counts.made_room;
}

START_TEST(an_idle_connection_makes_room_after_a_moment)
{
	struct rig rig;
	rig_init(&rig, _i, NULL);
	uint64_t begin = clock_now_ns();
	ck_assert(!connection_set_make_room(&rig.set)); /* it has just come */
	ck_assert(run_until(&rig, room_was_made, 20000));
	ck_assert_uint_ge(clock_now_ns() - begin, 1000 * MS);
	ck_assert(run_until(&rig, closed, 5000));
	hear(&rig);
	ck_assert(rig.at_end && rig.n_text == 0);
	ck_assert_uint_eq(rig.set.counts.made_room, 1);
	ck_assert(!connection_set_make_room(&rig.set)); /* there is nobody left */
	rig_fini(&rig);
}
END_TEST

START_TEST(a_request_keeps_its_place_and_gives_it_up_with_its_answer)
{
	struct rig rig;
	rig_init(&rig, _i, NULL);
	say(&rig, "GET / HTTP/1.1\r\n");
	run_until(&rig, never, 1200);
	ck_assert(!connection_set_make_room(&rig.set)); /* it is slow, but it comes */
	say(&rig, HOST "\r\n");
	ck_assert(run_until(&rig, asked, 5000));
	ck_assert(!connection_set_make_room(&rig.set));
	ck_assert_int_eq(connection_answer(rig.asking, 200, "text/plain", "done", 4, ""), 0);
	ck_assert(run_until(&rig, heard_end, 5000));
	ck_assert_ptr_nonnull(strstr(rig.text, "\r\nConnection: close\r\n"));
	ck_assert_str_eq(body_of(&rig), "done");
	ck_assert_uint_eq(rig.set.counts.made_room, 0);
	rig_fini(&rig);
}
END_TEST

/* --- ends that we choose ---------------------------------------------------------------------- */

START_TEST(draining_closes_the_idle_and_lets_answers_end)
{
	struct rig rig;
	int idle[2], late[2];
	char byte;
	rig_init(&rig, _i, NULL);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, idle), 0);
	ck_assert_int_eq(connection_open(&rig.set, idle[0]), 0);
	say(&rig, "GET /1 HTTP/1.1\r\n" HOST "\r\nGET /2 HTTP/1.1\r\n" HOST "\r\n");
	ck_assert(run_until(&rig, asked, 5000));
	struct connection *connection = rig.asking;
	connection_set_drain(&rig.set);
	ck_assert(run_until(&rig, closed, 5000));
	ck_assert_int_eq(recv(idle[1], &byte, 1, MSG_DONTWAIT), 0);
	ck_assert_int_eq(rig.n_closed, 1);
	ck_assert_int_eq(connection_answer(connection, 200, NULL, "last", 4, ""), 0);
	ck_assert(run_until(&rig, heard_end, 5000));
	ck_assert_str_eq(body_of(&rig), "last");
	ck_assert_ptr_nonnull(strstr(rig.text, "Connection: close\r\n"));
	ck_assert_int_eq(rig.n_requests, 1); /* the second request stays unread */
	/* A connection that was accepted while the drain began gets its one answer. */
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, late), 0);
	ck_assert_int_eq(connection_open(&rig.set, late[0]), 0);
	close(rig.client);
	rig.client = late[1];
	rig.answer = answer_path;
	rig.n_text = 0;
	rig.at_end = false;
	say(&rig, "GET /3 HTTP/1.1\r\n" HOST "\r\n");
	ck_assert(run_until(&rig, heard_end, 5000));
	ck_assert_str_eq(body_of(&rig), "done");
	rig_fini(&rig);
	ck_assert_int_eq(rig.n_gone, 0);
	close(idle[1]);
}
END_TEST

START_TEST(an_aborted_answer_is_seen_to_be_cut_off)
{
	struct rig rig;
	rig_init(&rig, _i, NULL);
	say(&rig, "GET / HTTP/1.1\r\n" HOST "\r\n");
	ck_assert(run_until(&rig, asked, 5000));
	struct connection *connection = rig.asking;
	connection_begin(connection, 200, "text/plain", "");
	connection_write(connection, "half", 4);
	connection_flush(connection);
	ck_assert(run_until(&rig, heard_something, 5000));
	connection_abort(connection);
	ck_assert_int_eq(rig.n_closed, 0); /* not from within the call */
	ck_assert_int_eq(connection_write(connection, "x", 1), -EPIPE);
	ck_assert(run_until(&rig, heard_end, 5000));
	ck_assert_str_eq(body_of(&rig), "4\r\nhalf\r\n");
	ck_assert_int_eq(rig.n_gone, 0);
	ck_assert_int_eq(rig.n_closed, 1);
	rig_fini(&rig);
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
	Suite *suite = suite_create("front_connection");
	TCase *tcase = tcase_create("both backends");
	static const TTest *const *const tests[] = {
		&pipelined_requests_are_answered_in_turn,
		&the_next_request_waits_for_the_answer,
		&a_head_request_gets_the_length_alone_and_the_connection_goes_on,
		&a_waiting_client_is_invited,
		&a_reset_is_noticed_once,
		&a_client_that_only_stops_sending_gets_the_answer_that_is_there,
		&a_client_that_does_not_read_is_dropped,
		&a_large_answer_leaves_as_the_client_reads,
		&an_idle_connection_is_closed_without_a_word,
		&a_request_that_drips_in_is_refused,
		&a_client_that_stalls_on_a_complete_answer_is_dropped,
		&an_answer_may_take_its_time,
		&an_idle_connection_makes_room_after_a_moment,
		&a_request_keeps_its_place_and_gives_it_up_with_its_answer,
		&draining_closes_the_idle_and_lets_answers_end,
		&an_aborted_answer_is_seen_to_be_cut_off,
	};
	for (unsigned i = 0; i < sizeof tests / sizeof tests[0]; i++)
		tcase_add_loop_test(tcase, *tests[i], first, 2);
	for (int i = 0; i < 2; i++) {
		if (i < first)
			continue;
		for (int kind = 0; kind < 3; kind++)
			tcase_add_loop_test(tcase, an_answer_in_pieces_is_framed_as_the_client_can_read_it,
					    2 * kind + i, 2 * kind + i + 1);
		for (int kind = 0; kind < 2; kind++) {
			int at = 2 * kind + i;
			tcase_add_loop_test(tcase, a_client_that_leaves_is_noticed_once, at, at + 1);
			tcase_add_loop_test(tcase, a_refused_client_still_sending_reads_the_refusal, at, at + 1);
		}
	}
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
