#include "numa/interleave.h"

/* How much of a part each node has, by its place among the nodes. */
struct shares {
	const struct idset *nodes;
	unsigned n_nodes;
	int node[INTERLEAVE_NODES_MAX];
	size_t pages[INTERLEAVE_NODES_MAX];
};

static int place_of(const struct shares *shares, int node)
{
	for (unsigned i = 0; i < shares->n_nodes; i++)
		if (shares->node[i] == node)
			return (int)i;
	return -1;
}

/* The node that all of a part's known pages are on; -1: there are several, or none is known. */
static int only_node(const int *status, size_t n)
{
	int only = -1;
	for (size_t i = 0; i < n; i++) {
		if (status[i] < 0)
			continue;
		if (only >= 0 && status[i] != only)
			return -1;
		only = status[i];
	}
	return only;
}

/* Small pages: the same number on each node, and of what is left over at most one more. */
static void want_even(const int *status, size_t n, struct shares *shares, int *wanted)
{
	size_t known = 0;
	for (size_t i = 0; i < n; i++)
		known += status[i] >= 0;
	for (unsigned k = 0; k < shares->n_nodes; k++)
		shares->pages[k] = 0;
	size_t share = known / shares->n_nodes, left_over = known % shares->n_nodes;
	for (size_t i = 0; i < n; i++) {
		int k = status[i] < 0 ? -1 : place_of(shares, status[i]);
		wanted[i] = -1;
		if (k < 0 || shares->pages[k] > share || (shares->pages[k] == share && !left_over))
			continue;
		left_over -= shares->pages[k]++ == share;
		wanted[i] = status[i];
	}
	/* The rest goes where there is less: there is exactly as much room as there are pages. */
	unsigned k = 0;
	for (size_t i = 0; i < n; i++) {
		if (status[i] < 0 || wanted[i] >= 0)
			continue;
		while (k < shares->n_nodes && shares->pages[k] >= share)
			k++;
		unsigned to = k;
		if (to == shares->n_nodes) /* all have their share: one of those without one more */
			for (to = 0; shares->pages[to] > share; to++)
				;
		shares->pages[to]++;
		wanted[i] = shares->node[to];
	}
}

/* One round: as many huge pages, or rooms of one, as there are nodes. */
static void want_round(const int *status, size_t n, size_t huge_pages, struct shares *shares, int *wanted)
{
	struct idset taken;
	idset_clear(&taken);
	for (size_t at = 0; at < n; at += huge_pages) {
		size_t part = n - at < huge_pages ? n - at : huge_pages;
		int node = part == huge_pages ? only_node(status + at, part) : -1;
		bool keeps =
			node >= 0 && idset_has(shares->nodes, (unsigned)node) && !idset_has(&taken, (unsigned)node);
		if (keeps)
			idset_add(&taken, (unsigned)node);
		if (node < 0)
			want_even(status + at, part, shares, wanted + at);
		else
			for (size_t i = 0; i < part; i++)
				wanted[at + i] = status[at + i] < 0 ? -1 : keeps ? node : IDSET_MAX;
	}
	/* Huge pages that may not stay: each to a node that has none of this round. */
	for (size_t at = 0; at + huge_pages <= n; at += huge_pages) {
		int to = idset_first(shares->nodes);
		bool moves = false;
		for (size_t i = 0; i < huge_pages; i++)
			moves |= wanted[at + i] == IDSET_MAX;
		if (!moves)
			continue;
		while (idset_has(&taken, (unsigned)to))
			to = idset_next(shares->nodes, to);
		idset_add(&taken, (unsigned)to);
		for (size_t i = 0; i < huge_pages; i++)
			wanted[at + i] = wanted[at + i] == IDSET_MAX ? to : -1;
	}
}

void interleave_want(const int *status, size_t n, size_t huge_pages, const struct idset *nodes, int *wanted)
{
	struct shares shares = {.nodes = nodes};
	for (int node = idset_first(nodes); node >= 0 && shares.n_nodes < INTERLEAVE_NODES_MAX;
	     node = idset_next(nodes, node))
		shares.node[shares.n_nodes++] = node;
	size_t round = shares.n_nodes * huge_pages;
	for (size_t at = 0; at < n; at += round)
		want_round(status + at, n - at < round ? n - at : round, huge_pages, &shares, wanted + at);
}
