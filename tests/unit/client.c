/* What weightctl reads from a server: HTTP cut anywhere, event streams cut anywhere, servers that break off. */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/ctl/client.h"
#include "src/ctl/control_client.h"
#include "src/ctl/interrupt.h"
#include "src/ctl/sse.h"
#include "src/ctl/table.h"
#include "tests/unit/suite.h"

static char directory[64], path[128];
static pid_t server;

static void setup(void)
{
	strcpy(directory, "/tmp/weightd-client-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(directory));
	snprintf(path, sizeof path, "%s/socket", directory);
	server = 0;
}

static void teardown(void)
{
	int status = 0;
	if (server > 0)
		ck_assert_int_eq(waitpid(server, &status, 0), server);
	unlink(path);
	rmdir(directory);
	ck_assert_int_eq(status, 0);
}

/* A server for one connection: reads a request up to its blank line (or line, for control), then sends `answer` in
 * pieces of `piece` bytes and closes. */
static void serve(const char *request_end, const char *answer, size_t n_answer, size_t piece)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	strcpy(address.sun_path, path);
	int listener = socket(AF_UNIX, SOCK_STREAM, 0);
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
	ck_assert_int_eq(listen(listener, 1), 0);
	server = fork();
	if (server == 0) {
		char request[4096] = "";
		size_t n = 0;
		int fd = accept(listener, NULL, NULL);
		while (!strstr(request, request_end)) {
			ssize_t got = recv(fd, request + n, sizeof request - 1 - n, 0);
			if (got <= 0)
				_exit(2);
			n += (size_t)got;
			request[n] = '\0';
		}
		for (size_t at = 0; at < n_answer; at += piece) {
			size_t left = n_answer - at;
			if (send(fd, answer + at, left < piece ? left : piece, MSG_NOSIGNAL) < 0)
				break;
		}
		_exit(0);
	}
	close(listener);
}

static const char chunked[] =
	"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: "
	"chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n1\r\n \r\n5\r\nworld\r\n0\r\n\r\n";

START_TEST(an_answer_is_read_however_it_is_cut)
{
	static const size_t pieces[] = {1, 2, 3, 7, 64, 1000};
	struct client *client;
	struct err err = {""};
	char *text;
	size_t n;
	int status;
	serve("\r\n\r\n", chunked, sizeof chunked - 1, pieces[_i]);
	ck_assert_msg(client_open(path, -1, &client, &err) == 0, "%s", err.text);
	ck_assert_msg(client_request(client, "GET", "/x", NULL, 0, &status, &err) == 0, "%s", err.text);
	ck_assert_int_eq(status, 200);
	ck_assert_msg(client_read_all(client, 100, &text, &n, &err) == 0, "%s", err.text);
	ck_assert_str_eq(text, "hello world");
	ck_assert_uint_eq(n, 11);
	free(text);
	client_close(client);
}
END_TEST

static int ask(const char *answer, size_t max, struct err *err)
{
	struct client *client;
	char *text = NULL;
	size_t n;
	int status;
	serve("\r\n\r\n", answer, strlen(answer), 4096);
	ck_assert_int_eq(client_open(path, -1, &client, err), 0);
	int rc = client_request(client, "POST", "/x", "{}", 2, &status, err);
	if (rc == 0)
		rc = client_read_all(client, max, &text, &n, err);
	free(text);
	client_close(client);
	return rc;
}

START_TEST(a_server_that_breaks_off_is_noticed)
{
	static const char *const answers[] = {"",
					      "HTTP/1.1 200 OK\r\n",
					      "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
					      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
					      "SSH-2.0-OpenSSH\r\n",
					      "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"};
	struct err err = {""};
	ck_assert_int_eq(ask(answers[_i], 100, &err), -EPROTO);
	ck_assert_uint_gt(strlen(err.text), 0);
}
END_TEST

START_TEST(a_body_past_the_limit_is_refused)
{
	struct err err = {""};
	ck_assert_int_eq(ask("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789", 9, &err), -EFBIG);
}
END_TEST

START_TEST(a_body_without_length_ends_with_the_connection)
{
	struct err err = {""};
	ck_assert_msg(ask("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n0123456789", 10, &err) == 0, "%s", err.text);
}
END_TEST

START_TEST(nobody_listening_is_told_apart)
{
	struct client *client;
	struct err err = {""};
	ck_assert_int_eq(client_open(path, -1, &client, &err), -ENOENT);
	ck_assert_msg(strstr(err.text, path) != NULL, "%s", err.text);
	char much[200];
	memset(much, 'x', sizeof much - 1);
	much[sizeof much - 1] = '\0';
	ck_assert_int_eq(client_open(much, -1, &client, &err), -ENAMETOOLONG);
}
END_TEST

START_TEST(a_signal_ends_a_wait)
{
	struct client *client;
	struct err err = {""};
	int status, interrupt_fd = interrupt_open();
	ck_assert_int_ge(interrupt_fd, 0);
	serve("\r\n\r\n\r\n" /* never comes: the server waits until we close */, "", 0, 1);
	ck_assert_int_eq(client_open(path, interrupt_fd, &client, &err), 0);
	ck_assert_int_eq(raise(SIGINT), 0);
	ck_assert_int_eq(client_request(client, "GET", "/x", NULL, 0, &status, &err), -EINTR);
	ck_assert_int_eq(interrupt_take(interrupt_fd), SIGINT);
	ck_assert_int_eq(interrupt_take(interrupt_fd), 0);
	client_close(client);
	close(interrupt_fd);
	ck_assert_int_eq(waitpid(server, &status, 0), server);
	ck_assert_int_eq(WEXITSTATUS(status), 2);
	server = 0;
}
END_TEST

