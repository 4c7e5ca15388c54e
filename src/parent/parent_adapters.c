/* Adapters: small segments beside a model's, which come and go while it is served.
 *
 *     wish ─▶ WAITING ─▶ LOADING ─▶ SPREADING ─▶ SERVED ─▶ RETIRED ─▶ gone
 *             opened     a loader    workers      the front  no new      the front has no call
 *             here       makes the   attach it    routes     calls       of it any more: workers
 *                        segments                 calls                  drop it, segments go
 *
 * An adapter here is the bytes of one load, under an id that is never used again; a name is only what leads calls to
 * it. So a name can get new bytes while answers with the old ones go on: the new ones take it over in the front, the
 * old ones retire.
 *
 * Three rules keep calls and bytes together. The front learns of an adapter only when every worker that takes calls has
 * it. A worker takes calls only when it has every adapter that is served. A worker is told to drop one only after the
 * front has said that none of its calls, not even one being cancelled, is of that adapter, or after the front is gone
 * and the worker was told to end all calls. So no call ever meets a worker without its adapter, and nothing has to be
 * counted across processes.
 *
 * Whatever dies in between, the rest goes on: a dead loader fails its load; a dead worker is no longer waited for; with
 * a dead front nobody asks any more, and what was on its way is completed. A wish has ADAPTER_PATIENCE_S. */
#include "src/parent/parent_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "src/clock.h"
#include "src/parent/control.h"
#include "src/log.h"

/* --- answers ---------------------------------------------------------------------------------- */

struct verdict {
	uint32_t status; /* HTTP */
	const char *param, *code;
	const char *text;
};

static void answer(struct parent *parent, struct adapter_asker *asker, const struct verdict *verdict)
{
	struct message_adapter_answer to_front;
	if (asker->who == ASKER_FRONT) {
		memset(&to_front, 0, sizeof to_front);
		to_front.ticket = asker->ticket;
		to_front.status = verdict->status;
		snprintf(to_front.param, sizeof to_front.param, "%s", verdict->param ? verdict->param : "");
		snprintf(to_front.code, sizeof to_front.code, "%s", verdict->code ? verdict->code : "");
		snprintf(to_front.text, sizeof to_front.text, "%.255s", verdict->text);
		front_tell(parent, MESSAGE_ADAPTER_ANSWER, &to_front, sizeof to_front);
	} else if (asker->who == ASKER_CONTROL) {
		control_wish_done(parent->control, asker->ticket, verdict->status == 200, verdict->text);
	}
	asker->who = ASKER_NONE;
}

/* --- the list --------------------------------------------------------------------------------- */

static struct parent_adapter *find_name(const struct parent *parent, const char *name, enum adapter_state from,
					enum adapter_state to)
{
	for (struct parent_adapter *a = parent->adapters; a; a = a->next)
		if (a->state >= from && a->state <= to && !strcmp(a->name, name))
			return a;
	return NULL;
}

static struct parent_adapter *find_id(const struct parent *parent, uint32_t id)
{
	struct parent_adapter *a = parent->adapters;
	while (a && a->id != id)
		a = a->next;
	return a;
}

static uint32_t count(const struct parent *parent, bool retired)
{
	uint32_t n = 0;
	for (const struct parent_adapter *a = parent->adapters; a; a = a->next)
		n += (a->state == ADAPTER_RETIRED) == retired;
	return n;
}

static struct parent_adapter *add(struct parent *parent, const char *name, const char *path, uint32_t model)
{
	size_t n = (size_t)idset_count(&parent->plan.copy_nodes);
	struct parent_adapter *adapter = calloc(1, sizeof *adapter + n * sizeof *adapter->copies);
	struct parent_adapter **end = &parent->adapters;
	if (!adapter)
		return NULL;
	while (*end)
		end = &(*end)->next;
	*end = adapter;
	/* 1 is the generation of models; after four billion loads the daemon wants a restart. */
	adapter->id = parent->adapter_id = parent->adapter_id ? parent->adapter_id + 1 : PARENT_GENERATION + 1;
	snprintf(adapter->name, sizeof adapter->name, "%s", name);
	snprintf(adapter->path, sizeof adapter->path, "%s", path);
	adapter->model = model;
	return adapter;
}

