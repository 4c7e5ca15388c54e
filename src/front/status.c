#include "src/front/status.h"

#include <string.h>

#include "src/clock.h"
#include "src/front/front.h"
#include "src/front/metrics_text.h"
#include "src/front/reply.h"

/* One entry of the list of models. `root` and `parent` are what vLLM has: a model is its own root; an adapter's is the
 * place it came from, and its parent the model it is for. */
static void write_entry(const char *id, uint64_t created, const char *root, const char *parent, uint32_t context_tokens,
			struct api_json *out)
{
	api_json_text(out, "{\"id\":");
	api_json_string(out, id, strlen(id));
	api_json_format(out, ",\"object\":\"model\",\"created\":%llu,\"owned_by\":\"weightd\",\"root\":",
			(unsigned long long)created);
	api_json_string(out, root, strlen(root));
	api_json_text(out, ",\"parent\":");
	if (parent)
		api_json_string(out, parent, strlen(parent));
	else
		api_json_text(out, "null");
	api_json_format(out, ",\"context_tokens\":%u}", context_tokens);
}

static void write_model(const struct fleet_model *model, struct api_json *out)
{
	write_entry(model->name, model->created, model->name, NULL, model->context_tokens, out);
}

static void write_adapter(struct front *front, const struct front_adapter *adapter, struct api_json *out)
{
	const struct message_adapter_up *is = &adapter->is;
	const struct fleet_model *model = fleet_find_model(&front->fleet, is->model, strlen(is->model));
	write_entry(is->name, is->created, is->path, is->model, model ? model->context_tokens : 0, out);
}

static struct api_json *fresh(struct front *front)
{
	api_json_reset(&front->scratch);
	return &front->scratch;
}

void status_models(struct front *front, struct connection *connection, enum front_route route)
{
	struct api_json *out = fresh(front);
	api_json_text(out, "{\"object\":\"list\",\"data\":[");
	bool any = false;
	for (uint32_t i = 0; i < front->fleet.n_models; i++) {
		if (!fleet_has(&front->fleet, i))
			continue;
		if (any)
			api_json_text(out, ",");
		any = true;
		write_model(&front->fleet.model[i], out);
	}
	/* None is served before its model is. */
	for (const struct front_adapter *a = front->roster.first; a; a = a->next) {
		if (a->retired)
			continue;
		api_json_text(out, ",");
		write_adapter(front, a, out);
	}
	api_json_text(out, "]}");
	reply(front, connection, route, 200, NULL, out);
}

