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

/* --- tool_choice ------------------------------------------------------------------------------ */

static int check_choice_word(const struct api_field *field, yyjson_val *value, struct api_error *error)
{
	if (yyjson_equals_str(value, "none") || yyjson_equals_str(value, "auto") ||
	    yyjson_equals_str(value, "required"))
		return 0;
	return api_error_set(error, 400, "invalid_value", field->name, "'%s' is \"%.32s\", which is not known",
			     field->name, yyjson_get_str(value));
}

/* A tool named as in the list of tools. */
static int check_choice_tool(yyjson_val *value, struct api_place place, struct api_error *error)
{
	if (!yyjson_equals_str(yyjson_obj_get(value, "type"), "function") ||
	    !yyjson_is_str(yyjson_obj_get(yyjson_obj_get(value, "function"), "name")))
		return api_error_type(error, place, "{\"type\": \"function\", \"function\": {\"name\": ...}}");
	return 0;
}

static int check_allowed_tools(yyjson_val *allowed, struct api_error *error)
{
	yyjson_val *mode = yyjson_obj_get(allowed, "mode"), *tools = yyjson_obj_get(allowed, "tools"), *tool;
	if (!yyjson_equals_str(mode, "auto") && !yyjson_equals_str(mode, "required"))
		return api_error_type(error, api_place("tool_choice.allowed_tools.mode"), "\"auto\" or \"required\"");
	if (!yyjson_arr_size(tools))
		return api_error_type(error, api_place("tool_choice.allowed_tools.tools"),
				      "a list of tools, one at least");
	yyjson_arr_iter items = yyjson_arr_iter_with(tools);
	for (size_t i = 0; (tool = yyjson_arr_iter_next(&items)); i++)
		if (check_choice_tool(tool, api_place("tool_choice.allowed_tools.tools[%zu]", i), error))
			return -1;
	return 0;
}

int api_read_tool_choice(const struct api_field *field, yyjson_val *value, struct api_request *request,
			 struct api_error *error)
{
	if (!yyjson_is_str(value) && !yyjson_is_obj(value))
		return api_error_set(error, 400, "invalid_type", field->name,
				     "'%s' must be \"none\", \"auto\", \"required\" or an object that names a tool",
				     field->name);
	request->choice = value;
	if (yyjson_is_str(value))
		return check_choice_word(field, value, error);
	if (yyjson_equals_str(yyjson_obj_get(value, "type"), "allowed_tools"))
		return check_allowed_tools(yyjson_obj_get(value, "allowed_tools"), error);
	return check_choice_tool(value, api_place("%s", field->name), error);
}

static bool is_choice(const struct api_request *request, const char *word)
{
	return yyjson_equals_str(request->choice, word);
}

/* The tools that may be called: all, or those that the choice names; each of them has to be in the list. */
static int find_callable(const struct api_request *request, yyjson_val *out[], size_t *n, struct api_error *error)
{
	yyjson_val *allowed = yyjson_obj_get(yyjson_obj_get(request->choice, "allowed_tools"), "tools");
	yyjson_val *one = yyjson_is_obj(request->choice) && !allowed ? request->choice : NULL;
	yyjson_val *list = allowed ? allowed : request->tools;
	size_t n_list = one ? 1 : yyjson_arr_size(list);
	yyjson_arr_iter items = yyjson_arr_iter_with(list);
	for (*n = 0; *n < n_list; ++*n) {
		yyjson_val *named = one ? one : yyjson_arr_iter_next(&items);
		yyjson_val *name = yyjson_obj_get(yyjson_obj_get(named, "function"), "name");
		if (*n == API_TOOLS_MAX || !(out[*n] = tool_named(request->tools, name)))
			return api_error_set(error, 400, "invalid_value", "tool_choice",
					     "'tool_choice' names a tool '%.64s', which 'tools' does not have",
					     yyjson_get_str(name));
	}
	return 0;
}

/* A function as the worker's grammar wants it. Without parameters there are no arguments; with an empty schema, or
 * where arguments are not to be held to theirs, they are any object. */
