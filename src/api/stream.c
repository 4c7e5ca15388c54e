#include "src/api/stream.h"

#include <string.h>

static void open_event(const struct api_answer *answer, struct api_json *out)
{
	api_json_text(out, "data: ");
	api_answer_write_head(answer, answer->shape.chat ? "chat.completion.chunk" : "text_completion", out);
	api_json_text(out, ",\"choices\":[");
}

/* With the usage to come in an event of its own, all others say that this is not it. */
static void close_event(const struct api_answer *answer, struct api_json *out)
{
	api_json_text(out, answer->include_usage ? "],\"usage\":null}\n\n" : "]}\n\n");
}

void api_stream_begin(struct api_answer *answer, uint32_t index, struct api_json *out)
{
	struct api_choice *choice = &answer->choices[index];
	if (answer->endpoint == API_RESPONSE) {
		api_response_begin(answer, out);
		return;
	}
	if (!answer->shape.chat || choice->role_sent)
		return;
	choice->role_sent = true;
	open_event(answer, out);
	api_json_format(out,
			"{\"index\":%u,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null},"
			"\"logprobs\":null,\"finish_reason\":null}",
			index);
	close_event(answer, out);
}

/* The members of a delta. Text is among them unless another part grew alone. */
static void write_delta(struct api_choice *choice, struct api_json *out)
{
	const struct api_json *text = &choice->column[COLUMN_TEXT];
	bool alone = !text->n && api_choice_has_part_news(choice);
	if (!alone) {
		api_json_text(out, "\"content\":");
		api_json_string(out, text->bytes, text->n);
	}
	api_choice_write_part_news(choice, alone ? "" : ",", out);
}

void api_stream_news(struct api_answer *answer, uint32_t index, struct api_json *out)
{
	struct api_choice *choice = &answer->choices[index];
	struct api_json *column = choice->column;
	if (answer->endpoint == API_RESPONSE) {
		api_response_news(answer, out);
		return;
	}
	if (!api_choice_has_news(choice, &answer->shape))
		return;
	out->failed |= api_choice_failed(choice);
	api_stream_begin(answer, index, out);
	open_event(answer, out);
	api_json_format(out, answer->shape.chat ? "{\"index\":%u,\"delta\":{" : "{\"index\":%u,\"text\":", index);
	if (answer->shape.chat)
		write_delta(choice, out);
	else
		api_json_string(out, column[COLUMN_TEXT].bytes, column[COLUMN_TEXT].n);
	api_json_text(out, answer->shape.chat ? "},\"logprobs\":" : ",\"logprobs\":");
	api_choice_write_logprobs(choice, &answer->shape, out);
	api_json_text(out, ",\"finish_reason\":null");
	if (!choice->prompt_ids_sent)
		api_answer_write_ids(answer, "prompt_token_ids", &column[COLUMN_PROMPT_IDS], out);
	choice->prompt_ids_sent = true;
	api_answer_write_ids(answer, "token_ids", &column[COLUMN_IDS], out);
	api_json_text(out, "}");
	close_event(answer, out);
	api_choice_clear(choice);
}

void api_stream_finish(struct api_answer *answer, uint32_t index, struct api_json *out)
{
	if (answer->endpoint == API_RESPONSE) {
		api_response_finish(answer, out);
		return;
	}
	api_stream_begin(answer, index, out);
	api_stream_news(answer, index, out);
	open_event(answer, out);
	api_json_format(out, answer->shape.chat ? "{\"index\":%u,\"delta\":{}" : "{\"index\":%u,\"text\":\"\"", index);
	api_json_text(out, ",\"logprobs\":null,\"finish_reason\":");
	api_choice_write_finish(&answer->choices[index], out);
	api_json_text(out, "}");
	close_event(answer, out);
}

void api_stream_end(const struct api_answer *answer, struct api_json *out)
{
	if (answer->endpoint == API_RESPONSE)
		return;
	if (answer->include_usage) {
		open_event(answer, out);
		api_json_text(out, "],\"usage\":");
		api_answer_write_usage(answer, out);
		api_json_text(out, "}\n\n");
	}
	api_json_text(out, "data: [DONE]\n\n");
}

void api_stream_error(struct api_answer *answer, const struct api_error *error, struct api_json *out)
{
	if (answer->endpoint == API_RESPONSE) {
		api_response_fail(answer, error, out);
		return;
	}
	api_json_text(out, "data: ");
	api_error_write(error, out);
	api_json_text(out, "\n\n");
}
