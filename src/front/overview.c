#include "src/front/overview.h"

#include <string.h>

#include "src/clock.h"
#include "src/front/front.h"
#include "src/front/reply.h"
#include "src/front/status.h"

typedef unsigned long long ull;

bool overview_valid(const struct message_overview *o)
{
	if (o->n_models > OVERVIEW_MODELS_MAX || o->n_copies > OVERVIEW_COPIES_MAX ||
	    o->n_workers > OVERVIEW_WORKERS_MAX)
		return false;
	for (uint32_t i = 0; i < o->n_copies; i++)
		if (o->copy[i].model >= o->n_models)
			return false;
	for (uint32_t i = 0; i < o->n_workers; i++)
		if (o->worker[i].is_there && o->worker[i].model >= o->n_models)
			return false;
	return true;
}

/* `"key":"text",`, of a field [size]. */
static void member(struct api_json *out, const char *key, const char *text, size_t size)
{
	api_json_format(out, "\"%s\":", key);
	api_json_string(out, text, strnlen(text, size));
	api_json_text(out, ",");
}

#define MEMBER(out, key, array) member(out, key, array, sizeof(array))

/* Lists are written with a comma behind each of their members; the last one goes. */
static void end_list(struct api_json *out, char bracket)
{
	if (out->n && out->bytes[out->n - 1] == ',')
		out->n--;
	api_json_format(out, "%c,", bracket);
}

/* --- models and adapters ---------------------------------------------------------------------- */

static void write_load(const struct overview_model *model, struct api_json *out)
{
	if (model->total_bytes)
		api_json_format(out, "\"loaded_bytes\":%llu,\"file_bytes\":%llu,", (ull)model->done_bytes,
				(ull)model->total_bytes);
	if (model->next_generation) {
		api_json_format(out, "\"change\":{\"generation\":%u,", model->next_generation);
		MEMBER(out, "state", model->change);
		end_list(out, '}');
	}
}

static void write_models(struct front *front, struct api_json *out)
{
	static const char *const standing[] = {"loading", "served", "failing", "failed"}; /* enum model_standing */
	const struct message_overview *o = &front->overview;
	api_json_text(out, "\"models\":[");
	for (uint32_t i = 0; i < o->n_models; i++) {
		const struct overview_model *model = &o->model[i];
		size_t n = strnlen(model->name, sizeof model->name);
		const struct fleet_model *fleet = n ? fleet_find_model(&front->fleet, model->name, n) : NULL;
		if (!n) /* the place is free */
			continue;
		api_json_text(out, "{");
		MEMBER(out, "name", model->name);
		member(out, "standing", model->standing <= STANDING_FAILED ? standing[model->standing] : "failed", 16);
		if (model->architecture[0])
			MEMBER(out, "architecture", model->architecture);
		if (model->generation)
			api_json_format(out, "\"generation\":%u,", model->generation);
		write_load(model, out);
		if (fleet)
			api_json_format(out, "\"context_tokens\":%u,\"prompt_tokens\":%llu,\"generated_tokens\":%llu,",
					fleet->context_tokens, (ull)fleet->metrics.prompt_tokens,
					(ull)fleet->metrics.generated_tokens);
		end_list(out, '}');
	}
	end_list(out, ']');
}

static void write_adapters(const struct front *front, struct api_json *out)
{
	api_json_text(out, "\"adapters\":[");
	for (const struct front_adapter *a = front->roster.first; a; a = a->next) {
		if (a->retired)
			continue;
		api_json_format(out, "{\"id\":%u,", a->is.id);
		MEMBER(out, "name", a->is.name);
		MEMBER(out, "model", a->is.model);
		api_json_format(out, "\"calls\":%llu},", (ull)a->n_total);
	}
	end_list(out, ']');
}

/* --- nodes and copies ------------------------------------------------------------------------- */

static void write_nodes(const struct message_figures *figures, uint64_t now_ns, struct api_json *out)
{
	api_json_text(out, "\"nodes\":[");
	for (uint32_t i = 0; i < figures->n_nodes; i++) {
		const struct figures_node *node = &figures->node[i];
		api_json_format(out, "{\"node\":%u,\"n_copies\":%u,", node->node, node->n_copies);
		if (node->counted)
			api_json_format(out, "\"memory_bytes\":%llu,\"free_bytes\":%llu,",
					(ull)node->counters.total_bytes, (ull)node->counters.free_bytes);
		if (node->n_copies)
			api_json_format(
				out, "\"unlocked_bytes\":%llu,\"checked_ms_ago\":%llu,", (ull)node->unlocked_bytes,
				now_ns > node->checked_ns ? (ull)((now_ns - node->checked_ns) / CLOCK_MS_NS) : 0);
		end_list(out, '}');
	}
	end_list(out, ']');
}

static void write_copies(const struct message_overview *o, struct api_json *out)
{
	api_json_text(out, "\"copies\":[");
	for (uint32_t i = 0; i < o->n_copies; i++) {
		const struct overview_copy *copy = &o->copy[i];
		api_json_format(out, "{\"node\":%u,\"n_nodes\":%u,", copy->node, copy->n_nodes);
		MEMBER(out, "model", o->model[copy->model].name);
		if (copy->adapter)
			api_json_format(out, "\"adapter\":%u,", copy->adapter);
		else
			api_json_format(out, "\"generation\":%u,", copy->generation);
		api_json_format(out, "\"small_bytes\":%llu,\"huge_bytes\":%llu,\"giant_bytes\":%llu,",
				(ull)copy->small_bytes, (ull)copy->huge_bytes, (ull)copy->giant_bytes);
		api_json_format(out, "\"pages\":%llu,\"misplaced\":%llu,\"state\":\"%s\"},", (ull)copy->pages,
				(ull)copy->misplaced,
				copy->degraded	 ? "degraded"
				: copy->verified ? "verified"
						 : "unverified");
	}
	end_list(out, ']');
	api_json_format(out, "\"copies_left_out\":%u,", o->n_copies_more);
}

