/* Adopting: a segment of an earlier life of the daemon, believed in nothing.
 *
 * Whoever finds an object under one of our names knows the name and no more. It may be half made, of an older program,
 * of a file that was replaced since, damaged, or lie on another node than its name says. So every condition of making
 * one is looked at again, cheapest first, and the bytes last, all of them:
 *
 *   the object      this user's, group and mode as publish sets them, no second name, or sealed: nobody else has a way
 *                   to its bytes
 *   the header      of this layout, packing and machine, for this instance, model, generation, node and source file
 *   the policy      bound to the node, again if need be: its maker may not have been allowed to
 *   the pages       huge as far as they can be had, as after a load
 *   the digest      recomputed; the one in the header was written when the bytes were right
 *   the placement   asked of the kernel for every page
 *
 * A misplaced page is no reason to repair: the object may be mapped by a process that has not died yet, and a new copy
 * from memory costs little. Placement that the kernel refuses to tell is no reason to drop it: a load could not say
 * more, and the report does not claim more.
 *
 * Only the descriptor counts. The name is used for its number of links; between looking at it and mapping it nobody can
 * put another object behind a descriptor. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "numa/bind.h"
#include "shm/segment.h"
#include "shm/segment_map.h"
#include "shm/segment_pool.h"

static int check_seals(int fd, enum segment_backing backing, struct err *err)
{
	/* On a kernel object that knows no seals this fails, and no seal is what that means. A file in /dev/shm has
	 * F_SEAL_SEAL from its birth. */
	int wanted = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, seals = fcntl(fd, F_GET_SEALS);
	bool sealed = seals >= 0 && (seals & wanted) == wanted;
	uint64_t page_bytes = 0;
	int rc = segment_pool_object_page_bytes(fd, &page_bytes);
	if (rc)
		return err_set(err, rc, "its file system: %s", strerror(-rc));
	if (backing != SEGMENT_SHM && !sealed)
		return err_set(err, -EINVAL, "it is no sealed memfd, as backing asks for");
	if (backing == SEGMENT_SHM && sealed)
		return err_set(err, -EINVAL, "it is a memfd, and backing = shm asks for a named object");
	if (page_bytes != segment_pool_page_bytes(backing))
		return err_set(err, -EINVAL, "it is in pages of %llu KiB of a pool (0: of none), backing asks for %llu",
			       (unsigned long long)page_bytes >> 10,
			       (unsigned long long)segment_pool_page_bytes(backing) >> 10);
	return 0;
}

static int check_object(int fd, const char *name, const struct segment_spec *wanted, struct err *err)
{
	struct stat st;
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fstat(fd, &st))
		return err_set(err, -errno, "its descriptor: %s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "it is not a regular file");
	if ((flags & O_ACCMODE) != O_RDONLY || flags & O_PATH)
		return err_set(err, -EINVAL, "its descriptor is not for reading only");
	if (st.st_uid != geteuid())
		return err_set(err, -EINVAL, "its owner is user %u", (unsigned)st.st_uid);
	gid_t group = wanted->group == (gid_t)-1 ? getegid() : wanted->group;
	if (st.st_gid != group)
		return err_set(err, -EINVAL, "its group is %u, a load would make it %u", (unsigned)st.st_gid,
			       (unsigned)group);
	if ((st.st_mode & 07777) != 0440)
		return err_set(err, -EINVAL, "its mode is %04o, a published one has 0440",
			       (unsigned)st.st_mode & 07777);
	nlink_t links = name[0] ? 1 : 0;
	if (st.st_nlink != links)
		return err_set(err, -EINVAL, "it has %ju names instead of %ju", (uintmax_t)st.st_nlink,
			       (uintmax_t)links);
	return check_seals(fd, wanted->backing, err);
}

static int check_source(const struct segment_source *was, const struct segment_source *now, struct err *err)
{
	if (strcmp(was->path, now->path))
		return err_set(err, -EINVAL, "its source was %.160s", was->path);
	if (was->quantize != now->quantize)
		return err_set(err, -EINVAL, "it was made with another value of the key quantize");
	if (was->n_files != now->n_files)
		return err_set(err, -EINVAL, "its source had %u files, now there are %u", was->n_files, now->n_files);
	for (uint32_t i = 0; i < was->n_files; i++)
		if (was->files[i] != now->files[i])
			return err_set(err, -EINVAL, "file %u of %u of its source was changed or replaced since", i + 1,
				       was->n_files);
	if (was->size_bytes != now->size_bytes)
		return err_set(err, -EINVAL, "its source had %llu bytes", (unsigned long long)was->size_bytes);
	return 0;
}

