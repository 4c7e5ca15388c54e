#include "src/engine/grammar/charset.h"

#include <errno.h>
#include <string.h>

int charset_add(struct charset *set, uint32_t first, uint32_t last)
{
	uint32_t begin = 0, end;
	if (first > last || last > CODE_POINT_MAX)
		return -EINVAL;
	while (begin < set->n && set->ranges[begin].last + 1 < first)
		begin++;
	for (end = begin; end < set->n && set->ranges[end].first <= last + 1;
	     end++) { /* those it touches: one with it */
		first = set->ranges[end].first < first ? set->ranges[end].first : first;
		last = set->ranges[end].last > last ? set->ranges[end].last : last;
	}
	if (begin == end && set->n == CHARSET_RANGES_MAX)
		return -E2BIG;
	memmove(&set->ranges[begin + 1], &set->ranges[end], (set->n - end) * sizeof *set->ranges);
	set->ranges[begin] = (struct charset_range){first, last};
	set->n = set->n - (end - begin) + 1;
	return 0;
}

int charset_add_set(struct charset *set, const struct charset *other)
{
	for (uint32_t i = 0; i < other->n; i++) {
		int rc = charset_add(set, other->ranges[i].first, other->ranges[i].last);
		if (rc)
			return rc;
	}
	return 0;
}

int charset_complement(struct charset *set)
{
	struct charset out = {0};
	uint32_t from = 0;
	int rc = 0;
	for (uint32_t i = 0; i < set->n && !rc; i++) {
		if (set->ranges[i].first > from)
			rc = charset_add(&out, from, set->ranges[i].first - 1);
		from = set->ranges[i].last + 1;
	}
	if (!rc && from <= CODE_POINT_MAX)
		rc = charset_add(&out, from, CODE_POINT_MAX);
	if (!rc)
		*set = out;
	return rc;
}

int charset_remove(struct charset *set, uint32_t first, uint32_t last)
{
	int rc = charset_complement(set);
	if (!rc)
		rc = charset_add(set, first, last);
	return rc ? rc : charset_complement(set);
}

bool charset_has(const struct charset *set, uint32_t code_point)
{
	for (uint32_t i = 0; i < set->n; i++)
		if (code_point >= set->ranges[i].first && code_point <= set->ranges[i].last)
			return true;
	return false;
}
