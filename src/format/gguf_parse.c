/* Reading a GGUF header that nobody vouches for.
 *
 *   magic version n_tensors n_pairs | pair ... | tensor entry ... | padding | tensor data ...
 *   pair: key (length, bytes), type, value          entry: name, n_dims, dim ..., type, offset from the data's start
 *
 * One cursor walks the bytes. It knows two ends: how much of the file it was given, and how long the file is. Whatever
 * would reach past the second is malformed and is refused at once, before any loop or allocation is sized by it;
 * whatever reaches past the first only is -EAGAIN, and the caller comes back with a longer prefix. Parsing then starts
 * afresh: callers double the prefix, so all passes together cost about two.
 *
 * Memory: the pair and tensor tables grow as entries are really read (each takes at least 14 bytes of header), so what
 * is allocated is a small multiple of the bytes present, whatever the counts claim. Values are not copied: they stay
 * views into the header.
 *
 * Order of checks: a field is checked where it is read, so that a message can name its offset; what needs two entries
 * (duplicates, overlapping data) is checked at the end, on sorted tables, which lookups then use too. */
#include "src/format/gguf.h"
#include "src/format/gguf_order.h"
#include "src/format/gguf_type.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_ALIGNMENT = 32, MAX_ALIGNMENT = 1 << 20, PAIR_MIN_BYTES = 14, TENSOR_MIN_BYTES = 33 };

struct cursor {
	const uint8_t *bytes; /* [n_bytes] the prefix */
	uint64_t n_bytes, file_bytes;
	uint64_t at;	     /* never above file_bytes, and above n_bytes only on the way to -EAGAIN */
	uint64_t need_bytes; /* set with -EAGAIN */
	/* what is being read, for messages */
	const char *part; /* "header", "key", "tensor" */
	uint64_t index;
	struct gguf_string name; /* n_bytes 0 until known */
	struct err *err;
};

/* "offset 1234: tensor 3 'blk.0.attn_q.weight', type: ..." */
__attribute__((format(printf, 5, 6))) static int fail(const struct cursor *c, uint64_t offset, int code,
						      const char *field, const char *format, ...)
{
	char what[200], quoted[GGUF_QUOTE_BYTES], index[24] = "";
	va_list args;
	va_start(args, format);
	vsnprintf(what, sizeof what, format, args);
	va_end(args);
	if (strcmp(c->part, "header") != 0)
		snprintf(index, sizeof index, " %" PRIu64, c->index);
	if (c->name.n_bytes == 0)
		return err_set(c->err, code, "offset %" PRIu64 ": %s%s, %s: %s", offset, c->part, index, field, what);
	return err_set(c->err, code, "offset %" PRIu64 ": %s%s '%s', %s: %s", offset, c->part, index,
		       gguf_quote(&c->name, quoted), field, what);
}

/* Bytes of the file from the cursor on: what any claim is measured against. */
static uint64_t left(const struct cursor *c)
{
	return c->file_bytes - c->at;
}

/* Makes sure that the next n bytes are there. */
static int want(struct cursor *c, uint64_t n, const char *field)
{
	if (n > left(c))
		return fail(c, c->at, -EINVAL, field, "%" PRIu64 " bytes wanted, the file ends after %" PRIu64, n,
			    left(c));
	if (c->at + n > GGUF_HEADER_MAX_BYTES)
		return fail(c, c->at, -EINVAL, field, "the header is longer than %d bytes", GGUF_HEADER_MAX_BYTES);
	if (c->at + n > c->n_bytes) {
		c->need_bytes = c->at + n;
		return -EAGAIN;
	}
	return 0;
}

static int read_u32(struct cursor *c, const char *field, uint32_t *out)
{
	uint32_t raw;
	int rc = want(c, sizeof raw, field);
	if (rc)
		return rc;
	memcpy(&raw, c->bytes + c->at, sizeof raw);
	c->at += sizeof raw;
	*out = le32toh(raw);
	return 0;
}

static int read_u64(struct cursor *c, const char *field, uint64_t *out)
{
	uint64_t raw;
	int rc = want(c, sizeof raw, field);
	if (rc)
		return rc;
	memcpy(&raw, c->bytes + c->at, sizeof raw);
	c->at += sizeof raw;
	*out = le64toh(raw);
	return 0;
}