/* Of which nothing is left elsewhere. */
static void forget(struct parent *parent, struct parent_adapter *adapter)
{
	struct parent_adapter **at = &parent->adapters;
	while (*at != adapter)
		at = &(*at)->next;
	*at = adapter->next;
	if (parent->adapter_loads == adapter)
		parent->adapter_loads = NULL; /* what its loader still says is for nobody */
	adapter_files_close(&adapter->files);
	free(adapter);
}

/* --- workers ---------------------------------------------------------------------------------- */

static bool is_of(const struct parent_worker *worker, const struct parent_adapter *adapter)
{
	return worker->model == adapter->model && worker->child.pid && worker->child.fd >= 0;
}

/* A worker that does not take a message in is of no use. */
static void tell_worker(const struct parent_worker *worker, enum message_type type, uint32_t id, const int *fd)
{
	struct message_adapter message = {id};
	int rc = message_send(worker->child.fd, type, &message, sizeof message, fd, fd ? 1 : 0);
	if (!rc || worker->child.hung)
		return;
	log_error("%s does not take its messages (%s) and is replaced", worker->child.name, strerror(-rc));
	kill(worker->child.pid, SIGKILL);
}

static void give(const struct parent_adapter *adapter, const struct parent_worker *worker)
{
	for (uint32_t i = 0; i < adapter->n_copies; i++)
		if (adapter->copies[i].segment.node == worker->plan.copy_node)
			tell_worker(worker, MESSAGE_ADAPTER, adapter->id, &adapter->copies[i].fd);
}

/* Workers let go of it, and so do we. */
static void drop(struct parent *parent, struct parent_adapter *adapter)
{
	for (uint32_t i = 0; i < parent->n_workers && adapter->n_copies; i++)
		if (is_of(&parent->workers[i], adapter))
			tell_worker(&parent->workers[i], MESSAGE_ADAPTER_DROP, adapter->id, NULL);
	adapter_drop_copies(parent, adapter);
	forget(parent, adapter);
}

/* --- standing --------------------------------------------------------------------------------- */

static void introduce(struct parent *parent, const struct parent_adapter *adapter)
{
	struct message_adapter_up up;
	memset(&up, 0, sizeof up);
	up.id = adapter->id;
	snprintf(up.name, sizeof up.name, "%s", adapter->name);
	snprintf(up.model, sizeof up.model, "%s", parent->models[adapter->model].config->name);
	snprintf(up.path, sizeof up.path, "%s", adapter->path);
	up.created = adapter->created;
	front_tell(parent, MESSAGE_ADAPTER_UP, &up, sizeof up);
}

/* No new calls; without a front there are no old ones either. */
static void retire(struct parent *parent, struct parent_adapter *adapter)
{
	struct message_adapter down = {adapter->id};
	adapter->state = ADAPTER_RETIRED;
	if (parent->front.pid)
		front_tell(parent, MESSAGE_ADAPTER_DOWN, &down, sizeof down);
	else
		drop(parent, adapter);
}

/* What a change of the settings' adapters changes for others. */
static void tell_all(struct parent *parent)
{
	front_tell_state(parent);
	parent_announce(parent);
}

static void serve(struct parent *parent, struct parent_adapter *adapter)
{
	struct parent_adapter *old = find_name(parent, adapter->name, ADAPTER_SERVED, ADAPTER_SERVED);
	struct parent_adapter *failed = find_name(parent, adapter->name, ADAPTER_FAILED, ADAPTER_FAILED);
	char text[256];
	adapter->state = ADAPTER_SERVED;
	adapter->created = (uint64_t)time(NULL);
	snprintf(text, sizeof text, "adapter '%.60s' of model '%.60s' is served, %.1f MiB on each of %u node%s",
		 adapter->name, parent->models[adapter->model].config->name,
		 (double)adapter->copies[0].segment.report.total_bytes / (1 << 20), adapter->n_copies,
		 adapter->n_copies == 1 ? "" : "s");
	log_info("%s", text);
	introduce(parent, adapter);
	if (old)
		retire(parent, old); /* the front has already put the new one in its place */
	if (failed)
		forget(parent, failed);
	answer(parent, &adapter->asker, &(struct verdict){.status = 200, .text = text});
	tell_all(parent);
}

