#include "src/format/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "src/format/quote.h"

/* What the header says is at fault is named by its place: strings are read in place, so a name's address tells it. */
struct parse {
	struct safetensors file;
	uint64_t data_bytes; /* of all tensors: the file without length and header */
	struct err *err;
};

static const struct {
	const char *name;
	uint32_t bytes;
} types[] = {
	[SAFETENSORS_F32] = {"F32", 4},
	[SAFETENSORS_F16] = {"F16", 2},
	[SAFETENSORS_BF16] = {"BF16", 2},
};

enum { N_TYPES = sizeof types / sizeof *types };

const char *safetensors_type_name(enum safetensors_type type)
{
	return types[type].name;
}

uint32_t safetensors_type_bytes(enum safetensors_type type)
{
	return types[type].bytes;
}

const char *safetensors_quote(const struct safetensors_string *string, char out[SAFETENSORS_QUOTE_BYTES])
{
	return quote(string->bytes, string->n_bytes, out, SAFETENSORS_QUOTE_BYTES);
}

static struct safetensors_string string_of(yyjson_val *value)
{
	/* No string is longer than the header. */
	return (struct safetensors_string){yyjson_get_str(value), (uint32_t)yyjson_get_len(value)};
}

static int compare(const struct safetensors_string *a, const struct safetensors_string *b)
{
	int order = memcmp(a->bytes, b->bytes, a->n_bytes < b->n_bytes ? a->n_bytes : b->n_bytes);
	return order ? order : (a->n_bytes > b->n_bytes) - (a->n_bytes < b->n_bytes);
}

/* --- messages --------------------------------------------------------------------------------- */

static uint64_t place(const struct parse *parse, const struct safetensors_string *string)
{
	return SAFETENSORS_LENGTH_BYTES + (uint64_t)(string->bytes - parse->file.header);
}

__attribute__((format(printf, 4, 5))) static int
refuse(const struct parse *parse, const struct safetensors_string *name, int code, const char *format, ...)
{
	char what[120], quoted[SAFETENSORS_QUOTE_BYTES];
	va_list args;
	va_start(args, format);
	vsnprintf(what, sizeof what, format, args);
	va_end(args);
	return err_set(parse->err, code, "offset %" PRIu64 ": tensor '%s': %s", place(parse, name),
		       safetensors_quote(name, quoted), what);
}

/* --- one tensor ------------------------------------------------------------------------------- */

static int read_type(const struct parse *parse, yyjson_val *value, struct safetensors_tensor *tensor)
{
	char quoted[24];
	if (!yyjson_is_str(value))
		return refuse(parse, &tensor->name, -EINVAL, "dtype: a string is expected");
	for (uint32_t i = 0; i < N_TYPES; i++)
		if (yyjson_equals_str(value, types[i].name)) {
			tensor->type = (enum safetensors_type)i;
			return 0;
		}
	return refuse(parse, &tensor->name, -ENOTSUP, "dtype: %s is not supported (F32, F16 and BF16 are)",
		      quote(yyjson_get_str(value), yyjson_get_len(value), quoted, sizeof quoted));
}

static int read_shape(const struct parse *parse, yyjson_val *value, struct safetensors_tensor *tensor)
{
	size_t i, n;
	yyjson_val *extent;
	if (!yyjson_is_arr(value))
		return refuse(parse, &tensor->name, -EINVAL, "shape: a list is expected");
	if (yyjson_arr_size(value) > SAFETENSORS_MAX_DIMS)
		return refuse(parse, &tensor->name, -ENOTSUP, "shape: %zu dimensions, at most %d are supported",
			      yyjson_arr_size(value), SAFETENSORS_MAX_DIMS);
	tensor->n_dims = (uint32_t)yyjson_arr_size(value);
	for (i = 0; i < SAFETENSORS_MAX_DIMS; i++)
		tensor->dim[i] = 1;
	yyjson_arr_foreach(value, i, n, extent)
	{
		if (!yyjson_is_uint(extent))
			return refuse(parse, &tensor->name, -EINVAL, "shape: a whole number is expected");
		tensor->dim[i] = yyjson_get_uint(extent);
	}
	return 0;
}

