#include "numa/placement.h"

#include <assert.h>
#include <errno.h>
#include <numaif.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include "numa/interleave.h"

/* move_pages(2) without target nodes moves nothing: it fills in, for each address, the node its page is on or a
 * negative errno. The kernel walks the list in small steps and can be killed in between, so the batch only bounds our
 * arrays: 64 Ki addresses are 256 MiB of mapping and under 1 MiB of arrays. */
enum { BATCH_PAGES = 1 << 16 };

struct batch {
	void *address[BATCH_PAGES];
	int status[BATCH_PAGES]; /* node or -errno, per address */
	int wanted[BATCH_PAGES]; /* node */
};

/* A mapping of which pages belong on `nodes`: all on the only one, or interleaved. */
struct asked {
	const char *base;
	size_t pages, page_bytes;
	size_t batch_pages; /* asked about at a time; of an interleaved one whole rounds */
	const struct idset *nodes;
	unsigned n_nodes;
};

static int begin(const void *base, size_t bytes, const struct idset *nodes, struct asked *out, struct batch **batch)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	*out = (struct asked){base,	  bytes / page_bytes + (bytes % page_bytes != 0),
			      page_bytes, BATCH_PAGES,
			      nodes,	  idset_count(nodes)};
	if (out->n_nodes < 1 || out->n_nodes > INTERLEAVE_NODES_MAX)
		return -EINVAL;
	if (out->n_nodes > 1) {
		size_t round = out->n_nodes * (PLACEMENT_HUGE_BYTES / page_bytes);
		out->batch_pages = BATCH_PAGES / round * round;
	}
	*batch = malloc(sizeof **batch);
	return *batch ? 0 : -ENOMEM;
}

/* Where the batch's first n addresses are. */
static int ask_where(struct batch *batch, size_t n)
{
	for (size_t i = 0; i < n; i++)
		batch->status[i] = -EIO; /* never taken for a node if the kernel left it alone */
	return move_pages(0, n, batch->address, NULL, batch->status, 0) ? -errno : 0;
}

/* move_pages lacks the const; asking does not write. */
static void *page_at(const void *base, uint64_t page, size_t page_bytes)
{
	return (char *)(uintptr_t)base + page * page_bytes;
}

/* Where the next pages from number `done` on are, and where they belong. Returns their number, or -errno. */
static ssize_t ask(const struct asked *asked, size_t done, struct batch *batch)
{
	size_t left = asked->pages - done, n = left < asked->batch_pages ? left : asked->batch_pages;
	for (size_t i = 0; i < n; i++)
		batch->address[i] = page_at(asked->base, done + i, asked->page_bytes);
	int rc = ask_where(batch, n);
	if (rc)
		return rc;
	if (asked->n_nodes > 1) {
		interleave_want(batch->status, n, PLACEMENT_HUGE_BYTES / asked->page_bytes, asked->nodes,
				batch->wanted);
	} else {
		int node = idset_first(asked->nodes);
		for (size_t i = 0; i < n; i++)
			batch->wanted[i] = node;
	}
	return (ssize_t)n;
}

static void count(const struct batch *batch, size_t n, struct placement *out)
{
	for (size_t i = 0; i < n; i++) {
		int status = batch->status[i];
		if (status >= 0)
			status == batch->wanted[i] ? out->on_node++ : out->misplaced++;
		else if (status == -ENOENT || status == -EFAULT)
			out->absent++; /* Linux 6.1 gives EFAULT for private pages that were never touched */
		else
			out->unknown++;
	}
}

/* A refusal is an answer, too. */
static int take_answer(struct placement *found, int rc, struct placement *out)
{
	if (rc && !refusals_note(&found->refused, NUMA_MOVE_PAGES, rc))
		return rc;
	*out = *found;
	return 0;
}

int placement_check_spread(const void *base, size_t bytes, const struct idset *nodes, struct placement *out)
{
	struct asked asked;
	struct batch *batch = NULL;
	int rc = begin(base, bytes, nodes, &asked, &batch);
	if (rc)
		return rc;
	struct placement result = {.pages = asked.pages};
	for (size_t done = 0; rc == 0 && done < asked.pages;) {
		ssize_t n = ask(&asked, done, batch);
		if (n < 0)
			rc = (int)n;
		else
			count(batch, (size_t)n, &result);
		done += n < 0 ? 0 : (size_t)n;
	}
	free(batch);
	return take_answer(&result, rc, out);
}

int placement_check_some(const void *base, const uint64_t *page, size_t n, const struct idset *nodes,
			 struct placement *out)
{
	static_assert((int)PLACEMENT_SOME_MAX <= (int)BATCH_PAGES, "one batch has room for them");
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	if (n > PLACEMENT_SOME_MAX)
		return -EINVAL;
	struct batch *batch = malloc(sizeof *batch);
	if (!batch)
		return -ENOMEM;
	struct placement result = {.pages = n};
	for (size_t i = 0; i < n; i++)
		batch->address[i] = page_at(base, page[i], page_bytes);
	int rc = ask_where(batch, n);
	for (size_t i = 0; i < n && !rc; i++) {
		int status = batch->status[i];
		batch->wanted[i] = status >= 0 && idset_has(nodes, (unsigned)status) ? status : idset_first(nodes);
	}
	if (!rc)
		count(batch, n, &result);
	free(batch);
	return take_answer(&result, rc, out);
}

int placement_check(const void *base, size_t bytes, unsigned node, struct placement *out)
{
	struct idset nodes;
	idset_clear(&nodes);
	idset_add(&nodes, node);
	return placement_check_spread(base, bytes, &nodes, out);
}

bool placement_wrong(const struct placement *placement)
{
	return !placement->refused.error[NUMA_MOVE_PAGES] && placement->on_node != placement->pages;
}

bool placement_verified(const struct placement *placement)
{
	return !refusals_any(&placement->refused) && placement->pages && placement->on_node == placement->pages;
}

/* Moves those of a batch that are not where they belong. */
static int move(struct batch *batch, size_t n)
{
	size_t wrong = 0;
	for (size_t i = 0; i < n; i++) {
		if (batch->status[i] < 0 || batch->status[i] == batch->wanted[i])
			continue;
		batch->address[wrong] = batch->address[i];
		batch->wanted[wrong++] = batch->wanted[i];
	}
	/* A positive result is the number of pages that stayed: the caller's next check counts them. */
	if (wrong && move_pages(0, wrong, batch->address, batch->wanted, batch->status, MPOL_MF_MOVE) < 0)
		return -errno;
	return 0;
}

int placement_repair_spread(void *base, size_t bytes, const struct idset *nodes)
{
	struct asked asked;
	struct batch *batch = NULL;
	int rc = begin(base, bytes, nodes, &asked, &batch);
	for (size_t done = 0; rc == 0 && done < asked.pages;) {
		ssize_t n = ask(&asked, done, batch);
		rc = n < 0 ? (int)n : move(batch, (size_t)n);
		done += n < 0 ? 0 : (size_t)n;
	}
	free(batch);
	return rc;
}

int placement_repair(void *base, size_t bytes, unsigned node)
{
	struct idset nodes;
	idset_clear(&nodes);
	idset_add(&nodes, node);
	return placement_repair_spread(base, bytes, &nodes);
}
