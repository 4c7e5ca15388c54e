/* What an operator wants of models while the daemon runs: load another, reload one, unload one. Nothing of it is
 * written down: a restart knows the settings' models and no others.
 *
 * A model that was asked for is the asker's alone until it serves: nobody else is told of it, so that a load which
 * takes its time, or fails, does not make the daemon look as if it were not ready. One that is unloaded can't be named
 * by new calls any more; those that run end, with its adapters', and then its workers and copies go and its place is
 * free. */
#include "src/parent/parent_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "src/log.h"
#include "src/parent/control.h"

void wish_answer(struct parent *parent, uint64_t *ticket, bool well, const char *format, ...)
{
	char text[512];
	va_list args;
	if (!*ticket)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	control_wish_done(parent->control, *ticket, well, text);
	*ticket = 0;
}

/* --- models by name --------------------------------------------------------------------------- */

static struct parent_model *find_model(struct parent *parent, const char *name)
{
	for (uint32_t i = 0; i < parent->config.n_models; i++)
		if (parent->models[i].state != MODEL_NONE && !strcmp(parent->config.models[i].name, name))
			return &parent->models[i];
	return NULL;
}

bool model_is_public(const struct parent_model *model)
{
	return model->state < MODEL_UNLOADING && (!model->asked || model->served);
}

uint32_t models_count(const struct parent *parent)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < parent->config.n_models; i++)
		n += parent->models[i].state != MODEL_NONE;
	return n;
}

static struct parent_model *take_place(struct parent *parent)
{
	uint32_t i = 0;
	while (i < parent->config.n_models && parent->models[i].state != MODEL_NONE)
		i++;
	if (i == CONFIG_MODELS_MAX)
		return NULL;
	parent->config.n_models += i == parent->config.n_models;
	return &parent->models[i];
}

/* --- the end of a model ----------------------------------------------------------------------- */

static bool has_adapters(const struct parent *parent, uint32_t model)
{
	const struct parent_adapter *a = parent->adapters;
	while (a && a->model != model)
		a = a->next;
	return a != NULL;
}

static bool has_workers(const struct parent *parent, uint32_t model)
{
	uint32_t i = 0;
	while (i < parent->n_workers && parent->workers[i].model != model)
		i++;
	return i < parent->n_workers;
}

static void leave(struct parent *parent, struct parent_model *model)
{
	models_drop_copies(parent, model);
	log_info("model '%s' is gone", model->config->name);
	parent->config.models[model - parent->models].name[0] = '\0';
	*model = (struct parent_model){.config = model->config, .state = MODEL_NONE};
	front_tell_state(parent);
}

void wishes_turn(struct parent *parent)
{
	for (uint32_t i = 0; i < parent->config.n_models; i++) {
		if (parent->models[i].state != MODEL_UNLOADING)
			continue;
		adapters_leave(parent, i); /* also one that was still being loaded */
		if (!has_adapters(parent, i) && !has_workers(parent, i))
			leave(parent, &parent->models[i]);
	}
}

static void unload(struct parent *parent, struct parent_model *model)
{
	model->state = MODEL_UNLOADING;
	front_tell_state(parent); /* new calls can't name it any more */
	workers_turn(parent, model, &parent->plan.copy_nodes);
	wishes_turn(parent);
}

/* --- load ------------------------------------------------------------------------------------- */

static bool is_adapters_name(const struct parent *parent, const char *name)
{
	const struct parent_adapter *a = parent->adapters;
	while (a && strcmp(a->name, name))
		a = a->next;
	return a != NULL;
}

/* What is wrong with a wish to load; NULL: nothing. */
static const char *refusal(struct parent *parent, const char *name, const char *path)
{
	static char text[256]; /* one thread */
	struct err why;
	if (config_check_model_name(name, &why))
		snprintf(text, sizeof text, "the model's name %.200s", why.text);
	else if (path[0] != '/' || strlen(path) >= CONFIG_PATH)
		snprintf(text, sizeof text, "the path has to be an absolute one of at most %d characters",
			 CONFIG_PATH - 1);
	else if (find_model(parent, name))
		snprintf(text, sizeof text, "there is a model '%s': reload it, or unload it first", name);
	else if (is_adapters_name(parent, name))
		snprintf(text, sizeof text, "an adapter has the name '%s'", name);
	else
		return NULL;
	return text;
}

void wish_load_model(struct parent *parent, const char *name, const char *path, uint64_t ticket)
{
	const char *why = parent->stopping ? "the daemon is stopping" : refusal(parent, name, path);
	struct parent_model *model = why ? NULL : take_place(parent);
	if (!model) {
		wish_answer(parent, &ticket, false, "%s", why ? why : "there are as many models as there can be");
		return;
	}
	struct config_model *config = &parent->config.models[model - parent->models];
	*config = (struct config_model){.pooling = 0};
	snprintf(config->name, sizeof config->name, "%s", name);
	snprintf(config->path, sizeof config->path, "%s", path);
	*model = (struct parent_model){.config = config, .asked = true, .leftovers_done = true};
	model->change.ticket = ticket;
	models_load_next(parent);
}

