/* Names, types and labels are those of the programs' own documentation: llama-server has one model and no labels, so
 * its figures are sums over all of ours; vLLM's carry the model's name and the number of its engine, of which there is
 * one here. Where a name has changed there (gpu_cache_usage_perc, time_per_output_token_seconds) both are written,
 * since dashboards of both ages are about. What they have and we do not is left out rather than written as zero. */
#include "src/front/metrics_aliases.h"

#include <stddef.h>

#include "src/front/fleet.h"
#include "src/front/metrics_text.h"

static const struct metrics_style vllm = {"model_name", ",engine=\"0\""};

/* Of one model, or of all, from the counters of its workers. */
struct load {
	uint64_t running, waiting, steps, kv_pages, kv_pages_used, evicted, prompt_tokens, prefix_tokens;
};

static void add_workers(struct fleet *fleet, const struct fleet_model *model, struct load *load)
{
	for (struct front_worker *w = fleet->workers; w; w = w->next) {
		if (w->model != model)
			continue;
		const struct worker_counters *c = channel_counters(&w->peer.channel);
		uint64_t running = worker_count(&c->running);
		load->running += running;
		/* Also those whose prompts are still on their way or becoming tokens. */
		load->waiting += w->n_calls > running ? w->n_calls - running : 0;
		load->steps += worker_count(&c->steps);
		load->kv_pages += worker_count(&c->kv_pages);
		load->kv_pages_used += worker_count(&c->kv_pages_used);
		load->evicted += worker_count(&c->evicted);
		load->prompt_tokens += worker_count(&c->prompt_tokens);
		load->prefix_tokens += worker_count(&c->prefix_tokens);
	}
}

static double ratio(double part, double whole)
{
	return whole > 0 ? part / whole : 0;
}

static void write_llama_server(struct fleet *fleet, struct api_json *out)
{
	struct load load = {0};
	uint64_t prompt_tokens = 0, generated_tokens = 0, prefill_ns = 0, decode_ns = 0;
	for (uint32_t i = 0; i < fleet->n_models; i++) {
		const struct metrics_model *m = &fleet->model[i].metrics;
		add_workers(fleet, &fleet->model[i], &load);
		prompt_tokens += m->prompt_tokens;
		generated_tokens += m->generated_tokens;
		prefill_ns += m->prefill.sum;
		decode_ns += m->gap.sum;
	}
	double prompt_s = (double)prefill_ns / 1e9, predicted_s = (double)decode_ns / 1e9;
	metrics_text_single(out, "llamacpp:prompt_tokens_total", "counter", "Prompt tokens.", prompt_tokens);
	metrics_text_single_f64(out, "llamacpp:prompt_seconds_total", "counter", "Time of calls in prefill.", prompt_s);
	metrics_text_single(out, "llamacpp:tokens_predicted_total", "counter", "Generated tokens.", generated_tokens);
	metrics_text_single_f64(out, "llamacpp:tokens_predicted_seconds_total", "counter", "Time of calls in decode.",
				predicted_s);
	metrics_text_single(out, "llamacpp:n_decode_total", "counter", "Forward passes.", load.steps);
	metrics_text_single_f64(out, "llamacpp:prompt_tokens_seconds", "gauge", "Prompt tokens by second of prefill.",
				ratio((double)prompt_tokens, prompt_s));
	metrics_text_single_f64(out, "llamacpp:predicted_tokens_seconds", "gauge",
				"Generated tokens by second of decode.", ratio((double)generated_tokens, predicted_s));
	metrics_text_single_f64(out, "llamacpp:kv_cache_usage_ratio", "gauge", "Part of the KV pages in use, up to 1.",
				ratio((double)load.kv_pages_used, (double)load.kv_pages));
	metrics_text_single(out, "llamacpp:requests_processing", "gauge", "Calls being computed.", load.running);
	metrics_text_single(out, "llamacpp:requests_deferred", "gauge", "Calls that wait.", load.waiting);
}

enum load_kind { GAUGE, COUNTER, USAGE };

