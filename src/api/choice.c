#include "src/api/choice.h"

#include <errno.h>
#include <string.h>

void api_choice_fini(struct api_choice *choice)
{
	for (int i = 0; i < N_COLUMNS; i++)
		api_json_fini(&choice->column[i]);
	api_split_fini(&choice->split);
}

bool api_choice_failed(const struct api_choice *choice)
{
	for (int i = 0; i < N_COLUMNS; i++)
		if (choice->column[i].failed)
			return true;
	for (uint32_t i = 0; i < choice->split.n_calls; i++)
		if (choice->split.calls[i].name.failed || choice->split.calls[i].arguments.failed)
			return true;
	return choice->split.failed;
}

/* The column, ready for its next item. */
static struct api_json *next(struct api_choice *choice, enum api_column column)
{
	struct api_json *json = &choice->column[column];
	if (json->n)
		api_json_raw(json, ",", 1);
	return json;
}

/* Where the keys of an object being written lie, so that none is written twice: different tokens may look alike, as
 * parts of UTF-8 sequences all print as U+FFFD. */
struct keys {
	size_t at[CALL_LOGPROBS_MAX + 1], n_bytes[CALL_LOGPROBS_MAX + 1];
	unsigned n;
};

static void write_top(const struct record_piece *piece, struct keys *keys, struct api_json *out)
{
	size_t start = out->n;
	api_json_text(out, keys->n ? "," : "{");
	size_t at = out->n;
	api_json_string(out, piece->bytes, piece->n_bytes);
	size_t n_bytes = out->n - at;
	for (unsigned i = 0; i < keys->n && !out->failed; i++) {
		if (keys->n_bytes[i] == n_bytes && memcmp(out->bytes + keys->at[i], out->bytes + at, n_bytes) == 0) {
			out->n = start;
			return;
		}
	}
	keys->at[keys->n] = at;
	keys->n_bytes[keys->n++] = n_bytes;
	api_json_text(out, ":");
	api_json_f32(out, piece->logprob);
}

/* {"token": logprob, …}, most probable first, and the token itself when it is not among them. */
static void write_top_map(const struct record_token *t, struct api_json *out)
{
	struct keys keys = {.n = 0};
	for (uint32_t i = 0; i < t->n_top; i++)
		write_top(&t->top[i], &keys, out);
	write_top(&t->token, &keys, out);
	api_json_text(out, "}");
}

static void add_row_tops(struct api_choice *choice, const struct record_token *t)
{
	struct api_json *ids = next(choice, COLUMN_ROW_TOP_IDS), *values = next(choice, COLUMN_ROW_TOP_VALUES);
	if (!t->has_logprob) {
		api_json_text(ids, "null");
		api_json_text(values, "null");
		return;
	}
	for (uint32_t i = 0; i < t->n_top; i++) {
		api_json_text(ids, i ? "," : "[");
		api_json_u64(ids, t->top[i].id);
		api_json_text(values, i ? "," : "[");
		api_json_f32(values, t->top[i].logprob);
	}
	api_json_text(ids, t->n_top ? "]" : "[]");
	api_json_text(values, t->n_top ? "]" : "[]");
}

/* OpenAI's completion logprobs are parallel lists; a prompt's first token was predicted by nothing: null. */
static void add_completion_row(struct api_choice *choice, const struct api_shape *shape, const struct record_token *t)
{
	api_json_string(next(choice, COLUMN_TOKENS), t->token.bytes, t->token.n_bytes);
	api_json_u64(next(choice, COLUMN_TEXT_OFFSETS), choice->offset);
	choice->offset += api_json_code_points(t->token.bytes, t->token.n_bytes);
	struct api_json *own = next(choice, COLUMN_TOKEN_LOGPROBS), *top = next(choice, COLUMN_TOP_LOGPROBS);
	if (t->has_logprob) {
		api_json_f32(own, t->token.logprob);
		write_top_map(t, top);
	} else {
		api_json_text(own, "null");
		api_json_text(top, "null");
	}
	if (shape->token_ids) {
		api_json_u64(next(choice, COLUMN_ROW_IDS), t->token.id);
		add_row_tops(choice, t);
	}
}

