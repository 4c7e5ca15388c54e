#include "src/front/metrics_model.h"

#include <string.h>

#include "src/front/fleet.h"
#include "src/front/metrics_text.h"

/* Upper bounds of the buckets: from a token of a small model to a long answer of a large one, in seconds, and from a
 * word to a book, in tokens. */
static const double bounds[][METRICS_BUCKETS] = {
	[METRICS_SECONDS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160,
			     320},
	[METRICS_TOKENS] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000,
			    500000},
};
/* How many of what is summed make one of what is written: nanoseconds in a second. */
static const double scale[] = {[METRICS_SECONDS] = 1e9, [METRICS_TOKENS] = 1};

static const char *const end_name[METRICS_ENDS] = {"stop", "length", "abort", "error"};

/* --- counting --------------------------------------------------------------------------------- */

void metrics_observe(struct metrics_histogram *histogram, enum metrics_unit unit, uint64_t value)
{
	unsigned i = 0;
	while (i < METRICS_BUCKETS && (double)value > bounds[unit][i] * scale[unit])
		i++;
	histogram->bucket[i]++;
	histogram->sum += value;
}

static void observe_ns(struct metrics_histogram *histogram, uint64_t from_ns, uint64_t to_ns)
{
	metrics_observe(histogram, METRICS_SECONDS, to_ns > from_ns ? to_ns - from_ns : 0);
}

void metrics_call_computing(struct metrics_model *model, struct metrics_call *call, uint64_t now_ns)
{
	call->computing_ns = now_ns;
	observe_ns(&model->queue, call->request_ns, now_ns);
}

void metrics_call_token(struct metrics_model *model, struct metrics_call *call, uint32_t prompt_tokens, uint64_t now_ns)
{
	if (call->n_generated++ == 0) {
		call->first_token_ns = now_ns;
		model->prompt_tokens += prompt_tokens;
		if (call->computing_ns)
			observe_ns(&model->prefill, call->computing_ns, now_ns);
	} else {
		observe_ns(&model->gap, call->last_token_ns, now_ns);
	}
	call->last_token_ns = now_ns;
	model->generated_tokens++;
}

void metrics_call_ended(struct metrics_model *model, struct metrics_call *call, enum metrics_end end,
			uint32_t prompt_tokens, uint32_t generated_tokens)
{
	model->ended[end]++;
	if (!call->n_generated)
		model->prompt_tokens += prompt_tokens;
	if (generated_tokens > call->n_generated) /* the worker's word stands, should it have reported fewer */
		model->generated_tokens += generated_tokens - call->n_generated;
	if (end != METRICS_END_STOP && end != METRICS_END_LENGTH)
		return;
	metrics_observe(&model->prompt, METRICS_TOKENS, prompt_tokens);
	metrics_observe(&model->answer, METRICS_TOKENS, generated_tokens);
	if (!call->n_generated)
		return;
	observe_ns(&model->decode, call->first_token_ns, call->last_token_ns);
	if (call->computing_ns)
		observe_ns(&model->computing, call->computing_ns, call->last_token_ns);
	if (call->n_generated > 1)
		metrics_observe(&model->token_mean, METRICS_SECONDS,
				(call->last_token_ns - call->first_token_ns) / (call->n_generated - 1));
}

/* --- writing ---------------------------------------------------------------------------------- */

void metrics_model_sample(const struct metrics_style *style, const char *name, const char *model, struct api_json *out)
{
	api_json_format(out, "%s{%s=\"", name, style->label);
	metrics_text_label(out, model);
	api_json_format(out, "\"%s", style->more);
}

static const void *member(const struct fleet *fleet, uint32_t model, size_t offset)
{
	return (const char *)&fleet->model[model].metrics + offset;
}

void metrics_model_counter(const struct fleet *fleet, const struct metrics_style *style, const char *name,
			   const char *help, size_t offset, struct api_json *out)
{
	metrics_text_family(out, name, "counter", help);
	for (uint32_t i = 0; i < fleet->n_models; i++) {
		if (!fleet_has(fleet, i))
			continue;
		uint64_t value;
		memcpy(&value, member(fleet, i, offset), sizeof value);
		metrics_model_sample(style, name, fleet->model[i].name, out);
		api_json_format(out, "} %llu\n", (unsigned long long)value);
	}
}