static int read_string(struct cursor *c, const char *field, uint64_t max_bytes, struct gguf_string *out)
{
	uint64_t at = c->at, n_bytes = 0;
	int rc = read_u64(c, field, &n_bytes);
	if (rc)
		return rc;
	if (n_bytes > left(c))
		return fail(c, at, -EINVAL, field, "length %" PRIu64 ", but the file ends %" PRIu64 " bytes further on",
			    n_bytes, left(c));
	if (n_bytes > max_bytes)
		return fail(c, at, -EINVAL, field, "length %" PRIu64 ", at most %" PRIu64 " are allowed", n_bytes,
			    max_bytes);
	rc = want(c, n_bytes, field);
	if (rc)
		return rc;
	out->bytes = (const char *)c->bytes + c->at;
	out->n_bytes = n_bytes;
	c->at += n_bytes;
	return 0;
}

/* --- values ----------------------------------------------------------------------------------- */

/* Bytes of a scalar; 0 for strings and arrays. */
static unsigned scalar_bytes(uint32_t type)
{
	static const uint8_t bytes[] = {
		[GGUF_UINT8] = 1,  [GGUF_INT8] = 1,  [GGUF_UINT16] = 2,	 [GGUF_INT16] = 2,
		[GGUF_UINT32] = 4, [GGUF_INT32] = 4, [GGUF_FLOAT32] = 4, [GGUF_BOOL] = 1,
		[GGUF_UINT64] = 8, [GGUF_INT64] = 8, [GGUF_FLOAT64] = 8,
	};
	return bytes[type];
}

static int read_value_type(struct cursor *c, const char *field, uint32_t *out)
{
	uint64_t at = c->at;
	uint32_t type = 0;
	int rc = read_u32(c, field, &type);
	if (rc)
		return rc;
	if (type > GGUF_FLOAT64)
		return fail(c, at, -EINVAL, field, "%" PRIu32 " is no value type (0 to %d)", type, GGUF_FLOAT64);
	*out = type;
	return 0;
}

/* Passes over n scalars of one type. */
static int skip_scalars(struct cursor *c, uint32_t type, uint64_t n)
{
	unsigned each = scalar_bytes(type);
	if (n > left(c) / each)
		return fail(c, c->at, -EINVAL, "value",
			    "%" PRIu64 " elements of %u bytes, the file ends after %" PRIu64 " bytes", n, each,
			    left(c));
	int rc = want(c, n * each, "value");
	if (rc)
		return rc;
	if (type == GGUF_BOOL)
		for (uint64_t i = 0; i < n; i++)
			if (c->bytes[c->at + i] > 1)
				return fail(c, c->at + i, -EINVAL, "value", "%u is neither true (1) nor false (0)",
					    c->bytes[c->at + i]);
	c->at += n * each;
	return 0;
}

static int skip_array(struct cursor *c, unsigned depth);

/* Passes over n elements; the elements of nested arrays bring their own types and counts. */
static int skip_elements(struct cursor *c, uint32_t type, uint64_t n, unsigned depth)
{
	if (type != GGUF_STRING && type != GGUF_ARRAY)
		return skip_scalars(c, type, n);
	uint64_t least = type == GGUF_STRING ? sizeof(uint64_t) : sizeof(uint32_t) + sizeof(uint64_t);
	if (n > left(c) / least)
		return fail(c, c->at, -EINVAL, "value",
			    "%" PRIu64 " elements, but only %" PRIu64 " bytes of file follow", n, left(c));
	int rc = 0;
	struct gguf_string ignored;
	for (uint64_t i = 0; i < n && rc == 0; i++)
		rc = type == GGUF_STRING ? read_string(c, "string", UINT64_MAX, &ignored) : skip_array(c, depth + 1);
	return rc;
}

static int read_array_head(struct cursor *c, uint32_t *type, uint64_t *n)
{
	int rc = read_value_type(c, "element type", type);
	return rc ? rc : read_u64(c, "element count", n);
}

static int skip_array(struct cursor *c, unsigned depth)
{
	uint32_t type = 0;
	uint64_t n = 0;
	if (depth > GGUF_MAX_ARRAY_DEPTH)
		return fail(c, c->at, -EINVAL, "value", "arrays nested deeper than %d", GGUF_MAX_ARRAY_DEPTH);
	int rc = read_array_head(c, &type, &n);
	return rc ? rc : skip_elements(c, type, n, depth);
}

