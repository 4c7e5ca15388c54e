/* Where the pages of published copies are: a short-lived verifier process maps them and asks the kernel.
 *
 * All pages of all copies are asked for when somebody wants to know (parent_verify), a few of each every
 * verify_seconds. A sample that contradicts what is known of a copy has all of its pages counted, so that what is said
 * of a copy always comes from a whole count. A copy of which pages are then on other nodes is degraded: the log says so
 * once, status, metrics and /health as long as it is so, and the front gives its workers no calls while workers of good
 * copies have room (src/front/fleet.h).
 *
 * What is to be looked at is marked in the copies themselves, one verifier at a time takes what is marked, and its
 * answers find their copies by number: copies may come and go in between. */
#include "src/parent/parent_internal.h"

#include <errno.h>
#include <string.h>

#include "src/clock.h"
#include "src/log.h"

enum { SAMPLE_PAGES = 512 }; /* of a copy: about a millisecond */

/* --- copies ----------------------------------------------------------------------------------- */

void copy_init(struct parent *parent, struct parent_copy *copy, const struct message_segment *segment, int fd)
{
	*copy = (struct parent_copy){
		.segment = *segment, .fd = fd, .id = ++parent->copy_id, .checked_ns = clock_now_ns()};
	copy->segment.name[sizeof copy->segment.name - 1] = '\0';
}

/* All copies, and whose they are. */
struct walk {
	struct parent *parent;
	uint32_t model, n;
	struct parent_adapter *adapter;
	const char *owner; /* of the copy that was returned last */
};

static struct walk walk_begin(struct parent *parent)
{
	return (struct walk){.parent = parent, .adapter = parent->adapters};
}

static struct parent_copy *walk_next(struct walk *walk)
{
	for (; walk->model < walk->parent->config.n_models; walk->model++, walk->n = 0) {
		struct parent_model *model = &walk->parent->models[walk->model];
		walk->owner = model->config->name;
		uint32_t n = walk->n++;
		if (n < model->n_copies)
			return &model->copies[n];
		if (n - model->n_copies < model->change.n_copies)
			return &model->change.copies[n - model->n_copies];
	}
	for (; walk->adapter; walk->adapter = walk->adapter->next, walk->n = 0) {
		walk->owner = walk->adapter->name;
		if (walk->n < walk->adapter->n_copies)
			return &walk->adapter->copies[walk->n++];
	}
	return NULL;
}

/* NULL: it has gone. */
static struct parent_copy *find_copy(struct parent *parent, uint32_t id, const char **owner)
{
	struct walk walk = walk_begin(parent);
	struct parent_copy *copy;
	while ((copy = walk_next(&walk)) && copy->id != id)
		;
	*owner = walk.owner;
	return copy;
}

/* --- asking ----------------------------------------------------------------------------------- */

/* Enters the copies that are to be counted, or else those that are to be sampled, as many as there is room for. */
static void choose(struct parent *parent, struct message_verify *order, int *fds)
{
	struct parent_copy *copy;
	bool any_check = false;
	memset(order, 0, sizeof *order);
	for (struct walk walk = walk_begin(parent); (copy = walk_next(&walk));)
		any_check |= copy->check_due;
	if (!any_check) {
		order->sample_pages = SAMPLE_PAGES;
		order->turn = parent->sample_turn;
	}
	for (struct walk walk = walk_begin(parent); order->n < MESSAGE_MAX_FDS && (copy = walk_next(&walk));) {
		if (!(any_check ? copy->check_due : copy->sample_due))
			continue;
		parent->verify_ids[order->n] = copy->id;
		fds[order->n] = copy->fd;
		order->node[order->n++] = copy->segment.node;
	}
	parent->verify_n = order->n;
	parent->verify_heard = 0;
	parent->verify_samples = !any_check;
}

/* Nothing is left to be done for whatever the verifier had, also if it could not do it. */
static void clear_due(struct parent *parent)
{
	const char *owner;
	for (uint32_t i = 0; i < parent->verify_n; i++) {
		struct parent_copy *copy = find_copy(parent, parent->verify_ids[i], &owner);
		if (copy && parent->verify_samples)
			copy->sample_due = false;
		else if (copy)
			copy->check_due = false;
	}
	parent->verify_n = parent->verify_heard = 0;
}

/* Starts a verifier for as many of the marked copies as one message holds. 0 or, if none is marked, -ENOENT. */
static int start(struct parent *parent, struct err *err)
{
	struct message_verify order;
	int fds[MESSAGE_MAX_FDS];
	choose(parent, &order, fds);
	if (!parent->verify_n) {
		parent->verify_all = false;
		return -ENOENT;
	}
	int rc = child_spawn(&parent->verifier, CHILD_VERIFIER, "verifier", (int)parent->config.log_level, err);
	if (rc) {
		clear_due(parent);
		parent->verify_all = false;
		return rc;
	}
	rc = message_send(parent->verifier.fd, MESSAGE_VERIFY, &order, sizeof order, fds, order.n);
	if (rc) /* it ends for want of an order, and that is when it has failed */
		child_hang_up(&parent->verifier);
	return 0;
}