static int read_offsets(const struct parse *parse, yyjson_val *value, struct safetensors_tensor *tensor)
{
	yyjson_val *begin = yyjson_arr_get(value, 0), *end = yyjson_arr_get(value, 1);
	if (yyjson_arr_size(value) != 2 || !yyjson_is_uint(begin) || !yyjson_is_uint(end))
		return refuse(parse, &tensor->name, -EINVAL, "data_offsets: two whole numbers are expected");
	uint64_t first = yyjson_get_uint(begin), behind = yyjson_get_uint(end);
	if (first > behind || behind > parse->data_bytes)
		return refuse(parse, &tensor->name, -EINVAL,
			      "data_offsets: %" PRIu64 " to %" PRIu64 " of %" PRIu64 " bytes", first, behind,
			      parse->data_bytes);
	tensor->offset = parse->file.data_offset + first;
	tensor->bytes = behind - first;
	return 0;
}

/* The bytes that a type and shape take; a zero among the extents makes them none, whatever the others are. */
static int check_bytes(const struct parse *parse, const struct safetensors_tensor *tensor)
{
	uint64_t expected = types[tensor->type].bytes;
	bool overflows = false, empty = false;
	for (uint32_t i = 0; i < tensor->n_dims; i++) {
		empty |= tensor->dim[i] == 0;
		overflows |= __builtin_mul_overflow(expected, tensor->dim[i], &expected);
	}
	if (empty)
		expected = 0;
	else if (overflows)
		return refuse(parse, &tensor->name, -EINVAL, "shape: more than 2^64 bytes");
	if (expected != tensor->bytes)
		return refuse(parse, &tensor->name, -EINVAL,
			      "data_offsets: %" PRIu64 " bytes, but type and shape take %" PRIu64, tensor->bytes,
			      expected);
	return 0;
}

/* Every key is one of three and there are three, so that each is there once if none is twice. */
static int read_tensor(const struct parse *parse, yyjson_val *key, yyjson_val *value, struct safetensors_tensor *tensor)
{
	size_t i, n;
	yyjson_val *field, *of_field, *dtype = NULL, *shape = NULL, *offsets = NULL;
	char quoted[24];
	tensor->name = string_of(key);
	if (!yyjson_is_obj(value))
		return refuse(parse, &tensor->name, -EINVAL, "an object is expected");
	yyjson_obj_foreach(value, i, n, field, of_field)
	{
		yyjson_val **known = yyjson_equals_str(field, "dtype")		? &dtype
				     : yyjson_equals_str(field, "shape")	? &shape
				     : yyjson_equals_str(field, "data_offsets") ? &offsets
										: NULL;
		quote(yyjson_get_str(field), yyjson_get_len(field), quoted, sizeof quoted);
		if (!known)
			return refuse(parse, &tensor->name, -EINVAL, "'%s' is no key of a tensor", quoted);
		if (*known)
			return refuse(parse, &tensor->name, -EINVAL, "the key '%s' is there twice", quoted);
		*known = of_field;
	}
	int rc = read_type(parse, dtype, tensor);
	if (rc == 0)
		rc = read_shape(parse, shape, tensor);
	if (rc == 0)
		rc = read_offsets(parse, offsets, tensor);
	return rc ? rc : check_bytes(parse, tensor);
}

/* --- all of them ------------------------------------------------------------------------------ */

static int by_data(const void *a, const void *b)
{
	const struct safetensors_tensor *first = a, *second = b;
	if (first->offset != second->offset)
		return first->offset < second->offset ? -1 : 1;
	/* What is empty lies before what begins at the same byte. */
	return (first->bytes > second->bytes) - (first->bytes < second->bytes);
}

static int check_tiling(const struct parse *parse)
{
	uint64_t next = parse->file.data_offset;
	for (uint32_t i = 0; i < parse->file.n_tensors; i++) {
		const struct safetensors_tensor *tensor = &parse->file.tensors[i];
		if (tensor->offset != next)
			return refuse(parse, &tensor->name, -EINVAL,
				      "data_offsets: begins %s the end of the tensor before it, at data byte %" PRIu64,
				      tensor->offset > next ? "behind" : "before",
				      tensor->offset - parse->file.data_offset);
		next += tensor->bytes;
	}
	if (next != parse->file.data_offset + parse->data_bytes)
		return err_set(parse->err, -EINVAL, "offset %" PRIu64 ": data: %" PRIu64 " bytes belong to no tensor",
			       next, parse->file.data_offset + parse->data_bytes - next);
	return 0;
}

