#include "numa/placement.h"

#include <assert.h>
#include <errno.h>
#include <numaif.h>
#include <stdlib.h>
#include <unistd.h>

/* move_pages(2) without target nodes moves nothing: it fills in, for each address, the node its page is on or a
 * negative errno. The kernel walks the list in small steps and can be killed in between, so the batch only bounds our
 * arrays: 64 Ki addresses are 256 MiB of mapping and under 1 MiB of arrays. */
enum { BATCH_PAGES = 1 << 16 };

struct batch {
	void *address[BATCH_PAGES];
	int node[BATCH_PAGES];	 /* wanted, for moves */
	int status[BATCH_PAGES]; /* node or -errno, per address */
};

static void count_status(const struct batch *batch, size_t n, unsigned node, struct placement *out)
{
	for (size_t i = 0; i < n; i++) {
		int status = batch->status[i];
		if (status >= 0)
			(unsigned)status == node ? out->on_node++ : out->misplaced++;
		else if (status == -ENOENT || status == -EFAULT)
			out->absent++; /* Linux 6.1 gives EFAULT for private pages that were never touched */
		else
			out->unknown++;
	}
}

/* Asks about the batch's first n addresses and adds the answers. */
static int ask(struct batch *batch, size_t n, unsigned node, struct placement *out)
{
	for (size_t i = 0; i < n; i++)
		batch->status[i] = -EIO; /* never taken for a node if the kernel left it alone */
	if (move_pages(0, n, batch->address, NULL, batch->status, 0))
		return -errno;
	count_status(batch, n, node, out);
	return 0;
}

/* move_pages lacks the const; asking does not write. */
static void *page_at(const void *base, uint64_t page)
{
	return (char *)(uintptr_t)base + page * (size_t)sysconf(_SC_PAGESIZE);
}

/* A refusal is an answer, too. */
static int take_answer(struct placement *found, int rc, struct placement *out)
{
	if (rc && !refusals_note(&found->refused, NUMA_MOVE_PAGES, rc))
		return rc;
	*out = *found;
	return 0;
}

int placement_check(const void *base, size_t bytes, unsigned node, struct placement *out)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	size_t pages = bytes / page_bytes + (bytes % page_bytes != 0);
	struct batch *batch = malloc(sizeof *batch);
	if (!batch)
		return -ENOMEM;
	struct placement result = {.pages = pages};
	int rc = 0;
	for (size_t done = 0; done < pages && !rc;) {
		size_t n = pages - done < BATCH_PAGES ? pages - done : BATCH_PAGES;
		for (size_t i = 0; i < n; i++)
			batch->address[i] = page_at(base, done + i);
		rc = ask(batch, n, node, &result);
		done += n;
	}
	free(batch);
	return take_answer(&result, rc, out);
}

int placement_check_some(const void *base, const uint64_t *page, size_t n, unsigned node, struct placement *out)
{
	static_assert((int)PLACEMENT_SOME_MAX <= (int)BATCH_PAGES, "one batch has room for them");
	if (n > PLACEMENT_SOME_MAX)
		return -EINVAL;
	struct batch *batch = malloc(sizeof *batch);
	if (!batch)
		return -ENOMEM;
	struct placement result = {.pages = n};
	for (size_t i = 0; i < n; i++)
		batch->address[i] = page_at(base, page[i]);
	int rc = ask(batch, n, node, &result);
	free(batch);
	return take_answer(&result, rc, out);
}

bool placement_wrong(const struct placement *placement)
{
	return !placement->refused.error[NUMA_MOVE_PAGES] && placement->on_node != placement->pages;
}

bool placement_verified(const struct placement *placement)
{
	return !refusals_any(&placement->refused) && placement->pages && placement->on_node == placement->pages;
}

int placement_repair(void *base, size_t bytes, unsigned node)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	size_t pages = bytes / page_bytes + (bytes % page_bytes != 0);
	struct batch *batch = malloc(sizeof *batch);
	int rc = 0;
	if (!batch)
		return -ENOMEM;
	for (size_t done = 0; done < pages && !rc;) {
		size_t n = pages - done < BATCH_PAGES ? pages - done : BATCH_PAGES, wrong = 0;
		for (size_t i = 0; i < n; i++)
			batch->address[i] = (char *)base + (done + i) * page_bytes;
		if (move_pages(0, n, batch->address, NULL, batch->status, 0))
			rc = -errno;
		for (size_t i = 0; i < n && !rc; i++) {
			if (batch->status[i] < 0 || (unsigned)batch->status[i] == node)
				continue;
			batch->address[wrong] = batch->address[i];
			batch->node[wrong++] = (int)node;
		}
		/* A positive result is the number of pages that stayed: the caller's next check counts them. */
		if (!rc && wrong && move_pages(0, wrong, batch->address, batch->node, batch->status, MPOL_MF_MOVE) < 0)
			rc = -errno;
		done += n;
	}
	free(batch);
	return rc;
}
