/* Looking up and reading the values of a parsed GGUF header. The parser has checked that every value lies inside the
 * header; what is checked here is that it is of the kind the caller asked for. */
#include "src/format/gguf.h"
#include "src/format/gguf_order.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/format/quote.h"

const char *gguf_quote(const struct gguf_string *string, char out[GGUF_QUOTE_BYTES])
{
	return quote(string->bytes, (size_t)string->n_bytes, out, GGUF_QUOTE_BYTES);
}

const struct gguf_value *gguf_find_key(const struct gguf *gguf, const struct gguf_string *key)
{
	uint64_t low = 0, high = gguf->n_pairs;
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		int order = gguf_compare(&gguf->pairs[middle].key, key);
		if (order == 0)
			return &gguf->pairs[middle].value;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

const struct gguf_value *gguf_find(const struct gguf *gguf, const char *key)
{
	struct gguf_string wanted = {key, strlen(key)};
	return gguf_find_key(gguf, &wanted);
}

const struct gguf_tensor *gguf_find_tensor(const struct gguf *gguf, const char *name)
{
	struct gguf_string wanted = {name, strlen(name)};
	uint64_t low = 0, high = gguf->n_tensors;
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		const struct gguf_tensor *tensor = &gguf->tensors[gguf->by_name[middle]];
		int order = gguf_compare(&tensor->name, &wanted);
		if (order == 0)
			return tensor;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

static const char *type_name(enum gguf_value_type type)
{
	static const char *const names[] = {"uint8", "int8",   "uint16", "int16",  "uint32", "int32",  "float32",
					    "bool",  "string", "array",	 "uint64", "int64",  "float64"};
	return names[type];
}

static int wrong_type(const char *key, const struct gguf_value *value, const char *expected, struct err *err)
{
	return err_set(err, -EINVAL, "offset %" PRIu64 ": key '%s', value: is %s%s, expected %s", value->offset, key,
		       value->is_array ? "an array of " : "", type_name(value->type), expected);
}

static int missing(const char *key, struct err *err)
{
	return err_set(err, -ENOENT, "key '%s': is missing", key);
}

/* A value of n elements of `type`, or an error in words. */
static int find_typed(const struct gguf *gguf, const char *key, enum gguf_value_type type, bool is_array,
		      const char *expected, const struct gguf_value **out, struct err *err)
{
	const struct gguf_value *value = gguf_find(gguf, key);
	if (!value)
		return missing(key, err);
	if (value->type != type || value->is_array != is_array)
		return wrong_type(key, value, expected, err);
	*out = value;
	return 0;
}

/* Element i of an integer value; false for other types and for what doesn't fit 64 signed bits. */
static bool read_integer(const struct gguf_value *value, uint64_t i, int64_t *out)
{
	union {
		uint8_t u8;
		int8_t i8;
		uint16_t u16;
		uint32_t u32;
		uint64_t u64;
	} raw;
	const unsigned char *data = value->data;
	switch (value->type) {
	case GGUF_UINT8:
		*out = data[i];
		return true;
	case GGUF_INT8:
		*out = (int8_t)data[i];
		return true;
	case GGUF_UINT16:
	case GGUF_INT16:
		memcpy(&raw.u16, data + 2 * i, 2);
		*out = value->type == GGUF_INT16 ? (int16_t)le16toh(raw.u16) : (int64_t)le16toh(raw.u16);
		return true;
	case GGUF_UINT32:
	case GGUF_INT32:
		memcpy(&raw.u32, data + 4 * i, 4);
		*out = value->type == GGUF_INT32 ? (int32_t)le32toh(raw.u32) : (int64_t)le32toh(raw.u32);
		return true;
	case GGUF_UINT64:
	case GGUF_INT64:
		memcpy(&raw.u64, data + 8 * i, 8);
		*out = (int64_t)le64toh(raw.u64);
		return value->type == GGUF_INT64 || le64toh(raw.u64) <= INT64_MAX;
	default:
		return false;
	}
}

int gguf_get_u32(const struct gguf *gguf, const char *key, uint32_t *out, struct err *err)
{
	const struct gguf_value *value = gguf_find(gguf, key);
	int64_t integer;
	if (!value)
		return missing(key, err);
	if (value->is_array || !read_integer(value, 0, &integer) || integer < 0 || integer > UINT32_MAX)
		return wrong_type(key, value, "an integer from 0 to 4294967295", err);
	*out = (uint32_t)integer;
	return 0;
}

int gguf_get_f32(const struct gguf *gguf, const char *key, float *out, struct err *err)
{
	const struct gguf_value *value = gguf_find(gguf, key);
	if (!value)
		return missing(key, err);
	if (value->is_array || (value->type != GGUF_FLOAT32 && value->type != GGUF_FLOAT64))
		return wrong_type(key, value, "a float", err);
	uint32_t half;
	uint64_t whole;
	if (value->type == GGUF_FLOAT32) {
		memcpy(&half, value->data, sizeof half);
		half = le32toh(half);
		memcpy(out, &half, sizeof half);
		return 0;
	}
	double wide;
	memcpy(&whole, value->data, sizeof whole);
	whole = le64toh(whole);
	memcpy(&wide, &whole, sizeof wide);
	/* Too large becomes infinity, which every user of a hyperparameter refuses; the cast of such a value is
	 * undefined. */
	*out = wide > 3.4028234663852886e38    ? __builtin_inff()
	       : wide < -3.4028234663852886e38 ? -__builtin_inff()
					       : (float)wide;
	return 0;
}

int gguf_get_bool(const struct gguf *gguf, const char *key, bool *out, struct err *err)
{
	const struct gguf_value *value = NULL;
	int rc = find_typed(gguf, key, GGUF_BOOL, false, "a bool", &value, err);
	if (rc == 0)
		*out = *(const unsigned char *)value->data != 0;
	return rc;
}

/* The length-prefixed string at `at`; returns where the next one begins. */
static const char *read_string(const char *at, struct gguf_string *out)
{
	uint64_t n_bytes;
	memcpy(&n_bytes, at, sizeof n_bytes);
	out->n_bytes = le64toh(n_bytes);
	out->bytes = at + sizeof n_bytes;
	return out->bytes + out->n_bytes;
}

int gguf_get_string(const struct gguf *gguf, const char *key, struct gguf_string *out, struct err *err)
{
	const struct gguf_value *value = NULL;
	int rc = find_typed(gguf, key, GGUF_STRING, false, "a string", &value, err);
	if (rc == 0)
		read_string(value->data, out);
	return rc;
}

int gguf_get_strings(const struct gguf *gguf, const char *key, struct gguf_string **out, uint64_t *n, struct err *err)
{
	const struct gguf_value *value = NULL;
	int rc = find_typed(gguf, key, GGUF_STRING, true, "an array of string", &value, err);
	if (rc)
		return rc;
	struct gguf_string *strings = reallocarray(NULL, value->n ? value->n : 1, sizeof *strings);
	if (!strings)
		return err_set(err, -ENOMEM, "key '%s': no memory for %" PRIu64 " strings", key, value->n);
	const char *at = value->data;
	for (uint64_t i = 0; i < value->n; i++)
		at = read_string(at, &strings[i]);
	*out = strings;
	*n = value->n;
	return 0;
}

int gguf_get_i32s(const struct gguf *gguf, const char *key, int32_t **out, uint64_t *n, struct err *err)
{
	const struct gguf_value *value = gguf_find(gguf, key);
	if (!value)
		return missing(key, err);
	if (!value->is_array)
		return wrong_type(key, value, "an array of integers", err);
	int32_t *integers = reallocarray(NULL, value->n ? value->n : 1, sizeof *integers);
	if (!integers)
		return err_set(err, -ENOMEM, "key '%s': no memory for %" PRIu64 " integers", key, value->n);
	for (uint64_t i = 0; i < value->n; i++) {
		int64_t integer;
		if (!read_integer(value, i, &integer) || integer < INT32_MIN || integer > INT32_MAX) {
			free(integers);
			return wrong_type(key, value, "an array of integers of 32 bits", err);
		}
		integers[i] = (int32_t)integer;
	}
	*out = integers;
	*n = value->n;
	return 0;
}

int gguf_get_f32s(const struct gguf *gguf, const char *key, float **out, uint64_t *n, struct err *err)
{
	const struct gguf_value *value = NULL;
	int rc = find_typed(gguf, key, GGUF_FLOAT32, true, "an array of float", &value, err);
	if (rc)
		return rc;
	float *floats = reallocarray(NULL, value->n ? value->n : 1, sizeof *floats);
	if (!floats)
		return err_set(err, -ENOMEM, "key '%s': no memory for %" PRIu64 " floats", key, value->n);
	if (value->n)
		memcpy(floats, value->data, value->n * sizeof *floats);
	*out = floats;
	*n = value->n;
	return 0;
}
