/* The verifier role: asks the kernel where the pages of published segments are, now, and ends.
 *
 * A process of its own because move_pages(2) needs the pages in the asker's page tables: the parent must not map
 * weights (it would pay for their page tables for good, and it never touches model bytes), and a worker would have to
 * stop for it. It gets read-only descriptors and needs no privilege at all for pages of its own mapping. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "src/log.h"
#include "src/message.h"
#include "src/privilege.h"
#include "src/roles.h"

static int fail(const struct err *why)
{
	struct message_failed failed = {.err = *why};
	log_error("%s", why->text);
	message_send(MESSAGE_FD, MESSAGE_FAILED, &failed, sizeof failed, NULL, 0);
	return 1;
}

/* One segment: map, count, report, unmap, so that only one copy's page tables exist at a time. */
static int verify(int fd, unsigned node, struct err *err)
{
	struct segment_view view;
	struct message_verified verified = {.node = node};
	int rc = segment_attach(fd, &view, err);
	if (rc)
		return rc;
	rc = segment_check(&view, node, &verified.report, err);
	segment_detach(&view);
	if (rc)
		return rc;
	rc = message_send(MESSAGE_FD, MESSAGE_VERIFIED, &verified, sizeof verified, NULL, 0);
	return rc ? err_set(err, rc, "telling the parent: %s", strerror(-rc)) : 0;
}

int verifier_main(void)
{
	static struct message message;
	struct err err = {""};
	if (privilege_drop(UINT64_MAX, UINT64_MAX, &err))
		return fail(&err);
	int rc = message_receive(MESSAGE_FD, &message);
	if (rc == 0)
		return 0; /* the parent is gone and wants nothing any more */
	const struct message_verify *order = rc > 0 && message.type == MESSAGE_VERIFY
						     ? message_payload(&message, sizeof *order, message.n_fds)
						     : NULL;
	if (!order || order->n != message.n_fds) {
		err_set(&err, -EPROTO, "the first message is no order to verify");
		return fail(&err);
	}
	for (uint32_t i = 0; i < order->n; i++) {
		rc = verify(message.fds[i], order->node[i], &err);
		close(message.fds[i]);
		if (rc)
			return fail(&err);
	}
	return 0;
}
