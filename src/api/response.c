#include "src/api/response.h"

#include <string.h>

#include "src/api/answer.h"

/* What of a part is written where: its beginning, with nothing in it, or all of it. */
enum extent { EMPTY, WHOLE };

static const struct api_json *column(const struct api_answer *answer, enum api_column which)
{
	return &answer->choices[0].column[which];
}

static const char *hex(const struct api_answer *answer)
{
	return strchr(answer->id, '_') + 1;
}

/* --- items ------------------------------------------------------------------------------------ */

static bool has_reasoning(const struct api_answer *answer)
{
	return column(answer, COLUMN_REASONING)->n;
}

static bool has_message(const struct api_answer *answer)
{
	return column(answer, COLUMN_TEXT)->n || !answer->choices[0].split.n_calls;
}

/* Calls in front of the message. */
static uint32_t calls_before(const struct api_answer *answer)
{
	const struct api_split *split = &answer->choices[0].split;
	return column(answer, COLUMN_TEXT)->n ? split->calls_before_text : split->n_calls;
}

static uint32_t message_index(const struct api_answer *answer)
{
	return has_reasoning(answer) + calls_before(answer);
}

static uint32_t call_index(const struct api_answer *answer, uint32_t call)
{
	return has_reasoning(answer) + call + (call >= calls_before(answer));
}

static const char *message_status(const struct api_answer *answer)
{
	return answer->choices[0].finish == FINISH_LENGTH ? "incomplete" : "completed";
}

static const char *call_status(const struct api_answer *answer, uint32_t call)
{
	const struct api_split *split = &answer->choices[0].split;
	return split->cut && call == split->n_calls - 1 ? "incomplete" : "completed";
}

static void write_text(const struct api_json *text, enum extent extent, struct api_json *out)
{
	api_json_string(out, text->bytes, extent == WHOLE ? text->n : 0);
}

static void write_reasoning_part(const struct api_answer *answer, enum extent extent, struct api_json *out)
{
	api_json_text(out, "{\"type\":\"reasoning_text\",\"text\":");
	write_text(column(answer, COLUMN_REASONING), extent, out);
	api_json_text(out, "}");
}

static void write_reasoning(const struct api_answer *answer, enum extent extent, struct api_json *out)
{
	bool cut = !column(answer, COLUMN_TEXT)->n && !answer->choices[0].split.n_calls;
	api_json_format(out, "{\"id\":\"rs_%s\",\"type\":\"reasoning\",\"summary\":[],\"content\":[", hex(answer));
	if (extent == WHOLE)
		write_reasoning_part(answer, WHOLE, out);
	api_json_format(out, "],\"status\":\"%s\"}",
			extent == EMPTY ? "in_progress"
			: cut		? message_status(answer)
					: "completed");
}

static void write_text_part(const struct api_answer *answer, enum extent extent, struct api_json *out)
{
	const struct api_json *rows = column(answer, COLUMN_CONTENT);
	api_json_text(out, "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[");
	if (extent == WHOLE)
		api_json_raw(out, rows->bytes, rows->n);
	api_json_text(out, "],\"text\":");
	write_text(column(answer, COLUMN_TEXT), extent, out);
	api_json_text(out, "}");
}

static void write_message(const struct api_answer *answer, enum extent extent, struct api_json *out)
{
	api_json_format(
		out, "{\"id\":\"msg_%s\",\"type\":\"message\",\"role\":\"assistant\",\"status\":\"%s\",\"content\":[",
		hex(answer), extent == EMPTY ? "in_progress" : message_status(answer));
	if (extent == WHOLE)
		write_text_part(answer, WHOLE, out);
	api_json_text(out, "]}");
}

static void write_call(const struct api_answer *answer, uint32_t i, enum extent extent, struct api_json *out)
{
	const struct api_tool_call *call = &answer->choices[0].split.calls[i];
	api_json_format(out,
			"{\"id\":\"fc_%s%u\",\"type\":\"function_call\",\"status\":\"%s\",\"call_id\":\"%s\",\"name\":",
			hex(answer), i, extent == EMPTY ? "in_progress" : call_status(answer, i), call->id);
	api_json_string(out, call->name.bytes, call->name.n);
	api_json_text(out, ",\"arguments\":");
	write_text(&call->arguments, extent, out);
	api_json_text(out, "}");
}

