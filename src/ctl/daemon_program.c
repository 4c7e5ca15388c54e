#include "src/ctl/daemon_program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/ctl/interrupt.h"

void daemon_program_find(char path[PATH_MAX])
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	self[n > 0 ? n : 0] = '\0';
	char *slash = strrchr(self, '/');
	if (slash && snprintf(path, PATH_MAX, "%.*s/weightd", (int)(slash - self), self) < PATH_MAX &&
	    !access(path, X_OK))
		return;
	snprintf(path, PATH_MAX, "%s/weightd", SBINDIR);
}

/* Becomes the program. Only what is allowed between fork and exec. */
static void become_program(const char *program, char *const *argv, int output, pid_t parent)
{
	sigset_t mask;
	interrupt_child_mask(&mask);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent || dup2(output, STDOUT_FILENO) < 0)
		_exit(126);
	execv(program, argv);
	_exit(127);
}

/* All that comes, up to the end. */
static int read_all(int fd, int interrupt_fd, size_t most, char **text)
{
	size_t n = 0;
	char *whole = malloc(most + 1);
	if (!whole)
		return -ENOMEM;
	for (;;) {
		int rc = interrupt_wait(interrupt_fd, fd, -1);
		ssize_t got = rc ? -1 : read(fd, whole + n, most - n);
		if (!rc && got < 0)
			rc = -errno;
		if (!rc && got > 0 && (n += (size_t)got) == most)
			rc = -EFBIG;
		if (rc) {
			free(whole);
			return rc;
		}
		if (!got)
			break;
	}
	whole[n] = '\0';
	*text = whole;
	return 0;
}

int daemon_program_ask(const char *const *arguments, int interrupt_fd, size_t most, char **text, struct err *err)
{
	enum { ARGUMENTS_MAX = 64 };
	char program[PATH_MAX], *argv[ARGUMENTS_MAX + 2] = {program};
	int ends[2], status = 0;
	for (unsigned i = 0; i < ARGUMENTS_MAX && arguments[i]; i++)
		argv[i + 1] =
			(char *)(uintptr_t)arguments[i]; /* execv only reads them; its prototype lacks the const */
	daemon_program_find(program);
	if (pipe2(ends, O_CLOEXEC))
		return err_set(err, -errno, "pipe: %s", strerror(errno));
	pid_t parent = getpid(), pid = fork();
	if (pid == 0)
		become_program(program, argv, ends[1], parent);
	close(ends[1]);
	int rc = pid < 0 ? -errno : read_all(ends[0], interrupt_fd, most, text);
	close(ends[0]);
	if (pid < 0)
		return err_set(err, rc, "fork: %s", strerror(-rc));
	if (rc)
		kill(pid, SIGTERM);
	waitpid(pid, &status, 0);
	if (rc)
		return err_set(err, rc, "%.200s: %s", program, rc == -EINTR ? "interrupted" : strerror(-rc));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	free(*text);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return err_set(err, -ECHILD, "%.200s could not be started", program);
	return err_set(err, -ECHILD, "%.200s: it failed; what it says above is why", program);
}
