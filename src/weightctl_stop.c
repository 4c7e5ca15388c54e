/* weightctl stop: asks, then waits until the process is gone, so that what follows in a script finds the memory free.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <yyjson.h>

#include "src/control_client.h"
#include "src/interrupt.h"
#include "src/weightctl.h"

enum { STOP_TIMEOUT_MS = 60000 }; /* the daemon gives running calls 30 s */

static int open_pid(pid_t pid)
{
	return pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
}

/* The pid is in the answer, too, for the case that the kernel did not tell. */
static pid_t pid_of_status(const struct weightctl *ctl)
{
	struct err err;
	char *text;
	size_t n;
	pid_t pid = 0;
	if (control_ask(ctl->control, ctl->interrupt_fd, "status", &text, &n, &pid, &err) < 0)
		return 0;
	if (pid == 0) {
		yyjson_doc *doc = yyjson_read(text, n, 0);
		pid = (pid_t)yyjson_get_sint(yyjson_obj_get(yyjson_doc_get_root(doc), "pid"));
		yyjson_doc_free(doc);
	}
	free(text);
	return pid;
}

int weightctl_stop(struct weightctl *ctl)
{
	struct err err = {""};
	char *text;
	size_t n;
	/* Opened before the daemon hears of it: afterwards the number could already be someone else's. */
	pid_t pid = pid_of_status(ctl);
	int process = open_pid(pid);
	int rc = control_ask(ctl->control, ctl->interrupt_fd, "stop", &text, &n, NULL, &err);
	if (rc < 0) {
		if (process >= 0)
			close(process);
		return rc == -EINTR ? EXIT_INTERRUPTED : weightctl_unreachable(ctl, &err);
	}
	yyjson_doc *doc = yyjson_read(text, n, 0);
	const char *message = yyjson_get_str(yyjson_obj_get(yyjson_doc_get_root(doc), "error"));
	rc = EXIT_OK;
	if (!doc || message)
		rc = weightctl_fail(ctl, EXIT_REFUSED, "stop: %s",
				    message ? message : "the daemon's answer is not JSON");
	else if (process >= 0 && (rc = interrupt_wait(ctl->interrupt_fd, process, STOP_TIMEOUT_MS)) == -EINTR)
		rc = EXIT_INTERRUPTED;
	else if (rc < 0)
		rc = weightctl_fail(ctl, EXIT_FAILED, "the daemon (pid %d) is still running after %d s", (int)pid,
				    STOP_TIMEOUT_MS / 1000);
	else if (ctl->json)
		printf("{\"stopped\":%d}\n", (int)pid);
	else
		printf("stopped weightd (pid %d)\n", (int)pid);
	yyjson_doc_free(doc);
	free(text);
	if (process >= 0)
		close(process);
	return rc;
}
