#include "src/api/answer.h"

#include "src/api/embedding.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

int api_answer_init(struct api_answer *answer, const struct api_request *request, const char *model, uint64_t created)
{
	uint64_t name[2];
	*answer = (struct api_answer){
		.endpoint = request->endpoint,
		.shape = {.chat = request->endpoint & (API_CHAT | API_RESPONSE),
			  .echo = request->echo,
			  .logprobs = request->logprobs,
			  .token_ids = request->return_token_ids,
			  .tools = request->calls_tools,
			  .one_call = request->one_call},
		.stream = request->stream,
		.base64 = request->base64,
		.include_usage = request->include_usage,
		.created = created,
		.n_per_prompt = request->n_choices,
	};
	if (getrandom(name, sizeof name, 0) != sizeof name)
		return -EIO;
	const char *kind = request->endpoint == API_RESPONSE ? "resp_" : answer->shape.chat ? "chatcmpl-" : "cmpl-";
	snprintf(answer->id, sizeof answer->id, "%s%016llx%016llx", kind, (unsigned long long)name[0],
		 (unsigned long long)name[1]);
	answer->salt = name[1];
	snprintf(answer->model, sizeof answer->model, "%s", model);
	uint32_t n = api_request_n_calls(request);
	answer->choices = calloc(n, sizeof *answer->choices);
	if (!answer->choices)
		return -ENOMEM;
	answer->n_choices = n;
	if (request->endpoint == API_RESPONSE)
		api_response_write_echo(request, &answer->echo);
	return 0;
}

void api_answer_fini(struct api_answer *answer)
{
	for (uint32_t i = 0; i < answer->n_choices; i++)
		api_choice_fini(&answer->choices[i]);
	free(answer->choices);
	api_json_fini(&answer->echo);
	*answer = (struct api_answer){0};
}

void api_answer_accepted(struct api_answer *answer, uint32_t index, const struct call_accepted *accepted)
{
	/* No two calls of an answer get the same number: a choice has far fewer than 2^32 of them. */
	api_choice_accepted(&answer->choices[index], &answer->shape, accepted, answer->salt + ((uint64_t)index << 32));
}

/* A vector becomes text as soon as it is there: of many, that would be much to do at once in the end. */
static void write_vector(const struct api_answer *answer, struct api_choice *choice)
{
	struct api_json *column = &choice->column[COLUMN_TEXT], text = {0};
	api_embedding_write(column->bytes, column->n, answer->base64, &text);
	text.failed |= column->failed;
	api_json_fini(column);
	*column = text;
}

void api_answer_done(struct api_answer *answer, uint32_t index, const struct record_done *done)
{
	api_choice_done(&answer->choices[index], done);
	if (answer->endpoint == API_EMBEDDING)
		write_vector(answer, &answer->choices[index]);
}

void api_answer_write_head(const struct api_answer *answer, const char *object, struct api_json *out)
{
	api_json_format(out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%llu,\"model\":", answer->id, object,
			(unsigned long long)answer->created);
	api_json_string(out, answer->model, strlen(answer->model));
}

void api_answer_write_usage(const struct api_answer *answer, struct api_json *out)
{
	uint64_t prompt = 0, generated = 0;
	for (uint32_t i = 0; i < answer->n_choices; i++) {
		if (i % answer->n_per_prompt == 0) /* a prompt counts once, however many answers it gets */
			prompt += answer->choices[i].prompt_tokens;
		generated += answer->choices[i].generated_tokens;
	}
	api_json_format(out, "{\"prompt_tokens\":%llu,\"completion_tokens\":%llu,\"total_tokens\":%llu}",
			(unsigned long long)prompt, (unsigned long long)generated,
			(unsigned long long)(prompt + generated));
}

void api_answer_write_ids(const struct api_answer *answer, const char *name, const struct api_json *ids,
			  struct api_json *out)
{
	if (!answer->shape.token_ids)
		return;
	api_json_format(out, ",\"%s\":[", name);
	api_json_raw(out, ids->bytes, ids->n);
	api_json_text(out, "]");
}

