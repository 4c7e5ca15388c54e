/* A look at some pages of a segment, cheap enough to be taken again and again.
 *
 * Counting all pages fills page tables for all of them: seconds, and gigabytes of tables, for the largest models. Here
 * the object is cut into as many equal stretches as pages are to be asked for, and one page of each is mapped and asked
 * for. So whatever has moved and is longer than two stretches is seen by every look. Which page of its stretch it is
 * changes with the turn, in steps of about 0.618 of a stretch that have no divisor in common with its length: any few
 * turns after another are spread over the stretch, and all its pages have come after as many turns as it has pages.
 *
 * A page that was swapped out comes back for being looked at, on the node that the object's policy says. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/segment.h"
#include "shm/segment_map.h"

static uint64_t divisor(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;
		a = b;
		b = rest;
	}
	return a;
}

/* How far into a stretch of that length the turn looks. */
static uint64_t offset_of(uint64_t length, uint64_t turn)
{
	uint64_t step = length * 618 / 1000;
	while (divisor(step, length) > 1) /* ends at 1 at the latest; 0 for a stretch of one page */
		step--;
	return (turn % length) * step % length;
}

void segment_sample_pages(uint64_t pages, uint32_t n, uint64_t turn, uint64_t *page)
{
	uint64_t longest = pages / n + (pages % n != 0), offset = offset_of(longest, turn);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t begin = pages / n * i + pages % n * i / n;
		uint64_t end = pages / n * (i + 1) + pages % n * (i + 1) / n;
		page[i] = begin + (offset < end - begin ? offset : 0); /* a stretch may be one page shorter */
	}
}

int segment_sample(int readonly_fd, unsigned node, uint32_t n_pages, uint64_t turn, struct placement *out,
		   struct err *err)
{
	uint64_t bytes = 0, page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	void *base = NULL;
	struct idset nodes;
	if (!n_pages || n_pages > SEGMENT_SAMPLE_MAX)
		return err_set(err, -EINVAL, "a sample of %u pages, possible are 1 to %d", n_pages, SEGMENT_SAMPLE_MAX);
	int rc = segment_object_bytes(readonly_fd, &bytes, err);
	if (rc)
		return rc;
	uint32_t n = bytes / page_bytes < n_pages ? (uint32_t)(bytes / page_bytes) : n_pages;
	uint64_t *page = calloc(n, sizeof *page);
	rc = page ? segment_map(readonly_fd, bytes, PROT_READ, &base) : -ENOMEM;
	if (!rc)
		segment_sample_pages(bytes / page_bytes, n, turn, page);
	idset_clear(&nodes);
	if (!rc) /* what an interleaved one is spread over, its header says */
		memcpy(nodes.word, ((const struct segment_header *)base)->spread, sizeof nodes.word);
	if (idset_first(&nodes) < 0)
		idset_add(&nodes, node);
	for (uint32_t i = 0; i < n && !rc; i++)
		rc = segment_populate((char *)base + page[i] * page_bytes, page_bytes);
	if (!rc)
		rc = placement_check_some(base, page, n, &nodes, out);
	if (base)
		munmap(base, bytes);
	free(page);
	return rc ? err_set(err, rc, "looking at %u pages of a segment of %llu bytes: %s", n, (unsigned long long)bytes,
			    strerror(-rc))
		  : 0;
}
