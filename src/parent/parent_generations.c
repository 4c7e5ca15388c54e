/* From one generation of a model's copies to the next, without a failed or a mixed call.
 *
 *     WAITING ─▶ FILLING ───▶ STARTING ─────▶ flip ─▶ LEAVING ─────────────▶ NONE
 *                copies of    workers on       the     calls of the old one
 *                g+1 beside   standby attach   front   end; its workers go,
 *                those of g   them             turns   then its copies
 *        └─────────────┴────────────┴──▶ given up: what came goes, and g has never noticed
 *
 * Until the flip everything that comes is beside what serves, and nothing of what serves was touched: so giving up, for
 * whatever reason and at whatever moment, is to take away what came. The flip is one message to the front, so that no
 * call finds half of it done; from there on there is no way back, and none is needed. A call stays with the worker that
 * it was given to, so all of its bytes are of one generation, also when it is still running long after the flip.
 *
 * Where memory has no room for two generations on every node, but would have it for one after the other, the way is
 * gone for one node at a time: first the one with the most free memory, from the model's files, then the others, from
 * its copy. Where not even one node has room for both, its calls end first, its workers go, and its copy makes room:
 *
 *     FILLING ─▶ DRAINING ─▶ WAITING ─▶ FILLING ─▶ STARTING ─▶ flip of the node ─▶ LEAVING ─▶ the next node
 *
 * Meanwhile the other nodes' workers serve, with what they have: new calls then may end in either generation, but none
 * in both. Each node has a number of its own, since what is given up is removed by its number. A node whose copy made
 * room for one that could not be made gets the newest of the other nodes' in its place, once; `weightctl verify
 * --repair` tries again.
 *
 * Who makes the copies is not this file's business: they are announced (generation_begin), made by whoever makes them,
 * and then all there (generation_filled) or not to be had (generation_failed). A change may replace the copies of some
 * nodes only; those of the others stay as they are, with their workers.
 *
 * Retired workers end only when the front has said that none of their calls is left. Who dies in between: the loader,
 * and a coming worker that says why, give the change up; a coming worker that was killed is started again, as long as
 * it does not keep dying; a retired one takes its calls with it, as any worker does, and is not replaced; with the
 * front all calls end, and retired workers with them. One change of a model at a time, and another one that waits for
 * it. */
#include "src/parent/parent_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "src/log.h"

/* --- copies ----------------------------------------------------------------------------------- */

static void drop_copies(struct parent *parent, struct parent_model *model)
{
	struct parent_change *change = &model->change;
	for (uint32_t i = 0; i < change->n_copies; i++) {
		const struct parent_copy *copy = &change->copies[i];
		close(copy->fd);
		if (copy->segment.name[0] && shm_unlink(copy->segment.name) && errno != ENOENT)
			log_warning("%s: %s", copy->segment.name, strerror(errno));
	}
	copies_unstore(parent, model, change->copies, change->n_copies);
	change->n_copies = 0;
}

static struct parent_copy take_copy(struct parent_copy *copies, uint32_t *n_copies, uint32_t index)
{
	struct parent_copy taken = copies[index];
	memmove(&copies[index], &copies[index + 1], (--*n_copies - index) * sizeof *copies);
	return taken;
}

static void enter_copy(struct parent_copy *copies, uint32_t *n_copies, struct parent_copy copy)
{
	uint32_t at = *n_copies;
	while (at && copies[at - 1].segment.node > copy.segment.node)
		at--;
	memmove(&copies[at + 1], &copies[at], ((*n_copies)++ - at) * sizeof *copies);
	copies[at] = copy;
}

/* The served copies of the change's nodes are the change's. */
static void take_served(struct parent_model *model)
{
	struct parent_change *change = &model->change;
	for (uint32_t k = model->n_copies; k-- > 0;)
		if (idset_has(&change->nodes, model->copies[k].segment.node))
			change->copies[change->n_copies++] = take_copy(model->copies, &model->n_copies, k);
}