static void write_choice(const struct api_answer *answer, uint32_t index, struct api_json *out)
{
	const struct api_choice *choice = &answer->choices[index];
	const struct api_json *text = &choice->column[COLUMN_TEXT];
	out->failed |= api_choice_failed(choice);
	api_json_format(out, "{\"index\":%u,", index);
	api_json_text(out, answer->shape.chat ? "\"message\":{\"role\":\"assistant\",\"content\":" : "\"text\":");
	if (!text->n && choice->split.n_calls)
		api_json_text(out, "null");
	else
		api_json_string(out, text->bytes, text->n);
	if (answer->shape.chat)
		api_json_text(out, ",\"refusal\":null");
	api_choice_write_parts(choice, out);
	api_json_text(out, answer->shape.chat ? "},\"logprobs\":" : ",\"logprobs\":");
	api_choice_write_logprobs(choice, &answer->shape, out);
	api_json_text(out, ",\"finish_reason\":");
	api_choice_write_finish(choice, out);
	api_answer_write_ids(answer, "prompt_token_ids", &choice->column[COLUMN_PROMPT_IDS], out);
	api_answer_write_ids(answer, "token_ids", &choice->column[COLUMN_IDS], out);
	api_json_text(out, "}");
}

static void write_generated(const struct api_answer *answer, struct api_json *out)
{
	api_answer_write_head(answer, answer->shape.chat ? "chat.completion" : "text_completion", out);
	api_json_text(out, ",\"choices\":[");
	for (uint32_t i = 0; i < answer->n_choices; i++) {
		if (i)
			api_json_text(out, ",");
		write_choice(answer, i, out);
	}
	api_json_text(out, "],\"usage\":");
	api_answer_write_usage(answer, out);
	api_json_text(out, "}");
}

/* {"NAME":"text"} of a call that generates nothing. */
static void write_text(const struct api_answer *answer, const char *name, struct api_json *out)
{
	const struct api_json *text = &answer->choices[0].column[COLUMN_TEXT];
	out->failed |= api_choice_failed(&answer->choices[0]);
	api_json_format(out, "{\"%s\":", name);
	api_json_string(out, text->bytes, text->n);
	api_json_text(out, "}");
}

static void write_embeddings(const struct api_answer *answer, struct api_json *out)
{
	uint64_t n_tokens = 0;
	api_json_text(out, "{\"object\":\"list\",\"data\":[");
	for (uint32_t i = 0; i < answer->n_choices; i++) {
		const struct api_json *vector = &answer->choices[i].column[COLUMN_TEXT];
		out->failed |= api_choice_failed(&answer->choices[i]);
		n_tokens += answer->choices[i].prompt_tokens;
		api_json_format(out, "%s{\"object\":\"embedding\",\"index\":%u,\"embedding\":", i ? "," : "", i);
		api_json_raw(out, vector->bytes, vector->n);
		api_json_text(out, "}");
	}
	api_json_text(out, "],\"model\":");
	api_json_string(out, answer->model, strlen(answer->model));
	api_json_format(out, ",\"usage\":{\"prompt_tokens\":%llu,\"total_tokens\":%llu}}", (unsigned long long)n_tokens,
			(unsigned long long)n_tokens);
}

void api_answer_write(const struct api_answer *answer, struct api_json *out)
{
	switch (answer->endpoint) {
	case API_CHAT:
	case API_COMPLETION:
		write_generated(answer, out);
		return;
	case API_TOKENIZE:
		out->failed |= api_choice_failed(&answer->choices[0]);
		api_json_text(out, "{\"tokens\":[");
		api_json_raw(out, answer->choices[0].column[COLUMN_IDS].bytes, answer->choices[0].column[COLUMN_IDS].n);
		api_json_text(out, "]}");
		return;
	case API_DETOKENIZE:
		write_text(answer, "content", out);
		return;
	case API_TEMPLATE:
		write_text(answer, "prompt", out);
		return;
	case API_RESPONSE:
		api_response_write(answer, out);
		return;
	case API_EMBEDDING:
		write_embeddings(answer, out);
		return;
	case API_LOAD_ADAPTER:
	case API_UNLOAD_ADAPTER: /* nothing that a worker says */
		return;
	}
}
