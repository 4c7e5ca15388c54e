/* A model in several GGUF files, as llama.cpp's gguf-split and its converter write them: every part is a whole GGUF
 * file with some of the tensors; the first has all the keys, the others have the three of the split. Nothing but these
 * three says that files belong together, so all of them are looked at, in every part, and a tensor too few, too many or
 * twice is found by their number and names. */
#include "src/format/gguf.h"
#include "src/format/gguf_order.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *gguf_place(const struct gguf *gguf, const struct gguf_tensor *tensor, char out[GGUF_PLACE_BYTES])
{
	snprintf(out, GGUF_PLACE_BYTES, "%s%soffset %" PRIu64, gguf->names ? gguf->names[tensor->part] : "",
		 gguf->names ? ", " : "", tensor->offset);
	return out;
}

/* An integer that every part of a split model has. */
static int read_split(const struct gguf *part, const char *name, const char *key, uint32_t *out, struct err *err)
{
	struct err why;
	int rc = gguf_get_u32(part, key, out, &why);
	return rc ? err_set(err, -EINVAL, "%s: %s", name, why.text) : 0;
}

/* Each is the part that its name says. */
static int check_numbers(const struct gguf *part, const char *name, uint32_t i, uint32_t n, struct err *err)
{
	uint32_t no = 0, count = 0;
	int rc = read_split(part, name, "split.count", &count, err);
	if (rc == 0)
		rc = read_split(part, name, "split.no", &no, err);
	if (rc)
		return rc;
	if (count != n)
		return err_set(err, -EINVAL,
			       "%s: key 'split.count', value: is %" PRIu32 ", by its name it is one of %" PRIu32, name,
			       count, n);
	if (no != i)
		return err_set(err, -EINVAL,
			       "%s: key 'split.no', value: is %" PRIu32 ", by its name it should be %" PRIu32, name, no,
			       i);
	return 0;
}

/* All together have as many tensors as each says. */
static int check_total(const struct gguf *parts, const char *const *names, uint32_t n, struct err *err)
{
	uint64_t n_tensors = 0;
	uint32_t expected = 0;
	for (uint32_t i = 0; i < n; i++)
		n_tensors += parts[i].n_tensors;
	for (uint32_t i = 0; i < n; i++) {
		int rc = read_split(&parts[i], names[i], "split.tensors.count", &expected, err);
		if (rc)
			return rc;
		if (expected != n_tensors)
			return err_set(err, -EINVAL,
				       "%s: key 'split.tensors.count', value: is %" PRIu32
				       ", but all parts have %" PRIu64 " tensors together",
				       names[i], expected, n_tensors);
	}
	return 0;
}

/* Where data lies in a file is that file's own affair. */
static bool is_of_the_file(const struct gguf_string *key)
{
	static const char *const own[] = {"split.no", "general.alignment"};
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		if (key->n_bytes == strlen(own[i]) && memcmp(key->bytes, own[i], key->n_bytes) == 0)
			return true;
	return false;
}

static bool equal(const struct gguf_value *a, const struct gguf_value *b)
{
	return a->type == b->type && a->is_array == b->is_array && a->n == b->n && a->bytes == b->bytes &&
	       memcmp(a->data, b->data, a->bytes) == 0;
}

/* A key that only a later part has would be lost, one that differs is of another model. */
static int check_keys(const struct gguf *first, const struct gguf *part, const char *name, struct err *err)
{
	char quoted[GGUF_QUOTE_BYTES];
	for (uint64_t i = 0; i < part->n_pairs; i++) {
		const struct gguf_pair *pair = &part->pairs[i];
		if (is_of_the_file(&pair->key))
			continue;
		const struct gguf_value *value = gguf_find_key(first, &pair->key);
		if (!value || !equal(value, &pair->value))
			return err_set(err, -EINVAL,
				       "%s: offset %" PRIu64 ": key '%s', value: %s; it is a part of another model",
				       name, pair->value.offset, gguf_quote(&pair->key, quoted),
				       value ? "is not that of the first part" : "the first part has no such key");
	}
	return 0;
}

static int join_tensors(const struct gguf *parts, uint32_t n, struct gguf *joined, struct err *err)
{
	uint64_t n_tensors = 0;
	for (uint32_t i = 0; i < n; i++)
		n_tensors += parts[i].n_tensors;
	if (n_tensors > GGUF_MAX_TENSORS)
		return err_set(err, -EINVAL, "%" PRIu64 " tensors in all parts, at most %d are allowed", n_tensors,
			       GGUF_MAX_TENSORS);
	joined->tensors = calloc(n_tensors ? n_tensors : 1, sizeof *joined->tensors);
	if (!joined->tensors)
		return err_set(err, -ENOMEM, "no memory for %" PRIu64 " tensors", n_tensors);
	for (uint32_t i = 0; i < n; i++)
		for (uint64_t j = 0; j < parts[i].n_tensors; j++) {
			struct gguf_tensor *tensor = &joined->tensors[joined->n_tensors++];
			*tensor = parts[i].tensors[j];
			tensor->part = i;
		}
	return gguf_order(joined, err);
}

/* One file is a model, unless it says that it is a part of one. */
static int check_single(const struct gguf *gguf, const char *name, struct err *err)
{
	uint32_t count = 1;
	int rc = gguf_get_u32(gguf, "split.count", &count, err);
	if (rc && rc != -ENOENT)
		return rc;
	if (count <= 1) /* 0: it was one, and the parts were merged */
		return 0;
	return err_set(err, -EINVAL,
		       "key 'split.count', value: the model is in %" PRIu32
		       " files, which are found by their names only: %s should end in -00001-of-%05" PRIu32 ".gguf",
		       count, name, count);
}

static int check_parts(const struct gguf *parts, const char *const *names, uint32_t n, struct err *err)
{
	int rc = 0;
	for (uint32_t i = 0; i < n && rc == 0; i++)
		rc = check_numbers(&parts[i], names[i], i, n, err);
	if (rc == 0)
		rc = check_total(parts, names, n, err);
	for (uint32_t i = 1; i < n && rc == 0; i++)
		rc = check_keys(&parts[0], &parts[i], names[i], err);
	return rc;
}

int gguf_join(struct gguf *parts, const char *const *names, uint32_t n, struct gguf *out, struct err *err)
{
	int rc = n == 1 ? check_single(&parts[0], names[0], err) : check_parts(parts, names, n, err);
	if (rc)
		return rc;
	if (n == 1) {
		*out = parts[0];
		parts[0] = (struct gguf){0};
		return 0;
	}
	struct gguf joined = {.version = parts[0].version, .names = names};
	rc = join_tensors(parts, n, &joined, err);
	if (rc) {
		gguf_fini(&joined);
		return rc;
	}
	joined.pairs = parts[0].pairs;
	joined.n_pairs = parts[0].n_pairs;
	parts[0].pairs = NULL;
	for (uint32_t i = 0; i < n; i++)
		gguf_fini(&parts[i]);
	*out = joined;
	return 0;
}
