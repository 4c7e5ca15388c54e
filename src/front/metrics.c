#include "src/front/metrics.h"

#include <string.h>

#include "src/front.h"

/* Upper bounds of the histograms' buckets in seconds: from a short answer of a small model to a long one of a large. */
static const double bounds[METRICS_BUCKETS] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
					       2.5,   5,    10,	   20,	 40,  80,   160, 320};

/* Every status the front sends, so that a label can't grow without bound; 0 stands for any other. */
static const int codes[METRICS_CODES] = {200, 400, 404, 405, 408, 413, 414, 417, 429, 431, 500, 501, 502, 503, 505, 0};

static const char *const path_of[N_ROUTES] = {
	[ROUTE_CHAT] = "/v1/chat/completions", [ROUTE_COMPLETIONS] = "/v1/completions",
	[ROUTE_TOKENIZE] = "/tokenize",	       [ROUTE_DETOKENIZE] = "/detokenize",
	[ROUTE_TEMPLATE] = "/apply-template",  [ROUTE_MODELS] = "/v1/models",
	[ROUTE_MODEL] = "/v1/models/{model}",  [ROUTE_HEALTH] = "/health",
	[ROUTE_METRICS] = "/metrics",	       [ROUTE_OTHER] = "other",
};

void metrics_request(struct front *front, enum front_route route, int status)
{
	unsigned i = 0;
	while (codes[i] && codes[i] != status)
		i++;
	front->metrics.requests[route][i]++;
	pulse_answer(front->pulse);
}

void metrics_observe(struct metrics_histogram *histogram, uint64_t ns)
{
	unsigned i = 0;
	while (i < METRICS_BUCKETS && (double)ns > bounds[i] * 1e9)
		i++;
	histogram->bucket[i]++;
	histogram->sum_ns += ns;
}

