/* Loading: one loader process at a time, for what an earlier daemon left or else for the files; its segments are kept
 * as read-only descriptors. */
#include "src/parent/parent_internal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/clock.h"
#include "src/log.h"
#include "src/parent/model_files.h"

static void fail_model(struct parent *parent, struct parent_model *model, const char *text)
{
	model->state = MODEL_FAILED;
	snprintf(model->fault, sizeof model->fault, "%s", text);
	log_error("model '%s': %s", model->config->name, text);
	wish_failed(parent, model, text);
}

static void close_copies(struct parent_model *model)
{
	for (uint32_t i = 0; i < model->n_copies; i++)
		close(model->copies[i].fd);
	model->n_copies = 0;
}

static void remove_segments(const struct parent *parent, const struct parent_model *model)
{
	struct err err;
	if (segment_remove_model(parent->config.instance, model->config->name, &err) < 0)
		log_warning("model '%s': %s", model->config->name, err.text);
}

/* After a failure: also what a loader that was killed never reported. */
void models_drop_copies(struct parent *parent, struct parent_model *model)
{
	close_copies(model);
	model->adopted = false;
	remove_segments(parent, model);
	leftovers_unstore(parent, model);
}

void models_close(struct parent *parent)
{
	struct err err;
	adapters_close(parent);
	generations_close(parent);
	for (uint32_t i = 0; i < parent->config.n_models; i++)
		close_copies(&parent->models[i]);
	/* What the service manager stores stays there: it knows whether this is a stop or a restart. A daemon that did
	 * not get through its start leaves everything to the next one. */
	if (parent->started && !parent->config.keep_weights &&
	    segment_remove_instance(parent->config.instance, &err) < 0)
		log_warning("%s", err.text);
}

static uint32_t group_of_segments(const struct parent *parent)
{
	return parent->gid == UINT64_MAX ? UINT32_MAX : (uint32_t)parent->gid;
}

int order_fill(const struct parent *parent, const char *path, const char *name, uint32_t generation,
	       const struct idset *nodes, struct message_load *order, struct err *err)
{
	memset(order, 0, sizeof *order);
	snprintf(order->path, sizeof order->path, "%s", path);
	snprintf(order->instance, sizeof order->instance, "%s", parent->config.instance);
	snprintf(order->model, sizeof order->model, "%s", name);
	order->generation = generation;
	order->backing = parent->config.backing;
	order->huge = parent->config.huge_pages;
	order->io = parent->config.io;
	order->group = group_of_segments(parent);
	order->memory = parent->plan.memory;
	uint32_t n_more = 0;
	for (unsigned i = 0; i < parent->plan.n_copies; i++) {
		const struct plan_copy *copy = &parent->plan.copies[i];
		if (!idset_has(nodes, copy->node))
			continue;
		if (n_more + idset_count(&copy->nodes) - 1 > sizeof order->more / sizeof *order->more)
			return err_set(err, -E2BIG, "copies are spread over more than %zu nodes",
				       sizeof order->more / sizeof *order->more);
		order->node[order->n_nodes] = (uint16_t)copy->node;
		for (int node = idset_next(&copy->nodes, (int)copy->node); node >= 0;
		     node = idset_next(&copy->nodes, node)) {
			order->more[n_more++] = (uint16_t)node;
			order->n_more[order->n_nodes]++;
		}
		order->n_nodes++;
	}
	return 0;
}

/* Of the copies that a change replaces, the largest. */
static uint64_t replaced_bytes(const struct parent_model *model)
{
	uint64_t most = 0;
	for (uint32_t i = 0; i < model->n_copies; i++) {
		const struct message_segment *segment = &model->copies[i].segment;
		if (idset_has(&model->change.nodes, segment->node) && segment->report.total_bytes > most)
			most = segment->report.total_bytes;
	}
	return most;
}

