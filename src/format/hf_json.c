#include "src/format/hf_json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/format/quote.h"

int hf_json_refuse(const struct hf_json *json, const char *path, int code, struct err *err, const char *format, ...)
{
	char what[160];
	va_list args;
	va_start(args, format);
	vsnprintf(what, sizeof what, format, args);
	va_end(args);
	return err_set(err, code, "%s: key '%s': %s", json->file, path, what);
}

const char *hf_string_quote(const struct hf_string *string, char out[HF_STRING_SHOWN_BYTES])
{
	return quote(string->bytes, string->n_bytes, out, HF_STRING_SHOWN_BYTES);
}

bool hf_string_is(const struct hf_string *string, const char *text)
{
	return string->n_bytes == strlen(text) && memcmp(string->bytes, text, string->n_bytes) == 0;
}

static struct hf_string string_of(yyjson_val *value)
{
	return (struct hf_string){yyjson_get_str(value), yyjson_get_len(value)};
}

/* --- parsing ---------------------------------------------------------------------------------- */

static int compare_keys(const void *a, const void *b)
{
	struct hf_string x = string_of(*(yyjson_val *const *)a), y = string_of(*(yyjson_val *const *)b);
	int order = memcmp(x.bytes, y.bytes, x.n_bytes < y.n_bytes ? x.n_bytes : y.n_bytes);
	return order ? order : (x.n_bytes > y.n_bytes) - (x.n_bytes < y.n_bytes);
}

static int check_keys(const struct hf_json *json, yyjson_val *object, struct err *err)
{
	size_t i, n, n_keys = yyjson_obj_size(object);
	yyjson_val *key, *value, **keys = calloc(n_keys + 1, sizeof(yyjson_val *));
	int rc = 0;
	if (!keys)
		return err_set(err, -ENOMEM, "%s: no memory for %zu keys", json->file, n_keys);
	yyjson_obj_foreach(object, i, n, key, value)
	{
		keys[i] = key;
	}
	qsort(keys, n_keys, sizeof *keys, compare_keys);
	for (i = 1; i < n_keys && rc == 0; i++) {
		char quoted[HF_STRING_SHOWN_BYTES];
		struct hf_string name = string_of(keys[i]);
		if (compare_keys(&keys[i - 1], &keys[i]) == 0)
			rc = hf_json_refuse(json, hf_string_quote(&name, quoted), -EINVAL, err, "is there twice");
	}
	free(keys);
	return rc;
}

/* Calls itself for every level, so their number has a bound. */
static int check_value(const struct hf_json *json, yyjson_val *value, unsigned depth, struct err *err)
{
	size_t i, n;
	yyjson_val *key, *child;
	int rc = 0;
	if (depth == HF_JSON_MAX_DEPTH)
		return err_set(err, -EINVAL, "%s: values are nested deeper than %d levels", json->file,
			       HF_JSON_MAX_DEPTH);
	if (yyjson_is_obj(value)) {
		rc = check_keys(json, value, err);
		yyjson_obj_foreach(value, i, n, key, child)
		{
			if (rc == 0 && yyjson_is_ctn(child))
				rc = check_value(json, child, depth + 1, err);
		}
	}
	yyjson_arr_foreach(value, i, n, child)
	{
		if (rc == 0 && yyjson_is_ctn(child))
			rc = check_value(json, child, depth + 1, err);
	}
	return rc;
}

int hf_json_parse(const char *file, const void *bytes, size_t n_bytes, struct hf_json *out, struct err *err)
{
	struct hf_json json = {.file = file};
	yyjson_read_err wrong;
	if (n_bytes > HF_JSON_MAX_BYTES)
		return err_set(err, -EINVAL, "%s: %zu bytes, at most %d are possible", file, n_bytes,
			       HF_JSON_MAX_BYTES);
	/* Without the in-situ flag the bytes are only read. */
	json.document = yyjson_read_opts((char *)(uintptr_t)bytes, n_bytes, 0, NULL, &wrong);
	if (!json.document)
		return wrong.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION
			       ? err_set(err, -ENOMEM, "%s: no memory for its values", file)
			       : err_set(err, -EINVAL, "%s: offset %zu: %s", file, wrong.pos, wrong.msg);
	yyjson_val *root = yyjson_doc_get_root(json.document);
	int rc = yyjson_is_obj(root) ? check_value(&json, root, 0, err)
				     : err_set(err, -EINVAL, "%s: offset 0: an object is expected", file);
	if (rc) {
		hf_json_fini(&json);
		return rc;
	}
	*out = json;
	return 0;
}

void hf_json_fini(struct hf_json *json)
{
	if (!json)
		return;
	yyjson_doc_free(json->document);
	*json = (struct hf_json){0};
}

/* --- looking up ------------------------------------------------------------------------------- */

static yyjson_val *child_of(yyjson_val *value, const char *name, size_t n_bytes)
{
	return yyjson_is_arr(value) ? yyjson_arr_get(value, strtoul(name, NULL, 10))
				    : yyjson_obj_getn(value, name, n_bytes);
}

yyjson_val *hf_json_find(const struct hf_json *json, const char *path)
{
	yyjson_val *value = yyjson_doc_get_root(json->document);
	while (value) {
		size_t n = strcspn(path, ".");
		value = child_of(value, path, n);
		if (!path[n])
			break;
		path += n + 1;
	}
	return yyjson_is_null(value) ? NULL : value;
}

int hf_json_u32(const struct hf_json *json, const char *path, uint32_t *out, struct err *err)
{
	yyjson_val *value = hf_json_find(json, path);
	if (!value)
		return -ENOENT;
	if (!yyjson_is_uint(value) || yyjson_get_uint(value) > UINT32_MAX)
		return hf_json_refuse(json, path, -EINVAL, err, "a whole number up to %u is expected", UINT32_MAX);
	*out = (uint32_t)yyjson_get_uint(value);
	return 0;
}

int hf_json_f32(const struct hf_json *json, const char *path, float *out, struct err *err)
{
	yyjson_val *value = hf_json_find(json, path);
	if (!value)
		return -ENOENT;
	float number = yyjson_is_num(value) ? (float)yyjson_get_num(value) : NAN;
	if (!isfinite(number))
		return hf_json_refuse(json, path, -EINVAL, err, "a number that fits 32 bits is expected");
	*out = number;
	return 0;
}

int hf_json_bool(const struct hf_json *json, const char *path, bool *out, struct err *err)
{
	yyjson_val *value = hf_json_find(json, path);
	if (!value)
		return -ENOENT;
	if (!yyjson_is_bool(value))
		return hf_json_refuse(json, path, -EINVAL, err, "true or false is expected");
	*out = yyjson_get_bool(value);
	return 0;
}

int hf_json_string(const struct hf_json *json, const char *path, struct hf_string *out, struct err *err)
{
	yyjson_val *value = hf_json_find(json, path);
	if (!value)
		return -ENOENT;
	if (!yyjson_is_str(value))
		return hf_json_refuse(json, path, -EINVAL, err, "a string is expected");
	*out = string_of(value);
	return 0;
}