static int by_name(const void *a, const void *b, void *context)
{
	const struct safetensors_tensor *tensors = context;
	return compare(&tensors[*(const uint32_t *)a].name, &tensors[*(const uint32_t *)b].name);
}

static int order_names(struct parse *parse)
{
	struct safetensors *file = &parse->file;
	for (uint32_t i = 0; i < file->n_tensors; i++)
		file->by_name[i] = i;
	qsort_r(file->by_name, file->n_tensors, sizeof *file->by_name, by_name, file->tensors);
	for (uint32_t i = 1; i < file->n_tensors; i++) {
		const struct safetensors_tensor *tensor = &file->tensors[file->by_name[i]];
		if (compare(&file->tensors[file->by_name[i - 1]].name, &tensor->name) == 0)
			return refuse(parse, &tensor->name, -EINVAL, "is there twice");
	}
	return 0;
}

static int by_key(const void *a, const void *b)
{
	const struct safetensors_pair *first = a, *second = b;
	return compare(&first->key, &second->key);
}

static int read_metadata(struct parse *parse, yyjson_val *object)
{
	struct safetensors *file = &parse->file;
	size_t i, n;
	yyjson_val *key, *value;
	char quoted[SAFETENSORS_QUOTE_BYTES];
	if (file->metadata)
		return err_set(parse->err, -EINVAL, "offset 8: header, __metadata__: is there twice");
	if (!yyjson_is_obj(object))
		return err_set(parse->err, -EINVAL, "offset 8: header, __metadata__: an object is expected");
	file->metadata = calloc(yyjson_obj_size(object) + 1, sizeof *file->metadata);
	if (!file->metadata)
		return -ENOMEM;
	yyjson_obj_foreach(object, i, n, key, value)
	{
		struct safetensors_string name = string_of(key);
		if (!yyjson_is_str(value))
			return err_set(parse->err, -EINVAL,
				       "offset %" PRIu64 ": header, __metadata__ '%s': a string is expected",
				       place(parse, &name), safetensors_quote(&name, quoted));
		file->metadata[file->n_metadata++] = (struct safetensors_pair){name, string_of(value)};
	}
	qsort(file->metadata, file->n_metadata, sizeof *file->metadata, by_key);
	for (i = 1; i < file->n_metadata; i++) {
		const struct safetensors_string *name = &file->metadata[i].key;
		if (compare(&file->metadata[i - 1].key, name) == 0)
			return err_set(parse->err, -EINVAL,
				       "offset %" PRIu64 ": header, __metadata__ '%s': is there twice",
				       place(parse, name), safetensors_quote(name, quoted));
	}
	return 0;
}

static int read_entries(struct parse *parse, yyjson_val *root)
{
	struct safetensors *file = &parse->file;
	size_t i, n;
	yyjson_val *key, *value;
	int rc = 0;
	if (yyjson_obj_size(root) > SAFETENSORS_MAX_TENSORS)
		return err_set(parse->err, -EINVAL, "offset 8: header: %zu tensors, at most %d are possible",
			       yyjson_obj_size(root), SAFETENSORS_MAX_TENSORS);
	file->tensors = calloc(yyjson_obj_size(root) + 1, sizeof *file->tensors);
	file->by_name = calloc(yyjson_obj_size(root) + 1, sizeof *file->by_name);
	if (!file->tensors || !file->by_name)
		return -ENOMEM;
	yyjson_obj_foreach(root, i, n, key, value)
	{
		if (yyjson_equals_str(key, "__metadata__"))
			rc = read_metadata(parse, value);
		else
			rc = read_tensor(parse, key, value, &file->tensors[file->n_tensors++]);
		if (rc)
			return rc;
	}
	qsort(file->tensors, file->n_tensors, sizeof *file->tensors, by_data);
	rc = order_names(parse);
	return rc ? rc : check_tiling(parse);
}

/* --- the header ------------------------------------------------------------------------------- */