static int read_value(struct cursor *c, struct gguf_value *out)
{
	uint32_t type = 0;
	int rc = read_value_type(c, "value type", &type);
	if (rc)
		return rc;
	struct gguf_value value = {.n = 1};
	value.is_array = type == GGUF_ARRAY;
	if (value.is_array) {
		rc = read_array_head(c, &type, &value.n);
		if (rc)
			return rc;
	}
	value.type = type;
	value.offset = c->at;
	/* One past the prefix's end at most: an empty array may be the last thing in it. */
	value.data = c->bytes + c->at;
	rc = skip_elements(c, type, value.n, 1);
	if (rc)
		return rc;
	value.bytes = c->at - value.offset;
	*out = value;
	return 0;
}

/* --- tables ----------------------------------------------------------------------------------- */

/* Room for one more element in a table that doubles. */
static int grow(void **table, uint64_t n, uint64_t *capacity, size_t element_bytes)
{
	if (n < *capacity)
		return 0;
	uint64_t bigger = *capacity ? 2 * *capacity : 16;
	void *moved = reallocarray(*table, bigger, element_bytes);
	if (!moved)
		return -ENOMEM;
	*table = moved;
	*capacity = bigger;
	return 0;
}

static int parse_pairs(struct cursor *c, struct gguf *gguf, uint64_t n_pairs)
{
	uint64_t capacity = 0;
	c->part = "key";
	for (c->index = 0; c->index < n_pairs; c->index++) {
		struct gguf_pair pair = {0};
		uint64_t at = c->at;
		c->name.n_bytes = 0;
		int rc = read_string(c, "name", GGUF_MAX_KEY_BYTES, &pair.key);
		if (rc)
			return rc;
		if (pair.key.n_bytes == 0)
			return fail(c, at, -EINVAL, "name", "is empty");
		c->name = pair.key;
		rc = read_value(c, &pair.value);
		if (rc)
			return rc;
		rc = grow((void **)&gguf->pairs, gguf->n_pairs, &capacity, sizeof pair);
		if (rc)
			return fail(c, at, rc, "name", "no memory for %" PRIu64 " keys", n_pairs);
		gguf->pairs[gguf->n_pairs++] = pair;
	}
	return 0;
}

/* The dimensions, and their product, which the file's size bounds before anything is multiplied with it. */
static int read_dims(struct cursor *c, struct gguf_tensor *tensor, uint64_t *elements)
{
	uint64_t at = c->at;
	int rc = read_u32(c, "dimensions", &tensor->n_dims);
	if (rc)
		return rc;
	if (tensor->n_dims < 1 || tensor->n_dims > GGUF_MAX_DIMS)
		return fail(c, at, -EINVAL, "dimensions", "%" PRIu32 ", allowed are 1 to %d", tensor->n_dims,
			    GGUF_MAX_DIMS);
	uint64_t product = 1;
	for (unsigned i = 0; i < GGUF_MAX_DIMS; i++) {
		tensor->dim[i] = 1;
		if (i >= tensor->n_dims)
			continue;
		at = c->at;
		rc = read_u64(c, "dimension", &tensor->dim[i]);
		if (rc)
			return rc;
		if (tensor->dim[i] == 0 || __builtin_mul_overflow(product, tensor->dim[i], &product) ||
		    product > INT64_MAX)
			return fail(c, at, -EINVAL, "dimension", "%" PRIu64 " at place %u", tensor->dim[i], i);
	}
	*elements = product;
	return 0;
}

static int read_tensor_type(struct cursor *c, struct gguf_tensor *tensor, uint64_t elements)
{
	uint64_t at = c->at;
	int rc = read_u32(c, "type", &tensor->type);
	if (rc)
		return rc;
	const struct gguf_type *type = gguf_type(tensor->type);
	if (!type)
		return fail(c, at, -EINVAL, "type", "%" PRIu32 " is no tensor type", tensor->type);
	if (!type->block_elements)
		return fail(c, at, -ENOTSUP, "type", "%s is not supported (" GGUF_TENSOR_TYPES_READ " are)",
			    type->name);
	if (tensor->dim[0] % type->block_elements)
		return fail(c, at, -EINVAL, "type", "rows of %" PRIu64 " elements aren't whole blocks of %s",
			    tensor->dim[0], type->name);
	uint64_t blocks = elements / type->block_elements;
	if (__builtin_mul_overflow(blocks, (uint64_t)type->block_bytes, &tensor->bytes) ||
	    tensor->bytes > c->file_bytes)
		return fail(c, at, -EINVAL, "dimensions", "%" PRIu64 " elements of %s are more than the whole file",
			    elements, type->name);
	return 0;
}

