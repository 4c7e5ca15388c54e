/* The loader: one process for one load. It parses what a stranger may have written, so it has no privilege, no network
 * and no path: the parent opened the file. A node that fills up kills it rather than anyone else (oom_score_adj 1000),
 * and the parent then removes what it left. */
#include "src/roles.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "src/clock.h"
#include "src/load.h"
#include "src/log.h"
#include "src/message.h"
#include "src/privilege.h"

enum { PROGRESS_EVERY_NS = 100000000 };

/* Raising one's own score needs no privilege; where it fails, the load still works. */
static void volunteer_for_oom(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "1000", 4) != 4)
		log_warning("oom_score_adj: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
}

/* Root may give segments to any group only by being in it: the capability is gone afterwards. */
static int drop(const struct message_load *order, struct err *err)
{
	uint64_t gid = geteuid() == 0 && order->group != UINT32_MAX ? order->group : UINT64_MAX;
	return privilege_drop(UINT64_MAX, gid, err);
}

struct reporter {
	uint64_t last_ns;
};

static void report(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
	struct reporter *reporter = context;
	uint64_t now_ns = clock_now_ns();
	if (now_ns - reporter->last_ns < PROGRESS_EVERY_NS && done_bytes < total_bytes)
		return;
	reporter->last_ns = now_ns;
	struct message_progress progress = {done_bytes, total_bytes};
	/* The parent gone or slow: this load's end will notice, or PDEATHSIG has. */
	(void)message_send(MESSAGE_FD, MESSAGE_PROGRESS, &progress, sizeof progress, NULL, 0);
}

static int hand_over(const struct loaded *loaded, struct err *err)
{
	for (uint32_t i = 0; i < loaded->n; i++) {
		int rc = message_send(MESSAGE_FD, MESSAGE_SEGMENT, &loaded->segments[i], sizeof loaded->segments[i],
				      &loaded->fds[i], 1);
		if (rc)
			return err_set(err, rc, "handing a segment to the parent: %s", strerror(-rc));
	}
	return 0;
}

static int serve(const struct message_load *order, int fd, struct err *err)
{
	struct loaded loaded;
	struct reporter reporter = {0};
	const struct load_progress progress = {report, &reporter};
	int rc = drop(order, err);
	if (rc == 0)
		rc = model_load(order, fd, &progress, &loaded, err);
	if (rc)
		return rc;
	rc = hand_over(&loaded, err);
	if (rc)
		loaded_discard(&loaded);
	else
		loaded_close(&loaded);
	return rc;
}

int loader_main(void)
{
	struct message message;
	struct message_failed failed = {{""}};
	volunteer_for_oom();
	int rc = message_receive(MESSAGE_FD, &message);
	if (rc <= 0) /* the parent had no order after all, or is gone */
		return 1;
	const struct message_load *order = message_payload(&message, sizeof *order, 1);
	if (message.type != MESSAGE_LOAD || !order)
		rc = err_set(&failed.err, -EPROTO, "the loader's first message is no order to load");
	else
		rc = serve(order, message.fds[0], &failed.err);
	if (rc == 0)
		return 0;
	(void)message_send(MESSAGE_FD, MESSAGE_FAILED, &failed, sizeof failed, NULL,
			   0); /* the exit status says it, too */
	return 1;
}