static int header_length(const unsigned char *bytes, uint64_t file_bytes, uint64_t *out, struct err *err)
{
	uint64_t n = 0;
	for (int i = SAFETENSORS_LENGTH_BYTES - 1; i >= 0; i--)
		n = n << 8 | bytes[i];
	if (n > SAFETENSORS_HEADER_MAX_BYTES)
		return err_set(err, -EINVAL, "offset 0: header length: %" PRIu64 " bytes, at most %d are possible", n,
			       SAFETENSORS_HEADER_MAX_BYTES);
	if (n > file_bytes - SAFETENSORS_LENGTH_BYTES)
		return err_set(err, -EINVAL, "offset 0: header length: %" PRIu64 " bytes, but the file has %" PRIu64, n,
			       file_bytes);
	*out = n;
	return 0;
}

/* The library skips white space of every kind on both sides; the format has only blanks, and only behind. */
static int check_padding(const char *header, uint64_t n, struct err *err)
{
	if (n == 0 || header[0] != '{')
		return err_set(err, -EINVAL, "offset 8: header: does not begin with '{'");
	while (header[n - 1] == ' ')
		n--;
	if (header[n - 1] != '}')
		return err_set(err, -EINVAL, "offset %" PRIu64 ": header: does not end with '}' and blanks",
			       SAFETENSORS_LENGTH_BYTES + n - 1);
	return 0;
}

static int read_header(struct parse *parse, const char *header, uint64_t n)
{
	yyjson_read_err wrong;
	int rc = check_padding(header, n, parse->err);
	if (rc)
		return rc;
	parse->file.header = calloc(n + YYJSON_PADDING_SIZE, 1);
	if (!parse->file.header)
		return -ENOMEM;
	memcpy(parse->file.header, header, n);
	yyjson_doc *document = yyjson_read_opts(parse->file.header, n, YYJSON_READ_INSITU, NULL, &wrong);
	parse->file.document = document;
	if (!document && wrong.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
		return -ENOMEM;
	if (!document)
		return err_set(parse->err, -EINVAL, "offset %zu: header: %s", SAFETENSORS_LENGTH_BYTES + wrong.pos,
			       wrong.msg);
	return read_entries(parse, yyjson_doc_get_root(document));
}

int safetensors_parse(const void *bytes, uint64_t n_bytes, uint64_t file_bytes, struct safetensors *out,
		      uint64_t *need_bytes, struct err *err)
{
	struct parse parse = {.err = err};
	uint64_t n = 0;
	if (file_bytes < SAFETENSORS_LENGTH_BYTES)
		return err_set(err, -EINVAL, "offset 0: header length: the file has %" PRIu64 " bytes", file_bytes);
	*need_bytes = SAFETENSORS_LENGTH_BYTES;
	if (n_bytes < SAFETENSORS_LENGTH_BYTES)
		return -EAGAIN;
	int rc = header_length(bytes, file_bytes, &n, err);
	if (rc)
		return rc;
	*need_bytes = SAFETENSORS_LENGTH_BYTES + n;
	if (n_bytes < *need_bytes)
		return -EAGAIN;
	parse.file.data_offset = SAFETENSORS_LENGTH_BYTES + n;
	parse.data_bytes = file_bytes - parse.file.data_offset;
	rc = read_header(&parse, (const char *)bytes + SAFETENSORS_LENGTH_BYTES, n);
	if (rc) {
		safetensors_fini(&parse.file);
		return rc == -ENOMEM ? err_set(err, rc, "no memory for a header of %" PRIu64 " bytes", n) : rc;
	}
	*out = parse.file;
	return 0;
}

void safetensors_fini(struct safetensors *file)
{
	if (!file)
		return;
	yyjson_doc_free(file->document);
	free(file->header);
	free(file->tensors);
	free(file->by_name);
	free(file->metadata);
	*file = (struct safetensors){0};
}

/* --- looking up ------------------------------------------------------------------------------- */

const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name)
{
	const struct safetensors_string wanted = {name, (uint32_t)strlen(name)};
	uint32_t low = 0, high = file->n_tensors;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct safetensors_tensor *tensor = &file->tensors[file->by_name[middle]];
		int order = compare(&tensor->name, &wanted);
		if (order == 0)
			return tensor;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

const struct safetensors_string *safetensors_metadata(const struct safetensors *file, const char *key)
{
	const struct safetensors_pair wanted = {.key = {key, (uint32_t)strlen(key)}};
	const struct safetensors_pair *found =
		file->n_metadata ? bsearch(&wanted, file->metadata, file->n_metadata, sizeof wanted, by_key) : NULL;
	return found ? &found->value : NULL;
}
