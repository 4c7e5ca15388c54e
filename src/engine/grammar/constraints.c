#include "src/engine/grammar/constraints.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct entry {
	struct entry *next;
	struct constraint *constraint;	 /* a reference of its own */
	struct constraint_source source; /* its bytes are */
	char bytes[];
};

struct constraints {
	struct pieces pieces;
	uint32_t n_tokens;
	struct arena *arena;
	struct entry *entries; /* the one asked for last first */
};

int constraints_new(const struct tokenizer *tokenizer, uint32_t n_tokens, int64_t mark, struct arena *arena,
		    struct constraints **out)
{
	struct constraints *c = calloc(1, sizeof *c);
	if (!c)
		return -ENOMEM;
	c->n_tokens = n_tokens;
	c->arena = arena;
	if (pieces_init(&c->pieces, tokenizer, mark)) {
		free(c);
		return -ENOMEM;
	}
	*out = c;
	return 0;
}

static void drop(struct entry **at)
{
	struct entry *entry = *at;
	*at = entry->next;
	constraint_put(entry->constraint);
	free(entry);
}

void constraints_free(struct constraints *c)
{
	if (!c)
		return;
	while (c->entries)
		drop(&c->entries);
	pieces_fini(&c->pieces);
	free(c);
}

/* Lets go of all but the last few that no call has. */
static void trim(struct constraints *c)
{
	unsigned idle = 0;
	for (struct entry **at = &c->entries; *at;) {
		if ((*at)->constraint->references == 1 && ++idle > CONSTRAINTS_IDLE_MAX)
			drop(at);
		else
			at = &(*at)->next;
	}
}

static bool is_same(const struct constraint_source *a, const struct constraint_source *b)
{
	return a->kind == b->kind && a->n_bytes == b->n_bytes && memcmp(a->bytes, b->bytes, a->n_bytes) == 0 &&
	       a->reasoning_begin == b->reasoning_begin && a->reasoning_end == b->reasoning_end && a->calls == b->calls;
}

/* The entry of a source, moved to the front; NULL: none. */
static struct entry *find(struct constraints *c, const struct constraint_source *source)
{
	struct entry **at = &c->entries;
	while (*at && !is_same(&(*at)->source, source))
		at = &(*at)->next;
	struct entry *entry = *at;
	if (!entry)
		return NULL;
	*at = entry->next;
	entry->next = c->entries;
	c->entries = entry;
	return entry;
}

static int add(struct constraints *c, const struct constraint_source *source, struct err *err)
{
	struct program program;
	int rc = constraint_compile(source, &program, err);
	if (rc)
		return rc;
	struct constraint *constraint = constraint_new(&program, &c->pieces, c->n_tokens, c->arena);
	if (!constraint)
		return err_set(err, -ENOMEM, "out of memory for the grammar");
	rc = constraint_check(constraint, err);
	struct entry *entry = rc ? NULL : malloc(sizeof *entry + source->n_bytes);
	if (!entry) {
		constraint_put(constraint);
		return rc ? rc : err_set(err, -ENOMEM, "out of memory for the grammar");
	}
	*entry = (struct entry){c->entries, constraint, *source};
	memcpy(entry->bytes, source->bytes, source->n_bytes);
	entry->source.bytes = entry->bytes;
	c->entries = entry;
	return 0;
}

int constraints_matcher(struct constraints *c, const struct constraint_source *source, struct matcher **out,
			struct err *err)
{
	if (!find(c, source)) {
		int rc = add(c, source, err);
		if (rc)
			return rc;
	}
	struct matcher *matcher = matcher_new(c->entries->constraint);
	trim(c);
	if (!matcher)
		return err_set(err, -ENOMEM, "out of memory for the grammar");
	*out = matcher;
	return 0;
}