static int make_order(const struct parent *parent, const struct parent_model *model, const struct model_files *files,
		      struct message_load *order, struct err *err)
{
	bool changes = model->change.state == CHANGE_FILLING;
	int rc = order_fill(parent, files->path, model->config->name,
			    changes ? model->change.generation : model->generation,
			    changes ? &model->change.nodes : &parent->plan.copy_nodes, order, err);
	if (changes)
		order->served_bytes = replaced_bytes(model);
	order->n_files = files->n;
	order->quantize = files->quantize;
	return rc;
}

static int give(struct parent *parent, uint32_t type, const void *payload, size_t n_bytes, const int *fds,
		uint32_t n_fds, struct err *err)
{
	int rc = message_send(parent->loader.fd, type, payload, n_bytes, fds, n_fds);
	return rc ? err_set(err, rc, "cannot give the loader its order: %s", strerror(-rc)) : 0;
}

/* The parent opens the files, so that the loader needs no right to any path. It never reads from them. */
static int give_files(struct parent *parent, const struct model_file *files, uint32_t n, struct err *err)
{
	struct message_files message;
	int fds[MESSAGE_MAX_FDS], rc = 0;
	memset(&message, 0, sizeof message);
	while (message.n < n && !rc) {
		const struct model_file *file = &files[message.n];
		struct message_file *out = &message.file[message.n];
		out->role = file->role;
		snprintf(out->name, sizeof out->name, "%s", file->name); /* model_files_find checked its length */
		rc = model_file_open(file, &fds[message.n], err);
		message.n += !rc;
	}
	if (!rc)
		rc = give(parent, MESSAGE_FILES, &message, sizeof message, fds, message.n, err);
	for (uint32_t i = 0; i < message.n; i++)
		close(fds[i]);
	return rc;
}

static int order_load(struct parent *parent, const struct parent_model *model, const struct model_files *files,
		      struct err *err)
{
	struct message_load order;
	int rc = make_order(parent, model, files, &order, err);
	if (rc)
		return rc;
	log_info("loading model '%s' from %s", model->config->name, model->config->path);
	rc = give(parent, MESSAGE_LOAD, &order, sizeof order, NULL, 0, err);
	for (uint32_t i = 0; i < files->n && !rc; i += MESSAGE_MAX_FDS) {
		uint32_t left = files->n - i;
		rc = give_files(parent, &files->files[i], left < MESSAGE_MAX_FDS ? left : MESSAGE_MAX_FDS, err);
	}
	return rc;
}

/* A loader without an order ends, and its end is when the model fails. */
static void order_or_hang_up(struct parent *parent, const struct parent_model *model)
{
	struct model_files files = {.n = 0};
	struct err err;
	int rc = model_files_find(model->config, &files, &err);
	if (!rc)
		rc = order_load(parent, model, &files, &err);
	model_files_free(&files);
	if (!rc)
		return;
	snprintf(parent->loader_fault, sizeof parent->loader_fault, "%s", err.text);
	child_hang_up(&parent->loader);
}

/* One of the newest contents, which some nodes may not have yet: a good one; without any, a degraded one, because what
 * it says is as right as ever. */
static const struct parent_copy *copy_to_copy(const struct parent_model *model)
{
	const struct parent_copy *newest = &model->copies[0];
	for (uint32_t i = 1; i < model->n_copies; i++)
		if (model->copies[i].segment.generation > newest->segment.generation)
			newest = &model->copies[i];
	for (uint32_t i = 0; i < model->n_copies; i++)
		if (!copy_is_degraded(&model->copies[i]) &&
		    !memcmp(model->copies[i].segment.report.digest, newest->segment.report.digest,
			    SEGMENT_DIGEST_BYTES))
			return &model->copies[i];
	return newest;
}

/* The same without any file: from a copy that is served. */
static void order_copies_or_hang_up(struct parent *parent, const struct parent_model *model)
{
	const struct parent_copy *from = copy_to_copy(model);
	struct message_load order;
	struct err err;
	int rc = order_fill(parent, model->config->path, model->config->name, model->change.generation,
			    &model->change.nodes, &order, &err);
	order.n_files = 1; /* which is the segment */
	order.served_bytes = replaced_bytes(model);
	log_info("model '%s': copies for other nodes are made from node %u's", model->config->name, from->segment.node);
	if (!rc)
		rc = give(parent, MESSAGE_COPY, &order, sizeof order, &from->fd, 1, &err);
	if (!rc)
		return;
	snprintf(parent->loader_fault, sizeof parent->loader_fault, "%s", err.text);
	child_hang_up(&parent->loader);
}

