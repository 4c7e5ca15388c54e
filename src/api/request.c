#include "src/api/request.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "src/api/document.h"
#include "src/api/fields.h"
#include "src/api/response.h"
#include "src/api/tools.h"

enum { COMPLETION_TOKENS = 16 /* OpenAI's default for /v1/completions */ };

static int settle_logprobs(struct api_request *request, struct api_error *error)
{
	if (request->endpoint == API_COMPLETION) {
		request->logprobs = request->completion_logprobs != UINT32_MAX;
		request->n_logprobs = request->logprobs ? request->completion_logprobs : 0;
		return 0;
	}
	request->logprobs = request->chat_logprobs;
	if (request->top_logprobs != UINT32_MAX && request->top_logprobs > 0 && !request->logprobs)
		return api_error_set(error, 400, "invalid_value", "top_logprobs",
				     "'top_logprobs' needs 'logprobs': true");
	request->n_logprobs = request->logprobs && request->top_logprobs != UINT32_MAX ? request->top_logprobs : 0;
	return 0;
}

static int settle_length(struct api_request *request, struct api_error *error)
{
	bool given = request->max_tokens != UINT32_MAX || request->max_completion_tokens != UINT32_MAX;
	if (request->max_completion_tokens != UINT32_MAX) {
		if (request->max_tokens != UINT32_MAX && request->max_tokens != request->max_completion_tokens)
			return api_error_set(error, 400, "invalid_value", "max_tokens",
					     "'max_tokens' and 'max_completion_tokens' differ; give one of them");
		request->max_tokens = request->max_completion_tokens;
	}
	if (!given && request->endpoint == API_COMPLETION)
		request->max_tokens = request->forced.n > COMPLETION_TOKENS ? request->forced.n : COMPLETION_TOKENS;
	if (request->forced.n > request->max_tokens)
		return api_error_set(error, 400, "invalid_value", "forced_token_ids",
				     "'forced_token_ids' has %u tokens, 'max_tokens' allows %u", request->forced.n,
				     request->max_tokens);
	return 0;
}

/* Drawing more answers than are shown, and choosing among them, is not done here. */
static int settle_choices(struct api_request *request, struct api_error *error)
{
	if (request->best_of && request->best_of != request->n_choices)
		return api_error_set(error, 400, "unsupported_field", "best_of",
				     "'best_of' is not supported in this version unless it equals 'n' (%u)",
				     request->n_choices);
	return 0;
}

/* A constraint decides where an answer ends and what it begins with. */
static int settle_constraint(const struct api_request *request, struct api_error *error)
{
	const char *other = request->ignore_eos ? "ignore_eos" : request->forced.n ? "forced_token_ids" : NULL;
	if (request->constraint && other)
		return api_error_set(error, 400, "invalid_value", other, "'%s' can't be combined with '%s'", other,
				     request->constraint_field);
	return 0;
}

/* The rules between fields, once all of them are read. */
static int settle(struct api_request *request, struct api_error *error)
{
	if (request->endpoint == API_RESPONSE && api_response_settle(request, error))
		return -1;
	if (api_tools_settle(request, error))
		return -1;
	if (request->variables.failed || request->constraint_source.failed || request->biases.failed)
		return api_error_set(error, 500, NULL, NULL, "out of memory");
	if (request->has_stream_options && !request->stream)
		return api_error_set(error, 400, "invalid_value", "stream_options",
				     "'stream_options' needs 'stream': true");
	if (settle_choices(request, error) || settle_logprobs(request, error) || settle_length(request, error) ||
	    settle_constraint(request, error))
		return -1;
	if (!request->has_seed && getrandom(&request->seed, sizeof request->seed, 0) != sizeof request->seed)
		return api_error_set(error, 500, NULL, NULL, "the system has no random numbers");
	return 0;
}

int api_request_read(struct api_request *request, enum api_endpoint endpoint, const char *body, size_t n_bytes,
		     struct api_error *error)
{
	*request = (struct api_request){.endpoint = endpoint};
	if (api_document_read(body, n_bytes, &request->document, error))
		return -1;
	if (api_fields_read(request, yyjson_doc_get_root(request->document), error))
		return -1;
	return settle(request, error);
}

void api_request_fini(struct api_request *request)
{
	yyjson_doc_free(request->document);
	yyjson_doc_free(request->converted);
	free(request->prompts);
	api_json_fini(&request->messages);
	api_json_fini(&request->variables);
	api_json_fini(&request->constraint_source);
	api_json_fini(&request->biases);
	*request = (struct api_request){0};
}

uint32_t api_request_n_calls(const struct api_request *request)
{
	return (request->n_prompts ? request->n_prompts : 1) * request->n_choices;
}

