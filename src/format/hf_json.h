/* The JSON files beside the weights in a Hugging Face folder: config.json, generation_config.json and the like.
 *
 * They say what a model is in keys that are found by a path, "rope_scaling.factor" or "architectures.0"; a key that is
 * null is as good as absent, as the programs that write these files have it. No object may have a key twice, because
 * readers differ in which of two they believe. Messages name the file and the path. */
#ifndef WEIGHTD_FORMAT_HF_JSON_H
#define WEIGHTD_FORMAT_HF_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yyjson.h>

#include "src/err.h"

enum {
	HF_JSON_MAX_BYTES = 64 << 20, /* of a file; the largest known, indices of thousands of tensors, have some MiB */
	HF_JSON_MAX_DEPTH = 64,
};

struct hf_json {
	const char *file;     /* borrowed: its name, for messages */
	yyjson_doc *document; /* owned; NULL: there is no such file, and no key */
};

struct hf_string {
	const char *bytes; /* view into the document, not terminated */
	size_t n_bytes;
};

/* Parses a whole file, whose bytes may go afterwards: an object. -EINVAL, -ENOMEM; *out is untouched on failure. */
int hf_json_parse(const char *file, const void *bytes, size_t n_bytes, struct hf_json *out, struct err *err);
void hf_json_fini(struct hf_json *json);

/* The value at a path; NULL when it is absent or null. */
yyjson_val *hf_json_find(const struct hf_json *json, const char *path);

/* 0, -ENOENT (absent; *out untouched), -EINVAL (another type, out of range). */
int hf_json_u32(const struct hf_json *json, const char *path, uint32_t *out, struct err *err);
int hf_json_f32(const struct hf_json *json, const char *path, float *out, struct err *err); /* a finite number */
int hf_json_bool(const struct hf_json *json, const char *path, bool *out, struct err *err);
int hf_json_string(const struct hf_json *json, const char *path, struct hf_string *out, struct err *err);

/* "config.json: key 'a.b': what". Returns `code`. */
__attribute__((format(printf, 5, 6))) int hf_json_refuse(const struct hf_json *json, const char *path, int code,
							 struct err *err, const char *format, ...);

enum { HF_STRING_SHOWN_BYTES = 72 };
/* As messages show it: cut, and with '?' for every byte that isn't printable ASCII. Returns `out`. */
const char *hf_string_quote(const struct hf_string *string, char out[HF_STRING_SHOWN_BYTES]);
bool hf_string_is(const struct hf_string *string, const char *text);

#endif
