#include "src/front/metrics.h"

#include <string.h>

#include "src/clock.h"
#include "src/front/front.h"
#include "src/front/metrics_aliases.h"
#include "src/front/metrics_figures.h"
#include "src/front/metrics_text.h"

/* Every status the front sends, so that a label can't grow without bound; 0 stands for any other. */
static const int codes[METRICS_CODES] = {200, 204, 304, 400, 401, 403, 404, 405, 408, 409, 413,
					 414, 417, 429, 431, 500, 501, 502, 503, 505, 0};

static const char *const path_of[N_ROUTES] = {
	[ROUTE_CHAT] = "/v1/chat/completions",
	[ROUTE_COMPLETIONS] = "/v1/completions",
	[ROUTE_EMBEDDINGS] = "/v1/embeddings",
	[ROUTE_RESPONSES] = "/v1/responses",
	[ROUTE_TOKENIZE] = "/tokenize",
	[ROUTE_DETOKENIZE] = "/detokenize",
	[ROUTE_TEMPLATE] = "/apply-template",
	[ROUTE_MODELS] = "/v1/models",
	[ROUTE_MODEL] = "/v1/models/{model}",
	[ROUTE_DASHBOARD] = "/",
	[ROUTE_STATUS] = "/v1/status",
	[ROUTE_HEALTH] = "/health",
	[ROUTE_METRICS] = "/metrics",
	[ROUTE_TRANSCRIPTIONS] = "/v1/audio/transcriptions",
	[ROUTE_TRANSLATIONS] = "/v1/audio/translations",
	[ROUTE_OTHER] = "other",
	[ROUTE_LOAD_ADAPTER] = "/v1/load_lora_adapter",
	[ROUTE_UNLOAD_ADAPTER] = "/v1/unload_lora_adapter",
};

void metrics_request(struct front *front, enum front_route route, int status)
{
	unsigned i = 0;
	while (codes[i] && codes[i] != status)
		i++;
	front->metrics.requests[route][i]++;
	pulse_answer(front->pulse);
}

static void write_requests(const struct front_metrics *metrics, struct api_json *out)
{
	metrics_text_family(out, "weightd_requests_total", "counter", "Answered HTTP requests.");
	for (int route = 0; route < N_ROUTES; route++) {
		for (int i = 0; i < METRICS_CODES; i++) {
			if (!metrics->requests[route][i])
				continue;
			api_json_format(out, "weightd_requests_total{path=\"%s\",code=\"", path_of[route]);
			api_json_format(out, codes[i] ? "%d" : "other", codes[i]);
			api_json_format(out, "\"} %llu\n", (unsigned long long)metrics->requests[route][i]);
		}
	}
}

/* The counters each worker publishes. */
static const struct worker_metric {
	const char *name, *type, *help;
	size_t offset;
} worker_metrics[] = {
#define COUNTER(field) offsetof(struct worker_counters, field)
	{"weightd_worker_ready", "gauge", "1: the worker serves.", COUNTER(ready)},
	{"weightd_calls_running", "gauge", "Calls in the worker's batch.", COUNTER(running)},
	{"weightd_calls_waiting", "gauge", "Calls of the worker that wait for memory or for a place in its batch.",
	 COUNTER(waiting)},
	{"weightd_calls_total", "counter", "Calls ended, for any reason.", COUNTER(calls)},
	{"weightd_calls_cancelled_total", "counter", "Calls ended because their client went away.", COUNTER(cancelled)},
	{"weightd_calls_failed_total", "counter", "Calls ended by an error.", COUNTER(failed)},
	{"weightd_steps_total", "counter", "Forward passes.", COUNTER(steps)},
	{"weightd_weight_products_total", "counter", "Products of a weight matrix with a batch of rows.",
	 COUNTER(weight_products)},
	{"weightd_kv_pages", "gauge", "KV cache pages the worker may use.", COUNTER(kv_pages)},
	{"weightd_kv_pages_used", "gauge", "KV cache pages held by calls or the prefix cache, each counted once.",
	 COUNTER(kv_pages_used)},
	{"weightd_evicted_total", "counter", "Times a call gave its KV pages up to others, to be resumed later.",
	 COUNTER(evicted)},
	{"weightd_replayed_tokens_total", "counter", "Tokens computed again to resume evicted calls.",
	 COUNTER(replayed_tokens)},
	{"weightd_prefix_bytes", "gauge", "Bytes of KV pages in the prefix cache.", COUNTER(prefix_bytes)},
	{"weightd_prefix_tokens_total", "counter", "Prompt tokens not computed because the prefix cache had them.",
	 COUNTER(prefix_tokens)},
	{"weightd_arena_bytes", "gauge", "Call memory committed now.", COUNTER(arena_bytes)},
	{"weightd_arena_peak_bytes", "gauge", "High-water mark of call memory.", COUNTER(arena_peak_bytes)},
	{"weightd_weights_locked", "gauge", "1: the weights are locked in memory.", COUNTER(locked)},
};