/* The copies that come take the places of those of the same nodes, if there are any, which are then the change's. */
static void exchange_copies(struct parent_model *model)
{
	struct parent_change *change = &model->change;
	struct parent_copy come[PARENT_COPIES_MAX];
	uint32_t n_come = change->n_copies;
	memcpy(come, change->copies, n_come * sizeof *come);
	change->n_copies = 0;
	take_served(model);
	for (uint32_t i = 0; i < n_come; i++)
		enter_copy(model->copies, &model->n_copies, come[i]);
}

/* --- workers ---------------------------------------------------------------------------------- */

static bool is_of(const struct parent *parent, const struct parent_worker *worker, const struct parent_model *model,
		  enum worker_duty duty)
{
	return worker->model == (uint32_t)(model - parent->models) && worker->duty == duty;
}

/* Whatever calls it has. */
static void dismiss(struct parent_worker *worker)
{
	worker->duty = WORKER_RETIRED;
	if (worker->child.pid)
		kill(worker->child.pid, SIGKILL);
}

static void dismiss_standby(struct parent *parent, const struct parent_model *model)
{
	for (uint32_t i = parent->n_workers; i-- > 0;) { /* the last first: forgetting shortens the list */
		struct parent_worker *worker = &parent->workers[i];
		if (!is_of(parent, worker, model, WORKER_STANDBY))
			continue;
		dismiss(worker);
		if (!worker->child.pid)
			worker_forget(parent, worker);
	}
}

/* --- the way ---------------------------------------------------------------------------------- */

bool generation_begin(struct parent *parent, struct parent_model *model, const struct idset *nodes, uint64_t ticket)
{
	struct parent_change *change = &model->change;
	if (change->state != CHANGE_NONE || parent->stopping)
		return false;
	change->state = CHANGE_WAITING;
	change->generation = ++model->last_generation;
	change->nodes = *nodes;
	change->ticket = ticket;
	change->from_memory = change->freed = change->restores = false;
	idset_clear(&change->rest);
	change->fault[0] = '\0';
	change->pace = (struct load_pace){0};
	return true;
}

/* The next one, if somebody waits. */
static void go_on(struct parent *parent, struct parent_model *model)
{
	uint64_t ticket = model->change.next;
	model->change.state = CHANGE_NONE;
	model->change.next = 0;
	if (ticket && !generation_begin(parent, model, &parent->plan.copy_nodes, ticket))
		wish_answer(parent, &ticket, false, "the daemon is stopping");
	models_load_next(parent);
}

/* One try to give the nodes back what made room for nothing. */
static void restore(struct parent *parent, struct parent_model *model)
{
	struct parent_change *change = &model->change;
	change->state = CHANGE_WAITING;
	change->generation = ++model->last_generation;
	change->from_memory = change->restores = true;
	models_load_next(parent);
}

void generation_failed(struct parent *parent, struct parent_model *model, const char *text)
{
	struct parent_change *change = &model->change;
	struct err err;
	if (!parent->stopping)
		log_error("model '%s': generation %u: %s; generation %u is still served", model->config->name,
			  change->generation, text, model->generation);
	snprintf(change->fault, sizeof change->fault, "%s", text);
	dismiss_standby(parent, model);
	drop_copies(parent, model);
	/* By name: also what a loader that was killed never reported. */
	if (segment_remove_generation(parent->config.instance, model->config->name, change->generation, &err) < 0)
		log_warning("model '%s': %s", model->config->name, err.text);
	wish_answer(parent, &change->ticket, false, "generation %u of model '%s': %s; generation %u is still served",
		    change->generation, model->config->name, text, model->generation);
	idset_clear(&change->rest);
	if (change->freed && !change->restores && !parent->stopping)
		restore(parent, model);
	else
		go_on(parent, model);
	front_tell_state(parent);
}

void generation_filled(struct parent *parent, struct parent_model *model)
{
	struct parent_change *change = &model->change;
	struct err err;
	change->state = CHANGE_STARTING;
	if (parent->stopping)
		return;
	if (workers_start(parent, (uint32_t)(model - parent->models), change->copies, change->n_copies, WORKER_STANDBY,
			  &err))
		generation_failed(parent, model, err.text);
}

