/* The fields of /v1/responses that chat completions do not have, or have in another form. A response is a chat: what
 * differs is brought into that form here, and from there on is read by what reads it for chats. Faults are told in the
 * words of the request that came. */
#include <string.h>

#include "src/api/document.h"
#include "src/api/response.h"
#include "src/api/tools.h"

static int wrong(const struct api_field *field, const char *wanted, struct api_error *error)
{
	return api_error_type(error, api_place("%s", field->name), wanted);
}

/* --- fields that are looked at once all have been read ---------------------------------------- */

int api_read_response_value(const struct api_field *field, yyjson_val *value, struct api_request *request,
			    struct api_error *error)
{
	(void)error;
	*(yyjson_val **)((char *)request + field->offset) = value;
	return 0;
}

int api_read_metadata(const struct api_field *field, yyjson_val *value, struct api_request *request,
		      struct api_error *error)
{
	yyjson_obj_iter members = yyjson_obj_iter_with(value);
	if (!yyjson_is_obj(value) || (double)yyjson_obj_size(value) > field->max)
		return wrong(field, "an object of 16 texts at most", error);
	for (yyjson_val *key; (key = yyjson_obj_iter_next(&members));)
		if (!yyjson_is_str(yyjson_obj_iter_get_val(key)))
			return wrong(field, "an object of texts", error);
	request->metadata = value;
	return 0;
}

int api_read_include(const struct api_field *field, yyjson_val *value, struct api_request *request,
		     struct api_error *error)
{
	yyjson_arr_iter items = yyjson_arr_iter_with(value);
	size_t i = 0;
	if (!yyjson_is_arr(value))
		return wrong(field, "a list", error);
	for (yyjson_val *item; (item = yyjson_arr_iter_next(&items)); i++) {
		struct api_place place = api_place("include[%zu]", i);
		if (yyjson_equals_str(item, "message.output_text.logprobs"))
			request->chat_logprobs = true;
		else if (!yyjson_equals_str(item, "reasoning.encrypted_content")) /* reasoning comes as it is */
			return api_error_set(error, 400, "unsupported_field", place.text,
					     "'%s' asks for what there is not in this version", place.text);
	}
	return 0;
}

int api_read_reasoning(const struct api_field *field, yyjson_val *value, struct api_request *request,
		       struct api_error *error)
{
	(void)request;
	yyjson_obj_iter members = yyjson_obj_iter_with(value);
	if (!yyjson_is_obj(value))
		return wrong(field, "an object", error);
	for (yyjson_val *key; (key = yyjson_obj_iter_next(&members));) {
		struct api_place place = api_place("reasoning.%.40s", yyjson_get_str(key));
		if (!yyjson_is_null(yyjson_obj_iter_get_val(key)))
			return api_error_set(error, 400, "unsupported_field", place.text,
					     "'%s' is not supported in this version (may be: null)", place.text);
	}
	return 0;
}

/* --- input: items become messages ------------------------------------------------------------- */

/* The message being written: an assistant's may go on with calls. */
enum open_message { CLOSED, ASSISTANT, CALLS };

struct conversation {
	struct api_json *out;
	struct api_error *error;
	enum open_message open;
	bool any;
};

static void close_message(struct conversation *c)
{
	if (c->open)
		api_json_text(c->out, c->open == CALLS ? "]}" : "}");
	c->open = CLOSED;
}

static void begin_message(struct conversation *c, const char *role)
{
	close_message(c);
	api_json_text(c->out, c->any ? "," : "[");
	api_json_format(c->out, "{\"role\":\"%s\",\"content\":", role);
	c->any = true;
}

