/* A reader's side of segments. The descriptor may come from another process and the object from another life of the
 * daemon, so nothing in the header is believed before it was compared with what the kernel says.
 *
 * No load may fault with SIGBUS. A load from a hole would make the kernel allocate a page, and /dev/shm may be full: so
 * an object with holes is none. A load from behind the end of an object that somebody makes shorter (a process of the
 * same user could, if it is no sealed memfd) can't be excluded; but it happens while page tables are populated, where
 * it is an error, rather than in a check of the header. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/segment.h"
#include "shm/segment_map.h"

int segment_object_bytes(int fd, uint64_t *out, struct err *err)
{
	struct stat st;
	if (fstat(fd, &st))
		return err_set(err, -errno, "segment: %s", strerror(errno));
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "segment: not a regular object");
	if (st.st_size <= SEGMENT_HEADER_BYTES || (uint64_t)st.st_size % page_bytes)
		return err_set(err, -EINVAL, "segment: %lld bytes is no segment's size", (long long)st.st_size);
	if ((uint64_t)st.st_blocks * 512 < (uint64_t)st.st_size)
		return err_set(err, -EINVAL, "segment: only %llu of its %llu bytes are allocated, the rest are holes",
			       (unsigned long long)st.st_blocks * 512, (unsigned long long)st.st_size);
	*out = (uint64_t)st.st_size;
	return 0;
}

static int check_header(const struct segment_header *header, uint64_t object, struct err *err)
{
	if (header->magic != SEGMENT_MAGIC)
		return err_set(err, -EINVAL, "segment header: magic is %#llx", (unsigned long long)header->magic);
	if (header->layout_version != SEGMENT_LAYOUT_VERSION)
		return err_set(err, -EINVAL, "segment header: layout_version is %u, this program knows %d",
			       header->layout_version, SEGMENT_LAYOUT_VERSION);
	/* Released by segment_publish after all else was written. */
	if (__atomic_load_n(&header->published, __ATOMIC_ACQUIRE) != 1)
		return err_set(err, -EINVAL, "segment header: published is not set, its maker did not finish");
	if (header->total_bytes != object)
		return err_set(err, -EINVAL, "segment header: total_bytes is %llu, the object has %llu",
			       (unsigned long long)header->total_bytes, (unsigned long long)object);
	if (!header->payload_bytes || header->payload_bytes > object - SEGMENT_HEADER_BYTES)
		return err_set(err, -EINVAL, "segment header: payload_bytes is %llu in an object of %llu",
			       (unsigned long long)header->payload_bytes, (unsigned long long)object);
	if (header->page_bytes != (uint32_t)sysconf(_SC_PAGESIZE))
		return err_set(err, -EINVAL, "segment header: page_bytes is %u", header->page_bytes);
	if (header->node < 0 || header->node >= IDSET_MAX)
		return err_set(err, -EINVAL, "segment header: node is %d", header->node);
	if (!memchr(header->instance, '\0', sizeof header->instance))
		return err_set(err, -EINVAL, "segment header: instance is not terminated");
	if (!memchr(header->model, '\0', sizeof header->model))
		return err_set(err, -EINVAL, "segment header: model is not terminated");
	if (!memchr(header->source.path, '\0', sizeof header->source.path))
		return err_set(err, -EINVAL, "segment header: source path is not terminated");
	if (header->source.n_files > SEGMENT_FILES_MAX)
		return err_set(err, -EINVAL, "segment header: a source of %u files, at most %d are possible",
			       header->source.n_files, SEGMENT_FILES_MAX);
	return 0;
}

int segment_attach(int readonly_fd, struct segment_view *out, struct err *err)
{
	uint64_t bytes = 0;
	void *base = NULL;
	int rc = segment_object_bytes(readonly_fd, &bytes, err);
	if (rc)
		return rc;
	rc = segment_map(readonly_fd, bytes, PROT_READ, &base);
	if (rc)
		return err_set(err, rc, "mapping a segment of %llu bytes: %s", (unsigned long long)bytes,
			       strerror(-rc));
	rc = segment_populate(base, bytes);
	if (rc) {
		err_set(err, rc, "populating a segment of %llu bytes: %s", (unsigned long long)bytes, strerror(-rc));
		goto fail;
	}
	rc = check_header(base, bytes, err);
	if (rc)
		goto fail;
	*out = (struct segment_view){.header = base, .base = base, .total_bytes = bytes};
	return 0;
fail:
	munmap(base, bytes);
	return rc;
}

void segment_detach(struct segment_view *view)
{
	if (!view || !view->base)
		return;
	munmap((void *)(uintptr_t)view->base, view->total_bytes);
	memset(view, 0, sizeof *view);
}

int segment_check(const struct segment_view *view, unsigned node, struct segment_report *report, struct err *err)
{
	struct segment_report found = {.total_bytes = view->total_bytes};
	struct idset nodes;
	memcpy(nodes.word, view->header->spread, sizeof nodes.word);
	if (idset_first(&nodes) < 0)
		idset_add(&nodes, node);
	/* The kernel may have taken page-table entries back since attach, for example when it collapsed pages. */
	int rc = segment_populate(view->base, view->total_bytes);
	if (!rc)
		rc = placement_check_spread(view->base, view->total_bytes, &nodes, &found.placement);
	if (!rc)
		rc = segment_count_bytes(view->base, view->total_bytes, &found);
	if (rc)
		return err_set(err, rc, "checking a segment of %llu bytes: %s", (unsigned long long)view->total_bytes,
			       strerror(-rc));
	memcpy(found.digest, view->header->digest, SEGMENT_DIGEST_BYTES);
	*report = found;
	return 0;
}
