/* What is counted for each model, and the times of its calls.
 *
 *      request whole        computing begins       first token                  last token
 *          |------ queue ------|------ prefill ------|--- gap ---|--- gap ---|------|
 *          |----------- first token -----------------|------------ decode ----------|
 *          |------------------------------- duration (of the whole answer) ---------------|
 *
 * Times are those at which the front reads the worker's records, so they hold what a client sees, less the way through
 * its socket. Tokens are counted as they come, not when their call ends: a rate over a short window is then a rate,
 * even of long answers. Histograms of all kinds have the same number of buckets, so that one piece of code fills and
 * writes them; their bounds depend on the unit alone. */
#ifndef WEIGHTD_SRC_FRONT_METRICS_MODEL_H
#define WEIGHTD_SRC_FRONT_METRICS_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "src/api/json.h"

struct fleet;

enum { METRICS_BUCKETS = 18 };
enum metrics_unit { METRICS_SECONDS, METRICS_TOKENS };
enum metrics_end { METRICS_END_STOP, METRICS_END_LENGTH, METRICS_END_ABORT, METRICS_END_ERROR, METRICS_ENDS };

struct metrics_histogram {
	uint64_t bucket[METRICS_BUCKETS + 1]; /* the last: everything above */
	uint64_t sum;			      /* ns or tokens */
};

struct metrics_model {
	uint64_t prompt_tokens;	   /* of calls that have shown a token or ended */
	uint64_t generated_tokens; /* so far */
	uint64_t ended[METRICS_ENDS];
	/* of requests */
	struct metrics_histogram first_token, duration;
	/* of calls */
	struct metrics_histogram queue, prefill, gap, decode;
	struct metrics_histogram computing;	 /* prefill and decode together */
	struct metrics_histogram token_mean;	 /* decode by token, of calls with two or more */
	struct metrics_histogram prompt, answer; /* tokens of calls that ended well */
};

/* A call's own times, on the clock of clock_now_ns; 0: not yet. */
struct metrics_call {
	uint64_t request_ns, computing_ns, first_token_ns, last_token_ns;
	uint64_t n_generated;
};

void metrics_observe(struct metrics_histogram *histogram, enum metrics_unit unit, uint64_t value);

/* Its prompt is being computed. */
void metrics_call_computing(struct metrics_model *model, struct metrics_call *call, uint64_t now_ns);
/* A token of its answer has come. */
void metrics_call_token(struct metrics_model *model, struct metrics_call *call, uint32_t prompt_tokens,
			uint64_t now_ns);
/* It ended with so many tokens. 0 of both: they were never known. */
void metrics_call_ended(struct metrics_model *model, struct metrics_call *call, enum metrics_end end,
			uint32_t prompt_tokens, uint32_t generated_tokens);

/* How a family names the models: {model="..."}, or as others do. */
struct metrics_style {
	const char *label;
	const char *more; /* further labels behind the model's, with a comma in front */
};

/* Families of all models; `offset` is that of the member of struct metrics_model. */
void metrics_model_counter(const struct fleet *fleet, const struct metrics_style *style, const char *name,
			   const char *help, size_t offset, struct api_json *out);
void metrics_model_histogram(const struct fleet *fleet, const struct metrics_style *style, const char *name,
			     const char *help, size_t offset, enum metrics_unit unit, struct api_json *out);
/* Calls ended, by reason. */
void metrics_model_ends(const struct fleet *fleet, const struct metrics_style *style, const char *name,
			const char *help, const char *reason_label, struct api_json *out);
/* "name{model="...", further labels of the style", without the closing brace. */
void metrics_model_sample(const struct metrics_style *style, const char *name, const char *model, struct api_json *out);

/* All of that under our own names. */
void metrics_model_write(const struct fleet *fleet, struct api_json *out);

#endif