/* The node of `rest` that is most likely to have room for what it has and what comes. */
static void choose_node(struct parent_change *change)
{
	unsigned best = 0;
	uint64_t most = 0;
	for (int node = idset_first(&change->rest); node >= 0; node = idset_next(&change->rest, node)) {
		uint64_t free_bytes = 0;
		topology_free_bytes((unsigned)node, &free_bytes);
		if (node == idset_first(&change->rest) || free_bytes > most) {
			best = (unsigned)node;
			most = free_bytes;
		}
	}
	idset_clear(&change->nodes);
	idset_add(&change->nodes, best);
	idset_remove(&change->rest, best);
}

static void next_node(struct parent *parent, struct parent_model *model)
{
	struct parent_change *change = &model->change;
	choose_node(change);
	change->state = CHANGE_WAITING;
	change->freed = false;
	models_load_next(parent);
}

/* The calls of nodes have ended, and so have their workers: what those read makes room. */
static void make_room(struct parent *parent, struct parent_model *model)
{
	take_served(model);
	drop_copies(parent, model);
	fdstore_settle(&parent->store);
	model->change.state = CHANGE_WAITING;
	model->change.freed = true;
	models_load_next(parent);
}

/* The old generation's calls have ended, and so have its workers. */
static void try_leave(struct parent *parent, struct parent_model *model)
{
	struct parent_change *change = &model->change;
	if (change->state != CHANGE_LEAVING && change->state != CHANGE_DRAINING)
		return;
	for (uint32_t i = 0; i < parent->n_workers; i++)
		if (is_of(parent, &parent->workers[i], model, WORKER_RETIRED))
			return;
	if (change->state == CHANGE_DRAINING) {
		make_room(parent, model);
		return;
	}
	drop_copies(parent, model);
	log_info("model '%s': generation %u has taken over; the one before it is gone", model->config->name,
		 model->generation);
	if (idset_count(&change->rest)) {
		change->generation = ++model->last_generation;
		change->from_memory = true;
		next_node(parent, model);
	} else {
		go_on(parent, model);
	}
	front_tell_state(parent);
}

/* Tells the front of all new duties at once, and sees to retired workers that no call can have. */
static void turn(struct parent *parent, const struct message_flip *flip)
{
	front_tell(parent, MESSAGE_FLIP, flip, sizeof *flip);
	for (uint32_t i = flip->n_off; i-- > 0;) { /* the last first: forgetting shortens the list */
		struct parent_worker *worker = &parent->workers[flip->off[i]];
		if (!worker->ready || !parent->front.pid)
			dismiss(worker);
		if (!worker->child.pid)
			worker_forget(parent, worker);
	}
}

void workers_turn(struct parent *parent, const struct parent_model *model, const struct idset *retired)
{
	struct message_flip flip;
	struct idset nodes;
	memset(&flip, 0, sizeof flip);
	for (uint32_t i = 0; i < parent->n_workers; i++) {
		struct parent_worker *worker = &parent->workers[i];
		if (is_of(parent, worker, model, WORKER_STANDBY)) {
			worker->duty = WORKER_SERVES;
			flip.on[flip.n_on++] = (uint16_t)i;
			continue;
		}
		if (!is_of(parent, worker, model, WORKER_SERVES))
			continue;
		worker_copy_nodes(parent, worker, &nodes);
		idset_and(&nodes, retired);
		if (idset_first(&nodes) >= 0) {
			worker->duty = WORKER_RETIRED;
			flip.off[flip.n_off++] = (uint16_t)i;
		}
	}
	turn(parent, &flip);
}

static void flip(struct parent *parent, struct parent_model *model)
{
	struct parent_change *change = &model->change;
	change->state = CHANGE_LEAVING;
	exchange_copies(model);
	model->generation = change->generation;
	model->created = (uint64_t)time(NULL);
	if (!change->from_memory)
		model->pace = change->pace;
	model->adopted = false;
	workers_turn(parent, model, &change->nodes);
	copies_store(parent, model);
	log_info("model '%s': generation %u is served", model->config->name, model->generation);
	front_tell_state(parent);
	if (!idset_count(&change->rest))
		wish_answer(parent, &change->ticket, true, "generation %u of model '%s' is served", model->generation,
			    model->config->name);
	try_leave(parent, model);
}

