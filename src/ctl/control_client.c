#include "src/ctl/control_client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/ctl/client.h"
#include "src/ctl/interrupt.h"

enum { CONTROL_ANSWER_MAX = 16 * 1024 * 1024 };

static int read_to_end(int fd, int interrupt_fd, int timeout_ms, char **text, size_t *n_bytes)
{
	size_t n = 0, capacity = 0;
	char *whole = NULL;
	for (;;) {
		int rc = interrupt_wait(interrupt_fd, fd, timeout_ms);
		if (rc == 0 && capacity - n < 4096) {
			char *grown = capacity < CONTROL_ANSWER_MAX ? realloc(whole, 2 * capacity + 8192) : NULL;
			if (grown) {
				whole = grown;
				capacity = 2 * capacity + 8192;
			} else {
				rc = -EFBIG;
			}
		}
		ssize_t got = rc == 0 ? recv(fd, whole + n, 4096 - 1, 0) : 0;
		if (got < 0)
			rc = -errno;
		if (rc < 0) {
			free(whole);
			return rc;
		}
		if (got == 0)
			break;
		n += (size_t)got;
	}
	whole[n] = '\0';
	*text = whole;
	*n_bytes = n;
	return 0;
}

int control_connect(const char *socket_path, pid_t *daemon_pid, struct err *err)
{
	struct ucred peer = {.pid = 0};
	socklen_t n = sizeof peer;
	int fd = client_connect(socket_path, err);
	if (fd < 0)
		return fd;
	*daemon_pid = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 ? peer.pid : 0;
	return fd;
}

int control_ask(int fd, int interrupt_fd, const char *command, int timeout_ms, char **text, size_t *n_bytes,
		struct err *err)
{
	int rc = client_send(fd, command, strlen(command));
	if (rc == 0)
		rc = client_send(fd, "\n", 1);
	if (rc == 0)
		rc = read_to_end(fd, interrupt_fd, timeout_ms, text, n_bytes);
	if (rc < 0)
		return err_set(err, rc, "control socket: %s", rc == -EINTR ? "interrupted" : strerror(-rc));
	return 0;
}