static void write_worker_metric(struct fleet *fleet, const struct worker_metric *metric, struct api_json *out)
{
	metrics_text_family(out, metric->name, metric->type, metric->help);
	for (struct front_worker *w = fleet->workers; w; w = w->next) {
		const char *counters = (const char *)channel_counters(&w->peer.channel);
		uint64_t value =
			worker_count((const uint64_t *)(counters + metric->offset)); /* all of them are uint64_t */
		api_json_format(out, "%s{worker=\"%u\",node=\"%u\",model=\"", metric->name, w->index, w->node);
		metrics_text_label(out, w->model->name);
		api_json_format(out, "\"} %llu\n", (unsigned long long)value);
	}
}

/* What the front knows of a worker, and the worker does not: calls and prompts on their way to it. */
static void write_queues(const struct fleet *fleet, struct api_json *out)
{
	metrics_text_family(out, "weightd_calls_assigned", "gauge",
			    "Calls given to the worker and not ended: its queue and its batch together.");
	for (const struct front_worker *w = fleet->workers; w; w = w->next) {
		api_json_format(out, "weightd_calls_assigned{worker=\"%u\",node=\"%u\",model=\"", w->index, w->node);
		metrics_text_label(out, w->model->name);
		api_json_format(out, "\"} %u\n", w->n_calls);
	}
	metrics_text_family(out, "weightd_waiting_prompt_bytes", "gauge",
			    "Bytes of the worker's prompts that have shown no token yet.");
	for (const struct front_worker *w = fleet->workers; w; w = w->next) {
		api_json_format(out, "weightd_waiting_prompt_bytes{worker=\"%u\",node=\"%u\",model=\"", w->index,
				w->node);
		metrics_text_label(out, w->model->name);
		api_json_format(out, "\"} %llu\n", (unsigned long long)w->waiting_bytes);
	}
}

static void write_connections(const struct front *front, struct api_json *out)
{
	const struct connection_counts *counts = &front->connections.counts;
	const struct {
		const char *reason;
		uint64_t n;
	} ends[] = {{"idle", counts->idle},
		    {"made_room", counts->made_room},
		    {"slow_request", counts->slow_request},
		    {"slow_reader", counts->slow_reader}};
	metrics_text_single(out, "weightd_connections", "gauge", "Open client connections.", front->connections.n);
	metrics_text_single(out, "weightd_connections_max", "gauge", "Client connections open at a time, at most.",
			    front->order.max_connections);
	metrics_text_single(out, "weightd_connections_total", "counter", "Client connections accepted.",
			    counts->opened);
	metrics_text_family(out, "weightd_connections_ended_total", "counter",
			    "Connections the front ended for want of their clients.");
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		api_json_format(out, "weightd_connections_ended_total{reason=\"%s\"} %llu\n", ends[i].reason,
				(unsigned long long)ends[i].n);
	metrics_text_single(out, "weightd_received_bytes_total", "counter", "Bytes received from clients.",
			    counts->received_bytes);
	metrics_text_single(out, "weightd_sent_bytes_total", "counter", "Bytes sent to clients.", counts->sent_bytes);
}

static void write_weights(const struct message_state *state, struct api_json *out)
{
	metrics_text_family(out, "weightd_weight_bytes", "gauge", "Bytes of shared weights on the node.");
	for (uint32_t i = 0; i < state->n_nodes; i++)
		api_json_format(out, "weightd_weight_bytes{node=\"%u\"} %llu\n", state->node[i],
				(unsigned long long)state->weight_bytes[i]);
}