static void write_output(const struct api_answer *answer, struct api_json *out)
{
	uint32_t n_calls = answer->choices[0].split.n_calls, before = calls_before(answer);
	const char *separator = "";
	if (has_reasoning(answer)) {
		write_reasoning(answer, WHOLE, out);
		separator = ",";
	}
	for (uint32_t i = 0; i <= n_calls; i++) {
		if (i == before && has_message(answer)) {
			api_json_text(out, separator);
			write_message(answer, WHOLE, out);
			separator = ",";
		}
		if (i == n_calls)
			break;
		api_json_text(out, separator);
		write_call(answer, i, WHOLE, out);
		separator = ",";
	}
}

/* --- the response ----------------------------------------------------------------------------- */

static void write_or_null(yyjson_val *value, const char *name, const char *otherwise, struct api_json *out)
{
	api_json_format(out, ",\"%s\":", name);
	if (value && !yyjson_is_null(value))
		api_json_value(out, value);
	else
		api_json_text(out, otherwise);
}

void api_response_write_echo(const struct api_request *request, struct api_json *out)
{
	write_or_null(request->response_tools, "tools", "[]", out);
	write_or_null(request->response_choice, "tool_choice", "\"auto\"", out);
	api_json_text(out, ",\"text\":{\"verbosity\":\"medium\"");
	write_or_null(yyjson_obj_get(request->text, "format"), "format", "{\"type\":\"text\"}", out);
	api_json_text(out, "}");
	write_or_null(request->metadata, "metadata", "{}", out);
	api_json_text(out, ",\"instructions\":");
	if (request->instructions.bytes)
		api_json_string(out, request->instructions.bytes, request->instructions.n_bytes);
	else
		api_json_text(out, "null");
	api_json_text(out, ",\"max_output_tokens\":");
	if (request->max_tokens != UINT32_MAX)
		api_json_u64(out, request->max_tokens);
	else
		api_json_text(out, "null");
	api_json_format(out, ",\"parallel_tool_calls\":%s,\"top_logprobs\":%u,\"temperature\":",
			request->parallel_tool_calls ? "true" : "false", request->n_logprobs);
	api_json_f32(out, request->temperature);
	api_json_text(out, ",\"top_p\":");
	api_json_f32(out, request->top_p);
	api_json_text(
		out,
		",\"background\":false,\"previous_response_id\":null,\"reasoning\":{\"effort\":null,\"summary\":null},"
		"\"store\":false,\"truncation\":\"disabled\"");
}

static void write_usage(const struct api_answer *answer, struct api_json *out)
{
	const struct api_choice *choice = &answer->choices[0];
	api_json_format(out,
			"{\"input_tokens\":%u,\"input_tokens_details\":{\"cached_tokens\":0},\"output_tokens\":%u,"
			"\"output_tokens_details\":{\"reasoning_tokens\":%u},\"total_tokens\":%llu}",
			choice->prompt_tokens, choice->generated_tokens, choice->reasoning_tokens,
			(unsigned long long)choice->prompt_tokens + choice->generated_tokens);
}

/* `error` NULL: none. */
static void write_response(const struct api_answer *answer, const char *status, const struct api_error *error,
			   struct api_json *out)
{
	bool ended = strcmp(status, "in_progress") != 0;
	out->failed |= api_choice_failed(&answer->choices[0]);
	api_json_format(out, "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%llu,\"status\":\"%s\",\"model\":",
			answer->id, (unsigned long long)answer->created, status);
	api_json_string(out, answer->model, strlen(answer->model));
	api_json_text(out, ",\"error\":");
	if (error) {
		api_json_text(out, "{\"code\":\"server_error\",\"message\":");
		api_json_string(out, error->message, strlen(error->message));
		api_json_text(out, "}");
	} else {
		api_json_text(out, "null");
	}
	api_json_format(out, ",\"incomplete_details\":%s,\"output\":[",
			strcmp(status, "incomplete") ? "null" : "{\"reason\":\"max_output_tokens\"}");
	if (ended && !error)
		write_output(answer, out);
	api_json_text(out, "],\"usage\":");
	if (ended && !error)
		write_usage(answer, out);
	else
		api_json_text(out, "null");
	api_json_raw(out, answer->echo.bytes, answer->echo.n);
	out->failed |= answer->echo.failed;
	api_json_text(out, "}");
}

