/* The client side of the control socket: one line of command, one JSON object back, then the daemon closes. */
#ifndef WEIGHTD_CONTROL_CLIENT_H
#define WEIGHTD_CONTROL_CLIENT_H

#include <stddef.h>
#include <sys/types.h>

#include "src/err.h"

/* Connects: a descriptor (returns owned) or -ENOENT, -ECONNREFUSED, -EACCES as connect says. *daemon_pid: who listens,
 * as the kernel says; 0 when it is in another pid namespace. */
int control_connect(const char *socket_path, pid_t *daemon_pid, struct err *err);

enum { CONTROL_PATIENCE_MS = 60000 }; /* for commands that are answered soon */

/* Sends `command` and reads the answer, which may take `timeout_ms` to begin; *text returns owned, terminated. -EINTR,
 * -ETIMEDOUT, ... */
int control_ask(int fd, int interrupt_fd, const char *command, int timeout_ms, char **text, size_t *n_bytes,
		struct err *err);

#endif
