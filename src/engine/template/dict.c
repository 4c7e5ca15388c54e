/* Dictionaries in order of insertion. Up to eight entries are searched one after the other, more through an open hash
 * index. Entries are never removed: what templates build is not changed, except that namespaces replace values. */
#include <string.h>

#include "src/engine/template/render.h"
#include "src/engine/template/value.h"

enum { SMALL = 8 };

struct dict *dict_new(struct render *r)
{
	return heap_cells(&r->heap, 1, sizeof(struct dict));
}

static int same_key(struct render *r, const struct dict_entry *entry, struct value key, uint64_t hash, bool *same)
{
	*same = false;
	return entry->hash == hash ? value_equal(r, entry->key, key, same) : 0;
}

/* `*at` is the entry with that key, or n. */
static int find_entry(struct render *r, const struct dict *dict, struct value key, uint64_t hash, size_t *at)
{
	bool same = false;
	if (!dict->index) {
		for (size_t i = 0; i < dict->n; i++) {
			int rc = same_key(r, &dict->entries[i], key, hash, &same);
			if (rc || same) {
				*at = i;
				return rc;
			}
		}
	} else {
		size_t mask = dict->n_index - 1;
		for (size_t i = hash & mask; dict->index[i]; i = (i + 1) & mask) {
			*at = dict->index[i] - 1;
			int rc = same_key(r, &dict->entries[*at], key, hash, &same);
			if (rc || same)
				return rc;
		}
	}
	*at = dict->n;
	return 0;
}

static void index_entry(struct dict *dict, size_t entry)
{
	size_t mask = dict->n_index - 1, i = dict->entries[entry].hash & mask;
	while (dict->index[i])
		i = (i + 1) & mask;
	dict->index[i] = (uint32_t)entry + 1;
}

static int grow(struct render *r, struct dict *dict)
{
	size_t capacity = dict->capacity ? 2 * dict->capacity : 4;
	struct dict_entry *entries = heap_cells(&r->heap, capacity, sizeof *entries);
	if (!entries || capacity > UINT32_MAX / 4)
		return render_oom(r);
	if (dict->n)
		memcpy(entries, dict->entries, dict->n * sizeof *entries);
	dict->entries = entries;
	dict->capacity = capacity;
	if (capacity <= SMALL)
		return 0;
	dict->n_index = 2 * capacity; /* at most half full */
	dict->index = heap_cells(&r->heap, dict->n_index, sizeof *dict->index);
	if (!dict->index)
		return render_oom(r);
	for (size_t i = 0; i < dict->n; i++)
		index_entry(dict, i);
	return 0;
}

int dict_set(struct render *r, struct dict *dict, struct value key, struct value value)
{
	uint64_t hash;
	size_t at;
	int rc = value_hash(r, key, &hash);
	rc = rc ? rc : find_entry(r, dict, key, hash, &at);
	if (rc)
		return rc;
	if (at < dict->n) {
		dict->entries[at].value = value;
		return 0;
	}
	if (dict->n == dict->capacity) {
		rc = grow(r, dict);
		if (rc)
			return rc;
	}
	dict->entries[dict->n++] = (struct dict_entry){key, value, hash};
	if (dict->index)
		index_entry(dict, dict->n - 1);
	return 0;
}

int dict_get(struct render *r, const struct dict *dict, struct value key, struct value *value)
{
	uint64_t hash;
	size_t at;
	int rc = value_hash(r, key, &hash);
	rc = rc ? rc : find_entry(r, dict, key, hash, &at);
	if (!rc)
		*value = at < dict->n ? dict->entries[at].value : (struct value){.kind = VALUE_MISSING};
	return rc;
}