/* Reads one entry; tensor->offset still counts from the start of the data, which isn't known yet. */
static int parse_tensor(struct cursor *c, uint64_t alignment, struct gguf_tensor *tensor)
{
	uint64_t elements = 0, at = c->at;
	int rc = read_string(c, "name", GGUF_MAX_NAME_BYTES, &tensor->name);
	if (rc)
		return rc;
	if (tensor->name.n_bytes == 0)
		return fail(c, at, -EINVAL, "name", "is empty");
	c->name = tensor->name;
	rc = read_dims(c, tensor, &elements);
	if (rc)
		return rc;
	rc = read_tensor_type(c, tensor, elements);
	if (rc)
		return rc;
	at = c->at;
	rc = read_u64(c, "data offset", &tensor->offset);
	if (rc)
		return rc;
	if (tensor->offset % alignment)
		return fail(c, at, -EINVAL, "data offset", "%" PRIu64 " is no multiple of the alignment %" PRIu64,
			    tensor->offset, alignment);
	if (tensor->offset > c->file_bytes - tensor->bytes)
		return fail(c, at, -EINVAL, "data offset",
			    "%" PRIu64 " and %" PRIu64 " bytes reach past the file's end", tensor->offset,
			    tensor->bytes);
	return 0;
}

static int parse_tensors(struct cursor *c, struct gguf *gguf, uint64_t n_tensors)
{
	uint64_t capacity = 0;
	c->part = "tensor";
	for (c->index = 0; c->index < n_tensors; c->index++) {
		struct gguf_tensor tensor = {0};
		c->name.n_bytes = 0;
		int rc = parse_tensor(c, gguf->alignment, &tensor);
		if (rc)
			return rc;
		rc = grow((void **)&gguf->tensors, gguf->n_tensors, &capacity, sizeof tensor);
		if (rc)
			return fail(c, c->at, rc, "name", "no memory for %" PRIu64 " tensors", n_tensors);
		gguf->tensors[gguf->n_tensors++] = tensor;
	}
	return 0;
}

/* --- checks over whole tables ----------------------------------------------------------------- */

static int compare_pairs(const void *a, const void *b)
{
	return gguf_compare(&((const struct gguf_pair *)a)->key, &((const struct gguf_pair *)b)->key);
}

