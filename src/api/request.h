/* A request of the HTTP API, read and checked: JSON in, calls for a worker out.
 *
 * The body is untrusted. api_document.h makes it a sane tree; every field then goes through the one table in
 * api_fields.c, which knows its type, its range and at which endpoints it exists; what is left to do here are the rules
 * between fields. A request is either wholly understood or refused with a 400 that names the field: a field that would
 * change the answer and is not supported, or is not known at all (a typing error, too), is never skipped in silence. */
#ifndef WEIGHTD_SRC_API_REQUEST_H
#define WEIGHTD_SRC_API_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yyjson.h>

#include "src/api/error.h"
#include "src/api/json.h"
#include "src/call.h"

enum api_endpoint {
	API_CHAT = 1u << 0,	  /* POST /v1/chat/completions */
	API_COMPLETION = 1u << 1, /* POST /v1/completions */
	API_TOKENIZE = 1u << 2,
	API_DETOKENIZE = 1u << 3,
	API_TEMPLATE = 1u << 4,	    /* POST /apply-template */
	API_EMBEDDING = 1u << 5,    /* POST /v1/embeddings */
	API_RESPONSE = 1u << 6,	    /* POST /v1/responses: a chat in other words (response.h) */
	API_LOAD_ADAPTER = 1u << 7, /* POST /v1/load_lora_adapter; makes no call, like the next one */
	API_UNLOAD_ADAPTER = 1u << 8,
};

/* Of embeddings' inputs the bounds are OpenAI's. */
enum { API_PROMPTS_MAX = 128, API_CHOICES_MAX = 16, API_INPUTS_MAX = 2048, API_INPUT_TOKENS_MAX = 300000 };

/* Views into the request's document. */
struct api_text {
	const char *bytes;
	size_t n_bytes;
};
struct api_ids {
	yyjson_val *list; /* [n] checked token ids; NULL: none */
	uint32_t n;
};
struct api_prompt { /* text, or ids where `ids.list` is set */
	struct api_text text;
	struct api_ids ids;
};

struct api_request {
	enum api_endpoint endpoint;
	yyjson_doc *document;				  /* owned */
	struct api_text model;				  /* NULL: not named */
	struct api_text adapter;			  /* the same */
	struct api_text lora_name, lora_path, base_model; /* to load or to unload */
	bool load_inplace;

	struct api_prompt *prompts; /* [n_prompts] owned; also texts to be tokenized, detokenized or embedded */
	uint32_t n_prompts;
	struct api_json messages;  /* JSON array for the worker; owned */
	struct api_json variables; /* JSON object of further template variables, or empty; owned */
	yyjson_val *tools;	   /* checked list, or NULL; view */
	bool calls_tools;	   /* the answer may have tool calls */
	bool one_call;		   /* and no more than one */
	bool add_generation_prompt, add_special, parse_special;

	bool stream, include_usage, echo, ignore_eos, return_token_ids;
	bool logprobs;	     /* wanted ... */
	uint32_t n_logprobs; /* ... with so many alternatives */
	uint32_t max_tokens; /* UINT32_MAX: to the end of the context */
	uint32_t n_choices;  /* of each prompt */
	uint64_t seed;
	bool has_seed; /* the client's, not ours */
	float temperature, top_p, min_p, presence_penalty, frequency_penalty, repeat_penalty;
	uint32_t top_k;
	struct api_text stops[CALL_STOPS_MAX];
	uint32_t n_stops;
	struct api_ids forced;
	enum call_constraint constraint;
	const char *constraint_field;	   /* where it came from; static */
	struct api_json constraint_source; /* owned, all of these */
	struct api_json biases;		   /* [n_biases] struct call_bias */
	uint32_t n_biases;
	uint32_t dimensions; /* of an embedding; 0: as many as the model has */
	bool base64;	     /* that is how it is written */

	/* As they were given; settled into the fields above once all fields are read. */
	uint32_t completion_logprobs, top_logprobs, max_completion_tokens, best_of;
	bool chat_logprobs, has_stream_options, parallel_tool_calls;
	yyjson_val *kwargs; /* chat_template_kwargs */
	yyjson_val *choice; /* tool_choice, its form checked */
	/* of a response, as they came, and what of them has another form in a chat */
	yyjson_val *input, *response_tools, *response_choice, *text, *metadata;
	struct api_text instructions; /* bytes NULL: none */
	yyjson_doc *converted;	      /* owned */
};

/* Reads a body. 0, or -1 with `error` filled in; the request is to be given to api_request_fini either way. */
int api_request_read(struct api_request *request, enum api_endpoint endpoint, const char *body, size_t n_bytes,
		     struct api_error *error);
void api_request_fini(struct api_request *request);

/* How many calls the request makes: one per prompt and choice, those of a prompt together. */
uint32_t api_request_n_calls(const struct api_request *request);
/* Call `index` of the request: its head, and the bytes that CALL_BYTES carry. Out of memory shows as bytes->failed. */
void api_request_call(const struct api_request *request, uint32_t index, struct call_begin *begin,
		      struct api_json *bytes);

#endif