/* --- one node after the other ----------------------------------------------------------------- */

static bool others_serve(const struct parent *parent, const struct parent_model *model)
{
	for (uint32_t i = 0; i < parent->n_workers; i++) {
		const struct parent_worker *worker = &parent->workers[i];
		struct idset nodes;
		if (!is_of(parent, worker, model, WORKER_SERVES) || !worker->ready)
			continue;
		worker_copy_nodes(parent, worker, &nodes);
		idset_and(&nodes, &model->change.nodes);
		if (idset_first(&nodes) < 0)
			return true;
	}
	return false;
}

bool generation_in_turn(struct parent *parent, struct parent_model *model, char text[256])
{
	struct parent_change *change = &model->change;
	if (parent->stopping)
		return false;
	if (idset_count(&change->nodes) > 1) {
		log_info("model '%s': %s: generation %u comes to one node after the other", model->config->name, text,
			 change->generation);
		change->rest = change->nodes;
		next_node(parent, model);
		return true;
	}
	if (!others_serve(parent, model)) {
		size_t used = strlen(text);
		snprintf(text + used, 256 - used,
			 "; there is room only in place of what is served, and no other worker would serve meanwhile: "
			 "unload the model and load it again");
		return false;
	}
	log_info("model '%s': %s: its copy goes when its calls have ended, to make room for generation %u",
		 model->config->name, text, change->generation);
	change->state = CHANGE_DRAINING;
	workers_turn(parent, model, &change->nodes);
	front_tell_state(parent);
	try_leave(parent, model);
	return true;
}

bool generation_waits_for_memory(const struct parent *parent, const struct parent_model *model)
{
	return model->change.freed && parent->verifier.pid;
}

/* --- events ----------------------------------------------------------------------------------- */

void generations_worker_ready(struct parent *parent, const struct parent_worker *worker)
{
	struct parent_model *model = &parent->models[worker->model];
	if (worker->duty == WORKER_SERVES && model->change.state == CHANGE_NONE)
		wish_served(parent, model);
	if (worker->duty != WORKER_STANDBY || model->change.state != CHANGE_STARTING)
		return;
	for (uint32_t i = 0; i < parent->n_workers; i++)
		if (is_of(parent, &parent->workers[i], model, WORKER_STANDBY) && !parent->workers[i].ready)
			return;
	flip(parent, model);
}

bool generations_worker_ended(struct parent *parent, struct parent_worker *worker)
{
	struct parent_model *model = &parent->models[worker->model];
	if (worker->duty == WORKER_RETIRED) {
		worker_forget(parent, worker);
		try_leave(parent, model);
		return true;
	}
	/* What it says of itself, its successor would say again. */
	if (!worker->fault[0] && worker->backoff.failures + 1 < BACKOFF_FAILING)
		return false;
	char text[sizeof worker->end + 32];
	snprintf(text, sizeof text, "%s %s", worker->child.name, worker->end);
	worker_forget(parent, worker);
	generation_failed(parent, model, text);
	return true;
}

void generations_worker_idle(struct parent *parent, uint32_t index)
{
	if (index >= parent->n_workers || parent->workers[index].duty != WORKER_RETIRED)
		return;
	struct parent_worker *worker = &parent->workers[index];
	if (worker->child.pid && message_send(worker->child.fd, MESSAGE_DRAIN, NULL, 0, NULL, 0))
		kill(worker->child.pid, SIGKILL);
}

void generations_front_ended(struct parent *parent)
{
	for (uint32_t i = 0; i < parent->n_workers; i++)
		if (parent->workers[i].model != PARENT_NO_MODEL && parent->workers[i].duty == WORKER_RETIRED)
			dismiss(&parent->workers[i]);
}

void generations_stop(struct parent *parent)
{
	for (uint32_t i = 0; i < parent->config.n_models; i++) {
		wish_answer(parent, &parent->models[i].change.ticket, false, "the daemon is stopping");
		wish_answer(parent, &parent->models[i].change.next, false, "the daemon is stopping");
	}
}

void generations_close(struct parent *parent)
{
	for (uint32_t i = 0; i < parent->config.n_models; i++)
		drop_copies(parent, &parent->models[i]);
}