/* --- workers ---------------------------------------------------------------------------------- */

static struct front_worker *find_worker(const struct fleet *fleet, uint32_t index)
{
	struct front_worker *worker = fleet->workers;
	while (worker && worker->index != index)
		worker = worker->next;
	return worker;
}

/* What it counts itself. */
static void write_counters(struct front_worker *worker, struct api_json *out)
{
	const struct worker_counters *c = channel_counters(&worker->peer.channel);
	const struct {
		const char *key;
		const uint64_t *counter;
	} all[] = {{"running", &c->running},
		   {"waiting", &c->waiting},
		   {"calls", &c->calls},
		   {"prompt_tokens", &c->prompt_tokens},
		   {"generated_tokens", &c->generated_tokens},
		   {"kv_pages", &c->kv_pages},
		   {"kv_pages_used", &c->kv_pages_used},
		   {"locked", &c->locked}};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		api_json_format(out, "\"%s\":%llu,", all[i].key, (ull)worker_count(all[i].counter));
}

static void write_memory(struct api_json *out, uint64_t bytes, uint64_t peak_bytes)
{
	api_json_format(out, "\"private_bytes\":%llu,\"private_peak_bytes\":%llu,", (ull)bytes, (ull)peak_bytes);
}

static void write_workers(const struct front *front, struct api_json *out)
{
	const struct message_overview *o = &front->overview;
	const struct message_figures *figures = &front->figures;
	api_json_text(out, "\"workers\":[");
	for (uint32_t i = 0; i < o->n_workers; i++) {
		const struct overview_worker *is = &o->worker[i];
		struct front_worker *worker = find_worker(&front->fleet, i);
		if (!is->is_there)
			continue;
		api_json_format(out, "{\"index\":%u,\"node\":%u,\"copy_node\":%u,", i, is->node, is->copy_node);
		MEMBER(out, "cpus", is->cpus);
		MEMBER(out, "model", o->model[is->model].name);
		MEMBER(out, "state", is->state);
		api_json_format(out, "\"generation\":%u,\"restarts\":%u,\"restart_in_ms\":%u,\"shared_bytes\":%llu,",
				is->generation, is->restarts, is->restart_in_ms, (ull)is->shared_bytes);
		if (i < figures->n_workers) {
			write_memory(out, figures->worker_private_bytes[i], figures->worker_private_peak_bytes[i]);
			api_json_format(out, "\"cpu_ms\":%llu,\"cpus_gone\":%u,",
					(ull)(figures->worker_cpu_ns[i] / CLOCK_MS_NS), figures->worker_cpus_gone[i]);
		}
		if (worker)
			write_counters(worker, out);
		end_list(out, '}');
	}
	end_list(out, ']');
}

/* --- all of it -------------------------------------------------------------------------------- */

static void write_processes(const struct message_figures *figures, struct api_json *out)
{
	api_json_text(out, "\"front\":{");
	write_memory(out, figures->front_private_bytes, figures->front_private_peak_bytes);
	api_json_format(out, "\"restarts\":%llu},\"parent\":{", (ull)figures->front_restarts);
	write_memory(out, figures->parent_private_bytes, figures->parent_private_peak_bytes);
	end_list(out, '}');
}

void overview_answer(struct front *front, struct connection *connection, enum front_route route)
{
	struct api_json *out = &front->scratch;
	uint64_t now_ns = clock_now_ns();
	api_json_reset(out);
	api_json_text(out, "{\"object\":\"status\",");
	member(out, "version", PACKAGE_VERSION, sizeof PACKAGE_VERSION);
	/* Both on one clock, which only grows: rates are differences of counters by differences of this. */
	api_json_format(out, "\"now_ms\":%llu,", (ull)(now_ns / CLOCK_MS_NS));
	if (front->has_overview)
		api_json_format(out, "\"told_ms_ago\":%llu,\"uptime_s\":%llu,",
				(ull)((now_ns - front->told_ns) / CLOCK_MS_NS), (ull)front->overview.uptime_s);
	api_json_text(out, "\"health\":");
	status_write_health(front, out);
	api_json_format(out, ",\"calls_in_flight\":%u,\"calls_max\":%u,\"connections\":%u,\"connections_max\":%u,",
			front->calls.n, front->order.max_queue, front->connections.n, front->order.max_connections);
	api_json_format(out, "\"queue_full\":%llu,\"worker_restarts\":%llu,", (ull)front->metrics.queue_full,
			(ull)front->state.worker_restarts);
	write_models(front, out);
	write_adapters(front, out);
	write_nodes(&front->figures, now_ns, out);
	write_copies(&front->overview, out);
	write_workers(front, out);
	write_processes(&front->figures, out);
	end_list(out, '}');
	if (!out->failed)
		out->n--; /* the comma */
	reply(front, connection, route, 200, NULL, out);
}
