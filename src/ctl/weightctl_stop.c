/* weightctl stop: asks, then waits until the process is gone, so that what follows in a script finds the memory free.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <yyjson.h>

#include "src/ctl/control_client.h"
#include "src/ctl/interrupt.h"
#include "src/ctl/weightctl.h"

enum { STOP_TIMEOUT_MS = 60000 }; /* the daemon gives running calls 30 s */

static int open_pid(pid_t pid)
{
	return pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
}

/* What came back on `stop`, then the wait for the end of `process` (a pidfd, -1: unknown). */
static int finish(const struct weightctl *ctl, yyjson_doc *doc, pid_t pid, int process)
{
	const char *message = yyjson_get_str(yyjson_obj_get(yyjson_doc_get_root(doc), "error"));
	if (!doc || message)
		return weightctl_fail(ctl, EXIT_REFUSED, "stop: %s",
				      message ? message : "the daemon's answer is not JSON");
	int rc = process >= 0 ? interrupt_wait(ctl->interrupt_fd, process, STOP_TIMEOUT_MS) : 0;
	if (rc == -EINTR)
		return EXIT_INTERRUPTED;
	if (rc < 0)
		return weightctl_fail(ctl, EXIT_FAILED, "the daemon (pid %d) is still running after %d s", (int)pid,
				      STOP_TIMEOUT_MS / 1000);
	if (ctl->json)
		printf("{\"stopped\":%d}\n", (int)pid);
	else
		printf("stopped weightd (pid %d)\n", (int)pid);
	return EXIT_OK;
}

int weightctl_stop(struct weightctl *ctl)
{
	struct err err = {""};
	char *text = NULL;
	size_t n = 0;
	pid_t pid;
	int fd = control_connect(ctl->control, &pid, &err);
	if (fd < 0)
		return weightctl_unreachable(ctl, &err);
	/* Opened before the daemon hears of it: afterwards the number could already be someone else's. */
	int process = open_pid(pid);
	int rc = control_ask(fd, ctl->interrupt_fd, "stop", CONTROL_PATIENCE_MS, &text, &n, &err);
	close(fd);
	if (rc < 0) {
		rc = rc == -EINTR ? EXIT_INTERRUPTED : weightctl_fail(ctl, EXIT_FAILED, "%s", err.text);
	} else {
		yyjson_doc *doc = yyjson_read(text, n, 0);
		rc = finish(ctl, doc, pid, process);
		yyjson_doc_free(doc);
		free(text);
	}
	if (process >= 0)
		close(process);
	return rc;
}