int parent_verify(struct parent *parent, struct err *err)
{
	struct parent_copy *copy;
	if (!parent->verify_all) /* else whoever comes later gets what is being counted already */
		for (struct walk walk = walk_begin(parent); (copy = walk_next(&walk));)
			copy->check_due = parent->verify_all = true;
	return parent->verifier.pid ? 0 : start(parent, err);
}

void verify_turn(struct parent *parent, uint64_t now_ns)
{
	struct parent_copy *copy;
	struct err err = {""};
	const uint64_t every_ns = parent->config.verify_seconds * 1000ull * CLOCK_MS_NS;
	if (!every_ns || now_ns - parent->sampled_copies_ns < every_ns)
		return;
	parent->sampled_copies_ns = now_ns;
	parent->sample_turn++;
	for (struct walk walk = walk_begin(parent); (copy = walk_next(&walk));)
		copy->sample_due = true;
	int rc = parent->verifier.pid ? 0 : start(parent, &err);
	if (rc && rc != -ENOENT)
		log_warning("no look at where the copies' pages are: %s", err.text);
}

/* --- answers ---------------------------------------------------------------------------------- */

/* Once for every time that it becomes so. */
static void tell_change(const struct parent_copy *copy, const char *owner)
{
	const struct placement *p = &copy->segment.report.placement;
	if (copy_is_degraded(copy))
		log_warning("'%s': node %u: %llu of %llu pages of its copy are on other nodes now; 'weightctl verify "
			    "--repair' makes it a new one",
			    owner, copy->segment.node, (unsigned long long)p->misplaced, (unsigned long long)p->pages);
	else
		log_info("'%s': node %u: no page of its copy is on another node any more", owner, copy->segment.node);
}

static void take_count(struct parent *parent, struct parent_copy *copy, const char *owner,
		       const struct segment_report *found)
{
	struct placement *placement = &copy->segment.report.placement;
	bool was_degraded = copy_is_degraded(copy), was_verified = placement_verified(placement);
	/* The digest stays the loader's: a check does not hash. And it does not bind: what was refused then still is
	 * not there. */
	struct refusals refused = placement->refused;
	refused.error[NUMA_MOVE_PAGES] = 0;
	*placement = found->placement;
	refusals_add(&placement->refused, &refused);
	placement_refused(parent, &found->placement.refused);
	copy->segment.report.huge_bytes = found->huge_bytes;
	copy->segment.report.giant_bytes = found->giant_bytes;
	copy->segment.report.small_bytes = found->small_bytes;
	copy->checked_ns = clock_now_ns();
	if (copy_is_degraded(copy) != was_degraded) {
		tell_change(copy, owner);
		front_tell_copy(parent, copy);
	}
	if (copy_is_degraded(copy) != was_degraded || placement_verified(placement) != was_verified)
		front_tell_state(parent);
}

static void take_sample(struct parent *parent, struct parent_copy *copy, const struct placement *found)
{
	bool refused = found->refused.error[NUMA_MOVE_PAGES] != 0;
	parent->sampled_pages += refused ? 0 : found->pages;
	parent->sampled_misplaced += found->misplaced;
	copy->sampled_ns = clock_now_ns();
	copy->sampled_pages = found->pages;
	copy->sampled_misplaced = found->misplaced;
	if (!refused && (found->misplaced != 0) != copy_is_degraded(copy))
		copy->check_due = true;
}

void verify_message(struct parent *parent, struct message *message)
{
	const struct message_verified *verified = message_payload(message, sizeof *verified, 0);
	const struct message_sampled *sampled = message_payload(message, sizeof *sampled, 0);
	const char *owner;
	if (message->type != (parent->verify_samples ? MESSAGE_SAMPLED : MESSAGE_VERIFIED) ||
	    parent->verify_heard == parent->verify_n)
		return;
	struct parent_copy *copy = find_copy(parent, parent->verify_ids[parent->verify_heard++], &owner);
	if (copy && parent->verify_samples && sampled)
		take_sample(parent, copy, &sampled->placement);
	else if (copy && !parent->verify_samples && verified)
		take_count(parent, copy, owner, &verified->report);
}

void verify_ended(struct parent *parent, int wait_status)
{
	char how[128];
	struct err err = {""};
	if (wait_status)
		log_warning("the verifier %s; placement is as last checked",
			    child_describe(&parent->verifier, wait_status, how, sizeof how));
	clear_due(parent);
	int rc = parent->stopping ? -ENOENT : start(parent, &err);
	if (rc && rc != -ENOENT)
		log_warning("cannot start the verifier: %s", err.text);
	if (rc)
		models_load_next(parent); /* one may have waited for memory that the verifier had mapped */
}