static bool order_to_adopt(struct parent *parent, const struct parent_model *model)
{
	struct model_files files = {.n = 0};
	struct message_load order;
	bool asked = !model_files_find(model->config, &files, NULL) &&
		     !make_order(parent, model, &files, &order, NULL) && leftovers_offer(parent, &order, &files);
	model_files_free(&files);
	return asked;
}

/* Leftovers first, the files only if they are no good. */
static void order_first(struct parent *parent, struct parent_model *model)
{
	uint32_t highest = leftovers_generation(parent, model->config->name);
	if (!model->generation)
		model->generation = model->last_generation = highest ? highest : PARENT_GENERATION;
	model->adopting = !model->leftovers_done && order_to_adopt(parent, model);
	model->leftovers_done = true;
	if (model->adopting)
		return;
	/* Whatever has a name that the load needs was not good enough to be offered. */
	remove_segments(parent, model);
	order_or_hang_up(parent, model);
}

/* The first load of a model, or the next. */
static bool is_due(const struct parent *parent, struct parent_model *model)
{
	if (model->state == MODEL_WAITING)
		return !model->load.due_ns || backoff_take(&model->load, clock_now_ns());
	return model->change.state == CHANGE_WAITING && !generation_waits_for_memory(parent, model);
}

static void begin(struct parent *parent, struct parent_model *model)
{
	struct err err;
	bool changes = model->change.state == CHANGE_WAITING;
	if (child_spawn(&parent->loader, CHILD_LOADER, "loader", (int)parent->config.log_level, &err)) {
		if (changes)
			generation_failed(parent, model, err.text);
		else
			fail_model(parent, model, err.text);
		return;
	}
	parent->loading = (uint32_t)(model - parent->models);
	parent->loader_fault[0] = '\0';
	parent->loader_code = 0;
	model->done_bytes = model->total_bytes = 0;
	if (changes) {
		model->change.state = CHANGE_FILLING;
		if (model->change.from_memory)
			order_copies_or_hang_up(parent, model);
		else
			order_or_hang_up(parent, model);
	} else {
		model->state = MODEL_LOADING;
		order_first(parent, model);
	}
}

void models_load_next(struct parent *parent)
{
	for (uint32_t i = 0; i < parent->config.n_models && !parent->loader.pid && !parent->stopping; i++)
		if (is_due(parent, &parent->models[i]))
			begin(parent, &parent->models[i]);
}

static const char *whereabouts(const struct message_segment *segment)
{
	static const char *const nameless[] = {"an object without a name", "a memfd", "2 MiB pages of the node's pool",
					       "1 GiB pages of the node's pool"}; /* by enum segment_backing */
	return segment->name[0] ? segment->name : nameless[segment->backing];
}

/* One line for each copy. The name is worth a warning when it had to be salted. */
static void tell_segment(const struct parent *parent, const struct parent_model *model,
			 const struct message_segment *segment)
{
	char plain[SEGMENT_NAME_BYTES];
	const struct placement *p = &segment->report.placement;
	const struct plan_copy *plan = plan_copy(&parent->plan, segment->node);
	bool spread = plan && idset_count(&plan->nodes) > 1;
	log_info("model '%s': node %u: %s%.1f MiB in %s, %llu of %llu pages %s%s", model->config->name, segment->node,
		 segment->adopted ? "adopted " : "", (double)segment->report.total_bytes / (1 << 20),
		 whereabouts(segment), (unsigned long long)p->on_node, (unsigned long long)p->pages,
		 spread ? "interleaved as they should be" : "on the node",
		 placement_verified(p) ? ""
		 : placement_wrong(p)  ? " (MISPLACED)"
				       : " (unverified)");
	if (segment->name[0] &&
	    !segment_name(parent->config.instance, model->config->name, segment->generation, segment->node, plain,
			  NULL) &&
	    strcmp(plain, segment->name))
		log_warning("model '%s': another user's object has the name %s, which is left alone",
			    model->config->name, plain);
}