/* Served as soon as every worker that takes calls has it, and one does. */
static void try_serve(struct parent *parent, struct parent_adapter *adapter)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < parent->n_workers; i++) {
		const struct parent_worker *worker = &parent->workers[i];
		if (worker->model != adapter->model || !worker->ready)
			continue;
		if (!adapter->attached[i])
			return;
		n++;
	}
	if (n)
		serve(parent, adapter);
}

void adapters_loaded(struct parent *parent, struct parent_adapter *adapter)
{
	adapter->state = ADAPTER_SPREADING;
	for (uint32_t i = 0; i < parent->n_workers; i++)
		if (is_of(&parent->workers[i], adapter))
			give(adapter, &parent->workers[i]);
}

void adapters_fail(struct parent *parent, struct parent_adapter *adapter, int status, const char *text)
{
	log_line(adapter->configured ? LOG_LEVEL_ERROR : LOG_LEVEL_WARNING, "adapter '%s': %s", adapter->name, text);
	answer(parent, &adapter->asker,
	       &(struct verdict){.status = (uint32_t)status,
				 .param = status < 500 ? "lora_path" : NULL,
				 .code = "adapter_not_loaded",
				 .text = text});
	if (!adapter->configured) {
		drop(parent, adapter);
		return;
	}
	for (uint32_t i = 0; i < parent->n_workers && adapter->n_copies; i++)
		if (is_of(&parent->workers[i], adapter))
			tell_worker(&parent->workers[i], MESSAGE_ADAPTER_DROP, adapter->id, NULL);
	adapter_drop_copies(parent, adapter);
	adapter->state = ADAPTER_FAILED;
	snprintf(adapter->fault, sizeof adapter->fault, "%.255s", text);
	tell_all(parent);
}

/* --- events ----------------------------------------------------------------------------------- */

void adapters_worker_started(struct parent *parent, const struct parent_worker *worker)
{
	for (struct parent_adapter *a = parent->adapters; a; a = a->next)
		if ((a->state == ADAPTER_SPREADING || a->state == ADAPTER_SERVED) && is_of(worker, a))
			give(a, worker);
}

bool adapters_complete(const struct parent *parent, const struct parent_worker *worker)
{
	for (const struct parent_adapter *a = parent->adapters; a; a = a->next)
		if (a->state == ADAPTER_SERVED && a->model == worker->model && !a->attached[worker - parent->workers])
			return false;
	return true;
}

/* Those on their way to workers may now be complete: one less is waited for, or there is one at last. */
void adapters_worker_changed(struct parent *parent, const struct parent_worker *worker)
{
	struct parent_adapter *next;
	for (struct parent_adapter *a = parent->adapters; a; a = next) {
		next = a->next;
		if (!worker->child.pid)
			a->attached[worker - parent->workers] = false;
		if (a->state == ADAPTER_SPREADING && a->model == worker->model)
			try_serve(parent, a);
	}
}

static void on_attached(struct parent *parent, struct parent_worker *worker, struct parent_adapter *adapter)
{
	adapter->attached[worker - parent->workers] = true;
	if (!worker->ready)
		worker_try_ready(parent, worker);
	else if (adapter->state == ADAPTER_SPREADING)
		try_serve(parent, adapter);
}

/* A load fails by it. A worker that can't have what others serve is none. */
static void on_not_attached(struct parent *parent, struct parent_worker *worker, struct parent_adapter *adapter,
			    const struct err *why)
{
	char text[256];
	snprintf(text, sizeof text, "%s: %.200s", worker->child.name, why->text);
	if (adapter->state == ADAPTER_SPREADING) {
		adapters_fail(parent, adapter, 500, text);
	} else if (adapter->state == ADAPTER_SERVED) {
		snprintf(worker->fault, sizeof worker->fault, "adapter '%.60s': %.180s", adapter->name, why->text);
		kill(worker->child.pid, SIGKILL);
	}
}

