/* Segments: one read-only copy of a model's payload in POSIX shared memory, on one node or over several.
 *
 * Making one is a fixed order of steps; on a machine with one node a mistake in it cannot be seen:
 *
 *   create:   shm_open(O_EXCL) or memfd -> ftruncate -> map 2 MiB aligned, untouched -> mbind -> read the
 *             policy back -> fallocate in 64 MiB steps, before each the node's free memory and the cgroup checked, in
 *             each huge pages first (of a pool: populate instead)
 *   fill:     the caller, from threads bound to the node
 *   publish:  collapse to huge pages what is not -> hash -> every page's node asked (move_pages), misplaced ones moved
 * and asked again -> header completed -> unmap -> mode 0440, write access dropped, memfd sealed -> read-only descriptor
 *   adopt:    what an earlier daemon published is taken over if a load could not make it any better (segment_adopt.c)
 *
 * A name is "/weightd.<instance>.<model>.g<generation>.n<node>". Anybody may make objects in /dev/shm, so where another
 * user has taken the name the segment gets a longer one, with ".x" and 16 random hexadecimal digits behind it. */
#ifndef WEIGHTD_SHM_SEGMENT_H
#define WEIGHTD_SHM_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "numa/placement.h"
#include "shm/layout.h"
#include "src/err.h"

enum segment_backing {
	SEGMENT_SHM = 0,     /* a name in /dev/shm */
	SEGMENT_MEMFD = 1,   /* none, and sealed, as are the following */
	SEGMENT_POOL_2M = 2, /* in pages of the node's pool (segment_pool.c) */
	SEGMENT_POOL_1G = 3
};
enum segment_huge {
	SEGMENT_HUGE_TRY = 0,
	SEGMENT_HUGE_OFF = 1,
	SEGMENT_HUGE_ON = 2 /* fail unless all were obtained */
};
enum { SEGMENT_NAME_BYTES = 256 };
/* What a node has to have free beside its part of a segment that is made: for page tables, the maker's buffers, the
 * kernel's own watermarks. */
enum { SEGMENT_RESERVE_BYTES = 32 << 20 };

static inline bool segment_is_pooled(enum segment_backing backing)
{
	return backing >= SEGMENT_POOL_2M;
}

struct segment_spec {
	const char *instance; /* [A-Za-z0-9_-]+ */
	const char *model;    /* [A-Za-z0-9._-]+ */
	uint32_t generation;
	unsigned node;
	struct idset spread; /* empty: all of it is on `node`; else it is interleaved over these, `node` among them */
	const struct idset *cpus; /* of the node; memory is first touched from there. NULL, or empty: from anywhere */
	uint64_t payload_bytes;
	enum segment_backing backing;
	enum segment_huge huge;
	gid_t group;	      /* group of the published object; (gid_t)-1: unchanged */
	uint32_t pack_layout; /* for the header: the reader compares it with its own, this folder knows no packing */
	uint32_t isa;	      /* the same */
	struct segment_source source;
};

struct segment { /* being made: writable, private to its maker */
	int fd;
	char name[SEGMENT_NAME_BYTES]; /* "" for memfd */
	void *base;
	uint64_t total_bytes;	  /* header page + payload, rounded up to the page size, or to the pool's */
	struct segment_spec spec; /* what it points to is borrowed from the caller until publish or destroy */
	struct refusals refused;  /* of the calls that were to bind it */
};

/* Placement and size of a published segment, as found by its maker or by a later check. */
struct segment_report {
	uint64_t total_bytes;
	/* By the size of the pages that map them, as /proc/PID/smaps counts them: 2 MiB (transparent or of a pool), 1
	 * GiB (of a pool), and smaller. */
	uint64_t huge_bytes, giant_bytes, small_bytes;
	struct placement placement;
	uint8_t digest[SEGMENT_DIGEST_BYTES];
};

/* "/weightd.<instance>.<model>.g<generation>.n<node>"; -ENAMETOOLONG, -EINVAL for characters that are not allowed. */
int segment_name(const char *instance, const char *model, uint32_t generation, unsigned node,
		 char out[SEGMENT_NAME_BYTES], struct err *err);

/* Of the pages that a segment of this backing is whole pages of; 0: those of the machine. */
uint64_t segment_pool_page_bytes(enum segment_backing backing);

/* Of a segment with so many bytes of payload: header page and payload in whole pages of this size (0: the machine's).
 * -EINVAL, -EOVERFLOW. */
int segment_total_bytes(uint64_t payload_bytes, uint64_t page_bytes, uint64_t *out);

/* The steps of create. On failure nothing is left behind. -ENOSPC: /dev/shm, or the node's pool, is too small. -ENOMEM:
 * the node or the cgroup has not enough free memory (figures in `err`), -EEXIST: this very user has an object of the
 * name. Node memory that turns out short only while allocating gives -ENOMEM, too. Where the kernel refuses to bind
 * memory, pages go to the node whose CPUs first touch them, and the report will say that it was refused. */
