#include "src/parent/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/clock.h"
#include "src/message.h"

const char *child_role_name(enum child_role role)
{
	/* A loader is told by its order what it is to load. */
	static const char *const name[N_CHILD_ROLES] = {"loader", "worker", "front", "verifier", "loader", "audio"};
	return name[role];
}

/* Between fork and exec: only calls that are safe there. */
static void become_child(int socket, char *const argv[], pid_t parent)
{
	/* Before anything that takes time, and it outlives the exec; privilege_drop renews it when a change of user has
	 * cleared it. A parent that died before this line is seen by the line after. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) || getppid() != parent)
		_exit(125);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* dup2 clears close-on-exec, unless both are the same descriptor. Everything else the parent holds is
	 * close-on-exec. */
	if (socket == MESSAGE_FD)
		fcntl(socket, F_SETFD, 0);
	else if (dup2(socket, MESSAGE_FD) < 0)
		_exit(126);
	execv("/proc/self/exe", argv);
	_exit(127);
}

int child_spawn(struct child *child, enum child_role role, const char *name, int log_level, struct err *err)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return err_set(err, -errno, "socketpair: %s", strerror(errno));
	/* A message with descriptors must not fail for want of buffer. */
	int bytes = 64 * MESSAGE_MAX_BYTES;
	setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
	setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
	fcntl(pair[0], F_SETFL, O_NONBLOCK);
	char level[12];
	snprintf(level, sizeof level, "%d", log_level);
	char *argv[] = {"weightd",
			"--role",
			(char *)(uintptr_t)child_role_name(role),
			"--name",
			(char *)(uintptr_t)name,
			"--log-level",
			level,
			NULL}; /* execv takes them without const; it does not write */
	pid_t parent = getpid(), pid = fork();
	if (pid == 0)
		become_child(pair[1], argv, parent);
	int code = errno;
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return err_set(err, -code, "fork: %s", strerror(code));
	}
	*child = (struct child){.role = role, .pid = pid, .fd = pair[0], .started_ns = clock_now_ns()};
	snprintf(child->name, sizeof child->name, "%s", name);
	watch_begin(&child->watch, 0, child->started_ns);
	return 0;
}

void child_hang_up(struct child *child)
{
	if (child->fd >= 0)
		close(child->fd);
	child->fd = -1;
}

const char *child_describe(const struct child *child, int wait_status, char *text, size_t size)
{
	if (child->hung)
		snprintf(text, size, "killed: it made no progress");
	else if (WIFSIGNALED(wait_status))
		snprintf(text, size, "killed by signal %d (%s)", WTERMSIG(wait_status),
			 strsignal(WTERMSIG(wait_status)));
	else
		snprintf(text, size, "exited with status %d", WEXITSTATUS(wait_status));
	return text;
}