static void head(struct api_json *out, const char *name, const char *type, const char *help)
{
	api_json_format(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void single(struct api_json *out, const char *name, const char *type, const char *help, uint64_t value)
{
	head(out, name, type, help);
	api_json_format(out, "%s %llu\n", name, (unsigned long long)value);
}

/* A label's value: backslash, quote and newline are escaped, as the format asks. */
static void label_value(struct api_json *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\n')
			api_json_text(out, "\\n");
		else if (*text == '\\' || *text == '"')
			api_json_format(out, "\\%c", *text);
		else
			api_json_raw(out, text, 1);
	}
}

static void write_histogram(struct api_json *out, const char *name, const char *help,
			    const struct metrics_histogram *histogram)
{
	uint64_t n = 0;
	head(out, name, "histogram", help);
	for (int i = 0; i < METRICS_BUCKETS; i++) {
		n += histogram->bucket[i];
		api_json_format(out, "%s_bucket{le=\"%g\"} %llu\n", name, bounds[i], (unsigned long long)n);
	}
	n += histogram->bucket[METRICS_BUCKETS];
	api_json_format(out, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %.9f\n%s_count %llu\n", name, (unsigned long long)n,
			name, (double)histogram->sum_ns / 1e9, name, (unsigned long long)n);
}

static void write_requests(const struct front_metrics *metrics, struct api_json *out)
{
	head(out, "weightd_requests_total", "counter", "Answered HTTP requests.");
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
	head(out, metric->name, metric->type, metric->help);
	for (struct front_worker *w = fleet->workers; w; w = w->next) {
		const char *counters = (const char *)channel_counters(&w->channel);
		uint64_t value =
			worker_count((const uint64_t *)(counters + metric->offset)); /* all of them are uint64_t */
		api_json_format(out, "%s{worker=\"%u\",node=\"%u\",model=\"", metric->name, w->index, w->node);
		label_value(out, w->model->name);
		api_json_format(out, "\"} %llu\n", (unsigned long long)value);
	}
}

/* What the front knows of a worker, and the worker does not: prompts on their way to it. */
static void write_waiting(const struct fleet *fleet, struct api_json *out)
{
	head(out, "weightd_waiting_prompt_bytes", "gauge",
	     "Bytes of the worker's prompts that have shown no token yet.");
	for (const struct front_worker *w = fleet->workers; w; w = w->next) {
		api_json_format(out, "weightd_waiting_prompt_bytes{worker=\"%u\",node=\"%u\",model=\"", w->index,
				w->node);
		label_value(out, w->model->name);
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
	single(out, "weightd_connections", "gauge", "Open client connections.", front->connections.n);
	single(out, "weightd_connections_max", "gauge", "Client connections open at a time, at most.",
	       front->order.max_connections);
	single(out, "weightd_connections_total", "counter", "Client connections accepted.", counts->opened);
	head(out, "weightd_connections_ended_total", "counter",
	     "Connections the front ended for want of their clients.");
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		api_json_format(out, "weightd_connections_ended_total{reason=\"%s\"} %llu\n", ends[i].reason,
				(unsigned long long)ends[i].n);
	single(out, "weightd_received_bytes_total", "counter", "Bytes received from clients.", counts->received_bytes);
	single(out, "weightd_sent_bytes_total", "counter", "Bytes sent to clients.", counts->sent_bytes);
}

static void write_model_tokens(const struct fleet *fleet, const char *name, const char *help, size_t offset,
			       struct api_json *out)
{
	head(out, name, "counter", help);
	for (uint32_t i = 0; i < fleet->n_models; i++) {
		uint64_t value;
		memcpy(&value, (const char *)&fleet->model[i] + offset, sizeof value);
		api_json_format(out, "%s{model=\"", name);
		label_value(out, fleet->model[i].name);
		api_json_format(out, "\"} %llu\n", (unsigned long long)value);
	}
}

static void write_weights(const struct message_state *state, struct api_json *out)
{
	head(out, "weightd_weight_bytes", "gauge", "Bytes of shared weights on the node.");
	for (uint32_t i = 0; i < state->n_nodes; i++)
		api_json_format(out, "weightd_weight_bytes{node=\"%u\"} %llu\n", state->node[i],
				(unsigned long long)state->weight_bytes[i]);
}

void metrics_write(struct front *front, struct api_json *out)
{
	const struct front_metrics *metrics = &front->metrics;
	write_requests(metrics, out);
	single(out, "weightd_stream_errors_total", "counter", "Streams that ended with an error event.",
	       metrics->stream_errors);
	single(out, "weightd_clients_gone_total", "counter", "Clients that left before their answer ended.",
	       metrics->clients_gone);
	write_connections(front, out);
	single(out, "weightd_calls_in_flight", "gauge", "Calls given to workers and not ended; max_queue bounds them.",
	       front->calls.n);
	single(out, "weightd_calls_max", "gauge", "Calls in flight at a time, at most (max_queue).",
	       front->order.max_queue);
	single(out, "weightd_queue_full_total", "counter", "Requests refused with 429 because max_queue was reached.",
	       metrics->queue_full);
	write_waiting(&front->fleet, out);
	write_histogram(out, "weightd_time_to_first_token_seconds",
			"From a whole request to the first token of its answer.", &metrics->first_token);
	write_histogram(out, "weightd_request_duration_seconds",
			"From a whole request for an answer of tokens to its end.", &metrics->duration);
	write_model_tokens(&front->fleet, "weightd_prompt_tokens_total", "Prompt tokens of calls that ended.",
			   offsetof(struct fleet_model, prompt_tokens), out);
	write_model_tokens(&front->fleet, "weightd_generated_tokens_total", "Generated tokens of calls that ended.",
			   offsetof(struct fleet_model, generated_tokens), out);
	for (size_t i = 0; i < sizeof worker_metrics / sizeof *worker_metrics; i++)
		write_worker_metric(&front->fleet, &worker_metrics[i], out);
	write_weights(&front->state, out);
	single(out, "weightd_worker_restarts_total", "counter", "Workers replaced since the daemon started.",
	       front->state.worker_restarts);
}