void api_response_write(const struct api_answer *answer, struct api_json *out)
{
	write_response(answer, message_status(answer), NULL, out);
}

/* --- events ----------------------------------------------------------------------------------- */

static void open_event(struct api_answer *answer, const char *type, struct api_json *out)
{
	api_json_format(out, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%llu", type, type,
			(unsigned long long)answer->events.sequence++);
}

static void close_event(struct api_json *out)
{
	api_json_text(out, "}\n\n");
}

static void response_event(struct api_answer *answer, const char *type, const char *status,
			   const struct api_error *error, struct api_json *out)
{
	open_event(answer, type, out);
	api_json_text(out, ",\"response\":");
	write_response(answer, status, error, out);
	close_event(out);
}

static void open_item(struct api_answer *answer, const char *type, uint32_t index, struct api_json *out)
{
	open_event(answer, type, out);
	api_json_format(out, ",\"output_index\":%u,\"item\":", index);
}

/* An event of an item's part: which one, and the name of what follows. */
static void open_part(struct api_answer *answer, const char *type, const char *prefix, uint32_t index, const char *name,
		      struct api_json *out)
{
	open_event(answer, type, out);
	api_json_format(out, ",\"item_id\":\"%s_%s\",\"output_index\":%u,\"content_index\":0,\"%s\":", prefix,
			hex(answer), index, name);
}

/* The bytes of a column that were not sent yet, as a string. */
static void write_unsent(const struct api_json *text, size_t *sent, struct api_json *out)
{
	api_json_string(out, text->bytes + *sent, text->n - *sent);
	*sent = text->n;
}

static void close_reasoning(struct api_answer *answer, struct api_json *out)
{
	if (!answer->events.reasoning_open)
		return;
	answer->events.reasoning_open = false;
	open_part(answer, "response.reasoning_text.done", "rs", 0, "text", out);
	write_text(column(answer, COLUMN_REASONING), WHOLE, out);
	close_event(out);
	open_part(answer, "response.content_part.done", "rs", 0, "part", out);
	write_reasoning_part(answer, WHOLE, out);
	close_event(out);
	open_item(answer, "response.output_item.done", 0, out);
	write_reasoning(answer, WHOLE, out);
	close_event(out);
}

static void tell_reasoning(struct api_answer *answer, struct api_json *out)
{
	struct api_response_stream *events = &answer->events;
	if (!events->reasoning) {
		events->reasoning_open = true;
		open_item(answer, "response.output_item.added", 0, out);
		write_reasoning(answer, EMPTY, out);
		close_event(out);
		open_part(answer, "response.content_part.added", "rs", 0, "part", out);
		write_reasoning_part(answer, EMPTY, out);
		close_event(out);
	}
	open_part(answer, "response.reasoning_text.delta", "rs", 0, "delta", out);
	write_unsent(column(answer, COLUMN_REASONING), &events->reasoning, out);
	close_event(out);
}

static void open_call_part(struct api_answer *answer, const char *type, const char *name, struct api_json *out)
{
	uint32_t i = answer->events.n_calls - 1;
	open_event(answer, type, out);
	api_json_format(out, ",\"item_id\":\"fc_%s%u\",\"output_index\":%u,\"%s\":", hex(answer), i,
			call_index(answer, i), name);
}

static void close_call(struct api_answer *answer, struct api_json *out)
{
	uint32_t i = answer->events.n_calls - 1;
	if (!answer->events.call_open)
		return;
	answer->events.call_open = false;
	open_call_part(answer, "response.function_call_arguments.done", "arguments", out);
	write_text(&answer->choices[0].split.calls[i].arguments, WHOLE, out);
	api_json_text(out, ",\"name\":");
	write_text(&answer->choices[0].split.calls[i].name, WHOLE, out);
	close_event(out);
	open_item(answer, "response.output_item.done", call_index(answer, i), out);
	write_call(answer, i, WHOLE, out);
	close_event(out);
}