void adapters_worker_message(struct parent *parent, struct parent_worker *worker, struct message *message)
{
	const struct message_adapter *attached = message_payload(message, sizeof *attached, 0);
	const struct message_adapter_not_attached *not = message_payload(message, sizeof *not, 0);
	struct parent_adapter *adapter = attached ? find_id(parent, attached->id)
					 : not	  ? find_id(parent, not ->id)
						  : NULL;
	if (!adapter || adapter->model != worker->model)
		return; /* it was dropped meanwhile */
	if (attached && message->type == MESSAGE_ADAPTER_ATTACHED)
		on_attached(parent, worker, adapter);
	else if (not &&message->type == MESSAGE_ADAPTER_NOT_ATTACHED)
		on_not_attached(parent, worker, adapter, &not ->why);
}

void adapters_introduce(struct parent *parent)
{
	for (const struct parent_adapter *a = parent->adapters; a; a = a->next)
		if (a->state == ADAPTER_SERVED)
			introduce(parent, a);
}

void adapters_idle(struct parent *parent, uint32_t id)
{
	struct parent_adapter *adapter = find_id(parent, id);
	if (!adapter || adapter->state != ADAPTER_RETIRED)
		return;
	drop(parent, adapter);
	front_tell_state(parent);
}

void adapters_front_ended(struct parent *parent)
{
	struct parent_adapter *next;
	for (struct parent_adapter *a = parent->adapters; a; a = next) {
		next = a->next;
		if (a->asker.who == ASKER_FRONT)
			a->asker.who = ASKER_NONE;
		if (a->state == ADAPTER_RETIRED)
			drop(parent, a);
	}
}

/* --- wishes ----------------------------------------------------------------------------------- */

/* The index of the model a wish is for; -1: `verdict` says why not. */
static int find_model(const struct parent *parent, const char *name, struct verdict *verdict)
{
	uint32_t i = 0, n = parent->config.n_models;
	bool several = models_count(parent) > 1;
	while (i < n && (parent->models[i].state == MODEL_NONE ||
			 (*name ? strcmp(parent->config.models[i].name, name) != 0 : several)))
		i++;
	if (i == n && !*name && !several)
		*verdict = (struct verdict){404, "base_model_name", "model_not_found", "there is no model"};
	else if (i == n)
		*verdict = *name ? (struct verdict){404, "base_model_name", "model_not_found",
						    "there is no model of this name"}
				 : (struct verdict){400, "base_model_name", "missing_field",
						    "there are several models: name the one that the adapter is for"};
	else if (parent->models[i].state != MODEL_LOADED)
		*verdict = (struct verdict){503, "base_model_name", "model_loading",
					    "the model is not loaded (yet): try again"};
	else
		return (int)i;
	return -1;
}

static bool name_is_free(const struct parent *parent, const struct message_adapter_request *wish,
			 struct verdict *verdict)
{
	for (uint32_t i = 0; i < parent->config.n_models; i++)
		if (parent->models[i].state != MODEL_NONE && !strcmp(parent->config.models[i].name, wish->name)) {
			*verdict = (struct verdict){409, "lora_name", "name_taken", "a model has this name"};
			return false;
		}
	if (find_name(parent, wish->name, ADAPTER_WAITING, ADAPTER_SPREADING))
		*verdict = (struct verdict){409, "lora_name", "adapter_loading",
					    "an adapter of this name is being loaded"};
	else if (!wish->replace && find_name(parent, wish->name, ADAPTER_SERVED, ADAPTER_SERVED))
		*verdict =
			(struct verdict){409, "lora_name", "name_taken",
					 "an adapter of this name is loaded; load_inplace puts another in its place"};
	else
		return true;
	return false;
}

static bool has_room(const struct parent *parent, const struct message_adapter_request *wish, struct verdict *verdict)
{
	bool replaces = find_name(parent, wish->name, ADAPTER_SERVED, ADAPTER_SERVED) ||
			find_name(parent, wish->name, ADAPTER_FAILED, ADAPTER_FAILED);
	if (count(parent, false) >= parent->config.max_adapters + replaces)
		*verdict = (struct verdict){409, "lora_name", "too_many_adapters",
					    "as many adapters are loaded as max_adapters allows: unload one first"};
	else if (count(parent, true) >= parent->config.max_adapters)
		*verdict = (struct verdict){503, NULL, "adapters_in_use",
					    "too many adapters that were unloaded or replaced are still in use: try "
					    "again when their calls have ended"};
	else
		return true;
	return false;
}

