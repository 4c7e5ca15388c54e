/* A connection under test: the test is the client at the other end of a socket pair, and the handler that answers. */
#ifndef WEIGHTD_TESTS_UNIT_CONNECTION_RIG_H
#define WEIGHTD_TESTS_UNIT_CONNECTION_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/front/connection.h"

#define MS UINT64_C(1000000)
#define HOST "Host: x\r\n"

struct rig {
	struct loop *loop;
	struct connection_set set;
	int client;
	void (*answer)(struct rig *rig, struct connection *connection); /* NULL: the test answers later */
	struct connection *asking;					/* whose answer is being made */
	void (*head)(struct rig *rig, struct connection *connection);	/* of a streamed request; NULL: nothing */
	void (*piece)(struct rig *rig, struct connection *connection);	/* the same */
	uint64_t body_max;						/* of a streamed body */
	unsigned body_sum;
	int n_heads, n_ends;
	int n_requests, n_refused, n_gone, n_closed;
	int status; /* of the last refusal */
	char path[128];
	size_t body_bytes;
	/* run_until */
	struct loop_op look;
	bool (*enough)(struct rig *rig);
	uint64_t give_up_ns;
	/* what the client has read */
	char *text;
	size_t n_text, capacity;
	bool at_end;
};

/* `backend`: 0 io_uring, 1 epoll. `limits`: NULL for the usual ones (bodies of 100000 bytes, 50000 queued). */
void rig_init(struct rig *rig, int backend, const struct connection_limits *limits);
/* The same over TCP, where a close with unread bytes throws away what the peer has not read. */
void rig_init_tcp(struct rig *rig, int backend);
void rig_fini(struct rig *rig);

void say(struct rig *rig, const char *text);
void hear(struct rig *rig);		    /* what is there to read now is added to `text` */
const char *body_of(const struct rig *rig); /* what follows the first empty line of `text` */

/* Runs the loop until that holds, or for so long. Returns whether it holds. */
bool run_until(struct rig *rig, bool (*enough)(struct rig *rig), uint64_t ms);
bool never(struct rig *rig);
bool asked(struct rig *rig);
bool closed(struct rig *rig);
bool heard_something(struct rig *rig);
bool heard_end(struct rig *rig);
bool heard_three_answers(struct rig *rig); /* of 200, the last with the body "done" */

#endif
