#include "numa/idset.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void idset_clear(struct idset *set)
{
	memset(set, 0, sizeof *set);
}

void idset_add(struct idset *set, unsigned id)
{
	if (id < IDSET_MAX)
		set->word[id / 64] |= UINT64_C(1) << id % 64;
}

void idset_remove(struct idset *set, unsigned id)
{
	if (id < IDSET_MAX)
		set->word[id / 64] &= ~(UINT64_C(1) << id % 64);
}

bool idset_has(const struct idset *set, unsigned id)
{
	return id < IDSET_MAX && set->word[id / 64] >> id % 64 & 1;
}

unsigned idset_count(const struct idset *set)
{
	unsigned n = 0;
	for (unsigned i = 0; i < IDSET_WORDS; i++)
		n += (unsigned)__builtin_popcountll(set->word[i]);
	return n;
}

int idset_first(const struct idset *set)
{
	return idset_next(set, -1);
}

int idset_next(const struct idset *set, int after)
{
	if (after >= IDSET_MAX - 1)
		return -1;
	unsigned from = after < 0 ? 0 : (unsigned)after + 1;
	unsigned i = from / 64;
	uint64_t word = set->word[i] & ~UINT64_C(0) << from % 64;
	while (!word) {
		if (++i == IDSET_WORDS)
			return -1;
		word = set->word[i];
	}
	return (int)(i * 64 + (unsigned)__builtin_ctzll(word));
}

void idset_and(struct idset *set, const struct idset *other)
{
	for (unsigned i = 0; i < IDSET_WORDS; i++)
		set->word[i] &= other->word[i];
}

void idset_or(struct idset *set, const struct idset *other)
{
	for (unsigned i = 0; i < IDSET_WORDS; i++)
		set->word[i] |= other->word[i];
}

void idset_without(struct idset *set, const struct idset *other)
{
	for (unsigned i = 0; i < IDSET_WORDS; i++)
		set->word[i] &= ~other->word[i];
}

bool idset_equal(const struct idset *a, const struct idset *b)
{
	return !memcmp(a, b, sizeof *a);
}

/* One decimal number at *at; moves *at behind it. */
static int parse_number(const char *text, const char **at, unsigned *out, struct err *err)
{
	const char *start = *at;
	unsigned n = 0;
	for (; **at >= '0' && **at <= '9'; ++*at) {
		n = n * 10 + (unsigned)(**at - '0');
		if (n >= IDSET_MAX)
			return err_set(err, -ERANGE, "'%.64s': the number at column %td is past %d", text,
				       start - text + 1, IDSET_MAX - 1);
	}
	if (*at == start)
		return err_set(err, -EINVAL, "'%.64s': expected a number at column %td, as in 0-3,8", text,
			       start - text + 1);
	*out = n;
	return 0;
}

int idset_parse(const char *text, struct idset *out, struct err *err)
{
	struct idset set;
	idset_clear(&set);
	const char *at = text;
	while (*at && *at != '\n') {
		const char *start = at;
		unsigned first, last;
		int rc = parse_number(text, &at, &first, err);
		last = first;
		if (!rc && *at == '-') {
			at++;
			rc = parse_number(text, &at, &last, err);
		}
		if (rc)
			return rc;
		if (last < first)
			return err_set(err, -EINVAL, "'%.64s': the range at column %td runs backwards", text,
				       start - text + 1);
		for (unsigned id = first; id <= last; id++)
			idset_add(&set, id);
		if (*at == ',' && at[1] && at[1] != '\n')
			at++;
		else if (*at && *at != '\n')
			return err_set(err, -EINVAL, "'%.64s': unexpected character at column %td", text,
				       at - text + 1);
	}
	/* The kernel's files end with a newline; nothing may follow it. */
	if (*at == '\n' && at[1])
		return err_set(err, -EINVAL, "'%.64s': more than one line", text);
	*out = set;
	return 0;
}

/* The n-th members of `allowed`, counted from 0, for each n in `places`. */
static int nth_members(const char *text, const struct idset *places, const struct idset *allowed, struct idset *out,
		       struct err *err)
{
	int id = -1;
	idset_clear(out);
	for (int place = 0, wanted = idset_first(places); wanted >= 0; place++) {
		id = idset_next(allowed, id);
		if (id < 0)
			return err_set(err, -ERANGE, "'%.64s': there are %u to choose from, +0 is the first", text,
				       idset_count(allowed));
		if (place != wanted)
			continue;
		idset_add(out, (unsigned)id);
		wanted = idset_next(places, wanted);
	}
	return 0;
}

int idset_resolve(const char *text, const struct idset *allowed, struct idset *out, struct err *err)
{
	bool inverse = *text == '!', relative = text[inverse] == '+';
	const char *list = text + inverse + relative;
	struct idset named = *allowed, outside;
	char list_text[128];
	if (relative || strcmp(list, "all")) {
		int rc = idset_parse(list, &named, err);
		if (rc)
			return rc;
		if (idset_first(&named) < 0)
			return err_set(err, -EINVAL, "'%.64s': expected a list such as 0-3,8, +0-1, !2 or all", text);
	}
	if (relative) {
		struct idset places = named;
		int rc = nth_members(text, &places, allowed, &named, err);
		if (rc)
			return rc;
	}
	outside = named;
	idset_without(&outside, allowed);
	if (idset_first(&outside) >= 0)
		return err_set(err, -ERANGE, "'%.64s': %d is not there or not allowed; possible: %s", text,
			       idset_first(&outside), idset_format(allowed, list_text, sizeof list_text));
	if (inverse) {
		struct idset rest = *allowed;
		idset_without(&rest, &named);
		named = rest;
	}
	if (idset_first(&named) < 0)
		return err_set(err, -ERANGE, "'%.64s': that leaves none of %s", text,
			       idset_format(allowed, list_text, sizeof list_text));
	*out = named;
	return 0;
}

const char *idset_format(const struct idset *set, char *text, size_t size)
{
	size_t used = 0;
	if (size)
		text[0] = '\0';
	for (int first = idset_first(set); first >= 0;) {
		int last = first;
		while (idset_has(set, (unsigned)last + 1))
			last++;
		char part[32];
		int n;
		if (last > first)
			n = snprintf(part, sizeof part, "%s%d-%d", used ? "," : "", first, last);
		else
			n = snprintf(part, sizeof part, "%s%d", used ? "," : "", first);
		int next = idset_next(set, last);
		/* Keep room for "..." unless this is the last part. */
		size_t tail = next < 0 ? 0 : 3;
		if (used + (size_t)n + tail + 1 > size) {
			if (size)
				snprintf(text + used, size - used, "...");
			break;
		}
		memcpy(text + used, part, (size_t)n + 1);
		used += (size_t)n;
		first = next;
	}
	return text;
}
