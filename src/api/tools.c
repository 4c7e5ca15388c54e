#include "src/api/tools.h"

#include <string.h>

#include "src/api/document.h"

static struct api_place at_tool(size_t i, const char *member)
{
	return api_place("tools[%zu]%s", i, member);
}

static struct api_place at_call(size_t message, size_t i, const char *member)
{
	return api_place("messages[%zu].tool_calls[%zu]%s", message, i, member);
}

/* What OpenAI's API allows, which is also what any model's format can carry. */
static bool is_name(yyjson_val *value)
{
	const char *name = yyjson_get_str(value);
	size_t n = yyjson_get_len(value);
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
	return yyjson_is_str(value) && n >= 1 && n <= API_TOOL_NAME_MAX && strspn(name, allowed) == n;
}

/* --- tools ------------------------------------------------------------------------------------ */

static int check_tool(yyjson_val *tool, size_t i, struct api_error *error)
{
	yyjson_val *type = yyjson_obj_get(tool, "type"), *function = yyjson_obj_get(tool, "function");
	if (!yyjson_is_str(type))
		return api_error_type(error, at_tool(i, ""), "an object with a string 'type'");
	if (!yyjson_equals_str(type, "function"))
		return api_error_set(error, 400, "unsupported_field", at_tool(i, ".type").text,
				     "tools of type '%.64s' are not supported in this version, only 'function'",
				     yyjson_get_str(type));
	if (!yyjson_is_obj(function))
		return api_error_type(error, at_tool(i, ".function"), "an object");
	if (!is_name(yyjson_obj_get(function, "name")))
		return api_error_type(error, at_tool(i, ".function.name"), "1 to 64 letters, digits, '_' and '-'");
	yyjson_val *description = yyjson_obj_get(function, "description");
	if (description && !yyjson_is_str(description) && !yyjson_is_null(description))
		return api_error_type(error, at_tool(i, ".function.description"), "a string");
	yyjson_val *parameters = yyjson_obj_get(function, "parameters");
	if (parameters && !yyjson_is_obj(parameters) && !yyjson_is_null(parameters))
		return api_error_type(error, at_tool(i, ".function.parameters"), "an object");
	yyjson_val *strict = yyjson_obj_get(function, "strict");
	if (strict && !yyjson_is_bool(strict) && !yyjson_is_null(strict))
		return api_error_type(error, at_tool(i, ".function.strict"), "true or false");
	if (yyjson_is_true(strict))
		return api_error_set(error, 400, "unsupported_field", at_tool(i, ".function.strict").text,
				     "'%s' is not supported in this version: arguments are what the model writes",
				     at_tool(i, ".function.strict").text);
	return 0;
}

static yyjson_val *tool_named(yyjson_val *tools, yyjson_val *name)
{
	yyjson_arr_iter items = yyjson_arr_iter_with(tools);
	for (yyjson_val *tool; (tool = yyjson_arr_iter_next(&items));)
		if (yyjson_equals(yyjson_obj_get(yyjson_obj_get(tool, "function"), "name"), name))
			return tool;
	return NULL;
}

int api_read_tools(const struct api_field *field, yyjson_val *value, struct api_request *request,
		   struct api_error *error)
{
	if (!yyjson_is_arr(value))
		return api_error_set(error, 400, "invalid_type", field->name, "'%s' must be a list", field->name);
	if ((double)yyjson_arr_size(value) > field->max)
		return api_error_set(error, 400, "out_of_range", field->name, "'%s' has more than %.0f tools",
				     field->name, field->max);
	yyjson_arr_iter items = yyjson_arr_iter_with(value);
	size_t i = 0;
	for (yyjson_val *tool; (tool = yyjson_arr_iter_next(&items)); i++) {
		if (check_tool(tool, i, error))
			return -1;
		yyjson_val *name = yyjson_obj_get(yyjson_obj_get(tool, "function"), "name");
		if (tool_named(value, name) != tool)
			return api_error_set(error, 400, "invalid_value", at_tool(i, ".function.name").text,
					     "'%s' has the name of an earlier tool", at_tool(i, ".function.name").text);
	}
	request->tools = yyjson_arr_size(value) ? value : NULL;
	return 0;
}

