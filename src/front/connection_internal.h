/* One connection, for connection.c (its life, what comes) and connection_answer.c (what goes out). */
#ifndef WEIGHTD_SRC_FRONT_CONNECTION_INTERNAL_H
#define WEIGHTD_SRC_FRONT_CONNECTION_INTERNAL_H

#include "src/front/connection.h"
#include "src/front/output.h"

enum connection_state { READING, ANSWERING, SENDING, LINGERING, CLOSING };

struct connection {
	struct connection_set *set;
	struct connection *next, *previous;
	enum connection_state state;
	int socket;
	void *answerer;
	struct http_parser *parser;
	uint64_t deadline_ns; /* when the tick ends the present state; 0: never */
	bool request_begun;   /* READING: the deadline is the request's, not the idle one */
	bool idle;	      /* READING, and in the set's list of idle ones: */
	struct connection *idle_next, *idle_previous;
	bool hung_up;  /* the poll has ended */
	bool given_up; /* ANSWERING: too slow or out of memory; `gone` is on its way */
	bool last;     /* no request after this answer */
	bool streams;  /* ANSWERING and later: the request's body is not all here */
	bool paused;   /* and not wanted now */
	/* of the request being answered */
	bool keep_alive, is_http_1_0, is_head;
	bool chunked;	   /* its answer is */
	const char *lines; /* further header lines of its answer; borrows */
	struct loop_op receive, send, hangup;
	struct output output;
};

/* The client will not get this answer. `gone` comes from the loop. */
void connection_give_up(struct connection *connection);

#endif
