/* Placement on request: a short-lived verifier process maps the published segments and asks the kernel for every page.
 */
#include "src/parent/parent_internal.h"

#include <errno.h>
#include <string.h>

#include "src/clock.h"
#include "src/log.h"

/* The copy number `n` of all models' copies in order, then of all adapters'; NULL past the end. */
static struct parent_copy *copy_at(struct parent *parent, uint32_t n)
{
	for (uint32_t m = 0; m < parent->config.n_models; m++) {
		if (n < parent->models[m].n_copies)
			return &parent->models[m].copies[n];
		n -= parent->models[m].n_copies;
		if (n < parent->models[m].change.n_copies)
			return &parent->models[m].change.copies[n];
		n -= parent->models[m].change.n_copies;
	}
	for (struct parent_adapter *a = parent->adapters; a; a = a->next) {
		if (n < a->n_copies)
			return &a->copies[n];
		n -= a->n_copies;
	}
	return NULL;
}

/* Starts a verifier for the copies from number `first` on, as many as one message holds. */
static int start(struct parent *parent, uint32_t first, struct err *err)
{
	struct message_verify order = {0};
	int fds[MESSAGE_MAX_FDS];
	struct parent_copy *copy;
	while (order.n < MESSAGE_MAX_FDS && (copy = copy_at(parent, first + order.n))) {
		fds[order.n] = copy->fd;
		order.node[order.n++] = copy->segment.node;
	}
	if (!order.n)
		return -ENOENT;
	int rc = child_spawn(&parent->verifier, CHILD_VERIFIER, "verifier", (int)parent->config.log_level, err);
	if (rc)
		return rc;
	parent->verify_copy = first;
	parent->verify_n = 0;
	parent->verify_changes = parent->copy_changes;
	return message_send(parent->verifier.fd, MESSAGE_VERIFY, &order, sizeof order, fds, order.n);
}

int parent_verify(struct parent *parent, struct err *err)
{
	return parent->verifier.pid ? 0 : start(parent, 0, err);
}

void verify_message(struct parent *parent, struct message *message)
{
	const struct message_verified *verified = message_payload(message, sizeof *verified, 0);
	struct parent_copy *copy = copy_at(parent, parent->verify_copy + parent->verify_n);
	if (message->type != MESSAGE_VERIFIED || !verified || !copy)
		return;
	parent->verify_n++;
	/* When copies came or went meanwhile the numbers are others': all have their turn with the next check. */
	if (parent->verify_changes != parent->copy_changes)
		return;
	bool was = placement_verified(&copy->segment.report.placement);
	/* The digest stays the loader's: a check does not hash. And it does not bind: what was refused then still is
	 * not there. */
	struct refusals refused = copy->segment.report.placement.refused;
	refused.error[NUMA_MOVE_PAGES] = 0;
	copy->segment.report.placement = verified->report.placement;
	refusals_add(&copy->segment.report.placement.refused, &refused);
	placement_refused(parent, &verified->report.placement.refused);
	copy->segment.report.huge_bytes = verified->report.huge_bytes;
	copy->segment.report.giant_bytes = verified->report.giant_bytes;
	copy->segment.report.small_bytes = verified->report.small_bytes;
	copy->checked_ns = clock_now_ns();
	if (was != placement_verified(&copy->segment.report.placement))
		front_tell_state(parent);
	if (was && placement_wrong(&verified->report.placement))
		log_warning("node %u: %llu pages of a copy are not on their node any more", verified->node,
			    (unsigned long long)verified->report.placement.misplaced);
}

void verify_ended(struct parent *parent, int wait_status)
{
	char how[128];
	struct err err = {""};
	if (wait_status) {
		log_warning("the verifier %s; placement is as last checked",
			    child_describe(&parent->verifier, wait_status, how, sizeof how));
		return;
	}
	if (!parent->verify_n) /* it was given something, so it had something to report */
		return;
	int rc = parent->stopping ? -ENOENT : start(parent, parent->verify_copy + parent->verify_n, &err);
	if (rc && rc != -ENOENT)
		log_warning("cannot start the verifier: %s", err.text);
}