/* A text, or a list of parts, which are joined as those of a chat's message are. */
static int write_text(struct conversation *c, yyjson_val *value, struct api_place place)
{
	struct api_json joined = {0};
	yyjson_arr_iter parts = yyjson_arr_iter_with(value);
	size_t i = 0;
	int rc = 0;
	if (yyjson_is_str(value)) {
		api_json_value(c->out, value);
		return 0;
	}
	if (!yyjson_is_arr(value))
		return api_error_type(c->error, place, "a string or a list of parts");
	for (yyjson_val *part; !rc && (part = yyjson_arr_iter_next(&parts)); i++) {
		struct api_place at = api_place("%.40s[%zu]", place.text, i);
		yyjson_val *type = yyjson_obj_get(part, "type"), *text = yyjson_obj_get(part, "text");
		bool is_text = yyjson_equals_str(type, "input_text") || yyjson_equals_str(type, "output_text");
		if (!yyjson_is_str(type))
			rc = api_error_type(c->error, at, "an object with a string 'type'");
		else if (!is_text)
			rc = api_error_set(c->error, 400, "unsupported_field", at.text,
					   "'%s': content of type '%.64s' is not supported in this version, only text",
					   at.text, yyjson_get_str(type));
		else if (!yyjson_is_str(text))
			rc = api_error_type(c->error, api_place("%.60s.text", at.text), "a string");
		else
			api_json_raw(&joined, yyjson_get_str(text), yyjson_get_len(text));
	}
	api_json_string(c->out, joined.bytes, joined.n);
	c->out->failed |= joined.failed;
	api_json_fini(&joined);
	return rc;
}

static int add_message(struct conversation *c, yyjson_val *item, size_t i)
{
	static const char *const roles[][2] = {
		{"user", "user"}, {"assistant", "assistant"}, {"system", "system"}, {"developer", "system"}};
	yyjson_val *role = yyjson_obj_get(item, "role");
	for (size_t r = 0; r < sizeof roles / sizeof *roles; r++) {
		if (!yyjson_equals_str(role, roles[r][0]))
			continue;
		begin_message(c, roles[r][1]);
		c->open = ASSISTANT; /* whoever says it, the bracket is open; calls follow an assistant's words alone */
		if (write_text(c, yyjson_obj_get(item, "content"), api_place("input[%zu].content", i)))
			return -1;
		if (r != 1)
			close_message(c);
		return 0;
	}
	return api_error_type(c->error, api_place("input[%zu].role", i),
			      "\"user\", \"assistant\", \"system\" or \"developer\"");
}

static int add_call(struct conversation *c, yyjson_val *item, size_t i)
{
	yyjson_val *id = yyjson_obj_get(item, "call_id"), *name = yyjson_obj_get(item, "name");
	if (!yyjson_is_str(id))
		return api_error_type(c->error, api_place("input[%zu].call_id", i), "a string");
	if (!yyjson_is_str(name) || !yyjson_get_len(name))
		return api_error_type(c->error, api_place("input[%zu].name", i), "a string that is not empty");
	if (c->open == CLOSED) {
		begin_message(c, "assistant");
		api_json_text(c->out, "\"\"");
		c->open = ASSISTANT;
	}
	api_json_text(c->out, c->open == CALLS ? "," : ",\"tool_calls\":[");
	c->open = CALLS;
	api_json_text(c->out, "{\"id\":");
	api_json_value(c->out, id);
	api_json_text(c->out, ",\"type\":\"function\",\"function\":{\"name\":");
	api_json_value(c->out, name);
	api_json_text(c->out, ",\"arguments\":");
	if (api_write_arguments(yyjson_obj_get(item, "arguments"), api_place("input[%zu].arguments", i), c->out,
				c->error))
		return -1;
	api_json_text(c->out, "}}");
	return 0;
}

static int add_call_output(struct conversation *c, yyjson_val *item, size_t i)
{
	yyjson_val *id = yyjson_obj_get(item, "call_id");
	if (!yyjson_is_str(id))
		return api_error_type(c->error, api_place("input[%zu].call_id", i), "a string");
	begin_message(c, "tool");
	if (write_text(c, yyjson_obj_get(item, "output"), api_place("input[%zu].output", i)))
		return -1;
	api_json_text(c->out, ",\"tool_call_id\":");
	api_json_value(c->out, id);
	api_json_text(c->out, "}");
	return 0;
}

