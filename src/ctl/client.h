/* An HTTP client over a Unix socket for weightctl: one request per connection, the answer's body read piece by piece.
 */
#ifndef WEIGHTD_CLIENT_H
#define WEIGHTD_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "src/err.h"

struct client;

/* Connects. `interrupt_fd` (borrowed, -1: none) ends every later wait with -EINTR. Returns owned. -ENOENT,
 * -ECONNREFUSED and the like when nobody listens. */
int client_open(const char *socket_path, int interrupt_fd, struct client **out, struct err *err);
void client_close(struct client *client);

/* Sends the request and waits for the head of the answer. `body` is JSON or NULL. */
int client_request(struct client *client, const char *method, const char *target, const char *body, size_t n_body,
		   int *status, struct err *err);

/* The same with a body that is sent piece by piece, `n_body` bytes in all. client_put: 1 when the server takes no more
 * of it, because it has answered or gone: client_finish says which; -EINTR. */
int client_begin(struct client *client, const char *method, const char *target, const char *content_type,
		 uint64_t n_body, struct err *err);
int client_put(struct client *client, const char *bytes, size_t n_bytes, struct err *err);
int client_finish(struct client *client, int *status, struct err *err);

/* The next part of the body: 1 with a view valid until the next call; 0: the body is complete; -EPROTO: the server
 * broke off or does not speak HTTP. */
int client_read(struct client *client, const char **bytes, size_t *n_bytes, struct err *err);

/* The rest of the body, terminated; *text returns owned. -EFBIG past `max_bytes`. */
int client_read_all(struct client *client, size_t max_bytes, char **text, size_t *n_bytes, struct err *err);

/* Connects to a Unix socket: the descriptor (owned, close-on-exec) or -errno. */
int client_connect(const char *socket_path, struct err *err);
/* Sends all bytes; 0 or -errno. */
int client_send(int fd, const char *bytes, size_t n_bytes);

#endif