static enum call_kind kind_of(const struct api_request *request, uint32_t prompt)
{
	switch (request->endpoint) {
	case API_CHAT:
	case API_RESPONSE:
		return CALL_KIND_CHAT;
	case API_TEMPLATE:
		return CALL_KIND_TEMPLATE;
	case API_TOKENIZE:
		return CALL_KIND_TOKENIZE;
	case API_DETOKENIZE:
		return CALL_KIND_DETOKENIZE;
	case API_EMBEDDING:
		return request->prompts[prompt].ids.list ? CALL_KIND_EMBED_IDS : CALL_KIND_EMBED;
	case API_COMPLETION:
	case API_LOAD_ADAPTER:
	case API_UNLOAD_ADAPTER:
		break;
	}
	return request->prompts[prompt].ids.list ? CALL_KIND_COMPLETE_IDS : CALL_KIND_COMPLETE;
}

static uint32_t flags_of(const struct api_request *request)
{
	uint32_t flags = 0;
	if (request->logprobs)
		flags |= CALL_FLAG_LOGPROBS;
	if (request->echo)
		flags |= CALL_FLAG_ECHO;
	if (request->ignore_eos)
		flags |= CALL_FLAG_IGNORE_END;
	if (request->return_token_ids)
		flags |= CALL_FLAG_PROMPT_IDS;
	if (request->calls_tools && request->endpoint != API_TEMPLATE)
		flags |= CALL_FLAG_TOOLS;
	if (!request->add_generation_prompt)
		flags |= CALL_FLAG_NO_GENERATION_PROMPT;
	/* A completion's prompt is read as the model's own text: with BOS and EOS as the model has it, control tokens
	 * by their spelling. So is what is to be embedded, because some models want such a token at its end. */
	if (request->add_special || request->endpoint & (API_COMPLETION | API_EMBEDDING))
		flags |= CALL_FLAG_ADD_SPECIAL;
	if (request->parse_special)
		flags |= CALL_FLAG_PARSE_SPECIAL;
	return flags;
}

static uint64_t append_ids(const struct api_ids *ids, struct api_json *bytes)
{
	yyjson_arr_iter items = yyjson_arr_iter_with(ids->list);
	for (yyjson_val *item; (item = yyjson_arr_iter_next(&items));) {
		uint32_t id = (uint32_t)yyjson_get_uint(item);
		api_json_raw(bytes, &id, sizeof id);
	}
	return (uint64_t)ids->n * sizeof(uint32_t);
}

static uint64_t append_prompt(const struct api_request *request, uint32_t at, struct api_json *bytes)
{
	if (request->endpoint & (API_CHAT | API_TEMPLATE | API_RESPONSE)) {
		api_json_raw(bytes, request->messages.bytes, request->messages.n);
		return request->messages.n;
	}
	const struct api_prompt *prompt = &request->prompts[at];
	if (prompt->ids.list)
		return append_ids(&prompt->ids, bytes);
	api_json_raw(bytes, prompt->text.bytes, prompt->text.n_bytes);
	return prompt->text.n_bytes;
}

void api_request_call(const struct api_request *request, uint32_t index, struct call_begin *begin,
		      struct api_json *bytes)
{
	uint32_t prompt = index / request->n_choices, choice = index % request->n_choices;
	*begin = (struct call_begin){
		.kind = kind_of(request, prompt),
		.flags = flags_of(request),
		.seed = request->seed,
		.max_tokens = request->max_tokens,
		.n_logprobs = request->n_logprobs,
		.temperature = request->temperature,
		/* 0 and nearly 0, 1 and nearly 1: either way only the most probable token is left. */
		.top_p = fmaxf(request->top_p, FLT_MIN),
		.min_p = fminf(request->min_p, nextafterf(1, 0)),
		.presence_penalty = request->presence_penalty,
		.frequency_penalty = request->frequency_penalty,
		.repeat_penalty = request->repeat_penalty,
		.top_k = request->top_k,
		.n_stops = request->n_stops,
		.dimensions = request->dimensions,
	};
	/* Equal prompts in one list are different samples, unless a seed asks for what separate requests would give:
	 * then each prompt's first choice is the one that a request for it alone gets. The factor is 2^64 / golden
	 * ratio: no two seeds lie near each other. */
	begin->seed += (request->has_seed ? choice : index) * 0x9E3779B97F4A7C15u;
	begin->prompt_bytes = append_prompt(request, prompt, bytes);
	for (uint32_t i = 0; i < request->n_stops; i++) {
		api_json_raw(bytes, request->stops[i].bytes, request->stops[i].n_bytes);
		api_json_raw(bytes, "", 1);
		begin->stop_bytes += (uint32_t)request->stops[i].n_bytes + 1;
	}
	begin->forced_ids = request->forced.n;
	append_ids(&request->forced, bytes);
	api_json_raw(bytes, request->variables.bytes, request->variables.n);
	begin->variables_bytes = request->variables.n;
	begin->constraint = request->constraint;
	if (request->constraint)
		snprintf(begin->constraint_field, sizeof begin->constraint_field, "%s", request->constraint_field);
	begin->constraint_bytes = (uint32_t)request->constraint_source.n;
	api_json_raw(bytes, request->constraint_source.bytes, request->constraint_source.n);
	begin->n_biases = request->n_biases;
	api_json_raw(bytes, request->biases.bytes, request->biases.n);
}
