/* JSON text being written: a growing byte buffer and the few writers an answer needs.
 *
 * Errors stick: after a failed allocation every writer does nothing and `failed` stays set, so a caller builds a whole
 * answer and looks once. Commas and brackets are the caller's: answers have fixed shapes, and a template in plain sight
 * reads better than a tree that is built to be written once. */
#ifndef WEIGHTD_SRC_API_JSON_H
#define WEIGHTD_SRC_API_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yyjson.h>

struct api_json {
	char *bytes; /* owned */
	size_t n, capacity;
	bool failed; /* out of memory: the bytes are not to be used */
};

void api_json_fini(struct api_json *json);
/* Empty again. Keeps its memory, unless that is more than ordinary answers need. */
void api_json_reset(struct api_json *json);

void api_json_raw(struct api_json *json, const void *bytes, size_t n_bytes);
void api_json_text(struct api_json *json, const char *text); /* terminated, as it is */
__attribute__((format(printf, 2, 3))) void api_json_format(struct api_json *json, const char *format, ...);

/* A quoted string. Bytes that are not UTF-8 come out as U+FFFD, one per maximal ill-formed part (Unicode 16,
 * section 3.9, table 3-8), so any bytes make a valid string. */
void api_json_string(struct api_json *json, const char *bytes, size_t n_bytes);
/* A value of a document, as compact JSON. */
void api_json_value(struct api_json *json, yyjson_val *value);
/* The shortest decimal that reads back as the same float. JSON has no infinities: those become ±9999 (as OpenAI writes
 * the log of a zero probability), and NaN null. */
void api_json_f32(struct api_json *json, float value);
void api_json_u64(struct api_json *json, uint64_t value);
/* [n] bytes as a list of numbers. */
void api_json_bytes(struct api_json *json, const char *bytes, size_t n_bytes);

/* Code points that api_json_string writes for these bytes (a U+FFFD counts one). */
size_t api_json_code_points(const char *bytes, size_t n_bytes);

#endif