static int compare_offsets(const void *a, const void *b)
{
	const struct gguf_tensor *x = a, *y = b;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

static int check_pairs(const struct cursor *c, struct gguf *gguf)
{
	if (gguf->n_pairs)
		qsort(gguf->pairs, gguf->n_pairs, sizeof *gguf->pairs, compare_pairs);
	for (uint64_t i = 1; i < gguf->n_pairs; i++) {
		const struct gguf_pair *a = &gguf->pairs[i - 1], *b = &gguf->pairs[i];
		char quoted[GGUF_QUOTE_BYTES];
		if (compare_pairs(a, b) == 0)
			return err_set(c->err, -EINVAL, "offset %" PRIu64 ": key '%s': is there twice",
				       a->value.offset > b->value.offset ? a->value.offset : b->value.offset,
				       gguf_quote(&b->key, quoted));
	}
	return 0;
}

/* From offsets within the data to offsets within the file, in file order, none overlapping the next. */
static int check_data(const struct cursor *c, struct gguf *gguf)
{
	char quoted[GGUF_QUOTE_BYTES], other[GGUF_QUOTE_BYTES];
	if (gguf->n_tensors)
		qsort(gguf->tensors, gguf->n_tensors, sizeof *gguf->tensors, compare_offsets);
	for (uint64_t i = 0; i < gguf->n_tensors; i++) {
		struct gguf_tensor *tensor = &gguf->tensors[i];
		tensor->offset += gguf->data_offset; /* both are at most about file_bytes, far from overflow */
		if (tensor->offset > c->file_bytes || tensor->bytes > c->file_bytes - tensor->offset)
			return err_set(c->err, -EINVAL,
				       "offset %" PRIu64 ": tensor '%s', data: %" PRIu64
				       " bytes, but the file ends at %" PRIu64,
				       tensor->offset, gguf_quote(&tensor->name, quoted), tensor->bytes, c->file_bytes);
		if (i > 0 && tensor[-1].offset + tensor[-1].bytes > tensor->offset)
			return err_set(c->err, -EINVAL, "offset %" PRIu64 ": tensor '%s', data: overlaps that of '%s'",
				       tensor->offset, gguf_quote(&tensor->name, quoted),
				       gguf_quote(&tensor[-1].name, other));
	}
	return 0;
}

/* --- the whole -------------------------------------------------------------------------------- */

static int parse_magic(struct cursor *c, struct gguf *gguf)
{
	int rc = want(c, 4, "magic");
	if (rc)
		return rc;
	if (memcmp(c->bytes, "GGUF", 4) != 0)
		return fail(c, 0, -EINVAL, "magic", "not a GGUF file");
	c->at = 4;
	rc = read_u32(c, "version", &gguf->version);
	if (rc)
		return rc;
	if (gguf->version == 2 || gguf->version == 3)
		return 0;
	uint32_t swapped = __builtin_bswap32(gguf->version);
	if (swapped >= 1 && swapped <= 3)
		return fail(c, 4, -ENOTSUP, "version", "a big-endian file");
	return fail(c, 4, -ENOTSUP, "version", "%" PRIu32 ", supported are 2 and 3", gguf->version);
}

/* One of the two counts: bounded by this program and by what the file could hold. */
static int parse_count(struct cursor *c, const char *field, uint64_t max, uint64_t least_bytes, uint64_t *out)
{
	uint64_t at = c->at, n = 0;
	int rc = read_u64(c, field, &n);
	if (rc)
		return rc;
	if (n > max)
		return fail(c, at, -EINVAL, field, "%" PRIu64 ", at most %" PRIu64 " are allowed", n, max);
	if (n > left(c) / least_bytes)
		return fail(c, at, -EINVAL, field, "%" PRIu64 " don't fit into a file of %" PRIu64 " bytes", n,
			    c->file_bytes);
	*out = n;
	return 0;
}

static int find_alignment(const struct cursor *c, struct gguf *gguf)
{
	uint32_t alignment = DEFAULT_ALIGNMENT;
	int rc = gguf_get_u32(gguf, "general.alignment", &alignment, c->err);
	if (rc && rc != -ENOENT)
		return rc;
	if (alignment < 8 || alignment > MAX_ALIGNMENT || (alignment & (alignment - 1)))
		return err_set(c->err, -EINVAL,
			       "offset %" PRIu64 ": key 'general.alignment', value: %" PRIu32
			       " is no power of two from 8 to %d",
			       gguf_find(gguf, "general.alignment")->offset, alignment, MAX_ALIGNMENT);
	gguf->alignment = alignment;
	return 0;
}

static int parse(struct cursor *c, struct gguf *gguf)
{
	uint64_t n_tensors = 0, n_pairs = 0;
	int rc = parse_magic(c, gguf);
	if (rc == 0)
		rc = parse_count(c, "tensor count", GGUF_MAX_TENSORS, TENSOR_MIN_BYTES, &n_tensors);
	if (rc == 0)
		rc = parse_count(c, "key count", GGUF_MAX_PAIRS, PAIR_MIN_BYTES, &n_pairs);
	if (rc == 0)
		rc = parse_pairs(c, gguf, n_pairs);
	if (rc == 0)
		rc = check_pairs(c, gguf);
	if (rc == 0)
		rc = find_alignment(c, gguf);
	if (rc == 0)
		rc = parse_tensors(c, gguf, n_tensors);
	if (rc)
		return rc;
	gguf->data_offset = (c->at + gguf->alignment - 1) & ~(gguf->alignment - 1);
	rc = check_data(c, gguf);
	return rc ? rc : gguf_order(gguf, c->err);
}

int gguf_parse(const void *bytes, uint64_t n_bytes, uint64_t file_bytes, struct gguf *out, uint64_t *need_bytes,
	       struct err *err)
{
	struct gguf gguf = {0};
	struct cursor c = {
		.bytes = bytes,
		.n_bytes = n_bytes < file_bytes ? n_bytes : file_bytes,
		.file_bytes = file_bytes,
		.part = "header",
		.err = err,
	};
	if (file_bytes > INT64_MAX)
		return fail(&c, 0, -EINVAL, "file size", "%" PRIu64 " bytes", file_bytes);
	int rc = parse(&c, &gguf);
	if (rc) {
		gguf_fini(&gguf);
		if (rc == -EAGAIN)
			*need_bytes = c.need_bytes;
		return rc;
	}
	*out = gguf;
	return 0;
}

void gguf_fini(struct gguf *gguf)
{
	free(gguf->pairs);
	free(gguf->tensors);
	free(gguf->by_name);
	*gguf = (struct gguf){0};
}
