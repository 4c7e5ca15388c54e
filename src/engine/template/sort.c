#include "src/engine/template/sort.h"

#include <string.h>

#include "src/engine/template/render.h"

/* Whether b goes before a; equal ones stay as they are. */
static int goes_before(struct render *r, struct value b, struct value a, bool reverse, bool *before)
{
	int order;
	bool unordered;
	int rc = reverse ? value_order(r, a, b, &order, &unordered) : value_order(r, b, a, &order, &unordered);
	*before = !rc && !unordered && order < 0;
	return rc;
}

static int merge(struct render *r, const struct sort_item *from, struct sort_item *to, size_t start, size_t middle,
		 size_t end, bool reverse)
{
	size_t left = start, right = middle;
	for (size_t i = start; i < end; i++) {
		bool take_right = left == middle;
		if (!take_right && right < end) {
			int rc = goes_before(r, from[right].key, from[left].key, reverse, &take_right);
			if (rc)
				return rc;
		}
		to[i] = take_right ? from[right++] : from[left++];
	}
	return 0;
}

/* Bottom-up merge sort between the items and a second array. */
int sort_items(struct render *r, struct sort_item *items, size_t n, bool reverse)
{
	struct sort_item *from = items, *to = heap_cells(&r->heap, n, sizeof *to);
	if (!to)
		return render_oom(r);
	for (size_t width = 1; width < n; width *= 2) {
		for (size_t start = 0; start < n; start += 2 * width) {
			size_t middle = start + width < n ? start + width : n;
			size_t end = start + 2 * width < n ? start + 2 * width : n;
			int rc = merge(r, from, to, start, middle, end, reverse);
			if (rc)
				return rc;
		}
		struct sort_item *swap = from;
		from = to;
		to = swap;
	}
	if (from != items && n)
		memcpy(items, from, n * sizeof *items);
	return 0;
}