static void write_piece(const struct record_piece *piece, struct api_json *out)
{
	api_json_text(out, "{\"token\":");
	api_json_string(out, piece->bytes, piece->n_bytes);
	api_json_text(out, ",\"logprob\":");
	api_json_f32(out, piece->logprob);
	api_json_text(out, ",\"bytes\":");
	api_json_bytes(out, piece->bytes, piece->n_bytes);
}

static void add_chat_row(struct api_choice *choice, const struct record_token *t)
{
	struct api_json *out = next(choice, COLUMN_CONTENT);
	write_piece(&t->token, out);
	api_json_text(out, ",\"top_logprobs\":[");
	for (uint32_t i = 0; i < t->n_top; i++) {
		if (i)
			api_json_text(out, ",");
		write_piece(&t->top[i], out);
		api_json_text(out, "}");
	}
	api_json_text(out, "]}");
}

void api_choice_accepted(struct api_choice *choice, const struct api_shape *shape, const struct call_accepted *accepted,
			 uint64_t salt)
{
	choice->prompt_tokens = accepted->prompt_tokens;
	if (shape->chat)
		api_split_begin(&choice->split, shape->tools ? accepted->tool_format : TOOLS_NONE, accepted->reasoning,
				shape->one_call, salt);
}

static struct api_split_parts parts_of(struct api_choice *choice)
{
	return (struct api_split_parts){&choice->column[COLUMN_TEXT], &choice->column[COLUMN_REASONING]};
}

static void add_text(struct api_choice *choice, const char *text, size_t n_bytes)
{
	struct api_split_parts parts = parts_of(choice);
	api_split_feed(&choice->split, text, n_bytes, &parts);
}

void api_choice_token(struct api_choice *choice, const struct api_shape *shape, const struct record_token *token)
{
	if (shape->token_ids)
		api_json_u64(next(choice, token->is_prompt ? COLUMN_PROMPT_IDS : COLUMN_IDS), token->token.id);
	if (token->is_prompt && !shape->echo)
		return; /* it came for its id alone */
	if (shape->logprobs && !shape->chat)
		add_completion_row(choice, shape, token);
	else if (shape->logprobs)
		add_chat_row(choice, token);
	add_text(choice, token->text, token->text_bytes);
	choice->reasoning_tokens += !token->is_prompt && choice->split.state == SPLIT_REASONING;
}

void api_choice_done(struct api_choice *choice, const struct record_done *done)
{
	struct api_split_parts parts = parts_of(choice);
	add_text(choice, done->text, done->text_bytes);
	api_split_finish(&choice->split, &parts);
	choice->prompt_tokens = done->prompt_tokens;
	choice->generated_tokens = done->generated_tokens;
	choice->finish = done->finish;
}

void api_choice_text(struct api_choice *choice, const void *bytes, size_t n_bytes)
{
	api_json_raw(&choice->column[COLUMN_TEXT], bytes, n_bytes);
}

int api_choice_ids(struct api_choice *choice, const void *bytes, size_t n_bytes)
{
	if (n_bytes % sizeof(uint32_t))
		return -EPROTO;
	for (size_t i = 0; i < n_bytes; i += sizeof(uint32_t)) {
		uint32_t id;
		memcpy(&id, (const char *)bytes + i, sizeof id);
		api_json_u64(next(choice, COLUMN_IDS), id);
	}
	return 0;
}

bool api_choice_has_part_news(const struct api_choice *choice)
{
	for (uint32_t i = 0; i < choice->split.n_calls; i++)
		if (!choice->split.calls[i].sent || choice->split.calls[i].arguments.n)
			return true;
	return choice->column[COLUMN_REASONING].n;
}

bool api_choice_has_news(const struct api_choice *choice, const struct api_shape *shape)
{
	const struct api_json *c = choice->column;
	return c[COLUMN_TEXT].n || api_choice_has_part_news(choice) || c[COLUMN_IDS].n || c[COLUMN_TOKENS].n ||
	       c[COLUMN_CONTENT].n || (shape->token_ids && !choice->prompt_ids_sent && c[COLUMN_PROMPT_IDS].n);
}

static void write_column(const struct api_choice *choice, const char *name, enum api_column column,
			 struct api_json *out)
{
	api_json_text(out, name);
	api_json_raw(out, choice->column[column].bytes, choice->column[column].n);
	api_json_text(out, "]");
}

