/* Client connections of the front: one struct connection per accepted socket, over io/loop and io/http. It knows HTTP
 * framing and nothing of what is asked or answered.
 *
 * A connection asks for one answer at a time. The handler's `request` is told of a whole request; the answer is made
 * then or any time later, by
 *
 *     connection_answer()                                            everything at once, or
 *     connection_begin(), connection_write() ..., connection_end()   piece by piece (chunked; HTTP/1.0: until closed)
 *
 * and a pipelined request is looked at only after the answer before it has left. Nothing here calls the handler from
 * within one of these functions: all four callbacks come from the loop, so a caller may walk its own tables while it
 * writes.
 *
 * Answers wait in memory while the client does not read; past `client_buffer_bytes` the client is too slow and is
 * dropped. Meanwhile a poll for the peer's hang-up is always in flight: a client that goes away (end of file, reset,
 * too slow) before its answer has ended is reported by `gone`, once.
 *
 * Nobody holds a connection for nothing for ever: between requests it is closed after `idle_ns`, a request has
 * `request_ns` from its first byte to its last, a complete answer must be taken without pauses of `stall_ns`. When all
 * places are taken and others wait (connection_set_make_room), the connection that has been idle for longest is closed,
 * once it has been idle for a second, and answers are the last on their connections.
 *
 * A body too large to be collected can be taken as it comes: `head` is told of every request that has a body, before
 * it, and may call connection_stream. From then on the request is being answered (`gone` and all), `body` gets the
 * pieces, `body_end` is told when it is whole, and an answer that ends before that is the connection's last. The client
 * is held back while the owner does not keep up (connection_pause, connection_resume).
 *
 * A connection that is not saying anything costs about 2 KB: the loop lends it a buffer when there are bytes. */
#ifndef WEIGHTD_SRC_FRONT_CONNECTION_H
#define WEIGHTD_SRC_FRONT_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/http.h"
#include "io/loop.h"
#include "src/err.h"

struct connection;
struct connection_set;

struct connection_handler {
	/* A whole request. The views in `request` end when this returns; the answer may come later. */
	void (*request)(struct connection *connection, const struct http_request *request);
	/* What came is not a request that can be served (HTTP status 4xx or 5xx: 400, 408, 413, 414, 431 ...). Wants an
	 * answer as `request` does; the connection closes after it. */
	void (*refused)(struct connection *connection, int status, const char *reason);
	/* A request's head, its body is to come; `request` follows unless it is streamed. May be NULL, as the two
	 * below. */
	void (*head)(struct connection *connection, const struct http_request *request);
	/* Of a body that is streamed: its next bytes, and its end. `refused` may come in place of the end; the answerer
	 * is then still set. */
	void (*body)(struct connection *connection, const char *bytes, size_t n_bytes);
	void (*body_end)(struct connection *connection);
	/* The client is gone before its answer ended: stop making it. Nothing may be written any more. */
	void (*gone)(struct connection *connection);
	/* The connection ends with this call, whatever the reason. May be NULL. */
	void (*closed)(struct connection *connection);
};

struct connection_limits {
	uint64_t max_request_bytes;   /* of a body, else 413 */
	uint64_t client_buffer_bytes; /* queued answer bytes, else dropped */
	uint64_t idle_ns;	      /* between requests, then closed without a word; 0: 75 s */
	uint64_t request_ns;	      /* from a request's first byte to its last (of a streamed body between two
					 pieces), then 408; 0: 30 s */
	uint64_t stall_ns; /* an ended answer of which the client takes no byte for so long is dropped; 0: 30 s */
};

/* What has happened, for metrics. */
struct connection_counts {
	uint64_t opened;
	uint64_t received_bytes, sent_bytes;
	uint64_t idle;	       /* closed because they said nothing for too long */
	uint64_t made_room;    /* closed, being idle, because others waited for a place */
	uint64_t slow_request; /* refused: a request that took too long */
	uint64_t slow_reader;  /* dropped: too much of the answer was not taken, or it was not taken any further */
};

/* All connections of a process. The fields are for reading. */
struct connection_set {
	struct loop *loop; /* borrows */
	struct connection_handler handler;
	struct connection_limits limits;
	void *owner; /* borrows: the caller's, see connection_owner */
	struct connection *first;
	unsigned n;
	struct connection *idle_first, *idle_last; /* those between requests, the one that has waited longest first */
	bool draining;
	bool crowded;	     /* others wait for a place */
	struct loop_op tick; /* looks at the deadlines of all, while there are any */
	struct connection_counts counts;
};

void connection_set_init(struct connection_set *set, struct loop *loop, const struct connection_handler *handler,
			 const struct connection_limits *limits, void *owner);
/* No request after the current answers: idle connections close now, others when their answer has left. A socket opened
 * from now on gets one answer. */
void connection_set_drain(struct connection_set *set);
/* There is no place for a client that waits: closes the connection that has been idle for longest, if it has been so
 * for a second; true if there was one (`closed` comes from the loop). Until the next connection_open no connection is
 * kept alive after its answer. */
bool connection_set_make_room(struct connection_set *set);
/* Drops every connection (`closed` comes from the loop, `gone` does not). The set may go away after loop_free. */
void connection_set_abort(struct connection_set *set);

/* Takes an accepted socket (closed at the end, also on failure). -ENOMEM. */
int connection_open(struct connection_set *set, int socket);

void *connection_owner(const struct connection *connection); /* the set's owner */
/* One pointer for the answer being made, NULL when a request comes. */
void *connection_answerer(const struct connection *connection);
void connection_set_answerer(struct connection *connection, void *answerer);

/* Header lines that the answer to the request at hand will have besides others, whatever it is: each ends with \r\n.
 * Borrowed until the answer has begun. */
void connection_set_lines(struct connection *connection, const char *lines);
/* The Origin of the request at hand or refused, "": none. View, to be used before the handler returns. */
const char *connection_origin(const struct connection *connection);

/* A whole answer, with Content-Length. `extra`: further header lines, each ending with \r\n, or "". To a HEAD request
 * only the head goes out. 0; -EPIPE when the client is gone or was found too slow (`gone` comes or came); -ENOMEM
 * likewise: the connection is given up. */
int connection_answer(struct connection *connection, int status, const char *content_type, const void *body,
		      size_t n_bytes, const char *extra);
/* An answer in pieces. Each connection_write is one chunk (of no bytes: nothing). They queue; connection_flush starts
 * the sending of what is queued, connection_end ends the answer and flushes. Same results. */
int connection_begin(struct connection *connection, int status, const char *content_type, const char *extra);
int connection_write(struct connection *connection, const void *bytes, size_t n_bytes);
void connection_flush(struct connection *connection);
int connection_end(struct connection *connection);

/* Within `head`: this request's body is streamed, and may have so many bytes (else 413). */
void connection_stream(struct connection *connection, uint64_t max_body_bytes);
/* No pieces for a while (one that was being received may still come); not counted as the client's slowness. */
void connection_pause(struct connection *connection);
void connection_resume(struct connection *connection);

/* Closes after the answer being made, or now when there is none. */
void connection_drain(struct connection *connection);
/* Closes now: an unfinished answer is cut off where it is, so that the client sees it. `gone` does not come. */
void connection_abort(struct connection *connection);

uint64_t connection_queued(const struct connection *connection); /* bytes written and not taken by the kernel yet */

#endif