START_TEST(control_sends_a_line_and_reads_to_the_end)
{
	static char answer[20000];
	struct err err = {""};
	char *text;
	size_t n;
	pid_t pid;
	memset(answer, 'a', sizeof answer);
	serve("status\n", answer, sizeof answer, 777);
	int fd = control_connect(path, &pid, &err);
	ck_assert_msg(fd >= 0, "%s", err.text);
	ck_assert_msg(control_ask(fd, -1, "status", CONTROL_PATIENCE_MS, &text, &n, &err) == 0, "%s", err.text);
	close(fd);
	ck_assert_uint_eq(n, sizeof answer);
	ck_assert_uint_eq(strlen(text), n);
	ck_assert_int_eq(pid, getpid()); /* this process called listen() */
	free(text);
}
END_TEST

/* --- events ----------------------------------------------------------------------------------- */

static const char stream[] =
	": a comment\nevent: message\ndata: first\n\ndata:second\r\n\r\ndata: two\ndata: lines\n\nid: 7\n\n\rdata: "
	"\xc3\xa9\r\rdata:\n\ndata: unfinished\n";
static const char *const events[] = {"first", "second", "two\nlines", "\xc3\xa9", ""};

START_TEST(events_are_the_same_however_the_stream_is_cut)
{
	size_t piece = (size_t)_i + 1;
	unsigned at = 0;
	struct sse sse;
	sse_init(&sse);
	for (size_t i = 0; i < sizeof stream - 1; i += piece) {
		size_t left = sizeof stream - 1 - i, n;
		const char *data;
		int rc;
		/* A copy of just these bytes, so that the sanitizer sees a look past them. */
		char *bytes = malloc(left < piece ? left : piece);
		memcpy(bytes, stream + i, left < piece ? left : piece);
		sse_feed(&sse, bytes, left < piece ? left : piece);
		while ((rc = sse_next(&sse, &data, &n)) > 0) {
			ck_assert_uint_lt(at, 5);
			ck_assert_str_eq(data, events[at]);
			ck_assert_uint_eq(n, strlen(events[at]));
			at++;
		}
		ck_assert_int_eq(rc, 0);
		free(bytes);
	}
	ck_assert_uint_eq(at, 5);
	sse_fini(&sse);
}
END_TEST

START_TEST(an_endless_event_is_refused)
{
	static char block[1 << 20];
	struct sse sse;
	const char *data;
	size_t n;
	int rc = 0;
	memset(block, 'x', sizeof block);
	sse_init(&sse);
	for (unsigned i = 0; i < 17 && rc == 0; i++) {
		sse_feed(&sse, block, sizeof block);
		rc = sse_next(&sse, &data, &n);
	}
	ck_assert_int_eq(rc, -EMSGSIZE);
	sse_fini(&sse);
}
END_TEST

/* --- tables ----------------------------------------------------------------------------------- */

START_TEST(tables_align_and_defuse_control_characters)
{
	char *text;
	size_t n;
	FILE *out = open_memstream(&text, &n);
	struct table *table = table_new("NAME|>SIZE|WHERE");
	table_cell(table, "a");
	table_cell(table, "%d", 7);
	table_cell(table, "x\033[2J");
	table_cell(table, "longer");
	table_cell(table, "%d", 12345);
	table_cell(table, "y");
	table_print(table, out);
	table_free(table);
	fclose(out);
	ck_assert_str_eq(text, "NAME     SIZE  WHERE\na           7  x?[2J\nlonger  12345  y\n");
	free(text);
}
END_TEST

START_TEST(quantities_are_for_people)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} sizes[] = {{0, "0 B"},
		     {999, "999 B"},
		     {1000, "1.0 kB"},
		     {98362432, "98.4 MB"},
		     {999949999, "1.0 GB"},
		     {999400000, "999 MB"},
		     {131072000, "131 MB"},
		     {UINT64_MAX, "18.4 EB"}};
	char text[TABLE_UNIT_TEXT];
	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
		ck_assert_str_eq(table_bytes(sizes[i].bytes, text), sizes[i].text);
	ck_assert_str_eq(table_duration(-1, text), "0 s");
	ck_assert_str_eq(table_duration(119.9, text), "119 s");
	ck_assert_str_eq(table_duration(3700, text), "61 min");
	ck_assert_str_eq(table_duration(7500, text), "2 h 5 min");
	ck_assert_str_eq(table_duration(300000, text), "3 days");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("client");
	TCase *tests = tcase_create("client");
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_loop_test(tests, an_answer_is_read_however_it_is_cut, 0, 6);
	tcase_add_loop_test(tests, a_server_that_breaks_off_is_noticed, 0, 6);
	tcase_add_test(tests, a_body_past_the_limit_is_refused);
	tcase_add_test(tests, a_body_without_length_ends_with_the_connection);
	tcase_add_test(tests, nobody_listening_is_told_apart);
	tcase_add_test(tests, a_signal_ends_a_wait);
	tcase_add_test(tests, control_sends_a_line_and_reads_to_the_end);
	tcase_add_loop_test(tests, events_are_the_same_however_the_stream_is_cut, 0, 40);
	tcase_add_test(tests, an_endless_event_is_refused);
	tcase_add_test(tests, tables_align_and_defuse_control_characters);
	tcase_add_test(tests, quantities_are_for_people);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