int segment_create(const struct segment_spec *spec, struct segment *out, struct err *err);

static inline void *segment_payload(const struct segment *segment)
{
	return (char *)segment->base + SEGMENT_HEADER_BYTES;
}

/* Copies the payload of a filled or published segment mapped at `from` (borrows; [from_bytes], header page included),
 * by threads made for it that run on `cpus` (those of the new segment's node; empty: one, anywhere) and are gone again
 * when this returns. `from` is aligned as mappings are. Both segments have the same size, else -EINVAL. */
int segment_copy(struct segment *to, const void *from, uint64_t from_bytes, const struct idset *cpus, struct err *err);

/* The steps of publish. Binding and telling that the kernel refused do not fail it: the report says so. -EIO: pages
 * that are known to be misplaced and stay so. -ENOMEM: huge pages were demanded and not obtained. On success the
 * writable side is gone and *readonly_fd returns owned. With two or more copies the caller compares the digests. On
 * failure the segment is destroyed. `readonly_fd` is close-on-exec. */
int segment_publish(struct segment *segment, int *readonly_fd, struct segment_report *report, struct err *err);

/* Unmaps, closes and unlinks a segment that was not published. Takes NULL, zeroed, half-made and published ones
 * (nothing happens to those). */
void segment_destroy(struct segment *segment);

/* A reader's side. */
struct segment_view {
	const struct segment_header *header; /* = base */
	const void *base;
	uint64_t total_bytes;
};
/* Maps a descriptor read-only, 2 MiB aligned, populates the page tables (MADV_POPULATE_READ), checks the header against
 * the object's real size. An object with holes is none (-EINVAL): reading them could fault. -EINVAL names the field.
 * Neither hashes nor looks at pack_layout. */
int segment_attach(int readonly_fd, struct segment_view *out, struct err *err);
void segment_detach(struct segment_view *view);

/* Whether the object behind `fd` (borrows; read-only) is what a load for `wanted` would publish now, found by `name`
 * or, with "", without one. Looks at the object (owner, group, mode, links, seals), at its size and header, hashes all
 * of it and asks for the node of every page; `wanted`'s payload_bytes is not looked at, because only a load would know
 * it. On success the segment is attached (detach it) and *report is what was found. Else -EINVAL with the reason, or
 * what the kernel said. Does not look into the payload. */
int segment_adopt(int fd, const char *name, const struct segment_spec *wanted, struct segment_view *view,
		  struct segment_report *report, struct err *err);

/* Counts pages, placement and huge pages of an attached view now: of one that is on a single node against `node`, of an
 * interleaved one against the nodes in its header. The digest is the header's, not computed again. */
int segment_check(const struct segment_view *view, unsigned node, struct segment_report *report, struct err *err);

/* Asks for the node of `n_pages` pages of the object, spread evenly over it, or of all when it has no more; other turns
 * ask for other pages, and each page has its turn (segment_sample.c). Costs no more for a large object than for a small
 * one. At most SEGMENT_SAMPLE_MAX. */
enum { SEGMENT_SAMPLE_MAX = PLACEMENT_SOME_MAX };
int segment_sample(int readonly_fd, unsigned node, uint32_t n_pages, uint64_t turn, struct placement *out,
		   struct err *err);

/* XXH3-128 over the payload part, as in the header. */
void segment_digest(const void *base, uint64_t total_bytes, uint8_t out[SEGMENT_DIGEST_BYTES]);

/* A segment by its name alone: nothing is known of its content. */
struct segment_found {
	char name[SEGMENT_NAME_BYTES]; /* with the leading '/' */
	char model[sizeof(((struct segment_header *)0)->model)];
	uint32_t generation;
	unsigned node;
};
/* Takes the name of a segment of `instance` apart (salted ones, too; without the leading '/'). False: it is none. */
bool segment_parse(const char *name, const char *instance, struct segment_found *out);

/* Every named segment of `instance` that is a regular file of this uid; another owner's object is nobody's business.
 * Returns owned in *out [*n], NULL when there are none. The caller holds the instance's lock. */
int segment_find(const char *instance, struct segment_found **out, unsigned *n, struct err *err);

/* Removes those of the instance, of one model of it, or of one generation of a model. Returns the number removed or
 * -errno. */
int segment_remove_instance(const char *instance, struct err *err);
int segment_remove_model(const char *instance, const char *model, struct err *err);
int segment_remove_generation(const char *instance, const char *model, uint32_t generation, struct err *err);

/* 0, or -EBUSY while another daemon of this uid holds the instance; *lock_fd holds the lock until closed (returns
 * owned). The lock is a file next to the segments: "/dev/shm/weightd.<instance>.lock" (flock). */
int segment_lock_instance(const char *instance, int *lock_fd, struct err *err);
/* Removes the lock's file and lets go of it (takes lock_fd). After a crash the file stays, unlocked, and the next owner
 * takes it over. */
void segment_unlock_instance(const char *instance, int lock_fd);

#endif