/* One series for each adapter that can be named, so that labels are as many as max_adapters allows. A name keeps its
 * count when its bytes are replaced, and loses it when it is unloaded. */
static void write_adapters(const struct front *front, struct api_json *out)
{
	const struct fleet *fleet = &front->fleet;
	metrics_text_family(out, "weightd_adapters", "gauge", "Adapters that calls can name.");
	for (uint32_t i = 0; i < fleet->n_models; i++) {
		if (!fleet_has(fleet, i))
			continue;
		unsigned n = 0;
		for (const struct front_adapter *a = front->roster.first; a; a = a->next)
			n += !a->retired && !strcmp(a->is.model, fleet->model[i].name);
		api_json_text(out, "weightd_adapters{model=\"");
		metrics_text_label(out, fleet->model[i].name);
		api_json_format(out, "\"} %u\n", n);
	}
	metrics_text_family(out, "weightd_adapter_calls_total", "counter", "Calls made with the adapter.");
	for (const struct front_adapter *a = front->roster.first; a; a = a->next) {
		if (a->retired)
			continue;
		api_json_text(out, "weightd_adapter_calls_total{model=\"");
		metrics_text_label(out, a->is.model);
		api_json_text(out, "\",adapter=\"");
		metrics_text_label(out, a->is.name);
		api_json_format(out, "\"} %llu\n", (unsigned long long)a->n_total);
	}
}

/* One sample for each word, as for health; and one for each refused call. */
static void write_placement(const struct message_state *state, struct api_json *out)
{
	static const char *const words[] = {"verified", "unverified", "misplaced"};
	metrics_text_family(out, "weightd_placement", "gauge",
			    "1: what is known of where all weights are, as in /health.");
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		api_json_format(out, "weightd_placement{placement=\"%s\"} %d\n", words[i],
				!strncmp(state->placement, words[i], sizeof state->placement));
	metrics_text_family(out, "weightd_numa_refused", "gauge",
			    "1: the call was refused with this error, so placement is unverified.");
	for (unsigned call = 0; call < N_NUMA_CALLS; call++)
		if (state->refused.error[call])
			api_json_format(out, "weightd_numa_refused{call=\"%s\",error=\"%s\"} 1\n", numa_call_name(call),
					refusal_error_name(state->refused.error[call]));
}

void metrics_write(struct front *front, struct api_json *out)
{
	const struct front_metrics *metrics = &front->metrics;
	metrics_text_family(out, "weightd_build_info", "gauge", "1; the labels say what is running.");
	api_json_format(out, "weightd_build_info{version=\"%s\",io=\"%s\"} 1\n", PACKAGE_VERSION,
			loop_backend(front->loop) == IO_URING ? "uring" : "epoll");
	write_requests(metrics, out);
	metrics_text_single(out, "weightd_stream_errors_total", "counter", "Streams that ended with an error event.",
			    metrics->stream_errors);
	metrics_text_single(out, "weightd_clients_gone_total", "counter",
			    "Clients that left before their answer ended.", metrics->clients_gone);
	write_connections(front, out);
	metrics_text_single(out, "weightd_calls_in_flight", "gauge",
			    "Calls given to workers and not ended; max_queue bounds them.", front->calls.n);
	metrics_text_single(out, "weightd_calls_max", "gauge", "Calls in flight at a time, at most (max_queue).",
			    front->order.max_queue);
	metrics_text_single(out, "weightd_queue_full_total", "counter",
			    "Requests refused with 429 because max_queue was reached.", metrics->queue_full);
	write_queues(&front->fleet, out);
	metrics_model_write(&front->fleet, out);
	for (size_t i = 0; i < sizeof worker_metrics / sizeof *worker_metrics; i++)
		write_worker_metric(&front->fleet, &worker_metrics[i], out);
	write_adapters(front, out);
	write_weights(&front->state, out);
	write_placement(&front->state, out);
	metrics_text_single(out, "weightd_worker_restarts_total", "counter",
			    "Workers replaced since the daemon started.", front->state.worker_restarts);
	if (front->has_figures)
		metrics_figures_write(&front->figures, clock_now_ns(), out);
	if (front->order.metrics_aliases)
		metrics_aliases_write(&front->fleet, out);
}