static void take_segment(struct parent *parent, struct parent_model *model, struct message *message)
{
	const struct message_segment *segment = message_payload(message, sizeof *segment, 1);
	bool changes = model->change.state == CHANGE_FILLING;
	uint32_t *n_copies = changes ? &model->change.n_copies : &model->n_copies;
	if (!segment || segment->backing > SEGMENT_POOL_1G || *n_copies == PARENT_COPIES_MAX) {
		for (uint32_t i = 0; i < message->n_fds; i++)
			close(message->fds[i]);
		return;
	}
	struct parent_copy *copy = (changes ? model->change.copies : model->copies) + (*n_copies)++;
	copy_init(parent, copy, segment, message->fds[0]);
	model->adopted |= copy->segment.adopted;
	tell_segment(parent, model, &copy->segment);
	placement_refused(parent, &copy->segment.report.placement.refused);
	if (segment->backing != parent->config.backing)
		log_warning(
			"model '%s': %s too small for its copies, so node %u's is in a memfd; a restart has to load it "
			"again",
			model->config->name,
			segment_is_pooled(parent->config.backing) ? "a node's pool of huge pages is" : "/dev/shm is",
			segment->node);
}

bool models_waited_for_files(const struct load_pace *pace)
{
	return pace->wait_ns > pace->fill_ns / 2;
}

static void tell_pace(struct parent_model *model, const struct load_pace *pace)
{
	*(model->change.state == CHANGE_FILLING ? &model->change.pace : &model->pace) = *pace;
	if (!pace->total_ns || !pace->fill_ns)
		return;
	log_info("model '%s': %.1f MiB in %.2f s: memory %.2f s, reading and packing by %u threads %.2f s (%.2f GB/s, "
		 "of "
		 "which %.0f%% waiting for files: %s is the limit), other nodes %.2f s, proof %.2f s",
		 model->config->name, (double)pace->file_bytes / (1 << 20), (double)pace->total_ns / 1e9,
		 (double)pace->room_ns / 1e9, pace->n_threads, (double)pace->fill_ns / 1e9,
		 (double)pace->file_bytes / (double)pace->fill_ns,
		 100.0 * (double)pace->wait_ns / (double)pace->fill_ns,
		 models_waited_for_files(pace) ? "reading" : "packing", (double)pace->spread_ns / 1e9,
		 (double)pace->publish_ns / 1e9);
	if (pace->cached_bytes && pace->cached_bytes != UINT64_MAX)
		log_info("model '%s': %.1f MiB of its files stay in the page cache, a second copy: other programs map "
			 "them, or their file system is in memory",
			 model->config->name, (double)pace->cached_bytes / (1 << 20));
}

void models_loader_message(struct parent *parent, struct message *message)
{
	struct parent_model *model = &parent->models[parent->loading];
	const struct message_failed *failed;
	const struct message_progress *progress;
	const struct message_refused *refused;
	const struct load_pace *pace;
	switch (message->type) {
	case MESSAGE_REFUSED:
		refused = message_payload(message, sizeof *refused, 0);
		if (refused)
			log_info("model '%s': node %u: %.255s is not adopted: %.255s", model->config->name,
				 refused->node, refused->name[0] ? refused->name : "a stored object",
				 refused->why.text);
		break;
	case MESSAGE_NOT_ADOPTED:
		failed = message_payload(message, sizeof *failed, 0);
		if (!failed || !model->adopting)
			break;
		log_info("model '%s': %.255s", model->config->name, failed->err.text);
		model->adopting = false;
		leftovers_unstore(parent, model);
		order_or_hang_up(parent, model);
		break;
	case MESSAGE_SEGMENT:
		take_segment(parent, model, message);
		break;
	case MESSAGE_PACE:
		pace = message_payload(message, sizeof *pace, 0);
		if (pace)
			tell_pace(model, pace);
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
		if (!failed)
			break;
		snprintf(parent->loader_fault, sizeof parent->loader_fault, "%.255s", failed->err.text);
		parent->loader_code = failed->code;
		break;
	default:
		log_warning("the loader sent an unexpected message, type %u", message->type);
	}
}

