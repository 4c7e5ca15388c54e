/* Loading: one loader process at a time, its segments kept as read-only descriptors. */
#include "src/parent_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/clock.h"
#include "src/log.h"

static void fail_model(struct parent_model *model, const char *text)
{
	model->state = MODEL_FAILED;
	snprintf(model->fault, sizeof model->fault, "%s", text);
	log_error("model '%s': %s", model->config->name, text);
}

static void drop_copies(struct parent *parent, struct parent_model *model)
{
	for (uint32_t i = 0; i < model->n_copies; i++) {
		close(model->copies[i].fd);
		if (model->copies[i].segment.name[0])
			shm_unlink(model->copies[i].segment.name);
	}
	model->n_copies = 0;
	/* A loader that was killed may have left a named segment that it never reported. */
	for (int node = idset_first(&parent->plan.copy_nodes); node >= 0;
	     node = idset_next(&parent->plan.copy_nodes, node)) {
		char name[SEGMENT_NAME_BYTES];
		if (!segment_name(parent->config.instance, model->config->name, 1, (unsigned)node, name, NULL))
			shm_unlink(name);
	}
}

void models_close(struct parent *parent)
{
	for (uint32_t i = 0; i < parent->config.n_models; i++)
		drop_copies(parent, &parent->models[i]);
}

static uint32_t group_of_segments(const struct parent *parent)
{
	return parent->gid == UINT64_MAX ? UINT32_MAX : (uint32_t)parent->gid;
}

static int order_load(struct parent *parent, const struct parent_model *model, struct err *err)
{
	struct message_load order;
	memset(&order, 0, sizeof order);
	snprintf(order.path, sizeof order.path, "%s", model->config->path);
	snprintf(order.instance, sizeof order.instance, "%s", parent->config.instance);
	snprintf(order.model, sizeof order.model, "%s", model->config->name);
	order.generation = 1;
	order.backing = parent->config.backing;
	order.huge = parent->config.huge_pages;
	order.io = parent->config.io;
	order.group = group_of_segments(parent);
	const struct idset *nodes = &parent->plan.copy_nodes;
	for (int node = idset_first(nodes); node >= 0; node = idset_next(nodes, node)) {
		if (order.n_nodes == sizeof order.node / sizeof *order.node)
			return err_set(err, -E2BIG, "more than %zu nodes with copies",
				       sizeof order.node / sizeof *order.node);
		order.node[order.n_nodes++] = (uint16_t)node;
	}
	/* The parent opens the file, so that the loader needs no right to any path. It never reads from it. */
	int fd = open(model->config->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "cannot open %s: %s", model->config->path, strerror(errno));
	int rc = message_send(parent->loader.fd, MESSAGE_LOAD, &order, sizeof order, &fd, 1);
	close(fd);
	return rc ? err_set(err, rc, "cannot give the loader its order: %s", strerror(-rc)) : 0;
}

void models_load_next(struct parent *parent)
{
	struct err err;
	for (uint32_t i = 0; i < parent->config.n_models && !parent->loader.pid && !parent->stopping; i++) {
		struct parent_model *model = &parent->models[i];
		if (model->state != MODEL_WAITING ||
		    (model->load.due_ns && !backoff_take(&model->load, clock_now_ns())))
			continue;
		if (child_spawn(&parent->loader, CHILD_LOADER, "loader", (int)parent->config.log_level, &err)) {
			fail_model(model, err.text);
			continue;
		}
		parent->loading = i;
		parent->loader_fault[0] = '\0';
		model->state = MODEL_LOADING;
		log_info("loading model '%s' from %s", model->config->name, model->config->path);
		if (order_load(parent, model, &err)) {
			snprintf(parent->loader_fault, sizeof parent->loader_fault, "%s", err.text);
			child_hang_up(&parent->loader); /* it ends for want of an order */
		}
	}
}