/* What there is of calls up to number `end`. */
static void tell_calls(struct api_answer *answer, uint32_t end, struct api_json *out)
{
	struct api_response_stream *events = &answer->events;
	for (uint32_t i = events->n_calls ? events->n_calls - 1 : 0; i < end; i++) {
		const struct api_json *arguments = &answer->choices[0].split.calls[i].arguments;
		if (i == events->n_calls) {
			close_reasoning(answer, out);
			close_call(answer, out);
			open_item(answer, "response.output_item.added", call_index(answer, i), out);
			write_call(answer, i, EMPTY, out);
			close_event(out);
			events->n_calls++;
			events->call_open = true;
			events->arguments = 0;
		}
		if (arguments->n == events->arguments)
			continue;
		open_call_part(answer, "response.function_call_arguments.delta", "delta", out);
		write_unsent(arguments, &events->arguments, out);
		close_event(out);
	}
}

static void open_message(struct api_answer *answer, struct api_json *out)
{
	if (answer->events.message_open)
		return;
	answer->events.message_open = true;
	close_reasoning(answer, out);
	open_item(answer, "response.output_item.added", message_index(answer), out);
	write_message(answer, EMPTY, out);
	close_event(out);
	open_part(answer, "response.content_part.added", "msg", message_index(answer), "part", out);
	write_text_part(answer, EMPTY, out);
	close_event(out);
}

/* Log-probabilities are of the tokens that came with the text, and of those that were held back before. */
static void tell_message(struct api_answer *answer, struct api_json *out)
{
	struct api_response_stream *events = &answer->events;
	const struct api_json *rows = column(answer, COLUMN_CONTENT);
	open_message(answer, out);
	open_part(answer, "response.output_text.delta", "msg", message_index(answer), "delta", out);
	write_unsent(column(answer, COLUMN_TEXT), &events->text, out);
	size_t from = events->logprobs + (events->logprobs && rows->n > events->logprobs); /* without the comma */
	api_json_text(out, ",\"logprobs\":[");
	api_json_raw(out, rows->bytes + from, rows->n - from);
	events->logprobs = rows->n;
	api_json_text(out, "]");
	close_event(out);
}

static void close_message(struct api_answer *answer, struct api_json *out)
{
	uint32_t index = message_index(answer);
	const struct api_json *rows = column(answer, COLUMN_CONTENT);
	open_message(answer, out);
	open_part(answer, "response.output_text.done", "msg", index, "text", out);
	write_text(column(answer, COLUMN_TEXT), WHOLE, out);
	api_json_text(out, ",\"logprobs\":[");
	api_json_raw(out, rows->bytes, rows->n);
	api_json_text(out, "]");
	close_event(out);
	open_part(answer, "response.content_part.done", "msg", index, "part", out);
	write_text_part(answer, WHOLE, out);
	close_event(out);
	open_item(answer, "response.output_item.done", index, out);
	write_message(answer, WHOLE, out);
	close_event(out);
}

void api_response_begin(struct api_answer *answer, struct api_json *out)
{
	if (answer->events.created)
		return;
	answer->events.created = true;
	response_event(answer, "response.created", "in_progress", NULL, out);
	response_event(answer, "response.in_progress", "in_progress", NULL, out);
}

void api_response_news(struct api_answer *answer, struct api_json *out)
{
	uint32_t n_calls = answer->choices[0].split.n_calls;
	out->failed |= api_choice_failed(&answer->choices[0]);
	api_response_begin(answer, out);
	if (column(answer, COLUMN_REASONING)->n > answer->events.reasoning)
		tell_reasoning(answer, out);
	tell_calls(answer, calls_before(answer), out);
	if (column(answer, COLUMN_TEXT)->n > answer->events.text)
		tell_message(answer, out);
	tell_calls(answer, n_calls, out);
}

void api_response_finish(struct api_answer *answer, struct api_json *out)
{
	bool complete = strcmp(message_status(answer), "completed") == 0;
	api_response_news(answer, out);
	close_reasoning(answer, out);
	close_call(answer, out);
	if (has_message(answer))
		close_message(answer, out);
	response_event(answer, complete ? "response.completed" : "response.incomplete", message_status(answer), NULL,
		       out);
}

void api_response_fail(struct api_answer *answer, const struct api_error *error, struct api_json *out)
{
	response_event(answer, "response.failed", "failed", error, out);
}
