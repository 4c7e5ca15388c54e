/* Restart without reload: what an earlier daemon of this instance left is offered to a loader before any of the model's
 * files is opened.
 *
 * Leftovers come two ways, by name in /dev/shm and as descriptors from the service manager's store. The parent sorts
 * out what nobody wants any more, asks stat(2) about the model's files, and hands read-only descriptors on; it maps and
 * reads none of them. Whether they are good is for the loader to find out (src/load/adopt.c), which has no privilege.
 */
#include "src/parent/parent_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/log.h"

/* The reason why a leftover is of no use whatever is in it; NULL: it may be. */
static const char *unwanted(const struct parent *parent, const struct segment_found *found)
{
	uint32_t m = 0;
	while (m < parent->config.n_models && strcmp(parent->config.models[m].name, found->model))
		m++;
	if (m == parent->config.n_models)
		return "its model is not configured any more";
	if (found->node >= IDSET_MAX || !idset_has(&parent->plan.copy_nodes, found->node))
		return "no copy is wanted on its node";
	return NULL;
}

static void sort_names(struct parent *parent)
{
	unsigned left = 0;
	for (unsigned i = 0; i < parent->n_leftovers; i++) {
		const struct segment_found *found = &parent->leftovers[i];
		const char *why = unwanted(parent, found);
		if (!why) {
			parent->leftovers[left++] = *found;
			continue;
		}
		log_info("%s is removed: %s", found->name, why);
		shm_unlink(found->name);
	}
	parent->n_leftovers = left;
}

static void sort_store(struct parent *parent)
{
	struct segment_found found;
	for (unsigned i = 0; i < parent->store.n;) {
		const char *name = parent->store.entries[i].name, *why = "it is of another instance";
		if (segment_parse(name, parent->config.instance, &found))
			why = unwanted(parent, &found);
		if (!why) {
			i++;
			continue;
		}
		log_info("stored descriptor %s is dropped: %s", name, why);
		char gone[FDSTORE_NAME_BYTES];
		snprintf(gone, sizeof gone, "%s", name);
		fdstore_remove(&parent->store, gone); /* entry i is another one now */
	}
}

int leftovers_find(struct parent *parent, struct err *err)
{
	int rc = segment_find(parent->config.instance, &parent->leftovers, &parent->n_leftovers, err);
	if (rc)
		return rc;
	sort_names(parent);
	sort_store(parent);
	return 0;
}

struct offer {
	struct message_candidate candidates[MESSAGE_CANDIDATES_MAX];
	int fds[MESSAGE_CANDIDATES_MAX]; /* [n] owned */
	ino_t inodes[MESSAGE_CANDIDATES_MAX];
	uint32_t n;
};

static void add_candidate(struct offer *offer, int fd, const char *name, const struct segment_found *found)
{
	struct stat st;
	struct message_candidate *candidate = &offer->candidates[offer->n];
	if (offer->n == MESSAGE_CANDIDATES_MAX || fstat(fd, &st)) {
		close(fd);
		return;
	}
	memset(candidate, 0, sizeof *candidate);
	snprintf(candidate->name, sizeof candidate->name, "%s", name);
	candidate->node = found->node;
	candidate->generation = found->generation;
	offer->inodes[offer->n] = st.st_ino;
	offer->fds[offer->n++] = fd;
}

/* shm_open(3) follows no link. The object behind the descriptor has to be ours, too: the name was looked at earlier. */
static void add_named(struct offer *offer, const struct segment_found *found)
{
	struct stat st;
	int fd = shm_open(found->name, O_RDONLY, 0);
	if (fd < 0)
		log_warning("%s: %s", found->name, strerror(errno));
	else if (fstat(fd, &st) || st.st_uid != geteuid())
		close(fd);
	else
		add_candidate(offer, fd, found->name, found);
}

/* After a crash an object has both its name and a stored descriptor: it is offered once, by name. */
static void add_stored(struct offer *offer, int stored, const struct segment_found *found)
{
	struct stat st;
	int fd = -1;
	bool known = fstat(stored, &st) != 0;
	for (uint32_t i = 0; i < offer->n; i++)
		known |= offer->inodes[i] == st.st_ino;
	if (!known)
		fd = fcntl(stored, F_DUPFD_CLOEXEC, 10);
	if (fd >= 0)
		add_candidate(offer, fd, "", found);
}

static int newest_first(const void *a, const void *b)
{
	uint32_t generation_a = ((const struct segment_found *)a)->generation,
		 generation_b = ((const struct segment_found *)b)->generation;
	return (generation_a < generation_b) - (generation_a > generation_b);
}