void api_choice_write_logprobs(const struct api_choice *choice, const struct api_shape *shape, struct api_json *out)
{
	if (!shape->logprobs) {
		api_json_text(out, "null");
		return;
	}
	if (shape->chat) {
		write_column(choice, "{\"content\":[", COLUMN_CONTENT, out);
		api_json_text(out, ",\"refusal\":null");
	} else {
		write_column(choice, "{\"tokens\":[", COLUMN_TOKENS, out);
		write_column(choice, ",\"token_logprobs\":[", COLUMN_TOKEN_LOGPROBS, out);
		write_column(choice, ",\"top_logprobs\":[", COLUMN_TOP_LOGPROBS, out);
		write_column(choice, ",\"text_offset\":[", COLUMN_TEXT_OFFSETS, out);
	}
	if (shape->token_ids && !shape->chat) {
		write_column(choice, ",\"token_ids\":[", COLUMN_ROW_IDS, out);
		write_column(choice, ",\"top_ids\":[", COLUMN_ROW_TOP_IDS, out);
		write_column(choice, ",\"top_values\":[", COLUMN_ROW_TOP_VALUES, out);
	}
	api_json_text(out, "}");
}

static void write_reasoning(const struct api_choice *choice, struct api_json *out)
{
	const struct api_json *reasoning = &choice->column[COLUMN_REASONING];
	api_json_text(out, "\"reasoning_content\":");
	api_json_string(out, reasoning->bytes, reasoning->n);
}

static void write_call_head(const struct api_tool_call *call, struct api_json *out)
{
	api_json_format(out, "\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":", call->id);
	api_json_string(out, call->name.bytes, call->name.n);
	api_json_text(out, ",\"arguments\":");
}

void api_choice_write_parts(const struct api_choice *choice, struct api_json *out)
{
	const struct api_split *split = &choice->split;
	if (choice->column[COLUMN_REASONING].n) {
		api_json_text(out, ",");
		write_reasoning(choice, out);
	}
	for (uint32_t i = 0; i < split->n_calls; i++) {
		api_json_text(out, i ? ",{" : ",\"tool_calls\":[{");
		write_call_head(&split->calls[i], out);
		api_json_string(out, split->calls[i].arguments.bytes, split->calls[i].arguments.n);
		api_json_text(out, i + 1 < split->n_calls ? "}}" : "}}]");
	}
}

void api_choice_write_part_news(struct api_choice *choice, const char *separator, struct api_json *out)
{
	bool any = false;
	if (choice->column[COLUMN_REASONING].n) {
		api_json_text(out, separator);
		separator = ",";
		write_reasoning(choice, out);
	}
	for (uint32_t i = 0; i < choice->split.n_calls; i++) {
		struct api_tool_call *call = &choice->split.calls[i];
		if (call->sent && !call->arguments.n)
			continue;
		api_json_text(out, any ? "," : separator);
		api_json_format(out, "%s{\"index\":%u,", any ? "" : "\"tool_calls\":[", i);
		if (call->sent)
			api_json_text(out, "\"function\":{\"arguments\":");
		else
			write_call_head(call, out);
		api_json_string(out, call->arguments.bytes, call->arguments.n);
		api_json_text(out, "}}");
		call->sent = any = true;
	}
	if (any)
		api_json_text(out, "]");
}

void api_choice_write_finish(const struct api_choice *choice, struct api_json *out)
{
	switch (choice->finish) {
	case FINISH_STOP:
		api_json_text(out, choice->split.n_calls ? "\"tool_calls\"" : "\"stop\"");
		return;
	case FINISH_LENGTH:
		api_json_text(out, "\"length\"");
		return;
	case FINISH_CANCELLED:
		break;
	}
	api_json_text(out, "null");
}

void api_choice_clear(struct api_choice *choice)
{
	for (int i = 0; i < N_COLUMNS; i++)
		if (i != COLUMN_PROMPT_IDS || choice->prompt_ids_sent)
			api_json_reset(&choice->column[i]);
	for (uint32_t i = 0; i < choice->split.n_calls; i++)
		api_json_reset(&choice->split.calls[i].arguments);
}
