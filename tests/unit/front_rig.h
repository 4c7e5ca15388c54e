/* A front under test: the process itself, forked, with the test playing its parent, its workers (over real channels)
 * and its clients (over a real socket). Every wait has an end: what does not come in WAIT_S seconds fails the test. */
#ifndef WEIGHTD_TESTS_UNIT_FRONT_RIG_H
#define WEIGHTD_TESTS_UNIT_FRONT_RIG_H

#include <sys/types.h>

#include "io/loop.h"
#include "shm/channel.h"
#include "src/call.h"
#include "src/message.h"
#include "src/pulse.h"

enum { RIG_WORKERS = 4, RIG_CONNECTIONS = 16, RIG_CONTEXT = 2048, WAIT_S = 20 };

struct rig {
	pid_t pid;
	int control;
	char directory[32], socket[64];
	int listener;
	struct pulse *pulse;
	struct channel_fds fds[RIG_WORKERS];
	struct channel worker[RIG_WORKERS]; /* the workers' sides */
};

/* The usual order. */
struct message_serve rig_order(enum io_backend io, uint32_t max_queue);
/* Starts a front, which may have so many descriptors at most; 0: as many as the test. rig_ready waits for it. */
void rig_launch(struct rig *rig, const struct message_serve *order, unsigned max_descriptors);
void rig_ready(struct rig *rig);
/* Starts a front that is ready and knows no worker. */
void rig_start(struct rig *rig, const struct message_serve *order);
/* The same, and all models are loaded: worker 0 serves "small". */
void rig_serve(struct rig *rig, enum io_backend io, uint32_t max_queue);
/* Waits for the front's end; returns what front_main returned, or another number when it died or memory leaked. */
int rig_wait(struct rig *rig);
/* Closes the parent's side, expects the front to end because of it, and cleans up. */
void rig_stop(struct rig *rig);
void rig_fini(struct rig *rig); /* of a front that has ended */

/* The parent tells of "small", loading or served, and, when `failed` is not 0, of "broken", which stands like that. */
void rig_state(struct rig *rig, uint32_t loading, enum model_standing failed);
/* A worker of "hears" is one of a model that hears speech, of 80 bins. */
void rig_worker_up(struct rig *rig, unsigned worker, const char *model);
void rig_worker_up_unseen(struct rig *rig, unsigned worker, const char *model); /* without asking the front about it */
void rig_worker_down(struct rig *rig, unsigned worker);
/* The next message of the front. */
void rig_message(struct rig *rig, struct message *out);

/* The worker's side. A record is copied; `payload` is followed by a NUL. */
struct rig_record {
	uint32_t type, n_bytes;
	uint64_t call;
	char payload[CHANNEL_RECORD_MAX + 1];
};
void rig_record(struct rig *rig, unsigned worker, struct rig_record *out);
/* The next record of any worker; returns whose. */
unsigned rig_any_record(struct rig *rig, struct rig_record *out);
/* No record for a while. */
void rig_no_record(struct rig *rig, unsigned worker);
/* A whole call: its head, and its bytes (owned, terminated). */
uint64_t rig_call(struct rig *rig, unsigned worker, struct call_begin *begin, char **bytes);
void rig_write(struct rig *rig, unsigned worker, uint32_t type, uint64_t call, const void *head, size_t head_bytes,
	       const void *body, size_t body_bytes);
/* The same without a head; false: there was no room for it for a second. */
bool rig_try_write(struct rig *rig, unsigned worker, uint32_t type, uint64_t call, const void *body, size_t body_bytes);
void rig_accept(struct rig *rig, unsigned worker, uint64_t call);
void rig_token(struct rig *rig, unsigned worker, uint64_t call, uint32_t id, const char *text);
void rig_done(struct rig *rig, unsigned worker, uint64_t call, uint32_t finish);
void rig_wait_cancel(struct rig *rig, unsigned worker, uint64_t call);

/* The client's side. */
struct rig_answer {
	int status;
	char head[4096];
	char *body; /* owned, terminated, chunks joined */
	size_t n_body;
	bool cut; /* the connection ended before the answer did */
};
struct rig_client {
	int fd;
	char *bytes; /* received and not used yet */
	size_t n, capacity;
};
struct rig_client rig_connect(struct rig *rig);
void rig_close(struct rig_client *client);
void rig_send(struct rig_client *client, const char *text);
void rig_request(struct rig_client *client, const char *method, const char *path, const char *body);
struct rig_answer rig_answer(struct rig_client *client);
/* Waits until the text has come, somewhere in what was received and not used. */
void rig_see(struct rig_client *client, const char *text);
bool rig_at_end(struct rig_client *client); /* the peer closes without saying more */
/* Request and answer on a connection of its own; the body is to be freed. */
struct rig_answer rig_ask(struct rig *rig, const char *method, const char *path, const char *body);
/* The same, and the answer has this status and holds this text. */
void rig_check(struct rig *rig, const char *method, const char *path, const char *body, int status, const char *text);
void rig_expect(struct rig_answer answer, int status, const char *text); /* takes the answer */
void rig_metric(struct rig *rig, const char *line);			 /* /metrics holds this line */
/* Sends a completion request and takes the call it makes. */
uint64_t rig_begin(struct rig *rig, struct rig_client *client, const char *body, unsigned worker);

#endif