static void take_segment(const struct parent *parent, struct parent_model *model, struct message *message)
{
	const struct message_segment *segment = message_payload(message, sizeof *segment, 1);
	if (!segment || model->n_copies == PARENT_COPIES_MAX) {
		for (uint32_t i = 0; i < message->n_fds; i++)
			close(message->fds[i]);
		return;
	}
	struct parent_copy *copy = &model->copies[model->n_copies++];
	*copy = (struct parent_copy){.segment = *segment, .fd = message->fds[0], .checked_ns = clock_now_ns()};
	copy->segment.name[sizeof copy->segment.name - 1] = '\0';
	const struct placement *p = &segment->report.placement;
	log_info("model '%s': node %u: %.1f MiB in %s, %llu of %llu pages on the node%s", model->config->name,
		 segment->node, (double)segment->report.total_bytes / (1 << 20),
		 segment->name[0] ? segment->name : "a memfd", (unsigned long long)p->on_node,
		 (unsigned long long)p->pages,
		 placement_verified(p) ? ""
		 : p->refused	       ? " (unverified: the kernel refused to say)"
				       : " (MISPLACED)");
	if (parent->config.backing == SEGMENT_SHM && !segment->name[0])
		log_warning("model '%s': /dev/shm is too small for node %u's copy, so it is in a memfd; a restart has "
			    "to load it again",
			    model->config->name, segment->node);
}

void models_loader_message(struct parent *parent, struct message *message)
{
	struct parent_model *model = &parent->models[parent->loading];
	const struct message_failed *failed;
	const struct message_progress *progress;
	switch (message->type) {
	case MESSAGE_SEGMENT:
		take_segment(parent, model, message);
		break;
	case MESSAGE_PROGRESS:
		progress = message_payload(message, sizeof *progress, 0);
		if (progress) {
			model->done_bytes = progress->done_bytes;
			model->total_bytes = progress->total_bytes;
		}
		break;
	case MESSAGE_FAILED:
		failed = message_payload(message, sizeof *failed, 0);
		if (failed)
			snprintf(parent->loader_fault, sizeof parent->loader_fault, "%.255s", failed->err.text);
		break;
	default:
		log_warning("the loader sent an unexpected message, type %u", message->type);
	}
}

static bool all_failed(const struct parent *parent)
{
	for (uint32_t i = 0; i < parent->config.n_models; i++)
		if (parent->models[i].state != MODEL_FAILED)
			return false;
	return parent->config.n_models > 0;
}

/* A loader that ends by itself has its reasons, which stay. One that was killed may have been in someone's way (a full
 * node, an operator) who is not there the next time. */
static void load_again(struct parent_model *model, const char *text)
{
	backoff_failed(&model->load, clock_now_ns());
	if (backoff_is_failing(&model->load)) {
		fail_model(model, text);
		return;
	}
	log_warning("model '%s': %s; it is loaded again", model->config->name, text);
	model->state = MODEL_WAITING;
	model->done_bytes = model->total_bytes = 0;
}

void models_loader_ended(struct parent *parent, int wait_status)
{
	struct parent_model *model = &parent->models[parent->loading];
	char how[128], text[256];
	if (wait_status == 0 && model->n_copies == idset_count(&parent->plan.copy_nodes)) {
		model->state = MODEL_LOADED;
		model->created = (uint64_t)time(NULL);
		workers_start(parent, parent->loading);
	} else {
		drop_copies(parent, model);
		if (parent->stopping)
			return;
		if (parent->loader_fault[0])
			snprintf(text, sizeof text, "%s", parent->loader_fault);
		else
			snprintf(text, sizeof text, "the loader was %s%s",
				 child_describe(&parent->loader, wait_status, how, sizeof how),
				 wait_status == 9 ? "; if the kernel's OOM killer did it, a node ran out of memory"
						  : "");
		if (WIFSIGNALED(wait_status))
			load_again(model, text);
		else
			fail_model(model, text);
	}
	models_load_next(parent);
	front_tell_state(parent);
	parent_announce(parent);
	if (all_failed(parent) && !parent->stopping) {
		log_error("no model could be loaded");
		parent->exit_status = 1;
		parent_stop(parent);
	}
}
