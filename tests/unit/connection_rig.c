#include "tests/unit/connection_rig.h"

#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/clock.h"
#include "src/err.h"

static const enum io_backend backends[] = {IO_URING, IO_EPOLL};

/* --- the handler ------------------------------------------------------------------------------ */

static void on_request(struct connection *connection, const struct http_request *request)
{
	struct rig *rig = connection_owner(connection);
	ck_assert_ptr_null(connection_answerer(connection));
	connection_set_answerer(connection, rig);
	rig->n_requests++;
	rig->asking = connection;
	rig->body_bytes = request->body_bytes;
	snprintf(rig->path, sizeof rig->path, "%s", request->path);
	if (rig->answer)
		rig->answer(rig, connection);
}

/* Bodies for "/up..." are streamed. */
static void on_head(struct connection *connection, const struct http_request *request)
{
	struct rig *rig = connection_owner(connection);
	rig->n_heads++;
	if (strncmp(request->path, "/up", 3) != 0)
		return;
	connection_stream(connection, rig->body_max);
	ck_assert_ptr_null(connection_answerer(connection));
	connection_set_answerer(connection, rig);
	rig->asking = connection;
	rig->body_bytes = 0;
	if (rig->head)
		rig->head(rig, connection);
}

static void on_body(struct connection *connection, const char *bytes, size_t n_bytes)
{
	struct rig *rig = connection_owner(connection);
	ck_assert_uint_gt(n_bytes, 0);
	ck_assert_ptr_eq(connection_answerer(connection), rig);
	for (size_t i = 0; i < n_bytes; i++)
		rig->body_sum = rig->body_sum * 31 + (unsigned char)bytes[i];
	rig->body_bytes += n_bytes;
	if (rig->piece)
		rig->piece(rig, connection);
}

static void on_body_end(struct connection *connection)
{
	struct rig *rig = connection_owner(connection);
	rig->n_ends++;
	if (rig->answer)
		rig->answer(rig, connection);
}

static void on_refused(struct connection *connection, int status, const char *reason)
{
	struct rig *rig = connection_owner(connection);
	ck_assert_str_ne(reason, "");
	rig->n_refused++;
	rig->status = status;
	ck_assert_int_eq(connection_answer(connection, status, "text/plain", "no\n", 3, ""), 0);
}

static void on_gone(struct connection *connection)
{
	struct rig *rig = connection_owner(connection);
	ck_assert_ptr_eq(connection_answerer(connection), rig);
	ck_assert_int_eq(connection_write(connection, "x", 1), -EPIPE);
	connection_abort(connection); /* allowed, and of no effect */
	rig->n_gone++;
}

static void on_closed(struct connection *connection)
{
	struct rig *rig = connection_owner(connection);
	rig->n_closed++;
	rig->asking = NULL;
}

/* --- the client ------------------------------------------------------------------------------- */

static void rig_init_over(struct rig *rig, int backend, const struct connection_limits *limits, const int fds[2])
{
	static const struct connection_handler handler = {.request = on_request,
							  .head = on_head,
							  .body = on_body,
							  .body_end = on_body_end,
							  .refused = on_refused,
							  .gone = on_gone,
							  .closed = on_closed};
	static const struct connection_limits usual = {.max_request_bytes = 100000, .client_buffer_bytes = 50000};
	struct err err = {""};
	*rig = (struct rig){.client = -1};
	ck_assert_msg(loop_new(backends[backend], 16, &rig->loop, &err) == 0, "%s", err.text);
	connection_set_init(&rig->set, rig->loop, &handler, limits ? limits : &usual, rig);
	ck_assert_int_eq(connection_open(&rig->set, fds[0]), 0);
	ck_assert_uint_eq(rig->set.n, 1);
	rig->client = fds[1];
}

void rig_init(struct rig *rig, int backend, const struct connection_limits *limits)
{
	int fds[2];
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	rig_init_over(rig, backend, limits, fds);
}

void rig_init_tcp(struct rig *rig, int backend)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fds[2] = {-1, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
	ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &length), 0);
	ck_assert_int_eq(listen(listener, 1), 0);
	ck_assert_int_eq(connect(fds[1], (struct sockaddr *)&address, sizeof address), 0);
	fds[0] = accept(listener, NULL, NULL);
	ck_assert_int_ge(fds[0], 0);
	close(listener);
	rig_init_over(rig, backend, NULL, fds);
}

void rig_fini(struct rig *rig)
{
	connection_set_abort(&rig->set);
	loop_free(rig->loop);
	ck_assert_uint_eq(rig->set.n, 0);
	close(rig->client);
	free(rig->text);
}

void say(struct rig *rig, const char *text)
{
	ck_assert_int_eq(send(rig->client, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

void hear(struct rig *rig)
{
	for (;;) {
		if (rig->capacity - rig->n_text < 65537) {
			rig->capacity = 2 * rig->capacity + 65537;
			rig->text = realloc(rig->text, rig->capacity);
		}
		ssize_t n = recv(rig->client, rig->text + rig->n_text, 65536, MSG_DONTWAIT);
		rig->at_end |= n == 0 || (n < 0 && errno != EAGAIN);
		if (n <= 0)
			break;
		rig->n_text += (size_t)n;
	}
	rig->text[rig->n_text] = '\0';
}

static void look(struct loop_op *op, int result)
{
	struct rig *rig = (struct rig *)((char *)op - offsetof(struct rig, look));
	(void)result;
	if (rig->enough(rig) || clock_now_ns() > rig->give_up_ns)
		loop_stop(rig->loop);
	else
		loop_timer(rig->loop, op, MS / 2);
}

bool run_until(struct rig *rig, bool (*enough)(struct rig *rig), uint64_t ms)
{
	rig->enough = enough;
	rig->give_up_ns = clock_now_ns() + ms * MS;
	rig->look.done = look;
	loop_timer(rig->loop, &rig->look, 0);
	ck_assert_int_eq(loop_run(rig->loop), 0);
	return enough(rig);
}

bool never(struct rig *rig)
{
	(void)rig;
	return false;
}

bool asked(struct rig *rig)
{
	return rig->asking != NULL;
}

bool heard_end(struct rig *rig)
{
	hear(rig);
	return rig->at_end;
}

bool heard_three_answers(struct rig *rig)
{
	int n = 0;
	hear(rig);
	for (const char *at = rig->text; (at = strstr(at, "HTTP/1.1 200 OK\r\n")); at++)
		n++;
	return n == 3 && rig->n_text > 4 && strcmp(rig->text + rig->n_text - 4, "done") == 0;
}

bool heard_something(struct rig *rig)
{
	hear(rig);
	return rig->n_text > 0;
}

bool closed(struct rig *rig)
{
	return rig->n_closed > 0;
}

const char *body_of(const struct rig *rig)
{
	const char *end = strstr(rig->text, "\r\n\r\n");
	ck_assert_ptr_nonnull(end);
	return end + 4;
}
