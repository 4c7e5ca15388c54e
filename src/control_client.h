/* The client side of the control socket: one line of command, one JSON object back, then the daemon closes. */
#ifndef WEIGHTD_CONTROL_CLIENT_H
#define WEIGHTD_CONTROL_CLIENT_H

#include <stddef.h>
#include <sys/types.h>

#include "src/err.h"

/* Sends `command` and reads the answer. *text returns owned, terminated. `daemon_pid` (may be NULL): who listens, as
 * the kernel says; 0 when it is in another pid namespace. -ENOENT, -ECONNREFUSED and -EACCES as connect says. */
int control_ask(const char *socket_path, int interrupt_fd, const char *command, char **text, size_t *n_bytes,
		pid_t *daemon_pid, struct err *err);

#endif
