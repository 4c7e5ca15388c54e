/* Tools in requests: the list a model may call, and calls it made in earlier turns. */
#ifndef WEIGHTD_SRC_API_TOOLS_H
#define WEIGHTD_SRC_API_TOOLS_H

#include "src/api/fields.h"

enum { API_TOOLS_MAX = 128, API_TOOL_NAME_MAX = 64, API_MESSAGE_CALLS_MAX = 128 };

api_field_reader api_read_tools, api_read_tool_choice;

/* Once all fields are read: the template's variables get `tools`, unless the client wants none called. */
int api_tools_settle(struct api_request *request, struct api_error *error);

/* A call's arguments, a text or an object, as the object that templates are written for. `place`: for errors. */
int api_write_arguments(yyjson_val *arguments, struct api_place place, struct api_json *out, struct api_error *error);
/* The `tool_calls` of message number `message`, written for the template: arguments are an object there, not the text
 * that OpenAI's API has, because that is what templates are written for. */
int api_write_message_calls(yyjson_val *calls, size_t message, struct api_json *out, struct api_error *error);

#endif
