#include "src/api/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int api_error_set(struct api_error *error, int status, const char *code, const char *param, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	error->status = status;
	snprintf(error->code, sizeof error->code, "%s", code ? code : "");
	snprintf(error->param, sizeof error->param, "%s", param ? param : "");
	vsnprintf(error->message, sizeof error->message, format, args);
	va_end(args);
	return -1;
}

struct api_place api_place(const char *format, ...)
{
	struct api_place place;
	va_list args;
	va_start(args, format);
	vsnprintf(place.text, sizeof place.text, format, args);
	va_end(args);
	return place;
}

int api_error_type(struct api_error *error, struct api_place place, const char *wanted)
{
	return api_error_set(error, 400, "invalid_type", place.text, "'%s' must be %s", place.text, wanted);
}

static const char *type_of(int status)
{
	if (status == 429)
		return "rate_limit_error";
	return status >= 500 ? "server_error" : "invalid_request_error";
}

static void write_or_null(struct api_json *out, const char *text)
{
	if (text[0])
		api_json_string(out, text, strlen(text));
	else
		api_json_text(out, "null");
}

void api_error_write(const struct api_error *error, struct api_json *out)
{
	api_json_text(out, "{\"error\":{\"message\":");
	api_json_string(out, error->message, strlen(error->message));
	api_json_format(out, ",\"type\":\"%s\",\"param\":", type_of(error->status));
	write_or_null(out, error->param);
	api_json_text(out, ",\"code\":");
	write_or_null(out, error->code);
	api_json_text(out, "}}");
}
