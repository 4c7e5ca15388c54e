/* The first page of every segment. What follows it (from SEGMENT_HEADER_BYTES on) is the payload: for a model, the
 * image of src/engine/image.h. Fixed-width fields, little-endian, no pointers.
 *
 *   field                      writer                 readers                       ordering
 *   all but `published`        loader, before seal    parent, workers, verifier     written before `published`
 *   published                  loader, last           parent, workers, verifier     release / acquire
 */
#ifndef WEIGHTD_SHM_LAYOUT_H
#define WEIGHTD_SHM_LAYOUT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define SEGMENT_MAGIC 0x3147455344544857ull /* "WHTDSEG1" */
enum { SEGMENT_LAYOUT_VERSION = 2, SEGMENT_HEADER_BYTES = 4096, SEGMENT_DIGEST_BYTES = 16 };

/* The file the payload was made from, as stat(2) saw it when it was opened. */
struct segment_source {
	uint64_t device, inode, size_bytes;
	int64_t mtime_ns, ctime_ns;
	char path[1024]; /* absolute, terminated */
};

struct segment_header {
	uint64_t magic;
	uint32_t layout_version;
	uint32_t generation;
	uint64_t total_bytes;		      /* of the segment, header page included */
	uint64_t payload_bytes;		      /* used bytes after the header page; the rest up to total_bytes is zero */
	uint8_t digest[SEGMENT_DIGEST_BYTES]; /* XXH3-128 (canonical form) of [SEGMENT_HEADER_BYTES, total_bytes) */
	int32_t node;
	uint32_t page_bytes;  /* base page size it was checked with */
	uint32_t pack_layout; /* version of the packing (src/kernel/pack.h) */
	uint32_t published;   /* 1: complete */
	uint32_t isa;	      /* whose kernels read the packing (enum pack_isa, src/kernel/pack.h) */
	uint32_t reserved;    /* 0 */
	char instance[64], model[128];
	struct segment_source source;
};
static_assert(sizeof(struct segment_header) == 72 + 192 + 40 + 1024, "segment_header is part of the segment layout");

#endif