/* What segment_attach has not looked at: it knows the layout, not what is wanted. */
static int check_header(const struct segment_header *header, const struct segment_spec *wanted, struct err *err)
{
	uint64_t total_bytes = 0;
	if (segment_total_bytes(header->payload_bytes, segment_pool_page_bytes(wanted->backing), &total_bytes) ||
	    total_bytes != header->total_bytes)
		return err_set(err, -EINVAL, "its size is not the one of its payload");
	if (header->generation != wanted->generation)
		return err_set(err, -EINVAL, "its header is of generation %u", header->generation);
	if ((unsigned)header->node != wanted->node)
		return err_set(err, -EINVAL, "its header is of node %d", header->node);
	if (memcmp(header->spread, wanted->spread.word, sizeof header->spread))
		return err_set(err, -EINVAL, "it is interleaved over other nodes");
	if (strcmp(header->instance, wanted->instance) || strcmp(header->model, wanted->model))
		return err_set(err, -EINVAL, "its header is of instance '%s', model '%s'", header->instance,
			       header->model);
	if (header->pack_layout != wanted->pack_layout)
		return err_set(err, -EINVAL, "it is packed in layout %u, this program reads %u", header->pack_layout,
			       wanted->pack_layout);
	if (header->isa != wanted->isa)
		return err_set(err, -EINVAL, "it is packed for ISA %u, this program reads %u", header->isa,
			       wanted->isa);
	return check_source(&header->source, &wanted->source, err);
}

/* Huge pages must not be fewer than a load would get, so this asks for them as a load does. */
static int check_huge(const struct segment_view *view, enum segment_huge huge, uint64_t huge_bytes, struct err *err)
{
	uint64_t whole = view->total_bytes / SEGMENT_HUGE_BYTES * SEGMENT_HUGE_BYTES;
	if (huge == SEGMENT_HUGE_OFF && huge_bytes)
		return err_set(err, -EINVAL, "%llu MiB of it are in huge pages, and huge_pages = off",
			       (unsigned long long)huge_bytes >> 20);
	if (huge == SEGMENT_HUGE_ON && huge_bytes < whole)
		return err_set(err, -EINVAL, "%llu of %llu MiB are in huge pages, and huge_pages = on asks for all",
			       (unsigned long long)huge_bytes >> 20, (unsigned long long)whole >> 20);
	return 0;
}

static int check_content(const struct segment_view *view, const struct segment_spec *wanted,
			 struct segment_report *report, struct err *err)
{
	uint8_t digest[SEGMENT_DIGEST_BYTES];
	struct segment_report found;
	struct refusals refused = {{0}};
	struct idset nodes;
	bool interleaved = idset_first(&wanted->spread) >= 0; /* collapsing would bring its pages together */
	segment_nodes(wanted, &nodes);
	/* Takes no const, and changes no byte: the policy is the object's. */
	int rc = bind_mapping_spread((void *)(uintptr_t)view->base, view->total_bytes, &nodes, &refused, err);
	if (rc)
		return rc;
	/* madvise takes no const; collapsing changes no byte */
	if (wanted->huge != SEGMENT_HUGE_OFF && !interleaved && !segment_is_pooled(wanted->backing))
		segment_collapse((void *)(uintptr_t)view->base, view->total_bytes);
	segment_digest(view->base, view->total_bytes, digest);
	if (memcmp(digest, view->header->digest, sizeof digest))
		return err_set(err, -EINVAL, "its bytes do not have the digest they had when it was made");
	rc = segment_check(view, wanted->node, &found, err);
	if (rc)
		return rc;
	refusals_add(&found.placement.refused, &refused);
	rc = check_huge(view, wanted->huge, found.huge_bytes + found.giant_bytes, err);
	if (rc)
		return rc;
	const struct placement *p = &found.placement;
	if (placement_wrong(p))
		return err_set(err, -EINVAL, "%llu of its %llu pages are not %s node %u",
			       (unsigned long long)(p->pages - p->on_node), (unsigned long long)p->pages,
			       interleaved ? "interleaved from" : "on", wanted->node);
	*report = found;
	return 0;
}

int segment_adopt(int fd, const char *name, const struct segment_spec *wanted, struct segment_view *view,
		  struct segment_report *report, struct err *err)
{
	struct segment_view found;
	int rc = check_object(fd, name, wanted, err);
	if (!rc)
		rc = segment_attach(fd, &found, err);
	if (rc)
		return rc;
	rc = check_header(found.header, wanted, err);
	if (!rc)
		rc = check_content(&found, wanted, report, err);
	if (rc) {
		segment_detach(&found);
		return rc;
	}
	*view = found;
	return 0;
}