static void write_function(yyjson_val *function, bool enforced, struct api_json *out)
{
	yyjson_val *parameters = yyjson_obj_get(function, "parameters");
	api_json_text(out, "{\"name\":");
	api_json_value(out, yyjson_obj_get(function, "name"));
	api_json_text(out, ",\"parameters\":");
	if (!enforced || (yyjson_is_obj(parameters) && !yyjson_obj_size(parameters)))
		api_json_text(out, "{\"type\":\"object\"}");
	else if (!yyjson_is_obj(parameters))
		api_json_text(out, "{\"type\":\"object\",\"properties\":{}}");
	else
		api_json_value(out, parameters);
	api_json_text(out, "}");
}

/* The answer may be calls or what it was constrained to before: the constraint becomes part of that of the calls. Only
 * schemas can. */
static int join_constraint(struct api_request *request, struct api_json *source, struct api_error *error)
{
	const struct api_json *schema = &request->constraint_source;
	bool any_object = request->constraint == CALL_CONSTRAINT_OBJECT;
	if (request->constraint != CALL_CONSTRAINT_SCHEMA && !any_object)
		return api_error_set(error, 400, "invalid_value", request->constraint_field,
				     "'%s' can't be combined with 'tools', unless it is a JSON Schema",
				     request->constraint_field);
	yyjson_doc *document = yyjson_read(any_object ? "{\"type\":\"object\"}" : schema->bytes,
					   any_object ? 17 : schema->n, YYJSON_READ_NOFLAG);
	if (!document)
		return api_error_set(error, 400, "invalid_value", request->constraint_field, "'%s' is not valid JSON",
				     request->constraint_field);
	api_json_text(source, ",\"answer\":");
	api_json_value(source, yyjson_doc_get_root(document));
	yyjson_doc_free(document);
	request->constraint = CALL_CONSTRAINT_NONE;
	api_json_reset(&request->constraint_source);
	return 0;
}

/* Calls that have to be made, and arguments that have to fit, constrain the answer. Where a call is the model's choice
 * and no function is strict, what it writes is its own. */
static int constrain(struct api_request *request, struct api_error *error)
{
	yyjson_val *tools[API_TOOLS_MAX];
	bool restricted = yyjson_is_obj(request->choice), strict = false;
	bool automatic =
		yyjson_equals_str(yyjson_obj_get(yyjson_obj_get(request->choice, "allowed_tools"), "mode"), "auto");
	bool required = is_choice(request, "required") || (restricted && !automatic);
	struct api_json source = {0};
	size_t n;
	if (find_callable(request, tools, &n, error))
		return -1;
	request->one_call |= restricted && !yyjson_obj_get(request->choice, "allowed_tools");
	api_json_format(&source, "{\"required\":%s,\"one\":%s,\"functions\":[", required ? "true" : "false",
			request->one_call ? "true" : "false");
	for (size_t i = 0; i < n; i++) {
		yyjson_val *function = yyjson_obj_get(tools[i], "function");
		bool is_strict = yyjson_is_true(yyjson_obj_get(function, "strict"));
		strict |= is_strict;
		api_json_text(&source, i ? "," : "");
		write_function(function, required || is_strict, &source);
	}
	api_json_text(&source, "]");
	bool joined = request->constraint && !required && request->endpoint != API_TEMPLATE;
	int rc = joined ? join_constraint(request, &source, error) : 0;
	api_json_text(&source, "}");
	if (rc || source.failed)
		rc = rc ? rc : api_error_set(error, 500, NULL, NULL, "out of memory");
	else if (request->endpoint != API_TEMPLATE && (required || restricted || strict || joined))
		rc = api_constrain(request, CALL_CONSTRAINT_CALLS, "tools", source.bytes, source.n, error);
	api_json_fini(&source);
	return rc;
}

int api_tools_settle(struct api_request *request, struct api_error *error)
{
	request->one_call = !request->parallel_tool_calls;
	if (!request->tools && request->choice && !is_choice(request, "none") && !is_choice(request, "auto"))
		return api_error_set(error, 400, "invalid_value", "tool_choice",
				     "'tool_choice' asks for a call, and there are no 'tools'");
	if (!request->tools || is_choice(request, "none"))
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
	return constrain(request, error);
}

/* --- calls of earlier turns ------------------------------------------------------------------- */

int api_write_arguments(yyjson_val *arguments, struct api_place place, struct api_json *out, struct api_error *error)
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
	if (api_write_arguments(yyjson_obj_get(function, "arguments"), place, out, error))
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