/* Whether a call is made is the model's choice; it can be kept from making one, but not yet be made to. */
int api_read_tool_choice(const struct api_field *field, yyjson_val *value, struct api_request *request,
			 struct api_error *error)
{
	if (!yyjson_is_str(value) && !yyjson_is_obj(value))
		return api_error_set(error, 400, "invalid_type", field->name,
				     "'%s' must be \"none\", \"auto\", \"required\" or an object that names a tool",
				     field->name);
	request->no_calls = yyjson_equals_str(value, "none");
	if (request->no_calls || yyjson_equals_str(value, "auto"))
		return 0;
	if (yyjson_is_obj(value) || yyjson_equals_str(value, "required"))
		return api_error_set(error, 400, "unsupported_field", field->name,
				     "'%s' can only be \"none\" or \"auto\" in this version: a call can't be enforced",
				     field->name);
	return api_error_set(error, 400, "invalid_value", field->name, "'%s' is \"%.32s\", which is not known",
			     field->name, yyjson_get_str(value));
}

int api_tools_settle(struct api_request *request, struct api_error *error)
{
	if (!request->tools || request->no_calls)
		return 0;
	if (request->kwargs && yyjson_obj_get(request->kwargs, "tools"))
		return api_error_set(error, 400, "invalid_value", "chat_template_kwargs",
				     "'tools' is given twice: by itself and in 'chat_template_kwargs'");
	struct api_json *out = &request->variables;
	api_json_reset(out);
	api_json_text(out, "{\"tools\":");
	api_json_value(out, request->tools);
	yyjson_obj_iter members = yyjson_obj_iter_with(request->kwargs);
	for (yyjson_val *key; (key = yyjson_obj_iter_next(&members));) {
		api_json_text(out, ",");
		api_json_string(out, yyjson_get_str(key), yyjson_get_len(key));
		api_json_text(out, ":");
		api_json_value(out, yyjson_obj_iter_get_val(key));
	}
	api_json_text(out, "}");
	request->calls_tools = true;
	return 0;
}

/* --- calls of earlier turns ------------------------------------------------------------------- */

static int write_arguments(yyjson_val *arguments, struct api_place place, struct api_json *out, struct api_error *error)
{
	if (yyjson_is_obj(arguments)) {
		api_json_value(out, arguments);
		return 0;
	}
	if (!yyjson_is_str(arguments))
		return api_error_type(error, place, "a string");
	if (yyjson_get_len(arguments) == 0) { /* some servers say so for a tool without parameters */
		api_json_text(out, "{}");
		return 0;
	}
	yyjson_doc *document = NULL;
	struct api_error why;
	if (api_document_read(yyjson_get_str(arguments), yyjson_get_len(arguments), &document, &why))
		return api_error_set(error, why.status, "invalid_value", place.text,
				     "'%s' is not a JSON object: %.160s", place.text, why.message);
	api_json_value(out, yyjson_doc_get_root(document));
	yyjson_doc_free(document);
	return 0;
}

static int write_call(yyjson_val *call, size_t message, size_t i, struct api_json *out, struct api_error *error)
{
	yyjson_val *id = yyjson_obj_get(call, "id"), *type = yyjson_obj_get(call, "type");
	yyjson_val *function = yyjson_obj_get(call, "function"), *name = yyjson_obj_get(function, "name");
	if (!yyjson_is_obj(call))
		return api_error_type(error, at_call(message, i, ""), "an object");
	if (!yyjson_is_str(id))
		return api_error_type(error, at_call(message, i, ".id"), "a string");
	if (type && !yyjson_equals_str(type, "function"))
		return api_error_type(error, at_call(message, i, ".type"), "\"function\"");
	if (!yyjson_is_obj(function))
		return api_error_type(error, at_call(message, i, ".function"), "an object");
	if (!yyjson_is_str(name) || yyjson_get_len(name) == 0)
		return api_error_type(error, at_call(message, i, ".function.name"), "a string that is not empty");
	api_json_text(out, "{\"id\":");
	api_json_value(out, id);
	api_json_text(out, ",\"type\":\"function\",\"function\":{\"name\":");
	api_json_value(out, name);
	api_json_text(out, ",\"arguments\":");
	struct api_place place = at_call(message, i, ".function.arguments");
	if (write_arguments(yyjson_obj_get(function, "arguments"), place, out, error))
		return -1;
	api_json_text(out, "}}");
	return 0;
}

int api_write_message_calls(yyjson_val *calls, size_t message, struct api_json *out, struct api_error *error)
{
	struct api_place place = api_place("messages[%zu].tool_calls", message);
	if (!yyjson_is_arr(calls))
		return api_error_type(error, place, "a list");
	if (yyjson_arr_size(calls) > API_MESSAGE_CALLS_MAX)
		return api_error_type(error, place, "a list of 128 calls at most");
	yyjson_arr_iter items = yyjson_arr_iter_with(calls);
	size_t i = 0;
	for (yyjson_val *call; (call = yyjson_arr_iter_next(&items)); i++) {
		api_json_text(out, i ? "," : "[");
		if (write_call(call, message, i, out, error))
			return -1;
	}
	api_json_text(out, "]");
	return 0;
}