static uint32_t status_of_path(int code)
{
	return code == -ENOENT || code == -ENOTDIR ? 404
	       : code == -EACCES || code == -EPERM ? 403
	       : code == -EIO			   ? 500
						   : 400;
}

static int open_files(const struct parent *parent, const struct message_adapter_request *wish, const char *directory,
		      struct adapter_files *files, struct err *err)
{
	if (wish->wish == ADAPTER_AGAIN)
		return 0;
	return directory ? adapter_files_open_beneath(directory, wish->path, (uid_t)parent->uid, files, err)
			 : adapter_files_open(wish->path, files, err);
}

static void wish_load(struct parent *parent, const struct message_adapter_request *wish, struct adapter_asker *asker,
		      const char *directory)
{
	struct verdict verdict = {0};
	struct adapter_files files = {.n = 0};
	struct err err = {""};
	int model = find_model(parent, wish->model, &verdict);
	if (model < 0 || !name_is_free(parent, wish, &verdict) || !has_room(parent, wish, &verdict)) {
		answer(parent, asker, &verdict);
		return;
	}
	int rc = open_files(parent, wish, directory, &files, &err);
	if (rc) {
		verdict = (struct verdict){status_of_path(rc), "lora_path", "adapter_not_found", err.text};
		answer(parent, asker, &verdict);
		return;
	}
	struct parent_adapter *adapter = add(parent, wish->name, wish->path, (uint32_t)model);
	if (!adapter) {
		adapter_files_close(&files);
		answer(parent, asker, &(struct verdict){503, NULL, NULL, "out of memory"});
		return;
	}
	adapter->files = files;
	adapter->again = wish->wish == ADAPTER_AGAIN;
	adapter->asker = *asker;
	adapter->deadline_ns = clock_now_ns() + ADAPTER_PATIENCE_S * UINT64_C(1000) * CLOCK_MS_NS;
	adapter_load_next(parent, clock_now_ns());
}

static void wish_unload(struct parent *parent, const struct message_adapter_request *wish, struct adapter_asker *asker)
{
	struct parent_adapter *adapter = find_name(parent, wish->name, ADAPTER_SERVED, ADAPTER_FAILED);
	if (adapter && adapter->state == ADAPTER_RETIRED)
		adapter = find_name(parent, wish->name, ADAPTER_FAILED, ADAPTER_FAILED);
	if (!adapter) {
		bool comes = find_name(parent, wish->name, ADAPTER_WAITING, ADAPTER_SPREADING);
		answer(parent, asker,
		       comes ? &(struct verdict){409, "lora_name", "adapter_loading",
						 "an adapter of this name is being loaded"}
			     : &(struct verdict){404, "lora_name", "adapter_not_found",
						 "there is no adapter of this name"});
		return;
	}
	log_info("adapter '%s' is unloaded", adapter->name);
	if (adapter->state == ADAPTER_SERVED)
		retire(parent, adapter);
	else
		forget(parent, adapter);
	answer(parent, asker, &(struct verdict){.status = 200, .text = "unloaded; calls that run with it go on"});
	tell_all(parent);
}

void adapters_wish(struct parent *parent, const struct message_adapter_request *wish, struct adapter_asker asker,
		   const char *directory)
{
	struct err err = {""}, why = {""};
	bool terminated = memchr(wish->name, '\0', sizeof wish->name) &&
			  memchr(wish->model, '\0', sizeof wish->model) && memchr(wish->path, '\0', sizeof wish->path);
	if (!terminated)
		err_set(&err, -EINVAL, "a text without an end");
	else if (config_check_model_name(wish->name, &why))
		err_set(&err, -EINVAL, "the adapter's name %s", why.text);
	if (directory && !directory[0])
		answer(parent, &asker,
		       &(struct verdict){403, NULL, "adapters_not_allowed",
					 "adapters come and go over HTTP only where the key adapter_dir is set"});
	else if (parent->stopping)
		answer(parent, &asker, &(struct verdict){503, NULL, NULL, "the daemon is stopping"});
	else if (err.text[0])
		answer(parent, &asker, &(struct verdict){400, "lora_name", "invalid_value", err.text});
	else if (wish->wish == ADAPTER_LOAD || (wish->wish == ADAPTER_AGAIN && !directory))
		wish_load(parent, wish, &asker, directory);
	else
		wish_unload(parent, wish, &asker);
}

