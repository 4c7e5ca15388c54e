/* Bodies that are taken as they come: in order and whole, with the client held back, answered early, too large, too
 * slow, and left in the middle. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/connection_rig.h"
#include "tests/unit/suite.h"

static struct rig rig;

static void answer_done(struct rig *r, struct connection *connection)
{
	(void)r;
	ck_assert_int_eq(connection_answer(connection, 200, "text/plain", "done", 4, ""), 0);
}

static void refuse_now(struct rig *r, struct connection *connection)
{
	(void)r;
	ck_assert_int_eq(connection_answer(connection, 422, "text/plain", "no", 2, ""), 0);
}

static void pause_now(struct rig *r, struct connection *connection)
{
	(void)r;
	connection_pause(connection);
}

static bool ended(struct rig *r)
{
	return r->n_ends > 0;
}
static bool gone(struct rig *r)
{
	return r->n_gone > 0;
}
static bool has_piece(struct rig *r)
{
	return r->body_bytes > 0;
}
static bool has_head(struct rig *r)
{
	return r->n_heads > 0;
}

static void begin(int backend, const struct connection_limits *limits)
{
	rig_init(&rig, backend, limits);
	rig.body_max = 1 << 20;
	rig.answer = answer_done;
}

START_TEST(pieces_come_in_order_and_the_connection_goes_on)
{
	begin(_i, NULL);
	unsigned sum = 0;
	for (const char *c = "hello, wide world"; *c; c++)
		sum = sum * 31 + (unsigned char)*c;
	say(&rig, "POST /up HTTP/1.1\r\n" HOST "Content-Length: 17\r\n\r\nhello, ");
	ck_assert(run_until(&rig, has_piece, 5000));
	ck_assert(rig.n_heads == 1 && rig.body_bytes == 7 && rig.n_ends == 0);
	say(&rig, "wide ");
	say(&rig, "worldGET /next HTTP/1.1\r\n" HOST "\r\n"
		  "POST /up HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
	ck_assert(run_until(&rig, heard_three_answers, 5000));
	ck_assert_int_eq(rig.n_ends, 2);
	ck_assert_int_eq(rig.n_requests, 1); /* the GET, which has no head of its own */
	ck_assert_int_eq(rig.n_heads, 2);
	for (const char *c = "abcde"; *c; c++)
		sum = sum * 31 + (unsigned char)*c;
	ck_assert_uint_eq(rig.body_sum, sum);
	ck_assert_int_eq(rig.n_gone, 0);
	rig_fini(&rig);
}
END_TEST

START_TEST(what_is_not_streamed_is_collected_as_before)
{
	begin(_i, NULL);
	say(&rig, "POST /whole HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhel");
	ck_assert(run_until(&rig, has_head, 5000));
	ck_assert_int_eq(rig.n_requests, 0);
	say(&rig, "lo");
	ck_assert(run_until(&rig, asked, 5000));
	ck_assert(rig.body_bytes == 5 && rig.n_ends == 0);
	rig_fini(&rig);
}
END_TEST