static int add_item(struct conversation *c, yyjson_val *item, size_t i)
{
	yyjson_val *type = yyjson_obj_get(item, "type");
	if (!yyjson_is_obj(item))
		return api_error_type(c->error, api_place("input[%zu]", i), "an object");
	if (!type || yyjson_equals_str(type, "message"))
		return add_message(c, item, i);
	if (yyjson_equals_str(type, "function_call"))
		return add_call(c, item, i);
	if (yyjson_equals_str(type, "function_call_output"))
		return add_call_output(c, item, i);
	if (yyjson_equals_str(type, "reasoning")) /* of an earlier turn: models are not shown it again */
		return 0;
	if (!yyjson_is_str(type))
		return api_error_type(c->error, api_place("input[%zu].type", i), "a string");
	return api_error_set(c->error, 400, "unsupported_field", api_place("input[%zu].type", i).text,
			     "items of type '%.64s' are not supported in this version", yyjson_get_str(type));
}

static int write_messages(struct api_request *request, struct api_error *error)
{
	struct conversation c = {.out = &request->messages, .error = error};
	yyjson_val *input = request->input;
	yyjson_arr_iter items = yyjson_arr_iter_with(input);
	if (!yyjson_is_str(input) && !yyjson_arr_size(input))
		return api_error_type(error, api_place("input"), "a string, or a list of one item or more");
	if (request->instructions.bytes) {
		begin_message(&c, "system");
		api_json_string(c.out, request->instructions.bytes, request->instructions.n_bytes);
		api_json_text(c.out, "}");
	}
	if (yyjson_is_str(input)) {
		begin_message(&c, "user");
		api_json_value(c.out, input);
		api_json_text(c.out, "}");
	}
	size_t i = 0;
	for (yyjson_val *item; (item = yyjson_arr_iter_next(&items)); i++)
		if (add_item(&c, item, i))
			return -1;
	close_message(&c);
	api_json_text(c.out, c.any ? "]" : "[]");
	return c.out->failed ? api_error_set(error, 500, NULL, NULL, "out of memory") : 0;
}

/* --- tools and formats: one level deeper in a chat -------------------------------------------- */

/* {"type":"function","function":{the other members}} of {"type":"function", ...}; anything else stays as it is. */
static void write_nested(yyjson_val *value, const char *type, const char *name, struct api_json *out)
{
	yyjson_obj_iter members = yyjson_obj_iter_with(value);
	const char *separator = "";
	if (!yyjson_equals_str(yyjson_obj_get(value, "type"), type)) {
		api_json_value(out, value);
		return;
	}
	api_json_format(out, "{\"type\":\"%s\",\"%s\":{", type, name);
	for (yyjson_val *key; (key = yyjson_obj_iter_next(&members));) {
		yyjson_val *member = yyjson_obj_iter_get_val(key);
		if (yyjson_equals_str(key, "type") || yyjson_is_null(member))
			continue;
		api_json_text(out, separator);
		separator = ",";
		api_json_value(out, key);
		api_json_text(out, ":");
		api_json_value(out, member);
	}
	api_json_text(out, "}}");
}

static void write_nested_list(yyjson_val *list, struct api_json *out)
{
	yyjson_arr_iter items = yyjson_arr_iter_with(list);
	size_t i = 0;
	if (!yyjson_is_arr(list)) {
		api_json_value(out, list);
		return;
	}
	api_json_text(out, "[");
	for (yyjson_val *item; (item = yyjson_arr_iter_next(&items)); i++) {
		api_json_text(out, i ? "," : "");
		write_nested(item, "function", "function", out);
	}
	api_json_text(out, "]");
}