/* --- time ------------------------------------------------------------------------------------- */

void adapters_begin(struct parent *parent)
{
	for (uint32_t i = 0; i < parent->config.n_adapters; i++) {
		const struct config_adapter *config = &parent->config.adapters[i];
		uint32_t model = 0;
		while (model < parent->config.n_models && strcmp(parent->config.models[model].name, config->model))
			model++;
		struct parent_adapter *adapter = add(parent, config->name, config->path, model);
		if (adapter)
			adapter->configured = true;
		else
			log_error("adapter '%s': out of memory", config->name);
	}
}

/* Its segments can be removed only when the loader can't make any more; nobody has to wait for that. */
static void give_up_loading(struct parent *parent, struct parent_adapter *adapter)
{
	snprintf(adapter->fault, sizeof adapter->fault, "it was not loaded in time: try again");
	adapter->fault_code = -ETIMEDOUT;
	adapter->deadline_ns = 0;
	kill(parent->adapter_loader.pid, SIGKILL);
	answer(parent, &adapter->asker, &(struct verdict){503, NULL, "adapter_not_loaded", adapter->fault});
}

/* A load that takes too long, or waits for what will not come. */
static void look_at(struct parent *parent, struct parent_adapter *adapter, uint64_t now_ns)
{
	if (adapter->state > ADAPTER_SPREADING)
		return;
	if (parent->models[adapter->model].state == MODEL_FAILED)
		adapters_fail(parent, adapter, 503, "its model could not be loaded");
	else if (adapter->deadline_ns && now_ns > adapter->deadline_ns && adapter->state == ADAPTER_LOADING)
		give_up_loading(parent, adapter);
	else if (adapter->deadline_ns && now_ns > adapter->deadline_ns)
		adapters_fail(parent, adapter, 503,
			      adapter->state == ADAPTER_SPREADING ? "no worker has attached it in time: try again"
								  : "it was not loaded in time: try again");
}

void adapters_turn(struct parent *parent, uint64_t now_ns)
{
	struct parent_adapter *next;
	for (struct parent_adapter *a = parent->adapters; a; a = next) {
		next = a->next;
		look_at(parent, a, now_ns);
	}
	adapter_load_next(parent, now_ns);
}

bool adapters_come(const struct parent *parent)
{
	const char *why;
	for (const struct parent_adapter *a = parent->adapters; a; a = a->next)
		if (a->configured && a->state <= ADAPTER_SPREADING &&
		    model_standing(parent, a->model, &why) < STANDING_FAILING)
			return true;
	return false;
}

const struct parent_adapter *adapters_failed(const struct parent *parent)
{
	const struct parent_adapter *a = parent->adapters;
	while (a && a->state != ADAPTER_FAILED)
		a = a->next;
	return a;
}

void adapters_leave(struct parent *parent, uint32_t model)
{
	struct parent_adapter *next;
	for (struct parent_adapter *a = parent->adapters; a; a = next) {
		next = a->next;
		if (a->model != model || a->state == ADAPTER_RETIRED || a->state == ADAPTER_LOADING)
			continue;
		if (a->state == ADAPTER_SERVED) {
			retire(parent, a);
			continue;
		}
		answer(parent, &a->asker, &(struct verdict){503, NULL, "model_unloaded", "its model was unloaded"});
		drop(parent, a);
	}
}

void adapters_stop(struct parent *parent)
{
	for (struct parent_adapter *a = parent->adapters; a; a = a->next)
		answer(parent, &a->asker, &(struct verdict){503, NULL, NULL, "the daemon is stopping"});
}

void adapters_close(struct parent *parent)
{
	while (parent->adapters) {
		adapter_drop_copies(parent, parent->adapters);
		forget(parent, parent->adapters);
	}
}