static bool all_failed(const struct parent *parent)
{
	uint32_t n_failed = 0;
	for (uint32_t i = 0; i < parent->config.n_models; i++)
		n_failed += parent->models[i].state == MODEL_FAILED;
	return n_failed && n_failed == models_count(parent);
}

/* A loader that ends by itself has its reasons, which stay. One that was killed may have been in someone's way (a full
 * node, an operator) who is not there the next time. */
static void load_again(struct parent *parent, struct parent_model *model, const char *text)
{
	backoff_failed(&model->load, clock_now_ns());
	if (backoff_is_failing(&model->load)) {
		fail_model(parent, model, text);
		return;
	}
	log_warning("model '%s': %s; it is loaded again", model->config->name, text);
	model->state = MODEL_WAITING;
	model->done_bytes = model->total_bytes = 0;
}

/* What the loader said of its end, or what can be said of it. */
static void describe_end(const struct parent *parent, int wait_status, char text[256])
{
	char how[128];
	if (parent->loader_fault[0])
		snprintf(text, 256, "%s", parent->loader_fault);
	else
		snprintf(text, 256, "the loader was %s%s",
			 child_describe(&parent->loader, wait_status, how, sizeof how),
			 wait_status == SIGKILL ? "; if the kernel's OOM killer did it, a node ran out of memory" : "");
}

static void loaded_first(struct parent *parent, struct parent_model *model)
{
	struct err err;
	model->state = MODEL_LOADED;
	model->created = (uint64_t)time(NULL);
	model->adopting = false;
	model->generation =
		model->copies[0].segment.generation; /* adopted ones may not be the highest that there was */
	copies_store(parent, model);
	if (workers_start(parent, parent->loading, model->copies, model->n_copies, WORKER_SERVES, &err)) {
		models_drop_copies(parent, model);
		fail_model(parent, model, err.text);
	}
}

static void ended_first(struct parent *parent, struct parent_model *model, int wait_status)
{
	char how[128], text[256];
	if (wait_status == 0 && model->n_copies == idset_count(&parent->plan.copy_nodes)) {
		loaded_first(parent, model);
	} else if (model->adopting) {
		/* Damaged leftovers, or too little memory to look at them, are no reason not to serve. A stop is no
		 * reason to lose them. */
		close_copies(model);
		if (!parent->stopping) {
			log_warning("model '%s': the loader was %s while it checked what an earlier daemon left",
				    model->config->name, child_describe(&parent->loader, wait_status, how, sizeof how));
			models_drop_copies(parent, model);
		}
		model->state = MODEL_WAITING;
	} else {
		models_drop_copies(parent, model);
		if (parent->stopping)
			return;
		describe_end(parent, wait_status, text);
		if (WIFSIGNALED(wait_status) && !model->asked)
			load_again(parent, model, text);
		else
			fail_model(parent, model, text);
	}
}

static void ended_next(struct parent *parent, struct parent_model *model, int wait_status)
{
	char text[256];
	if (wait_status == 0 && model->change.n_copies == idset_count(&model->change.nodes)) {
		generation_filled(parent, model);
		return;
	}
	describe_end(parent, wait_status, text);
	if (parent->loader_code == -EXFULL && generation_in_turn(parent, model, text))
		return;
	generation_failed(parent, model, text);
}

void models_loader_ended(struct parent *parent, int wait_status)
{
	struct parent_model *model = &parent->models[parent->loading];
	if (model->change.state == CHANGE_FILLING)
		ended_next(parent, model, wait_status);
	else
		ended_first(parent, model, wait_status);
	if (parent->stopping)
		return;
	models_load_next(parent);
	front_tell_state(parent);
	parent_announce(parent);
	if (!parent->announced && all_failed(parent)) {
		log_error("no model could be loaded");
		parent->exit_status = 1;
		parent_stop(parent);
	}
}
