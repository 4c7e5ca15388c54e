/* Answers on their way into a connection's output: heads, whole bodies, chunks. What has left is connection.c's. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "src/clock.h"
#include "src/front/connection_internal.h"

enum { HEAD_BYTES = 4096 };

/* The client will not get this answer. `gone` comes from the loop, by way of the poll. */
void connection_give_up(struct connection *connection)
{
	connection->given_up = true;
	loop_cancel(connection->set->loop, &connection->hangup);
}

static int queue(struct connection *connection, const void *bytes, size_t n_bytes)
{
	if (connection->state != ANSWERING || connection->given_up)
		return -EPIPE;
	/* What was queued before counts: an answer that is large all at once is not its client's slowness. */
	bool too_slow = connection->output.n_bytes > connection->set->limits.client_buffer_bytes;
	int rc = too_slow ? -EPIPE : output_append(&connection->output, bytes, n_bytes);
	connection->set->counts.slow_reader += too_slow;
	if (rc != 0)
		connection_give_up(connection);
	return rc;
}

void connection_flush(struct connection *connection)
{
	const void *bytes;
	if (connection->state == CLOSING || connection->given_up || connection->send.in_flight)
		return;
	size_t n_bytes = output_front(&connection->output, &bytes);
	if (n_bytes)
		loop_send(connection->set->loop, &connection->send, connection->socket, bytes, n_bytes);
}

static int queue_head(struct connection *connection, int status, const char *content_type, uint64_t n_body,
		      const char *extra)
{
	char head[HEAD_BYTES], lines[HEAD_BYTES];
	time_t now = time(NULL);
	struct tm utc;
	size_t n = 0;
	if (gmtime_r(&now, &utc)) /* RFC 9110, 6.6.1: a server with a clock says when */
		n = strftime(lines, sizeof lines, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &utc);
	int more = snprintf(lines + n, sizeof lines - n, "%s%s", extra ? extra : "", connection->lines);
	if (connection->last || connection->set->crowded || connection->streams)
		connection->keep_alive = false;
	size_t n_head = more < 0 || (size_t)more >= sizeof lines - n
				? 0
				: http_format_head(head, sizeof head, status, content_type, n_body,
						   connection->keep_alive, lines);
	assert(n_head); /* who answers keeps to a few short lines */
	return queue(connection, head, n_head);
}

int connection_answer(struct connection *connection, int status, const char *content_type, const void *body,
		      size_t n_bytes, const char *extra)
{
	int rc = queue_head(connection, status, content_type, n_bytes, extra);
	if (rc == 0 && n_bytes && !connection->is_head)
		rc = output_append(&connection->output, body, n_bytes); /* not `queue`: the head is not a backlog */
	if (rc == -ENOMEM)
		connection_give_up(connection);
	return rc ? rc : connection_end(connection);
}

int connection_begin(struct connection *connection, int status, const char *content_type, const char *extra)
{
	connection->chunked = !connection->is_http_1_0 && !connection->is_head;
	if (connection->is_http_1_0)
		connection->keep_alive = false;
	return queue_head(connection, status, content_type, connection->is_http_1_0 ? HTTP_UNTIL_CLOSE : HTTP_CHUNKED,
			  extra);
}

int connection_write(struct connection *connection, const void *bytes, size_t n_bytes)
{
	char size[20];
	if (n_bytes == 0 || connection->is_head)
		return connection->state == ANSWERING && !connection->given_up ? 0 : -EPIPE;
	if (!connection->chunked)
		return queue(connection, bytes, n_bytes);
	int rc = queue(connection, size, http_format_chunk(size, n_bytes));
	if (rc == 0)
		rc = output_append(&connection->output, bytes, n_bytes);
	if (rc == 0)
		rc = output_append(&connection->output, "\r\n", 2);
	if (rc == -ENOMEM) /* what is queued is no whole chunk: it does not matter, nothing more is sent */
		connection_give_up(connection);
	return rc;
}

int connection_end(struct connection *connection)
{
	if (connection->state != ANSWERING || connection->given_up)
		return -EPIPE;
	int rc = connection->chunked ? queue(connection, "0\r\n\r\n", 5) : 0;
	if (rc != 0)
		return rc;
	connection->state = SENDING;
	connection->answerer = NULL;
	connection->deadline_ns = clock_now_ns() + connection->set->limits.stall_ns;
	connection_flush(connection);
	if (!connection->send.in_flight) /* all has left: go on from the loop, not from here */
		loop_timer(connection->set->loop, &connection->send, 0);
	return 0;
}
