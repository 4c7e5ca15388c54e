#include "src/api/json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/utf8.h"

void api_json_fini(struct api_json *json)
{
	free(json->bytes);
	*json = (struct api_json){0};
}

enum { KEPT_BYTES = 256 << 10 };

void api_json_reset(struct api_json *json)
{
	if (json->capacity > KEPT_BYTES)
		api_json_fini(json);
	json->n = 0;
}

/* Room for n more bytes, or NULL. */
static char *room(struct api_json *json, size_t n)
{
	if (json->failed)
		return NULL;
	if (json->capacity - json->n < n) {
		size_t need, capacity = json->capacity ? json->capacity : 128;
		if (__builtin_add_overflow(json->n, n, &need) || need > SIZE_MAX / 4) {
			json->failed = true;
			return NULL;
		}
		while (capacity < need)
			capacity *= 2;
		char *bytes = realloc(json->bytes, capacity);
		if (!bytes) {
			json->failed = true;
			return NULL;
		}
		json->bytes = bytes;
		json->capacity = capacity;
	}
	return json->bytes + json->n;
}

void api_json_raw(struct api_json *json, const void *bytes, size_t n_bytes)
{
	char *to = n_bytes ? room(json, n_bytes) : NULL;
	if (!to)
		return;
	memcpy(to, bytes, n_bytes);
	json->n += n_bytes;
}

void api_json_text(struct api_json *json, const char *text)
{
	api_json_raw(json, text, strlen(text));
}

void api_json_format(struct api_json *json, const char *format, ...)
{
	char text[512];
	va_list args;
	va_start(args, format);
	int n = vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (n < 0 || (size_t)n >= sizeof text)
		json->failed = true; /* only short, bounded pieces are written this way */
	else
		api_json_raw(json, text, (size_t)n);
}

/* The escape of one ASCII character, or NULL when it stands for itself. */
static const char *escape(unsigned char c, char out[8])
{
	switch (c) {
	case '"':
		return "\\\"";
	case '\\':
		return "\\\\";
	case '\n':
		return "\\n";
	case '\r':
		return "\\r";
	case '\t':
		return "\\t";
	default:
		if (c >= 0x20 && c != 0x7F)
			return NULL;
		snprintf(out, 8, "\\u%04x", c);
		return out;
	}
}

void api_json_string(struct api_json *json, const char *bytes, size_t n_bytes)
{
	if (n_bytes == 0) /* perhaps of no buffer at all */
		bytes = "";
	size_t plain = 0; /* start of the bytes that stand for themselves and are not written yet */
	api_json_raw(json, "\"", 1);
	for (size_t i = 0; i < n_bytes;) {
		char code[8];
		size_t length;
		const char *instead = NULL;
		if (utf8_step(bytes + i, n_bytes - i, &length) != UTF8_CHARACTER)
			instead = "\xEF\xBF\xBD";
		else if (length == 1)
			instead = escape((unsigned char)bytes[i], code);
		if (instead) {
			api_json_raw(json, bytes + plain, i - plain);
			api_json_text(json, instead);
		}
		i += length;
		if (instead)
			plain = i;
	}
	api_json_raw(json, bytes + plain, n_bytes - plain);
	api_json_raw(json, "\"", 1);
}

size_t api_json_code_points(const char *bytes, size_t n_bytes)
{
	size_t n = 0, length;
	for (size_t i = 0; i < n_bytes; i += length, n++)
		utf8_step(bytes + i, n_bytes - i, &length);
	return n;
}

void api_json_value(struct api_json *json, yyjson_val *value)
{
	size_t n;
	char *text = yyjson_val_write(value, YYJSON_WRITE_NOFLAG, &n);
	if (text)
		api_json_raw(json, text, n);
	else
		json->failed = true;
	free(text);
}

void api_json_f32(struct api_json *json, float value)
{
	char text[32];
	if (isnan(value)) {
		api_json_text(json, "null");
		return;
	}
	if (isinf(value))
		value = value < 0 ? -9999.0f : 9999.0f;
	for (int digits = 6; digits <= 9; digits++) { /* 9 always suffice for binary32 */
		snprintf(text, sizeof text, "%.*g", digits, (double)value);
		if (strtof(text, NULL) == value)
			break;
	}
	api_json_text(json, text);
}

void api_json_u64(struct api_json *json, uint64_t value)
{
	char text[20], *p = text + sizeof text;
	do
		*--p = (char)('0' + value % 10);
	while (value /= 10);
	api_json_raw(json, p, (size_t)(text + sizeof text - p));
}

void api_json_bytes(struct api_json *json, const char *bytes, size_t n_bytes)
{
	api_json_raw(json, "[", 1);
	for (size_t i = 0; i < n_bytes; i++) {
		if (i)
			api_json_raw(json, ",", 1);
		api_json_u64(json, (unsigned char)bytes[i]);
	}
	api_json_raw(json, "]", 1);
}
