#include "src/ctl/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

static void watched(sigset_t *out)
{
	sigemptyset(out);
	sigaddset(out, SIGINT);
	sigaddset(out, SIGTERM);
	sigaddset(out, SIGHUP);
}

int interrupt_open(void)
{
	sigset_t set;
	watched(&set);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

void interrupt_child_mask(sigset_t *out)
{
	sigemptyset(out);
}

int interrupt_take(int interrupt_fd)
{
	struct signalfd_siginfo info;
	if (interrupt_fd < 0 || read(interrupt_fd, &info, sizeof info) != (ssize_t)sizeof info)
		return 0;
	return (int)info.ssi_signo;
}

int interrupt_wait(int interrupt_fd, int fd, int timeout_ms)
{
	struct pollfd wait[2] = {{.fd = fd, .events = POLLIN}, {.fd = interrupt_fd, .events = POLLIN}};
	for (;;) {
		int n = poll(wait, 2, timeout_ms);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -ETIMEDOUT;
		if (wait[1].revents)
			return -EINTR;
		return 0;
	}
}