static int hex(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

/* Undoes percent-encoding; what does not fit can't be a model's name. */
static size_t decode(const char *name, char *out, size_t size)
{
	size_t n = 0;
	for (; *name && n < size; n++) {
		int high = name[0] == '%' ? hex(name[1]) : -1, low = high >= 0 ? hex(name[2]) : -1;
		out[n] = low >= 0 ? (char)(high * 16 + low) : *name;
		name += low >= 0 ? 3 : 1;
	}
	return n;
}

/* `name` [n] */
static void answer_model(struct front *front, struct connection *connection, enum front_route route, const char *name,
			 size_t n)
{
	const struct fleet_model *model = fleet_find_model(&front->fleet, name, n);
	const struct front_adapter *adapter = roster_find(&front->roster, name, n);
	if (!model && !adapter) {
		struct api_error error;
		api_error_set(&error, 404, "model_not_found", "model", "there is no model '%.*s' here", (int)n, name);
		reply_error(front, connection, route, &error);
		return;
	}
	struct api_json *out = fresh(front);
	if (model)
		write_model(model, out);
	else
		write_adapter(front, adapter, out);
	reply(front, connection, route, 200, NULL, out);
}

void status_model(struct front *front, struct connection *connection, enum front_route route, const char *name)
{
	answer_model(front, connection, route, name, strlen(name));
}

void status_model_path(struct front *front, struct connection *connection, const char *name)
{
	char decoded[128];
	answer_model(front, connection, ROUTE_MODEL, decoded, decode(name, decoded, sizeof decoded));
}

/* From good to bad. Degraded still serves: slower than it should, as some weights are read from other nodes. */
enum health { HEALTH_OK, HEALTH_DEGRADED, HEALTH_LOADING, HEALTH_STALLED, HEALTH_FAILING, HEALTH_FAILED };
static const char *const health_name[] = {"ok", "degraded", "loading", "stalled", "failing", "failed"};

/* What the parent says of the model, and what its workers show. */
static enum health model_health(struct front *front, const struct message_model *model, uint64_t now_ns)
{
	static const enum health of_fleet[] = {
		[FLEET_OK] = HEALTH_OK, [FLEET_NOT_READY] = HEALTH_LOADING, [FLEET_STALLED] = HEALTH_STALLED};
	const struct fleet_model *fleet =
		fleet_find_model(&front->fleet, model->name, strnlen(model->name, sizeof model->name));
	if (model->standing == STANDING_FAILED)
		return HEALTH_FAILED;
	if (model->standing == STANDING_FAILING)
		return HEALTH_FAILING;
	enum health health = fleet ? of_fleet[fleet_check(&front->fleet, fleet, now_ns)] : HEALTH_LOADING;
	return health == HEALTH_OK && model->degraded ? HEALTH_DEGRADED : health;
}

/* Unverified is no reason not to be asked: answers do not depend on it. */
static void write_placement(const struct message_state *state, struct api_json *out)
{
	char text[REFUSALS_TEXT];
	const char *refused = refusals_format(&state->refused, text, sizeof text);
	api_json_text(out, "],\"placement\":");
	api_json_string(out, state->placement, strnlen(state->placement, sizeof state->placement));
	if (!*refused)
		return;
	api_json_text(out, ",\"refused_calls\":");
	api_json_string(out, refused, strlen(refused));
}

/* The worst of all models decides. */
int status_write_health(struct front *front, struct api_json *out)
{
	enum health health[CONFIG_MODELS_MAX] = {HEALTH_OK}, worst = HEALTH_OK;
	const struct message_state *state = &front->state;
	uint64_t now = clock_now_ns();
	if (!front->has_state || state->n_models == 0)
		worst = HEALTH_LOADING;
	for (uint32_t i = 0; i < state->n_models; i++) {
		health[i] = model_health(front, &state->model[i], now);
		worst = health[i] > worst ? health[i] : worst;
	}
	if (state->adapters_come && worst < HEALTH_LOADING)
		worst = HEALTH_LOADING;
	if (state->adapters_failed)
		worst = HEALTH_FAILED;
	api_json_format(out, "{\"status\":\"%s\",\"models\":[", health_name[worst]);
	for (uint32_t i = 0; i < state->n_models; i++) {
		const struct message_model *model = &state->model[i];
		api_json_text(out, i ? ",{\"id\":" : "{\"id\":");
		api_json_string(out, model->name, strnlen(model->name, sizeof model->name));
		api_json_format(out, ",\"status\":\"%s\"", health_name[health[i]]);
		if (model->why[0]) {
			api_json_text(out, ",\"message\":");
			api_json_string(out, model->why, strnlen(model->why, sizeof model->why));
		}
		api_json_text(out, "}");
	}
	write_placement(state, out);
	api_json_text(out, ",\"message\":");
	api_json_string(out, front->state.text, strnlen(front->state.text, sizeof front->state.text));
	api_json_text(out, "}");
	return worst <= HEALTH_DEGRADED ? 200 : 503;
}

void status_health(struct front *front, struct connection *connection, enum front_route route)
{
	struct api_json *out = fresh(front);
	int status = status_write_health(front, out);
	reply(front, connection, route, status, NULL, out);
}

/* One sample for each word, so that a query finds those that are not ok without knowing the words. */
static void write_health(struct front *front, struct api_json *out)
{
	const struct message_state *state = &front->state;
	uint64_t now = clock_now_ns();
	metrics_text_family(out, "weightd_model_health", "gauge", "1: how the model stands, as in /health.");
	for (uint32_t i = 0; i < state->n_models; i++) {
		enum health is = model_health(front, &state->model[i], now);
		for (enum health health = HEALTH_OK; health <= HEALTH_FAILED; health++) {
			api_json_text(out, "weightd_model_health{model=\"");
			metrics_text_label(out, state->model[i].name);
			api_json_format(out, "\",health=\"%s\"} %d\n", health_name[health], is == health);
		}
	}
}

void status_metrics(struct front *front, struct connection *connection, enum front_route route)
{
	struct api_json *out = fresh(front);
	write_health(front, out);
	metrics_write(front, out);
	reply(front, connection, route, 200, METRICS_TYPE, out);
}
