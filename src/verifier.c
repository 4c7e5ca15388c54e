/* The verifier role: asks the kernel where the pages of published segments are, all of them or a sample, now, and ends.
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

static int tell(uint32_t type, const void *payload, size_t n_bytes, struct err *err)
{
	int rc = message_send(MESSAGE_FD, type, payload, n_bytes, NULL, 0);
	return rc ? err_set(err, rc, "telling the parent: %s", strerror(-rc)) : 0;
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
	return rc ? rc : tell(MESSAGE_VERIFIED, &verified, sizeof verified, err);
}

static int sample(int fd, unsigned node, const struct message_verify *order, struct err *err)
{
	struct message_sampled sampled = {.node = node};
	int rc = segment_sample(fd, node, order->sample_pages, order->turn, &sampled.placement, err);
	return rc ? rc : tell(MESSAGE_SAMPLED, &sampled, sizeof sampled, err);
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
		rc = order->sample_pages ? sample(message.fds[i], order->node[i], order, &err)
					 : verify(message.fds[i], order->node[i], &err);
		close(message.fds[i]);
		if (rc)
			return fail(&err);
	}
	return 0;
}