static void collect(const struct parent *parent, const char *model, struct offer *offer)
{
	struct segment_found found;
	offer->n = 0;
	/* Of several that would do, the loader takes the first. Without any there is no list, which qsort(3) has to
	 * have. */
	if (parent->n_leftovers)
		qsort(parent->leftovers, parent->n_leftovers, sizeof *parent->leftovers, newest_first);
	for (unsigned i = 0; i < parent->n_leftovers; i++)
		if (!strcmp(parent->leftovers[i].model, model))
			add_named(offer, &parent->leftovers[i]);
	for (unsigned i = 0; i < parent->store.n; i++) {
		const struct fdstore_entry *entry = &parent->store.entries[i];
		if (entry->fd >= 0 && segment_parse(entry->name, parent->config.instance, &found) &&
		    !strcmp(found.model, model))
			add_stored(offer, entry->fd, &found);
	}
}

static int send_offer(struct parent *parent, const struct message_adopt *order, const struct offer *offer)
{
	int rc = message_send(parent->loader.fd, MESSAGE_ADOPT, order, sizeof *order, NULL, 0);
	for (uint32_t i = 0; i < offer->n && !rc; i++)
		rc = message_send(parent->loader.fd, MESSAGE_CANDIDATE, &offer->candidates[i],
				  sizeof offer->candidates[i], &offer->fds[i], 1);
	return rc;
}

bool leftovers_offer(struct parent *parent, const struct message_load *load, const struct model_files *files)
{
	static struct offer offer; /* large; one thread */
	struct message_adopt order;
	struct err err;
	memset(&order, 0, sizeof order);
	collect(parent, load->model, &offer);
	if (!offer.n)
		return false;
	/* Only asked about, not opened: whoever watches the files sees nothing of a restart. */
	int rc = model_files_describe(files, &order.source, &err);
	bool asked = !rc;
	order.load = *load;
	order.n_candidates = offer.n;
	if (asked)
		log_info("model '%s': checking what an earlier daemon left", load->model);
	if (asked && (rc = send_offer(parent, &order, &offer)) != 0) {
		err_set(&err, rc, "%s", strerror(-rc));
		child_hang_up(&parent->loader); /* half of an offer: it ends, and another one loads */
	}
	if (rc)
		log_warning("model '%s': what an earlier daemon left is not adopted: %s", load->model, err.text);
	for (uint32_t i = 0; i < offer.n; i++)
		close(offer.fds[i]);
	return asked;
}

/* --- the store ---------------------------------------------------------------------------------- */

/* Where no name of a segment fits, nothing is stored either. */
static const char *stored_name(const struct parent *parent, const struct parent_model *model,
			       const struct message_segment *segment, char name[SEGMENT_NAME_BYTES])
{
	segment_name(parent->config.instance, model->config->name, segment->generation, segment->node, name, NULL);
	return name + 1;
}

void copies_store(struct parent *parent, struct parent_model *model)
{
	char name[SEGMENT_NAME_BYTES];
	for (uint32_t i = 0; i < model->n_copies; i++) {
		struct parent_copy *copy = &model->copies[i];
		if (!copy->stored)
			copy->stored = fdstore_keep(&parent->store, stored_name(parent, model, &copy->segment, name),
						    copy->fd);
	}
}

void copies_unstore(struct parent *parent, const struct parent_model *model, const struct parent_copy *copies,
		    uint32_t n_copies)
{
	char name[SEGMENT_NAME_BYTES];
	for (uint32_t i = 0; i < n_copies; i++)
		fdstore_remove(&parent->store, stored_name(parent, model, &copies[i].segment, name));
}

void leftovers_unstore(struct parent *parent, const struct parent_model *model)
{
	struct segment_found found;
	for (unsigned i = 0; i < parent->store.n;) {
		char name[FDSTORE_NAME_BYTES];
		snprintf(name, sizeof name, "%s", parent->store.entries[i].name);
		if (segment_parse(name, parent->config.instance, &found) && !strcmp(found.model, model->config->name))
			fdstore_remove(&parent->store, name); /* entry i is another one now */
		else
			i++;
	}
}

/* The highest number that anything of a model has. */
uint32_t leftovers_generation(const struct parent *parent, const char *model)
{
	struct segment_found found;
	uint32_t highest = 0;
	for (unsigned i = 0; i < parent->n_leftovers; i++)
		if (!strcmp(parent->leftovers[i].model, model) && parent->leftovers[i].generation > highest)
			highest = parent->leftovers[i].generation;
	for (unsigned i = 0; i < parent->store.n; i++)
		if (segment_parse(parent->store.entries[i].name, parent->config.instance, &found) &&
		    !strcmp(found.model, model) && found.generation > highest)
			highest = found.generation;
	return highest;
}

const char *parent_restart(const struct parent *parent, const struct parent_model *model)
{
	bool stored = true, named = true;
	for (uint32_t i = 0; i < model->n_copies; i++) {
		const struct parent_copy *copy = &model->copies[i];
		/* A memfd in place of a named object that did not fit is not what a restart looks for. */
		if (copy->segment.backing != parent->config.backing)
			return "reload";
		stored &= copy->stored;
		named &= copy->segment.name[0] != '\0';
	}
	return stored ? "fdstore" : named ? "adopt" : "reload";
}
