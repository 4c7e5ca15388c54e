/* A conversation: checked, and written as the JSON array that the chat template gets. Content given in parts is joined,
 * because templates treat content as a string; all other members are the template's business and pass as they are. */
#include <string.h>

#include "src/api/tools.h"

static struct api_place at(size_t message, const char *member)
{
	return api_place("messages[%zu]%s", message, member);
}

static struct api_place at_part(size_t message, size_t part, const char *member)
{
	return api_place("messages[%zu].content[%zu]%s", message, part, member);
}

/* The text of one part, or NULL with the error set. */
static yyjson_val *part_text(yyjson_val *part, size_t message, size_t i, struct api_error *error)
{
	yyjson_val *type = yyjson_obj_get(part, "type"), *text = yyjson_obj_get(part, "text");
	if (!yyjson_is_str(type)) {
		api_error_type(error, at_part(message, i, ""), "an object with a string 'type'");
	} else if (!yyjson_equals_str(type, "text")) {
		api_error_set(error, 400, "unsupported_field", at_part(message, i, ".type").text,
			      "content of type '%.64s' is not supported in this version, only 'text'",
			      yyjson_get_str(type));
	} else if (!yyjson_is_str(text)) {
		api_error_type(error, at_part(message, i, ".text"), "a string");
	} else {
		return text;
	}
	return NULL;
}

static int write_parts(yyjson_val *parts, size_t message, struct api_json *out, struct api_error *error)
{
	struct api_json joined = {0};
	yyjson_arr_iter items = yyjson_arr_iter_with(parts);
	int rc = 0;
	size_t i = 0;
	for (yyjson_val *part; !rc && (part = yyjson_arr_iter_next(&items)); i++) {
		yyjson_val *text = part_text(part, message, i, error);
		if (text)
			api_json_raw(&joined, yyjson_get_str(text), yyjson_get_len(text));
		else
			rc = -1;
	}
	api_json_string(out, joined.n ? joined.bytes : "", joined.n);
	out->failed |= joined.failed;
	api_json_fini(&joined);
	return rc;
}

static int write_content(yyjson_val *content, size_t message, struct api_json *out, struct api_error *error)
{
	if (yyjson_is_arr(content))
		return write_parts(content, message, out, error);
	if (!yyjson_is_str(content) && !yyjson_is_null(content))
		return api_error_type(error, at(message, ".content"), "a string, null, or a list of parts");
	api_json_value(out, content);
	return 0;
}

static int write_member(yyjson_val *key, yyjson_val *value, size_t message, struct api_json *out,
			struct api_error *error)
{
	if (yyjson_equals_str(key, "content"))
		return write_content(value, message, out, error);
	if (yyjson_equals_str(key, "tool_calls"))
		return api_write_message_calls(value, message, out, error);
	api_json_value(out, value);
	return 0;
}

static int write_message(yyjson_val *message, size_t index, struct api_json *out, struct api_error *error)
{
	if (!yyjson_is_obj(message))
		return api_error_type(error, at(index, ""), "an object");
	yyjson_val *role = yyjson_obj_get(message, "role");
	if (!yyjson_is_str(role) || yyjson_get_len(role) == 0)
		return api_error_type(error, at(index, ".role"), "a string that is not empty");
	/* What an assistant did may have been something else than text. */
	if (!yyjson_obj_get(message, "content") && !yyjson_equals_str(role, "assistant"))
		return api_error_set(error, 400, "missing_field", at(index, ".content").text, "'%s' is missing",
				     at(index, ".content").text);
	if (yyjson_equals_str(role, "tool") && !yyjson_is_str(yyjson_obj_get(message, "tool_call_id")))
		return api_error_type(error, at(index, ".tool_call_id"),
				      "a string: the id of the call that this is the result of");
	yyjson_val *name = yyjson_obj_get(message, "name");
	if (name && !yyjson_is_str(name) && !yyjson_is_null(name))
		return api_error_type(error, at(index, ".name"), "a string");
	yyjson_obj_iter members = yyjson_obj_iter_with(message);
	const char *separator = "{";
	for (yyjson_val *key; (key = yyjson_obj_iter_next(&members));) {
		yyjson_val *value = yyjson_obj_iter_get_val(key);
		/* No calls: templates only ask whether there is such a member. */
		if (yyjson_equals_str(key, "tool_calls") &&
		    (yyjson_is_null(value) || (yyjson_is_arr(value) && !yyjson_arr_size(value))))
			continue;
		api_json_text(out, separator);
		separator = ",";
		api_json_string(out, yyjson_get_str(key), yyjson_get_len(key));
		api_json_text(out, ":");
		if (write_member(key, value, index, out, error))
			return -1;
	}
	/* Clients leave out what is null; templates ask for it by name. */
	api_json_text(out, yyjson_obj_get(message, "content") ? "}" : ",\"content\":null}");
	return 0;
}

int api_read_messages(const struct api_field *field, yyjson_val *value, struct api_request *request,
		      struct api_error *error)
{
	if (!yyjson_is_arr(value) || yyjson_arr_size(value) == 0)
		return api_error_set(error, 400, "invalid_type", field->name,
				     "'%s' must be a list of one message or more", field->name);
	struct api_json *out = &request->messages;
	yyjson_arr_iter items = yyjson_arr_iter_with(value);
	size_t i = 0;
	for (yyjson_val *message; (message = yyjson_arr_iter_next(&items)); i++) {
		api_json_text(out, i ? "," : "[");
		if (write_message(message, i, out, error))
			return -1;
	}
	api_json_text(out, "]");
	return out->failed ? api_error_set(error, 500, NULL, NULL, "out of memory") : 0;
}