static void write_histogram(const struct metrics_style *style, const char *name, const char *model,
			    const struct metrics_histogram *histogram, enum metrics_unit unit, struct api_json *out)
{
	char sample[80];
	uint64_t n = 0;
	snprintf(sample, sizeof sample, "%s_bucket", name);
	for (int i = 0; i <= METRICS_BUCKETS; i++) {
		n += histogram->bucket[i];
		metrics_model_sample(style, sample, model, out);
		if (i < METRICS_BUCKETS)
			api_json_format(out, ",le=\"%.10g\"} %llu\n", bounds[unit][i], (unsigned long long)n);
		else
			api_json_format(out, ",le=\"+Inf\"} %llu\n", (unsigned long long)n);
	}
	snprintf(sample, sizeof sample, "%s_sum", name);
	metrics_model_sample(style, sample, model, out);
	api_json_format(out, "} %.9f\n", (double)histogram->sum / scale[unit]);
	snprintf(sample, sizeof sample, "%s_count", name);
	metrics_model_sample(style, sample, model, out);
	api_json_format(out, "} %llu\n", (unsigned long long)n);
}

void metrics_model_histogram(const struct fleet *fleet, const struct metrics_style *style, const char *name,
			     const char *help, size_t offset, enum metrics_unit unit, struct api_json *out)
{
	metrics_text_family(out, name, "histogram", help);
	for (uint32_t i = 0; i < fleet->n_models; i++)
		if (fleet_has(fleet, i))
			write_histogram(style, name, fleet->model[i].name, member(fleet, i, offset), unit, out);
}

void metrics_model_ends(const struct fleet *fleet, const struct metrics_style *style, const char *name,
			const char *help, const char *reason_label, struct api_json *out)
{
	metrics_text_family(out, name, "counter", help);
	for (uint32_t i = 0; i < fleet->n_models; i++) {
		if (!fleet_has(fleet, i))
			continue;
		for (int end = 0; end < METRICS_ENDS; end++) {
			metrics_model_sample(style, name, fleet->model[i].name, out);
			api_json_format(out, ",%s=\"%s\"} %llu\n", reason_label, end_name[end],
					(unsigned long long)fleet->model[i].metrics.ended[end]);
		}
	}
}

void metrics_model_write(const struct fleet *fleet, struct api_json *out)
{
	static const struct metrics_style own = {"model", ""};
	static const struct {
		const char *name, *help;
		size_t offset;
		enum metrics_unit unit;
	} histograms[] = {
#define OF(member) offsetof(struct metrics_model, member)
		{"weightd_queue_seconds", "From a whole request until the worker computes a call's prompt.", OF(queue),
		 METRICS_SECONDS},
		{"weightd_prefill_seconds", "From there to the call's first token.", OF(prefill), METRICS_SECONDS},
		{"weightd_time_to_first_token_seconds", "From a whole request to the first token of its answer.",
		 OF(first_token), METRICS_SECONDS},
		{"weightd_inter_token_seconds", "From one token of an answer to the next.", OF(gap), METRICS_SECONDS},
		{"weightd_decode_seconds", "From a call's first token to its last.", OF(decode), METRICS_SECONDS},
		{"weightd_request_duration_seconds", "From a whole request for an answer of tokens to its end.",
		 OF(duration), METRICS_SECONDS},
		{"weightd_call_prompt_tokens", "Prompt tokens of calls that ended well.", OF(prompt), METRICS_TOKENS},
		{"weightd_call_generated_tokens", "Generated tokens of calls that ended well.", OF(answer),
		 METRICS_TOKENS},
	};
	metrics_model_counter(fleet, &own, "weightd_prompt_tokens_total",
			      "Prompt tokens of calls that have shown a token or ended.", OF(prompt_tokens), out);
	metrics_model_counter(fleet, &own, "weightd_generated_tokens_total", "Tokens of answers, as they come.",
			      OF(generated_tokens), out);
	metrics_model_ends(fleet, &own, "weightd_calls_ended_total", "Calls for tokens that ended, by reason.",
			   "reason", out);
	for (size_t i = 0; i < sizeof histograms / sizeof *histograms; i++)
		metrics_model_histogram(fleet, &own, histograms[i].name, histograms[i].help, histograms[i].offset,
					histograms[i].unit, out);
#undef OF
}
