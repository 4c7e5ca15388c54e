/* A copy of a filled segment for another node. It is made by threads of the node that it is for: writes are near, reads
 * come over the link. What is written is not read soon, so it goes past the caches (non-temporal stores): a plain store
 * would first read the line that it replaces, and twice as much would go through memory. */
#include <errno.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "shm/crew.h"
#include "shm/segment.h"

enum { PART_BYTES = 8 << 20 };

struct copy {
	char *to; /* 64-byte aligned, as is `from` */
	const char *from;
	uint64_t n_bytes; /* a multiple of 64 */
};

#ifdef __SSE2__
static void copy_past_caches(char *to, const char *from, size_t n_bytes)
{
	for (size_t at = 0; at < n_bytes; at += 64) {
		const __m128i *source = (const __m128i *)(const void *)(from + at);
		__m128i *target = (__m128i *)(void *)(to + at);
		__m128i line[4];
		for (int i = 0; i < 4; i++)
			line[i] = _mm_load_si128(source + i);
		for (int i = 0; i < 4; i++)
			_mm_stream_si128(target + i, line[i]);
	}
	_mm_sfence(); /* streamed stores are in no order of their own: they are done before this part is */
}
#else
static void copy_past_caches(char *to, const char *from, size_t n_bytes)
{
	memcpy(to, from, n_bytes);
}
#endif

static void copy_part(void *context, unsigned part)
{
	const struct copy *copy = context;
	uint64_t at = part * (uint64_t)PART_BYTES, rest = copy->n_bytes - at;
	copy_past_caches(copy->to + at, copy->from + at, rest < PART_BYTES ? (size_t)rest : PART_BYTES);
}

int segment_copy(struct segment *to, const void *from, uint64_t from_bytes, const struct idset *cpus, struct err *err)
{
	if (to->total_bytes != from_bytes)
		return err_set(err, -EINVAL, "a segment of %llu bytes cannot become a copy of one of %llu",
			       (unsigned long long)to->total_bytes, (unsigned long long)from_bytes);
	/* Pages, and a header of one: whole lines of 64 bytes. */
	struct copy copy = {segment_payload(to), (const char *)from + SEGMENT_HEADER_BYTES,
			    to->total_bytes - SEGMENT_HEADER_BYTES};
	unsigned n_parts = (unsigned)((copy.n_bytes + PART_BYTES - 1) / PART_BYTES);
	int rc = crew_run(cpus, n_parts, copy_part, &copy);
	return rc ? err_set(err, rc, "a copying thread on node %u: %s", to->spec.node, strerror(-rc)) : 0;
}
