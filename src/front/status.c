#include "src/front/status.h"

#include <string.h>

#include "src/clock.h"
#include "src/front.h"
#include "src/front/reply.h"

static void write_model(const struct fleet_model *model, struct api_json *out)
{
	api_json_text(out, "{\"id\":");
	api_json_string(out, model->name, strlen(model->name));
	api_json_format(out, ",\"object\":\"model\",\"created\":%llu,\"owned_by\":\"weightd\",\"context_tokens\":%u}",
			(unsigned long long)model->created, model->context_tokens);
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
	for (uint32_t i = 0; i < front->fleet.n_models; i++) {
		if (i)
			api_json_text(out, ",");
		write_model(&front->fleet.model[i], out);
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

void status_model(struct front *front, struct connection *connection, const char *name)
{
	char decoded[128];
	size_t n = decode(name, decoded, sizeof decoded);
	const struct fleet_model *model = fleet_find_model(&front->fleet, decoded, n);
	if (!model) {
		struct api_error error;
		api_error_set(&error, 404, "model_not_found", "model", "there is no model '%.*s' here", (int)n,
			      decoded);
		reply_error(front, connection, ROUTE_MODEL, &error);
		return;
	}
	struct api_json *out = fresh(front);
	write_model(model, out);
	reply(front, connection, ROUTE_MODEL, 200, NULL, out);
}

static const char *const health_name[] = {
	[FLEET_OK] = "ok", [FLEET_NOT_READY] = "loading", [FLEET_STALLED] = "stalled"};

/* The worst of all models decides; a model that could not be loaded at all weighs most. */
static const char *overall(struct front *front, const enum fleet_health *health)
{
	enum fleet_health worst = FLEET_OK;
	if (front->has_state && front->state.failed)
		return "failed";
	if (!front->has_state || front->state.loading || front->fleet.n_models == 0)
		worst = FLEET_NOT_READY;
	for (uint32_t i = 0; i < front->fleet.n_models; i++)
		worst = health[i] > worst ? health[i] : worst;
	return health_name[worst];
}

void status_health(struct front *front, struct connection *connection, enum front_route route)
{
	enum fleet_health health[CONFIG_MODELS_MAX] = {FLEET_OK};
	struct api_json *out = fresh(front);
	uint64_t now = clock_now_ns();
	for (uint32_t i = 0; i < front->fleet.n_models; i++)
		health[i] = fleet_check(&front->fleet, &front->fleet.model[i], now);
	const char *status = overall(front, health);
	api_json_format(out, "{\"status\":\"%s\",\"models\":[", status);
	for (uint32_t i = 0; i < front->fleet.n_models; i++) {
		api_json_text(out, i ? ",{\"id\":" : "{\"id\":");
		api_json_string(out, front->fleet.model[i].name, strlen(front->fleet.model[i].name));
		api_json_format(out, ",\"status\":\"%s\"}", health_name[health[i]]);
	}
	api_json_text(out, "],\"message\":");
	api_json_string(out, front->state.text, strnlen(front->state.text, sizeof front->state.text));
	api_json_text(out, "}");
	reply(front, connection, route, strcmp(status, "ok") == 0 ? 200 : 503, NULL, out);
}

void status_metrics(struct front *front, struct connection *connection, enum front_route route)
{
	struct api_json *out = fresh(front);
	metrics_write(front, out);
	reply(front, connection, route, 200, METRICS_TYPE, out);
}