static const struct vllm_load {
	const char *name, *help;
	enum load_kind kind;
	size_t offset;
} vllm_loads[] = {
#define OF(member) offsetof(struct load, member)
	{"vllm:num_requests_running", "Calls being computed.", GAUGE, OF(running)},
	{"vllm:num_requests_waiting", "Calls that wait.", GAUGE, OF(waiting)},
	{"vllm:kv_cache_usage_perc", "Part of the KV pages in use, up to 1.", USAGE, 0},
	{"vllm:gpu_cache_usage_perc", "Part of the KV pages in use, up to 1.", USAGE, 0},
	{"vllm:num_preemptions_total", "Times a call gave its KV pages up to others.", COUNTER, OF(evicted)},
	{"vllm:prefix_cache_queries_total", "Prompt tokens looked for in the prefix cache.", COUNTER,
	 OF(prompt_tokens)},
	{"vllm:prefix_cache_hits_total", "Prompt tokens the prefix cache had.", COUNTER, OF(prefix_tokens)},
#undef OF
};

static void write_vllm_load(const struct fleet *fleet, const struct load *loads, const struct vllm_load *metric,
			    struct api_json *out)
{
	metrics_text_family(out, metric->name, metric->kind == COUNTER ? "counter" : "gauge", metric->help);
	for (uint32_t i = 0; i < fleet->n_models; i++) {
		if (!fleet_has(fleet, i))
			continue;
		const uint64_t *value = (const uint64_t *)((const char *)&loads[i] + metric->offset);
		metrics_model_sample(&vllm, metric->name, fleet->model[i].name, out);
		if (metric->kind == USAGE)
			api_json_format(out, "} %.9g\n",
					ratio((double)loads[i].kv_pages_used, (double)loads[i].kv_pages));
		else
			api_json_format(out, "} %llu\n", (unsigned long long)*value);
	}
}

static void write_vllm(struct fleet *fleet, struct api_json *out)
{
	static const struct {
		const char *name, *help;
		size_t offset;
		enum metrics_unit unit;
	} histograms[] = {
#define OF(member) offsetof(struct metrics_model, member)
		{"vllm:time_to_first_token_seconds", "From a request to its first token.", OF(first_token),
		 METRICS_SECONDS},
		{"vllm:inter_token_latency_seconds", "From one token to the next.", OF(gap), METRICS_SECONDS},
		{"vllm:time_per_output_token_seconds", "From one token to the next.", OF(gap), METRICS_SECONDS},
		{"vllm:request_time_per_output_token_seconds", "Decode by token, of a call.", OF(token_mean),
		 METRICS_SECONDS},
		{"vllm:e2e_request_latency_seconds", "From a request to the end of its answer.", OF(duration),
		 METRICS_SECONDS},
		{"vllm:request_queue_time_seconds", "A call's time before it is computed.", OF(queue), METRICS_SECONDS},
		{"vllm:request_prefill_time_seconds", "A call's time in prefill.", OF(prefill), METRICS_SECONDS},
		{"vllm:request_decode_time_seconds", "A call's time in decode.", OF(decode), METRICS_SECONDS},
		{"vllm:request_inference_time_seconds", "A call's time in prefill and decode.", OF(computing),
		 METRICS_SECONDS},
		{"vllm:request_prompt_tokens", "Prompt tokens of a call.", OF(prompt), METRICS_TOKENS},
		{"vllm:request_generation_tokens", "Generated tokens of a call.", OF(answer), METRICS_TOKENS},
	};
	struct load loads[CONFIG_MODELS_MAX] = {{0}};
	for (uint32_t i = 0; i < fleet->n_models; i++)
		add_workers(fleet, &fleet->model[i], &loads[i]);
	for (size_t i = 0; i < sizeof vllm_loads / sizeof *vllm_loads; i++)
		write_vllm_load(fleet, loads, &vllm_loads[i], out);
	metrics_model_counter(fleet, &vllm, "vllm:prompt_tokens_total", "Prompt tokens.", OF(prompt_tokens), out);
	metrics_model_counter(fleet, &vllm, "vllm:generation_tokens_total", "Generated tokens.", OF(generated_tokens),
			      out);
	metrics_model_ends(fleet, &vllm, "vllm:request_success_total", "Calls ended, by reason.", "finished_reason",
			   out);
	for (size_t i = 0; i < sizeof histograms / sizeof *histograms; i++)
		metrics_model_histogram(fleet, &vllm, histograms[i].name, histograms[i].help, histograms[i].offset,
					histograms[i].unit, out);
#undef OF
}

void metrics_aliases_write(struct fleet *fleet, struct api_json *out)
{
	write_llama_server(fleet, out);
	write_vllm(fleet, out);
}
