#include "src/api/document.h"

#include <stdlib.h>
#include <string.h>

static int compare_keys(const void *a, const void *b)
{
	yyjson_val *x = *(yyjson_val *const *)a, *y = *(yyjson_val *const *)b;
	size_t n = yyjson_get_len(x), m = yyjson_get_len(y);
	if (n != m)
		return n < m ? -1 : 1;
	return memcmp(yyjson_get_str(x), yyjson_get_str(y), n);
}

/* Sorting finds equal keys in n log n: a body of nothing but keys is a cheap way to ask for a quadratic search. */
static int check_keys(yyjson_val *object, struct api_error *error)
{
	size_t n = yyjson_obj_size(object), i = 0;
	if (n < 2)
		return 0;
	yyjson_val **keys = malloc(n * sizeof(yyjson_val *));
	if (!keys)
		return api_error_set(error, 500, NULL, NULL, "out of memory");
	yyjson_obj_iter members = yyjson_obj_iter_with(object);
	for (yyjson_val *key; (key = yyjson_obj_iter_next(&members));)
		keys[i++] = key;
	qsort(keys, n, sizeof(yyjson_val *), compare_keys);
	int rc = 0;
	for (i = 1; i < n && !rc; i++)
		if (compare_keys(&keys[i - 1], &keys[i]) == 0)
			rc = api_error_set(error, 400, "duplicate_key", yyjson_get_str(keys[i]),
					   "the key '%.64s' appears twice in one object", yyjson_get_str(keys[i]));
	free(keys);
	return rc;
}

/* Recursive, but never deeper than API_DEPTH_MAX. */
static int check_value(yyjson_val *value, int depth, struct api_error *error)
{
	if (!yyjson_is_ctn(value))
		return 0;
	if (depth > API_DEPTH_MAX)
		return api_error_set(error, 400, "nested_too_deep", NULL, "the JSON is nested deeper than %d levels",
				     API_DEPTH_MAX);
	int rc = 0;
	if (yyjson_is_obj(value)) {
		rc = check_keys(value, error);
		yyjson_obj_iter members = yyjson_obj_iter_with(value);
		for (yyjson_val *key; !rc && (key = yyjson_obj_iter_next(&members));)
			rc = check_value(yyjson_obj_iter_get_val(key), depth + 1, error);
	} else {
		yyjson_arr_iter items = yyjson_arr_iter_with(value);
		for (yyjson_val *item; !rc && (item = yyjson_arr_iter_next(&items));)
			rc = check_value(item, depth + 1, error);
	}
	return rc;
}

int api_document_read(const char *body, size_t n_bytes, yyjson_doc **out, struct api_error *error)
{
	yyjson_read_err fault = {0};
	if (n_bytes == 0)
		return api_error_set(error, 400, "invalid_json", NULL,
				     "the request has no body; a JSON object is expected");
	/* Not in place: the reader then promises not to write to the body, hence the cast. */
	yyjson_doc *document = yyjson_read_opts((char *)(uintptr_t)body, n_bytes, YYJSON_READ_NOFLAG, NULL, &fault);
	if (!document && fault.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
		return api_error_set(error, 500, NULL, NULL, "out of memory");
	if (!document)
		return api_error_set(error, 400, "invalid_json", NULL, "the body is not valid JSON: %s at byte %zu",
				     fault.msg, fault.pos);
	yyjson_val *root = yyjson_doc_get_root(document);
	int rc = yyjson_is_obj(root)
			 ? check_value(root, 1, error)
			 : api_error_set(error, 400, "invalid_json", NULL,
					 "the body is a JSON %s; an object is expected", yyjson_get_type_desc(root));
	if (rc) {
		yyjson_doc_free(document);
		return rc;
	}
	*out = document;
	return 0;
}
