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

#include "numa/idset.h"

#define SEGMENT_MAGIC 0x3147455344544857ull /* "WHTDSEG1" */
enum { SEGMENT_LAYOUT_VERSION = 4, SEGMENT_HEADER_BYTES = 4096, SEGMENT_DIGEST_BYTES = 16, SEGMENT_FILES_MAX = 256 };

/* The files the payload was made from, in the order in which they make it up. */
struct segment_source {
	char path[1024];     /* of the first; absolute, terminated */
	uint64_t size_bytes; /* of all */
	uint32_t n_files;
	uint32_t quantize; /* what the matrices were made to be (enum model_quantize, src/load/model_quantize.h) */
	/* One for each: a hash of its name and of what stat(2) said of it when it was opened (src/source.c). The rest
	 * is 0. */
	uint64_t files[SEGMENT_FILES_MAX];
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
	uint64_t spread[IDSET_WORDS]; /* struct idset: the nodes it is interleaved over; empty: it is on `node` */
	struct segment_source source;
};
static_assert(sizeof(struct idset) == 8 * IDSET_WORDS, "a set is its words");
static_assert(sizeof(struct segment_source) == 1024 + 16 + 8 * SEGMENT_FILES_MAX,
	      "segment_source is part of the header");
static_assert(sizeof(struct segment_header) == 72 + 192 + 8 * IDSET_WORDS + sizeof(struct segment_source),
	      "segment_header is part of the segment layout");

static_assert(sizeof(struct segment_header) <= SEGMENT_HEADER_BYTES, "the header page holds it");

#endif