static void write_choice(yyjson_val *choice, struct api_json *out)
{
	if (!yyjson_equals_str(yyjson_obj_get(choice, "type"), "allowed_tools")) {
		write_nested(choice, "function", "function", out);
		return;
	}
	yyjson_val *mode = yyjson_obj_get(choice, "mode");
	api_json_text(out, "{\"type\":\"allowed_tools\",\"allowed_tools\":{\"tools\":");
	write_nested_list(yyjson_obj_get(choice, "tools"), out);
	api_json_text(out, ",\"mode\":");
	if (mode)
		api_json_value(out, mode);
	else
		api_json_text(out, "null");
	api_json_text(out, "}}");
}

/* The `text` of a response: {"format": ..., "verbosity": ...}. */
static int check_text(yyjson_val *text, struct api_error *error)
{
	yyjson_obj_iter members = yyjson_obj_iter_with(text);
	if (!yyjson_is_obj(text))
		return api_error_type(error, api_place("text"), "an object");
	for (yyjson_val *key; (key = yyjson_obj_iter_next(&members));) {
		yyjson_val *value = yyjson_obj_iter_get_val(key);
		struct api_place place = api_place("text.%.40s", yyjson_get_str(key));
		if (yyjson_equals_str(key, "format") || yyjson_is_null(value) ||
		    (yyjson_equals_str(key, "verbosity") && yyjson_equals_str(value, "medium")))
			continue;
		return api_error_set(error, 400, "unsupported_field", place.text,
				     "'%s' is not supported in this version", place.text);
	}
	return 0;
}

/* Members of the chat that says the same; those that are missing are left out. */
static void write_chat(const struct api_request *request, struct api_json *out)
{
	yyjson_val *format = yyjson_obj_get(request->text, "format");
	api_json_text(out, "{\"\":0");
	if (request->response_tools) {
		api_json_text(out, ",\"tools\":");
		write_nested_list(request->response_tools, out);
	}
	if (request->response_choice) {
		api_json_text(out, ",\"tool_choice\":");
		write_choice(request->response_choice, out);
	}
	if (format && !yyjson_is_null(format)) {
		api_json_text(out, ",\"response_format\":");
		write_nested(format, "json_schema", "json_schema", out);
	}
	api_json_text(out, "}");
}

/* "tools[0].function.name" is "tools[0].name" in a response. */
static void tell_flat(char *text)
{
	static const char *const levels[] = {".function", ".allowed_tools"};
	for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
		size_t n = strlen(levels[i]);
		for (char *at; (at = strstr(text, levels[i]));)
			memmove(at, at + n, strlen(at + n) + 1);
	}
}

static int read_chat(struct api_request *request, struct api_error *error)
{
	static const struct api_field tools = {.name = "tools", .max = API_TOOLS_MAX}, choice = {.name = "tool_choice"},
				      format = {.name = "text.format"};
	yyjson_val *root = yyjson_doc_get_root(request->converted), *value;
	int rc = 0;
	if ((value = yyjson_obj_get(root, "tools")))
		rc = api_read_tools(&tools, value, request, error);
	if (!rc && (value = yyjson_obj_get(root, "tool_choice")))
		rc = api_read_tool_choice(&choice, value, request, error);
	if (!rc && (value = yyjson_obj_get(root, "response_format")))
		rc = api_read_response_format(&format, value, request, error);
	if (rc) {
		tell_flat(error->param);
		tell_flat(error->message);
	}
	return rc;
}

int api_response_settle(struct api_request *request, struct api_error *error)
{
	struct api_json chat = {0};
	if (write_messages(request, error) || (request->text && check_text(request->text, error)))
		return -1;
	if (request->top_logprobs != UINT32_MAX && request->top_logprobs)
		request->chat_logprobs = true;
	write_chat(request, &chat);
	if (!chat.failed)
		request->converted = yyjson_read(chat.bytes, chat.n, 0);
	api_json_fini(&chat);
	return request->converted ? read_chat(request, error) : api_error_set(error, 500, NULL, NULL, "out of memory");
}