/* All of its workers take calls. */
void wish_served(struct parent *parent, struct parent_model *model)
{
	uint32_t index = (uint32_t)(model - parent->models);
	if (!model->change.ticket)
		return;
	for (uint32_t i = 0; i < parent->n_workers; i++)
		if (parent->workers[i].model == index && !parent->workers[i].ready)
			return;
	wish_answer(parent, &model->change.ticket, true, "model '%s' is served", model->config->name);
}

/* It was to be served for whoever asked, and can't be: if nothing but the wish has made it, it goes. */
void wish_failed(struct parent *parent, struct parent_model *model, const char *text)
{
	if (!model->change.ticket)
		return;
	wish_answer(parent, &model->change.ticket, false, "model '%s': %s", model->config->name, text);
	if (model->asked && !model->served)
		unload(parent, model);
}

/* --- reload ----------------------------------------------------------------------------------- */

void wish_reload_model(struct parent *parent, const char *name, uint64_t ticket)
{
	struct parent_model *model = find_model(parent, name);
	if (parent->stopping) {
		wish_answer(parent, &ticket, false, "the daemon is stopping");
	} else if (!model) {
		wish_answer(parent, &ticket, false, "there is no model '%s'", name);
	} else if (model->state == MODEL_FAILED) {
		model->state = MODEL_WAITING; /* the first load once more */
		model->load = (struct backoff){0};
		model->change.ticket = ticket;
		models_load_next(parent);
		front_tell_state(parent);
	} else if (model->state != MODEL_LOADED) {
		wish_answer(parent, &ticket, false, "model '%s' is being %s", name,
			    model->state == MODEL_UNLOADING ? "unloaded" : "loaded");
	} else if (generation_begin(parent, model, &parent->plan.copy_nodes, ticket)) {
		models_load_next(parent);
	} else if (model->change.state == CHANGE_LEAVING && !model->change.next) {
		model->change.next = ticket; /* memory is there for two at a time */
	} else {
		wish_answer(parent, &ticket, false, "model '%s' is being reloaded: generation %u comes", name,
			    model->change.generation);
	}
}

/* --- repair ----------------------------------------------------------------------------------- */

static struct idset degraded_nodes(const struct parent_model *model)
{
	struct idset nodes;
	idset_clear(&nodes);
	for (uint32_t i = 0; i < model->n_copies; i++)
		if (copy_is_degraded(&model->copies[i]))
			idset_add(&nodes, model->copies[i].segment.node);
	return nodes;
}

/* All of its copies are made anew: they are small, and take over together, as with any load under its name. */
static void repair_adapter(struct parent *parent, const struct parent_adapter *adapter, uint64_t ticket)
{
	struct message_adapter_request wish;
	uint32_t n_degraded = 0;
	for (uint32_t i = 0; i < adapter->n_copies; i++)
		n_degraded += copy_is_degraded(&adapter->copies[i]);
	if (!n_degraded) {
		wish_answer(parent, &ticket, true, "no page of adapter '%s' is known to be on another node",
			    adapter->name);
		return;
	}
	memset(&wish, 0, sizeof wish);
	wish.wish = ADAPTER_AGAIN;
	wish.replace = 1;
	snprintf(wish.name, sizeof wish.name, "%s", adapter->name);
	snprintf(wish.model, sizeof wish.model, "%s", parent->models[adapter->model].config->name);
	snprintf(wish.path, sizeof wish.path, "%s", adapter->path);
	adapters_wish(parent, &wish, (struct adapter_asker){ASKER_CONTROL, ticket}, NULL);
}

void wish_repair(struct parent *parent, const char *name, uint64_t ticket)
{
	struct parent_model *model = find_model(parent, name);
	const struct parent_adapter *adapter = model ? NULL : adapter_served(parent, name);
	if (adapter && !parent->stopping) {
		repair_adapter(parent, adapter, ticket);
		return;
	}
	if (parent->stopping || !model || model->state != MODEL_LOADED) {
		wish_answer(parent, &ticket, false, "model '%s' is not served", name);
		return;
	}
	struct idset nodes = degraded_nodes(model);
	if (!idset_count(&nodes)) {
		wish_answer(parent, &ticket, true, "no page of model '%s' is known to be on another node", name);
	} else if (generation_begin(parent, model, &nodes, ticket)) {
		model->change.from_memory = true;
		models_load_next(parent);
	} else {
		wish_answer(parent, &ticket, false,
			    "model '%s' changes already: generation %u comes, or calls of the one before it still run",
			    name, model->change.generation);
	}
}

/* --- unload --------------------------------------------------------------------------------- */

void wish_unload_model(struct parent *parent, const char *name, uint64_t ticket)
{
	struct parent_model *model = find_model(parent, name);
	if (parent->stopping)
		wish_answer(parent, &ticket, false, "the daemon is stopping");
	else if (!model)
		wish_answer(parent, &ticket, false, "there is no model '%s'", name);
	else if (model->state == MODEL_UNLOADING)
		wish_answer(parent, &ticket, false, "model '%s' is being unloaded", name);
	else if (model->state < MODEL_LOADED || model->change.state != CHANGE_NONE || model->change.ticket)
		wish_answer(parent, &ticket, false, "model '%s' is being loaded: unload it when that has ended", name);
	else {
		log_info("model '%s' is unloaded", name);
		wish_answer(parent, &ticket, true, "model '%s' is unloaded; calls that run with it go on", name);
		unload(parent, model);
	}
}