START_TEST(a_client_that_waits_is_invited)
{
	begin(_i, NULL);
	say(&rig, "POST /up HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
	ck_assert(run_until(&rig, heard_something, 5000));
	ck_assert_ptr_eq(strstr(rig.text, "HTTP/1.1 100 Continue\r\n"), rig.text);
	say(&rig, "ab");
	ck_assert(run_until(&rig, ended, 5000));
	rig_fini(&rig);
}
END_TEST

START_TEST(an_answer_before_the_end_is_the_last)
{
	begin(_i, NULL);
	rig.head = refuse_now;
	say(&rig, "POST /up HTTP/1.1\r\n" HOST "Content-Length: 900000\r\n\r\nabc");
	ck_assert(run_until(&rig, heard_end, 5000));
	ck_assert_ptr_nonnull(strstr(rig.text, "HTTP/1.1 422"));
	ck_assert_ptr_nonnull(strstr(rig.text, "Connection: close\r\n"));
	ck_assert_str_eq(body_of(&rig), "no");
	ck_assert(rig.body_bytes == 0 && rig.n_ends == 0 && rig.n_gone == 0);
	rig_fini(&rig);
	begin(_i, NULL);
	rig.piece = refuse_now;
	say(&rig, "POST /up HTTP/1.1\r\n" HOST "Content-Length: 900000\r\n\r\nabc");
	ck_assert(run_until(&rig, heard_end, 5000));
	ck_assert_str_eq(body_of(&rig), "no");
	ck_assert(rig.body_bytes == 3 && rig.n_ends == 0 && rig.n_gone == 0);
	rig_fini(&rig);
}
END_TEST

START_TEST(too_large_is_said_at_the_first_byte_too_many)
{
	begin(_i, NULL);
	rig.body_max = 10;
	say(&rig, "POST /up HTTP/1.1\r\n" HOST "Content-Length: 11\r\n\r\n");
	ck_assert(run_until(&rig, heard_end, 5000));
	ck_assert(rig.n_refused == 1 && rig.status == 413 && rig.body_bytes == 0 && rig.n_gone == 0);
	rig_fini(&rig);
	begin(_i, NULL);
	rig.body_max = 10;
	say(&rig, "POST /up HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n8\r\nabcdefgh\r\n");
	ck_assert(run_until(&rig, has_piece, 5000));
	say(&rig, "3\r\n");
	ck_assert(run_until(&rig, heard_end, 5000));
	ck_assert(rig.n_refused == 1 && rig.status == 413 && rig.body_bytes == 8 && rig.n_gone == 0 && rig.n_ends == 0);
	rig_fini(&rig);
}
END_TEST

START_TEST(a_body_that_breaks_is_refused)
{
	begin(_i, NULL);
	say(&rig, "POST /up HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
	ck_assert(run_until(&rig, has_piece, 5000));
	say(&rig, "zz\r\n");
	ck_assert(run_until(&rig, heard_end, 5000));
	ck_assert(rig.n_refused == 1 && rig.status == 400 && rig.n_gone == 0 && rig.n_ends == 0);
	rig_fini(&rig);
}
END_TEST

/* Larger than sockets hold: what the client can send while it is held back has an end. */
START_TEST(a_paused_body_holds_the_client_back)
{
	static char block[1 << 16];
	enum { TOTAL = 4 << 20 };
	char head[128];
	size_t sent = 0;
	begin(_i, NULL);
	rig.body_max = TOTAL;
	rig.piece = pause_now;
	snprintf(head, sizeof head, "POST /up HTTP/1.1\r\n" HOST "Content-Length: %d\r\n\r\n", TOTAL);
	say(&rig, head);
	ck_assert_int_eq(fcntl(rig.client, F_SETFL, O_NONBLOCK), 0);
	while (sent < TOTAL) {
		ssize_t n = send(rig.client, block, sizeof block, MSG_NOSIGNAL);
		if (n > 0)
			sent += (size_t)n;
		if (n < 0 && errno == EAGAIN) {
			size_t before = rig.body_bytes;
			run_until(&rig, never, 50);
			if (rig.body_bytes == before)
				break; /* it takes no more */
		}
	}
	ck_assert_uint_lt(sent, TOTAL);
	ck_assert_uint_lt(rig.body_bytes, TOTAL / 2);
	ck_assert_int_eq(rig.n_ends, 0);
	rig.piece = NULL;
	connection_resume(rig.asking);
	while (sent < TOTAL) {
		ssize_t n = send(rig.client, block, sizeof block, MSG_NOSIGNAL);
		if (n > 0)
			sent += (size_t)n;
		run_until(&rig, never, 1);
	}
	ck_assert(run_until(&rig, ended, 5000));
	ck_assert_uint_eq(rig.body_bytes, TOTAL);
	rig_fini(&rig);
}
END_TEST

START_TEST(a_client_that_leaves_is_reported)
{
	for (int paused = 0; paused < 2; paused++) {
		begin(_i, NULL);
		rig.piece = paused ? pause_now : NULL;
		say(&rig, "POST /up HTTP/1.1\r\n" HOST "Content-Length: 100\r\n\r\nabc");
		ck_assert(run_until(&rig, has_piece, 5000));
		ck_assert_int_eq(shutdown(rig.client, SHUT_RDWR), 0);
		ck_assert(run_until(&rig, gone, 5000));
		ck_assert(run_until(&rig, closed, 5000));
		ck_assert(rig.n_gone == 1 && rig.n_ends == 0 && rig.n_refused == 0);
		rig_fini(&rig);
	}
}
END_TEST

static const struct connection_limits hasty = {
	.max_request_bytes = 1000, .client_buffer_bytes = 50000, .request_ns = 1000 * MS};

/* The time counts between pieces, not over all, and not while it is us who wait. */
START_TEST(silence_in_the_middle_has_a_bound)
{
	begin(_i, &hasty);
	say(&rig, "POST /up HTTP/1.1\r\n" HOST "Content-Length: 100\r\n\r\n");
	for (int i = 0; i < 14; i++) {
		say(&rig, "x");
		run_until(&rig, never, 100);
	}
	ck_assert_int_eq(rig.n_refused, 0);
	ck_assert(run_until(&rig, heard_end, 10000));
	ck_assert(rig.n_refused == 1 && rig.status == 408 && rig.n_gone == 0);
	ck_assert_uint_eq(rig.set.counts.slow_request, 1);
	rig_fini(&rig);
	begin(_i, &hasty);
	rig.piece = pause_now;
	say(&rig, "POST /up HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\na");
	ck_assert(run_until(&rig, has_piece, 5000));
	run_until(&rig, never, 2000);
	ck_assert_int_eq(rig.n_refused, 0);
	connection_resume(rig.asking);
	say(&rig, "b");
	ck_assert(run_until(&rig, ended, 5000));
	rig_fini(&rig);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("front_stream");
	TCase *tests = tcase_create("all");
	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(tests, pieces_come_in_order_and_the_connection_goes_on, 0, 2);
	tcase_add_loop_test(tests, what_is_not_streamed_is_collected_as_before, 0, 2);
	tcase_add_loop_test(tests, a_client_that_waits_is_invited, 0, 2);
	tcase_add_loop_test(tests, an_answer_before_the_end_is_the_last, 0, 2);
	tcase_add_loop_test(tests, too_large_is_said_at_the_first_byte_too_many, 0, 2);
	tcase_add_loop_test(tests, a_body_that_breaks_is_refused, 0, 2);
	tcase_add_loop_test(tests, a_paused_body_holds_the_client_back, 0, 2);
	tcase_add_loop_test(tests, a_client_that_leaves_is_reported, 0, 2);
	tcase_add_loop_test(tests, silence_in_the_middle_has_a_bound, 0, 2);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
