/* Publishing: from filled pages to an object that nobody can write.
 *
 * Collapsing is a second try for what could not be had in huge pages when the memory was taken: there may be some now.
 * It moves pages, so it comes before the check of their places; hashing comes before the check, too, because it touches
 * all pages and so fills the page tables that move_pages() looks at. The header is completed last, its `published`
 * field with release order: a reader that sees 1 sees everything else. The writable mapping must be gone before a memfd
 * can be sealed against writing.
 *
 * The read-only descriptor is a new open of the same inode through /proc/self/fd. For a named object that cannot be
 * fooled by a name that changed hands; for a sealed memfd it is needed, because before Linux 6.7 a shared mapping of a
 * write-sealed memfd through a writable descriptor is refused even when it only reads. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "shm/segment.h"
#include "shm/segment_map.h"

void segment_digest(const void *base, uint64_t total_bytes, uint8_t out[SEGMENT_DIGEST_BYTES])
{
	XXH128_canonical_t digest;
	XXH128_canonicalFromHash(
		&digest, XXH3_128bits((const char *)base + SEGMENT_HEADER_BYTES, total_bytes - SEGMENT_HEADER_BYTES));
	memcpy(out, digest.digest, SEGMENT_DIGEST_BYTES);
}

static int check_placement(const struct segment *segment, struct placement *out, struct err *err)
{
	unsigned node = segment->spec.node;
	struct idset nodes;
	segment_nodes(&segment->spec, &nodes);
	int rc = segment_populate(segment->base, segment->total_bytes);
	if (!rc)
		rc = placement_check_spread(segment->base, segment->total_bytes, &nodes, out);
	if (!rc && out->misplaced) {
		rc = placement_repair_spread(segment->base, segment->total_bytes, &nodes);
		if (!rc)
			rc = segment_populate(segment->base, segment->total_bytes);
		if (!rc)
			rc = placement_check_spread(segment->base, segment->total_bytes, &nodes, out);
	}
	if (rc)
		return err_set(err, rc, "checking where the pages of node %u's copy are: %s", node, strerror(-rc));
	if (placement_wrong(out))
		return err_set(err, -EIO,
			       "node %u: %llu of %llu pages are not there (%llu elsewhere, %llu absent, %llu unknown)",
			       node, (unsigned long long)(out->pages - out->on_node), (unsigned long long)out->pages,
			       (unsigned long long)out->misplaced, (unsigned long long)out->absent,
			       (unsigned long long)out->unknown);
	refusals_add(&out->refused, &segment->refused);
	return 0;
}

static int check_huge(const struct segment *segment, struct segment_report *out, struct err *err)
{
	uint64_t whole = segment->total_bytes / SEGMENT_HUGE_BYTES * SEGMENT_HUGE_BYTES;
	int rc = segment_count_bytes(segment->base, segment->total_bytes, out);
	if (rc)
		return err_set(err, rc, "/proc/self/smaps: %s", strerror(-rc));
	uint64_t huge = out->huge_bytes + out->giant_bytes;
	if (segment->spec.huge == SEGMENT_HUGE_ON && huge < whole)
		return err_set(err, -ENOMEM,
			       "node %u: %llu of %llu MiB are in huge pages, and huge_pages = on asks for all",
			       segment->spec.node, (unsigned long long)huge >> 20, (unsigned long long)whole >> 20);
	return 0;
}

static void complete_header(const struct segment *segment, const uint8_t digest[SEGMENT_DIGEST_BYTES])
{
	const struct segment_spec *spec = &segment->spec;
	struct segment_header *header = segment->base;
	struct segment_header made = {
		.magic = SEGMENT_MAGIC,
		.layout_version = SEGMENT_LAYOUT_VERSION,
		.generation = spec->generation,
		.total_bytes = segment->total_bytes,
		.payload_bytes = spec->payload_bytes,
		.node = (int32_t)spec->node,
		.page_bytes = (uint32_t)sysconf(_SC_PAGESIZE),
		.pack_layout = spec->pack_layout,
		.isa = spec->isa,
		.source = spec->source,
	};
	memcpy(made.spread, spec->spread.word, sizeof made.spread);
	memcpy(made.digest, digest, SEGMENT_DIGEST_BYTES);
	/* segment_name checked both lengths when the segment was made. */
	snprintf(made.instance, sizeof made.instance, "%s", spec->instance);
	snprintf(made.model, sizeof made.model, "%s", spec->model);
	made.source.path[sizeof made.source.path - 1] = '\0';
	*header = made;
	__atomic_store_n(&header->published, 1, __ATOMIC_RELEASE); /* acquired by segment_attach */
}

/* Takes write access away from everyone, ourselves included, and opens the reader's descriptor. */
static int make_readonly(struct segment *segment, int *readonly_fd, struct err *err)
{
	char path[32];
	munmap(segment->base, segment->total_bytes);
	segment->base = NULL;
	if (segment->spec.group != (gid_t)-1 && fchown(segment->fd, (uid_t)-1, segment->spec.group))
		return err_set(err, -errno, "giving the segment to group %u: %s", (unsigned)segment->spec.group,
			       strerror(errno));
	if (fchmod(segment->fd, 0440)) /* after fchown, which may clear mode bits */
		return err_set(err, -errno, "making the segment read-only: %s", strerror(errno));
	if (segment->spec.backing != SEGMENT_SHM &&
	    fcntl(segment->fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return err_set(err, -errno, "sealing the segment: %s", strerror(errno));
	snprintf(path, sizeof path, "/proc/self/fd/%d", segment->fd);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "opening the segment again for reading: %s", strerror(errno));
	*readonly_fd = fd;
	return 0;
}

int segment_publish(struct segment *segment, int *readonly_fd, struct segment_report *report, struct err *err)
{
	struct segment_report made = {.total_bytes = segment->total_bytes};
	int fd = -1;
	/* Interleaved pages would all come to lie on one node. */
	if (segment->spec.huge != SEGMENT_HUGE_OFF && idset_first(&segment->spec.spread) < 0 &&
	    !segment_is_pooled(segment->spec.backing))
		segment_collapse(segment->base, segment->total_bytes);
	segment_digest(segment->base, segment->total_bytes, made.digest);
	int rc = check_placement(segment, &made.placement, err);
	if (!rc)
		rc = check_huge(segment, &made, err);
	if (rc)
		goto fail;
	complete_header(segment, made.digest);
	rc = make_readonly(segment, &fd, err);
	if (rc)
		goto fail;
	close(segment->fd);
	segment->fd = -1;
	*readonly_fd = fd;
	*report = made;
	return 0;
fail:
	segment_destroy(segment);
	return rc;
}
